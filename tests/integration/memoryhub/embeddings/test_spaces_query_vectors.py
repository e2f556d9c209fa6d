"""Number of times that the embedder is asked for a query, and for which text (SPEC M4, A5)."""

from typing import Any

import pytest
from django.core.cache import caches
from django.db import connections
from rest_framework.test import APIClient

from memoryhub.embeddings import registry
from memoryhub.embeddings.config import EmbeddingConfig
from memoryhub.embeddings.spaces import text_query, with_vector_of
from memoryhub.llm.usage.models import LedgerEntry
from memoryhub.tenancy.models import Actor
from tests.conftest import run_jobs
from tests.fakes.embeddings_server import EmbeddingsServer, Received, answered, status

API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def remote(settings: Any, embeddings_server: EmbeddingsServer) -> EmbeddingsServer:
    """Make the fake server the configured embedder."""
    settings.EMBEDDING = EmbeddingConfig(
        provider="openai",
        model="text-embedding-3-small",
        dimension=embeddings_server.dimension,
        base_url=embeddings_server.base_url,
        api_key=embeddings_server.key,
    )
    registry.reset()
    return embeddings_server


@pytest.fixture
def by_vectors(client: APIClient, remote: EmbeddingsServer) -> APIClient:
    """Return a client whose agent compares vectors to find what a task has used."""
    agent = {"agent_id": "kana", "policy": {"use_detection": "embedding"}}
    assert client.post(f"{API}/agents", agent).status_code == 201
    return client


@pytest.fixture
def talked(client: APIClient, remote: EmbeddingsServer) -> APIClient:
    """Return a client after Ann and Bob have spoken; what that asked of the embedder is forgotten."""
    session = client.post(f"{API}/sessions", WHO).json()["id"]
    batch = [
        {"role": "user", "author": "Ann", "content": "I like green tea."},
        {"role": "user", "author": "Bob", "content": "I like coffee."},
    ]
    assert client.post(f"{API}/sessions/{session}/messages", {"messages": batch}).status_code == 201
    remote.received.clear()
    return client


def search(client: APIClient, query: str, **values: Any) -> dict[str, Any]:
    answer = client.post(f"{API}/memories/search", {**WHO, "query": query, **values})
    assert answer.status_code == 200, answer.content
    data: dict[str, Any] = answer.json()
    return data


def asked(server: EmbeddingsServer) -> list[str]:
    """Return the texts that the embedder was asked for, in order."""
    return [text for request in server.received for text in request.body["input"]]


@pytest.mark.parametrize("key", [None, "once"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("memories/search", {"query": "What does Ann like?", "include_messages": True}),
        ("memories/retrieve", {"query": "green tea"}),
        ("context", {"message": "What does Ann like?"}),
        ("tasks", {"query": "green tea"}),
    ],
)
def test_whoever_waits_for_the_embedder_keeps_no_connection_from_others(
    talked: APIClient, remote: EmbeddingsServer, path: str, body: dict[str, Any], key: str | None
) -> None:
    mine, held = connections["default"], []

    def noted(handler: Any, received: Received) -> None:
        held.append(mine.connection is not None)
        answered(handler, received)

    remote.will(noted, noted)
    answer = talked.post(f"{API}/{path}", {**WHO, **body}, headers={"Idempotency-Key": key} if key else {})

    assert answer.status_code in (200, 201), answer.content
    assert held == [False] * len(asked(remote)) and held


def test_same_search_asks_the_embedder_once(talked: APIClient, remote: EmbeddingsServer) -> None:
    first, again = (search(talked, "green tea", include_messages=True) for _ in range(2))

    assert asked(remote) == ["green tea"]
    assert [each["final_score"] for each in again["results"]] == [each["final_score"] for each in first["results"]]
    assert first["degraded"] == again["degraded"] == []


def test_context_asks_the_embedder_once(talked: APIClient, remote: EmbeddingsServer) -> None:
    """Once for memories and messages together."""
    answer = talked.post(f"{API}/context", {**WHO, "message": "green tea"})

    assert answer.status_code == 200
    assert asked(remote).count("green tea") == 1


def test_other_search_asks_again(talked: APIClient, remote: EmbeddingsServer) -> None:
    search(talked, "green tea")
    search(talked, "black tea")

    assert asked(remote) == ["green tea", "black tea"]


def test_failure_is_not_remembered(talked: APIClient, remote: EmbeddingsServer) -> None:
    remote.will(status(400))

    assert search(talked, "green tea")["degraded"] == ["embedder"]
    assert search(talked, "green tea")["degraded"] == []
    assert asked(remote) == ["green tea", "green tea"]


def test_query_that_names_an_author_is_embedded_without_the_name_too(
    talked: APIClient, remote: EmbeddingsServer
) -> None:
    for _ in range(2):
        search(talked, "What does Ann like?", include_messages=True)

    assert asked(remote) == ["What does Ann like?", "What does like?"]


def test_query_that_names_two_authors_is_embedded_without_either(talked: APIClient, remote: EmbeddingsServer) -> None:
    search(talked, "What do Ann and Bob's friends like?", include_messages=True)

    assert asked(remote)[1:] == ["What do and friends like?"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("memories/search", {"query": "What does Ann like?", "include_messages": True}),
        ("context", {"message": "What does Ann like?"}),
    ],
)
def test_whoever_asks_pays_for_the_query_without_the_name_too(
    talked: APIClient, remote: EmbeddingsServer, path: str, body: dict[str, Any]
) -> None:
    assert talked.post(f"{API}/{path}", {**WHO, **body}).status_code == 200

    actor = Actor.objects.get(**WHO)
    rows = LedgerEntry.objects.filter(operation="embed_query").values_list("agent_id", "actor_id")
    assert list(rows) == [("kana", actor.pk)] * 2 and len(asked(remote)) == 2


@pytest.mark.parametrize("query", ["What does she like?", "Ann", "what does ann like?"])
def test_query_without_a_name_or_of_one_alone_is_embedded_as_it_is(
    talked: APIClient, remote: EmbeddingsServer, query: str
) -> None:
    search(talked, query, include_messages=True)

    assert asked(remote) == [query]


def test_memories_are_searched_with_the_name(talked: APIClient, remote: EmbeddingsServer) -> None:
    search(talked, "What does Ann like?")

    assert asked(remote) == ["What does Ann like?"]


def test_without_the_bare_vector_the_whole_one_serves(talked: APIClient, remote: EmbeddingsServer) -> None:
    query = text_query("What does Ann like?")
    remote.will(status(400))

    assert with_vector_of(query, "What does like?") == query
    assert with_vector_of(query, "What does like?").vector != query.vector, "once the embedder is back"


def test_degraded_query_does_not_ask_for_the_bare_text(talked: APIClient, remote: EmbeddingsServer) -> None:
    remote.will(status(400))

    found = search(talked, "What does Ann like?", include_messages=True)

    assert found["degraded"] == ["embedder"]
    assert found["results"][0]["message"]["content"] == "I like green tea."
    assert asked(remote) == ["What does Ann like?"]


def test_bare_text_keeps_the_words_of_the_whole(talked: APIClient, remote: EmbeddingsServer) -> None:
    query = text_query("What does Ann like?")
    bare = with_vector_of(query, "What does like?")

    assert (bare.words, bare.text) == (query.words, query.text)
    caches["query_vectors"].clear()
    assert text_query("What does like?").vector == bare.vector


def completed(client: APIClient, remote: EmbeddingsServer, result: str, *behaviours: Any) -> dict[str, Any]:
    """Return what came of a task about emergencies; how the embedder behaves, and what it is asked, is at its end."""
    run_jobs()
    begun = client.post(f"{API}/tasks", {**WHO, "query": "emergencies"})
    assert begun.status_code == 201, begun.content
    remote.received.clear()
    remote.will(*behaviours)
    done = client.post(f"{API}/tasks/{begun.json()['task_id']}/complete", {"result": result})
    assert done.status_code == 200, done.content
    data: dict[str, Any] = done.json()
    return data


def remembered(client: APIClient, content: str) -> str:
    return str(client.post(f"{API}/memories", {**WHO, "content": content}).json()["id"])


def test_result_and_query_of_a_task_are_embedded_in_one_call(by_vectors: APIClient, remote: EmbeddingsServer) -> None:
    said = [f"Emergencies of the kind {letter}: {letter * 250}." for letter in "abcdefghij"]
    memory = remembered(by_vectors, said[3])

    outcome = completed(by_vectors, remote, "\n".join(said))

    assert [request.body["input"] for request in remote.received] == [[*said, "emergencies"]]
    assert (outcome["used_memory_ids"], outcome["errors"]) == ([memory], [])


def test_use_is_found_by_words_where_the_embedder_is_away(by_vectors: APIClient, remote: EmbeddingsServer) -> None:
    memory = remembered(by_vectors, "Emergencies cost 1.5 times as much.")

    outcome = completed(by_vectors, remote, "We should plan for 1.5 times the price.", status(400))

    assert outcome["used_memory_ids"] == [memory]
    (error,) = outcome["errors"]
    assert error.startswith("Use was found by words, for embedding could not be asked: ")
