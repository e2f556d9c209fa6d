"""What waits for a person: its sorts, why it waits, and how far a person's round has come: pure (SPEC W2)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

MOST_SKIPPED: Final = 300
MOST_UNDONE: Final = 30
"""Decisions of a round that can be taken back one after the other, the last first."""


class Sort(StrEnum):
    """What sort of thing waits."""

    MEMORY = "memory"
    CORRECTION = "correction"
    """A memory that waits, and ends others once it is approved."""
    MERGE = "merge"


class Order(StrEnum):
    """What comes first."""

    OLDEST = "oldest"
    WEIGHTIEST = "weightiest"


class WaitsFor(StrEnum):
    """Why a memory waits for a person (SPEC M8-M10)."""

    UNTRUSTED_SOURCE = "untrusted_source"
    UNTRUSTED_WRITER = "untrusted_writer"
    UNSURE = "unsure"
    CONTRADICTS = "contradicts"
    DECIDED_AGAINST = "decided_against"
    ASKED = "asked"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What is known of a memory that waits, as far as it says why."""

    is_trusted: bool
    has_untrusted_source: bool
    confidence: float | None
    confidence_floor: float
    contradicts: bool
    was_decided_against: bool


def why_it_waits(memory: Waiting) -> list[WaitsFor]:
    """Return every reason there is, the gravest first; where nothing tells, somebody asked for it to wait."""
    unsure = memory.confidence is not None and memory.confidence < memory.confidence_floor
    reasons = {
        WaitsFor.UNTRUSTED_SOURCE: not memory.is_trusted and memory.has_untrusted_source,
        WaitsFor.UNTRUSTED_WRITER: not memory.is_trusted and not memory.has_untrusted_source,
        WaitsFor.DECIDED_AGAINST: memory.was_decided_against,
        WaitsFor.CONTRADICTS: memory.contradicts,
        WaitsFor.UNSURE: unsure,
    }
    return [reason for reason, holds in reasons.items() if holds] or [WaitsFor.ASKED]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that waits."""

    sort: Sort
    key: UUID

    def __str__(self) -> str:
        return f"{self.sort}:{self.key}"

    @property
    def is_merge(self) -> bool:
        """Whether it is two memories that may be one."""
        return self.sort is Sort.MERGE


def item_of(text: str) -> Item | None:
    """Return the item that a text names, None where it names none."""
    sort, _, key = text.partition(":")
    try:
        return Item(Sort(sort), UUID(key))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision of this round: what was done to which item, and what taking it back needs to know."""

    number: int
    item: Item
    verb: str
    way_back: Mapping[str, Any]


@dataclass(frozen=True)
class Round:
    """One person's way through what waits: what they skipped, and what they decided, the last at the end."""

    skipped: tuple[Item, ...] = ()
    decided: tuple[Decided, ...] = ()
    count: int = 0
    """Decisions of the round that stand; more than can be taken back."""
    number: int = 0
    about: str = ""
    """The filters that it goes by."""

    def narrowed(self, about: str) -> "Round":
        """Return the round as it is for these filters: begun anew where they are others, but for the way back."""
        return self if about == self.about else replace(self, about=about, skipped=(), count=0)

    def skip(self, item: Item) -> "Round":
        """Put an item to the end of the round."""
        others = [each for each in self.skipped if each.key != item.key]
        return replace(self, skipped=(*others, item)[-MOST_SKIPPED:])

    def unskip(self, item: Item) -> "Round":
        """Take an item from the end of the round."""
        return replace(self, skipped=tuple(each for each in self.skipped if each.key != item.key))

    def before(self, item: Item | None) -> Item | None:
        """Return what was skipped last, besides an item; None where there is nothing."""
        others = [each for each in self.skipped if item is None or each.key != item.key]
        return others[-1] if others else None

    def decide(self, item: Item, verb: str, way_back: Mapping[str, Any]) -> "Round":
        """Note a decision."""
        made = Decided(self.number + 1, item, verb, way_back)
        kept = (*self.decided, made)[-MOST_UNDONE:]
        return replace(self.unskip(item), decided=kept, count=self.count + 1, number=made.number)

    @property
    def last(self) -> Decided | None:
        """Return the decision that can be taken back next."""
        return self.decided[-1] if self.decided else None

    def take_back(self) -> "Round":
        """Forget the last decision."""
        return replace(self, decided=self.decided[:-1], count=max(0, self.count - 1))

    def as_json(self) -> dict[str, Any]:
        """Return the round as JSON types: ids and verbs, no text."""
        return {
            "skipped": [str(item) for item in self.skipped],
            "decided": [
                [each.number, str(each.item), each.verb, dict(each.way_back)] for each in self.decided
            ],
            "count": self.count,
            "number": self.number,
            "about": self.about,
        }


def round_of(stored: Mapping[str, Any] | None) -> Round:
    """Return the round that was stored as JSON, or a new one."""
    if not stored:
        return Round()
    return Round(
        skipped=tuple(item for text in stored["skipped"] if (item := item_of(text))),
        decided=tuple(
            Decided(number, item, verb, way_back)
            for number, text, verb, way_back in stored["decided"]
            if (item := item_of(text))
        ),
        count=stored["count"],
        number=stored["number"],
        about=stored["about"],
    )
