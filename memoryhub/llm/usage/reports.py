"""Reports of usage: by day, agent and model, the error of token estimates, and the figures for Prometheus."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import Error, connection
from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, TruncDate
from django.utils import timezone
from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from memoryhub.llm.budget import paused_agents, spent_in
from memoryhub.llm.usage.domain import OK, day_start
from memoryhub.llm.usage.models import LedgerEntry


def usage(*, agent_id: str, actor_id: UUID | None, first: date, last: date) -> Iterable[Mapping[str, Any]]:
    """Return calls, tokens and cost of each day, operation and model; of one actor, or of the whole agent."""
    rows = LedgerEntry.objects.filter(
        agent_id=agent_id,
        created_at__gte=_midnight(first),
        created_at__lt=_midnight(last + timedelta(days=1)),
    )
    if actor_id is not None:
        rows = rows.filter(actor_id=actor_id)
    days = rows.order_by().values(
        day=TruncDate("created_at", tzinfo=UTC), operation_=F("operation"), model_=F("model")
    )
    return days.annotate(
        calls=Count("pk"),
        failures=Count("pk", filter=~Q(outcome=OK)),
        read=Coalesce(Sum("input_tokens"), 0),
        written=Coalesce(Sum("output_tokens"), 0),
        dollars=Sum("cost"),
    ).order_by("-day", "operation_", "model_")


def by_agent_and_day(rows: QuerySet[LedgerEntry]) -> QuerySet[LedgerEntry, dict[str, Any]]:
    """Return calls, failures, tokens and cost of these calls by agent and UTC day, the newest day first."""
    return _added_up(rows, "agent_id")


def by_day(rows: QuerySet[LedgerEntry]) -> QuerySet[LedgerEntry, dict[str, Any]]:
    """Return the same by UTC day alone, the newest first."""
    return _added_up(rows)


def _added_up(rows: QuerySet[LedgerEntry], *names: str) -> QuerySet[LedgerEntry, dict[str, Any]]:
    days: QuerySet[LedgerEntry, dict[str, Any]] = (
        rows.order_by()
        .values(*names, day=TruncDate("created_at", tzinfo=UTC))
        .annotate(
            calls=Count("pk"),
            failures=Count("pk", filter=~Q(outcome=OK)),
            read=Coalesce(Sum("input_tokens"), 0),
            written=Coalesce(Sum("output_tokens"), 0),
            dollars=Sum("cost"),
        )
        .order_by("-day", *names)
    )
    return days


def between(first: date, last: date) -> QuerySet[LedgerEntry]:
    """Return the calls of these UTC days, both included."""
    return LedgerEntry.objects.filter(
        created_at__gte=_midnight(first), created_at__lt=_midnight(last + timedelta(days=1))
    )


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


@dataclass(frozen=True)
class EstimateError:
    """Relative error of a model's estimates against its reports."""

    provider: str
    model: str
    median: float
    p95: float


def estimate_errors(*, since: datetime) -> list[EstimateError]:
    """Return the errors of estimates as they were made since a moment, by model."""
    with connection.cursor() as cursor:
        cursor.execute(ESTIMATE_ERRORS, {"since": since})
        return [EstimateError(*row) for row in cursor.fetchall()]


# How far the estimates of a time lay from what was reported, as shares of it.
ESTIMATE_ERRORS: Final = """
SELECT provider, model, percentile_cont(0.5) WITHIN GROUP (ORDER BY error),
    percentile_cont(0.95) WITHIN GROUP (ORDER BY error)
FROM (
    SELECT provider, model, abs(estimated_tokens - input_tokens)::float8 / input_tokens AS error
    FROM memoryhub_ledgerentry WHERE is_sample AND created_at >= %(since)s
) AS judged
GROUP BY provider, model ORDER BY provider, model
"""


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
        waiting.add_metric([], len(paused_agents(now=now)))
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
