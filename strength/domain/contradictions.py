"""Whether something new says what is known already, or that it no longer holds (SPEC M8, M9).

Pure. A model is shown new and known statements, and names the pairs that say the same or contradict each other; what
follows from that is decided here. The model is never asked what to do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from conversations.domain.text import one_line

LONGEST_SHOWN: Final = 1_000
MOST_ENDED: Final = 3
"""As many known statements may one new one end: more would be a rewrite of somebody's life by one sentence."""


class Verdict(StrEnum):
    """How two statements relate; whatever is not named is different."""

    SAME = "same"
    CONTRADICTS = "contradicts"


class Standing(StrEnum):
    """How a known statement stands: believed, waiting, ended, refused by a person, or edited away by one."""

    HOLDS = "holds"
    WAITS = "waits"
    ENDED = "ended"
    REFUSED = "refused"
    PUT_RIGHT = "put_right"


AGAINST: Final = frozenset({Standing.REFUSED, Standing.PUT_RIGHT})


@dataclass(frozen=True)
class Known:
    """A statement that is remembered, or was; `said_at` is when it was last said, `ended_at` until when it held."""

    memory_id: UUID
    text: str = field(repr=False)
    standing: Standing
    said_at: datetime
    ended_at: datetime | None = None


class Course(StrEnum):
    """What becomes of a new statement."""

    WRITE = "write"
    SAY_AGAIN = "say_again"
    SUPERSEDE = "supersede"
    FILE_AS_PAST = "file_as_past"
    HOLD_BACK = "hold_back"


@dataclass(frozen=True)
class Ruling:
    """A course, and the known statements that it is about."""

    course: Course
    about: tuple[Known, ...] = ()


Related = Mapping[int, Verdict]
"""Verdicts about one new statement, by the place of the known one."""

JUDGING_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "pairs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "new": {"type": "integer"},
                    "known": {"type": "integer"},
                    "verdict": {"type": "string", "enum": [verdict.value for verdict in Verdict]},
                },
                "required": ["new", "known", "verdict"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["pairs"],
    "additionalProperties": False,
}

_HEADINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"known": "known", "new": "new"},
    "ja": {"known": "既知", "new": "新規"},
}


def statement_blocks(known: Sequence[Known], new: Sequence[str], *, language: str) -> dict[str, str]:
    """Return known and new statements, numbered from 1, by their headings, to be fenced."""
    words = _HEADINGS.get(language, _HEADINGS["en"])
    return {words["known"]: _numbered([each.text for each in known]), words["new"]: _numbered(new)}


def verdicts(data: Any, *, known: int, new: int) -> dict[int, dict[int, Verdict]]:
    """Return what an answer says of each new statement, by places from 0; pairs of nothing are ignored.

    Where it says both of a pair, they contradict each other in a detail: that is not the same.
    """
    found: dict[int, dict[int, Verdict]] = {}
    for pair in _pairs(data):
        places = _place(pair.get("new"), new), _place(pair.get("known"), known)
        if None in places or pair.get("verdict") not in list(Verdict):
            continue
        of_new, verdict = found.setdefault(places[0] or 0, {}), Verdict(pair["verdict"])
        place = places[1] or 0
        of_new[place] = Verdict.CONTRADICTS if place in of_new and of_new[place] != verdict else verdict
    return found


def rule(known: Sequence[Known], related: Related, *, said_at: datetime, is_believed: bool) -> Ruling:
    """Decide what becomes of a new statement, by how it relates to the known ones.

    What a person refused or edited away outweighs all. What is said again is no second row; what had ended and is
    said of a later time is. A contradiction ends what was said before it; said of an earlier time, it is the past.
    """
    same = [known[place] for place, verdict in related.items() if verdict is Verdict.SAME]
    if refused := [each for each in same if each.standing in AGAINST]:
        return Ruling(Course.HOLD_BACK, tuple(refused[:1]))
    if again := [each for each in same if _is_same_still(each, said_at, is_believed)]:
        return Ruling(Course.SAY_AGAIN, tuple(again[:1]))
    contrary = [known[place] for place, verdict in related.items() if verdict is Verdict.CONTRADICTS]
    holding = [each for each in contrary if each.standing is Standing.HOLDS]
    if later := [each for each in holding if each.said_at > said_at]:
        return Ruling(Course.FILE_AS_PAST, (min(later, key=lambda each: each.said_at),))
    if holding:
        return Ruling(Course.SUPERSEDE, tuple(holding[:MOST_ENDED]))
    return Ruling(Course.WRITE)


def _is_same_still(known: Known, said_at: datetime, is_believed: bool) -> bool:
    if known.standing is Standing.ENDED:
        return known.ended_at is not None and said_at <= known.ended_at
    # What waits is approved by its exact text: believed words do not bring it in.
    return known.standing is Standing.HOLDS or (known.standing is Standing.WAITS and not is_believed)


def _pairs(data: Any) -> list[Mapping[str, Any]]:
    pairs = data.get("pairs") if isinstance(data, Mapping) else None
    return [pair for pair in pairs if isinstance(pair, Mapping)] if isinstance(pairs, list) else []


def _place(number: Any, size: int) -> int | None:
    is_place = isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= size
    return number - 1 if is_place else None


def _numbered(texts: Sequence[str]) -> str:
    return "\n".join(f"{number}. {one_line(text)[:LONGEST_SHOWN]}" for number, text in enumerate(texts, 1))
