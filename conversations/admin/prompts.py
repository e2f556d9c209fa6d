"""A prompt as it will be sent, cut into what a page can show; what is cut is told, and the whole is a file away."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.html import escape

from conversations.domain.assembly import Assembly

MOST_BYTES: Final = 60_000
"""Of all texts together, as they stand in the page: an escaped quotation mark is six."""

LEAST_OF_THE_LAST: Final = 4_000
"""What is kept for the user's own message, which stands last."""

SHORTEST_DATA: Final = 200

_CODE: Final = re.compile(r"(?<=<remembered-)[0-9a-f]{32}(?=>)|(?<=</remembered-)[0-9a-f]{32}(?=>)")
_FIXED: Final = "0" * 32


@dataclass(frozen=True)
class Text:
    """One text of the prompt; `length` is that of the whole."""

    text: str = field(repr=False)
    length: int

    @property
    def is_cut(self) -> bool:
        """Return whether there is more of it."""
        return len(self.text) < self.length


@dataclass(frozen=True)
class Turn:
    """One message: whose it is, and its blocks. `role` "" is the `system` that stands apart."""

    role: str
    texts: list[Text]


@dataclass(frozen=True)
class ShownPrompt:
    """What is sent, message by message, and as JSON where that is short enough to stand here."""

    turns: list[Turn]
    as_json: str | None = field(repr=False)

    @property
    def is_cut(self) -> bool:
        """Return whether a text is cut."""
        return any(text.is_cut for turn in self.turns for text in turn.texts)


def prompt_as_json(assembly: Assembly) -> str:
    """Return what is sent, as an API would take it."""
    body: dict[str, Any] = {} if assembly.system is None else {"system": assembly.system}
    return json.dumps({**body, "messages": assembly.messages}, ensure_ascii=False, indent=2)


def prompt_to_show(assembly: Assembly) -> ShownPrompt:
    """Return the prompt with its texts cut where they are too long for a page."""
    sent = [("", assembly.system)] if assembly.system is not None else []
    sent += [(message["role"], message["content"]) for message in assembly.messages]
    texts = [(role, list(_texts(content))) for role, content in sent]
    room, turns = MOST_BYTES - LEAST_OF_THE_LAST, []
    for place, (role, blocks) in enumerate(texts):
        if place == len(texts) - 1:
            room += LEAST_OF_THE_LAST
        shown = []
        for block in blocks:
            text = _within(block, room)
            room -= _size(text)
            shown.append(Text(text, len(block)))
        turns.append(Turn(role, shown))
    whole = prompt_as_json(assembly)
    return ShownPrompt(turns, whole if _size(whole) <= MOST_BYTES else None)


def code_tokens(assembly: Assembly, count: Callable[[str], int]) -> int:
    """Return how many tokens more than a fixed one the random code takes that the remembered block stands between."""
    texts = [text for message in assembly.messages for text in _texts(message["content"])]
    return sum(count(text) - count(_CODE.sub(_FIXED, text)) for text in texts if _CODE.search(text))


def _texts(content: str | Sequence[dict[str, Any]] | None) -> Iterator[str]:
    if isinstance(content, str):
        yield content
        return
    for block in content or ():
        yield block["text"] if block.get("type") == "text" else _reference(block)


def _reference(block: dict[str, Any]) -> str:
    """Return an image's block as JSON, without the bytes of the image."""
    return json.dumps(_without_data(block), ensure_ascii=False)


def _without_data(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_data(each) for name, each in value.items()}
    if isinstance(value, str) and len(value) > SHORTEST_DATA:
        return f"{value[:40]}… ({len(value)})"
    return value


def _size(text: str) -> int:
    return len(escape(text).encode())


def _within(text: str, most: int) -> str:
    """Return as much of a text's beginning as fits; halving is near enough for a page."""
    shown = text[: max(0, most)]
    while shown and _size(shown) > most:
        shown = shown[: len(shown) // 2]
    return shown
