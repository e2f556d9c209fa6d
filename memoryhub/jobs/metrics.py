"""What Prometheus reads of the background; asked of the database at each scrape, for workers answer none."""

from collections.abc import Iterator

from django.db import Error
from django.utils import timezone
from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from memoryhub.jobs.domain import State
from memoryhub.jobs.status import JobsStatus, jobs_status


def _families(state: JobsStatus | None) -> Iterator[GaugeMetricFamily]:
    jobs = GaugeMetricFamily("memoryhub_jobs", "Jobs by state, those done left out.", labels=["state"])
    wait = GaugeMetricFamily("memoryhub_job_wait_seconds", "For how long the oldest due job has waited.")
    workers = GaugeMetricFamily("memoryhub_workers", "Workers that were seen just now.")
    # The one figure that an outage leaves: no comparison holds of the others, which are not there then.
    up = GaugeMetricFamily("memoryhub_database_up", "Whether the database answers.", value=state is not None)
    if state is not None:
        for each in State:
            if each is not State.DONE:
                jobs.add_metric([each.value], state.jobs.get(each, 0))
        wait.add_metric([], state.waited.total_seconds())
        workers.add_metric([], state.workers)
    yield from (jobs, wait, workers, up)


class BackgroundCollector(Collector):
    """The background's figures; while the database is away, that alone."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the figures as they are now."""
        try:
            yield from _families(jobs_status(timezone.now()))
        except Error:
            yield from _families(None)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield the figures' names, without asking for them."""
        return _families(None)


BACKGROUND = BackgroundCollector()
REGISTRY.register(BACKGROUND)
