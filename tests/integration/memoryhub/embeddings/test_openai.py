"""The OpenAI and Azure providers against a real server: every failure is one named error."""

import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from memoryhub.embeddings.config import EmbeddingConfig
from memoryhub.embeddings.openai import AzureProvider, OpenAIProvider
from memoryhub.llm.errors import (
    BadAnswer,
    EmptyText,
    ProviderError,
    ProviderMisconfigured,
    ProviderRejected,
    ProviderTimeout,
    ProviderUnavailable,
)
from memoryhub.llm.remote import Clock
from tests.fakes import embeddings_server as fake
from tests.fakes.embeddings_server import Behaviour, EmbeddingsServer


class Providers:
    """Builds providers that talk to the server; notes pauses instead of making them."""

    def __init__(self, server: EmbeddingsServer) -> None:
        self.server = server
        self.pauses: list[float] = []
        self._built: list[OpenAIProvider] = []

    def openai(self, **settings: Any) -> OpenAIProvider:
        default = EmbeddingConfig("openai", "fake-model", None, self.server.base_url, self.server.key)
        return self._keep(OpenAIProvider, replace(default, **settings))

    def azure(self, **settings: Any) -> OpenAIProvider:
        default = EmbeddingConfig("azure", None, None, self.server.url, self.server.key, "my-embeddings")
        return self._keep(AzureProvider, replace(default, **settings))

    def _keep(self, kind: type[OpenAIProvider], config: EmbeddingConfig) -> OpenAIProvider:
        provider = kind.from_config(config, clock=Clock(sleep=self.pauses.append))
        self._built.append(provider)
        return provider

    def close(self) -> None:
        for provider in self._built:
            provider.close()


@pytest.fixture(autouse=True)
def short_pauses() -> None:
    """Leave the pauses as they are: they are noted here, not made."""


@pytest.fixture
def providers(embeddings_server: EmbeddingsServer) -> Iterator[Providers]:
    """Providers on the fake server, closed before it."""
    with closing(Providers(embeddings_server)) as built:
        yield built


def test_embed_returns_unit_vectors_in_the_order_of_the_texts(
    embeddings_server: EmbeddingsServer, providers: Providers
) -> None:
    texts = ["first", "second", "三つ目"]

    vectors = providers.openai().embed(texts)

    expected = np.array([embeddings_server.vector(text) for text in texts])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_embed_accepts_floats_in_any_order(embeddings_server: EmbeddingsServer, providers: Providers) -> None:
    provider = providers.openai()
    expected = provider.embed(["a", "b", "c"])

    embeddings_server.will(fake.as_floats)

    np.testing.assert_allclose(provider.embed(["a", "b", "c"]), expected, atol=1e-6)


def test_embed_of_nothing_is_an_empty_matrix(embeddings_server: EmbeddingsServer, providers: Providers) -> None:
    assert providers.openai(dimension=8).embed([]).shape == (0, 8)
    assert embeddings_server.received == []


def test_embed_splits_many_texts_into_requests(embeddings_server: EmbeddingsServer, providers: Providers) -> None:
    texts = [f"text {number}" for number in range(70)]

    vectors = providers.openai().embed(texts)

    assert vectors.shape == (70, 8)
    assert [len(request.body["input"]) for request in embeddings_server.received] == [32, 32, 6]


def test_embed_averages_the_pieces_of_a_long_text(embeddings_server: EmbeddingsServer, providers: Providers) -> None:
    long_text = "some words of a long story " * 1000

    vectors = providers.openai().embed(["short", long_text])

    pieces = [text for request in embeddings_server.received for text in request.body["input"]]
    assert pieces[0] == "short"
    assert len(pieces) > 2
    assert "".join(pieces[1:]) == long_text
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


def test_embed_sends_lone_surrogates_as_replacement(embeddings_server: EmbeddingsServer, providers: Providers) -> None:
    providers.openai().embed(["broken \ud800 text"])

    assert embeddings_server.received[0].body["input"] == ["broken ? text"]


def test_embed_refuses_a_blank_text_before_any_request(
    embeddings_server: EmbeddingsServer, providers: Providers
) -> None:
    with pytest.raises(EmptyText, match="Text 1"):
        providers.openai().embed(["fine", " \n"])
    assert embeddings_server.received == []


@pytest.mark.parametrize(
    ("model", "dimension", "asked"),
    [
        ("text-embedding-3-small", 8, 8),
        ("text-embedding-3-small", None, None),
        ("text-embedding-ada-002", 8, None),
        ("fake-model", 8, None),
    ],
)
def test_dimensions_are_asked_only_of_models_that_take_them(
    embeddings_server: EmbeddingsServer, providers: Providers, model: str, dimension: int | None, asked: int | None
) -> None:
    embeddings_server.dimension = dimension or 1536

    providers.openai(model=model, dimension=dimension).embed(["text"])

    assert embeddings_server.received[0].body.get("dimensions") == asked


def test_dimension_is_asked_of_the_server_once(embeddings_server: EmbeddingsServer, providers: Providers) -> None:
    provider = providers.openai()

    assert (provider.dimension, provider.dimension) == (8, 8)
    assert len(embeddings_server.received) == 1


def test_dimension_is_learned_from_the_first_answer(embeddings_server: EmbeddingsServer, providers: Providers) -> None:
    provider = providers.openai()

    provider.embed(["text"])

    assert provider.dimension == 8
    assert len(embeddings_server.received) == 1


FAILURES: list[tuple[str, Behaviour, type[ProviderError], str, bool]] = [
    ("429", fake.status(429), ProviderUnavailable, "rate_limited", False),
    ("quota", fake.status(429, error_code="insufficient_quota"), ProviderUnavailable, "quota", False),
    ("500", fake.status(500), ProviderUnavailable, "overloaded", False),
    ("529", fake.status(529), ProviderUnavailable, "overloaded", False),
    ("400", fake.status(400), ProviderRejected, "rejected", True),
    ("413", fake.status(413), ProviderRejected, "rejected", True),
    ("401", fake.status(401), ProviderMisconfigured, "unauthorized", True),
    ("404", fake.status(404), ProviderMisconfigured, "not_found", True),
    ("redirect", fake.status(302, {"Location": "/elsewhere"}), ProviderMisconfigured, "not_found", True),
    ("dropped", fake.dropped_connection, ProviderUnavailable, "connection", False),
    ("dropped in body", fake.dropped_in_body, ProviderUnavailable, "connection", False),
    ("silence", fake.silence, ProviderTimeout, "timeout", False),
    ("trickle", fake.trickle, ProviderTimeout, "timeout", False),
    ("html", fake.html, BadAnswer, "not_json", False),
    ("truncated", fake.truncated_json, BadAnswer, "not_json", False),
    ("deep", fake.body(b"[" * 200_000), BadAnswer, "not_json", False),
    ("no utf-8", fake.body(b'{"data": "\xff"}'), BadAnswer, "not_json", False),
    ("list", fake.body(b"[]"), BadAnswer, "not_embeddings", False),
    ("null data", fake.body(b'{"data": null}'), BadAnswer, "not_embeddings", False),
    ("text", fake.body(b'{"data": [{"index": 0, "embedding": ["1"]}]}'), BadAnswer, "bad_vector", False),
    ("base64", fake.body(b'{"data": [{"index": 0, "embedding": "%%"}]}'), BadAnswer, "bad_vector", False),
    ("empty", fake.body(b'{"data": [{"index": 0, "embedding": []}]}'), BadAnswer, "bad_vector", False),
    ("huge", fake.body(b'{"data": [{"embedding": [1e39]}]}'), BadAnswer, "not_finite", True),
    ("wrong index", fake.body(b'{"data": [{"index": 7, "embedding": [1]}]}'), BadAnswer, "wrong_count", False),
    ("wrong dimension", fake.wrong_dimension, BadAnswer, "wrong_dimension", True),
    ("wrong count", fake.wrong_count, BadAnswer, "wrong_count", False),
    ("nan", fake.not_finite, BadAnswer, "not_finite", True),
    ("zeros", fake.zeros, BadAnswer, "zero_vector", True),
]


@pytest.mark.parametrize(
    ("behaviour", "kind", "code", "permanent"), [pytest.param(*failure[1:], id=failure[0]) for failure in FAILURES]
)
def test_a_failure_is_a_named_error_that_says_whether_a_retry_helps(
    embeddings_server: EmbeddingsServer,
    providers: Providers,
    behaviour: Behaviour,
    kind: type[ProviderError],
    code: str,
    permanent: bool,
) -> None:
    seconds = 0.15 if code == "timeout" else 60.0  # whoever answers may be slow on a busy machine
    provider = providers.openai(dimension=8, attempt_timeout_seconds=seconds)
    embeddings_server.will(behaviour, behaviour, behaviour)

    with pytest.raises(kind) as caught:
        provider.embed(["a user's own words"])

    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.permanent) == (code, permanent)
    assert "words" not in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with EmbeddingsServer() as gone:
        provider = Providers(gone).openai()

    with pytest.raises(ProviderUnavailable) as caught:
        provider.embed(["text"])

    assert (caught.value.code, caught.value.permanent) == ("connection", False)


def test_a_transient_failure_is_retried_with_growing_pauses(
    embeddings_server: EmbeddingsServer, providers: Providers
) -> None:
    provider = providers.openai()
    embeddings_server.will(fake.status(500), fake.dropped_connection)

    assert provider.embed(["text"]).shape == (1, 8)
    assert providers.pauses == [0.5, 1.0]


def test_three_attempts_are_the_limit(embeddings_server: EmbeddingsServer, providers: Providers) -> None:
    provider = providers.openai()
    embeddings_server.will(*[fake.status(503)] * 5)

    with pytest.raises(ProviderUnavailable):
        provider.embed(["text"])
    assert len(embeddings_server.received) == 3


@pytest.mark.parametrize("behaviour", [fake.status(400), fake.status(401), fake.wrong_dimension, fake.html])
def test_what_a_retry_cannot_help_is_asked_once(
    embeddings_server: EmbeddingsServer, providers: Providers, behaviour: Behaviour
) -> None:
    provider = providers.openai(dimension=8)
    embeddings_server.will(behaviour)

    with pytest.raises(ProviderError):
        provider.embed(["text"])
    assert len(embeddings_server.received) == 1


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({"Retry-After": "2"}, 2.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"Retry-After": "soon"}, 0.5),
        ({"Retry-After": "nan"}, 0.5),
        ({"Retry-After": "-5"}, 0.5),
    ],
)
def test_retry_after_is_waited_for(
    embeddings_server: EmbeddingsServer, providers: Providers, headers: dict[str, str], pause: float
) -> None:
    provider = providers.openai()
    embeddings_server.will(fake.status(429, headers))

    provider.embed(["text"])

    assert providers.pauses == [pause]


@pytest.mark.parametrize(("asked", "told"), [("30", 30.0), ("99999999", 3600.0)])
def test_a_long_retry_after_is_handed_to_the_caller_instead_of_waited_for(
    embeddings_server: EmbeddingsServer, providers: Providers, asked: str, told: float
) -> None:
    embeddings_server.will(fake.status(429, {"Retry-After": asked}))

    with pytest.raises(ProviderUnavailable) as caught:
        providers.openai().embed(["text"])

    assert caught.value.retry_after_seconds == told
    assert providers.pauses == []


def test_probe_reports_and_never_raises(embeddings_server: EmbeddingsServer, providers: Providers) -> None:
    provider = providers.openai()
    embeddings_server.will(fake.status(500), fake.html, fake.status(401))

    reports = [provider.probe() for _ in range(4)]

    assert [is_available for is_available, _ in reports] == [False, False, False, True]
    assert "401" in reports[2][1]
    assert "8 dimensions" in reports[3][1]


def test_the_key_is_sent_and_a_server_without_keys_needs_none(
    embeddings_server: EmbeddingsServer, providers: Providers
) -> None:
    embeddings_server.key = "none"

    providers.openai(api_key=None).embed(["text"])

    assert embeddings_server.received[0].headers["authorization"] == "Bearer none"


def test_azure_uses_its_own_address_and_header(
    embeddings_server: EmbeddingsServer, providers: Providers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "a token of somebody else")
    provider = providers.azure()

    assert provider.embed(["text"]).shape == (1, 8)

    request = embeddings_server.received[0]
    assert request.path == "/openai/deployments/my-embeddings/embeddings"
    assert request.query == {"api-version": ["2024-10-21"]}
    assert request.headers["api-key"] == embeddings_server.key
    assert "authorization" not in request.headers
    assert (provider.name, provider.model) == ("azure", "my-embeddings")


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (fake.status(401), ProviderMisconfigured),
        (fake.status(404), ProviderMisconfigured),
        (fake.html, BadAnswer),
        (fake.status(400), ProviderRejected),
    ],
)
def test_azure_failures_are_the_same_errors(
    embeddings_server: EmbeddingsServer, providers: Providers, behaviour: Behaviour, kind: type[ProviderError]
) -> None:
    embeddings_server.will(behaviour)

    with pytest.raises(kind):
        providers.azure().embed(["text"])


@pytest.mark.parametrize("missing", ["base_url", "api_key", "azure_deployment"])
def test_azure_without_its_settings_is_misconfigured(
    embeddings_server: EmbeddingsServer, providers: Providers, missing: str
) -> None:
    with pytest.raises(ProviderMisconfigured):
        providers.azure(**{missing: None})


def test_no_text_and_no_key_shows_in_the_log(
    embeddings_server: EmbeddingsServer, providers: Providers, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("", "openai", "httpx2", "httpcore2"):
        caplog.set_level(logging.DEBUG, name)
    embeddings_server.will(fake.status(500), fake.status(400))

    with pytest.raises(ProviderRejected):
        providers.openai().embed(["a user's own words"])

    assert caplog.records  # the libraries do log, so this test could fail
    assert "own words" not in caplog.text
    assert embeddings_server.key not in caplog.text


def test_no_key_shows_in_the_repr() -> None:
    config = EmbeddingConfig("openai", api_key="very-secret")
    with closing(OpenAIProvider.from_config(config)) as provider:
        assert "very-secret" not in repr(config) + repr(provider)
