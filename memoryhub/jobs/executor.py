"""Run one job: claim it under a lease, run its function, write its results or its error; release lost ones."""

import json
import logging
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, IntegrityError, OperationalError, connection, transaction
from django_q.exceptions import TimeoutException
from psycopg.errors import LockNotAvailable

from memoryhub.errors import stored_text
from memoryhub.jobs.context import JobContext, LeaseLost, caused_by, query, renew_lease
from memoryhub.jobs.queue import Offer
from memoryhub.jobs.registry import ORDER_CHECKS, JobKind, Run, UnknownKind, job_kind, limits_of
from memoryhub.jobs.retries import Attempts, Outcome, Postponed, State, after_breakdown, after_excuse, after_stop
from memoryhub.telemetry.spans import Attributes, Span, root

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS: Final = 1.0
AWAY_SECONDS: Final = 20.0
"""Time for which a worker tries to release its job after a loss of the database; afterwards the lease expires."""

WORKER_LOST: Final = "The worker was lost: it died, or did not say for a whole lease that it lives."
WORKER_STOPPED: Final = "The worker was told to stop."


def run(offered: Offer, worker: UUID) -> None:
    """Run an offered job, unless it was claimed concurrently; the django-q2 task.

    Raises nothing: django-q2 would log and store the error, whose message may hold a user's text. If the database is
    away, the job is released once it is back.
    """
    try:
        kind = job_kind(offered.kind)
        job = claim(offered, kind, worker=worker)
        if job is not None:
            with job_span(job) as span:
                _work(job, kind.run, span)
    except UnknownKind as error:
        # The job's kind is not registered. Its jobs stay queued, as a later release may register it again.
        log.error("job of unknown kind", extra={"job": str(offered.job_id), "error": str(error)})
    except DatabaseError as error:
        log.warning("database away", extra={"job": str(offered.job_id), "error": type(error).__name__})
        _release_when_back(worker)


def _release_when_back(worker: UUID) -> None:
    """Release what this worker was running once the database answers, so that nothing waits for the lease."""
    ends_at = time.monotonic() + AWAY_SECONDS
    while time.monotonic() < ends_at:
        connection.close()
        try:
            give_up_on(worker)
            return
        except DatabaseError:
            time.sleep(LOOK_AGAIN_SECONDS / 2)


def job_span(job: JobContext) -> Span:
    """Return the span of an attempt, in the trace of what caused the job."""
    values: Attributes = {
        "memoryhub.job.id": str(job.id),
        "memoryhub.job.kind": job.kind,
        "memoryhub.job.attempt": job.attempt,
    }
    return root(f"job {job.kind}", values, kind="consumer", traceparent=job.traceparent)


def _work(job: JobContext, run: Run, span: Span) -> None:
    log_values = {"job": str(job.id), "kind": job.kind, "attempt": job.attempt}
    try:
        with renew_lease(job), caused_by(job.key_id):
            for check in ORDER_CHECKS:
                check(job)
            job.finish(run(job))
    except LeaseLost as error:
        span.fail(error)
        log.warning("result refused: lease lost", extra=log_values)
    except (Exception, TimeoutException) as error:
        if connection.connection is not None and not connection.is_usable():
            connection.close()
        failure, message = error, error_text(error)
        span.fail(error)
        outcome = release(job, lambda attempts: outcome_of(failure, attempts), error=message)
        state = outcome.state.value if outcome else "lost"
        log.warning("job did not succeed", extra={**log_values, "state": state, "error": message})


def outcome_of(error: BaseException, attempts: Attempts) -> Outcome:
    """Return the outcome of an attempt by its error; an attribute `permanent` says whether a retry helps."""
    if isinstance(error, Postponed):
        return after_excuse(attempts, at_least_seconds=error.seconds, did_a_part=not error.seconds)
    permanent = getattr(error, "permanent", None)
    if permanent is None:
        return after_breakdown(attempts)
    if permanent:
        return Outcome(State.FAILED)  # it would fail again; only a person can retry the job
    return after_excuse(attempts, at_least_seconds=getattr(error, "retry_after_seconds", None))


def error_text(error: BaseException) -> str:
    """Describe an error without any text of a user.

    Errors with `permanent` are ours, with messages for operators. Of others, only the type and the location in our code
    are given, as their messages may quote data.
    """
    if isinstance(error, TimeoutException):
        return stored_text("It took longer than its kind's deadline_seconds.")
    if isinstance(error, Postponed) or hasattr(error, "permanent"):
        return str(error)
    base = str(settings.BASE_DIR)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(base)]
    location = f" at {frames[-1].filename[len(base) + 1 :]}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{location}"


def claim(offered: Offer, kind: JobKind, *, worker: UUID) -> JobContext | None:
    """Claim an offered job, counting the attempt.

    None if another worker has it, a job of the same key runs, `at_once` jobs of its kind run, or a transaction that
    joins it takes too long.
    """
    values = {"id": offered.job_id, "due_at": offered.due_at, "worker": worker, "lease_seconds": kind.lease_seconds}
    try:
        rows = _claim_rows(values, kind, offered.lock)
    except (IntegrityError, OperationalError) as error:
        if isinstance(error, OperationalError) and not isinstance(error.__cause__, LockNotAvailable):
            raise
        rows = []
        _postpone(offered.job_id)
    if not rows:
        return None
    job_id, actor_id, key, payload, order, attempt, cursor, traceparent = rows[0]
    return JobContext(
        id=UUID(str(job_id)),
        kind=kind.name,
        worker=worker,
        actor_id=None if actor_id is None else UUID(str(actor_id)),
        key=key,
        payload=_decode(payload),
        order=_decode(order),
        attempt=attempt,
        cursor=_decode(cursor),
        lease_seconds=kind.lease_seconds,
        ends_at=time.monotonic() + kind.limit_seconds,
        traceparent=traceparent,
    )


def _decode(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _claim_rows(values: dict[str, Any], kind: JobKind, lock: int | None) -> list[tuple[Any, ...]]:
    limits = limits_of(kind)
    if lock is None and not limits:
        return query("claim", **values)
    with transaction.atomic():
        if lock is not None:
            query("lock_key", lock=lock)
        for limit in limits:
            query("serialize_claims", limit=limit.name)
        if all(query("count_running", kinds=limit.kinds) < [(limit.most,)] for limit in limits):
            return query("claim", **values)
    _postpone(values["id"])
    return []


def _postpone(job_id: UUID) -> None:
    query("postpone", id=job_id, seconds=LOOK_AGAIN_SECONDS)


def release(job: JobContext, judge: Callable[[Attempts], Outcome], *, error: str) -> Outcome | None:
    """End an unsuccessful attempt; None where the lease was lost."""
    with transaction.atomic():
        rows = query("attempts_of_one", **job.fence)
        return _release(rows[0], judge, error) if rows else None


def release_expired() -> int:
    with transaction.atomic():
        return _release_all(query("overdue"), after_breakdown, WORKER_LOST)


def give_up_on(worker: UUID) -> int:
    """Release the jobs of a dead worker, without waiting for their leases; return their number."""
    with transaction.atomic():
        return _release_all(query("of_worker", worker=worker), after_breakdown, WORKER_LOST)


def hand_back(worker: UUID) -> int:
    """Release the jobs of a stopping worker, to be retried at once without counting the attempt."""
    with transaction.atomic():
        return _release_all(query("of_worker", worker=worker), after_stop, WORKER_STOPPED)


def _release_all(rows: Sequence[tuple[Any, ...]], judge: Callable[[Attempts], Outcome], error: str) -> int:
    for row in rows:
        job_id, kind, attempt, *_ = row
        state = _release(row, judge, error).state.value
        log.warning("job released", extra={"job": str(job_id), "kind": kind, "attempt": attempt, "state": state})
    return len(rows)


def _release(row: tuple[Any, ...], judge: Callable[[Attempts], Outcome], error: str) -> Outcome:
    job_id, _kind, begun, excused, excused_for = row
    outcome = judge(Attempts(begun, excused, excused_for))
    query(
        "release",
        id=job_id,
        attempt=begun,
        state=outcome.state.value,
        excused=int(outcome.is_excused),
        pause_seconds=outcome.pause_seconds,
        error=error,
    )
    return outcome
