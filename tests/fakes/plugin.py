"""Fixtures that start the fakes; a `conftest.py` imports what its tests need."""

from collections.abc import Iterator

import pytest
from pytest_django.fixtures import Settings

from memoryhub.embeddings import registry
from memoryhub.llm.config import LLMConfig
from tests.fakes.embeddings_server import EmbeddingsServer
from tests.fakes.llm_server import LLMServer


@pytest.fixture
def embeddings_server() -> Iterator[EmbeddingsServer]:
    """A fresh embeddings server on loopback, closed after the test."""
    with EmbeddingsServer() as server:
        yield server


@pytest.fixture
def llm_server() -> Iterator[LLMServer]:
    """A fresh language model server on loopback, closed after the test."""
    with LLMServer() as server:
        yield server


@pytest.fixture
def llm(llm_server: LLMServer, settings: Settings) -> Iterator[LLMServer]:
    """The same server, configured as this installation's language model."""
    registry.reset()
    settings.LLM = LLMConfig("anthropic", base_url=llm_server.url, api_key=llm_server.key)
    yield llm_server
    registry.reset()
