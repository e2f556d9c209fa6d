"""Background jobs of the ground: retention of jobs and calls, token calibration, the order of index rows.

Registers those of embeddings, too.
"""

import logging
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db.models import Q, QuerySet
from django.utils import timezone

from memoryhub.auth import grants
from memoryhub.auth.erasure import VACUUM_KIND, vacuum_tables
from memoryhub.auth.models import CallSum
from memoryhub.embeddings import jobs as _embedding  # noqa: F401
from memoryhub.importexport.foreign import uploads
from memoryhub.jobs.context import JobContext, Writes
from memoryhub.jobs.models import Job, Worker
from memoryhub.jobs.queue import SCHEDULED
from memoryhub.jobs.registry import job
from memoryhub.jobs.retries import ENDED_BADLY, State
from memoryhub.llm.usage.calibration import calibrate, calibrate_all
from memoryhub.llm.usage.models import CapReached, LedgerEntry
from memoryhub.search.clustering import Clustering, TableBusy
from memoryhub.search.maintenance import COUNT_KIND, actors_to_count, count_terms
from memoryhub.search.models import index_models

DONE_RETENTION: Final = timedelta(days=7)
SCHEDULED_RETENTION: Final = timedelta(days=1)
FAILED_RETENTION: Final = timedelta(days=90)
WORKER_RETENTION: Final = timedelta(days=1)
CALL_RETENTION: Final = timedelta(days=400)
"""A year, and a month to look back from."""
BATCH_SIZE: Final = 5000
DEADLINE_MARGIN_SECONDS: Final = 60.0
"""Before the deadline of a job that could last the whole night."""

log = logging.getLogger(__name__)


@job("forget_old_jobs", at_once=1, daily_at="03:15")
def forget_old_jobs(job: JobContext) -> None:
    """Delete jobs done a week ago (a schedule's, a day ago), what ended badly three months ago, and lost workers."""
    now = timezone.now()
    old = Q(state=State.DONE, finished_at__lt=now - DONE_RETENTION)
    old |= Q(state=State.DONE, finished_at__lt=now - SCHEDULED_RETENTION, key__startswith=SCHEDULED)
    old |= Q(state__in=ENDED_BADLY, finished_at__lt=now - FAILED_RETENTION)
    delete_in_steps(job, Job.objects.filter(old))
    Worker.objects.filter(seen_at__lt=now - WORKER_RETENTION).delete()


@job(uploads.KIND, deadline_seconds=3600, ordered_by="anyone", permissions={"": "memoryhub.add_import"})
def import_file(job: JobContext) -> Writes | None:
    """Preview, take in or undo an uploaded export of another system."""
    done: Writes | None = uploads.run_import_step(job)
    return done


@job("forget_old_uploads", at_once=1, daily_at="04:15")
def forget_old_uploads(job: JobContext) -> None:
    """Delete uploaded files that were not imported for a week."""
    delete_in_steps(job, uploads.old_pieces(timezone.now()))


@job("forget_old_sessions", at_once=1, daily_at="04:00")
def forget_old_sessions(job: JobContext) -> None:
    """Delete expired sessions of browsers (each login leaves one), and of OAuth tokens and clients without consent."""
    now = timezone.now()
    delete_in_steps(job, Session.objects.filter(expire_date__lt=now))
    delete_in_steps(job, grants.expired_tokens(now))
    delete_in_steps(job, grants.unused_clients(now))


@job("forget_old_calls", deadline_seconds=600, at_once=1, daily_at="03:30")
def forget_old_calls(job: JobContext) -> None:
    """Delete calls and reached caps of more than 400 days ago, and outdated sums of calls."""
    before = timezone.now() - CALL_RETENTION
    delete_in_steps(job, LedgerEntry.objects.filter(created_at__lt=before).order_by("created_at"))
    delete_in_steps(job, CapReached.objects.filter(at__lt=before))
    CallSum.objects.filter(at__lt=timezone.now() - timedelta(hours=1)).delete()


def delete_in_steps(job: JobContext, rows: QuerySet[Any]) -> None:
    """Delete rows in the order of the queryset, some thousand in each transaction."""
    deleted = BATCH_SIZE
    while deleted == BATCH_SIZE:
        with job.step():
            ids = list(rows.values_list("pk", flat=True)[:BATCH_SIZE])
            deleted, _ = rows.filter(pk__in=ids).delete()


@job("calibrate_tokens", at_once=1, every_seconds=604_800)
def calibrate_tokens(job: JobContext) -> None:
    """Fit the model that the job names to its newest samples, or every model where it names none."""
    now = timezone.now()
    if "model" in job.payload:
        calibrate(job.payload["provider"], job.payload["model"], now=now)
    else:
        calibrate_all(now=now)


@job("cluster_tables", deadline_seconds=3600, at_once=1, daily_at="02:00")
def cluster_tables(job: JobContext) -> None:
    """Cluster the index rows that were added since the last time by actor, unless `MEMORYHUB_CLUSTER_TABLES` is off."""
    if not settings.CLUSTER_TABLES:
        return
    for model in index_models():
        clustering = Clustering(model, step=job.step)
        try:
            for _ in clustering.run(now=timezone.now()):
                if job.seconds_left < DEADLINE_MARGIN_SECONDS:
                    return  # the next night continues there
        except TableBusy as error:
            log.warning("table busy", extra={"table": model._meta.db_table, "reason": str(error)})


@job(COUNT_KIND, deadline_seconds=3600, at_once=1, every_seconds=3600)
def count_frequent_terms(job: JobContext) -> None:
    """Count the terms that many texts share: of one actor, or of all with a tenth of their texts changed."""
    for actor, texts in actors_to_count(job.actor_id).items():
        if job.seconds_left < DEADLINE_MARGIN_SECONDS:
            return
        with job.step():
            count_terms(actor, texts)


@job(VACUUM_KIND, deadline_seconds=3600, at_once=1)
def vacuum(job: JobContext) -> None:
    """Vacuum the tables that an erasure deleted from."""
    vacuum_tables(job.payload["tables"])
