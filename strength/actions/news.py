"""News of memories for a person: what changed in the feed since the place that the person has read up to (SPEC W14)."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction

from strength.actions.revisions import FEED_LOCK, last_change
from strength.models import MemoryChange, NewsPlace
from strength.sql import QUERIES, run_query

MAX_CHANGES: Final = 100_000
"""Latest changes of the feed that are compared; earlier ones are left out."""
MAX_FORGOTTEN: Final = 50
"""Agents and users for which deleted memories are counted."""


class NewsKind(StrEnum):
    """Kind of news of a memory, by its last change."""

    LEARNT = "learnt"
    CHANGED = "changed"
    CONTRADICTED = "contradicted"
    FADED = "faded"
    """Archived by a sleep."""
    ARCHIVED = "archived"
    REJECTED = "rejected"


@dataclass(frozen=True, kw_only=True)
class Window:
    """The changes of the feed after `since` up to `until`, of an agent, a user and a kind where these are not empty.

    With `moment`, those since then alone: imports bring changes of former times. `person` is the id of an account:
    memories that it alone changed are left out; empty to include them.
    """

    since: int
    until: int
    moment: datetime | None = None
    agent_id: str = ""
    user_id: str = ""
    kind: NewsKind | None = None
    person: str = ""

    @property
    def first(self) -> int:
        """Return the place after which changes are compared."""
        return max(self.since, self.until - MAX_CHANGES)

    @property
    def is_cut(self) -> bool:
        return self.first > self.since and MemoryChange.objects.filter(pk__gt=self.since, pk__lte=self.first).exists()

    def values(self) -> dict[str, Any]:
        return {
            "since": self.first,
            "until": self.until,
            "moment": self.moment,
            "agent_id": self.agent_id or None,
            "user_id": self.user_id or None,
            "person": self.person or None,
        }


@dataclass(frozen=True)
class NewsLine:
    """One memory with all its changes of a window: the last one's place, and its first and last version in it."""

    actor_id: UUID
    memory_id: UUID
    agent_id: str
    user_id: str
    place: int
    kind: str
    changes: int
    first: int
    last: int


@transaction.atomic
def last_committed_change() -> int:
    """Return the highest place of the feed below which no transaction is still committing."""
    run_query("SELECT pg_advisory_xact_lock(%(lock)s)", {"lock": FEED_LOCK})
    return last_change()


def place_before(moment: datetime, *, until: int) -> int:
    """Return the place before all changes since a moment; `until` where there are none."""
    [[place]] = run_query(QUERIES["place_before"], {"moment": moment})
    return until if place is None else min(int(place), until)


def news_lines(window: Window, *, after: int | None, limit: int) -> list[NewsLine]:
    """Return lines by agent and user, the latest first, from behind the line of the change `after`."""
    former = (
        MemoryChange.objects.filter(pk=after, actor__isnull=False).select_related("actor").first() if after else None
    )
    rows = run_query(
        QUERIES["news_lines"],
        {
            **window.values(),
            "kind": window.kind,
            "after_place": former.pk if former else None,
            "after_agent_id": former.agent_id if former else "",
            "after_user_id": former.actor.user_id if former and former.actor else "",
            "limit": limit,
        },
    )
    return [NewsLine(*row) for row in rows]


def count_news(window: Window, actor_ids: Collection[UUID] = ()) -> tuple[dict[str, int], dict[UUID, dict[str, int]]]:
    """Return how many memories there are of each kind, of all agents and users, and of each of some."""
    totals: dict[str, int] = {}
    by_actor: dict[UUID, dict[str, int]] = defaultdict(dict)
    for actor_id, kind, count in run_query(QUERIES["count_news"], {**window.values(), "actor_ids": list(actor_ids)}):
        (totals if actor_id is None else by_actor[actor_id])[kind] = int(count)
    return totals, by_actor


def count_forgotten(window: Window) -> Sequence[tuple[str, str | None, int]]:
    """Return agent, user (None for erased users) and the number of memories that were deleted, the most first."""
    return [
        (agent, user, int(count))
        for agent, user, count in run_query(QUERIES["count_forgotten"], {**window.values(), "limit": MAX_FORGOTTEN})
    ]


def place_of(person: User) -> NewsPlace:
    """Return how far a person has read; an unsaved row for who never marked anything as read."""
    return NewsPlace.objects.filter(person=person).first() or NewsPlace(person=person)


def mark_as_read(*, person: User, place: int | None, now: datetime) -> None:
    """Keep the place that a person has read up to; None for nothing, as before the first time."""
    read_at = None if place is None else now
    NewsPlace.objects.update_or_create(person=person, defaults={"place": place, "read_at": read_at})


def want_mail(*, person: User, wants_mail: bool) -> None:
    NewsPlace.objects.update_or_create(person=person, defaults={"wants_mail": wants_mail})
