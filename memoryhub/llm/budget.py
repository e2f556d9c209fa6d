"""Daily spend caps of agents: what was spent today, and whether background calls may go on."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from django.db.models import QuerySet, Sum

from memoryhub.llm.errors import ProviderUnavailable
from memoryhub.llm.usage.domain import BudgetPolicy, Spent, day_start, next_day, reached_cap
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.policies import effective_policy

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


def daily_budget(agent_id: str, agent: Agent | None, *, now: datetime) -> DailyBudget:
    """Return an agent's day so far, by one scan of an index. Caps are the agent's: a user's own does not count."""
    today = LedgerEntry.objects.filter(agent_id=agent_id, created_at__gte=day_start(now))
    return _daily_budget(agent_id, agent, spent_in(today), now)


def _daily_budget(agent_id: str, agent: Agent | None, spent: Spent, now: datetime) -> DailyBudget:
    policy = effective_policy(BudgetPolicy, agent, None)
    return DailyBudget(agent_id, policy, spent, reached_cap(policy, spent), next_day(now))


def capped_agents() -> QuerySet[Agent]:
    return Agent.objects.filter(policy__has_any_keys=sorted(BudgetPolicy.CHECKS))


def paused_agents(*, now: datetime) -> list[DailyBudget]:
    """Return the agents whose background work waits for the next day; two statements, however many have caps."""
    capped = {agent.agent_id: agent for agent in capped_agents()}
    if not capped:
        return []
    today = LedgerEntry.objects.filter(agent_id__in=list(capped), created_at__gte=day_start(now)).order_by()
    sums = {each["agent_id"]: each for each in today.values("agent_id").annotate(**SUMS)}
    standings = (
        _daily_budget(agent_id, agent, _spent(sums[agent_id]) if agent_id in sums else Spent(), now)
        for agent_id, agent in capped.items()
    )
    return [standing for standing in standings if standing.reached]


class SpendCapReached(ProviderUnavailable):
    """The agent has used up what it may use in a day; a job that raises it waits for the next."""

    def __init__(self, standing: DailyBudget, *, now: datetime) -> None:
        super().__init__(
            standing.detail,
            code="spend_cap",
            permanent=False,
            retry_after_seconds=(standing.ends_at - now).total_seconds(),
        )


def check_cap(actor: Actor, *, now: datetime) -> None:
    """Raise SpendCapReached where the actor's agent has used up its day; without a cap nothing is summed.

    What is under way at the same moment is not counted yet: a cap is passed by as many calls as run at once, at most.
    """
    if not effective_policy(BudgetPolicy, actor.agent, None).has_cap:
        return
    standing = daily_budget(actor.agent_id, actor.agent, now=now)
    if standing.reached:
        raise SpendCapReached(standing, now=now)
