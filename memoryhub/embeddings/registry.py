"""The process's embedding providers: one instance for each configuration, closed and forgotten at a fork."""

import os
import threading
from dataclasses import replace
from functools import cache
from typing import cast

from django.conf import settings
from django.utils.module_loading import import_string

from memoryhub.embeddings.base import EmbeddingProvider
from memoryhub.embeddings.config import EMBEDDING_PROVIDERS, EmbeddingConfig
from memoryhub.errors import stored_text
from memoryhub.llm.client import llm_provider
from memoryhub.llm.errors import ProviderMisconfigured

KEYLESS_PROVIDERS = EMBEDDING_PROVIDERS.keys() - {"openai", "azure"}
"""Providers that any installation can build from a model name and a dimension."""

_lock = threading.Lock()
_opened: list[EmbeddingProvider] = []


def embedding_provider() -> EmbeddingProvider:
    """Return this process's embedding provider. Raises ProviderMisconfigured when it cannot be built."""
    with _lock:  # a local model must not be loaded twice by two threads
        return _embedding_provider()


def provider_for(name: str, model: str, dimension: int) -> EmbeddingProvider:
    """Return the provider that fills one embedding space, which need not be the configured one.

    While a new space is being filled, searches go on in the old one: another model of the configured vendor
    and every provider that needs no address and no key can be had. Another vendor cannot: its address and key
    are not configured, and ours must not be sent there. Never asks the network. Raises ProviderMisconfigured.
    """
    with _lock:
        return _provider_for(name, model, dimension)


def reset() -> None:
    """Close and forget the instances, so that tests can change the settings."""
    with _lock:
        while _opened:
            _opened.pop().close()
        _embedding_provider.cache_clear()
        _provider_for.cache_clear()
        llm_provider.cache_clear()


def _reset_after_fork() -> None:
    """In a forked worker: share no connection with the parent, and no lock that was held at the fork."""
    global _lock
    _lock = threading.Lock()
    _opened.clear()  # the parent process closes its connections
    reset()


os.register_at_fork(after_in_child=_reset_after_fork)


@cache
def _embedding_provider() -> EmbeddingProvider:
    config: EmbeddingConfig = settings.EMBEDDING
    return _build(config)


def _build(config: EmbeddingConfig) -> EmbeddingProvider:
    kind = cast(type[EmbeddingProvider], import_string(EMBEDDING_PROVIDERS[config.provider]))
    provider = kind.from_config(config)
    _opened.append(provider)
    return provider


@cache
def _provider_for(name: str, model: str, dimension: int) -> EmbeddingProvider:
    config: EmbeddingConfig = settings.EMBEDDING
    if name == config.provider:
        configured = _embedding_provider()
        # A remote provider's dimension is known without a call only if configured.
        is_known = configured.is_local or config.dimension is not None
        if is_known and (configured.model, configured.dimension) == (model, dimension):
            return configured
        provider = _build(replace(config, model=model, dimension=dimension))
    elif name in KEYLESS_PROVIDERS:
        provider = _build(EmbeddingConfig(name, model, dimension))
    else:
        raise _not_configured(name, model, dimension)
    if (provider.model, provider.dimension) != (model, dimension):
        raise _not_configured(name, model, dimension)
    return provider


def _not_configured(name: str, model: str, dimension: int) -> ProviderMisconfigured:
    return ProviderMisconfigured(
        stored_text(
            "The embedding space {space} needs a provider that is not configured. "
            "Set MEMORYHUB_EMBEDDING_PROVIDER and what belongs to it.",
            space=f"{name}/{model}/{dimension}",
        ),
        code="not_configured",
    )
