"""Spaces are measured when they are made or filled, and searches and the doctor go by what was measured."""

from io import StringIO
from typing import Any

import numpy as np
import pytest
from django.core.management import call_command
from rest_framework.test import APIClient

from memoryhub.doctor import Level, embeddings
from memoryhub.embeddings import local, registry
from memoryhub.embeddings.base import Vectors
from memoryhub.embeddings.calibration import PROBE_TEXTS, UNMEASURED
from memoryhub.embeddings.config import EmbeddingConfig
from memoryhub.embeddings.local import LocalProvider
from memoryhub.embeddings.spaces import active_space, calibrate_when_due, text_query
from memoryhub.jobs.queue import enqueue
from memoryhub.search.fusion import SpaceBounds
from memoryhub.search.models import SPACED, UNSPACED, EmbeddingSpace
from tests.conftest import run_jobs
from tests.fakes.embeddings_server import EmbeddingsServer, status

API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def remote(settings: Any, embeddings_server: EmbeddingsServer) -> EmbeddingsServer:
    settings.EMBEDDING = EmbeddingConfig(
        provider="openai",
        model="somebody/english-only",
        dimension=embeddings_server.dimension,
        base_url=embeddings_server.base_url,
        api_key=embeddings_server.key,
    )
    registry.reset()
    embeddings_server.knows = {SPACED}
    return embeddings_server


def remember(client: APIClient, content: str) -> None:
    assert client.post(f"{API}/memories", {**WHO, "content": content}).status_code == 201


def asked_for_probes(server: EmbeddingsServer) -> int:
    return sum(text in PROBE_TEXTS for request in server.received for text in request.body["input"])


def diagnosis() -> list[tuple[Level, str]]:
    return [(each.level, each.detail) for each in embeddings() if each.subject == "calibration"]


def test_a_search_measures_nothing_and_the_first_embedding_does(client: APIClient, remote: EmbeddingsServer) -> None:
    remember(client, "Likes green tea")
    assert client.post(f"{API}/memories/search", {**WHO, "query": "tea"}).status_code == 200
    assert asked_for_probes(remote) == 0
    assert active_space().bounds == active_space().bounds_for(is_unspaced=True) == UNMEASURED
    assert [level for level, _ in diagnosis()] == [Level.WARNING]

    run_jobs()
    remember(client, "Likes black tea")
    run_jobs()

    assert asked_for_probes(remote) == len(PROBE_TEXTS), "once"
    assert active_space().bounds != UNMEASURED


def test_queries_are_read_by_the_bounds_of_their_script(client: APIClient, remote: EmbeddingsServer) -> None:
    remember(client, "Likes green tea")
    run_jobs()
    space = active_space()

    english, japanese, both = (text_query(text).bounds for text in ("tea", "お茶", "Tea? お茶も"))
    assert english == space.bounds
    assert english.vector_weight == 0.3
    assert japanese == both != english
    assert japanese.vector_weight == 0, "the model puts all of it close together"


def test_the_doctor_names_what_a_model_does_not_know(client: APIClient, remote: EmbeddingsServer) -> None:
    remember(client, "Likes green tea")
    run_jobs()

    (known, english), (unknown, japanese), (_, both) = diagnosis()
    assert (known, unknown) == (Level.FINE, Level.WARNING)
    assert english.startswith("English") and "100% of paraphrases" in english and "(weight 0.3)" in english
    assert japanese.startswith("Japanese") and "words alone" in japanese
    assert both.startswith("English beside Japanese")


def test_the_doctor_says_that_hashing_is_tuned() -> None:
    ((level, detail),) = diagnosis()
    assert level is Level.FINE
    assert "tuned" in detail


def test_a_failed_measurement_is_made_up_for_by_the_hourly_job(client: APIClient, remote: EmbeddingsServer) -> None:
    space = active_space()
    remote.will(status(400))
    enqueue("embed_missing")
    run_jobs()
    assert active_space().calibration == {}

    enqueue("embed_missing")
    run_jobs()
    assert active_space().calibration[SPACED]["found"] == 1
    assert asked_for_probes(remote) > 0
    space.refresh_from_db()
    assert space.bounds == SpaceBounds(
        *(space.calibration[SPACED][name] for name in ("cosine_low", "cosine_high", "vector_weight"))
    )


def test_a_space_is_measured_again_when_it_has_grown_tenfold(client: APIClient, remote: EmbeddingsServer) -> None:
    for number in range(3):
        remember(client, f"Fact {number} about green tea")
    run_jobs()
    asked = asked_for_probes(remote)
    space = active_space()

    calibrate_when_due(space, again=True)
    assert asked_for_probes(remote) == asked
    EmbeddingSpace.objects.update(calibration={**space.calibration, "texts": -1})
    remote.knows = {SPACED, UNSPACED}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memoryhub.embeddings.spaces.SAMPLE_SIZE", 0)
        calibrate_when_due(active_space(), again=True)

    assert asked_for_probes(remote) == 2 * asked
    assert text_query("お茶").bounds.vector_weight == 0.3


def test_reembed_measures_before_it_switches(client: APIClient, remote: EmbeddingsServer, settings: Any) -> None:
    remember(client, "Likes green tea")
    run_jobs()
    remote.knows = set()
    call_command("reembed", stdout=StringIO(), stderr=StringIO())

    assert active_space().bounds.vector_weight == 0


class Local(LocalProvider):
    """Knows nothing; stands for a model in this process."""

    name = "fastembed"

    @classmethod
    def from_config(cls, config: EmbeddingConfig) -> "Local":
        return cls(None, model="nobody/knows", dimension=4, tokens_per_text=128)

    def _encode(self, texts: list[str]) -> Vectors:
        return np.ones((len(texts), 4), dtype=np.float32)


def test_a_local_model_is_measured_when_its_space_is_made(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "FastEmbedProvider", Local)
    settings.EMBEDDING = EmbeddingConfig(provider="fastembed")
    registry.reset()

    assert active_space().calibration["texts"] == 0
    assert active_space().bounds.vector_weight == active_space().bounds_for(is_unspaced=True).vector_weight == 0
