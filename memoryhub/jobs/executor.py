"""Run one job: claim it, run its function, write its results or its error."""

import logging
import traceback
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, connection
from django_q.exceptions import TimeoutException

from memoryhub.jobs.context import JobContext, LeaseLost, LeaseRenewal
from memoryhub.jobs.domain import (
    Attempts,
    Outcome,
    Postponed,
    after_breakdown,
    after_excuse,
    after_part,
    after_refusal,
)
from memoryhub.jobs.leases import claim, release
from memoryhub.jobs.queue import Offer
from memoryhub.jobs.registry import Run, UnknownKind, job_kind

log = logging.getLogger(__name__)


def run_job(offered: Offer, worker: UUID) -> None:
    """Run the job that was offered; the task that django-q2 carries."""
    run(offered, worker=worker)


def run(offered: Offer, *, worker: UUID) -> None:
    """Run a job that was offered, unless somebody else has it by now.

    Raises nothing: what it raised would be logged, and stored, by those who know nothing of texts. Where the database
    is away, the lease ends, and another attempt follows.
    """
    try:
        kind = job_kind(offered.kind)
        job = claim(offered, kind, worker=worker)
        if job is not None:
            _work(job, kind.run)
    except UnknownKind as error:
        # A job was taken out of the registry while some waited. They wait on, for it may come back.
        log.error("job of unknown kind", extra={"job": str(offered.job_id), "error": str(error)})
    except DatabaseError as error:
        log.warning("database away", extra={"job": str(offered.job_id), "error": type(error).__name__})
        connection.close()


def _work(job: JobContext, run: Run) -> None:
    try:
        with LeaseRenewal(job):
            job.finish(run(job))
    except LeaseLost:
        log.warning("result refused: lease lost", extra=_about(job))
    except (Exception, TimeoutException) as error:
        if connection.connection is not None and not connection.is_usable():
            connection.close()
        _explain(job, error)


def _explain(job: JobContext, error: BaseException) -> None:
    def judge(attempts: Attempts) -> Outcome:
        return verdict_on(error, attempts)

    said = described(error)
    verdict = release(job, judge, error=said)
    state = verdict.state.value if verdict else "lost"
    log.warning("job did not succeed", extra={**_about(job), "state": state, "error": said})


def verdict_on(error: BaseException, attempts: Attempts) -> Outcome:
    """Judge an attempt by its error: one that carries `permanent` says itself whether a retry helps."""
    if isinstance(error, Postponed):
        return (
            after_excuse(attempts, at_least_seconds=error.seconds) if error.seconds else after_part(attempts)
        )
    permanent = getattr(error, "permanent", None)
    if permanent is None:
        return after_breakdown(attempts)
    if permanent:
        return after_refusal()
    return after_excuse(attempts, at_least_seconds=getattr(error, "retry_after_seconds", None))


def described(error: BaseException) -> str:
    """Put an error into words that hold no text of a user.

    Errors that know of retries are ours, and written for operators. Of others the kind and the place in our own
    code are told; their message may quote what they choked on.
    """
    if isinstance(error, TimeoutException):
        return "It took longer than its kind's deadline_seconds."
    if isinstance(error, Postponed) or hasattr(error, "permanent"):
        return str(error)
    base = str(settings.BASE_DIR)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(base)]
    place = f" at {frames[-1].filename[len(base) + 1 :]}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"


def _about(job: JobContext) -> dict[str, object]:
    return {"job": str(job.id), "kind": job.kind, "attempt": job.attempt}
