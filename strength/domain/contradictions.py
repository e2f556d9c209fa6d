"""Relations of extracted statements to known ones, and what follows from them (SPEC M8, M9).

Pure. A model is shown new and known statements and names the pairs that say the same or contradict each other; what
follows is decided here. The model is never asked what to do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from conversations.domain.content import one_line
from memoryhub.llm.types import array_schema, object_schema
from strength.domain.extraction import listed

LONGEST_SHOWN: Final = 1_000
MOST_ENDED: Final = 3
"""Known statements that one new one may end: more would rewrite somebody's life by one sentence."""


class Relation(StrEnum):
    """Relation of two statements; pairs that the model does not name are unrelated."""

    SAME = "same"
    CONTRADICTS = "contradicts"


class KnownState(StrEnum):
    """State of a known statement; a person rejected or corrected it, it awaits review, or it has ended."""

    CURRENT = "current"
    PENDING = "pending"
    ENDED = "ended"
    REJECTED = "rejected"
    CORRECTED = "corrected"


DECIDED_AGAINST: Final = frozenset({KnownState.REJECTED, KnownState.CORRECTED})


@dataclass(frozen=True)
class KnownMemory:
    """A statement that is or was remembered; last said at `said_at`, valid until `ended_at`."""

    memory_id: UUID
    text: str = field(repr=False)
    state: KnownState
    said_at: datetime
    ended_at: datetime | None = None


class Action(StrEnum):
    WRITE = "write"
    REINFORCE = "reinforce"
    SUPERSEDE = "supersede"
    WRITE_AS_PAST = "write_as_past"
    BLOCK = "block"


@dataclass(frozen=True)
class Resolution:
    action: Action
    about: tuple[KnownMemory, ...] = ()


Related = Mapping[int, Relation]
"""Relations of one new statement, by the place of the known one."""

JUDGING_SCHEMA: Final = object_schema(
    {
        "pairs": array_schema(
            object_schema(
                {
                    "new": {"type": "integer"},
                    "known": {"type": "integer"},
                    "verdict": {"type": "string", "enum": [relation.value for relation in Relation]},
                }
            )
        )
    }
)

_HEADINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"known": "known", "new": "new"},
    "ja": {"known": "既知", "new": "新規"},
}


def statement_blocks(known: Sequence[KnownMemory], new: Sequence[str], *, language: str) -> dict[str, str]:
    """Return known and new statements, numbered from 1, by their headings, to be fenced."""
    words = _HEADINGS.get(language, _HEADINGS["en"])
    blocks = {words["known"]: [each.text for each in known], words["new"]: new}
    return {
        heading: "\n".join(
            f"{number}. {one_line(text)[:LONGEST_SHOWN]}" for number, text in enumerate(texts, 1)
        )
        for heading, texts in blocks.items()
    }


def relations(data: Any, *, known: int, new: int) -> dict[int, dict[int, Relation]]:
    """Return relations by new and known place, from 0; a pair named as both contradicts itself in a detail."""
    found: dict[int, dict[int, Relation]] = {}
    for pair in listed(data, "pairs"):
        if not isinstance(pair, Mapping) or pair.get("verdict") not in list(Relation):
            continue
        new_place, place = _place(pair.get("new"), new), _place(pair.get("known"), known)
        if new_place is None or place is None:
            continue
        of_new, relation = found.setdefault(new_place, {}), Relation(pair["verdict"])
        of_new[place] = Relation.CONTRADICTS if place in of_new and of_new[place] != relation else relation
    return found


def resolve(
    known: Sequence[KnownMemory], related: Related, *, said_at: datetime, is_trusted: bool
) -> Resolution:
    """Decide what becomes of a new statement by its relations to the known ones.

    A person's decision outweighs all. A repeated statement reinforces the known one, unless that has ended before. A
    contradiction ends what was said before it; a statement about an earlier time is written as past.
    """
    same = [known[place] for place, relation in related.items() if relation is Relation.SAME]
    if rejected := [each for each in same if each.state in DECIDED_AGAINST]:
        return Resolution(Action.BLOCK, tuple(rejected[:1]))
    if again := [each for each in same if _is_same_still(each, said_at, is_trusted)]:
        return Resolution(Action.REINFORCE, tuple(again[:1]))
    contrary = [known[place] for place, relation in related.items() if relation is Relation.CONTRADICTS]
    current = [each for each in contrary if each.state is KnownState.CURRENT]
    if later := [each for each in current if each.said_at > said_at]:
        return Resolution(Action.WRITE_AS_PAST, (min(later, key=lambda each: each.said_at),))
    if current:
        return Resolution(Action.SUPERSEDE, tuple(current[:MOST_ENDED]))
    return Resolution(Action.WRITE)


def _is_same_still(known: KnownMemory, said_at: datetime, is_trusted: bool) -> bool:
    if known.state is KnownState.ENDED:
        return known.ended_at is not None and said_at <= known.ended_at
    # A pending memory is approved by its exact text only: a trusted paraphrase does not activate it.
    return known.state is KnownState.CURRENT or (known.state is KnownState.PENDING and not is_trusted)


def _place(number: Any, size: int) -> int | None:
    is_place = isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= size
    return number - 1 if is_place else None
