"""Prometheus metrics of summaries (SPEC X11), read from the database at each scrape, since workers serve none."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Avg, Count
from prometheus_client.core import GaugeMetricFamily

from memoryhub.jobs.models import Job
from memoryhub.jobs.status import DatabaseCollector
from summaries.domain.summaries import JOB, Verb
from summaries.models import SummaryVersion

WINDOW: Final = timedelta(hours=24)


def _families(now: datetime | None) -> Iterator[GaugeMetricFamily]:
    ratio = GaugeMetricFamily(
        "session_summary_success_ratio", "Summaries written in 24 hours, of those begun that came to an end."
    )
    latency = GaugeMetricFamily(
        "session_summary_latency_seconds", "How long a summary took to write, the mean of 24 hours."
    )
    written = GaugeMetricFamily("session_summaries_written", "Summaries written in 24 hours.")
    failed = GaugeMetricFamily("session_summaries_failed", "Summaries that failed in 24 hours.")
    if now is not None:
        rows = SummaryVersion.objects.filter(verb=Verb.WRITE, created_at__gte=now - WINDOW)
        figures = rows.aggregate(count=Count("pk"), seconds=Avg("seconds"))
        bad = Job.objects.ended_badly().filter(kind=JOB, finished_at__gte=now - WINDOW).count()
        written.add_metric([], figures["count"])
        failed.add_metric([], bad)
        if figures["count"] + bad:
            ratio.add_metric([], figures["count"] / (figures["count"] + bad))
        if figures["seconds"] is not None:
            latency.add_metric([], figures["seconds"])
    yield from (ratio, latency, written, failed)


SUMMARIES = DatabaseCollector(_families)
