"""Fixtures that start the fakes; a `conftest.py` imports what its tests need."""

from collections.abc import Iterator

import pytest

from tests.fakes.embeddings_server import EmbeddingsServer


@pytest.fixture
def embeddings_server() -> Iterator[EmbeddingsServer]:
    """A fresh embeddings server on loopback, closed after the test."""
    with EmbeddingsServer() as server:
        yield server
