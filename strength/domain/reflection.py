"""What a model is asked about episodes, and what counts of its answer: lessons that outlast them (SPEC L2). Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from conversations.domain.cleaning import one_line
from strength.domain.extraction import LONGEST_EPISODE, LONGEST_ITEM, confidence_of, is_storable

MOST_EPISODES: Final = 20
MOST_LESSONS: Final = 5
MOST_KNOWN: Final = 20

LESSONS_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "lessons": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "episodes": {"type": "array", "items": {"type": "integer"}},
                    "confidence": {"type": "number"},
                },
                "required": ["text", "episodes", "confidence"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["lessons"],
    "additionalProperties": False,
}

_HEADINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"lessons": "known lessons", "episodes": "episodes"},
    "ja": {"lessons": "既知の教訓", "episodes": "出来事"},
}


@dataclass(frozen=True)
class Lesson:
    """A lesson, and the episodes that teach it."""

    text: str = field(repr=False)
    confidence: float
    episode_ids: tuple[UUID, ...]


def blocks(episodes: Sequence[str], lessons: Sequence[str], *, language: str) -> dict[str, str]:
    """Return episodes, numbered from 1, and the lessons that are known, by their headings, to be fenced."""
    words = _HEADINGS.get(language, _HEADINGS["en"])
    known = {words["lessons"]: "\n".join(f"- {one_line(each)}" for each in lessons)} if lessons else {}
    told = [f"{number}. {one_line(each)[:LONGEST_EPISODE]}" for number, each in enumerate(episodes, 1)]
    return {**known, words["episodes"]: "\n".join(told)}


def lessons_of(data: Any, episode_ids: Sequence[UUID]) -> list[Lesson]:
    """Return what counts of an answer: lessons that can be kept and name an episode."""
    given = data.get("lessons") if isinstance(data, Mapping) else None
    found = [_lesson(raw, episode_ids) for raw in given] if isinstance(given, list) else []
    return [lesson for lesson in found if lesson is not None][:MOST_LESSONS]


def _lesson(raw: Any, episode_ids: Sequence[UUID]) -> Lesson | None:
    if not isinstance(raw, Mapping):
        return None
    text, numbers, sure = raw.get("text"), raw.get("episodes"), confidence_of(raw.get("confidence"))
    if not isinstance(text, str) or not is_storable(text, LONGEST_ITEM) or sure is None:
        return None
    named = numbers if isinstance(numbers, list) else []
    taught_by = tuple(each for number, each in enumerate(episode_ids, 1) if number in named)
    return Lesson(text.strip(), sure, taught_by) if taught_by else None
