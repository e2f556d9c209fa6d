"""How the background is doing: who works, what waits, and whether "nothing happens" means idle or down."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from django.db.models import Count, Min

from memoryhub.jobs.domain import State
from memoryhub.jobs.models import Job, Worker

SEEN_WITHIN: Final = timedelta(seconds=30)
"""A worker says every five seconds that it lives."""

WAITS_TOO_LONG: Final = timedelta(minutes=5)


class Mood(StrEnum):
    """What the background does just now."""

    IDLE = "idle"
    WORKING = "working"
    BEHIND = "behind"
    DOWN = "down"


@dataclass(frozen=True)
class JobsStatus:
    """The background at one moment; times are None where there is nothing they could be of."""

    workers: int
    last_seen_at: datetime | None
    jobs: dict[str, int]
    oldest_due_at: datetime | None
    now: datetime

    @property
    def waited(self) -> timedelta:
        """For how long the oldest due job has waited."""
        return timedelta(0) if self.oldest_due_at is None else self.now - self.oldest_due_at

    @property
    def mood(self) -> Mood:
        """Tell idle from down: a worker that was seen just now, and nothing to do, is idle."""
        if not self.workers:
            return Mood.DOWN
        if self.waited > WAITS_TOO_LONG:
            return Mood.BEHIND
        return Mood.WORKING if self.jobs.get(State.RUNNING) or self.oldest_due_at else Mood.IDLE

    @property
    def detail(self) -> str:
        """Say it in a sentence, with what to do about it."""
        waiting, running, failed, dead = (
            self.jobs.get(state, 0) for state in (State.QUEUED, State.RUNNING, State.FAILED, State.DEAD)
        )
        counts = f"{waiting} jobs wait, {running} run, {failed} failed, {dead} are dead"
        if self.mood is Mood.DOWN:
            seen = (
                f"the last was seen at {self.last_seen_at:%Y-%m-%d %H:%M:%S} UTC"
                if self.last_seen_at
                else "none was ever seen"
            )
            start = "Start them with `manage.py serve` or `manage.py run_worker`."
            return f"No worker is there ({seen}): {counts}. {start}"
        behind = " They are behind: add workers (MEMORYHUB_WORKERS)." if self.mood is Mood.BEHIND else ""
        return f"{self.workers} workers, {self.mood}: {counts}.{behind}"


def jobs_status(now: datetime) -> JobsStatus:
    """Return how the background is doing."""
    seen = list(Worker.objects.order_by("-seen_at").values_list("seen_at", flat=True))
    counts = Job.objects.exclude(state=State.DONE).order_by().values_list("state").annotate(Count("pk"))
    due = Job.objects.filter(state=State.QUEUED, due_at__lte=now).aggregate(oldest=Min("due_at"))
    return JobsStatus(
        workers=sum(moment > now - SEEN_WITHIN for moment in seen),
        last_seen_at=seen[0] if seen else None,
        jobs=dict(counts),
        oldest_due_at=due["oldest"],
        now=now,
    )
