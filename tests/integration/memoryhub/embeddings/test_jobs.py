"""A remote embedder is asked in the background: found by words at once, by meaning when the vector is there."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from conversations.models import MessageIndex
from memoryhub.embeddings import registry
from memoryhub.embeddings.calibration import PROBE_TEXTS
from memoryhub.embeddings.config import EmbeddingConfig
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.search.models import EmbeddingSpace
from strength.models import MemoryIndex
from tests.conftest import run_jobs
from tests.fakes.embeddings_server import Behaviour, EmbeddingsServer, answered, status

API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def remote(settings: Any, embeddings_server: EmbeddingsServer) -> EmbeddingsServer:
    """Return a remote embedder, configured, and an installation that uses it from the start."""
    settings.EMBEDDING = EmbeddingConfig(
        provider="openai",
        model="text-embedding-3-small",
        dimension=embeddings_server.dimension,
        base_url=embeddings_server.base_url,
        api_key=embeddings_server.key,
    )
    registry.reset()
    return embeddings_server


def remember(client: APIClient, *texts: str) -> None:
    for text in texts:
        assert client.post(f"{API}/memories", {**WHO, "content": text}).status_code == 201


def unembedded() -> int:
    return MemoryIndex.objects.filter(vector=None).count() + MessageIndex.objects.filter(vector=None).count()


def the_job() -> Job:
    return Job.objects.get(kind="embed")


def refusing(word: str) -> Behaviour:
    """Refuse a batch that holds a word, as a vendor refuses a whole batch for one text in it."""

    def behave(handler: Any, received: Any) -> None:
        if any(word in text for text in received.body["input"]):
            status(400)(handler, received)
        else:
            answered(handler, received)

    return behave


def test_a_write_asks_nobody_and_is_found_by_words_then_by_meaning(client: APIClient, remote: EmbeddingsServer) -> None:
    remember(client, "Likes green tea", "Rows across the lake")
    session = client.post(f"{API}/sessions", WHO).data["id"]
    client.post(f"{API}/sessions/{session}/messages", {"role": "user", "content": "I like tea"})
    assert remote.received == []
    assert unembedded() == 3
    assert (the_job().kind, the_job().state) == ("embed", "queued"), "one job for all that waits"
    found = client.post(f"{API}/memories/search", {**WHO, "query": "green tea"}).data["results"]
    assert found[0]["memory"]["content"] == "Likes green tea"

    asked = len(remote.received)
    assert run_jobs() == 1
    assert unembedded() == 0
    assert the_job().state == "done"
    asked_for = [request.body["input"] for request in remote.received[asked:]]
    assert sorted(asked_for[:2]) == [["I like tea"], ["Likes green tea", "Rows across the lake"]], (
        "a call for each kind"
    )
    assert [text for batch in asked_for[2:] for text in batch] == PROBE_TEXTS, "then the space is measured"
    answer = client.get(f"{API}/jobs/{the_job().pk}").data
    assert (answer["kind"], answer["state"], answer["attempts"], answer["error"]) == ("embed", "done", 1, "")


def test_an_embedder_that_is_away_is_asked_again_later(client: APIClient, remote: EmbeddingsServer) -> None:
    remember(client, "Likes green tea")
    remote.will(*[status(503)] * 40)
    run_jobs()
    assert (the_job().state, the_job().excused, unembedded()) == ("queued", 1, 1)
    assert the_job().error
    remote._planned.clear()
    Job.objects.update(due_at=the_job().created_at)
    run_jobs()

    assert (the_job().state, unembedded()) == ("done", 0)


@pytest.mark.parametrize("code", [401, 404])
def test_a_wrong_setting_waits_for_an_operator_and_says_so(
    client: APIClient, remote: EmbeddingsServer, code: int
) -> None:
    remember(client, "Likes green tea")
    remote.will(status(code))
    run_jobs()
    remember(client, "Likes black tea")

    assert len(remote.received) == 1, "asked once, not once for each half"
    assert (the_job().state, the_job().attempts, the_job().excused) == ("queued", 1, 1)
    assert the_job().error
    assert the_job().due_at > timezone.now() + timedelta(minutes=9)


def test_a_space_that_cannot_be_filled_keeps_no_text_waiting(client: APIClient, remote: EmbeddingsServer) -> None:
    remember(client, "Likes green tea")
    space = EmbeddingSpace.objects.create(
        provider="azure", model="another", dimension=8, state="filling", cosine_low=0, cosine_high=1, vector_weight=0.5
    )
    remember(client, "Likes black tea")
    run_jobs()
    remember(client, "Likes white tea")
    run_jobs()

    assert MemoryIndex.objects.filter(space=space, vector=None).count() == 2
    assert not MemoryIndex.objects.exclude(space=space).filter(vector=None).exists()
    assert set(Job.objects.filter(kind="embed").values_list("state", flat=True)) == {"done"}


def test_a_refused_text_costs_no_other_its_vector(client: APIClient, remote: EmbeddingsServer) -> None:
    remember(client, *[f"Fact {number}" for number in range(7)], "Poison", "Fact 8")
    remote.will(*[refusing("Poison")] * 20)
    run_jobs()

    assert list(MemoryIndex.objects.filter(vector=None).values_list("memory__content", flat=True)) == ["Poison"]
    assert the_job().state == "failed"
    assert "refused 1 texts" in the_job().error
    asked = len(remote.received)
    remember(client, "Fact 9")
    enqueue("embed_missing")
    run_jobs()
    assert len(remote.received) == asked + 1, "what was refused is not sent again"
    assert Job.objects.filter(state="failed").count() == 1


def test_a_long_embedding_stands_in_line_again(
    client: APIClient, remote: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memoryhub.embeddings.jobs.BATCH", 2)
    monkeypatch.setattr("memoryhub.embeddings.jobs.SLICE_SECONDS", 0.3)
    remember(client, *[f"Fact {number}" for number in range(8)])

    def slowly(handler: Any, received: Any) -> None:
        time.sleep(0.2)
        answered(handler, received)

    remote.will(*[slowly] * 20)
    run_jobs()

    assert unembedded() == 0
    assert Job.objects.count() > 1
    assert set(Job.objects.values_list("state", flat=True)) == {"done"}


def test_whatever_has_no_vector_is_found_and_embedded(client: APIClient, remote: EmbeddingsServer) -> None:
    remember(client, "Likes green tea")
    Job.objects.all().delete()
    enqueue("embed_missing")
    run_jobs()

    assert unembedded() == 0
    assert dict(Job.objects.values_list("kind", "state")) == {"embed_missing": "done", "embed": "done"}


def test_an_edit_while_the_embedder_is_asked_waits_again(client: APIClient, remote: EmbeddingsServer) -> None:
    """The vector of the former text must not stand beside the new one."""
    remember(client, "Likes green tea")
    memory = client.get(f"{API}/memories", WHO).data["results"][0]

    def edit(handler: Any, received: Any) -> None:
        client.patch(f"{API}/memories/{memory['id']}", {"content": "Likes black tea"})
        connection.close()  # this thread's own
        answered(handler, received)

    remote.will(edit)
    run_jobs()

    asked_for = [text for request in remote.received for text in request.body["input"]]
    assert [text for text in asked_for if text not in PROBE_TEXTS] == ["Likes green tea", "Likes black tea"]
    assert unembedded() == 0
    assert set(Job.objects.values_list("state", flat=True)) == {"done"}
