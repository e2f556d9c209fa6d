"""`GET usage`: calls, tokens and cost by day, operation and model, of those the key may see."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from memoryhub.admin.columns import id_chip
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.tenancy.models import Actor
from tests.integration.memoryhub.llm.usage.conftest import cap

pytestmark = pytest.mark.usefixtures("one_day")
API = "/api/v1"


def called(actor: Actor | None, at: datetime, *, agent_id: str = "kana", **values: Any) -> LedgerEntry:
    defaults: dict[str, Any] = {
        "operation": "chat", "provider": "anthropic", "model": "claude-x", "latency_ms": 12.5, "input_tokens": 100,
        "output_tokens": 20, "estimated_tokens": 120, "cost": Decimal("0.25"), "outcome": "ok",
    }  # fmt: skip
    return LedgerEntry.objects.create(agent_id=agent_id, actor=actor, created_at=at, **{**defaults, **values})


def usage(client: APIClient, query: str = "agent_id=kana") -> Any:
    answer = client.get(f"{API}/usage?{query}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_calls_are_added_up_by_day_operation_and_model(client: APIClient, actor: Actor) -> None:
    now = timezone.now()
    for _ in range(2):
        called(actor, now)
    called(None, now, outcome="timeout", input_tokens=None, output_tokens=None, cost=None)
    called(actor, now, operation="embed", model="text-embedding-3-small", cost=None, output_tokens=0)
    called(actor, now - timedelta(days=1))
    called(actor, now - timedelta(days=40))
    called(None, now, agent_id="yuno")
    found = usage(client)
    today = now.date().isoformat()
    assert found["results"] == [
        {"day": today, "operation": "chat", "model": "claude-x", "calls": 3, "failures": 1, "input_tokens": 200,
         "output_tokens": 40, "cost": 0.5},
        {"day": today, "operation": "embed", "model": "text-embedding-3-small", "calls": 1, "failures": 0,
         "input_tokens": 100, "output_tokens": 0, "cost": None},
        {"day": (now - timedelta(days=1)).date().isoformat(), "operation": "chat", "model": "claude-x", "calls": 1,
         "failures": 0, "input_tokens": 100, "output_tokens": 20, "cost": 0.25},
    ]  # fmt: skip
    assert found["today"] == {
        "cost": 0.5,
        "tokens": 340,
        "daily_spend_cap": None,
        "daily_token_cap": None,
        "is_paused": False,
        "paused_until": None,
    }
    assert (found["agent_id"], found["user_id"], found["to"]) == ("kana", None, today)


def test_days_are_utc_and_both_ends_count(client: APIClient, actor: Actor) -> None:
    for moment in ("2026-03-01T23:59:59", "2026-03-02T00:00:00", "2026-03-03T23:59:59", "2026-03-04T00:00:00"):
        called(actor, datetime.fromisoformat(moment).replace(tzinfo=UTC))
    found = usage(client, "agent_id=kana&from=2026-03-02&to=2026-03-03")
    assert [(row["day"], row["calls"]) for row in found["results"]] == [("2026-03-03", 1), ("2026-03-02", 1)]
    assert (found["from"], found["to"]) == ("2026-03-02", "2026-03-03")
    assert len(usage(client, "agent_id=kana&from=2026-03-02")["results"]) == 3
    assert usage(client, "agent_id=kana&to=2026-03-01")["from"] == "2026-01-31"


@pytest.mark.parametrize(
    "query", ["", "agent_id=a%20b", "agent_id=kana&from=yesterday", "agent_id=kana&from=2026-03-02&to=2026-03-01",
              "agent_id=kana&from=2024-01-01&to=2026-03-01", "agent_id=kana&from=9999-12-31", "agent_id=kana&to=9999-12-31",
              "agent_id=kana&to=0001-01-01", "agent_id=kana&from=1969-12-31", "agent_id=kana&to=9000-01-02"],
)  # fmt: skip
def test_days_that_make_no_sense_are_refused(client: APIClient, query: str) -> None:
    assert client.get(f"{API}/usage?{query}").status_code == 400


@pytest.mark.parametrize("query", ["from=1970-01-01", "to=1970-01-01", "from=9000-01-01", "to=9000-01-01"])
def test_the_first_and_the_last_day_can_be_asked_for(client: APIClient, query: str) -> None:
    assert usage(client, f"agent_id=kana&{query}")["results"] == []


def test_a_user_sees_that_users_calls_and_whether_the_agent_is_paused(
    client: APIClient, make_client: Any, actor: Actor
) -> None:
    cap(actor, daily_spend_cap=0.4)
    called(actor, timezone.now())
    called(None, timezone.now())
    bound = make_client(agent_ids=["kana"], user_id="hiroki")
    for found, cost in ((usage(client, "agent_id=kana&user_id=hiroki"), 0.5), (usage(bound), 0.25)):
        assert [row["calls"] for row in found["results"]] == [1]
        assert found["today"]["cost"] == cost and found["today"]["is_paused"]
    assert bound.get(f"{API}/usage?agent_id=kana&user_id=aoi").status_code == 403
    assert make_client(agent_ids=["yuno"]).get(f"{API}/usage?agent_id=kana").status_code == 403
    assert make_client(scopes=["read", "write"]).get(f"{API}/usage?agent_id=kana").status_code == 403


def test_an_agent_that_never_called_has_used_nothing(client: APIClient) -> None:
    assert usage(client, "agent_id=nobody")["results"] == []


def test_the_admin_adds_up_what_its_filters_leave(actor: Actor) -> None:
    cap(actor, daily_spend_cap=7)
    called(actor, timezone.now())
    called(actor, timezone.now(), outcome="timeout", cost=None)
    called(None, timezone.now(), agent_id="yuno", cost=Decimal(3))
    browser = Client()
    browser.force_login(User.objects.create_superuser("boss", password="a long password"))
    page = reverse("admin:memoryhub_ledgerentry_changelist")
    everything = browser.get(page).context["by_day"]["rows"]
    kana, yuno = id_chip("kana"), id_chip("yuno")
    assert [(row[1], row[2], row[3], row[-1]) for row in everything] == [(kana, 2, 1, "7 USD"), (yuno, 1, 0, "-")]
    narrowed = browser.get(page, {"agent_id": "kana"})
    assert [row[1] for row in narrowed.context["by_day"]["rows"]] == [kana]
    assert "0.2500 USD" in narrowed.content.decode()
    assert browser.get(page, {"outcome": "timeout"}).context["cl"].result_count == 1


def test_the_dashboard_tells_what_today_cost_and_how_the_provider_does(actor: Actor) -> None:
    browser = Client()
    browser.force_login(User.objects.create_superuser("boss", password="a long password"))

    def tile() -> tuple[str, str]:
        tiles = browser.get(reverse("admin:index")).context["tiles"]
        return next((each.figure, each.note) for each in tiles if str(each.title) == "Spent today")

    assert tile() == ("0.0000 USD", "no calls yet")
    called(actor, timezone.now())
    assert tile() == ("0.2500 USD", "Anthropic answered the last call")
    called(actor, timezone.now(), outcome="overloaded", cost=None)
    assert tile() == ("0.2500 USD", "Anthropic failed last: overloaded")


def test_the_dashboard_tells_tokens_where_no_price_is_known(actor: Actor) -> None:
    called(actor, timezone.now(), cost=None)
    browser = Client()
    browser.force_login(User.objects.create_superuser("boss", password="a long password"))
    titles = [str(each.title) for each in browser.get(reverse("admin:index")).context["tiles"]]
    assert "Tokens today" in titles and "Spent today" not in titles


def test_an_erased_users_calls_stay_in_the_agents_accounts_without_the_user(client: APIClient, actor: Actor) -> None:
    entry = called(actor, timezone.now())
    erased = client.delete(f"{API}/actors?agent_id=kana&user_id=hiroki")
    assert erased.json()["anonymised"]["memoryhub_ledgerentry"] == 1
    assert "memoryhub_ledgerentry" not in erased.json()["erased"]
    entry.refresh_from_db()
    assert entry.actor_id is None
    assert usage(client)["results"][0]["cost"] == 0.25


def test_a_calls_page_opens(actor: Actor) -> None:
    entry = called(actor, timezone.now())
    browser = Client()
    browser.force_login(User.objects.create_superuser("boss", password="a long password"))
    page = browser.get(reverse("admin:memoryhub_ledgerentry_change", args=[entry.pk]))
    assert page.status_code == 200 and "hiroki" not in page.content.decode()
