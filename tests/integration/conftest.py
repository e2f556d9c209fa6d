"""The providers of these tests: servers on loopback, asked again without a pause where they fail."""

import pytest

from tests.fakes.plugin import embeddings_server, llm, llm_server

__all__ = ["embeddings_server", "llm", "llm_server"]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pause for an instant; a module whose clock does not sleep overrides this, and sees the real pauses."""
    monkeypatch.setattr("memoryhub.llm.remote.FIRST_PAUSE_SECONDS", 0.01)
