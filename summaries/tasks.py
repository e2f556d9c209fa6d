"""What summaries do in the background."""

from typing import Final
from uuid import UUID

from django.utils import timezone

from memoryhub.jobs.kinds import Writes
from memoryhub.jobs.queue import enqueue
from memoryhub.jobs.running import RunningJob
from summaries.actions.due import due_sessions
from summaries.actions.writing import summarize as summarize_session
from summaries.domain.summaries import JOB

AT_ONCE: Final = 200
NIL: Final = UUID(int=0)


def summarize(job: RunningJob) -> Writes | None:
    """Summarise one session where that is due; goes on where an interrupted attempt stopped."""
    return summarize_session(job=job, now=timezone.now())


def summarize_due(job: RunningJob) -> None:
    """Enqueue the sessions whose interval has passed, a batch at a time (SPEC U2)."""
    due, after = due_sessions(timezone.now()), UUID(job.cursor) if job.cursor else NIL
    while batch := list(due.filter(id__gt=after).values_list("pk", "actor_id")[:AT_ONCE]):
        after = batch[-1][0]
        with job.step(cursor=str(after)):
            for session_id, actor_id in batch:
                enqueue(JOB, actor_id=actor_id, key=str(session_id), payload={"session_id": str(session_id)})
