"""Usage of providers by agent (SPEC A9), and the state of jobs."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, timedelta
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from memoryhub.api.fields import TenantQuery
from memoryhub.api.views import ApiView, operation
from memoryhub.auth.access import tenant_for_reading
from memoryhub.auth.models import key_names
from memoryhub.auth.principals import Scope
from memoryhub.jobs.models import Job
from memoryhub.jobs.retries import State
from memoryhub.llm.usage.spending import DailyBudget, daily_budget, spent_today, usage
from memoryhub.tenancy.models import Agent
from memoryhub.tenancy.policies import zone_of
from memoryhub.zones import local_day

DAYS = 30
MAX_DAYS = 400
MAX_ROWS = 5_000
BREAKDOWNS = {"key": "key_id", "user": "actor__user_id"}
FIRST_DAY = date(1970, 1, 1)
LAST_DAY = date(9000, 1, 1)
"""Bounds of day parameters: date arithmetic overflows near the ends of the calendar."""


def _check_day(day: date) -> None:
    if not FIRST_DAY <= day <= LAST_DAY:
        raise serializers.ValidationError(f"must be a day from {FIRST_DAY} to {LAST_DAY}.")


class UsageQuery(TenantQuery):
    """Agent, user and range of days in the agent's time zone; the last 30 by default."""

    def get_fields(self) -> dict[str, serializers.Field]:
        days = {name: serializers.DateField(required=False, validators=[_check_day]) for name in ("from", "to")}
        return {**super().get_fields(), **days, "by": serializers.ChoiceField(list(BREAKDOWNS), required=False)}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        first, last = attrs.get("from"), attrs.get("to")
        if first and last and not 0 <= (last - first).days < MAX_DAYS:
            raise serializers.ValidationError({"to": [f"must be 0 to {MAX_DAYS - 1} days after `from`."]})
        return attrs


class TotalsRow(serializers.Serializer):
    """A day's calls."""

    day = serializers.DateField()
    calls = serializers.IntegerField()
    failures = serializers.IntegerField()
    input_tokens = serializers.IntegerField(source="read")
    output_tokens = serializers.IntegerField(source="written")
    cost = serializers.FloatField(source="dollars", allow_null=True, help_text="US dollars; null: no price known.")


class UsageRow(TotalsRow):
    """A day's calls of one operation to one model."""

    operation = serializers.CharField()
    model = serializers.CharField()


class KeyUsageRow(TotalsRow):
    """A day's calls that one API key caused."""

    key_id = serializers.UUIDField(allow_null=True, help_text="Null: no key caused them.")
    name = serializers.CharField(help_text="The key's name; its id where it is deleted, empty without a key.")


class UserUsageRow(TotalsRow):
    """A day's calls for one user."""

    user_id = serializers.CharField(source="actor__user_id", allow_null=True, help_text="Null: an erased one, or none.")


class TodayOut(serializers.Serializer):
    """The agent's usage today, all users together (for a key bound to a user: of that user), and its caps."""

    cost = serializers.FloatField(source="spent.cost")
    tokens = serializers.IntegerField(source="spent.tokens")
    daily_spend_cap = serializers.FloatField(source="policy.daily_spend_cap", allow_null=True)
    daily_token_cap = serializers.IntegerField(source="policy.daily_token_cap", allow_null=True)
    is_paused = serializers.SerializerMethodField(help_text="Whether background work waits; chat never does.")
    paused_until = serializers.SerializerMethodField()

    def get_is_paused(self, budget: DailyBudget) -> bool:
        return budget.reached is not None

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_paused_until(self, budget: DailyBudget) -> Any:
        return budget.ends_at if budget.reached else None


class SpendingOut(serializers.Serializer):
    """An agent's usage."""

    agent_id = serializers.CharField()
    user_id = serializers.CharField(allow_null=True, help_text="Null: the agent with all its users.")
    results = UsageRow(many=True)
    keys = KeyUsageRow(many=True, allow_null=True, help_text="With `by=key`: days by key, newest first, at most 5,000.")
    users = UserUsageRow(many=True, allow_null=True, help_text="With `by=user`: as `keys`, by user.")
    today = TodayOut()

    def get_fields(self) -> dict[str, serializers.Field]:
        return {**super().get_fields(), "from": serializers.DateField(), "to": serializers.DateField()}


class Usage(ApiView):
    @operation("usage_get", Scope.ADMIN, parameters=[UsageQuery], responses=SpendingOut)
    def get(self, request: Request) -> Response:
        """Return what an agent's calls came to; of one user where one is named, or the key is bound to one."""
        values = self.query(UsageQuery)
        agent_id, user_id = values["agent_id"], values.get("user_id", self.principal.user_id)
        self.principal.check_agent(agent_id)
        if user_id is None:
            agent, actor_id = Agent.objects.filter(agent_id=agent_id).first(), None
        else:
            tenant = tenant_for_reading(self.principal, agent_id, user_id)
            agent, actor_id = tenant.agent, tenant.actor_id
        first, last, today = values.get("from"), values.get("to"), local_day(self.now, zone_of(agent))
        if last is None:
            last = min(max(today, first), first + timedelta(days=MAX_DAYS - 1)) if first else today
        first = first or last - timedelta(days=DAYS - 1)
        budget = daily_budget(agent_id, agent, now=self.now)
        if self.principal.user_id is not None and actor_id is not None:
            budget = replace(budget, spent=spent_today(actor_id, agent, now=self.now))
        body = {
            "agent_id": agent_id,
            "user_id": user_id,
            "from": first,
            "to": last,
            "results": usage("operation", "model", agent_id=agent_id, actor_id=actor_id, first=first, last=last),
            "keys": None,
            "users": None,
            "today": budget,
        }
        if (by := values.get("by")) is not None:
            rows = usage(BREAKDOWNS[by], agent_id=agent_id, actor_id=actor_id, first=first, last=last)[:MAX_ROWS]
            body |= {"keys": with_key_names(rows)} if by == "key" else {"users": rows}
        return Response(SpendingOut(body).data)


def with_key_names(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return totals by key with the names of the keys; empty where no key caused them."""
    totals = list(rows)
    names = key_names(row["key_id"] for row in totals if row["key_id"])
    return [{**row, "name": names.get(row["key_id"], "")} for row in totals]


class ProgressOut(serializers.Serializer):
    """Progress of long work."""

    done = serializers.IntegerField()
    total = serializers.IntegerField(allow_null=True)


class JobOut(serializers.Serializer):
    """A job; `failed` would fail again, `dead` was given up after three attempts."""

    id = serializers.UUIDField()
    kind = serializers.CharField()
    state = serializers.ChoiceField(choices=[state.value for state in State])
    attempts = serializers.IntegerField()
    error = serializers.CharField(help_text="What went wrong last; empty where nothing did.")
    progress = ProgressOut(allow_null=True)
    created_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)


class OneJob(ApiView):
    is_polled = True

    @operation("job_get", Scope.READ, responses=JobOut)
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return where a job is on its way."""
        return Response(JobOut(self.owned(Job.objects.all(), job_id)).data)
