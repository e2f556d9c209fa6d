"""Webhooks over REST: who may manage them, secrets shown once, tests and repeated deliveries, foreign ids."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from memoryhub.auth.models import AuditEntry
from memoryhub.tenancy.models import Agent
from memoryhub.webhooks.actions.endpoints import create_endpoint
from memoryhub.webhooks.models import Delivery, Endpoint
from tests.conftest import client_with_key, run_jobs
from tests.fakes.webhook_receiver import WebhookReceiver
from tests.integration.memoryhub.webhooks.conftest import BY, deliver_all

API = "/api/v1"
HOOKS = f"{API}/webhooks"
WHO = {"agent_id": "kana", "user_id": "hiroki"}


@pytest.fixture(autouse=True)
def agents(db: None) -> None:
    for agent_id in ("kana", "yuno"):
        Agent.objects.create(agent_id=agent_id)


def created(client: APIClient, **values: Any) -> Any:
    answer = client.post(HOOKS, {"agent_id": "kana", "url": "https://example.org/hook", **values})
    assert answer.status_code == 201, answer.content
    assert answer["Cache-Control"] == "no-store"
    return answer.json()


def test_secret_is_in_the_first_answer_alone(client: APIClient) -> None:
    hook = created(client, kinds=["memory.created"])
    assert hook["secret"].startswith("whsec_")
    read = client.get(f"{HOOKS}/{hook['id']}").json()
    assert read == {name: value for name, value in hook.items() if name != "secret"}
    assert client.get(HOOKS).json()["results"] == [read]
    rotated = client.post(f"{HOOKS}/{hook['id']}/rotate", {}).json()
    assert rotated["secret"] not in (hook["secret"], "") and rotated["rotating_until"]
    stored = str(list(Endpoint.objects.values())) + str(list(AuditEntry.objects.values()))
    assert hook["secret"] not in stored and rotated["secret"] not in stored
    assert client.delete(f"{HOOKS}/{hook['id']}").status_code == 204
    assert client.get(f"{HOOKS}/{hook['id']}").status_code == 404


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"url": "https://127.0.0.1/"}, "not public"),
        ({"url": "http://example.net/", "agent_id": "kana"}, "https"),
        ({"url": "nonsense"}, "https://example.org"),
        ({"kinds": ["memory.sung"]}, "kinds"),
    ],
)
def test_bad_input_gets_a_clear_error(client: APIClient, settings: Any, values: dict[str, Any], words: str) -> None:
    settings.WEBHOOK_NETWORKS = []
    answer = client.post(HOOKS, {"agent_id": "kana", "url": "https://example.org/", **values})
    assert answer.status_code == 400
    assert words in answer.content.decode()


def test_unknown_agent_is_not_found(client: APIClient) -> None:
    assert client.post(HOOKS, {"agent_id": "nobody", "url": "https://example.org/"}).status_code == 404


@pytest.mark.parametrize(
    "options", [{"is_trusted": False}, {"user_id": "hiroki"}, {"agent_ids": ["kana"], "user_id": "hiroki"}]
)
def test_untrusted_and_users_keys_are_refused(
    client: APIClient, make_client: Callable[..., APIClient], options: dict[str, Any]
) -> None:
    hook = created(client)
    delivery = Delivery.objects.create(endpoint_id=hook["id"], place=0, kind="webhook.test")
    other, one = make_client(**options), f"{HOOKS}/{hook['id']}"
    assert other.get(HOOKS).status_code == other.get(one).status_code == other.delete(one).status_code == 403
    assert other.post(HOOKS, {"agent_id": "kana", "url": "https://example.org/"}).status_code == 403
    for verb in ("test", "rotate", "enable", f"deliveries/{delivery.pk}/redeliver"):
        assert other.post(f"{one}/{verb}", {}).status_code == 403
    assert Endpoint.objects.count() == 1


def test_key_of_one_agent_sees_its_own(client: APIClient, make_client: Callable[..., APIClient]) -> None:
    theirs, of_all, own = created(client), created(client, agent_id="yuno"), None
    of_all = client.post(HOOKS, {"url": "https://example.org/all"}).json()
    bound = make_client(agent_ids=["yuno"])
    own = created(bound, agent_id="yuno")
    assert own["id"] in {each["id"] for each in bound.get(HOOKS).json()["results"]}
    assert {each["agent_id"] for each in bound.get(HOOKS).json()["results"]} == {"yuno"}
    for foreign in (theirs, of_all):
        assert bound.get(f"{HOOKS}/{foreign['id']}").status_code == 404
        assert bound.post(f"{HOOKS}/{foreign['id']}/rotate", {}).status_code == 404
    assert bound.post(HOOKS, {"url": "https://example.org/all"}).status_code == 403
    assert bound.post(HOOKS, {"agent_id": "kana", "url": "https://example.org/"}).status_code == 403


def test_delivery_of_another_endpoint_is_not_found(client: APIClient) -> None:
    first, second = created(client), created(client)
    delivery = Delivery.objects.create(endpoint_id=first["id"], place=0, kind="webhook.test")
    assert client.post(f"{HOOKS}/{second['id']}/deliveries/{delivery.pk}/redeliver", {}).status_code == 404


def test_endpoints_of_an_agent_are_limited(client: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoryhub.webhooks.actions.endpoints.MAX_ENDPOINTS", 1)
    created(client)
    refused = client.post(HOOKS, {"agent_id": "kana", "url": "https://example.org/"})
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_webhooks")


@pytest.mark.django_db(transaction=True)
def test_tests_and_repeated_deliveries(receiver: WebhookReceiver) -> None:
    client = client_with_key()
    hook = created(client, url=receiver.url)
    one = f"{HOOKS}/{hook['id']}"
    assert client.post(f"{one}/test", {}).status_code == 202
    run_jobs()
    assert receiver.got[0].verify(hook["secret"])["type"] == "webhook.test"
    client.post(f"{API}/memories", {**WHO, "content": "Tea is green."})
    deliver_all()
    newest = client.get(f"{one}/deliveries").json()["results"][0]
    assert (newest["kind"], newest["status"], newest["error"]) == ("memory.created", 204, "")
    assert client.post(f"{one}/deliveries/{newest['id']}/redeliver", {}).status_code == 202
    run_jobs()
    assert [got.body["type"] for got in receiver.got] == ["webhook.test", "memory.created", "memory.created"]
    assert receiver.got[1].id == receiver.got[2].id
    Delivery.objects.filter(pk=newest["id"]).update(place=10**9)
    gone = client.post(f"{one}/deliveries/{newest['id']}/redeliver", {})
    assert (gone.status_code, gone.json()["code"]) == (409, "event_gone")


@pytest.mark.django_db(transaction=True)
def test_buttons_of_the_admin(admin_client: Client, receiver: WebhookReceiver) -> None:
    issued = admin_client.post(
        "/admin/webhooks/endpoint/add/", {"url": receiver.url, "agent": "kana", "kinds": ["memory.created"]}
    )
    endpoint = Endpoint.objects.get()
    assert "whsec_" in issued.content.decode() and "no-store" in issued["Cache-Control"]
    page = f"/admin/webhooks/endpoint/{endpoint.pk}/"
    address = f"{page}change/"
    assert "whsec_" not in admin_client.get(address).content.decode()
    assert admin_client.get(f"{page}rotate/").status_code == 405
    assert "whsec_" in admin_client.post(f"{page}rotate/").content.decode()
    assert admin_client.post(f"{page}test/").status_code == 302
    run_jobs()
    delivery = Delivery.objects.get()
    assert delivery.status == 204
    assert admin_client.post(f"{page}again/", {"delivery": str(delivery.pk)}).status_code == 302
    assert admin_client.post(f"{page}again/", {"delivery": "nonsense"}).status_code == 404
    run_jobs()
    assert len(receiver.got) == 2
    Endpoint.objects.update(state="disabled")
    assert "webhooks/endpoint/?state__exact=disabled" in admin_client.get("/admin/").content.decode()
    assert admin_client.post(f"{page}enable/").status_code == 302
    assert Endpoint.objects.get().state == "active"
    asked = admin_client.post(
        "/admin/webhooks/endpoint/", {"action": "remove", "_selected_action": str(endpoint.pk)}, follow=True
    )
    assert "confirmed" in asked.content.decode()
    admin_client.post(
        "/admin/webhooks/endpoint/",
        {"action": "remove", "_selected_action": str(endpoint.pk), "confirmed": "1"},
        follow=True,
    )
    assert not Endpoint.objects.exists()


def test_address_inside_is_shown_at_its_field(admin_client: Client, settings: Any) -> None:
    settings.WEBHOOK_NETWORKS = []
    page = admin_client.post("/admin/webhooks/endpoint/add/", {"url": "https://10.0.0.1/", "agent": ""})
    assert "not public" in page.content.decode()
    assert not Endpoint.objects.exists()


def test_old_deliveries_are_deleted(db: None) -> None:
    from memoryhub.jobs.queue import enqueue

    endpoint, _secret = create_endpoint(agent_id="kana", url="https://example.org/", by=BY, now=datetime.now(UTC))
    for at in (datetime(2020, 1, 1, tzinfo=UTC), datetime.now(UTC)):
        Delivery.objects.create(endpoint=endpoint, place=1, kind="memory.created", status=200, at=at)
    enqueue("forget_old_deliveries")
    run_jobs()
    assert Delivery.objects.count() == 1
