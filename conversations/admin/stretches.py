"""What a session's timeline is made of besides its messages, each app its own: lines of `settings.TIMELINE_EVENTS`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from conversations.models import Session

MOST_OF_A_SORT = 60
"""Events of one sort on a page; what is left out is told."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """The part of a session that a page shows: some messages, and the time from the first to the next page's.

    `since` and `until` are None at the session's ends. `is_search`: the messages are those that were looked for, so
    only what belongs to one of them is wanted.
    """

    session: Session
    actor_id: UUID
    message_ids: frozenset[UUID]
    first_seq: int
    last_seq: int
    since: datetime | None
    until: datetime | None
    is_search: bool = False

    def times(self, name: str) -> dict[str, datetime]:
        """Return the time as conditions on a column."""
        bounds = {f"{name}__gte": self.since, f"{name}__lt": self.until}
        return {condition: bound for condition, bound in bounds.items() if bound is not None}


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened in a session, in words. It stands after a message, after a number, or at its time.

    `text` is somebody's, and is shown as text.
    """

    title: Any
    at: datetime
    text: str = field(default="", repr=False)
    page: str | None = None
    message_id: UUID | None = None
    after_seq: int | None = None
    state: Any = ""
    colour: str = ""
    details: tuple[Any, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Sort:
    """A sort of events: how it is called, the permissions that it takes, and who tells of it."""

    name: str
    label: Any
    needs: tuple[str, ...]
    events: Callable[[Stretch], Iterable[Event]]


def sorts() -> list[Sort]:
    """Return the sorts of all apps."""
    return [import_string(path) for path in settings.TIMELINE_EVENTS]
