"""Costs of models: by agent and day, as bars with words, beside the caps, and as a file."""

import csv
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format

from memoryhub.admin.labels import OPERATIONS
from memoryhub.admin.usage import MAX_ROWS
from memoryhub.auth.access import ensure_actor
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.tenancy.models import Agent

pytestmark = pytest.mark.usefixtures("one_day")


def call(agent_id: str = "kana", *, days_ago: int = 0, **values: Any) -> LedgerEntry:
    defaults: dict[str, Any] = {
        "operation": "chat",
        "provider": "anthropic",
        "model": "claude-x",
        "latency_ms": 1.0,
        "input_tokens": 100,
        "output_tokens": 20,
        "estimated_tokens": 120,
        "cost": Decimal("0.25"),
    }
    at = timezone.now() - timedelta(days=days_ago)
    return LedgerEntry.objects.create(agent_id=agent_id, created_at=at, **{**defaults, **values})


def spending(browser: Client, **query: str) -> Any:
    response = browser.get(reverse("spending"), query)
    assert response.status_code == 200
    return response


def totals(browser: Client, **query: str) -> list[dict[str, str]]:
    response = browser.get(reverse("spending_totals"), query)
    assert response["Content-Type"].startswith("text/csv") and "attachment" in response["Content-Disposition"]
    return list(csv.DictReader(StringIO(response.content.decode())))


def test_no_calls_are_told_in_words(boss: Client) -> None:
    assert "No calls in these days." in spending(boss).content.decode()


def test_days_are_bars_with_words_and_rows_by_agent(boss: Client) -> None:
    call()
    call("yuno", cost=Decimal("0.75"))
    call(days_ago=1, cost=Decimal("0.5"))
    call(days_ago=40)
    context = spending(boss).context
    assert [(bar["percent"], bar["words"]) for bar in context["bars"]] == [
        ("100.0", "1.0000 USD, 240 tokens"),
        ("50.0", "0.5000 USD, 120 tokens"),
    ]
    assert [(row["agent"], row["cost"]) for row in context["rows"]] == [
        ("kana", "0.2500 USD"),
        ("yuno", "0.7500 USD"),
        ("kana", "0.5000 USD"),
    ]
    assert context["total"] == "1.5000 USD, 360 tokens"


def test_days_without_calls_are_bars_too_and_days_are_in_words(boss: Client) -> None:
    call(days_ago=4)
    call(days_ago=1)
    response = spending(boss)
    bars, today = response.context["bars"], timezone.localdate()
    assert [bar["day"] for bar in bars] == [today - timedelta(days=days_ago) for days_ago in range(5)]
    assert [bar["percent"] for bar in bars] == ["0.0", "100.0", "0.0", "0.0", "100.0"]
    assert bars[0]["words"] == "0 tokens"
    words = date_format(today - timedelta(days=2), "DATE_FORMAT")
    assert f">{words}</time>" in response.content.decode()
    last = (today - timedelta(days=3)).isoformat()
    assert len(spending(boss, last=last).context["bars"]) == 2


def test_agents_are_added_up_and_a_sum_is_the_same_in_each_place(boss: Client) -> None:
    for days_ago in range(3):
        call(days_ago=days_ago, cost=Decimal("0.00009"))
        call("yuno", days_ago=days_ago, cost=Decimal("0.00014"))
    response = spending(boss)
    context = response.context
    assert [row["cost"] for row in context["rows"]] == ["0.0001 USD"] * 6
    assert [(row["name"], row["cost"], row["calls"]) for row in context["groups"][0]["rows"]] == [
        ("yuno", "0.0004 USD", 3),
        ("kana", "0.0003 USD", 3),
    ]
    assert context["total"].startswith("0.0007 USD")
    assert [bar["words"] for bar in context["bars"]] == ["0.0002 USD, 240 tokens"] * 3


def test_purposes_models_and_users_are_added_up(boss: Client) -> None:
    maya = ensure_actor(Agent.objects.create(agent_id="kana"), "maya")
    rows = [call(cost=Decimal("0.5")), call(cost=Decimal("0.25")), call()]
    LedgerEntry.objects.filter(pk=rows[1].pk).update(operation="extract", model="small", actor=maya)
    LedgerEntry.objects.filter(pk=rows[2].pk).update(operation="extract", model="small", cost=Decimal("0.5"))
    groups = {group["id"]: group for group in spending(boss).context["groups"]}
    found = {key: [(str(row["name"]), row["cost"]) for row in group["rows"]] for key, group in groups.items()}
    assert found["purposes"][0] == (str(OPERATIONS["extract"]), "0.7500 USD") and len(found["purposes"]) == 2
    assert found["models"][0] == ("small", "0.7500 USD") and len(found["models"]) == 2
    assert found["users"] == [("no user", "1.0000 USD"), ("maya", "0.2500 USD")]
    for key in ("purposes", "models"):
        listed = boss.get(groups[key]["rows"][0]["href"]).context["cl"].result_list
        assert {row.pk for row in listed} == {rows[1].pk, rows[2].pk}


def test_an_agents_calls_are_listed_for_the_same_days(boss: Client) -> None:
    old, new = call(days_ago=3), call()
    for zone in ("", "Asia/Tokyo"):
        day = timezone.localdate(timezone.now() - timedelta(days=3), ZoneInfo(zone or "UTC")).isoformat()
        boss.post(reverse("time_zone"), {"time_zone": zone})
        (row,) = spending(boss, first=day, last=day).context["groups"][0]["rows"]
        assert list(boss.get(row["href"]).context["cl"].result_list) == [old], zone
    assert new in boss.get(row["href"].split("?")[0]).context["cl"].result_list


def test_months_are_one_click_away(boss: Client) -> None:
    of_today, this, last = spending(boss).context["periods"][:3]
    today = timezone.now().date()
    assert of_today["query"] == f"?first={today}&last={today}"
    first = today.replace(day=1)
    assert this["query"] == f"?first={first}&last={today}"
    assert last["query"].endswith(f"&last={first - timedelta(days=1)}")
    assert boss.get(reverse("spending") + last["query"]).context["form"].is_valid()


def test_tokens_are_shown_where_no_price_is_known(boss: Client) -> None:
    call(cost=None)
    response = spending(boss)
    assert [bar["words"] for bar in response.context["bars"]] == ["120 tokens"]
    assert "Tokens by day" in response.content.decode()


def test_a_period_narrows_page_and_file(boss: Client) -> None:
    call()
    call(days_ago=3, outcome="timeout", input_tokens=None, output_tokens=None, cost=None)
    day = (timezone.now() - timedelta(days=3)).date().isoformat()
    response = spending(boss, first=day, last=day)
    assert [row["failures"] for row in response.context["rows"]] == [1]
    assert totals(boss, first=day, last=day) == [
        {"day": day, "agent_id": "kana", "calls": "1", "failures": "1", "input_tokens": "0", "output_tokens": "0",
         "cost_usd": ""}
    ]  # fmt: skip
    assert totals(boss)[0]["cost_usd"] == "0.25000000"


def test_days_that_cannot_be_used_are_told_beside_the_field(boss: Client) -> None:
    for query in (
        {"first": "x"},
        {"first": "2026-02-30"},
        {"first": "2026-03-02", "last": "2026-03-01"},
        {"first": "2020-01-01"},
        {"last": "9999-12-31"},
    ):
        assert spending(boss, **query).context["form"].errors
        assert boss.get(reverse("spending_totals"), query).status_code == 400


def test_the_calendars_ends_break_nothing(boss: Client) -> None:
    for day in ("0001-01-01", "9999-12-31"):
        assert spending(boss, first=day, last=day).context["form"].errors


def test_caps_stand_beside_what_today_used(boss: Client) -> None:
    Agent.objects.create(agent_id="kana", policy={"daily_spend_cap": 1.0})
    Agent.objects.create(agent_id="none", policy={"daily_token_cap": 0})
    Agent.objects.create(agent_id="free")
    call(cost=Decimal("0.5"))
    response = spending(boss)
    assert [(cap["agent"], cap["percent"]) for cap in response.context["caps"]] == [("kana", 50), ("none", 100)]
    assert "none has reached its daily token cap" in response.content.decode()


def test_the_table_is_cut_and_says_so_and_the_file_holds_all(boss: Client) -> None:
    LedgerEntry.objects.bulk_create(
        LedgerEntry(
            agent_id=f"agent-{number}",
            created_at=timezone.now(),
            operation="chat",
            provider="x",
            model="y",
            latency_ms=1.0,
            input_tokens=1,
            estimated_tokens=1,
        )
        for number in range(MAX_ROWS + 5)
    )
    with CaptureQueriesContext(connection) as captured:
        response = spending(boss)
    assert len(response.context["rows"]) == MAX_ROWS and "There are more" in response.content.decode()
    assert len(totals(boss)) == MAX_ROWS + 5
    assert len(captured) <= 25 and len(response.content) < 400_000


def test_a_spreadsheet_runs_nothing_of_an_agents_name(boss: Client) -> None:
    call("-2+3")
    assert totals(boss)[0]["agent_id"] == "'-2+3"
