"""The queue of jobs: enqueue them by a change, an event or a schedule, and offer them to workers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from memoryhub.ids import new_id
from memoryhub.jobs.context import query
from memoryhub.jobs.domain import next_firing
from memoryhub.jobs.registry import KINDS, Event, job_kind, schedules

OFFERED_SECONDS: Final = 10
"""Time for which a fetched job that was not started is not offered again."""


def enqueue(
    name: str,
    *,
    actor_id: UUID | None = None,
    key: str = "",
    payload: Mapping[str, Any] | None = None,
    delay_seconds: float = 0.0,
) -> UUID:
    """Put a job into the queue and return its id; call it in the transaction of the change that causes it.

    With a `key`, one job of this actor, kind and key waits at a time: where one does, its id is returned, and it
    begins after the caller's transaction. One that runs already does not count, for it may have looked too early.
    Its `delay_seconds` is that of the first.
    `payload` holds ids and numbers, never a text. Raises UnknownKind.
    """
    values: dict[str, Any] = {
        "id": new_id(),
        "actor": actor_id,
        "kind": job_kind(name).name,
        "key": key,
        "payload": json.dumps(dict(payload or {})),
        "delay_seconds": delay_seconds,
    }
    statement = "enqueue_for_nobody" if actor_id is None else "enqueue_for_actor"
    with transaction.atomic(savepoint=False):
        if key:
            query("join", actor=actor_id, kind=name, key=key)
        while not (rows := query(statement, **values)):
            pass
    return UUID(str(rows[0][0]))


@dataclass(frozen=True)
class Order:
    """A job that an actor's change asks for, one of its `key` at a time; see `enqueue`."""

    kind: str
    key: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    delay_seconds: float = 0.0


def enqueue_all(orders: Sequence[Order], *, actor_id: UUID) -> None:
    """Put several jobs of one actor into the queue, by two statements however many they are; else as `enqueue`."""
    if not orders:
        return
    values: dict[str, Any] = {
        "actor": actor_id,
        "ids": [new_id() for _ in orders],
        "kinds": [job_kind(order.kind).name for order in orders],
        "keys": [order.key for order in orders],
        "payloads": [json.dumps(dict(order.payload)) for order in orders],
        "delays": [float(order.delay_seconds) for order in orders],
    }
    with transaction.atomic(savepoint=False):
        query("join_all", server_prepared=True, **values)
        query("enqueue_all", server_prepared=True, **values)


def enqueue_triggered(*events: Event, actor_id: UUID, session_id: UUID) -> None:
    enqueue_triggered_by_each(*events, actor_id=actor_id, session_ids=[session_id])


def enqueue_triggered_by_each(*events: Event, actor_id: UUID, session_ids: Sequence[UUID]) -> None:
    """Enqueue what events of several sessions of one actor trigger."""
    has_model = settings.LLM.provider != "none"
    orders = {
        (kind.name, key): Order(kind.name, key, {"session_id": str(session_id)}, after.delay_seconds)
        for session_id in session_ids
        for event in events
        for kind in KINDS.values()
        for after in kind.after
        if after.event == event and (has_model or not after.needs_model)
        for key in [str(session_id) if after.key == "session" else "actor"]
    }
    enqueue_all(list(orders.values()), actor_id=actor_id)


@dataclass(frozen=True)
class Offer:
    """A job that a worker may claim, as long as it is due when it said; `lock` is that of its key, where it has one."""

    job_id: UUID
    kind: str
    due_at: datetime | None = None
    lock: int | None = None


def offer(count: int) -> list[Offer]:
    bounded = {each.name: each.at_once for each in KINDS.values() if each.at_once is not None}
    rows = query("offer", count=count, for_seconds=OFFERED_SECONDS, kinds=[*bounded], most=[*bounded.values()])
    return [Offer(UUID(str(job_id)), *rest) for job_id, *rest in rows]


def offer_of(job_id: UUID) -> Offer | None:
    """Return one waiting job as an offer, due or not; None where it does not wait any more.

    For whoever runs a job at once and by its id; a worker that was offered the same finds it taken.
    """
    rows = query("offer_one", id=job_id)
    return Offer(job_id, rows[0][0], lock=rows[0][1]) if rows else None


SCHEDULED: Final = "schedule:"
"""Prefix of the key of a schedule's job."""


@transaction.atomic
def fire_due() -> list[str]:
    """Enqueue the job of each schedule that is due, and move the schedule on, as one; return their names.

    A new schedule begins at its next time. One whose row another worker holds is left to it.
    """
    known, fired = schedules(), []
    rows = query("look_at_schedules", names=list(known))
    for name, next_at, now in rows:
        kind, recurrence = known[name]
        firing = next_firing(recurrence, next_at=next_at, now=now)
        if firing.next_at == next_at:
            continue
        query("move_schedule", name=name, next_at=firing.next_at, is_due=firing.is_due)
        if firing.is_due:
            enqueue(kind, key=f"{SCHEDULED}{name}")
            fired.append(name)
    if len(rows) < len(known):
        for name, (_, recurrence) in known.items():  # a row that another worker holds stays as it is
            query("know_schedule", name=name, next_at=recurrence.following(timezone.now()))
    return fired
