"""Catching up with what was said before somebody could work on it: the jobs of `manage.py backfill`.

Each entry of `settings.BACKFILLS` names the jobs that are missing; they are run here as a worker would run them, one
after the other. A job's row and its cursor say how far it came, so whoever stops may begin anew.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, cast
from uuid import UUID

from django.conf import settings
from django.utils.module_loading import import_string

from memoryhub.ids import new_id
from memoryhub.jobs.domain import State
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Order, enqueue, offer_of
from memoryhub.jobs.runner import run

MOST_ROUNDS: Final = 10_000
"""As often a job may leave a rest to a job of its own kind; more than any actor's history needs."""


@dataclass(frozen=True)
class Scope:
    """Whose past is worked on, and from when on; None means everybody's, and all."""

    agent_id: str | None = None
    user_id: str | None = None
    since: datetime | None = None


@dataclass(frozen=True)
class Piece:
    """One job that is missing, for how many messages or texts, and what is to be done before."""

    actor_id: UUID
    order: Order
    size: int
    prepare: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Outcome:
    """What became of a piece: done, or where it stands and why."""

    is_done: bool
    waits: bool = False
    reason: str = ""


def pieces(name: str, scope: Scope) -> Iterator[Piece]:
    """Yield the jobs that one entry of `BACKFILLS` misses; nothing is changed."""
    return cast(Callable[[Scope], Iterator[Piece]], import_string(settings.BACKFILLS[name]))(scope)


def work_off(piece: Piece) -> Outcome:
    """Do what is missing, with all that it leaves to further jobs of its like; what a worker has is left to them."""
    piece.prepare()
    order, crew = piece.order, new_id()
    job_id: UUID | None = enqueue(order.kind, actor_id=piece.actor_id, key=order.key, payload=order.payload)
    for _ in range(MOST_ROUNDS):
        offered = offer_of(job_id) if job_id else None
        if offered is None:
            break
        run(offered, crew=crew)
        job = Job.objects.filter(pk=offered.job_id, actor_id=piece.actor_id).first()
        if job is None or job.state == State.RUNNING:
            break
        if job.state != State.DONE:
            return Outcome(is_done=False, waits=job.state == State.QUEUED, reason=job.error)
        rest = Job.objects.filter(
            actor_id=piece.actor_id, kind=order.kind, key=order.key, state=State.QUEUED, attempts=0
        )
        job_id = rest.values_list("pk", flat=True).first()
    return Outcome(is_done=True)
