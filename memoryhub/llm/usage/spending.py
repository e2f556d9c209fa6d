"""What was spent, by whom, and whether background work may go on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import Count, F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, TruncDate

from memoryhub.llm.usage import sql
from memoryhub.llm.usage.domain import OK, LedgerPolicy, Spent, day_start, next_day, reached_cap
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.tenancy.models import Agent
from memoryhub.tenancy.policies import effective_policy

SUMS: Final = {"paid": Sum("cost"), "read": Sum("input_tokens"), "written": Sum("output_tokens")}


@dataclass(frozen=True)
class Standing:
    """An agent's day: what was used, the caps, which of them is used up, and when the next day begins."""

    agent_id: str
    policy: LedgerPolicy
    spent: Spent
    reached: str | None
    ends_at: datetime

    @property
    def detail(self) -> str:
        """Say it in a sentence, as a job that waits shows it."""
        if self.reached == "daily_token_cap":
            cap, used = f"{self.policy.daily_token_cap} tokens", f"{self.spent.tokens} used"
        else:
            cap, used = f"{self.policy.daily_spend_cap} USD", f"{self.spent.cost:.4f} spent"
        return (
            f"The agent {self.agent_id} has reached its {self.reached} of {cap} ({used}). Its background work is "
            f"paused until {self.ends_at:%Y-%m-%d %H:%M} UTC; chat goes on."
        )


def spent_in(rows: QuerySet[LedgerEntry]) -> Spent:
    """Return what these calls used together."""
    sums = rows.order_by().aggregate(**SUMS)
    return _spent(sums)


def _spent(sums: Mapping[str, Any]) -> Spent:
    return Spent(sums["paid"] or Decimal(0), (sums["read"] or 0) + (sums["written"] or 0))


def standing_of(agent_id: str, agent: Agent | None, *, now: datetime) -> Standing:
    """Return an agent's day so far, by one scan of an index. Caps are the agent's: a user's own does not count."""
    today = LedgerEntry.objects.filter(agent_id=agent_id, created_at__gte=day_start(now))
    return _standing(agent_id, agent, spent_in(today), now)


def _standing(agent_id: str, agent: Agent | None, spent: Spent, now: datetime) -> Standing:
    policy = effective_policy(LedgerPolicy, agent, None)
    return Standing(agent_id, policy, spent, reached_cap(policy, spent), next_day(now))


def capped_agents() -> QuerySet[Agent]:
    """Return the agents that have a cap of their own."""
    return Agent.objects.filter(policy__has_any_keys=sorted(LedgerPolicy.CHECKS))


def paused(*, now: datetime) -> list[Standing]:
    """Return the agents whose background work waits for the next day; two statements, however many have caps."""
    capped = {agent.agent_id: agent for agent in capped_agents()}
    if not capped:
        return []
    today = LedgerEntry.objects.filter(agent_id__in=list(capped), created_at__gte=day_start(now)).order_by()
    sums = {each["agent_id"]: each for each in today.values("agent_id").annotate(**SUMS)}
    standings = (
        _standing(agent_id, agent, _spent(sums[agent_id]) if agent_id in sums else Spent(), now)
        for agent_id, agent in capped.items()
    )
    return [standing for standing in standings if standing.reached]


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
    """How far estimates of a model's requests lay from what it reported, as shares of it."""

    provider: str
    model: str
    median: float
    p95: float


def estimate_errors(*, since: datetime) -> list[EstimateError]:
    """Return the errors of estimates as they were made since a moment, by model."""
    with connection.cursor() as cursor:
        cursor.execute(sql.ESTIMATE_ERRORS, {"since": since})
        return [EstimateError(*row) for row in cursor.fetchall()]
