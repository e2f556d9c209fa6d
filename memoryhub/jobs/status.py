"""The state of background work: workers, queued jobs, and whether the queue is idle, working, behind or down."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar, Final

from django.conf import settings
from django.db import Error
from django.db.models import Count, Max, Min, Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from prometheus_client import REGISTRY, CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from memoryhub.env import REPLACED
from memoryhub.jobs.models import Job, Worker
from memoryhub.jobs.retries import State
from memoryhub.runtime.postgres import watched_space

ALIVE_WITHIN: Final = timedelta(seconds=30)
"""Workers record a heartbeat every five seconds."""

MAX_WAIT: Final = timedelta(minutes=5)


class QueueHealth(StrEnum):
    IDLE = "idle"
    WORKING = "working"
    BEHIND = "behind"
    DOWN = "down"


HEALTH_LABELS: Final[Mapping[QueueHealth, Any]] = {
    QueueHealth.IDLE: _("idle"),
    QueueHealth.WORKING: _("busy"),
    QueueHealth.BEHIND: _("behind"),
    QueueHealth.DOWN: _("no workers"),
}


@dataclass(frozen=True)
class JobsStatus:
    """Workers and jobs at one time; `last_seen_at` is None without workers, `oldest_due_at` without due jobs."""

    workers: int
    last_seen_at: datetime | None
    jobs: dict[str, int]
    oldest_due_at: datetime | None
    now: datetime

    @property
    def waited(self) -> timedelta:
        return timedelta(0) if self.oldest_due_at is None else self.now - self.oldest_due_at

    @property
    def health(self) -> QueueHealth:
        """Return the queue's health; without due jobs it is idle if a worker is alive, else down."""
        if not self.workers:
            return QueueHealth.DOWN
        if self.waited > MAX_WAIT:
            return QueueHealth.BEHIND
        return QueueHealth.WORKING if self.jobs.get(State.RUNNING) or self.oldest_due_at else QueueHealth.IDLE

    @property
    def is_healthy(self) -> bool:
        return self.health in (QueueHealth.IDLE, QueueHealth.WORKING)

    @property
    def sentence(self) -> str:
        """Describe workers and jobs in the active language."""
        if self.workers:
            words = ngettext("%(count)d worker, %(health)s:", "%(count)d workers, %(health)s:", self.workers)
            workers = words % {"count": self.workers, "health": HEALTH_LABELS[self.health]}
        elif self.last_seen_at is None:
            workers = gettext("No worker is running (none was ever seen); the background may be down:")
        else:
            words = gettext("No worker is running (the last was seen at %(time)s); the background may be down:")
            workers = words % {"time": date_format(timezone.localtime(self.last_seen_at), "DATETIME_FORMAT")}
        counts = gettext("%(queued)d jobs wait, %(running)d run, %(failed)d failed, %(dead)d are dead.")
        return f"{workers} {counts % {state.value: self.jobs.get(state, 0) for state in State}}"

    @property
    def advice(self) -> str:
        """Return what to do, in the active language; empty where all is well."""
        if self.health is QueueHealth.DOWN:
            return gettext(
                "Start the workers with “manage.py serve” (all in one) or “manage.py run_worker” (workers alone). "
                "Nothing is lost: queued jobs run once workers are running."
            )
        if self.health is QueueHealth.BEHIND:
            minutes = int(self.waited.total_seconds() // 60)
            return ngettext(
                "The oldest job has waited for %(minutes)d minute. Add workers (MEMORYHUB_WORKERS), or look for "
                "jobs that fail again and again.",
                "The oldest job has waited for %(minutes)d minutes. Add workers (MEMORYHUB_WORKERS), or look for "
                "jobs that fail again and again.",
                minutes,
            ) % {"minutes": minutes}
        return ""


def is_alive() -> Q:
    """Return whether a worker lives, by the database's clock, as heartbeats are: this machine's may be wrong."""
    return Q(seen_at__gt=Now() - ALIVE_WITHIN)


def jobs_status(now: datetime) -> JobsStatus:
    workers = Worker.objects.aggregate(alive=Count("pk", filter=is_alive()), last_seen_at=Max("seen_at"))
    counts = Job.objects.exclude(state=State.DONE).order_by().values_list("state").annotate(Count("pk"))
    due = Job.objects.filter(state=State.QUEUED, due_at__lte=now).aggregate(oldest=Min("due_at"))
    return JobsStatus(
        workers=workers["alive"],
        last_seen_at=workers["last_seen_at"],
        jobs=dict(counts),
        oldest_due_at=due["oldest"],
        now=now,
    )


def _families(now: datetime | None) -> Iterator[GaugeMetricFamily]:
    state = None if now is None else jobs_status(now)
    jobs = GaugeMetricFamily("memoryhub_jobs", "Jobs by state, those done left out.", labels=["state"])
    wait = GaugeMetricFamily("memoryhub_job_wait_seconds", "For how long the oldest due job has waited.")
    workers = GaugeMetricFamily("memoryhub_workers", "Workers that were seen just now.")
    disk = GaugeMetricFamily(
        "memoryhub_disk_free_bytes", "Free space where the embedded database lies, or the data folder."
    )
    disk.add_metric([], watched_space(settings.ENVIRONMENT).free_mb << 20)
    replaced = GaugeMetricFamily("memoryhub_web_replaced", "Web processes replaced since the start.")
    replaced.add_metric([], _replaced())
    # Reported during an outage too, like disk space; other metrics are absent then.
    up = GaugeMetricFamily("memoryhub_database_up", "Whether the database answers.", value=state is not None)
    if state is not None:
        for job_state in State:
            if job_state is not State.DONE:
                jobs.add_metric([job_state.value], state.jobs.get(job_state, 0))
        wait.add_metric([], state.waited.total_seconds())
        workers.add_metric([], state.workers)
    yield from (jobs, wait, workers, disk, replaced, up)


def _replaced() -> int:
    """Return how many web processes died or fell silent, and were replaced."""
    try:
        return int((settings.ENVIRONMENT.web_folder / REPLACED).read_text())
    except (OSError, ValueError):
        return 0


class DatabaseCollector(Collector):
    """Registered metrics read from the database by `read(now)`; `read(None)` gives their names during an outage."""

    instances: ClassVar[list["DatabaseCollector"]] = []

    def __init__(self, read: Callable[[datetime | None], Iterator[GaugeMetricFamily]]) -> None:
        self._read = read
        self.instances.append(self)
        REGISTRY.register(self)

    @classmethod
    def registry(cls) -> CollectorRegistry:
        """Return this process's registry, or with several web processes, the registry of all."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return REGISTRY
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        for collector in cls.instances:
            registry.register(collector)
        return registry

    def collect(self) -> Iterator[GaugeMetricFamily]:
        try:
            yield from list(self._read(timezone.now()))
        except Error:
            yield from self._read(None)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        return self._read(None)


BACKGROUND = DatabaseCollector(_families)
