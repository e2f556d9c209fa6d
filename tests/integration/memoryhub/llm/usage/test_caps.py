"""A cap pauses background work until the next UTC day, visibly; whoever waits for an answer gets it."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import InterfaceError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from prometheus_client import generate_latest
from rest_framework.test import APIClient

from memoryhub.embeddings import registry
from memoryhub.embeddings.config import EmbeddingConfig
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.llm.client import complete, stream
from memoryhub.llm.types import ChatMessage, CompletionRequest, Operation
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.llm.usage.spending import CALLS, SpendCapReached, paused_agents
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.zones import day_end
from strength.actions.contradictions import ExtractedMemory, resolve_extracted
from strength.domain.memories import Kind
from strength.models import MemoryIndex
from tests.conftest import run_jobs
from tests.fakes.embeddings_server import EmbeddingsServer
from tests.fakes.llm_server import LLMServer, Reply
from tests.integration.memoryhub.llm.usage.conftest import cap

pytestmark = pytest.mark.usefixtures("one_day")
API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}
BACKGROUND = [each for each in Operation if each not in (Operation.CHAT, Operation.ROUTE)]


def question(operation: Operation) -> CompletionRequest:
    return CompletionRequest(
        operation=operation, messages=(ChatMessage("user", "tea?"),), max_output_tokens=50, deadline_seconds=60.0
    )


def spent(actor: Actor, *, cost: str | None = "1", tokens: int = 100, at: datetime | None = None, **rest: Any) -> None:
    LedgerEntry.objects.create(
        agent_id=actor.agent_id, actor=actor, operation="chat", provider="anthropic", model="claude-x", latency_ms=1,
        input_tokens=tokens, output_tokens=0, estimated_tokens=tokens, cost=None if cost is None else Decimal(cost),
        created_at=at or timezone.now(), **rest,
    )  # fmt: skip


@pytest.mark.parametrize("operation", BACKGROUND)
def test_background_work_stops_before_the_call(llm: LLMServer, actor: Actor, operation: Operation) -> None:
    actor = cap(actor, daily_spend_cap=1)
    spent(actor)
    with pytest.raises(SpendCapReached) as raised:
        complete(question(operation), actor=actor)
    error = raised.value
    assert (error.code, error.permanent) == ("spend_cap", False)
    assert error.retry_after_seconds == pytest.approx(
        (day_end(timezone.now().date(), UTC) - timezone.now()).total_seconds(), abs=60
    )
    assert "daily_spend_cap of 1 USD" in str(error) and "hiroki" not in str(error)
    assert llm.asked == [] and LedgerEntry.objects.count() == 1


@pytest.mark.parametrize("operation", [Operation.CHAT, Operation.ROUTE])
def test_chat_goes_on(llm: LLMServer, actor: Actor, operation: Operation) -> None:
    actor = cap(actor, daily_spend_cap=0, daily_token_cap=0)
    assert complete(question(operation), actor=actor).text
    assert LedgerEntry.objects.get().outcome == "ok"


@pytest.mark.django_db(transaction=True)
def test_a_background_stream_stops_before_the_call_as_well(llm: LLMServer, actor: Actor) -> None:
    actor = cap(actor, daily_token_cap=0)

    async def consume() -> None:
        async for _ in stream(question(Operation.COMPACT), actor=actor):
            pass

    with pytest.raises(SpendCapReached):
        async_to_sync(consume)()
    assert llm.asked == []


@pytest.mark.parametrize(
    ("caps", "goes_on"),
    [
        ({}, True),
        ({"daily_spend_cap": 1.01}, True),
        ({"daily_spend_cap": 1}, False),
        ({"daily_token_cap": 101}, True),
        ({"daily_token_cap": 100}, False),
        ({"daily_spend_cap": 5, "daily_token_cap": 100}, False),
    ],
)
def test_either_cap_pauses(llm: LLMServer, actor: Actor, caps: dict[str, Any], goes_on: bool) -> None:
    actor = cap(actor, **caps)
    spent(actor)
    if goes_on:
        assert complete(question(Operation.EXTRACT), actor=actor).text
    else:
        with pytest.raises(SpendCapReached):
            complete(question(Operation.EXTRACT), actor=actor)


def test_all_users_of_an_agent_share_its_day_and_no_other_agent_does(llm: LLMServer, actor: Actor) -> None:
    actor = cap(actor, daily_spend_cap=1)
    other = Actor.objects.create(id=uuid4(), agent=actor.agent, user_id="aoi")
    stranger = Actor.objects.create(id=uuid4(), agent=Agent.objects.create(agent_id="yuno"), user_id="hiroki")
    spent(stranger, cost="50")
    assert complete(question(Operation.JUDGE), actor=actor).text
    spent(other)
    with pytest.raises(SpendCapReached):
        complete(question(Operation.JUDGE), actor=actor)
    assert complete(question(Operation.JUDGE), actor=stranger).text
    assert [standing.agent_id for standing in paused_agents(now=timezone.now())] == ["kana"]


def test_yesterday_does_not_count_and_tomorrow_begins_anew(actor: Actor) -> None:
    cap(actor, daily_spend_cap=1)
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    spent(actor, at=noon - timedelta(hours=12, seconds=1))
    assert paused_agents(now=noon) == []
    spent(actor, at=noon - timedelta(hours=12))
    assert [standing.ends_at for standing in paused_agents(now=noon)] == [datetime(2026, 3, 2, tzinfo=UTC)]
    assert paused_agents(now=noon + timedelta(hours=12)) == []


def test_a_user_cannot_raise_the_agents_cap(llm: LLMServer, actor: Actor) -> None:
    actor = cap(actor, daily_token_cap=0)
    actor.policy = {"daily_token_cap": 10**6}
    with pytest.raises(SpendCapReached):
        complete(question(Operation.JUDGE), actor=actor)


def test_only_an_operator_sets_caps(client: APIClient, make_client: Any) -> None:
    assert client.post(f"{API}/agents", {"agent_id": "kana", "policy": {"daily_spend_cap": 3}}).status_code == 201
    writer = make_client(scopes=["read", "write"])
    refused = writer.patch(f"{API}/actors?agent_id=kana&user_id=hiroki", {"policy": {"daily_spend_cap": 9}})
    assert refused.status_code == 403


def test_the_sum_reads_its_index_alone(actor: Actor, llm: LLMServer) -> None:
    actor = cap(actor, daily_spend_cap=1000)
    with CaptureQueriesContext(connection) as statements:
        complete(question(Operation.JUDGE), actor=actor)
    (sum_of_day,) = [each["sql"] for each in statements if "SUM(" in each["sql"]]
    spent_rows = [
        LedgerEntry(
            agent_id=f"agent-{number % 50}", operation="chat", provider="p", model="m", latency_ms=1, estimated_tokens=1,
            input_tokens=1, output_tokens=1, created_at=timezone.now() - timedelta(minutes=number),
        )
        for number in range(5000)
    ]  # fmt: skip
    LedgerEntry.objects.bulk_create(spent_rows)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE memoryhub_ledgerentry")
        cursor.execute(f"EXPLAIN {sum_of_day}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "ledger_by_agent_and_time" in plan and "Seq Scan" not in plan, plan


@pytest.fixture
def remote(settings: Any, embeddings_server: EmbeddingsServer) -> EmbeddingsServer:
    """Return a remote embedder, configured."""
    settings.EMBEDDING = EmbeddingConfig(
        provider="openai",
        model="text-embedding-3-small",
        dimension=embeddings_server.dimension,
        base_url=embeddings_server.base_url,
        api_key=embeddings_server.key,
    )
    registry.reset()
    return embeddings_server


def remember(client: APIClient, text: str) -> None:
    assert client.post(f"{API}/memories", {**WHO, "content": text}).status_code == 201


@pytest.mark.django_db(transaction=True)
def test_remote_embeddings_stand_in_the_ledger(client: APIClient, remote: EmbeddingsServer, prices: None) -> None:
    remember(client, "Likes 抹茶")
    run_jobs()
    found = client.post(f"{API}/memories/search", {**WHO, "query": "green tea"})
    assert found.status_code == 200
    entries = {entry.operation: entry for entry in LedgerEntry.objects.all()}
    assert set(entries) == {"embed", "embed_query", "calibrate"}
    stored = entries["embed"]
    assert (stored.agent_id, stored.provider, stored.model, stored.outcome) == (
        "kana",
        "openai",
        "text-embedding-3-small",
        "ok",
    )
    assert stored.input_tokens == stored.estimated_tokens > 0 and stored.cost and stored.actor_id
    assert not stored.is_sample


@pytest.mark.django_db(transaction=True)
def test_whom_something_is_drawn_about_pays_for_what_is_held_against_it(remote: EmbeddingsServer, actor: Actor) -> None:
    now = timezone.now()
    new = ExtractedMemory("Likes 抹茶.", Kind.FACT, "facts", 0.9, (uuid4(),), said_at=now, is_trusted=True)
    assert resolve_extracted(actor=actor, extracted=[new], now=now) == {}
    rows = LedgerEntry.objects.values_list("operation", "agent_id", "actor_id")
    assert list(rows) == [("embed_query", "kana", actor.pk)]


def test_local_embeddings_cost_nothing_and_leave_no_row(client: APIClient) -> None:
    remember(client, "Likes 抹茶")
    client.post(f"{API}/memories/search", {**WHO, "query": "green tea"})
    assert not LedgerEntry.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_embedding_jobs_wait_for_the_next_day_and_say_so(client: APIClient, remote: EmbeddingsServer) -> None:
    """The whole way: paused with its reason wherever one looks, and on again when the day is new."""
    client.post(f"{API}/agents", {"agent_id": "kana", "policy": {"daily_token_cap": 50}})
    remember(client, "Likes 抹茶")
    actor = Actor.objects.get(agent_id="kana", user_id="hiroki")
    spent(actor, cost=None, tokens=60)
    before = len(remote.received)
    run_jobs()
    assert len(remote.received) == before
    job = Job.objects.get()
    shown = client.get(f"{API}/jobs/{job.pk}").json()
    assert shown["state"] == "queued" and "daily_token_cap of 50 tokens (60 used)" in shown["error"]
    assert abs(job.due_at - day_end(timezone.now().date(), UTC)) < timedelta(minutes=1)
    today = client.get(f"{API}/usage?agent_id=kana").json()["today"]
    assert today["is_paused"] and today["paused_until"] == day_end(timezone.now().date(), UTC).isoformat().replace(
        "+00:00", "Z"
    )
    _look_everywhere(job)
    LedgerEntry.objects.update(created_at=timezone.now() - timedelta(days=1))
    Job.objects.update(due_at=timezone.now())
    run_jobs()
    assert Job.objects.get(pk=job.pk).state == "done"
    assert not MemoryIndex.objects.filter(vector=None).exists()


def _look_everywhere(job: Job) -> None:
    said = StringIO()
    call_command("doctor", "--json", stdout=said)
    findings = {each["subject"]: each for each in json.loads(said.getvalue())}
    assert findings["spending of kana"]["level"] == "warning"
    assert "memoryhub_agents_paused 1.0" in generate_latest().decode()
    browser = Client()
    browser.force_login(User.objects.create_superuser("boss", password="a long password"))
    assert "cap reached: kana" in browser.get(reverse("admin:index")).content.decode()
    assert "daily_token_cap" in browser.get(reverse("admin:memoryhub_job_changelist")).content.decode()
    ledger = browser.get(reverse("admin:memoryhub_ledgerentry_changelist")).content.decode()
    assert "has reached its daily token cap of 50 tokens (used: 60 tokens)" in ledger


def test_old_calls_are_forgotten(actor: Actor) -> None:
    spent(actor, at=timezone.now() - timedelta(days=401))
    spent(actor, at=timezone.now() - timedelta(days=399))
    enqueue("forget_old_calls")
    assert run_jobs() == 1
    assert LedgerEntry.objects.count() == 1


def test_a_broken_connection_leaves_the_metrics_without_figures(db: None) -> None:
    def broken(*rest: Any) -> Any:
        raise InterfaceError("connection already closed")

    with connection.execute_wrapper(broken):
        families = list(CALLS.collect())
    assert families and not any(family.samples for family in families)


def test_a_cap_counts_the_answers_that_were_asked_for_again(actor: Actor, llm: LLMServer) -> None:
    llm.then(Reply("half", failure="truncated_json"))
    llm.answer(Reply("Green.", input_tokens=1, output_tokens=1))
    actor = cap(actor, daily_token_cap=10)
    complete(question(Operation.SUMMARIZE), actor=actor)
    assert LedgerEntry.objects.exclude(outcome="ok").get().input_tokens > 10
    with pytest.raises(SpendCapReached):
        complete(question(Operation.SUMMARIZE), actor=actor)


def test_metrics_tell_todays_calls(actor: Actor, llm: LLMServer) -> None:
    complete(question(Operation.CHAT), actor=actor)
    llm.answer(Reply(failure="401"))
    with pytest.raises(Exception, match="key"):
        complete(question(Operation.JUDGE), actor=actor)
    said = generate_latest().decode()
    assert 'memoryhub_calls_today{operation="chat",outcome="ok"} 1.0' in said
    assert 'memoryhub_calls_today{operation="judge",outcome="unauthorized"} 1.0' in said
    assert 'memoryhub_token_estimate_error{model="claude' in said
