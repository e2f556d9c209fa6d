"""Events of broken expectations and reached caps reach the endpoints, once each."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest
from rest_framework.test import APIClient

from memoryhub.auth.access import actor_for_writing
from memoryhub.llm.usage.models import CapReached, LedgerEntry
from memoryhub.llm.usage.spending import KeyCapReached, SpendCapReached, check_cap, check_key_cap
from memoryhub.tenancy.models import Agent
from memoryhub.tenancy.policy import actor_id
from memoryhub.webhooks.models import Endpoint
from tests.fakes.webhook_receiver import WebhookReceiver
from tests.integration.memoryhub.webhooks.conftest import BY, deliver_all

pytestmark = pytest.mark.django_db(transaction=True)

API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = actor_id("any", "key")
Make = Callable[..., tuple[Endpoint, str]]


def data_of(receiver: WebhookReceiver, kind: str) -> list[dict[str, object]]:
    return [got.body["data"] for got in receiver.got if got.body["type"] == kind]


def check_expectations(client: APIClient) -> None:
    assert client.post(f"{API}/expectations/check", WHO).status_code == 200


def test_an_expectation_is_an_event_each_time_it_breaks(
    client: APIClient, receiver: WebhookReceiver, endpoint_to: Make
) -> None:
    endpoint_to(receiver.url)
    train = {**WHO, "content": "The train to Kyoto leaves from platform 4."}
    memory = client.post(f"{API}/memories", train).json()["id"]
    asked = {**WHO, "message": "Which platform does the train to Kyoto leave from?"}
    receipt = client.post(f"{API}/context", asked).json()["receipt_id"]
    kept = client.post(f"{API}/expectations", {"receipt_id": receipt, "memory_id": memory}).json()
    for verb, events in [("archive", 1), ("reactivate", 1), ("archive", 2)]:
        client.post(f"{API}/memories/{memory}/{verb}")
        check_expectations(client)
        check_expectations(client)
        deliver_all()
        assert data_of(receiver, "expectation.broken") == [{**WHO, "id": kept["id"]}] * events


def test_an_expectation_that_is_broken_from_the_start_is_one_event(
    client: APIClient, receiver: WebhookReceiver, endpoint_to: Make
) -> None:
    endpoint_to(receiver.url, kinds=["expectation.broken"])
    memory = client.post(f"{API}/memories", {**WHO, "content": "The train leaves from platform 4."}).json()["id"]
    receipt = client.post(f"{API}/context", {**WHO, "message": "Which platform?"}).json()["receipt_id"]
    body = {"receipt_id": receipt, "memory_id": memory, "wanted": False}
    broken = client.post(f"{API}/expectations", body).json()
    assert broken["state"] == "broken"
    check_expectations(client)
    deliver_all()
    assert data_of(receiver, "expectation.broken") == [{**WHO, "id": broken["id"]}]


def test_an_agents_cap_is_one_event_a_day(receiver: WebhookReceiver, endpoint_to: Make) -> None:
    endpoint_to(receiver.url)
    Agent.objects.filter(pk="kana").update(policy={"daily_token_cap": 0})
    actor = actor_for_writing(BY, "kana", "hiroki", now=NOW)
    for at in (NOW, NOW + timedelta(hours=1), NOW + timedelta(days=1)):
        with pytest.raises(SpendCapReached):
            check_cap(actor, now=at)
    deliver_all()
    of_agent = {"agent_id": "kana", "user_id": None, "id": str(actor_id("kana"))}
    assert data_of(receiver, "cap.reached") == [of_agent, of_agent]
    days = [date(2026, 3, 2), date(2026, 3, 1)]
    assert list(CapReached.objects.values_list("cap", "day")) == [("daily_token_cap", day) for day in days]


@pytest.mark.parametrize(("agent_id", "is_sent"), [("kana", True), ("yuno", False), ("", False)])
def test_a_keys_cap_is_an_event_of_its_only_agent(
    receiver: WebhookReceiver, endpoint_to: Make, agent_id: str, is_sent: bool
) -> None:
    endpoint_to(receiver.url)
    with WebhookReceiver() as of_all:
        endpoint_to(of_all.url, agent_id=None)
        for _call in range(2):
            with pytest.raises(KeyCapReached):
                check_key_cap(KEY, 0, agent_id=agent_id, now=NOW)
        deliver_all()
        of_key = {"agent_id": agent_id, "user_id": None, "id": str(KEY)}
        assert data_of(receiver, "cap.reached") == [of_key] * is_sent
        assert data_of(of_all, "cap.reached") == [of_key]


def test_without_a_cap_or_below_it_nothing_is_stored(db: None) -> None:
    actor = actor_for_writing(BY, "kana", "hiroki", now=NOW)
    check_cap(actor, now=NOW)
    check_key_cap(KEY, 1, now=NOW)
    assert not CapReached.objects.exists() and not LedgerEntry.objects.exists()
