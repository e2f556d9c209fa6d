"""Background jobs of summaries and projects."""

from functools import partial
from typing import Final
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from memoryhub.auth.orders import job_principal
from memoryhub.jobs.context import JobContext, Writes
from memoryhub.jobs.queue import enqueue
from memoryhub.jobs.registry import After, job
from memoryhub.llm.client import count_bad_attempts
from memoryhub.tenancy.models import Actor
from summaries.actions.compaction import compact as compact_document
from summaries.actions.project_lifecycle import due_for_purge
from summaries.actions.summaries import summarize as summarize_session
from summaries.actions.triggers import due_sessions
from summaries.actions.updates import UpdateContext, update_projects
from summaries.domain.summaries import JOB

BATCH_SIZE: Final = 200
NIL: Final = UUID(int=0)
UPDATE_RESERVE_SECONDS: Final = 120.0
"""Time that reading a passage needs: one model call and the writing. With less left, no passage is begun."""


@job(
    "summarize",
    asks_model=True,
    after=[After("turn", delay_seconds=2), After("session")],
    ordered_by="anyone",
    permissions={"": "summaries.change_summary"},
)
def summarize(job: JobContext) -> Writes | None:
    """Summarise one session if due, from where an interrupted attempt stopped."""
    return summarize_session(job=job, now=timezone.now())


@job("summarize_due", at_once=1, every_seconds=300, schedule="summarize what is due")
def summarize_due(job: JobContext) -> None:
    """Enqueue the summaries of sessions whose interval has passed, a batch at a time (SPEC U2)."""
    due, after = due_sessions(timezone.now()), UUID(job.cursor) if job.cursor else NIL
    while batch := list(due.filter(id__gt=after).values_list("pk", "actor_id")[:BATCH_SIZE]):
        after = batch[-1][0]
        with job.step(cursor=str(after)):
            for session_id, actor_id in batch:
                enqueue(JOB, actor_id=actor_id, key=str(session_id), payload={"session_id": str(session_id)})


@job("update_project", deadline_seconds=900, asks_model=True, after=[After("turn", delay_seconds=20, needs_model=True)])
def update_project(job: JobContext) -> None:
    """Extract entries from a session's new messages for its projects (SPEC P6)."""
    actor = Actor.objects.select_related("agent").filter(id__in=[job.actor_id]).first()
    if actor is None:
        return
    by = job_principal(job)
    with count_bad_attempts(job) as bad_attempts:
        update_projects(
            updating=UpdateContext(actor, by, timezone.now(), bad_attempts),
            session_id=UUID(job.payload["session_id"]),
            step=partial(job.step, cursor=bad_attempts),
            may_go_on=lambda: job.seconds_left > UPDATE_RESERVE_SECONDS + settings.LLM.extra_seconds,
        )


@job(
    "compact",
    deadline_seconds=3600,
    asks_model=True,
    ordered_by="trusted",
    permissions={"": "summaries.change_document"},
)
def compact(job: JobContext) -> Writes | None:
    """Compact a document that has grown too long (SPEC P7)."""
    return compact_document(job=job, now=timezone.now())


@job("purge_projects", at_once=1, daily_at="03:45")
def purge_projects(job: JobContext) -> None:
    """Delete for good what was deleted a month ago."""
    while due := due_for_purge(now=timezone.now()):
        for purge in due:
            with job.step():
                purge()
