"""Backfilling (`manage.py backfill`): jobs for messages that were stored before anything could process them.

Apps register sources, which yield the missing jobs; these are run here as by a worker, one after the other. A job's row
and its cursor store the progress, so a run may be stopped and repeated.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.utils import timezone

from memoryhub.ids import new_id
from memoryhub.jobs.executor import run
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Order, enqueue, offer_of
from memoryhub.jobs.retries import State

MAX_ROUNDS: Final = 10_000
"""Highest number of follow-up jobs of the same kind for one piece."""
GOES_ON_WITHIN: Final = timedelta(seconds=1)
"""A job that is due again so soon is processed in parts; others wait for something."""


@dataclass(frozen=True)
class Scope:
    """Actors and start date of a backfill; None means all."""

    agent_id: str | None = None
    user_id: str | None = None
    since: datetime | None = None


@dataclass(frozen=True)
class Piece:
    """One missing job, the number of messages or texts it is for, and a function to call before it."""

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
    """Result of a piece, with the reason; `elsewhere` means that a worker has it."""

    result: BackfillResult
    reason: str = ""


Source = Callable[[Scope], Iterator[Piece]]
"""Yields the jobs that are missing in a scope, and changes nothing."""

SOURCES: Final[dict[str, Source]] = {}
"""Backfill sources by name; apps register theirs in `AppConfig.ready`."""


def run_piece(piece: Piece) -> Outcome:
    """Run a missing job and its follow-ups of the same key; a job that a worker has claimed is left to it."""
    piece.prepare()
    order, worker = piece.order, new_id()
    job_id: UUID | None = enqueue(order.kind, actor_id=piece.actor_id, key=order.key, payload=order.payload)
    for _ in range(MAX_ROUNDS):
        if job_id is None:
            return Outcome(BackfillResult.DONE)
        before = _current_job(piece, job_id)
        offered = offer_of(job_id)
        if before is None or offered is None:
            return Outcome(BackfillResult.ELSEWHERE)
        run(offered, worker)
        job = _current_job(piece, job_id)
        if job is None or job.attempts != before.attempts + 1 or job.state == State.RUNNING:
            return Outcome(BackfillResult.ELSEWHERE)
        if job.state == State.DONE:
            same_key = Job.objects.filter(actor_id=piece.actor_id, kind=order.kind, key=order.key)
            follow_ups = same_key.filter(state=State.QUEUED, attempts=0)
            job_id = follow_ups.values_list("pk", flat=True).first()
        elif job.state != State.QUEUED:
            return Outcome(BackfillResult.FAILED, job.error)
        elif job.due_at > timezone.now() + GOES_ON_WITHIN:
            return Outcome(BackfillResult.WAITS, job.error)
    return Outcome(BackfillResult.WAITS, f"It was not finished in {MAX_ROUNDS:,} rounds; run the backfill again.")


def _current_job(piece: Piece, job_id: UUID) -> Job | None:
    return Job.objects.filter(pk=job_id, actor_id=piece.actor_id).first()
