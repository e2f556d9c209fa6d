"""What Prometheus reads of the calls to providers; asked of the database at each scrape, for workers answer none."""

from collections.abc import Iterator
from datetime import datetime

from django.db import Error
from django.db.models import Count, QuerySet
from django.utils import timezone
from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from memoryhub.llm.usage.domain import day_start
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.llm.usage.spending import estimate_errors, paused, spent_in


def _families(now: datetime | None) -> Iterator[GaugeMetricFamily]:
    """Yield today's figures; without a time, their names alone."""
    calls = GaugeMetricFamily(
        "memoryhub_calls_today", "Calls to providers this UTC day.", labels=["operation", "outcome"]
    )
    cost = GaugeMetricFamily("memoryhub_spent_today_usd", "What they cost, where prices are known.")
    tokens = GaugeMetricFamily("memoryhub_tokens_today", "Tokens that they read and wrote.")
    waiting = GaugeMetricFamily(
        "memoryhub_agents_paused", "Agents whose background work waits for the next day."
    )
    errors = GaugeMetricFamily(
        "memoryhub_token_estimate_error",
        "How far estimates lay from what was reported today, as a share of it.",
        labels=["model", "quantile"],
    )
    if now is not None:
        _fill(LedgerEntry.objects.filter(created_at__gte=day_start(now)), calls, cost, tokens)
        waiting.add_metric([], len(paused(now=now)))
        for each in estimate_errors(since=day_start(now)):
            errors.add_metric([each.model, "0.5"], each.median)
            errors.add_metric([each.model, "0.95"], each.p95)
    yield from (calls, cost, tokens, waiting, errors)


def _fill(
    today: QuerySet[LedgerEntry],
    calls: GaugeMetricFamily,
    cost: GaugeMetricFamily,
    tokens: GaugeMetricFamily,
) -> None:
    for operation, outcome, number in (
        today.order_by().values_list("operation", "outcome").annotate(Count("pk"))
    ):
        calls.add_metric([operation, outcome], number)
    spent = spent_in(today)
    cost.add_metric([], float(spent.cost))
    tokens.add_metric([], spent.tokens)


class CallsCollector(Collector):
    """The figures of the ledger; none while the database is away."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the figures as they are now."""
        try:
            yield from list(_families(timezone.now()))
        except Error:
            yield from _families(None)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield the figures' names, without asking for them."""
        return _families(None)


CALLS = CallsCollector()
REGISTRY.register(CALLS)
