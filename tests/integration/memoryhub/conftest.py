"""The fakes that these tests talk to."""

from tests.fakes.plugin import embeddings_server, llm_server

__all__ = ["embeddings_server", "llm_server"]
