"""OpenAI's Responses by OpenAI's SDK: texts, streams, tools, continuation, structured output (ADR 51)."""

import json
from typing import Any

import openai
import pytest
from pytest_django.fixtures import Settings

from conversations.models import Message
from memoryhub.llm.client import llm_provider
from memoryhub.llm.config import LLMConfig
from tests.conftest import client_with_key
from tests.fakes.llm_server import LLMServer, Reply
from tests.integration.conversations.test_openai import API, SHAPE, echo, sdk, stored, texts_of  # noqa: F401

NAMES: Any = {"model": "kana", "user": "hiroki"}
TOOL: Any = {"type": "function", "name": "search", "parameters": {"type": "object", "properties": {}}, "strict": False}


def test_an_input_is_answered_with_memory_and_stored(sdk: openai.OpenAI, llm: LLMServer) -> None:  # noqa: F811
    names = {"agent_id": "kana", "user_id": "hiroki"}
    client_with_key().post(f"{API}/memories", {**names, "content": "likes green tea", "kind": "preference"})
    llm.answer(Reply("Green tea.", input_tokens=20, output_tokens=4))
    answer = sdk.responses.create(input="What tea do I like?", instructions="Be brief.", temperature=0.2, **NAMES)
    assert (answer.output_text, answer.status, answer.model) == ("Green tea.", "completed", "kana")
    assert answer.usage is not None and answer.usage.total_tokens == 24
    assert "likes green tea" in llm.asked[0].text and "Be brief." in llm.asked[0].system
    assert [each.content for each in Message.objects.order_by("seq")] == ["What tea do I like?", "Green tea."]


def test_references_mean_items_of_stored_answers(sdk: openai.OpenAI, llm: LLMServer) -> None:  # noqa: F811
    llm.answer(Reply("I look.", calls=[("c1", "search", {}), ("c2", "search", {"word": "tea"})], stop="tool_use"))
    first = sdk.responses.create(input="Which tea?", tools=[TOOL], **NAMES)
    references: Any = [{"type": "item_reference", "id": item.id} for item in first.output]
    assert len({reference["id"] for reference in references}) == 3
    results: Any = [{"type": "function_call_output", "call_id": key, "output": f"found {key}"} for key in ("c1", "c2")]
    llm.answer(Reply("Gyokuro."))
    asked: Any = [{"role": "user", "content": "Which tea?"}]
    sdk.responses.create(input=[*asked, *references, *results], tools=[TOOL], **NAMES)
    _question, answer, found = llm.asked[-1].messages
    assert [block["type"] for block in answer["content"]] == ["text", "tool_use", "tool_use"]
    assert [block["tool_use_id"] for block in found["content"]] == ["c1", "c2"]
    for wrong in ("msg_1", "fc_x", f"{first.output[1].id}9", "rs_1"):
        with pytest.raises(openai.BadRequestError, match=r"no such answer"):
            sdk.responses.create(input=[*asked, {"type": "item_reference", "id": wrong}], **NAMES)


@pytest.mark.parametrize("store", [True, False])
def test_an_answer_is_continued_by_its_id_also_from_earlier(
    store: bool,
    sdk: openai.OpenAI,  # noqa: F811
    echo: LLMServer,  # noqa: F811
) -> None:
    first = sdk.responses.create(input="one", store=store, **NAMES)
    second = sdk.responses.create(input="two", previous_response_id=first.id, store=store, **NAMES)
    assert texts_of(echo.asked[-1])[:-1] == ["one", "one! (1)"]
    sdk.responses.create(input="three", previous_response_id=first.id, **NAMES)
    assert texts_of(echo.asked[-1])[:-1] == ["one", "one! (1)"]
    sdk.responses.create(input="four", previous_response_id=second.id, **NAMES)
    assert texts_of(echo.asked[-1])[:-1] == ["one", "one! (1)", "two", "two! (2)"]
    assert Message.objects.values("session").distinct().count() == 1
    texts = sorted(each.content for each in Message.objects.all())
    assert len(texts) == len(set(texts)) == 8
    for wrong in ("resp_1", f"resp_{Message.objects.latest('created_at').pk}"):
        with pytest.raises(openai.BadRequestError, match="no such answer"):
            sdk.responses.create(input="five", previous_response_id=wrong, **NAMES)


def test_an_answer_to_one_user_is_not_continued_for_another(sdk: openai.OpenAI, echo: LLMServer) -> None:  # noqa: F811
    first = sdk.responses.create(input="one", **NAMES)
    for names in ({**NAMES, "user": "mika"}, {**NAMES, "model": "yuno"}):
        with pytest.raises(openai.BadRequestError, match="no such answer"):
            sdk.responses.create(input="two", previous_response_id=first.id, **names)
        reference: Any = [{"type": "item_reference", "id": first.output[0].id}, {"role": "user", "content": "two"}]
        with pytest.raises(openai.BadRequestError, match="no such answer"):
            sdk.responses.create(input=reference, **names)


@pytest.mark.parametrize("stream", [False, True])
def test_tools_are_called_and_answered(stream: bool, sdk: openai.OpenAI, llm: LLMServer) -> None:  # noqa: F811
    llm.then(Reply("I look.", calls=[("c1", "search", {"to": "京都"})]), Reply("Three flights."))
    items: list[Any] = [{"role": "user", "content": [{"type": "input_text", "text": "Flights to Kyoto?"}]}]
    if stream:
        with sdk.responses.stream(input=items, tools=[TOOL], **NAMES) as events:
            answer: Any = events.get_final_response()
    else:
        answer = sdk.responses.create(input=items, tools=[TOOL], **NAMES)
    assert answer.output_text == "I look."
    [call] = [each for each in answer.output if each.type == "function_call"]
    assert (call.call_id, call.name, json.loads(call.arguments)) == ("c1", "search", {"to": "京都"})
    items += [each.model_dump(exclude_none=True) for each in answer.output]
    items.append({"type": "function_call_output", "call_id": "c1", "output": "one, two, three"})
    last = sdk.responses.create(input=items, tools=[TOOL], **NAMES)
    assert last.output_text == "Three flights." and "one, two, three" in str(llm.asked[1].messages)
    assert [each.role for each in Message.objects.order_by("seq")] == ["user", "assistant", "tool", "assistant"]


PATCH: Any = {
    "type": "custom", "name": "patch", "description": "Changes files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: PATCH"},
}  # fmt: skip
MAIL: Any = {
    "type": "namespace", "name": "mail", "description": "Letters.",
    "tools": [{"type": "function", "name": "send", "parameters": {"type": "object"}}],
}  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
def test_tools_that_chat_completions_do_not_have(stream: bool, sdk: openai.OpenAI, llm: LLMServer) -> None:  # noqa: F811
    """Free texts and namespaces are brought to functions and back; what OpenAI runs itself is left out and named."""
    calls = [("c1", "patch", {"input": "+ 緑茶"}), ("c2", "mail__send", {"to": "maya"})]
    llm.then(Reply("I do it.", calls=calls), Reply("Done."))
    tools: Any = [PATCH, MAIL, {"type": "web_search"}]
    given: Any = {"tools": tools, "tool_choice": {"type": "custom", "name": "patch"}, **NAMES}
    items: list[Any] = [{"role": "user", "content": "Please change it."}]
    raw = sdk.responses.with_raw_response.create(input=items, stream=stream, **given)
    assert raw.headers["X-Memoryhub-Left-Out-Tools"] == "web_search"
    answer: Any = list(raw.parse())[-1].response if stream else raw.parse()
    offered = llm.asked[0].body["tools"]
    assert [tool["name"] for tool in offered] == ["patch", "mail__send"] and "start: PATCH" in offered[0]["description"]
    custom, function = [each for each in answer.output if each.type != "message"]
    assert (custom.type, custom.name, custom.input) == ("custom_tool_call", "patch", "+ 緑茶")
    assert (function.name, function.namespace, function.arguments) == ("send", "mail", '{"to": "maya"}')
    items += [each.model_dump(exclude_none=True) for each in answer.output]
    items.append({"type": "custom_tool_call_output", "call_id": "c1", "output": "one file"})
    items.append({"type": "function_call_output", "call_id": "c2", "output": "sent"})
    assert sdk.responses.create(input=items, tools=tools, **NAMES).output_text == "Done."
    assert "one file" in str(llm.asked[1].messages) and "mail__send" in str(llm.asked[1].messages)
    many: Any = [{"type": f"hosted_{number}"} for number in range(1_000)]
    named = sdk.responses.with_raw_response.create(input="Tea?", tools=many, **NAMES)
    assert named.headers["X-Memoryhub-Left-Out-Tools"].count("hosted_") == 10
    odd: Any = [
        {"type": "function"},
        {"type": "custom", "name": 3},
        3,
        {"type": "a\r\nX-Injected: 1"},
        {"type": "検索"},
    ]
    for tool in odd:
        with pytest.raises(openai.BadRequestError):
            sdk.responses.create(input="Tea?", tools=[tool], **NAMES)


def test_a_stream_has_the_sdks_events(sdk: openai.OpenAI, llm: LLMServer) -> None:  # noqa: F811
    llm.answer(Reply("Green tea, 緑茶。", pieces=["Green ", "tea, ", "緑茶。"]))
    events = list(sdk.responses.create(input="Which tea?", stream=True, **NAMES))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] == "response.completed"
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "Green tea, 緑茶。"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    final: Any = events[-1]
    assert final.response.output_text == "Green tea, 緑茶。"
    llm.answer(Reply("Half an answer that is long enough to be cut", failure="cut_stream"))
    failed: Any = list(sdk.responses.create(input="And?", stream=True, **NAMES))[-1]
    assert failed.type == "response.failed" and "provider" in failed.response.error.message


def test_wishes_reach_the_vendor_and_unknown_items_are_refused(
    sdk: openai.OpenAI,  # noqa: F811
    llm: LLMServer,
    settings: Settings,
) -> None:
    settings.LLM = LLMConfig("openai", base_url=llm.base_url, api_key=llm.key)
    llm_provider.cache_clear()
    shape: Any = {"format": {"type": "json_schema", "name": "tea", "schema": SHAPE, "strict": True}, "verbosity": "low"}
    llm.answer(Reply('{"tea": "sencha"}'))
    sdk.responses.create(
        input="Which tea?", text=shape, reasoning={"effort": "low"}, max_output_tokens=9, tools=[TOOL],
        tool_choice={"type": "function", "name": "search"}, parallel_tool_calls=False, **NAMES,
    )  # fmt: skip
    sent = llm.asked[0].body
    assert sent["response_format"]["json_schema"]["schema"] == SHAPE and sent["reasoning_effort"] == "low"
    assert (sent["verbosity"], llm.asked[0].max_tokens, sent["parallel_tool_calls"]) == ("low", 9, False)
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "search"}}
    for items, param in (
        ([{"type": "computer_call", "id": "x"}], "input.0"),
        ([{"role": "nobody", "content": "hi"}], "input.0.role"),
    ):
        with pytest.raises(openai.BadRequestError) as refused:
            sdk.responses.create(input=items, **NAMES)
        assert refused.value.param == param
