"""Background jobs of conversations: end idle sessions; delete long sessions, and what is past its retention."""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.utils import timezone

from conversations.actions import retention
from conversations.actions.forgetting import forget_by_job
from conversations.actions.receipts import FORGET_KIND, clear_excerpts
from conversations.actions.retention import actors_with_retention
from conversations.actions.sessions import end_session
from conversations.domain.policy import SessionPolicy
from conversations.models import Receipt, Session
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.orders import job_principal
from memoryhub.jobs.context import JobContext
from memoryhub.jobs.registry import job

BATCH_SIZE: Final = 200


@job("end_idle_sessions", at_once=1, every_seconds=60)
def end_idle_sessions(job: JobContext) -> None:
    """End sessions without a message for `session_idle_minutes` (SPEC C5)."""
    now = timezone.now()
    by = job_principal(job)
    idle = Session.objects.idle(now, default_minutes=SessionPolicy().session_idle_minutes)
    idle, done = idle.select_related("actor__agent").order_by("id"), 0
    sessions = list(idle[:BATCH_SIZE])
    while sessions:
        for session in sessions:
            # One transaction each, and only while still idle, so that a repeated job ends no session twice.
            with suppress(UnknownRow):
                end_session(session=session, by=by, now=now, only_if_silent=True)
        done += len(sessions)
        with job.step(done=done):
            pass
        sessions = list(idle.filter(id__gt=sessions[-1].pk)[:BATCH_SIZE])


@job("forget_session", deadline_seconds=3600, ordered_by="trusted", permissions={"": "conversations.delete_message"})
def forget_session(job: JobContext) -> None:
    """Delete a long session with all that was drawn from it (SPEC C6)."""
    forget_by_job(job, now=timezone.now())


@job(FORGET_KIND)
def clear_excerpts_again(job: JobContext) -> None:
    """Clear the texts of deleted sources in receipts of contexts that were being assembled during the deletion."""
    with job.step():
        clear_excerpts(job.payload["ids"])


@job("forget_old_receipts", deadline_seconds=600, at_once=1, daily_at="03:45")
def forget_old_receipts(job: JobContext) -> None:
    """Delete receipts that are older than `MEMORYHUB_RECEIPT_DAYS`; none where that is 0."""
    if not settings.RECEIPT_DAYS:
        return
    before = timezone.now() - timedelta(days=settings.RECEIPT_DAYS)
    old = Receipt.objects.filter(created_at__lt=before, is_kept=False)
    done = 0
    while keys := list(old.order_by().values_list("pk", flat=True)[:BATCH_SIZE]):
        with job.step(done=done):
            Receipt.objects.filter(pk__in=keys).delete()
        done += len(keys)


@job("apply_retention", deadline_seconds=3 * 3600, at_once=1, daily_at="03:15")
def apply_retention(job: JobContext) -> None:
    """Delete what the policies of agents and users do not keep (SPEC C8)."""
    now, by = timezone.now(), job_principal(job)
    for actor in actors_with_retention():
        retention.apply_retention(actor, job=job, by=by, now=now)
