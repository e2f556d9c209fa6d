"""Sending back jobs that ended badly: a person's decision, so it is written into the trail."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import F

from memoryhub.access import audit
from memoryhub.access.domain import Principal
from memoryhub.jobs.domain import State
from memoryhub.jobs.models import Job


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
