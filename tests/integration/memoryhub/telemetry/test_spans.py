"""What is traced, and that no text is: requests, statements, memory operations, MCP calls, jobs, webhooks (SPEC O10)."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any

import httpx2
import pytest
from django.db import IntegrityError, connection
from django.db.backends.signals import connection_created
from pytest_django.fixtures import Settings

from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.telemetry import spans, statements
from memoryhub.telemetry.spans import root, span
from memoryhub.webhooks.actions.sending import Message, Sender
from tests.conftest import run_jobs
from tests.fakes.collector import Collector, Received
from tests.fakes.webhook_receiver import WebhookReceiver
from tests.integration.conversations.test_openai import key_of
from tests.integration.mcp.conftest import connected
from tests.serving import serving

pytestmark = pytest.mark.django_db(transaction=True)

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"
UNSAMPLED = f"{TRACEPARENT[:-1]}0"
SECRET = "Quillonby"
NAMES = {"agent_id": "kana", "user_id": "hiroki"}

Traced = Callable[[], list[Received]]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture
def traced(collector: Collector, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Traced]:
    """Send traces; the function sends what is waiting, and returns the spans of TRACE."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    settings.ENVIRONMENT = replace(settings.ENVIRONMENT, traces=True, process="web")
    spans._tracer.cache_clear()
    connection.close()
    statements.trace_statements()

    def finished() -> list[Received]:
        spans.send_rest()
        return collector.spans_of(TRACE)

    yield finished
    finished()
    spans._tracer()._provider.shutdown()
    spans._tracer.cache_clear()
    connection_created.disconnect(dispatch_uid="memoryhub.telemetry")
    connection.execute_wrappers[:] = []


@pytest.fixture
def client(traced: Traced) -> Iterator[httpx2.Client]:
    with serving() as web:
        headers = {"Authorization": f"Bearer {key_of()}", "traceparent": TRACEPARENT}
        with httpx2.Client(base_url=f"{web.url}/api/v1", headers=headers) as client:
            yield client


def test_memory_operations_have_counts_and_scores_and_no_text(
    client: httpx2.Client, traced: Traced, collector: Collector
) -> None:
    client.post("/agents", json={"agent_id": "kana"})
    written = client.post("/memories", json={**NAMES, "kind": "fact", "content": f"The boat is {SECRET}."}).json()
    batch = [{"kind": "fact", "content": f"{SECRET} has {count} oars."} for count in ("two", "six")]
    client.post("/memories/batch", json={**NAMES, "memories": batch})
    found = client.post("/memories/search", json={**NAMES, "query": SECRET}).json()["results"]
    client.patch(f"/memories/{written['id']}", json={"content": f"The boat was {SECRET}."})
    assert client.delete(f"/memories/{written['id']}").status_code == 204

    operations = [each for each in traced() if "gen_ai.memory.record.count" in each.attributes]
    assert [(each.name, each.attributes["gen_ai.memory.record.count"]) for each in operations] == [
        ("upsert_memory", 1),
        ("upsert_memory", 2),
        ("search_memory", 3),
        ("update_memory", 1),
        ("delete_memory", 1),
    ]
    assert operations[2].attributes["memoryhub.scores"] == [round(hit["final_score"], 4) for hit in found]
    routes = {each.name for each in traced() if each.attributes.get("http.route")}
    assert "DELETE /api/v1/memories/<uuid:memory_id>" in routes
    assert SECRET.encode() not in collector.data


def test_errors_have_the_id_and_no_text(client: httpx2.Client, traced: Traced, collector: Collector) -> None:
    answer = client.get(f"/agents/{SECRET}")
    assert answer.status_code == 404 and answer.headers["X-Trace-ID"] == TRACE
    within = root("test", {}, kind="server", traceparent=TRACEPARENT)
    with within, pytest.raises(IntegrityError), connection.cursor() as cursor:
        cursor.execute("INSERT INTO memoryhub_agent (agent_id) VALUES (%s)", [SECRET])
    with pytest.raises(ValueError, match=SECRET), root("own", {}, kind="server", traceparent=TRACEPARENT), span("part"):
        raise ValueError(SECRET)

    failed = {each.name: each for each in traced() if each.has_failed}
    assert failed["INSERT memoryhub_agent"].attributes["db.response.status_code"] == "23502"
    assert failed["INSERT memoryhub_agent"].attributes["error.type"] == "IntegrityError"
    assert failed["part"].attributes["error.type"] == "ValueError"
    assert all(each.events == 0 and each.message == "" for each in collector.spans)
    assert SECRET.encode() not in collector.data


def test_health_is_not_traced(client: httpx2.Client, traced: Traced) -> None:
    answer = client.get(str(client.base_url.copy_with(path="/healthz")))
    assert answer.status_code == 200 and "X-Trace-ID" not in answer.headers
    assert traced() == []


def test_calls_by_mcp_are_named_by_their_tool(client: httpx2.Client, traced: Traced, collector: Collector) -> None:
    url, key = str(client.base_url.copy_with(path="/mcp/kana/hiroki")), key_of()

    async def remember() -> None:
        async with connected(url, key, traceparent=TRACEPARENT) as call:
            await call("remember", content=f"The boat is {SECRET}.", kind="fact")

    client.post("/agents", json={"agent_id": "kana"})
    asyncio.run(remember())
    named = {each.name: each for each in traced()}
    request = next(each for each in traced() if each.id == named["execute_tool remember"].parent)
    assert request.name == "POST /mcp" and named["upsert_memory"].parent == named["execute_tool remember"].id
    assert SECRET.encode() not in collector.data and {each.scope for each in collector.spans} == {"memoryhub"}


def test_a_job_continues_the_trace_of_its_first_cause(traced: Traced) -> None:
    with root("first", {}, kind="server", traceparent=TRACEPARENT):
        job_id = enqueue("count_terms", key="k")
    with root("second", {}, kind="server"):
        assert enqueue("count_terms", key="k") == job_id
    (first,) = [each for each in traced() if each.name == "first"]
    assert Job.objects.get().traceparent == f"00-{TRACE}-{first.id}-01"
    run_jobs()
    (job,) = [each for each in traced() if each.name == "job count_terms"]
    assert job.parent == first.id
    assert job.attributes["memoryhub.job.id"] == str(job_id)


def test_what_the_sampler_leaves_out_leaves_out_its_jobs(client: httpx2.Client, traced: Traced) -> None:
    answer = client.post("/agents", json={"agent_id": "kana"}, headers={"traceparent": UNSAMPLED})
    assert answer.headers["X-Trace-ID"] == TRACE
    with root("first", {}, kind="server", traceparent=UNSAMPLED):
        enqueue("count_terms")
    assert Job.objects.get().traceparent[-2:] == "00"
    run_jobs()
    assert traced() == []


def test_deliveries_of_webhooks_are_spans(traced: Traced, settings: Settings) -> None:
    settings.WEBHOOK_NETWORKS = [ip_network("127.0.0.1")]
    message = Message("1", {"type": "test", "data": {"text": SECRET}}, ("whsec_dGVzdA==",))
    with WebhookReceiver() as receiver, root("job", {}, kind="consumer", traceparent=TRACEPARENT):
        for url in (receiver.url, "http://127.0.0.1:1/"):
            with Sender(url) as sender:
                sender.send(message, now=datetime.now(UTC))
        assert "traceparent" not in receiver.got[0].headers
    answered, refused = [each for each in traced() if each.name == "deliver webhook"]
    assert answered.attributes["http.response.status_code"] == 204
    assert refused.attributes["error.type"] == "not reached"


def test_a_wrong_traceparent_begins_a_trace(client: httpx2.Client, traced: Traced) -> None:
    answers: list[Any] = [
        client.get("/agents", headers={"traceparent": text})
        for text in ("", "00-abc", f"00-{'0' * 32}-b7ad6b7169203331-01", "\x01" * 55)
    ]
    ids = {answer.headers["X-Trace-ID"] for answer in answers}
    assert len(ids) == 4 and TRACE not in ids and "0" * 32 not in ids
