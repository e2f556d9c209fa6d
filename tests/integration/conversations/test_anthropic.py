"""Anthropic's Messages by Anthropic's SDK, and requests as Claude Code sends them (ADR 51)."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest
from pytest_django.fixtures import Settings

from conversations.models import Message
from memoryhub.llm.client import llm_provider
from memoryhub.llm.config import LLMConfig
from tests.conftest import client_with_key
from tests.fakes.llm_server import LLMServer, Reply
from tests.integration.conversations.test_openai import API, SHAPE, key_of, said
from tests.serving import Web

TOOL: Any = {"name": "search", "description": "Find.", "input_schema": {"type": "object", "properties": {}}}
NAMES: Any = {"model": "kana", "max_tokens": 500, "metadata": {"user_id": "hiroki"}}


@pytest.fixture
def claude(web: Web) -> Iterator[anthropic.Anthropic]:
    headers = {"X-Memoryhub-Create-Agent": "yes"}
    with anthropic.Anthropic(base_url=f"{web.url}{API}/anthropic", api_key=key_of(), default_headers=headers) as client:
        yield client


def contents() -> list[str]:
    return [each.content for each in Message.objects.order_by("created_at", "seq")]


def test_a_message_is_answered_with_memory_and_stored(claude: anthropic.Anthropic, llm: LLMServer) -> None:
    names = {"agent_id": "kana", "user_id": "hiroki"}
    client_with_key().post(f"{API}/memories", {**names, "content": "likes green tea", "kind": "preference"})
    llm.answer(Reply("Green tea.", input_tokens=20, output_tokens=4))
    system: Any = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    messages: Any = [{"role": "user", "content": [{"type": "text", "text": "What tea do I like?"}]}]
    answer = claude.messages.create(messages=messages, system=system, **NAMES)
    [block] = answer.content
    assert (block.type, getattr(block, "text", ""), answer.stop_reason) == ("text", "Green tea.", "end_turn")
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.model) == (20, 4, "kana")
    assert "likes green tea" in llm.asked[0].text and "Be brief." in llm.asked[0].system
    again = [*messages, {"role": "assistant", "content": answer.content}, {"role": "user", "content": "And cake?"}]
    claude.messages.create(messages=again, **NAMES)
    assert contents()[:3] == ["What tea do I like?", "Green tea.", "And cake?"] and len(contents()) == 4
    assert [model.id for model in claude.models.list()] == ["kana"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("vendor", ["anthropic", "openai"])
def test_tools_are_called_and_answered(
    vendor: str, stream: bool, claude: anthropic.Anthropic, llm: LLMServer, settings: Settings
) -> None:
    if vendor == "openai":
        settings.LLM = LLMConfig("openai", base_url=llm.base_url, api_key=llm.key)
        llm_provider.cache_clear()
    llm.then(Reply("I look.", calls=[("c1", "search", {"to": "京都"})]), Reply("Three flights."))
    messages: list[Any] = [said("user", "Flights to Kyoto?")]
    if stream:
        with claude.messages.stream(messages=messages, tools=[TOOL], **NAMES) as events:
            answer = events.get_final_message()
    else:
        answer = claude.messages.create(messages=messages, tools=[TOOL], **NAMES)
    assert answer.stop_reason == "tool_use" and [each.type for each in answer.content] == ["text", "tool_use"]
    call: Any = answer.content[-1]
    assert (call.id, call.name, call.input) == ("c1", "search", {"to": "京都"})
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "one, two, three"}]}
    note = {"type": "text", "text": "<system-reminder>The list of tasks is empty.</system-reminder>"}
    messages += [
        {"role": "assistant", "content": [each.model_dump() for each in answer.content]},
        {"role": "user", "content": [result, note]},
    ]
    claude.messages.create(messages=messages, tools=[TOOL], **NAMES)
    sent = json.dumps(llm.asked[1].messages)
    assert "one, two, three" in sent and "list of tasks" in sent and "(no result)" not in sent
    roles = [each.role for each in Message.objects.order_by("seq")]
    assert roles == ["user", "assistant", "tool", "assistant"] and "list of tasks" not in str(contents())


def test_a_stream_and_its_failure_are_the_sdks(claude: anthropic.Anthropic, llm: LLMServer) -> None:
    llm.answer(Reply("Green tea, 緑茶。", pieces=["Green ", "tea, ", "緑茶。"], input_tokens=9, output_tokens=3))
    with claude.messages.stream(messages=[said("user", "Which tea?")], **NAMES) as events:  # type: ignore[list-item]
        assert list(events.text_stream) == ["Green ", "tea, ", "緑茶。"]
        final = events.get_final_message()
    assert (final.stop_reason, final.usage.output_tokens) == ("end_turn", 3)
    llm.answer(Reply("Half an answer that is long enough to be cut", failure="cut_stream"))
    with (
        pytest.raises(anthropic.APIError, match="provider"),
        claude.messages.stream(messages=[said("user", "And?")], **NAMES) as events,  # type: ignore[list-item]
    ):
        events.get_final_message()


def test_a_wrong_user_is_named_as_anthropics_field(claude: anthropic.Anthropic, llm: LLMServer) -> None:
    wrong: Any = {**NAMES, "metadata": {"user_id": "x" * 300}}
    with pytest.raises(anthropic.BadRequestError, match=r"metadata\.user_id"):
        claude.messages.create(messages=[{"role": "user", "content": "Tea?"}], **wrong)


def test_requests_of_claude_code_are_one_session(web: Web, llm: LLMServer) -> None:
    """As recorded: a query in the address, tags around notes, a session in the user's id, fields of later versions."""
    llm.answer(lambda asked: Reply(f"Done {len(llm.asked)}."))
    key = key_of(user_id="hiroki")
    client_with_key().post(f"{API}/agents", {"agent_id": "kana"})
    note = {"type": "text", "text": "<system-reminder>\nAs you answer, use CLAUDE.md: tabs.\n</system-reminder>"}
    first = {"role": "user", "content": [note, {"type": "text", "text": "Mend the parser."}]}
    session = "session_0f5b3a4e-9f0e-4a67-8f2e-2f1f0b8f7c11"
    messages: list[Any] = [first]
    for question in ("And its tests?", "Commit."):
        body = {
            "model": "kana", "max_tokens": 32_000, "stream": False, "messages": messages,
            "system": [{"type": "text", "text": "You are an agent."}],
            "tools": [{**TOOL, "cache_control": {"type": "ephemeral"}}],
            "thinking": {"type": "adaptive"}, "context_management": {"edits": []},
            "metadata": {"user_id": f"user_ab_account__{session}"}, "output_config": {"effort": "high"},
        }  # fmt: skip
        answer = httpx2.post(
            f"{web.url}{API}/anthropic/v1/messages?beta=true", json=body, headers={"x-api-key": key}, timeout=60
        )
        assert answer.status_code == 200, answer.text
        messages += [
            {"role": "assistant", "content": answer.json()["content"]},
            {"role": "user", "content": [{"type": "text", "text": question, "cache_control": {"type": "ephemeral"}}]},
        ]
    assert "CLAUDE.md" in str(llm.asked[-1].messages) and llm.asked[-1].body["output_config"] == {"effort": "high"}
    assert contents() == ["Mend the parser.", "Done 1.", "And its tests?", "Done 2."]
    assert Message.objects.values("session").distinct().count() == 1


def test_errors_have_anthropics_form(web: Web, claude: anthropic.Anthropic, llm: LLMServer) -> None:
    for values, text in (
        ({"max_tokens": 0}, "max_tokens"),
        ({"tool_choice": {"type": "tool", "name": "book"}, "tools": [TOOL]}, "Describe the tool"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools.0"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "schema"),
        ({"messages": [{"role": "nobody", "content": "hi"}]}, "messages.0.role"),
    ):
        with pytest.raises(anthropic.BadRequestError, match=text) as refused:
            claude.messages.create(**{**NAMES, "messages": [said("user", "hi")], **values})
        assert refused.value.type == "invalid_request_error"
    with (
        anthropic.Anthropic(base_url=f"{web.url}{API}/anthropic", api_key="mh_wrong") as stranger,
        pytest.raises(anthropic.AuthenticationError),
    ):
        stranger.messages.create(**NAMES, messages=[{"role": "user", "content": "hi"}])
    assert not Message.objects.exists() and not llm.asked
    claude.messages.create(
        **NAMES,
        messages=[{"role": "user", "content": "hi"}],
        output_config={"format": {"type": "json_schema", "schema": SHAPE}},
    )
    assert llm.asked[0].schema == SHAPE


def test_tokens_are_counted_without_storing(claude: anthropic.Anthropic, llm: LLMServer) -> None:
    client_with_key().post(f"{API}/agents", {"agent_id": "kana"})
    short = claude.messages.count_tokens(model="kana", messages=[{"role": "user", "content": "hi"}])
    long = claude.messages.count_tokens(
        model="kana", system="Be brief. " * 50, tools=[TOOL], messages=[{"role": "user", "content": "tea " * 200}]
    )
    assert 1 <= short.input_tokens < 20 and 350 < long.input_tokens < 700
    assert not Message.objects.exists() and not llm.asked


def test_a_call_without_a_user_names_the_field_of_this_api(claude: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match=r"send `metadata\.user_id`, or the header `X-User-Id`"):
        claude.messages.create(model="kana", max_tokens=500, messages=[{"role": "user", "content": "Hi"}])
