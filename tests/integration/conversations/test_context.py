"""Assembled contexts and receipts over REST (SPEC X1–X10)."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from conversations.models import Receipt
from memoryhub.embeddings import spaces
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.llm.errors import ProviderUnavailable
from tests.conftest import client_with_key, run_jobs

API = "/api/v1"
NAMES = {"agent_id": "kana", "user_id": "hiroki"}


def context(client: APIClient, message: str = "What tea do I like?", **values: Any) -> Any:
    response = client.post(f"{API}/context", {**NAMES, "message": message, **values})
    assert response.status_code == 200, response.content
    return response.json()


def remember(client: APIClient, content: str, **values: Any) -> Any:
    response = client.post(f"{API}/memories", {**NAMES, "content": content, **values})
    assert response.status_code == 201, response.content
    return response.json()


def talk(client: APIClient, *texts: str, **values: Any) -> str:
    session = client.post(f"{API}/sessions", {**NAMES, **values}).json()
    batch = [{"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(texts)]
    assert client.post(f"{API}/sessions/{session['id']}/messages", {"messages": batch}).status_code == 201
    return str(session["id"])


def test_context_as_one_text(client: APIClient) -> None:
    client.post(f"{API}/agents", {"agent_id": "kana", "system_prompt": "You are Kana."})
    remember(client, "likes green tea")
    body = {
        **NAMES,
        "message": "What tea do I like?",
        "format": "text",
        "session_id": talk(client, "hello", "hi there"),
    }
    key = {"Idempotency-Key": "once"}
    for headers in ({}, {"Accept": "text/plain"}, key, key):
        answer = client.post(f"{API}/context", body, headers=headers)
        text = answer.content.decode()
        assert (answer.status_code, answer["Content-Type"]) == (200, "text/plain; charset=utf-8")
        assert text.startswith("You are Kana.") and text.endswith("What tea do I like?")
        assert "hello\n\nassistant: hi there\n\nuser: " in text and "likes green tea" in text
        receipt = client.get(f"{API}/receipts/{answer['Receipt-Id']}").json()
        assert receipt["metadata"]["asked"]["format"] == "text"
    assert answer["Idempotent-Replay"] == "true"
    refused = client.post(f"{API}/context", {**body, "options": {"max_tokens": 1}}, headers={"Accept": "text/plain"})
    assert (refused.status_code, refused["Content-Type"]) == (400, "application/problem+json")
    assert (
        client.post(f"{API}/context", {**body, "agent_id": "nobody", "session_id": None}).has_header("Receipt-Id")
        is False
    )
    assert client.post(f"{API}/context", {**body, "format": "openai"}, headers={"Accept": "text/plain"}).json()[
        "messages"
    ]


def test_the_latest_receipt_is_that_of_the_last_context(client: APIClient) -> None:
    missing = client.get(f"{API}/receipts/latest", NAMES)
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    session = talk(client, "hello", "hi there")
    first = context(client, session_id=session)["receipt_id"]
    second = context(client, "And cake?")["receipt_id"]
    Receipt.objects.create(
        actor_id=Receipt.objects.get(pk=first).actor_id, query="tried", token_limit=1, total_tokens=1, items=[],
        metadata={"is_trial": True}, created_at=timezone.now(),
    )  # fmt: skip
    assert client.get(f"{API}/receipts/latest", NAMES).json()["id"] == second
    assert client.get(f"{API}/receipts/latest", {**NAMES, "session_id": session}).json()["id"] == first
    assert client.get(f"{API}/receipts/latest", {**NAMES, "user_id": "mika"}).status_code == 404
    elsewhere = {**NAMES, "user_id": "mika", "session_id": session}
    assert client.get(f"{API}/receipts/latest", elsewhere).status_code == 404


def test_context_has_both_forms(client: APIClient) -> None:
    client.post(f"{API}/agents", {"agent_id": "kana", "system_prompt": "You are Kana."})
    remember(client, "likes green tea")
    session = talk(client, "hello", "hi there")
    anthropic = context(client, session_id=session)
    assert anthropic["system"].startswith("You are Kana.")
    assert {message["role"] for message in anthropic["messages"]} == {"user", "assistant"}
    openai = context(client, session_id=session, format="openai")
    assert openai["system"] is None
    assert openai["messages"][0] == {"role": "system", "content": anthropic["system"]}
    assert [message["role"] for message in openai["messages"][1:]] == [
        message["role"] for message in anthropic["messages"]
    ]
    for assembled in (anthropic, openai):
        last = assembled["messages"][-1]
        assert (last["role"], text_of(last)) == ("user", "What tea do I like?")
        assert "likes green tea" in str(assembled["messages"])
        assert "likes green tea" not in str(assembled["system"])
        assert assembled["routing"] is None


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ({}, {}),
        ({"project": None}, {"project": None}),
        ({"project": "auto"}, {"project": "auto"}),
        ({"project": "atlas"}, {"project": "atlas"}),
    ],
    ids=["left out", "none", "to be found", "named"],
)
def test_receipt_tells_no_project_from_none_named(
    client: APIClient, values: dict[str, Any], kept: dict[str, Any]
) -> None:
    client.post(f"{API}/agents", {"agent_id": "kana", "current_project": "zen"})
    receipt = client.get(f"{API}/receipts/{context(client, **values)['receipt_id']}").json()
    asked = receipt["metadata"]["asked"]
    assert {name: asked[name] for name in asked if name == "project"} == kept
    assert set(asked) - {"project"} == {"perspective", "format", "options"}


def text_of(message: Any) -> str:
    return message["content"] if isinstance(message["content"], str) else message["content"][-1]["text"]


def test_metadata_counts_what_is_in_the_result(client: APIClient) -> None:
    remember(client, "likes green tea")
    remember(client, "always answers in rhyme", pinned=True)
    session = talk(client, "hello", "hi there")
    metadata = context(client, session_id=session)["metadata"]
    assert metadata["working_memory_count"] == 2
    assert metadata["semantic_memory_count"] == 1
    assert metadata["pinned_count"] == 1
    assert metadata["has_session_summary"] is False
    assert metadata["token_limit"] == 80_000
    assert 0 < metadata["total_tokens"] <= metadata["token_limit"]
    assert metadata["compression_applied"] is False
    assert metadata["assembly_latency_ms"] > 0


def test_headings_are_in_the_agents_language(client: APIClient) -> None:
    client.post(f"{API}/agents", {"agent_id": "kana", "language": "ja"})
    remember(client, "抹茶アイスが好き")
    said = str(context(client, "抹茶アイスは好き？", options={"include_relevance": True})["messages"])
    assert "## 関連する過去の記憶" in said and "(関連度: " in said


def test_effective_policy_is_user_then_agent_then_default(client: APIClient) -> None:
    limit = lambda: context(client)["metadata"]["token_limit"]  # noqa: E731
    client.post(f"{API}/agents", {"agent_id": "kana"})
    assert limit() == 80_000
    client.patch(f"{API}/agents/kana", {"policy": {"max_tokens": 10_000, "token_safety_margin": 0.5}})
    assert limit() == 5_000
    client.patch(f"{API}/actors?agent_id=kana&user_id=hiroki", {"policy": {"max_tokens": 20_000}})
    assert limit() == 10_000
    assert context(client, options={"max_tokens": 4_000})["metadata"]["token_limit"] == 2_000
    shown = client.get(f"{API}/actors", NAMES).json()
    assert shown["policy"] == {"max_tokens": 20_000}
    assert (shown["effective_policy"]["max_tokens"], shown["effective_policy"]["token_safety_margin"]) == (20_000, 0.5)
    assert shown["effective_policy"]["recall_limit"] == 100
    other = client.get(f"{API}/actors", {"agent_id": "kana", "user_id": "aoi"}).json()
    assert (other["policy"], other["effective_policy"]["max_tokens"]) == ({}, 10_000)


@pytest.mark.parametrize(
    "options",
    [
        {"working_memory_limit": 0}, {"working_memory_limit": 51}, {"semantic_memory_limit": 0}, {"semantic_memory_limit": 21}, {"recall_limit": -1},
        {"recall_limit": 201}, {"max_tokens": 999}, {"token_safety_margin": 0.49}, {"token_safety_margin": 0.96}, {"memory_placement": "nowhere"},
        {"system_prompt": "x"}, {"layer_budgets": {}}, {"include_everything": True},
    ],
)  # fmt: skip
def test_options_out_of_range_are_refused(client: APIClient, options: dict[str, Any]) -> None:
    client.post(f"{API}/agents", {"agent_id": "kana"})
    refused = client.post(f"{API}/context", {**NAMES, "message": "x", "options": options})
    assert refused.status_code == 400, refused.content
    assert next(iter(options)) in refused.json()["errors"][0]["field"]


def test_layers_can_be_switched_off(client: APIClient) -> None:
    remember(client, "likes green tea")
    remember(client, "always answers in rhyme", pinned=True)
    talk(client, "I had green tea today", *(f"line {number}" for number in range(11)))
    on = context(client)["metadata"]
    assert (on["semantic_memory_count"], on["pinned_count"]) == (1, 1)
    assert on["recall_count"] >= 1
    off = context(client, options={"include_semantic_memory": False, "include_pinned": False, "include_recall": False})[
        "metadata"
    ]
    assert (off["semantic_memory_count"], off["pinned_count"], off["recall_count"]) == (0, 0, 0)


def test_turns_of_earlier_sessions_are_added_only_in_the_scope_of_the_user(client: APIClient) -> None:
    talk(client, "an old remark", "an old answer")
    session = talk(client, "hello", "hi there")

    def counted(**options: Any) -> int:
        return int(context(client, session_id=session, options=options)["metadata"]["working_memory_count"])

    assert (counted(), counted(working_memory_scope="session"), counted(working_memory_scope="user")) == (4, 2, 4)
    without_session = context(client, options={"working_memory_scope": "session"})
    assert without_session["metadata"]["working_memory_count"] == 0


def test_placement_and_cache_marks(client: APIClient) -> None:
    remember(client, "likes green tea")
    session = talk(client, "hello", "hi there")
    before = context(client, session_id=session)["messages"]
    assert "likes green tea" in str(before[0])
    beside = context(client, session_id=session, options={"memory_placement": "with_user_message"})
    assert "likes green tea" in str(beside["messages"][-1])
    assert text_of(beside["messages"][-1]) == "What tea do I like?"
    beside = context(client, session_id=session, options={"cache": True})
    assert "likes green tea" in str(beside["messages"][0]) and "hello" in str(beside["messages"][0])
    assert text_of(beside["messages"][-1]) == "What tea do I like?"
    assert beside["system"][0]["cache_control"] == {"type": "ephemeral"}


def test_too_large_is_422_with_the_figures(client: APIClient) -> None:
    client.post(f"{API}/agents", {"agent_id": "kana"})
    body = {**NAMES, "message": "tea " * 3_000, "options": {"max_tokens": 1_000}}
    refused = client.post(f"{API}/context", body)
    assert refused.status_code == 422
    problem = refused.json()
    assert problem["code"] == "context_too_large"
    assert problem["token_limit"] == 800
    assert problem["required_tokens"] > 3_000
    assert Receipt.objects.count() == 0


def test_small_budget_is_kept_and_told(client: APIClient) -> None:
    session = talk(client, *(f"line {number} " + "word " * 100 for number in range(20)))
    for number in range(5):
        remember(client, f"likes green tea number {number} " + "leaf " * 80)
    metadata = context(client, session_id=session, options={"max_tokens": 1_500, "working_memory_limit": 20})[
        "metadata"
    ]
    assert metadata["total_tokens"] <= metadata["token_limit"] == 1_200
    assert metadata["compression_applied"] is True


def test_receipt_answers_why_and_why_not(client: APIClient) -> None:
    memory = remember(client, "likes green tea")
    session = talk(client, *(f"line {number} " + "word " * 100 for number in range(20)))
    assembled = context(client, session_id=session, options={"max_tokens": 1_500, "working_memory_limit": 20})
    receipt = client.get(f"{API}/receipts/{assembled['receipt_id']}").json()
    assert receipt["query"] == "What tea do I like?"
    assert (receipt["token_limit"], receipt["total_tokens"]) == (1_200, assembled["metadata"]["total_tokens"])
    assert receipt["session_id"] == session
    by_layer: dict[str, list[Any]] = {}
    for item in receipt["items"]:
        by_layer.setdefault(item["layer"], []).append(item)
    assert len(by_layer["working"]) == 20
    included = [item for item in by_layer["working"] if item["included"]]
    assert len(included) == assembled["metadata"]["working_memory_count"] < 20
    assert {item["reason"] for item in by_layer["working"] if not item["included"]} == {"over_budget"}
    (semantic,) = by_layer["semantic"]
    assert semantic["source_id"] == memory["id"]
    assert semantic["score_breakdown"]["total"] == semantic["final_score"]


def test_memory_is_not_marked_by_a_reading_key(client: APIClient) -> None:
    memory = remember(client, "likes green tea")
    context(client_with_key(scopes=["read"]))
    assert client.get(f"{API}/memories/{memory['id']}").json()["candidate_count"] == 0
    context(client)
    assert client.get(f"{API}/memories/{memory['id']}").json()["candidate_count"] == 1


# X10


def test_somebody_new_misses_nothing(client: APIClient) -> None:
    session = client.post(f"{API}/sessions", NAMES).json()["id"]

    assert context(client, session_id=session)["metadata"]["degraded"] == []


def test_missing_layers_are_named(client: APIClient) -> None:
    session = talk(client, "hello", "hi")
    assert context(client, session_id=session)["metadata"]["degraded"] == ["session_summary"]
    assert context(client, session_id=session, project="atlas")["metadata"]["degraded"] == [
        "session_summary",
        "project",
    ]
    assert context(client)["metadata"]["degraded"] == []
    off = {"include_session_summary": False, "include_project": False}
    assert context(client, session_id=session, project="atlas", options=off)["metadata"]["degraded"] == []


class Away:
    """An embedder that nobody reaches."""

    name, is_local = "hashing", True

    def embed(self, texts: Any) -> Any:
        raise ProviderUnavailable("nobody there", code="unreachable")


def test_embedder_away_degrades_and_words_go_on(client: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(client, "likes green tea")
    session = talk(client, "we spoke of green tea", "yes")
    monkeypatch.setattr(spaces, "provider_of", lambda space: Away())
    later = remember(client, "buys green tea in Uji")
    searched = client.post(f"{API}/memories/search", {**NAMES, "query": "green tea", "include_messages": True}).json()
    assert searched["degraded"] == ["embedder"]
    assert {"likes green tea", "buys green tea in Uji"} <= {
        each["memory"]["content"] for each in searched["results"] if "memory" in each
    }
    assert all(each["similarity"] is None for each in searched["results"])
    assert any("message" in each for each in searched["results"])
    assembled = context(client, "green tea?", session_id=session)
    assert assembled["metadata"]["degraded"] == ["embedder", "session_summary"]
    assert later["content"] in str(assembled["messages"])
    retrieved = client.post(
        f"{API}/memories/retrieve", {**NAMES, "query": "green tea", "config": {"/notes/": {}}}
    ).json()
    assert retrieved["degraded"] == ["embedder"]


def test_unknown_agent_gets_a_plain_context_and_makes_nothing(client: APIClient) -> None:
    body = client.post(f"{API}/context", {"agent_id": "nobody", "message": "hello"}).json()
    assert body["receipt_id"] is None
    (message,) = body["messages"]
    assert [block["text"][:6] for block in message["content"]] == ["(Now: ", "hello"]
    plain = {"agent_id": "nobody", "message": "hello", "options": {"include_clock": False}}
    assert client.post(f"{API}/context", plain).json()["messages"] == [{"role": "user", "content": "hello"}]
    assert client.get(f"{API}/agents/nobody").status_code == 404


def test_unknown_session_is_404(client: APIClient) -> None:
    body = {**NAMES, "message": "x", "session_id": "0198d1a2-0000-7000-8000-000000000000"}
    assert client.post(f"{API}/context", body).status_code == 404


def test_perspective_counts_in_contexts(client: APIClient) -> None:
    remember(client, "likes green tea", strength=0.2, strength_by_perspective={"cook": 1.8})
    receipt = client.get(f"{API}/receipts/{context(client, perspective='cook')['receipt_id']}").json()
    (item,) = [item for item in receipt["items"] if item["layer"] == "semantic"]
    assert item["score_breakdown"]["strength_raw"] == 1.8


@pytest.mark.parametrize(("days", "left"), [(400, {"young"}), (0, {"young", "old", "older"}), (402, {"young", "old"})])
def test_receipts_are_forgotten_when_nobody_asks_any_more(
    client: APIClient, settings: Any, monkeypatch: pytest.MonkeyPatch, days: int, left: set[str]
) -> None:
    settings.RECEIPT_DAYS = days
    monkeypatch.setattr("conversations.jobs.BATCH_SIZE", 1)
    remember(client, "likes green tea")
    for name, age in (("young", 399), ("old", 401), ("older", 800)):
        receipt = context(client, message=name)["receipt_id"]
        Receipt.objects.filter(pk=receipt).update(created_at=timezone.now() - timedelta(days=age))
    enqueue("forget_old_receipts")
    run_jobs()
    assert Job.objects.get(kind="forget_old_receipts").state == "done"
    assert set(Receipt.objects.values_list("query", flat=True)) == left


def test_what_shares_a_word_by_chance_stays_out_beside_what_answers(client: APIClient) -> None:
    remember(client, "The cat Goma is allergic to salmon and gets the duck-based dry food.", kind="note")
    order = "Ken orders the food for the office party from the bakery on the corner, every second Friday."
    remember(client, order, kind="note")

    search_alone = {"include_profile": False}
    about_the_cat = context(
        client, "Which dry food does the cat Goma get, given the salmon allergy?", options=search_alone
    )
    about_ken = context(client, "Who orders the food for the party at the office?", options=search_alone)

    assert "Goma is allergic" in str(about_the_cat["messages"])
    assert "Ken orders" not in str(about_the_cat["messages"])
    assert "Ken orders" in str(about_ken["messages"])


def entered(client: APIClient, message: str, **values: Any) -> list[str]:
    receipt = client.get(f"{API}/receipts/{context(client, message, **values)['receipt_id']}").json()
    return [item["excerpt"] for item in receipt["items"] if item["layer"] == "semantic" and item["included"]]


def test_question_about_the_world_brings_no_memory(client: APIClient) -> None:
    allergy = "No penicillin: amoxicillin caused a rash and a swollen face in 2014."
    remember(client, allergy)

    assert entered(client, "Who discovered penicillin, and in which year?") == []
    assert entered(client, "May I take penicillin, and in which year was that?") == [allergy]


def test_work_on_a_given_text_brings_no_memory(client: APIClient) -> None:
    remember(client, "妻の絵美は4月から市立図書館で月・水・木の週3日働いている。")

    assert entered(client, "次の文を英語にして。「図書館は月曜日が休みですが、いつでも使えます。」") == []


def test_follow_up_needs_what_the_turns_before_it_need(client: APIClient) -> None:
    launch = "The launch of Kestrel is in the second week of January."
    remember(client, launch)
    session = talk(client, "I keep thinking about the launch of Kestrel.", "It will be fine.")

    assert entered(client, "And when is that?", session_id=session) == [launch]


def test_memories_that_share_the_same_words_with_a_message_are_rivals(client: APIClient) -> None:
    food, vet, port = (
        "Goma eats duck kibble only.",
        "Goma hates the vet in Shiojiri and hides under his desk for hours.",
        "The staging server listens on port 8447.",
    )
    for text in (food, vet, port):
        remember(client, text)

    message = "Our Goma has no duck kibble left, is salmon flavour fine, and which port has our staging server?"
    assert set(entered(client, message)) == {food, port}
