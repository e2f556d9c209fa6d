"""Sums over the ledger: daily spend caps, usage reports, errors of token estimates, and metrics."""

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Any, Final
from uuid import UUID

from django.db import Error, connection, transaction
from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, TruncDate
from prometheus_client.core import GaugeMetricFamily

from memoryhub.errors import DomainError, stored_text
from memoryhub.jobs.status import DatabaseCollector
from memoryhub.llm.errors import ProviderUnavailable
from memoryhub.llm.usage.caps import OK, BudgetPolicy, Spent, TokenQuota, UserBudgetPolicy, reached_cap
from memoryhub.llm.usage.models import CapReached, LedgerEntry
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.policies import effective_policy, zone_of
from memoryhub.tenancy.policy import actor_id
from memoryhub.zones import day_end, day_start, local_day, local_time

log = logging.getLogger(__name__)

SUMS: Final = {"paid": Sum("cost"), "read": Sum("input_tokens"), "written": Sum("output_tokens")}


@dataclass(frozen=True)
class DailyBudget:
    """An agent's day: what was used, the caps, which of them is used up, and when the next day begins."""

    agent_id: str
    policy: BudgetPolicy
    spent: Spent
    reached: str | None
    ends_at: datetime

    @property
    def detail(self) -> str:
        if self.reached == "daily_token_cap":
            cap, used = f"{self.policy.daily_token_cap} tokens", f"{self.spent.tokens} used"
        else:
            cap, used = f"{self.policy.daily_spend_cap} USD", f"{self.spent.cost:.4f} spent"
        return stored_text(
            "The agent {agent} has reached its {name} of {cap} ({used}). Its background work is paused until {until}; "
            "chat goes on.",
            agent=self.agent_id,
            name=self.reached,
            cap=cap,
            used=used,
            until=f"{self.ends_at:%Y-%m-%d %H:%M %Z}",
        )


def today_start(now: datetime, zone: tzinfo) -> datetime:
    return day_start(local_day(now, zone), zone)


def spent_in(rows: QuerySet[LedgerEntry]) -> Spent:
    return _spent(rows.order_by().aggregate(**SUMS))


def _spent(sums: Mapping[str, Any]) -> Spent:
    return Spent(sums["paid"] or Decimal(0), (sums["read"] or 0) + (sums["written"] or 0))


def daily_budget(agent_id: str, agent: Agent | None, *, now: datetime) -> DailyBudget:
    """Return an agent's day so far, by one scan of an index. Caps are the agent's: a user's own does not count."""
    today = LedgerEntry.objects.filter(agent_id=agent_id, created_at__gte=today_start(now, zone_of(agent)))
    return _daily_budget(agent_id, agent, spent_in(today), now)


def spent_today(actor_id: UUID, agent: Agent | None, *, now: datetime) -> Spent:
    """Return what one user came to in the agent's day so far."""
    return spent_in(LedgerEntry.objects.filter(actor_id=actor_id, created_at__gte=today_start(now, zone_of(agent))))


def _daily_budget(agent_id: str, agent: Agent | None, spent: Spent, now: datetime) -> DailyBudget:
    policy, zone = effective_policy(BudgetPolicy, agent, None), zone_of(agent)
    ends_at = local_time(day_end(local_day(now, zone), zone), zone)
    return DailyBudget(agent_id, policy, spent, reached_cap(policy, spent), ends_at)


def capped_agents() -> QuerySet[Agent]:
    return Agent.objects.filter(policy__has_any_keys=sorted(BudgetPolicy.CHECKS))


def daily_budgets(*, now: datetime) -> list[DailyBudget]:
    """Return the days of all agents with caps; two statements, however many there are."""
    capped = {agent.agent_id: agent for agent in capped_agents()}
    if not capped:
        return []
    agents_by_start = dict[datetime, list[str]]()
    for agent in capped.values():
        agents_by_start.setdefault(today_start(now, zone_of(agent)), []).append(agent.agent_id)
    of_today = [Q(agent_id__in=agents, created_at__gte=start) for start, agents in agents_by_start.items()]
    today = LedgerEntry.objects.filter(reduce(or_, of_today)).order_by()
    sums = {row["agent_id"]: row for row in today.values("agent_id").annotate(**SUMS)}
    return [
        _daily_budget(agent_id, agent, _spent(sums[agent_id]) if agent_id in sums else Spent(), now)
        for agent_id, agent in capped.items()
    ]


def paused_agents(*, now: datetime) -> list[DailyBudget]:
    """Return the days of the agents whose background work waits for the next."""
    return [budget for budget in daily_budgets(now=now) if budget.reached]


class SpendCapReached(ProviderUnavailable):
    """The agent has used up what it may use in a day; a job that raises it waits for the next."""

    def __init__(self, budget: DailyBudget, *, now: datetime) -> None:
        super().__init__(
            budget.detail, code="spend_cap", permanent=False, retry_after_seconds=(budget.ends_at - now).total_seconds()
        )


def check_cap(actor: Actor, *, now: datetime) -> None:
    """Raise SpendCapReached where the actor's agent has used up its day; without a cap nothing is summed.

    What is under way at the same moment is not counted yet: a cap is passed by as many calls as run at once, at most.
    """
    if not effective_policy(BudgetPolicy, actor.agent, None).has_cap:
        return
    budget = daily_budget(actor.agent_id, actor.agent, now=now)
    if budget.reached:
        _note_reached(
            actor_id(actor.agent_id), budget.reached, agent_id=actor.agent_id, zone=zone_of(actor.agent), now=now
        )
        raise SpendCapReached(budget, now=now)


class TokenCapReached(DomainError):
    """A key or a user has used up the tokens of a day."""

    def __init__(self, quota: TokenQuota, message: str) -> None:
        self.quota = quota
        super().__init__(message)


class KeyCapReached(TokenCapReached):
    code = "key_cap_reached"


class UserCapReached(TokenCapReached):
    code = "user_cap_reached"


def check_key_cap(
    key_id: UUID | None, daily_tokens: int | None, *, agent_id: str = "", now: datetime
) -> TokenQuota | None:
    """Return what a key may use in a day of the installation's zone; None without a cap, and nothing is summed.

    As with `check_cap`, answers under way at the same moment are not counted yet. `agent_id` is the key's only agent.
    Raises KeyCapReached.
    """
    if key_id is None or daily_tokens is None:
        return None
    zone, used = zone_of(None), key_tokens_today(key_id, now=now)
    ends_at = local_time(day_end(local_day(now, zone), zone), zone)
    quota = TokenQuota("key-tokens", daily_tokens, used, math.ceil((ends_at - now).total_seconds()))
    if quota.is_used_up:
        _note_reached(key_id, "key_token_cap", agent_id=agent_id, zone=zone, now=now)
        text = f"This key has used up its {daily_tokens} tokens of today; the next day begins at {ends_at:%H:%M %Z}."
        raise KeyCapReached(quota, text)
    return quota


def key_tokens_today(key_id: UUID, *, now: datetime) -> int:
    """Return the tokens that a key's calls, and jobs that it ordered, have used in the installation's day so far."""
    return spent_in(LedgerEntry.objects.filter(key_id=key_id, created_at__gte=today_start(now, zone_of(None)))).tokens


def check_user_cap(actor: Actor, *, now: datetime) -> TokenQuota | None:
    """Return what a user may use in a day of the agent's zone, as `check_key_cap`. Raises UserCapReached."""
    cap = effective_policy(UserBudgetPolicy, actor.agent, actor).user_daily_token_cap
    if cap is None:
        return None
    zone, used = zone_of(actor.agent), spent_today(actor.pk, actor.agent, now=now).tokens
    ends_at = local_time(day_end(local_day(now, zone), zone), zone)
    quota = TokenQuota("user-tokens", cap, used, math.ceil((ends_at - now).total_seconds()))
    if quota.is_used_up:
        _note_reached(actor.pk, "user_token_cap", agent_id=actor.agent_id, zone=zone, now=now)
        raise UserCapReached(
            quota, f"This user has used up the {cap} tokens of today; the next day begins at {ends_at:%H:%M %Z}."
        )
    return quota


def _note_reached(owner_id: UUID, cap: str, *, agent_id: str, zone: tzinfo, now: datetime) -> None:
    """Store the first refusal of the day; where that fails, the cap holds all the same."""
    row = CapReached(owner_id=owner_id, agent_id=agent_id, cap=cap, day=local_day(now, zone), at=now)
    try:
        with transaction.atomic():
            CapReached.objects.bulk_create([row], ignore_conflicts=True)
    except Error as error:
        log.error("a reached cap is not recorded", extra={"cap": cap, "error": type(error).__name__})


TOTALS: Final = {
    "calls": Count("pk"),
    "failures": Count("pk", filter=~Q(outcome=OK)),
    "read": Coalesce(Sum("input_tokens"), 0),
    "written": Coalesce(Sum("output_tokens"), 0),
    "dollars": Sum("cost"),
}


def usage(
    *columns: str, agent_id: str, actor_id: UUID | None, first: date, last: date
) -> QuerySet[LedgerEntry, dict[str, Any]]:
    """Return calls, tokens and cost by day of the agent's zone and by columns; of one actor or of all."""
    zone = zone_of(Agent.objects.filter(agent_id=agent_id).first())
    rows = between(first, last, zone).filter(agent_id=agent_id)
    if actor_id is not None:
        rows = rows.filter(actor_id=actor_id)
    return by_day(rows, zone, *columns)


def by_day(rows: QuerySet[LedgerEntry], zone: tzinfo, *names: str) -> QuerySet[LedgerEntry, dict[str, Any]]:
    """Return calls, failures, tokens and cost by day of the zone (newest first) and the columns `names`."""
    days: QuerySet[LedgerEntry, dict[str, Any]] = (
        rows.order_by()
        .values(*names, day=TruncDate("created_at", tzinfo=zone))
        .annotate(**TOTALS)
        .order_by("-day", *names)
    )
    return days


def by_column(rows: QuerySet[LedgerEntry], column: str) -> QuerySet[LedgerEntry, Any]:
    """Return calls, failures, tokens and cost by the values of a column, in their order."""
    totals: QuerySet[LedgerEntry, Any] = rows.order_by().values(column).annotate(**TOTALS).order_by(column)
    return totals


def between(first: date, last: date, zone: tzinfo) -> QuerySet[LedgerEntry]:
    begins_at, ends_at = day_start(first, zone), day_end(last, zone)
    return LedgerEntry.objects.filter(created_at__gte=begins_at, created_at__lt=ends_at)


@dataclass(frozen=True)
class EstimateError:
    provider: str
    model: str
    median: float
    p95: float


def estimate_errors(*, since: datetime) -> list[EstimateError]:
    with connection.cursor() as cursor:
        cursor.execute(ESTIMATE_ERRORS, {"since": since})
        return [EstimateError(*row) for row in cursor.fetchall()]


# Relative errors of the token estimates in a period.
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
    waiting = GaugeMetricFamily("memoryhub_agents_paused", "Agents whose background work waits for the next day.")
    errors = GaugeMetricFamily(
        "memoryhub_token_estimate_error",
        "How far estimates lay from what was reported today, as a share of it.",
        labels=["model", "quantile"],
    )
    if now is not None:
        today = LedgerEntry.objects.filter(created_at__gte=today_start(now, UTC))
        counts = today.order_by().values_list("operation", "outcome").annotate(Count("pk"))
        for operation, outcome, number in counts:
            calls.add_metric([operation, outcome], number)
        spent = spent_in(today)
        cost.add_metric([], float(spent.cost))
        tokens.add_metric([], spent.tokens)
        waiting.add_metric([], len(paused_agents(now=now)))
        for estimate in estimate_errors(since=today_start(now, UTC)):
            errors.add_metric([estimate.model, "0.5"], estimate.median)
            errors.add_metric([estimate.model, "0.95"], estimate.p95)
    yield from (calls, cost, tokens, waiting, errors)


CALLS = DatabaseCollector(_families)
