"""Events reach their endpoints: in order, at least once, signed, and one endpoint does not disturb another."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection
from rest_framework.test import APIClient
from standardwebhooks import WebhookVerificationError

from memoryhub.jobs.executor import claim, release_expired
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import offer
from memoryhub.jobs.registry import job_kind
from memoryhub.webhooks.actions import delivery
from memoryhub.webhooks.actions.delivery import deliver, enqueue_delivery, enqueue_due
from memoryhub.webhooks.actions.endpoints import enable_endpoint, rotate_secret
from memoryhub.webhooks.models import Delivery, Endpoint, Event
from tests.conftest import run_jobs
from tests.fakes.webhook_receiver import Got, WebhookReceiver
from tests.integration.memoryhub.webhooks.conftest import BY, deliver_all

pytestmark = pytest.mark.django_db(transaction=True)

API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}
Make = Callable[..., tuple[Endpoint, str]]


def remember(client: APIClient, content: str, **names: str) -> str:
    answer = client.post(f"{API}/memories", {**WHO, **names, "content": content})
    assert answer.status_code == 201, answer.content
    return str(answer.json()["id"])


def kinds(receiver: WebhookReceiver) -> list[str]:
    return [got.body["type"] for got in receiver.got]


def test_events_are_signed_and_hold_ids_and_kinds_alone(
    client: APIClient, receiver: WebhookReceiver, endpoint_to: Make
) -> None:
    _endpoint, secret = endpoint_to(receiver.url)
    memory_id = remember(client, "Green tea is best at night.")
    deliver_all()
    [got] = receiver.got
    assert got.verify(secret) == {
        "type": "memory.created",
        "timestamp": got.body["timestamp"],
        "data": {**WHO, "id": memory_id, "version": 1},
    }
    assert b"tea" not in got.data
    assert got.id.startswith("evt_")
    with pytest.raises(WebhookVerificationError):
        got.verify("whsec_" + "A" * 32)


def test_text_is_sent_where_the_endpoint_may_have_it(
    client: APIClient, receiver: WebhookReceiver, endpoint_to: Make
) -> None:
    endpoint_to(receiver.url, with_texts=True)
    remember(client, "抹茶アイスが好き")
    deliver_all()
    assert receiver.got[0].body["data"]["text"] == "抹茶アイスが好き"


def test_each_kind_of_event_comes_in_order(client: APIClient, receiver: WebhookReceiver, endpoint_to: Make) -> None:
    endpoint_to(receiver.url)
    first, second = remember(client, "Tea is green."), remember(client, "Coffee is black.")
    client.patch(f"{API}/memories/{first}", {"tags": ["tea"]})
    client.post(f"{API}/memories/{second}/archive", {"reason": "because"})
    session = client.post(f"{API}/sessions", WHO).json()["id"]
    client.post(f"{API}/sessions/{session}/messages", {"role": "user", "content": "We talk of tea."})
    client.post(f"{API}/sessions/{session}/end", {})
    client.delete(f"{API}/memories/{first}")
    assert client.post(f"{API}/sessions/{session}/summary", {}).status_code == 202
    assert client.post(f"{API}/sleep-runs", WHO).status_code == 201
    run_jobs()
    deliver_all()
    assert kinds(receiver)[:4] == ["memory.created", "memory.created", "memory.changed", "memory.ended"]
    assert {"session.ended", "memory.forgotten", "sleep.finished", "session.summarised"} <= set(kinds(receiver))
    ended = next(got.body["data"] for got in receiver.got if got.body["type"] == "session.ended")
    assert ended == {**WHO, "id": session}


def test_memories_that_wait_and_decisions(
    make_client: Callable[..., APIClient], client: APIClient, receiver: WebhookReceiver, endpoint_to: Make
) -> None:
    endpoint_to(receiver.url)
    untrusted = make_client(is_trusted=False)
    waiting = [remember(untrusted, text) for text in ("They say tea is free.", "They say cakes are free.")]
    client.post(f"{API}/memories/{waiting[0]}/approve", {"reason": "because"})
    client.post(f"{API}/memories/{waiting[1]}/reject", {"reason": "because"})
    deliver_all()
    assert kinds(receiver) == ["memory.waiting", "memory.waiting", "memory.decided", "memory.decided"]


def test_only_chosen_kinds_and_own_agents_are_sent(
    client: APIClient, receiver: WebhookReceiver, endpoint_to: Make
) -> None:
    endpoint, _secret = endpoint_to(receiver.url, kinds=["session.ended"])
    remember(client, "Tea is green.")
    client.post(f"{API}/sessions", {"agent_id": "yuno", "user_id": "hiroki"})
    for who in (WHO, {**WHO, "agent_id": "yuno"}):
        session = client.post(f"{API}/sessions", who).json()["id"]
        client.post(f"{API}/sessions/{session}/end", {})
    deliver_all()
    assert [(got.body["type"], got.body["data"]["agent_id"]) for got in receiver.got] == [("session.ended", "kana")]
    remember(client, "Coffee is black.")
    deliver_all()
    endpoint.refresh_from_db()
    assert len(receiver.got) == 1
    assert enqueue_due(datetime.now(UTC)) == 0


def test_an_endpoint_of_all_agents_begins_with_its_creation(
    client: APIClient, receiver: WebhookReceiver, endpoint_to: Make
) -> None:
    remember(client, "Before.")
    assert not Event.objects.exists()
    endpoint_to(receiver.url, agent_id=None)
    later = [remember(client, "After."), remember(client, "Elsewhere.", agent_id="yuno")]
    deliver_all()
    assert [got.body["data"]["id"] for got in receiver.got] == later


def test_a_failure_pauses_and_is_repeated_with_the_same_id(
    client: APIClient, receiver: WebhookReceiver, endpoint_to: Make
) -> None:
    endpoint, _secret = endpoint_to(receiver.url)
    first, second = remember(client, "One."), remember(client, "Two.")
    receiver.answer = 500
    deliver_all()
    endpoint.refresh_from_db()
    assert (endpoint.failures, len(receiver.got)) == (1, 1)
    assert endpoint.retry_at is not None and endpoint.retry_at > datetime.now(UTC)
    assert enqueue_due(datetime.now(UTC)) == 0
    receiver.answer = 204
    Endpoint.objects.update(retry_at=datetime.now(UTC))
    deliver_all()
    assert [got.body["data"]["id"] for got in receiver.got] == [first, first, second]
    assert receiver.got[0].id == receiver.got[1].id != receiver.got[2].id
    endpoint.refresh_from_db()
    assert (endpoint.failures, endpoint.failing_since, endpoint.retry_at) == (0, None, None)
    assert list(Delivery.objects.order_by("at").values_list("status", flat=True)) == [500, 204, 204]


def test_after_a_day_of_failures_the_endpoint_is_disabled_until_a_person_enables_it(
    client: APIClient, receiver: WebhookReceiver, endpoint_to: Make
) -> None:
    endpoint, _secret = endpoint_to(receiver.url)
    memory_id = remember(client, "One.")
    receiver.answer = 503
    Endpoint.objects.update(failures=20, failing_since=datetime.now(UTC) - timedelta(days=1))
    deliver_all()
    endpoint.refresh_from_db()
    assert (endpoint.state, endpoint.retry_at) == ("disabled", None)
    assert enqueue_due(datetime.now(UTC)) == 0
    receiver.answer = 200
    enable_endpoint(endpoint=endpoint, by=BY, now=datetime.now(UTC))
    deliver_all()
    assert receiver.got[-1].body["data"]["id"] == memory_id


def test_a_receiver_that_is_gone_is_not_asked_again(
    client: APIClient, receiver: WebhookReceiver, endpoint_to: Make
) -> None:
    endpoint, _secret = endpoint_to(receiver.url)
    remember(client, "One.")
    receiver.answer = 410
    deliver_all()
    endpoint.refresh_from_db()
    assert endpoint.state == "disabled"


def test_a_killed_worker_loses_nothing(client: APIClient, receiver: WebhookReceiver, endpoint_to: Make) -> None:
    """The worker ends between the answer and its record: the event is sent again, with its id, and the rest once."""
    endpoint, _secret = endpoint_to(receiver.url)
    ids = [remember(client, f"Number {number}.") for number in range(5)]
    killed: list[UUID] = []

    def kill(got: Got) -> int:
        if len(receiver.got) == 2 and not killed:
            [job] = Job.objects.filter(kind="deliver_webhook", state="running")
            Job.objects.filter(pk=job.pk).update(lease_until=datetime.now(UTC) - timedelta(seconds=1))
            killed.append(job.pk)
            connection.close()
        return 204

    receiver.answer = kill
    deliver_all()
    release_expired()
    Job.objects.filter(state="queued").update(due_at=datetime.now(UTC))
    run_jobs()
    deliver_all()
    assert killed
    sent = [got.body["data"]["id"] for got in receiver.got]
    # What was sent since the last record is sent again.
    assert sent == [*ids, *ids]
    assert [got.id for got in receiver.got[:5]] == [got.id for got in receiver.got[5:]]
    endpoint.refresh_from_db()
    assert endpoint.failures == 0


def test_a_hanging_endpoint_does_not_delay_another(
    client: APIClient, receiver: WebhookReceiver, endpoint_to: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryhub.webhooks.actions.sending.TIMEOUT_SECONDS", 0.3)
    with WebhookReceiver() as hanging:
        hanging.hangs = True
        stuck, _secret = endpoint_to(hanging.url)
        endpoint_to(receiver.url)
        ids = [remember(client, f"Number {number}.") for number in range(5)]
        deliver_all()
        stuck.refresh_from_db()
        assert (stuck.failures, stuck.place < Endpoint.objects.exclude(pk=stuck.pk).get().place) == (1, True)
        assert [got.body["data"]["id"] for got in receiver.got] == ids
        assert Delivery.objects.get(endpoint=stuck).error == "timeout"


def test_no_transaction_is_open_while_a_receiver_is_asked(
    client: APIClient, receiver: WebhookReceiver, endpoint_to: Make
) -> None:
    endpoint_to(receiver.url)
    remember(client, "One.")
    held: list[int] = []

    def count(_got: Got) -> int:
        # The receiver's thread has a connection of its own.
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND state LIKE 'idle in transaction%%'"
            )
            held.append(cursor.fetchone()[0])
        connection.close()
        return 204

    receiver.answer = count
    deliver_all()
    assert held == [0]


def test_a_rotated_secret_signs_beside_the_former_one_for_a_day(
    client: APIClient, receiver: WebhookReceiver, endpoint_to: Make
) -> None:
    endpoint, former = endpoint_to(receiver.url)
    secret = rotate_secret(endpoint=endpoint, by=BY, now=datetime.now(UTC))
    remember(client, "One.")
    deliver_all()
    for each in (former, secret):
        assert receiver.got[0].verify(each)["type"] == "memory.created"
    Endpoint.objects.update(rotating_until=datetime.now(UTC))
    remember(client, "Two.")
    deliver_all()
    receiver.got[1].verify(secret)
    with pytest.raises(WebhookVerificationError):
        receiver.got[1].verify(former)
    assert secret not in Endpoint.objects.get().secret


def test_a_secret_of_another_secret_key_is_named(
    client: APIClient, receiver: WebhookReceiver, endpoint_to: Make
) -> None:
    _endpoint, _secret = endpoint_to(receiver.url)
    Endpoint.objects.update(secret="gAAAAABnone")
    remember(client, "One.")
    deliver_all()
    assert Delivery.objects.get().error == "secret unreadable"
    assert not receiver.got


def test_a_job_leaves_its_worker_after_some_seconds(
    client: APIClient, receiver: WebhookReceiver, endpoint_to: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(delivery, "RECORD_SECONDS", 0.0)
    _endpoint, _secret = endpoint_to(receiver.url)
    ids = [remember(client, f"Number {number}.") for number in range(3)]
    enqueue_due(datetime.now(UTC))
    run_jobs()
    assert [got.body["data"]["id"] for got in receiver.got] == ids
    assert Job.objects.filter(kind="deliver_webhook", state="done").count() >= 3


def test_a_deleted_endpoint_gets_nothing_more(client: APIClient, receiver: WebhookReceiver, endpoint_to: Make) -> None:
    endpoint, _secret = endpoint_to(receiver.url)
    remember(client, "One.")
    remember(client, "Two.")

    def delete(_got: Got) -> int:
        Endpoint.objects.all().delete()
        connection.close()
        return 204

    receiver.answer = delete
    deliver_all()
    remember(client, "Three.")
    enqueue_delivery(endpoint)
    run_jobs()
    assert len(receiver.got) == 2
    assert not Delivery.objects.exists()


def test_events_of_an_erased_user_name_nobody(client: APIClient, receiver: WebhookReceiver, endpoint_to: Make) -> None:
    endpoint_to(receiver.url, with_texts=True)
    remember(client, "A secret.")
    session = client.post(f"{API}/sessions", WHO).json()["id"]
    client.post(f"{API}/sessions/{session}/end", {})
    assert client.delete(f"{API}/actors?agent_id=kana&user_id=hiroki").status_code == 200
    deliver_all()
    assert kinds(receiver)[-1] == "memory.forgotten"
    assert all(got.body["data"]["user_id"] is None and "text" not in got.body["data"] for got in receiver.got)


def test_order_of_each_user_is_that_of_commits(client: APIClient, receiver: WebhookReceiver, endpoint_to: Make) -> None:
    endpoint_to(receiver.url)
    written: dict[str, list[str]] = {"ann": [], "ben": []}
    for number in range(10):
        user = ("ann", "ben")[number % 2]
        written[user].append(remember(client, f"Number {number}.", user_id=user))
    deliver_all()
    for user, ids in written.items():
        assert [got.body["data"]["id"] for got in receiver.got if got.body["data"]["user_id"] == user] == ids


def test_a_lost_lease_records_nothing(client: APIClient, receiver: WebhookReceiver, endpoint_to: Make) -> None:
    endpoint, _secret = endpoint_to(receiver.url)
    remember(client, "One.")
    enqueue_due(datetime.now(UTC))
    [offered] = offer(1)
    job = claim(offered, job_kind("deliver_webhook"), worker=uuid4())
    assert job is not None
    Job.objects.filter(pk=job.id).update(lease_until=datetime.now(UTC) - timedelta(seconds=1))
    with pytest.raises(Exception, match="not this worker's"):
        deliver(job)
    endpoint.refresh_from_db()
    assert not Delivery.objects.exists() and endpoint.failures == 0


def test_slow_endpoints_have_a_kind_of_job_that_runs_once_at_a_time(
    client: APIClient, receiver: WebhookReceiver, endpoint_to: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "SLOW_MS", 0)
    endpoint, _secret = endpoint_to(receiver.url)
    remember(client, "One.")
    deliver_all()
    endpoint.refresh_from_db()
    assert endpoint.is_slow
    remember(client, "Two.")
    enqueue_due(datetime.now(UTC))
    assert Job.objects.get(kind="deliver_slow_webhook").state == "queued"
    assert job_kind("deliver_slow_webhook").at_once == 1
    # While a job of the other kind runs, this one leaves the endpoint alone.
    Job.objects.create(
        kind="deliver_webhook", key=str(endpoint.pk), state="running", due_at=datetime.now(UTC),
        lease_until=datetime.now(UTC) + timedelta(minutes=1),
    )  # fmt: skip
    run_jobs()
    assert len(receiver.got) == 1
    Job.objects.filter(kind="deliver_webhook", state="running").delete()
    deliver_all()
    assert len(receiver.got) == 2
