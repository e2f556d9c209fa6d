"""Read events in the order of commits: changes of memories, and what triggers noted besides (ADR 60)."""

from itertools import chain
from operator import attrgetter
from typing import Any, Final

from django.db import transaction
from django.db.models import Q

from memoryhub.webhooks.domain.events import Event, memory_event
from memoryhub.webhooks.models import Endpoint
from memoryhub.webhooks.models import Event as EventRow
from strength.actions.revisions import changes_after, last_change
from strength.models import Memory, MemoryChange, MemoryRevision
from summaries.models import Document, Summary

TEXTS: Final[dict[str, tuple[Any, str]]] = {
    "memory": (Memory, "content"), "session": (Summary, "text"), "document": (Document, "text"),
}  # fmt: skip
"""Model and field of an event's text, by the first word of its kind."""


def events_after(place: int, *, agent_id: str | None, limit: int) -> list[Event]:
    """Return the events of an agent, or of all, behind a place: in order, each once.

    Waits for the transactions that are committing, as `changes_after` does. Neither table skips a row of the other:
    of each the first `limit` rows are read, and of all these the first.
    """
    with transaction.atomic():
        changes = changes_after(place, owner=_owner(agent_id), limit=limit)
        rows = list(_rows(Q(pk__gt=place) & _owner(agent_id))[:limit])
    found = sorted(chain(_memory_events(changes), map(_event, rows)), key=attrgetter("place"))
    return found[:limit]


def event_at(place: int, *, agent_id: str | None) -> Event | None:
    """Return the event at a place; None if it is not kept any more."""
    changes = MemoryChange.objects.filter(_owner(agent_id), pk=place).select_related("actor")
    return next(chain(_memory_events(list(changes)), map(_event, _rows(Q(pk=place) & _owner(agent_id)))), None)


def last_place() -> int:
    """Return the place of the last committed event."""
    with transaction.atomic():
        changes_after(0, owner=Q(pk=None), limit=1)  # waits for what is committing
        last = EventRow.objects.order_by("-pk").values_list("pk", flat=True).first()
        return max(last_change(), last or 0)


def text_of(event: Event) -> str | None:
    """Return an event's text as it is now; None if it was deleted, or the event has none."""
    if not event.has_text:
        return None
    model, field = TEXTS[event.kind.partition(".")[0]]
    rows = model.objects.filter(actor_id=event.actor_id, pk=event.object_id)
    text: str | None = rows.values_list(field, flat=True).first()
    return text


def is_behind(endpoint: Endpoint) -> bool:
    """Return whether there are committed events that an endpoint has not had."""
    newer = Q(pk__gt=endpoint.place) & _owner(endpoint.agent_id)
    return MemoryChange.objects.filter(newer).exists() or EventRow.objects.filter(newer).exists()


def _owner(agent_id: str | None) -> Q:
    return Q() if agent_id is None else Q(agent_id=agent_id)


def _rows(where: Q) -> Any:
    return EventRow.objects.filter(where).select_related("actor").order_by("pk")


def _event(row: EventRow) -> Event:
    user_id = row.actor.user_id if row.actor else None
    return Event(row.pk, row.kind, row.agent_id, user_id, row.object_id, row.at, row.actor_id)


def _memory_events(changes: list[MemoryChange]) -> list[Event]:
    """Return the events of changes; what became of a memory is in its revision of that version."""
    actor_ids = {change.actor_id for change in changes if change.actor_id is not None}
    revisions = {
        (memory_id, number): (before, after if verb == "create" else changed)
        for memory_id, number, verb, before, changed, after in MemoryRevision.objects.filter(
            actor_id__in=actor_ids, memory_id__in={change.memory_id for change in changes}
        ).values_list("memory_id", "number", "verb", "changed_before", "changed_after", "after")
    }
    return [
        Event(
            place=change.pk,
            kind=memory_event(change.change, *revisions.get((change.memory_id, change.version), ({}, {}))),
            agent_id=change.agent_id,
            user_id=change.actor.user_id if change.actor else None,
            object_id=change.memory_id,
            at=change.at,
            actor_id=change.actor_id,
            version=change.version,
        )
        for change in changes
    ]
