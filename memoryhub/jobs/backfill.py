"""Backfilling (`manage.py backfill`): jobs for messages that were stored before anything could process them.

The sources that apps register name the missing jobs; they are run here as a worker would run them, one after the
other. A job's row and its cursor keep its progress, so a run may be stopped and repeated.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.utils import timezone

from memoryhub.ids import new_id
from memoryhub.jobs.domain import State
from memoryhub.jobs.executor import run
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Order, enqueue, offer_of

MAX_ROUNDS: Final = 10_000
"""Highest number of follow-up jobs of the same kind for one piece."""
GOES_ON_WITHIN: Final = timedelta(seconds=1)
"""A job that is due again so soon is only cut into parts; any other waits for something."""


@dataclass(frozen=True)
class Scope:
    """Actors and start date of a backfill; None means all."""

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


class BackfillResult(StrEnum):
    DONE = "done"
    ELSEWHERE = "elsewhere"
    WAITS = "waits"
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """Result of a piece, and why; `elsewhere` means that a worker has it."""

    result: BackfillResult
    reason: str = ""


Source = Callable[[Scope], Iterator[Piece]]
"""Yields the jobs that are missing in a scope, and changes nothing."""

SOURCES: Final[dict[str, Source]] = {}
"""Backfill sources by name; apps register theirs in `AppConfig.ready`."""


def run_piece(piece: Piece) -> Outcome:
    """Do what is missing, with all that it leaves to further jobs of its like; what a worker has is left to them."""
    piece.prepare()
    order, worker = piece.order, new_id()
    job_id: UUID | None = enqueue(order.kind, actor_id=piece.actor_id, key=order.key, payload=order.payload)
    for _ in range(MAX_ROUNDS):
        if job_id is None:
            return Outcome(BackfillResult.DONE)
        before = _look(piece, job_id)
        offered = offer_of(job_id)
        if before is None or offered is None:
            return Outcome(BackfillResult.ELSEWHERE)
        run(offered, worker)
        job = _look(piece, job_id)
        if job is None or job.attempts != before.attempts + 1 or job.state == State.RUNNING:
            return Outcome(BackfillResult.ELSEWHERE)
        if job.state == State.DONE:
            alike = Job.objects.filter(actor_id=piece.actor_id, kind=order.kind, key=order.key)
            rest = alike.filter(state=State.QUEUED, attempts=0)
            job_id = rest.values_list("pk", flat=True).first()
        elif job.state != State.QUEUED:
            return Outcome(BackfillResult.FAILED, job.error)
        elif job.due_at > timezone.now() + GOES_ON_WITHIN:
            return Outcome(BackfillResult.WAITS, job.error)
    return Outcome(BackfillResult.WAITS, f"It was not finished in {MAX_ROUNDS:,} rounds; run the backfill again.")


def _look(piece: Piece, job_id: UUID) -> Job | None:
    return Job.objects.filter(pk=job_id, actor_id=piece.actor_id).first()
