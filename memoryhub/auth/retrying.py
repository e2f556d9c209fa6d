"""Sending back jobs that ended badly, and taking out those that wait: a person's decision, so the trail tells it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import F

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.jobs.domain import State
from memoryhub.jobs.models import Job

TAKEN_OUT: Final = "A person took it out of the queue; sent back, it is done after all."


@transaction.atomic
def retry_jobs(*, job_ids: Sequence[UUID], by: Principal, reason: str = "", now: datetime) -> int:
    """Put jobs that failed or are dead back into the queue, with three attempts more; return how many.

    Others among them stay as they are.
    """
    jobs = Job.objects.ended_badly().filter(pk__in=job_ids).order_by("pk").select_for_update()
    ids = list(jobs.values_list("pk", flat=True))
    Job.objects.filter(pk__in=ids).update(
        state=State.QUEUED, excused=F("attempts"), excused_since=None, due_at=now, finished_at=None
    )
    audit.record_each(by=by, verb="retry", object_kind="job", object_ids=ids, reason=reason, now=now)
    return len(ids)


@transaction.atomic
def cancel_jobs(*, job_ids: Sequence[UUID], by: Principal, reason: str = "", now: datetime) -> int:
    """Take jobs out of the queue that wait in it, as failed; return how many. `retry_jobs` takes it back.

    Those that a worker has begun stay as they are. An excused attempt is counted, so that a job sent back later does
    not claim to be the one of its key that was never begun.
    """
    jobs = Job.objects.filter(pk__in=job_ids, state=State.QUEUED).order_by("pk").select_for_update()
    ids = list(jobs.values_list("pk", flat=True))
    Job.objects.filter(pk__in=ids).update(
        state=State.FAILED,
        attempts=F("attempts") + 1,
        excused=F("excused") + 1,
        error=TAKEN_OUT,
        finished_at=now,
    )
    audit.record_each(by=by, verb="cancel", object_kind="job", object_ids=ids, reason=reason, now=now)
    return len(ids)
