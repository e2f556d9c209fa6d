"""Changing the embedding model while searches go on (SPEC A5), and an embedder that is away (SPEC M4, X10)."""

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from rest_framework.test import APIClient

from conversations.models import MessageIndex
from memoryhub.doctor import embeddings
from memoryhub.embeddings import registry
from memoryhub.embeddings.config import EmbeddingConfig
from memoryhub.search.models import EmbeddingSpace
from strength.models import MemoryIndex
from tests.fakes.embeddings_server import EmbeddingsServer, status

API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}
pytestmark = pytest.mark.django_db(transaction=True)
Configure = Callable[[EmbeddingsServer], None]


@pytest.fixture
def use_remote(settings: Any) -> Configure:
    """Return what makes the fake server the configured embedder."""

    def configure(server: EmbeddingsServer) -> None:
        settings.EMBEDDING = EmbeddingConfig(
            provider="openai",
            model="text-embedding-3-small",
            dimension=server.dimension,
            base_url=server.base_url,
            api_key=server.key,
        )
        registry.reset()

    return configure


def remember(client: APIClient, count: int) -> None:
    for number in range(count):
        answer = client.post(f"{API}/memories", {**WHO, "content": f"Fact number {number} about green tea."})
        assert answer.status_code == 201, answer.content
    session = client.post(f"{API}/sessions", WHO).data["id"]
    client.post(f"{API}/sessions/{session}/messages", {"role": "user", "content": "I like tea"})


def search(client: APIClient) -> dict[str, Any]:
    answer = client.post(f"{API}/memories/search", {**WHO, "query": "green tea fact number 2"})
    assert answer.status_code == 200, answer.content
    data: dict[str, Any] = answer.data
    return data


def reembed(*options: str) -> str:
    out = StringIO()
    call_command("reembed", *options, stdout=out, stderr=StringIO())
    return out.getvalue()


def test_reembed_fills_switches_and_tidies(
    client: APIClient, embeddings_server: EmbeddingsServer, use_remote: Configure
) -> None:
    remember(client, 5)
    former = EmbeddingSpace.objects.get(state="active")
    use_remote(embeddings_server)
    assert search(client)["degraded"] == []
    assert not embeddings_server.received, "before the switch, searches use the former space"
    assert "6 texts to embed" in reembed("--dry-run")
    assert EmbeddingSpace.objects.count() == 1, "a dry run changes nothing"
    assert "Embedded 6 texts" in reembed("--batch-size", "2")
    active = EmbeddingSpace.objects.get(state="active")
    assert (active.provider, active.dimension) == ("openai", embeddings_server.dimension)
    assert MemoryIndex.objects.filter(space=active, vector__isnull=False).count() == 5
    assert MessageIndex.objects.filter(space=active, vector__isnull=False).count() == 1
    assert not MemoryIndex.objects.filter(space=former).exists()
    asked = len(embeddings_server.received)
    assert search(client)["degraded"] == []
    assert len(embeddings_server.received) == asked + 1, "after the switch, the query is embedded by the new model"
    assert "Embedded 0 texts" in reembed()


def test_reembed_goes_on_where_it_stopped(
    client: APIClient, embeddings_server: EmbeddingsServer, use_remote: Configure
) -> None:
    remember(client, 5)
    use_remote(embeddings_server)
    embeddings_server.will(*[status(400)])
    with pytest.raises(CommandError, match="run the command again"):
        reembed("--batch-size", "2")
    assert EmbeddingSpace.objects.get(state="active").provider == "hashing", "not switched half-way"
    client.post(f"{API}/memories", {**WHO, "content": "Written while the new space is filling."})
    assert "searches read openai" in reembed("--batch-size", "2", "--keep-old")
    active = EmbeddingSpace.objects.get(state="active")
    assert MemoryIndex.objects.filter(space=active, vector=None).count() == 0
    assert MemoryIndex.objects.filter(space=active).count() == 6
    assert MemoryIndex.objects.exclude(space=active).count() == 6, "kept"


@pytest.mark.parametrize("options", [(), ("--keep-old",)])
def test_a_change_that_was_given_up_leaves_no_space_that_writes_go_to(
    client: APIClient,
    embeddings_server: EmbeddingsServer,
    use_remote: Configure,
    settings: Any,
    options: tuple[str, ...],
) -> None:
    remember(client, 2)
    former = settings.EMBEDDING
    use_remote(embeddings_server)
    embeddings_server.will(*[status(400)])
    with pytest.raises(CommandError, match="run the command again"):
        reembed()
    settings.EMBEDDING = former
    registry.reset()
    assert [each.detail for each in embeddings() if "not configured any more" in each.detail]

    reembed(*options)

    assert not EmbeddingSpace.objects.filter(state="filling").exists()
    assert MessageIndex.objects.exclude(space__state="active").exists() == bool(options)
    assert not [each.detail for each in embeddings() if "not configured any more" in each.detail]


def test_what_is_written_while_the_embedder_is_away_is_found_by_words(
    client: APIClient, embeddings_server: EmbeddingsServer, use_remote: Configure
) -> None:
    use_remote(embeddings_server)
    embeddings_server.will(*[status(500)] * 40)
    remember(client, 2)
    assert MemoryIndex.objects.filter(vector=None).count() == 2
    found = search(client)
    assert found["degraded"] == ["embedder"]
    assert len(found["results"]) == 2
    context = client.post(f"{API}/context", {**WHO, "message": "green tea"})
    assert context.status_code == 200
    assert "embedder" in context.data["metadata"]["degraded"]
    assert context.data["metadata"]["semantic_memory_count"] == 2


def test_batch_size_must_be_positive() -> None:
    with pytest.raises(CommandError, match="1 or more"):
        reembed("--batch-size", "0")
