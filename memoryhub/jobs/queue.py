"""The job queue: enqueue jobs by changes, events and schedules, and offer them to workers."""

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
from memoryhub.jobs.registry import KINDS, Event, job_kind, limits_of, schedules
from memoryhub.jobs.retries import next_firing
from memoryhub.telemetry.spans import traceparent

OFFERED_SECONDS: Final = 10
"""Time for which a fetched job that was not started is not offered again."""


class OrderRefused(PermissionError):
    """A kind of job that this caller may not order; actions refuse it before, with a reason for the caller."""


def enqueue(
    name: str,
    *,
    actor_id: UUID | None = None,
    key: str = "",
    payload: Mapping[str, Any] | None = None,
    delay_seconds: float = 0.0,
    order: Mapping[str, Any] | None = None,
    lane: str = "",
) -> UUID:
    """Put a job into the queue and return its id; call it in the transaction of the change that causes it.

    With a `key`, at most one job of this actor, kind and key is queued: if there is one, its id is returned, it starts
    after the caller's transaction, and its delay is unchanged; it continues the trace of its first cause. A running job
    does not count, as it may have read its input before the change. `payload` holds ids and numbers, never a text.
    `order` is the caller's `order_of`; orders of different callers have different keys. `lane` names the caller that
    causes the job: callers take turns, and where none is known, actors. Raises UnknownKind, OrderRefused.
    """
    kind = job_kind(name)
    if order is not None and (
        kind.ordered_by == "server" or (kind.ordered_by == "trusted" and not order["is_trusted"])
    ):
        raise OrderRefused(f"No such caller may order the job {name!r}.")
    values: dict[str, Any] = {
        "id": new_id(),
        "actor": actor_id,
        "kind": kind.name,
        "order": None if order is None else json.dumps(dict(order)),
        "lane": _lane(lane or (order or {}).get("id", ""), actor_id),
        "key": key,
        "traceparent": traceparent(),
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


def _lane(caller: str, actor_id: UUID | None) -> str:
    return (caller or str(actor_id or ""))[:64]


@dataclass(frozen=True)
class Order:
    """Arguments of `enqueue` for a job of an actor."""

    kind: str
    key: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    delay_seconds: float = 0.0


def enqueue_all(orders: Sequence[Order], *, actor_id: UUID, lane: str = "") -> None:
    """Enqueue several jobs of one actor by two statements; else as `enqueue`."""
    if not orders:
        return
    values: dict[str, Any] = {
        "actor": actor_id,
        "lane": _lane(lane, actor_id),
        "traceparent": traceparent(),
        "ids": [new_id() for _ in orders],
        "kinds": [job_kind(order.kind).name for order in orders],
        "keys": [order.key for order in orders],
        "payloads": [json.dumps(dict(order.payload)) for order in orders],
        "delays": [float(order.delay_seconds) for order in orders],
    }
    with transaction.atomic(savepoint=False):
        query("join_all", server_prepared=True, **values)
        query("enqueue_all", server_prepared=True, **values)


def enqueue_triggered(*events: Event, actor_id: UUID, session_ids: Sequence[UUID], lane: str = "") -> None:
    """Enqueue the jobs that events of sessions of one actor trigger; `lane` as in `enqueue`."""
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
    enqueue_all(list(orders.values()), actor_id=actor_id, lane=lane)


@dataclass(frozen=True)
class Offer:
    """A job that a worker may claim while its `due_at` is unchanged; `lock` is the advisory lock of its key, if any."""

    job_id: UUID
    kind: str
    due_at: datetime | None = None
    lock: int | None = None


def offer(count: int) -> list[Offer]:
    limits = [(limit.name, kind.name, limit.most) for kind in KINDS.values() for limit in limits_of(kind)]
    names, kinds, most = map(list, zip(*limits, strict=True)) if limits else ([], [], [])
    has_model = settings.LLM.provider != "none"
    rows = query(
        "offer",
        count=count,
        for_seconds=OFFERED_SECONDS,
        limits=names,
        kinds=kinds,
        most=most,
        known=list(KINDS),
        without_model=[] if has_model else [kind.name for kind in KINDS.values() if kind.asks_model],
    )
    return [Offer(UUID(str(job_id)), *rest) for job_id, *rest in rows]


def offer_of(job_id: UUID) -> Offer | None:
    """Return a queued job as an offer, due or not; None if it is not queued any more.

    To run a job at once by its id; a worker with an offer of the same job finds it claimed.
    """
    rows = query("offer_one", id=job_id)
    return Offer(job_id, rows[0][0], lock=rows[0][1]) if rows else None


SCHEDULED: Final = "schedule:"
"""Prefix of the key of a schedule's job."""


@transaction.atomic
def fire_due() -> list[str]:
    """Enqueue the jobs of due schedules and advance these, atomically; return their names.

    A new schedule begins at its next time. Rows locked by another worker are skipped.
    """
    known_schedules, fired = schedules(), []
    rows = query("lock_schedules", names=list(known_schedules))
    for name, next_at, now in rows:
        kind, recurrence = known_schedules[name]
        firing = next_firing(recurrence, next_at=next_at, now=now)
        if firing.next_at == next_at:
            continue
        query("move_schedule", name=name, next_at=firing.next_at, is_due=firing.is_due)
        if firing.is_due:
            enqueue(kind, key=f"{SCHEDULED}{name}")
            fired.append(name)
    if len(rows) < len(known_schedules):
        for name, (_, recurrence) in known_schedules.items():  # existing rows are left unchanged
            query("insert_schedule", name=name, next_at=recurrence.following(timezone.now()))
    return fired
