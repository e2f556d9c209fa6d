"""Screens of provider usage and spending, and of token calibration. For administrators."""

import csv
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.db.models import QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.timezone import get_current_timezone, get_default_timezone, localdate, localtime
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminDateWidget

from memoryhub.admin.base import ReadOnlyAdmin, clock, format_count, link_to, render_page, title_with_time
from memoryhub.admin.columns import choice_filter, column, dollars, full_time, id_chip
from memoryhub.admin.dashboard import Curve, PanelItem, Section, Tile
from memoryhub.admin.labels import OPERATIONS, OUTCOMES, PROVIDERS
from memoryhub.api.usage import DAYS, FIRST_DAY, LAST_DAY, MAX_DAYS, with_key_names
from memoryhub.llm.usage.caps import DEMO_PROVIDER, OK, BudgetPolicy
from memoryhub.llm.usage.models import LedgerEntry, TokenFactors
from memoryhub.llm.usage.spending import (
    DailyBudget,
    between,
    by_column,
    by_day,
    capped_agents,
    daily_budgets,
    paused_agents,
    spent_in,
    today_start,
)
from memoryhub.tenancy.policies import effective_policy
from memoryhub.unfold import Page
from memoryhub.zones import day_end, day_start

MAX_DAYS_SHOWN = 20
SUMMED_PERIOD = timedelta(days=31)
"""Calls in the totals above the list; older ones are only listed."""


def usage_tiles(now: datetime) -> list[PanelItem]:
    today = LedgerEntry.objects.filter(created_at__gte=today_start(now, get_default_timezone()))
    spent = spent_in(today)
    title, figure = _("Spent today"), dollars(spent.cost)
    if spent.tokens and not spent.cost:  # no price is known: 0 would be wrong
        title, figure = _("Tokens today"), format_count(spent.tokens)
    return [
        Tile(title, figure, _state(now), LedgerEntry, section=Section.BACKGROUND, page="spending"),
        Curve(
            _("Spent"),
            LedgerEntry.objects.all(),
            "created_at",
            LedgerEntry,
            value=Sum("cost"),
            page="spending",
            is_money=True,
        ),
    ]


def _state(now: datetime) -> str:
    waiting = [budget.agent_id for budget in paused_agents(now=now)]
    if waiting:
        return gettext("cap reached: %(agents)s") % {"agents": ", ".join(waiting[:3])}
    latest = LedgerEntry.objects.order_by("-created_at", "-id").first()
    if latest is not None and latest.provider == DEMO_PROVIDER:
        return gettext("no calls yet; the curve is demo data")
    if latest is None:
        return gettext("no calls yet")
    if latest.outcome == OK:
        words = gettext("%(provider)s answered the last call")
        return words % {"provider": PROVIDERS.get(latest.provider, latest.provider)}
    failure = {
        "provider": PROVIDERS.get(latest.provider, latest.provider),
        "code": OUTCOMES.get(latest.outcome, latest.outcome),
    }
    return gettext("%(provider)s failed last: %(code)s") % failure


OperationFilter = choice_filter(_("operation"), "operation", OPERATIONS.items)


@admin.register(LedgerEntry)
class LedgerAdmin(ReadOnlyAdmin):
    """Calls to providers: figures only; above the list, totals of what the filters show, by agent and day."""

    empty_hint = _("Each call of a language model or embedder is recorded here.")
    list_per_page = 28  # wide rows: a page stays under 350 KB
    list_display = (
        "created_at", "agent_id", "shown_operation", "model", "shown_outcome", "input_tokens", "estimated_tokens",
        "output_tokens", "latency_ms", "cost",
    )  # fmt: skip
    list_filter = ("agent_id", OperationFilter, "outcome", "model", "created_at")
    search_fields = ("agent_id", "operation", "model", "outcome")
    ordering = ("-created_at", "-id")
    id_fields = ("pk", "key_id")
    fields = (
        ("created_at", "latency_ms"),
        ("agent_id", "actor", "key"),
        ("shown_operation", "outcome"),
        ("provider", "model"),
        ("input_tokens", "output_tokens", "cost"),
        ("cache_read_tokens", "cache_write_tokens"),
        ("estimated_tokens", "messages", "is_sample"),
        ("raw_latin", "raw_japanese", "raw_code", "raw_other"),
    )
    list_before_template = "admin/memoryhub/ledgerentry/totals.html"

    def title_of(self, row: LedgerEntry) -> str:
        return title_with_time(OPERATIONS.get(row.operation, row.operation), row.created_at)

    key = column(
        _("API key"),
        lambda entry: link_to("admin:memoryhub_apikey_change", entry.key_id, entry.key_id) if entry.key_id else "-",
    )
    shown_operation = column(
        _("operation"), lambda entry: OPERATIONS.get(entry.operation, entry.operation), ordering="operation"
    )
    shown_outcome = column(
        _("outcome"),
        lambda entry: (OK if entry.outcome == OK else "failed", OUTCOMES.get(entry.outcome, entry.outcome)),
        ordering="outcome",
        colours={OK: "success", "failed": "danger"},
    )

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        response = super().changelist_view(request, extra_context)
        changelist = getattr(response, "context_data", {}).get("cl")
        if changelist is not None:
            response.context_data.update(_totals(changelist.queryset))
        return response


def _totals(listed: Any) -> dict[str, Any]:
    rows = listed.filter(created_at__gte=today_start(clock(), get_current_timezone()) - SUMMED_PERIOD)
    caps, spent = cap_labels(), spent_in(rows)
    table = {
        "headers": [_("day"), _("agent"), _("calls"), _("failures"), _("tokens"), _("cost"), _("daily cap")],
        "rows": [
            [
                date_format(day["day"]),
                id_chip(day["agent_id"]) if day["agent_id"] else "-",
                day["calls"],
                day["failures"],
                format_count(day["read"] + day["written"]),
                dollars(day["dollars"]),
                caps.get(day["agent_id"], "-"),
            ]
            for day in by_day(rows, get_current_timezone(), "agent_id")[:MAX_DAYS_SHOWN]
        ],
    }
    return {
        "by_day": table,
        "total": {"cost": dollars(spent.cost), "tokens": format_count(spent.tokens)},
        "paused": [paused_sentence(budget) for budget in paused_agents(now=clock())],
        "demo": demo_notice(rows),
    }


def demo_notice(calls: QuerySet[LedgerEntry]) -> str:
    """Return a note if calls of the demo are among these."""
    if not calls.filter(provider=DEMO_PROVIDER).exists():
        return ""
    return gettext("Calls of the demo data are included, marked “demo”. They were not made and cost nothing.")


def cap_labels() -> dict[str, str]:
    labels = {}
    for agent in capped_agents():
        policy = effective_policy(BudgetPolicy, agent, None)
        parts = []
        if policy.daily_spend_cap is not None:
            parts.append(f"{policy.daily_spend_cap} USD")
        if policy.daily_token_cap is not None:
            parts.append(token_count_label(policy.daily_token_cap))
        labels[agent.agent_id] = ", ".join(parts) or "-"
    return labels


def token_count_label(number: int) -> str:
    return ngettext("%(number)s token", "%(number)s tokens", number) % {"number": format_count(number)}


CAP_LABELS = {"daily_token_cap": _("daily token cap"), "daily_spend_cap": _("daily spend cap")}


def paused_sentence(budget: DailyBudget) -> str:
    if budget.reached == "daily_token_cap":
        cap = token_count_label(budget.policy.daily_token_cap or 0)
        used = token_count_label(budget.spent.tokens)
    else:
        cap, used = f"{budget.policy.daily_spend_cap} USD", dollars(budget.spent.cost)
    return gettext(
        "The agent %(agent)s has reached its %(name)s of %(cap)s (used: %(used)s). Its background work is paused "
        "until %(time)s; chat continues."
    ) % {
        "agent": budget.agent_id,
        "name": CAP_LABELS[budget.reached or ""],
        "cap": cap,
        "used": used,
        "time": full_time(budget.ends_at),
    }


@admin.register(TokenFactors)
class FactorsAdmin(ReadOnlyAdmin):
    """Calibration of token counts by model, with the error before and after."""

    empty_hint = _("Once a language model has answered some requests, its token counts are compared here.")
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

    before = column(
        _("error before (median, p95)"), lambda row: f"{row.error_before_median:.1%}, {row.error_before_p95:.1%}"
    )
    after = column(
        _("error after (median, p95)"), lambda row: f"{row.error_after_median:.1%}, {row.error_after_p95:.1%}"
    )


PERIODS = (7, 30, 90)
MAX_ROWS = 300
MAX_GROUP_ROWS = 100
SUMMED_COLUMNS = ("calls", "failures", "read", "written")
MAX_CSV_LINES = 100_000
PERMISSIONS = ("memoryhub.view_ledgerentry",)
COLUMNS = ("day", "agent_id", "calls", "failures", "input_tokens", "output_tokens", "cost_usd")


class DayField(forms.DateField):
    widget = UnfoldAdminDateWidget(attrs={"type": "date"})

    def validate(self, value: date | None) -> None:
        super().validate(value)
        if value is not None and not FIRST_DAY <= value <= LAST_DAY:
            raise forms.ValidationError(_("There are no calls that day."))


class PeriodForm(forms.Form):
    """The first and the last day, in the person's zone."""

    first = DayField(label=_("From"))
    last = DayField(label=_("To"))

    @property
    def media(self) -> forms.Media:
        return forms.Media()

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        first, last = values.get("first"), values.get("last")
        if first and last and not 0 <= (last - first).days < MAX_DAYS:
            problem = _("This must be 0 to %(most)d days after the first.")
            self.add_error("last", forms.ValidationError(problem, params={"most": MAX_DAYS - 1}))
        return values


def _last_days(days: int) -> tuple[date, date]:
    today = localdate(clock())
    return today - timedelta(days=days - 1), today


def _days_query(first: date, last: date) -> str:
    return f"?first={first.isoformat()}&last={last.isoformat()}"


def _period(request: HttpRequest) -> tuple[PeriodForm, date, date]:
    first, last = _last_days(DAYS)
    submitted = {name: request.GET[name] for name in ("first", "last") if name in request.GET}
    form = PeriodForm({"first": first.isoformat(), "last": last.isoformat(), **submitted})
    if form.is_valid():
        return form, form.cleaned_data["first"], form.cleaned_data["last"]
    return form, first, last


def spending(request: HttpRequest) -> HttpResponse:
    form, first, last = _period(request)
    zone = get_current_timezone()
    calls = between(first, last, zone)
    rows = list(by_day(calls, zone, "agent_id")[: MAX_ROWS + 1])
    is_whole = len(rows) <= MAX_ROWS
    days = _summed(rows, "day") if is_whole else list(by_day(calls, zone))
    agents = _summed(rows, "agent_id") if is_whole else list(by_column(calls, "agent_id"))
    spent = spent_in(calls)

    def totals_by(column: str) -> list[dict[str, Any]]:
        rows = list(by_column(calls, column))
        return with_key_names(rows) if column == "key_id" else rows

    listed = f"{reverse('admin:memoryhub_ledgerentry_changelist')}?{_period_query(first, last, zone)}"
    return render_page(
        request,
        "admin/memoryhub/spending.html",
        title=_("Spending"),
        form=form,
        periods=list(_periods()),
        total=_amount(spent.cost, spent.tokens),
        bars=_bars(days, until=min(last, localdate(clock()))),
        by_cost=bool(spent.cost),
        groups=[
            _group(key, agents if key == "agents" else totals_by(group[0]), listed) for key, group in GROUPS.items()
        ],
        rows=[_day_figures(row, listed) for row in rows[:MAX_ROWS]],
        left_out=not is_whole,
        caps=list(_caps()),
        paused=[paused_sentence(budget) for budget in paused_agents(now=clock())],
        demo=demo_notice(calls),
        file=reverse("spending_totals") + _days_query(first, last),
    )


def _most_first(row: dict[str, Any]) -> tuple[Any, ...]:
    return -(row["dollars"] or 0), -(row["read"] + row["written"])


Named = Callable[[dict[str, Any]], tuple[Any, dict[str, str]]]
"""Return the name of a row of totals, and the filters that list its calls; without filters it is no link."""

GROUPS: Final[dict[str, tuple[str, Any, Any, Named]]] = {
    "agents": (
        "agent_id", _("By agent"), _("Agent"),
        lambda row: (row["agent_id"] or _("the operator"), {"agent_id": row["agent_id"]} if row["agent_id"] else {}),
    ),
    "purposes": (
        "operation", _("By purpose"), _("Purpose"),
        lambda row: (OPERATIONS.get(row["operation"], row["operation"]), {"operation": row["operation"]}),
    ),
    "models": ("model", _("By model"), _("Model"), lambda row: (row["model"] or "-", {"q": row["model"]})),
    "keys": (
        "key_id", _("By key"), _("API key"),
        lambda row: (row["name"], {"q": row["key_id"]}) if row["key_id"] else (_("no key"), {}),
    ),
    "users": (
        "actor__user_id", _("By user"), _("User"),
        lambda row: (row["actor__user_id"] or _("no user"), {}),
    ),
}  # fmt: skip
"""Totals on the page of spending: column, title, heading of the first column, names."""


def _group(key: str, rows: list[dict[str, Any]], listed: str) -> dict[str, Any]:
    """Return the largest totals of a group for the page."""
    _column, title, heading, named = GROUPS[key]
    shown = []
    for row in sorted(rows, key=_most_first)[:MAX_GROUP_ROWS]:
        name, filters = named(row)
        href = f"{listed}&{urlencode(filters)}" if filters else ""
        shown.append({**_figures(row), "name": name, "href": href})
    return {"id": key, "title": title, "heading": heading, "rows": shown, "is_cut": len(rows) > MAX_GROUP_ROWS}


def _periods() -> Iterator[dict[str, Any]]:
    yield {"title": _("today"), "query": _days_query(*_last_days(1))}
    month_start = localdate(clock()).replace(day=1)
    previous_month_end = month_start - timedelta(days=1)
    yield {"title": _("this month"), "query": _days_query(month_start, localdate(clock()))}
    yield {"title": _("last month"), "query": _days_query(previous_month_end.replace(day=1), previous_month_end)}
    for days in PERIODS:
        text = ngettext("the last %(days)d day", "the last %(days)d days", days)
        yield {"title": text % {"days": days}, "query": _days_query(*_last_days(days))}


def _period_query(first: date, last: date, zone: tzinfo) -> str:
    """Return the list filter of calls of the same days, in the user's time zone."""
    ends = {"from": day_start(first, zone), "to": day_end(last, zone) - timedelta(microseconds=1)}
    parts: dict[str, Any] = {}
    for name, moment in ends.items():
        local = localtime(moment)
        parts |= {f"created_at_{name}_0": local.date(), f"created_at_{name}_1": local.time()}
    return urlencode(parts)


def _summed(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return sums of rows grouped by a column, in order of appearance."""
    sums: dict[Any, dict[str, Any]] = {}
    for row in rows:
        total = sums.setdefault(row[name], dict.fromkeys(SUMMED_COLUMNS, 0) | {name: row[name], "dollars": None})
        for figure in SUMMED_COLUMNS:
            total[figure] += row[figure]
        if row["dollars"] is not None:
            total["dollars"] = (total["dollars"] or 0) + row["dollars"]
    return list(sums.values())


def _day_figures(row: dict[str, Any], listed: str) -> dict[str, Any]:
    href = f"{listed}&{urlencode({'agent_id': row['agent_id']})}"
    return {**_figures(row), "agent": row["agent_id"], "href": href}


def _figures(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "tokens": format_count(row["read"] + row["written"]), "cost": dollars(row["dollars"])}


def totals_csv(request: HttpRequest) -> HttpResponse:
    """Return the totals of a period as CSV, one line for each agent and day."""
    form, first, last = _period(request)
    if not form.is_valid():
        return HttpResponse(status=400, content=_("The days cannot be used."))
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="spending-{first}-{last}.csv"'
    writer = csv.writer(response)
    writer.writerow(COLUMNS)
    zone = get_current_timezone()
    for row in by_day(between(first, last, zone), zone, "agent_id")[:MAX_CSV_LINES]:
        cost = "" if row["dollars"] is None else f"{row['dollars']:f}"
        agent = row["agent_id"]
        # A spreadsheet must not evaluate a name as a formula.
        escaped = f"'{agent}" if agent.startswith(("=", "+", "-", "@")) else agent
        writer.writerow([row["day"], escaped, row["calls"], row["failures"], row["read"], row["written"], cost])
    return response


def _amount(cost: Decimal | None, tokens: int) -> str:
    used = token_count_label(tokens)
    return f"{dollars(cost)}, {used}" if cost else used


def _bars(days: list[dict[str, Any]], *, until: date) -> list[dict[str, Any]]:
    """Return a bar for each day from the first with calls, newest first, in percent of the longest.

    By cost where any is known, else by tokens.
    """
    if not days:
        return []
    days_by_date, newest = {day["day"]: day for day in days}, max(until, days[0]["day"])
    all_days = (newest - timedelta(days=age) for age in range((newest - days[-1]["day"]).days + 1))
    days = [days_by_date.get(day, {"day": day, "dollars": None, "read": 0, "written": 0}) for day in all_days]
    costs = [float(day["dollars"] or 0) for day in days]
    lengths = costs if any(costs) else [float(day["read"] + day["written"]) for day in days]
    longest = max(lengths) or 1.0
    return [
        {
            **day,
            "percent": f"{100 * length / longest:.1f}",
            "words": _amount(day["dollars"], day["read"] + day["written"]),
        }
        for day, length in zip(days, lengths, strict=True)
    ]


def _caps() -> Iterator[dict[str, Any]]:
    words = cap_labels()
    for budget in daily_budgets(now=clock()):
        policy, cost, tokens = budget.policy, budget.spent.cost, budget.spent.tokens
        shares = [
            float(cost) / policy.daily_spend_cap if policy.daily_spend_cap else 0.0,
            tokens / policy.daily_token_cap if policy.daily_token_cap else 0.0,
            1.0 if 0 in (policy.daily_spend_cap, policy.daily_token_cap) else 0.0,
        ]
        percent = min(100, round(100 * max(shares)))
        used = _amount(cost, tokens)
        yield {"agent": budget.agent_id, "cap": words[budget.agent_id], "used": used, "percent": percent}


PAGES = [
    Page("spending/", "spending", spending, needs=PERMISSIONS),
    Page("spending/totals.csv", "spending_totals", totals_csv, needs=PERMISSIONS),
]
