"""The providers of these tests: servers on loopback, asked again without a pause where they fail."""

import pytest

from tests.fakes.plugin import embeddings_server, llm, llm_server

__all__ = ["embeddings_server", "llm", "llm_server"]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoryhub.llm.retry.FIRST_PAUSE_SECONDS", 0.01)
