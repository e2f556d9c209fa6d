"""What models cost: by agent and day, as bars and as a table, beside the caps, and as a file. For administrators."""

import csv
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminDateWidget

from memoryhub.admin.base import clock
from memoryhub.admin.ledger import caps_in_words, dollars, paused_in_words, tokens_in_words
from memoryhub.admin.pages import Page, shown
from memoryhub.llm.usage.domain import LedgerPolicy
from memoryhub.llm.usage.spending import between, by_agent_and_day, by_day, capped_agents, paused, spent_in
from memoryhub.tenancy.policies import effective_policy

PERIODS = (7, 30, 90)
DAYS = 30
MOST_DAYS = 400
"""No row of the ledger is kept for longer."""

MOST_ROWS = 300
MOST_LINES = 100_000
NEEDS = ("memoryhub.view_ledgerentry",)
COLUMNS = ("day", "agent_id", "calls", "failures", "input_tokens", "output_tokens", "cost_usd")


FIRST_DAY = date(1970, 1, 1)
LAST_DAY = date(9000, 1, 1)


def _is_told_of(day: date) -> None:
    """Raise a validation error for a day beyond which nothing can be reckoned."""
    if not FIRST_DAY <= day <= LAST_DAY:
        raise forms.ValidationError(_("There are no calls that day."))


class PeriodForm(forms.Form):
    """The first and the last day, in UTC."""

    first = forms.DateField(
        label=_("From"), widget=UnfoldAdminDateWidget(attrs={"type": "date"}), validators=[_is_told_of]
    )
    last = forms.DateField(
        label=_("To"), widget=UnfoldAdminDateWidget(attrs={"type": "date"}), validators=[_is_told_of]
    )

    @property
    def media(self) -> forms.Media:
        """Return nothing: the browser's own calendar does."""
        return forms.Media()

    def clean(self) -> dict[str, Any]:
        """Return the days; raises a validation error where they come in the wrong order, or are too many."""
        values = super().clean() or self.cleaned_data
        first, last = values.get("first"), values.get("last")
        if first and last and not 0 <= (last - first).days < MOST_DAYS:
            problem = _("This must be 0 to %(most)d days after the first.")
            self.add_error("last", forms.ValidationError(problem, params={"most": MOST_DAYS - 1}))
        return values


@dataclass(frozen=True)
class Bar:
    """A day in the chart: its length in percent of the longest, and what it stands for in words."""

    day: date
    percent: str
    words: str


def _today() -> date:
    return clock().date()


def _period(request: HttpRequest) -> tuple[PeriodForm, date, date]:
    """Return the form and the days that it says; the last thirty where it says none that can be used."""
    last, first = _today(), _today() - timedelta(days=DAYS - 1)
    asked = {name: request.GET[name] for name in ("first", "last") if name in request.GET}
    form = PeriodForm({"first": first.isoformat(), "last": last.isoformat(), **asked})
    if form.is_valid():
        return form, form.cleaned_data["first"], form.cleaned_data["last"]
    return form, first, last


def spending(request: HttpRequest) -> HttpResponse:
    """Show what a period cost."""
    form, first, last = _period(request)
    calls = between(first, last)
    rows = list(by_agent_and_day(calls)[: MOST_ROWS + 1])
    spent = spent_in(calls)
    return shown(
        request,
        "admin/memoryhub/spending.html",
        title=_("Spending"),
        form=form,
        periods=[_preset(days) for days in PERIODS],
        total=_words(spent.cost, spent.tokens),
        bars=_bars(list(by_day(calls))),
        by_cost=bool(spent.cost),
        rows=[_row(row) for row in rows[:MOST_ROWS]],
        left_out=len(rows) > MOST_ROWS,
        caps=_caps(),
        paused=[paused_in_words(standing) for standing in paused(now=clock())],
        file=f"{reverse('spending_totals')}?first={first.isoformat()}&last={last.isoformat()}",
    )


def totals(request: HttpRequest) -> HttpResponse:
    """Return the totals of a period as CSV, one line for each agent and day."""
    form, first, last = _period(request)
    if not form.is_valid():
        return HttpResponse(status=400, content=_("The days cannot be used."))
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="spending-{first}-{last}.csv"'
    writer = csv.writer(answer)
    writer.writerow(COLUMNS)
    for row in by_agent_and_day(between(first, last))[:MOST_LINES]:
        cost = "" if row["dollars"] is None else f"{row['dollars']:f}"
        values = [
            row["day"],
            _harmless(row["agent_id"]),
            row["calls"],
            row["failures"],
            row["read"],
            row["written"],
            cost,
        ]
        writer.writerow(values)
    return answer


def _harmless(name: str) -> str:
    """Return a name that no spreadsheet takes for a formula."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@")) else name


def _preset(days: int) -> dict[str, Any]:
    first, last = _today() - timedelta(days=days - 1), _today()
    return {"days": days, "query": f"?first={first.isoformat()}&last={last.isoformat()}"}


def _words(cost: Decimal | None, tokens: int) -> str:
    """Return an amount in words: what it cost where prices are known, and the tokens."""
    used = tokens_in_words(tokens)
    return f"{dollars(cost)}, {used}" if cost else used


def _bars(days: list[dict[str, Any]]) -> list[Bar]:
    """Return a bar for each day: by cost where any is known, else by tokens."""
    costs = [float(day["dollars"] or 0) for day in days]
    lengths = costs if any(costs) else [float(day["read"] + day["written"]) for day in days]
    longest = max(lengths, default=0.0) or 1.0
    return [
        Bar(day["day"], f"{100 * length / longest:.1f}", _words(day["dollars"], day["read"] + day["written"]))
        for day, length in zip(days, lengths, strict=True)
    ]


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "day": row["day"],
        "agent": row["agent_id"],
        "calls": row["calls"],
        "failures": row["failures"],
        "tokens": number_format(row["read"] + row["written"], force_grouping=True),
        "cost": dollars(row["dollars"]),
    }


def _caps() -> list[dict[str, Any]]:
    """Return each agent that has a cap, with what it used of it today."""
    agents = {agent.agent_id: agent for agent in capped_agents()}
    words = caps_in_words()
    spent = {row["agent_id"]: row for row in by_agent_and_day(between(_today(), _today()))}
    return [_cap(agent, words[agent_id], spent.get(agent_id)) for agent_id, agent in agents.items()]


def _cap(agent: Any, words: str, row: dict[str, Any] | None) -> dict[str, Any]:
    policy = effective_policy(LedgerPolicy, agent, None)
    cost, tokens = (row["dollars"] or Decimal(0), row["read"] + row["written"]) if row else (Decimal(0), 0)
    shares = [
        float(cost) / policy.daily_spend_cap if policy.daily_spend_cap else 0.0,
        tokens / policy.daily_token_cap if policy.daily_token_cap else 0.0,
        1.0 if 0 in (policy.daily_spend_cap, policy.daily_token_cap) else 0.0,
    ]
    percent = min(100, round(100 * max(shares)))
    return {"agent": agent.agent_id, "cap": words, "used": _words(cost, tokens), "percent": percent}


PAGES = [
    Page("spending/", "spending", spending, needs=NEEDS),
    Page("spending/totals.csv", "spending_totals", totals, needs=NEEDS),
]
