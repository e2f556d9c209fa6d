"""The language model of these tests: a server on loopback, asked again without a pause where it fails."""

import pytest

from tests.fakes.plugin import llm, llm_server

__all__ = ["llm", "llm_server"]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoryhub.llm.retry.FIRST_PAUSE_SECONDS", 0.01)
