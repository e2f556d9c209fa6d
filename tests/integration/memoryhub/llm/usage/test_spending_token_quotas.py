"""Tokens of a day by key and by user: what counts, the caps, the headers, and where they are shown (SPEC O11)."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from conversations.models import Message
from memoryhub.auth.models import ApiKey
from memoryhub.embeddings import registry
from memoryhub.embeddings.config import EmbeddingConfig
from memoryhub.llm.usage.caps import TokenQuota
from memoryhub.llm.usage.models import CapReached, LedgerEntry
from memoryhub.tenancy.models import Actor, Agent
from tests.conftest import client_with_key, run_jobs
from tests.factories.planting import API
from tests.fakes.embeddings_server import EmbeddingsServer
from tests.fakes.llm_server import LLMServer, Reply
from tests.integration.memoryhub.llm.usage.test_spending_key_caps import ASKED

pytestmark = pytest.mark.usefixtures("one_day")
WHO = {"agent_id": "kana", "user_id": "hiroki"}


@pytest.fixture
def kana(db: None, llm: LLMServer) -> Agent:
    llm.answer(Reply("Green."))
    return Agent.objects.create(agent_id="kana")


@pytest.fixture
def remote_embedder(embeddings_server: EmbeddingsServer, settings: Any) -> EmbeddingsServer:
    settings.EMBEDDING = EmbeddingConfig(
        provider="openai", model="text-embedding-3-small", dimension=embeddings_server.dimension,
        base_url=embeddings_server.base_url, api_key=embeddings_server.key,
    )  # fmt: skip
    registry.reset()
    return embeddings_server


def entries_of(client_name: str) -> set[str]:
    key = ApiKey.objects.get(name=client_name)
    return set(LedgerEntry.objects.filter(key_id=key.pk).values_list("operation", flat=True))


def cap_users(policy: dict[str, Any]) -> None:
    Agent.objects.update(policy=policy)


def boss() -> Client:
    browser = Client()
    browser.force_login(User.objects.create_superuser("boss"))
    return browser


def test_a_keys_searches_count_for_it_and_background_work_does_not(
    kana: Agent, remote_embedder: EmbeddingsServer
) -> None:
    client = client_with_key(name="reader")
    assert client.post(f"{API}/memories", {**WHO, "content": "The user likes tea."}).status_code == 201
    run_jobs()
    assert entries_of("reader") == set(), "the job that embeds texts was ordered by no key"
    assert client.post(f"{API}/memories/search", {**WHO, "query": "tea"}).status_code == 200
    assert entries_of("reader") == {"embed_query"}
    other = client_with_key(name="other")
    assert other.post(f"{API}/memories/search", {**WHO, "query": "coffee"}).status_code == 200
    assert LedgerEntry.objects.filter(key_id=ApiKey.objects.get(name="reader").pk).count() == 1


def test_a_job_counts_for_the_key_that_ordered_it(kana: Agent, llm: LLMServer) -> None:
    client = client_with_key(name="orderer")
    session = client.post(f"{API}/sessions", WHO).json()["id"]
    said = {"messages": [{"role": "user", "content": "I moved to Kyoto last spring, near the old mill."}]}
    assert client.post(f"{API}/sessions/{session}/messages", said).status_code == 201
    assert client.post(f"{API}/sessions/{session}/summary", {}).status_code == 202
    run_jobs()
    assert "summarize" in entries_of("orderer")


@pytest.mark.parametrize("path", ASKED)
def test_a_user_who_used_up_the_day_gets_no_more_answers(kana: Agent, llm: LLMServer, path: str) -> None:
    cap_users({"user_daily_token_cap": 1})
    client = client_with_key(name="app")
    assert client.post(f"{API}/{path}", ASKED[path]).status_code == 200
    asked, messages = len(llm.asked), Message.objects.count()
    refused = client_with_key(name="another").post(f"{API}/{path}", ASKED[path])
    assert refused.status_code == 429 and 0 < int(refused["Retry-After"]) <= 86_400
    assert "used up the 1 tokens of today" in refused.content.decode()
    assert '"user-tokens";q=1;qu="tokens";w=86400' in refused["RateLimit-Policy"]
    assert f'"user-tokens";r=0;t={refused["Retry-After"]}' in refused["RateLimit"]
    assert (len(llm.asked), Message.objects.count()) == (asked, messages), "nothing is sent or stored"
    assert client.post(f"{API}/context", {**WHO, "message": "Tea?"}).status_code == 200
    other = {**ASKED["chat"], "user_id": "aoi"}
    assert client.post(f"{API}/chat", other).status_code == 200
    reached = CapReached.objects.get()
    assert (reached.cap, reached.owner_id) == ("user_token_cap", Actor.objects.get(user_id="hiroki").pk)


def test_a_users_own_cap_replaces_the_agents(kana: Agent, client: APIClient) -> None:
    cap_users({"user_daily_token_cap": 0})
    assert client.post(f"{API}/chat", ASKED["chat"]).status_code == 429
    Actor.objects.update(policy={"user_daily_token_cap": None})
    assert client.post(f"{API}/chat", ASKED["chat"]).status_code == 200
    writer = client_with_key(scopes=["read", "write"])
    body = {"policy": {"user_daily_token_cap": 10**9}}
    assert writer.patch(f"{API}/actors?agent_id=kana&user_id=hiroki", body).status_code == 403, (
        "a client does not raise its user's cap"
    )


def test_the_next_day_begins_at_zero(kana: Agent, client: APIClient) -> None:
    cap_users({"user_daily_token_cap": 1})
    assert [client.post(f"{API}/chat", ASKED["chat"]).status_code for _ in range(2)] == [200, 429]
    LedgerEntry.objects.update(created_at=timezone.now() - timedelta(days=1))
    assert client.post(f"{API}/chat", ASKED["chat"]).status_code == 200


def test_answers_name_the_policies_that_hold(kana: Agent) -> None:
    client = client_with_key(name="capped", daily_token_cap=1_000_000)
    first = client.post(f"{API}/chat", ASKED["chat"])
    assert (
        first["RateLimit-Policy"].count('"key";') == 1
        and '"key-tokens";q=1000000;qu="tokens"' in first["RateLimit-Policy"]
    )
    assert "user-tokens" not in first["RateLimit-Policy"] and '"key-tokens";r=1000000;' in first["RateLimit"]
    cap_users({"user_daily_token_cap": 500_000})
    second = client.post(f"{API}/chat", ASKED["chat"])
    used = sum(entry.input_tokens + entry.output_tokens for entry in LedgerEntry.objects.order_by("created_at")[:1])
    assert f'"key-tokens";r={1_000_000 - used};' in second["RateLimit"]
    assert f'"user-tokens";r={500_000 - used};' in second["RateLimit"]
    assert "tokens" not in client.get(f"{API}/agents")["RateLimit"], "other calls have the policy of calls alone"


def test_a_refused_key_names_its_policy(kana: Agent) -> None:
    client = client_with_key(name="capped", daily_token_cap=0)
    refused = client.post(f"{API}/chat", ASKED["chat"])
    assert refused.json()["code"] == "key_cap_reached"
    assert f'"key-tokens";r=0;t={refused["Retry-After"]}' in refused["RateLimit"]


def test_usage_is_read_by_key_and_by_user(kana: Agent, client: APIClient) -> None:
    app = client_with_key(name="app")
    for user in ("hiroki", "aoi"):
        assert app.post(f"{API}/chat", {**ASKED["chat"], "user_id": user}).status_code == 200
    usage = client.get(f"{API}/usage", {"agent_id": "kana"}).json()
    assert usage["keys"] is None and usage["users"] is None
    by_key = client.get(f"{API}/usage", {"agent_id": "kana", "by": "key"}).json()["keys"]
    (row,) = [row for row in by_key if row["key_id"]]
    assert (row["name"], row["key_id"]) == ("app", str(ApiKey.objects.get(name="app").pk))
    assert row["calls"] == 2 and row["input_tokens"] == usage["results"][0]["input_tokens"]
    by_user = client.get(f"{API}/usage", {"agent_id": "kana", "by": "user"}).json()["users"]
    assert {row["user_id"]: row["calls"] for row in by_user} == {"hiroki": 1, "aoi": 1}
    bound = client_with_key(user_id="aoi")
    assert [row["user_id"] for row in bound.get(f"{API}/usage?agent_id=kana&by=user").json()["users"]] == ["aoi"]
    assert client.get(f"{API}/usage", {"agent_id": "kana", "by": "model"}).status_code == 400


def test_screens_show_tokens_by_key(kana: Agent) -> None:
    app, browser = client_with_key(name="app", daily_token_cap=5_000), boss()
    assert app.post(f"{API}/chat", ASKED["chat"]).status_code == 200
    key = ApiKey.objects.get(name="app")
    groups = {group["id"]: group["rows"] for group in browser.get(reverse("spending")).context["groups"]}
    (row,) = groups["keys"]
    assert row["name"] == "app"
    assert len(browser.get(row["href"]).context["cl"].result_list) == 1
    entry = LedgerEntry.objects.get(key_id=key.pk)
    assert str(key.pk) in browser.get(reverse("admin:memoryhub_ledgerentry_change", args=[entry.pk])).content.decode()
    page = browser.get(reverse("admin:memoryhub_apikey_change", args=[key.pk])).content.decode()
    assert "Tokens today" in page
    key.delete()
    (row,) = {g["id"]: g["rows"] for g in browser.get(reverse("spending")).context["groups"]}["keys"]
    assert row["name"] == str(key.pk) or row["name"] == str(entry.key_id)


@pytest.mark.parametrize("limit", [0, 10**15 - 1, 10**15, 2**63 - 1, 10**30])
def test_headers_have_integers_of_at_most_15_digits(limit: int) -> None:
    quota = TokenQuota("user-tokens", limit, 0, 60)
    numbers = [int(number) for number in re.findall(r"=(\d+)", f"{quota.policy}{quota.state}")]
    assert len(numbers) == 4 and max(numbers) <= 999_999_999_999_999
