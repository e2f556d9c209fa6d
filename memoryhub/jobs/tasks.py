"""What django-q2 runs: the one task that carries a job's id, and the canary that shows that tasks are run at all."""

from datetime import datetime
from uuid import UUID

from memoryhub.jobs import pulses
from memoryhub.jobs.queue import Offer
from memoryhub.jobs.runner import run


def run_job(job_id: str, kind: str, due_at: str, lock: int | None) -> None:
    """Run the job that was offered."""
    run(Offer(UUID(job_id), kind, datetime.fromisoformat(due_at), lock), crew=pulses.crew_id())


def sing() -> None:
    """Do nothing; that it is done is the message."""
