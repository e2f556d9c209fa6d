"""Screens of what calls to providers cost, and of how tokens are counted. For administrators."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import FieldTextFilter

from memoryhub.admin.base import ReadOnlyAdmin, clock, labelled
from memoryhub.admin.dashboard import Section, Tile
from memoryhub.admin.periods import PeriodFilter
from memoryhub.admin.titles import dated
from memoryhub.llm.usage.domain import OK, LedgerPolicy, day_start
from memoryhub.llm.usage.models import LedgerEntry, TokenFactors
from memoryhub.llm.usage.spending import Standing, by_agent_and_day, capped_agents, paused, spent_in
from memoryhub.tenancy.policies import effective_policy

MOST_DAYS_SHOWN = 20
ADDED_UP = timedelta(days=31)
"""Older calls are listed, and no longer added up above the list."""


def dollars(amount: Any) -> str:
    """Return an amount of US dollars as people read it."""
    return "-" if amount is None else f"{number_format(amount, decimal_pos=4, force_grouping=True)} USD"


def tiles(now: datetime) -> list[Tile]:
    """Return what today cost, and whether the providers answer or anybody's background work is paused."""
    today = LedgerEntry.objects.filter(created_at__gte=day_start(now))
    spent = spent_in(today)
    title, figure = _("Spent today"), dollars(spent.cost)
    if spent.tokens and not spent.cost:  # no price is known: nought would be a lie
        title, figure = _("Tokens today"), number_format(spent.tokens, force_grouping=True)
    tile = Tile(title, figure, _state(now), LedgerEntry, section=Section.BACKGROUND, page="spending")
    return [tile]


def _state(now: datetime) -> str:
    """Return the worst news of the providers: work that is paused, calls that fail, or that all is well."""
    waiting = [standing.agent_id for standing in paused(now=now)]
    if waiting:
        return gettext("cap reached: %(agents)s") % {"agents": ", ".join(waiting[:3])}
    latest = LedgerEntry.objects.order_by("-created_at", "-id").first()
    if latest is None:
        return gettext("no calls yet")
    if latest.outcome == OK:
        return gettext("%(provider)s answers") % {"provider": latest.provider}
    return gettext("%(provider)s failed last: %(code)s") % {
        "provider": latest.provider,
        "code": latest.outcome,
    }


@admin.register(LedgerEntry)
class LedgerAdmin(ReadOnlyAdmin):
    """Calls to providers: figures only; above the list, totals of what the filters show, by agent and day."""

    list_per_page = 30  # wide rows: a page stays under 400 KB
    list_display = (
        "created_at", "agent_id", "operation", "model", "shown_outcome", "input_tokens", "estimated_tokens",
        "output_tokens", "latency_ms", "cost",
    )  # fmt: skip
    list_filter = (
        ("agent_id", FieldTextFilter),
        ("operation", FieldTextFilter),
        ("outcome", FieldTextFilter),
        ("model", FieldTextFilter),
        ("created_at", PeriodFilter),
    )
    search_fields = ("agent_id", "operation", "model", "outcome")
    ordering = ("-created_at", "-id")
    fields = (
        ("created_at", "latency_ms"),
        ("agent_id", "actor"),
        ("operation", "outcome"),
        ("provider", "model"),
        ("input_tokens", "output_tokens", "cost"),
        ("cache_read_tokens", "cache_write_tokens"),
        ("estimated_tokens", "messages", "is_sample"),
        ("raw_latin", "raw_japanese", "raw_code", "raw_other"),
    )
    list_before_template = "admin/memoryhub/ledgerentry/totals.html"

    def title_of(self, row: LedgerEntry) -> str:
        """Return what was asked for, and when."""
        return dated(row.operation, row.created_at)

    @labelled({OK: "success", "failed": "danger"})
    @admin.display(description=_("outcome"), ordering="outcome")
    def shown_outcome(self, entry: LedgerEntry) -> tuple[str, str]:
        """Return how the call ended."""
        return (OK if entry.outcome == OK else "failed", entry.outcome)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Add the totals of the rows that the filters leave."""
        answer = super().changelist_view(request, extra_context)
        listed = getattr(answer, "context_data", {}).get("cl")
        if listed is not None:
            answer.context_data.update(_totals(listed.queryset))
        return answer


def _totals(listed: Any) -> dict[str, Any]:
    rows = listed.filter(created_at__gte=day_start(clock()) - ADDED_UP)
    days = by_agent_and_day(rows)[:MOST_DAYS_SHOWN]
    caps = caps_in_words()
    table = {
        "headers": [
            _("day"), _("agent"), _("calls"), _("failures"), _("tokens"), _("cost"), _("daily cap"),
        ],
        "rows": [
            [
                day["day"].isoformat(), day["agent_id"] or "-", day["calls"], day["failures"],
                number_format(day["read"] + day["written"], force_grouping=True), dollars(day["dollars"]),
                caps.get(day["agent_id"], "-"),
            ]
            for day in days
        ],
    }  # fmt: skip
    spent = spent_in(rows)
    return {
        "by_day": table,
        "total": {"cost": dollars(spent.cost), "tokens": number_format(spent.tokens, force_grouping=True)},
        "paused": [paused_in_words(standing) for standing in paused(now=clock())],
    }


def caps_in_words() -> dict[str, str]:
    """Return the caps of each agent that has one, in words."""
    found = {}
    for agent in capped_agents():
        policy = effective_policy(LedgerPolicy, agent, None)
        parts = [
            *([f"{policy.daily_spend_cap} USD"] if policy.daily_spend_cap is not None else []),
            *([tokens_in_words(policy.daily_token_cap)] if policy.daily_token_cap is not None else []),
        ]
        found[agent.agent_id] = ", ".join(parts) or "-"
    return found


def tokens_in_words(number: int) -> str:
    """Return a number of tokens as people read it."""
    shown = number_format(number, force_grouping=True)
    return ngettext("%(number)s token", "%(number)s tokens", number) % {"number": shown}


CAPS_IN_WORDS = {"daily_token_cap": _("daily token cap"), "daily_spend_cap": _("daily spend cap")}


def paused_in_words(standing: Standing) -> str:
    """Say that an agent's background work waits, and until when."""
    if standing.reached == "daily_token_cap":
        cap, used = (
            tokens_in_words(standing.policy.daily_token_cap or 0),
            tokens_in_words(standing.spent.tokens),
        )
    else:
        cap, used = f"{standing.policy.daily_spend_cap} USD", dollars(standing.spent.cost)
    return gettext(
        "The agent %(agent)s has reached its %(name)s of %(cap)s (used: %(used)s). Its background work is paused "
        "until %(time)s UTC; chat goes on."
    ) % {
        "agent": standing.agent_id,
        "name": CAPS_IN_WORDS[standing.reached or ""],
        "cap": cap,
        "used": used,
        "time": standing.ends_at.strftime("%Y-%m-%d %H:%M"),
    }


@admin.register(TokenFactors)
class FactorsAdmin(ReadOnlyAdmin):
    """How each model counts, fitted to its own answers, with the error before and after."""

    list_display = (
        "model", "provider", "latin", "japanese", "code", "other", "per_message", "per_request", "samples",
        "before", "after", "fitted_at",
    )  # fmt: skip
    search_fields = ("provider", "model")
    fields = (
        ("provider", "model"),
        ("latin", "japanese", "code", "other"),
        ("per_message", "per_request"),
        ("samples", "fitted_at"),
        ("error_before_median", "error_before_p95"),
        ("error_after_median", "error_after_p95"),
    )

    @admin.display(description=_("error before (median, p95)"))
    def before(self, row: TokenFactors) -> str:
        """Return how far estimates lay off with the factors of the table."""
        return f"{row.error_before_median:.1%}, {row.error_before_p95:.1%}"

    @admin.display(description=_("error after (median, p95)"))
    def after(self, row: TokenFactors) -> str:
        """Return how far they lie off with these."""
        return f"{row.error_after_median:.1%}, {row.error_after_p95:.1%}"
