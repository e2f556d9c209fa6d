"""The review queue: what is pending and why, and the session of one reviewer (SPEC W2). Pure."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from strength.domain.memories import FORGET_VERB, LOST_SOURCE_VERB, RETURN_VERB

MAX_SKIPPED: Final = 300
COUNT: Final = "count"
"""Key of a decision's undo data: the number of items that it decided."""
MAX_UNDO_STEPS: Final = 30
"""Latest decisions of a round that can be undone."""


class Sort(StrEnum):
    MEMORY = "memory"
    CORRECTION = "correction"
    """A pending memory that supersedes others once it is approved."""
    MERGE = "merge"


class Order(StrEnum):
    OLDEST = "oldest"
    WEIGHTIEST = "weightiest"


class Assigned(StrEnum):
    """Filters of the queue by the person that an item is assigned to."""

    MINE = "mine"
    NO_ONE = "no_one"


class PendingReason(StrEnum):
    """Reasons why a memory needs approval (SPEC M8-M10)."""

    UNTRUSTED_SOURCE = "untrusted_source"
    UNTRUSTED_WRITER = "untrusted_writer"
    UNSURE = "unsure"
    SENSITIVE = "sensitive"
    UNGROUNDED = "ungrounded"
    CONTRADICTS = "contradicts"
    DECIDED_AGAINST = "decided_against"
    RESEMBLES = "resembles"
    UNCOMPARED = "uncompared"
    RETURNED = "returned"
    LOST_SOURCE = "lost_source"
    TO_BE_FORGOTTEN = "to_be_forgotten"
    ASKED = "asked"


REASONS_BY_VERB: Final[Mapping[str, PendingReason]] = {
    RETURN_VERB: PendingReason.RETURNED,
    LOST_SOURCE_VERB: PendingReason.LOST_SOURCE,
    FORGET_VERB: PendingReason.TO_BE_FORGOTTEN,
}
"""Changes by the server after which only a person decides, not a repetition."""


APPROVED_BY_RULES: Final = frozenset({PendingReason.UNTRUSTED_SOURCE, PendingReason.UNTRUSTED_WRITER})
"""Reasons that a rule may decide by approval: a person's trust, and nothing that a check of the text has found."""

REJECTED_BY_RULES: Final = APPROVED_BY_RULES | {PendingReason.UNSURE, PendingReason.UNGROUNDED}
"""Reasons that a rule may decide by rejection. The others name a former decision, a wish, or another memory."""

MAX_DIGITS: Final = 12
"""Digits of one number of a text that a rule decides; rules let numbers vary, and more could hold a message."""


def is_decided_by_rules(verb: str, reasons: Iterable[PendingReason]) -> bool:
    """Return whether a rule with a verb may decide about a memory that waits for these reasons."""
    return set(reasons) <= {"approve": APPROVED_BY_RULES, "reject": REJECTED_BY_RULES}.get(verb, frozenset())


def has_long_number(text: str) -> bool:
    return re.search(rf"\d{{{MAX_DIGITS + 1}}}", unicodedata.normalize("NFKC", text)) is not None


def pending_reasons(
    *,
    is_trusted: bool,
    has_untrusted_source: bool,
    confidence: float | None,
    confidence_floor: float,
    contradicts: bool,
    was_decided_against: bool,
    resembles: bool = False,
    is_uncompared: bool = False,
    last_verb: str = "",
    has_secret: bool = False,
    is_ungrounded: bool = False,
) -> list[PendingReason]:
    """Return all reasons, the gravest first; without any other, the writer requested approval.

    `last_verb` is that of the memory's last revision.
    """
    reasons = {
        PendingReason.UNTRUSTED_SOURCE: not is_trusted and has_untrusted_source,
        PendingReason.UNTRUSTED_WRITER: not is_trusted and not has_untrusted_source,
        PendingReason.DECIDED_AGAINST: was_decided_against,
        PendingReason.RESEMBLES: resembles,
        PendingReason.UNCOMPARED: is_uncompared,
        **{reason: verb == last_verb for verb, reason in REASONS_BY_VERB.items()},
        PendingReason.SENSITIVE: has_secret,
        PendingReason.UNGROUNDED: is_ungrounded,
        PendingReason.CONTRADICTS: contradicts,
        PendingReason.UNSURE: confidence is not None and confidence < confidence_floor,
    }
    return [reason for reason, holds in reasons.items() if holds] or [PendingReason.ASKED]


def masked_wording(text: str) -> str:
    """Return a text in which case, width, spaces and numbers do not count."""
    return re.sub(r"\d+", "0", " ".join(unicodedata.normalize("NFKC", text).casefold().split()))


@dataclass(frozen=True, slots=True)
class Item:
    sort: Sort
    key: UUID

    def __str__(self) -> str:
        return f"{self.sort}:{self.key}"

    @property
    def is_merge(self) -> bool:
        return self.sort is Sort.MERGE


def parse_item(text: str) -> Item | None:
    sort, _, key = text.partition(":")
    try:
        return Item(Sort(sort), UUID(key))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of this round; `undo_data` is needed to undo it."""

    number: int
    item: Item
    verb: str
    undo_data: Mapping[str, Any]

    @property
    def count(self) -> int:
        """Return how many items it decided."""
        return int(self.undo_data.get(COUNT, 1))


@dataclass(frozen=True)
class Round:
    """One reviewer's session: skipped items and decisions, the latest last."""

    skipped: tuple[Item, ...] = ()
    decided: tuple[Decision, ...] = ()
    count: int = 0
    """Decisions of the round without undone ones; may exceed the length of `decided`."""
    number: int = 0
    filter_query: str = ""
    """The filters of the queue, as a query string."""
    tally: Mapping[str, int] = field(default_factory=dict)
    """`count` by verb."""

    def with_filters(self, filter_query: str) -> "Round":
        """Return the round for these filters; other filters reset it, but decisions can still be undone."""
        if filter_query == self.filter_query:
            return self
        return replace(self.restart(), filter_query=filter_query)

    def restart(self) -> "Round":
        """Return a round from its beginning; decisions can still be undone."""
        return replace(self, skipped=(), count=0, tally={})

    def skip(self, item: Item) -> "Round":
        others = [each for each in self.skipped if each.key != item.key]
        return replace(self, skipped=(*others, item)[-MAX_SKIPPED:])

    def unskip(self, item: Item) -> "Round":
        return replace(self, skipped=tuple(each for each in self.skipped if each.key != item.key))

    def before(self, item: Item | None) -> Item | None:
        """Return the item that was skipped last, other than `item`."""
        others = [each for each in self.skipped if item is None or each.key != item.key]
        return others[-1] if others else None

    def decide(self, item: Item, verb: str, undo_data: Mapping[str, Any]) -> "Round":
        made = Decision(self.number + 1, item, verb, undo_data)
        kept = (*self.decided, made)[-MAX_UNDO_STEPS:]
        tally = self._tallied(verb, made.count)
        return replace(self.unskip(item), decided=kept, count=self.count + made.count, number=made.number, tally=tally)

    def _tallied(self, verb: str, more: int) -> dict[str, int]:
        return {**self.tally, verb: max(0, self.tally.get(verb, 0) + more)}

    @property
    def last(self) -> Decision | None:
        return self.decided[-1] if self.decided else None

    def undo_last(self) -> "Round":
        if (last := self.last) is None:
            return self
        tally = self._tallied(last.verb, -last.count)
        return replace(self, decided=self.decided[:-1], count=max(0, self.count - last.count), tally=tally)

    def as_json(self) -> dict[str, Any]:
        """Return the round as JSON types, for the session: ids and verbs, no text."""
        return {
            "skipped": [str(item) for item in self.skipped],
            "decided": [[each.number, str(each.item), each.verb, dict(each.undo_data)] for each in self.decided],
            "count": self.count,
            "number": self.number,
            "about": self.filter_query,
            "tally": dict(self.tally),
        }


def load_round(stored: Mapping[str, Any] | None) -> Round:
    if not stored:
        return Round()
    skipped = tuple(item for text in stored["skipped"] if (item := parse_item(text)))
    decided = tuple(
        Decision(number, item, verb, undo_data)
        for number, text, verb, undo_data in stored["decided"]
        if (item := parse_item(text))
    )
    return Round(skipped, decided, stored["count"], stored["number"], stored["about"], stored.get("tally", {}))
