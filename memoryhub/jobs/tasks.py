"""What django-q2 runs: the one task that carries a job's id, and the canary that shows that tasks are run at all."""

from datetime import datetime
from uuid import UUID

from memoryhub.jobs import heartbeats
from memoryhub.jobs.executor import run
from memoryhub.jobs.queue import Offer


def run_job(job_id: str, kind: str, due_at: str, lock: int | None) -> None:
    """Run the job that was offered."""
    run(Offer(UUID(job_id), kind, datetime.fromisoformat(due_at), lock), worker=heartbeats.worker_id())


def ping() -> None:
    """Do nothing; that it is done is the message."""
