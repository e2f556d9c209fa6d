"""The registry gives one instance per process, of what is configured."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from django.utils.module_loading import import_string

from memoryhub.embeddings import registry
from memoryhub.embeddings.base import EmbeddingProvider
from memoryhub.embeddings.config import EMBEDDING_PROVIDERS, EmbeddingConfig
from memoryhub.llm import client
from memoryhub.llm.config import LLM_PROVIDERS, LLMConfig
from memoryhub.llm.errors import ProviderMisconfigured, ProviderUnavailable
from memoryhub.llm.types import ChatMessage, CompletionRequest, LLMProvider, Operation

REQUEST = CompletionRequest(Operation.CHAT, (ChatMessage("user", "secret words"),), 100, 10.0)
OPENAI = EmbeddingConfig("openai", api_key="k", base_url="http://127.0.0.1:9/v1", model="small", dimension=8)


@pytest.fixture(autouse=True)
def fresh_registry(settings: Any) -> Any:
    """Start and end every test with no instance made; pytest-django restores the settings."""
    settings.EMBEDDING, settings.LLM = EmbeddingConfig(), LLMConfig()
    registry.reset()
    yield
    registry.reset()


@pytest.mark.parametrize(("name", "path"), EMBEDDING_PROVIDERS.items())
def test_every_embedding_path_leads_to_a_provider_of_that_name(name: str, path: str) -> None:
    provider = import_string(path)

    assert issubclass(provider, EmbeddingProvider)
    assert provider.name == name


@pytest.mark.parametrize("path", LLM_PROVIDERS.values())
def test_every_language_model_path_leads_to_a_provider(path: str) -> None:
    assert issubclass(import_string(path), LLMProvider)


def test_all_threads_share_one_provider() -> None:
    with ThreadPoolExecutor(8) as pool:
        providers = list(pool.map(lambda _: registry.embedding_provider(), range(16)))

    assert len({id(provider) for provider in providers}) == 1
    assert providers[0].name == "hashing"


def test_reset_takes_up_new_settings(settings: Any) -> None:
    first = registry.embedding_provider()

    settings.EMBEDDING = EmbeddingConfig(dimension=512)
    registry.reset()

    assert (first.dimension, registry.embedding_provider().dimension) == (384, 512)


def test_the_configured_space_is_served_by_the_configured_provider() -> None:
    provider = registry.embedding_provider()

    assert registry.provider_for("hashing", provider.model, 384) is provider


def test_another_space_of_the_configured_vendor_can_be_had(settings: Any) -> None:
    settings.EMBEDDING = OPENAI

    provider = registry.provider_for("openai", "large", 16)

    assert (provider.name, provider.model, provider.dimension) == ("openai", "large", 16)
    assert registry.provider_for("openai", "large", 16) is provider
    provider.close()  # type: ignore[attr-defined]
    registry.embedding_provider().close()  # type: ignore[attr-defined]


def test_the_hashing_space_can_always_be_had(settings: Any) -> None:
    settings.EMBEDDING = OPENAI

    assert registry.provider_for("hashing", "ngrams-1", 384).name == "hashing"


@pytest.mark.parametrize(
    "space", [("hashing", "ngrams-0", 384), ("azure", "text-embedding-3-small", 1536), ("unheard", "of", 3)]
)
def test_a_space_without_a_provider_is_misconfigured(space: tuple[str, str, int]) -> None:
    with pytest.raises(ProviderMisconfigured, match=space[1]) as caught:
        registry.provider_for(*space)
    assert caught.value.permanent


def test_without_a_model_every_operation_says_what_is_missing() -> None:
    for operation in Operation:
        with pytest.raises(ProviderUnavailable, match="ANTHROPIC_API_KEY") as caught:
            client.llm_provider().complete(replace(REQUEST, operation=operation))
        assert (caught.value.permanent, caught.value.code) == (True, "not_configured")


@pytest.mark.parametrize("name", ["anthropic", "openai"])
def test_a_vendor_is_built_without_asking_it_anything(settings: Any, name: str) -> None:
    settings.LLM = LLMConfig(name, api_key="k")

    provider = client.llm_provider()

    assert (provider.name, bool(provider.model_for(Operation.CHAT))) == (name, True)


def test_no_text_of_a_user_shows_in_the_repr_of_a_request() -> None:
    assert "secret words" not in repr(REQUEST)


def test_a_forked_worker_starts_with_providers_of_its_own() -> None:
    before = registry.embedding_provider()

    with registry._lock:  # as another thread may hold it at the moment of the fork
        registry._reset_after_fork()

    assert registry.embedding_provider() is not before
