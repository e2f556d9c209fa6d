"""Context windows as servers report them, over HTTP, and requests that are kept within them (SPEC A6)."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from memoryhub.auth.access import ensure_actor
from memoryhub.llm.client import complete, complete_in_halves, material_limit
from memoryhub.llm.config import LLMConfig
from memoryhub.llm.errors import PromptTooLong
from memoryhub.llm.openai import OpenAIProvider
from memoryhub.llm.types import ChatMessage, CompletionRequest, Operation
from memoryhub.llm.windows import OLLAMA_WINDOW, reported_window
from memoryhub.tenancy.models import Actor, Agent
from tests.fakes.llm_server import LLMServer

OLLAMA_MODEL = {"parameters": 'stop "<end>"\nnum_ctx                        8192\ntemperature 0.6'}
SERVERS: dict[str, tuple[Mapping[str, Any], int | None]] = {
    "llama.cpp": ({"/props": {"default_generation_settings": {"n_ctx": 16_384}}}, 16_384),
    "Ollama, loaded": ({"/api/ps": {"models": [{"name": "m", "context_length": 12_000}]}}, 12_000),
    "Ollama, of the model's file": ({"/api/ps": {"models": []}, "/api/show": OLLAMA_MODEL}, 8_192),
    "Ollama, another model loaded": ({"/api/ps": {"models": [{"name": "n", "context_length": 9_000}]}}, OLLAMA_WINDOW),
    "LM Studio": ({"/api/v0/models": {"data": [{"id": "m", "loaded_context_length": 7_000}]}}, 7_000),
    "LM Studio, not loaded": ({"/api/v0/models": {"data": [{"id": "m", "state": "not-loaded"}]}}, None),
    "vLLM": ({"/v1/models": {"data": [{"id": "n", "max_model_len": 1}, {"id": "m", "max_model_len": 32_768}]}}, 32_768),
    "a gateway": ({"/v1/models": {"data": [{"id": "m", "context_length": 65_536}]}}, 65_536),
    "none that says it": ({}, None),
    "odd values": ({"/props": {"default_generation_settings": {"n_ctx": True}}, "/api/ps": {"models": "x"}}, None),
}


@pytest.mark.parametrize("name", SERVERS)
def test_each_server_is_asked_in_its_own_way(llm_server: LLMServer, name: str) -> None:
    llm_server.documents, window = dict(SERVERS[name][0]), SERVERS[name][1]

    assert reported_window(llm_server.base_url, "m", api_key=llm_server.key) == window


def test_a_server_that_is_away_reports_nothing() -> None:
    assert reported_window("http://127.0.0.1:9/v1", "m", api_key=None) is None


def test_a_setting_comes_first_and_what_is_reported_is_kept_for_ten_minutes(llm_server: LLMServer) -> None:
    llm_server.documents = {"/props": {"default_generation_settings": {"n_ctx": 16_384}}}
    config = LLMConfig("openai", "m", base_url=llm_server.base_url, windows=MappingProxyType({Operation.CHAT: 5_000}))
    provider = OpenAIProvider(config)

    assert [provider.context_window(each) for each in (Operation.CHAT, Operation.JUDGE)] == [5_000, 16_384]
    llm_server.documents = {}
    assert provider.context_window(Operation.JUDGE) == 16_384


@pytest.fixture
def actor(db: None) -> Actor:
    return ensure_actor(Agent.objects.create(agent_id="kana"), "hiroki")


@pytest.fixture
def small(llm: LLMServer, settings: Any) -> LLMServer:
    """A server whose model has a small window."""
    settings.LLM = replace(settings.LLM, windows=MappingProxyType(dict.fromkeys(Operation, 2_000)))
    return llm


def asked(words: int, most: int = 4_000) -> CompletionRequest:
    message = ChatMessage("user", " word" * words)
    return CompletionRequest(Operation.EXTRACT, (message,), max_output_tokens=most, deadline_seconds=10.0)


def test_an_answer_gets_what_the_prompt_leaves(small: LLMServer, actor: Actor) -> None:
    complete(asked(words=200), actor=actor)
    complete(asked(words=200, most=300), actor=actor)

    assert 500 <= (small.asked[0].max_tokens or 0) < 1_800
    assert small.asked[1].max_tokens == 300


def test_a_prompt_beyond_the_window_is_not_sent_and_the_error_says_what_to_set(small: LLMServer, actor: Actor) -> None:
    with pytest.raises(PromptTooLong, match=r"OLLAMA_CONTEXT_LENGTH.*MEMORYHUB_LLM_CONTEXT_WINDOW_EXTRACT") as caught:
        complete(asked(words=1_900), actor=actor)

    assert (caught.value.code, caught.value.permanent, small.asked) == ("context_window", True, [])


def test_a_batch_beyond_the_window_is_halved_until_it_fits(small: LLMServer, actor: Actor) -> None:
    read, answer, error = complete_in_halves(
        range(8), lambda items: complete(asked(words=300 * len(items)), actor=actor), bad_attempts=0
    )

    assert (len(read), error, len(small.asked)) == (2, None, 1)
    assert answer is not None


def test_material_of_background_calls_is_a_quarter_of_a_small_window(small: LLMServer) -> None:
    assert material_limit(Operation.COMPACT, 12_000) == 500
    assert material_limit(Operation.COMPACT, 400) == 400


def test_without_a_known_window_nothing_is_shortened(llm: LLMServer) -> None:
    assert material_limit(Operation.COMPACT, 12_000) == 12_000
