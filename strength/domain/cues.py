"""Cues of memories: words for the search that their texts lack, as a model answers them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from conversations.domain.content import one_line
from memoryhub.llm.types import array_schema, object_schema
from memoryhub.validators import text_problem
from strength.domain.memories import MAX_CUES_LENGTH

MAX_MEMORIES: Final = 20
"""Memories of one call."""

MAX_SHOWN_LENGTH: Final = 1_000
"""Characters of a memory that the model reads."""

CUES_SCHEMA: Final = object_schema(
    {
        "memories": array_schema(
            object_schema({"number": {"type": "integer"}, "cues": {"type": "string", "default": ""}})
        )
    }
)
_HEADINGS: Final[Mapping[str, str]] = {"en": "memories", "ja": "記憶"}


def text_blocks(texts: Sequence[str], *, language: str) -> dict[str, str]:
    """Return the texts, numbered from 1, one line each, under their heading."""
    lines = [f"{number}. {one_line(text)[:MAX_SHOWN_LENGTH]}" for number, text in enumerate(texts, 1)]
    return {_HEADINGS.get(language, _HEADINGS["en"]): "\n".join(lines)}


def cues_found(answer: Any, texts: Sequence[str]) -> dict[int, str]:
    """Return the usable cues of an answer by the index of their text; the first answer for a number counts."""
    found: dict[int, str] = {}
    for raw in answer["memories"]:
        index, cues = raw["number"] - 1, usable_cues(raw["cues"])
        if 0 <= index < len(texts) and cues:
            found.setdefault(index, cues)
    return found


def usable_cues(value: Any) -> str:
    """Return cues on one line, at most MAX_CUES_LENGTH characters; "" for what is no text that can be stored."""
    cues = one_line(value) if isinstance(value, str) else ""
    return "" if text_problem(cues) else cues[:MAX_CUES_LENGTH]
