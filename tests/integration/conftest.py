"""The language model of these tests: a server on loopback."""

from tests.fakes.plugin import llm, llm_server

__all__ = ["llm", "llm_server"]
