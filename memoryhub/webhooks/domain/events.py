"""Kinds of events, and the body of a delivery in the form of Standard Webhooks."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from strength.domain.memories import FeedChange, Status


class EventKind(StrEnum):
    MEMORY_CREATED = "memory.created"
    MEMORY_CHANGED = "memory.changed"
    MEMORY_ENDED = "memory.ended"
    MEMORY_WAITING = "memory.waiting"
    MEMORY_DECIDED = "memory.decided"
    MEMORY_FORGOTTEN = "memory.forgotten"
    SESSION_ENDED = "session.ended"
    SESSION_SUMMARISED = "session.summarised"
    PROJECT_ROUTED_LOW = "project.routed_low"
    DOCUMENT_COMPACTED = "document.compacted"
    SLEEP_FINISHED = "sleep.finished"
    IMPORT_FINISHED = "import.finished"
    EXPECTATION_BROKEN = "expectation.broken"
    CAP_REACHED = "cap.reached"


TEST: Final = "webhook.test"
"""The kind of what the test button sends; no endpoint chooses it."""


def memory_event(change: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> EventKind:
    """Return the kind of a change of a memory, by its revision's values before and after; none if it was deleted."""
    if change == FeedChange.ERASED:
        return EventKind.MEMORY_FORGOTTEN
    status = after.get("status")
    if status == Status.PENDING:
        return EventKind.MEMORY_WAITING
    if change == FeedChange.CREATED:
        return EventKind.MEMORY_CREATED
    if change == FeedChange.REJECTED or (before.get("status") == Status.PENDING and status is not None):
        return EventKind.MEMORY_DECIDED
    if change in (FeedChange.SUPERSEDED, FeedChange.ARCHIVED):
        return EventKind.MEMORY_ENDED
    return EventKind.MEMORY_CHANGED


@dataclass(frozen=True)
class Event:
    """An event in the order of commits; `user_id` is None where the user was erased since."""

    place: int
    kind: str
    agent_id: str
    user_id: str | None
    object_id: UUID
    at: datetime
    actor_id: UUID | None = None
    version: int | None = None

    @property
    def has_text(self) -> bool:
        return self.actor_id is not None and self.kind in WITH_TEXT


WITH_TEXT: Final = frozenset(
    kind for kind in EventKind if kind.startswith("memory.") and kind != EventKind.MEMORY_FORGOTTEN
) | {EventKind.SESSION_SUMMARISED, EventKind.DOCUMENT_COMPACTED}
"""Kinds of events about a text, which endpoints that may have texts get as it is when the event is sent."""


def body_of(event: Event, text: str | None = None) -> dict[str, Any]:
    """Return the body of a delivery: ids and kinds, and a text where there is one."""
    data: dict[str, Any] = {"agent_id": event.agent_id, "user_id": event.user_id, "id": str(event.object_id)}
    if event.version is not None:
        data["version"] = event.version
    if text is not None:
        data["text"] = text
    return {"type": event.kind, "timestamp": event.at.isoformat().replace("+00:00", "Z"), "data": data}
