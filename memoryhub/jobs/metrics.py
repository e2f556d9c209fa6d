"""What Prometheus reads of the background; asked of the database at each scrape, for workers answer none."""

from collections.abc import Iterator

from django.db import DatabaseError
from django.utils import timezone
from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from memoryhub.jobs.domain import State
from memoryhub.jobs.watching import Background, background


def _families(state: Background | None) -> Iterator[GaugeMetricFamily]:
    jobs = GaugeMetricFamily("memoryhub_jobs", "Jobs by state, those done left out.", labels=["state"])
    wait = GaugeMetricFamily("memoryhub_job_wait_seconds", "For how long the oldest due job has waited.")
    workers = GaugeMetricFamily("memoryhub_workers", "Workers that were seen just now.")
    if state is not None:
        for each in State:
            if each is not State.DONE:
                jobs.add_metric([each.value], state.jobs.get(each, 0))
        wait.add_metric([], state.waited.total_seconds())
        workers.add_metric([], state.crews)
    yield from (jobs, wait, workers)


class BackgroundCollector(Collector):
    """The background's figures; none while the database is away."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the figures as they are now."""
        try:
            yield from _families(background(timezone.now()))
        except DatabaseError:
            yield from _families(None)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield the figures' names, without asking for them."""
        return _families(None)


BACKGROUND = BackgroundCollector()
REGISTRY.register(BACKGROUND)
