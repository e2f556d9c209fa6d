"""The doctor's words about the language model."""

from typing import Any

import pytest

from memoryhub.doctor import Finding, Level, language_model
from memoryhub.embeddings import registry
from memoryhub.llm.config import LLMConfig
from tests.fakes.llm_server import WRONG_KEY, LLMServer


def findings(settings: Any, config: LLMConfig) -> list[Finding]:
    registry.reset()
    settings.LLM = config
    return list(language_model())


def finding(settings: Any, config: LLMConfig) -> Finding:
    (found,) = findings(settings, config)
    return found


def test_without_a_model_all_is_well_and_it_says_what_that_means(settings: Any) -> None:
    found = finding(settings, LLMConfig())

    assert (found.level, found.subject) == (Level.FINE, "language model")
    assert "extracts" in found.detail


def test_a_model_that_answers_is_named(settings: Any, llm_server: LLMServer) -> None:
    config = LLMConfig("openai", "my-model", base_url=llm_server.base_url, api_key=llm_server.key)

    found, window = findings(settings, config)
    assert found == Finding(Level.FINE, "language model", "openai answers; my-model")
    assert (window.level, "MEMORYHUB_LLM_CONTEXT_WINDOW" in window.detail) == (Level.WARNING, True)
    assert llm_server.asked == []


@pytest.mark.parametrize(("size", "level"), [(32_768, Level.FINE), (4_096, Level.WARNING)])
def test_a_small_context_window_is_a_warning(settings: Any, llm_server: LLMServer, size: int, level: Level) -> None:
    llm_server.documents = {"/props": {"default_generation_settings": {"n_ctx": size}}}
    config = LLMConfig("openai", "my-model", base_url=llm_server.base_url, api_key=llm_server.key)

    _, window = findings(settings, config)

    assert (window.level, window.subject, f"{size:,}" in window.detail) == (level, "context window", True)


def test_a_wrong_key_is_a_warning_that_does_not_show_it(settings: Any, llm_server: LLMServer) -> None:
    found = finding(settings, LLMConfig("anthropic", base_url=llm_server.url, api_key=WRONG_KEY))

    assert found.level == Level.WARNING
    assert "refuses our key" in found.detail
    assert WRONG_KEY not in found.detail
