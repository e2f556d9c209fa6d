"""Requests to each vendor, and what is read of usage: the wire formats, as the fake saw them."""

import asyncio
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from memoryhub.llm import client
from memoryhub.llm.anthropic import AnthropicProvider
from memoryhub.llm.config import LLMConfig
from memoryhub.llm.errors import BadAnswer, ProviderMisconfigured
from memoryhub.llm.openai import OpenAIProvider
from memoryhub.llm.tokens import counter_for
from memoryhub.llm.types import ChatMessage, CompletionRequest, Constraints, Operation
from tests.fakes.llm_server import LLMServer, Reply
from tests.verification.contract import FACTS, Way, both_ways, last, streamed

REQUEST = CompletionRequest(
    operation=Operation.CHAT,
    messages=(
        ChatMessage("user", "Good morning"),
        ChatMessage("assistant", "Good morning!"),
        ChatMessage("user", [{"type": "text", "text": "Where is Kyoto?"}]),
    ),
    max_output_tokens=300,
    deadline_seconds=30.0,
    system="Be kind.",
)
OPTIONAL = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]}


def anthropic(server: LLMServer, **changes: Any) -> AnthropicProvider:
    config = LLMConfig("anthropic", base_url=server.url, api_key=server.key)
    return AnthropicProvider(replace(config, **changes))


def openai(server: LLMServer, **changes: Any) -> OpenAIProvider:
    config = LLMConfig("openai", base_url=server.base_url, api_key=server.key)
    return OpenAIProvider(replace(config, **changes))


@both_ways
def test_anthropic_gets_the_system_prompt_apart(llm_server: LLMServer, way: Way) -> None:
    way(anthropic(llm_server, model="m"), REQUEST)

    (asked,) = llm_server.asked
    assert (asked.system, asked.max_tokens, asked.stream) == ("Be kind.", 300, way is last)
    assert [each["role"] for each in asked.messages] == ["user", "assistant", "user"]
    assert asked.text == "Good morning\nWhere is Kyoto?"
    assert set(asked.body) == {"model", "messages", "max_tokens", "system", "stream"}


@both_ways
def test_openai_gets_the_system_prompt_first(llm_server: LLMServer, way: Way) -> None:
    way(openai(llm_server, model="m"), REQUEST)

    (asked,) = llm_server.asked
    assert asked.body["messages"][0] == {"role": "system", "content": "Be kind."}
    assert (asked.max_tokens, asked.stream) == (300, way is last)
    assert asked.body.get("stream_options") == ({"include_usage": True} if way is last else None)


@pytest.mark.parametrize("build", [anthropic, openai])
def test_no_system_prompt_is_no_empty_one(llm_server: LLMServer, build: Any) -> None:
    build(llm_server).complete(replace(REQUEST, system=""))

    (asked,) = llm_server.asked
    assert "system" not in asked.body
    assert [each["role"] for each in asked.body["messages"]] == ["user", "assistant", "user"]


def test_blocks_go_out_as_they_are(llm_server: LLMServer) -> None:
    cached = [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]

    anthropic(llm_server).complete(replace(REQUEST, system=cached))

    assert llm_server.asked[0].body["system"] == cached


@pytest.mark.parametrize("build", [anthropic, openai])
def test_every_operation_has_a_model_of_its_own(llm_server: LLMServer, build: Any) -> None:
    models = MappingProxyType({Operation.EXTRACT: "for-extracting"})
    provider = build(llm_server, model="for-all", models=models)

    for operation in Operation:
        provider.complete(replace(REQUEST, operation=operation))

    assert {asked.model for asked in llm_server.asked} == {"for-all", "for-extracting"}
    assert llm_server.asked[list(Operation).index(Operation.EXTRACT)].model == "for-extracting"


@pytest.mark.parametrize("build", [anthropic, openai])
def test_without_a_configured_model_background_work_has_a_smaller_one_than_chat(
    llm_server: LLMServer, build: Any
) -> None:
    models = {operation: build(llm_server).model_for(operation) for operation in Operation}

    chat = models.pop(Operation.CHAT)
    (background,) = set(models.values())
    assert chat != background


def test_anthropic_gets_the_shape_of_the_schema_and_we_check_the_rest(llm_server: LLMServer) -> None:
    llm_server.then(
        Reply(data={"facts": [{"text": "", "certainty": 0.5, "place": None}]}),
        Reply(data={"facts": [{"text": "Tea", "certainty": 0.5, "place": None}]}),
    )

    answer = anthropic(llm_server).complete(replace(REQUEST, json_schema=FACTS))

    assert answer.data["facts"][0]["text"] == "Tea"
    assert len(llm_server.asked) == 2  # the first was too short, which only the whole schema knows
    schema = llm_server.asked[0].body["output_config"]["format"]["schema"]
    assert schema["additionalProperties"] is False
    assert "maxItems" not in schema["properties"]["facts"]


@pytest.mark.parametrize(("schema", "is_strict"), [(FACTS, True), (OPTIONAL, False)])
def test_openai_is_strict_where_the_schema_requires_everything(
    llm_server: LLMServer, schema: dict[str, Any], is_strict: bool
) -> None:
    openai(llm_server).complete(replace(REQUEST, json_schema=schema, operation=Operation.EXTRACT))

    wanted = llm_server.asked[0].body["response_format"]["json_schema"]
    assert (wanted["name"], wanted["strict"]) == ("extract", is_strict)


@pytest.mark.parametrize("taken", [{"json_object"}, set[str]()])
def test_a_server_that_refuses_schemas_is_asked_for_json_in_a_simpler_form(
    llm_server: LLMServer, taken: set[str]
) -> None:
    llm_server.json_forms = frozenset(taken)
    llm_server.answer(Reply('{"a": "b"}'))
    provider, wanted = openai(llm_server), replace(REQUEST, json_schema=OPTIONAL)

    assert [provider.complete(wanted).data for _ in range(2)] == [{"a": "b"}] * 2
    last = llm_server.asked[-1]
    assert last.body.get("response_format") == ({"type": "json_object"} if "json_object" in taken else None)
    assert last.system.startswith("Be kind.") and '"properties"' in last.system
    assert len(llm_server.asked) == 2, "what was refused is not asked again"


def test_a_server_that_cuts_the_instructions_off_is_an_error_with_what_to_set(llm_server: LLMServer) -> None:
    long = replace(REQUEST, messages=(ChatMessage("user", "tea and rice " * 3_000),))
    llm_server.answer(Reply("Tea.", input_tokens=4_096))
    with pytest.raises(ProviderMisconfigured, match=r"read 4,096 of about .* OLLAMA_CONTEXT_LENGTH"):
        openai(llm_server).complete(long)
    llm_server.answer(Reply("Tea."))
    assert openai(llm_server).complete(long).text == "Tea."


@both_ways
def test_json_in_a_fence_is_read(llm_server: LLMServer, way: Way) -> None:
    llm_server.answer(Reply('```json\n{"a": "b"}\n```'))

    assert way(openai(llm_server), replace(REQUEST, json_schema=OPTIONAL)).data == {"a": "b"}


def test_openai_itself_gets_the_new_name_of_the_greatest_length_and_thinks_little_in_the_background() -> None:
    provider = OpenAIProvider(LLMConfig("openai", api_key="k"))

    background = provider._question(replace(REQUEST, operation=Operation.SUMMARIZE))
    chat = provider._question(REQUEST)

    assert (background["max_completion_tokens"], background["reasoning_effort"]) == (300, "low")
    assert "max_tokens" not in background and "reasoning_effort" not in chat


@pytest.mark.parametrize("model", ["gpt-4.1", "gpt-5-chat-latest", "my-model"])
def test_a_model_that_does_not_reason_is_not_told_to(model: str) -> None:
    provider = OpenAIProvider(LLMConfig("openai", model, api_key="k"))

    assert "reasoning_effort" not in provider._question(replace(REQUEST, operation=Operation.JUDGE))


@pytest.mark.parametrize("build", [anthropic, openai])
def test_a_server_of_ones_own_needs_no_key(llm_server: LLMServer, build: Any) -> None:
    build(llm_server, api_key=None).complete(REQUEST)

    assert llm_server.asked[0].headers["authorization"] == "Bearer none"


@pytest.mark.parametrize("ending", ["", "/v1"])
def test_anthropics_address_is_understood_with_and_without_its_version(llm_server: LLMServer, ending: str) -> None:
    anthropic(llm_server, base_url=llm_server.url + ending).complete(REQUEST)

    assert llm_server.asked[0].path == "/v1/messages"


@both_ways
@pytest.mark.parametrize("build", [anthropic, openai])
def test_usage_counts_what_came_from_the_cache(llm_server: LLMServer, way: Way, build: Any) -> None:
    llm_server.answer(Reply("Hello", input_tokens=1000, cached_tokens=800, cache_written_tokens=100, output_tokens=7))

    answer = way(build(llm_server), REQUEST)

    assert (answer.input_tokens, answer.output_tokens, answer.usage_is_estimated) == (1000, 7, False)
    assert answer.cache_read_tokens == 800
    assert answer.cache_write_tokens == (100 if build is anthropic else 0), "OpenAI tells of no writes"


@both_ways
def test_a_server_that_tells_no_usage_is_estimated(llm_server: LLMServer, way: Way) -> None:
    llm_server.answer(Reply("Kyoto is west of Tokyo.", input_tokens=-1))

    answer = way(openai(llm_server, model="my-model"), REQUEST)

    count = counter_for("my-model").count
    assert answer.usage_is_estimated
    assert answer.output_tokens == count("Kyoto is west of Tokyo.")
    assert answer.input_tokens == sum(map(count, ["Be kind.", "Good morning", "Good morning!", "Where is Kyoto?"]))


def test_a_stream_of_another_server_may_end_without_the_last_word(llm_server: LLMServer) -> None:
    llm_server.answer(Reply("Hello", last_word=False))

    assert streamed(openai(llm_server), REQUEST)[-1].text == "Hello"
    with pytest.raises(BadAnswer):
        last(anthropic(llm_server), REQUEST)


def test_a_count_is_asked_of_anthropic(llm_server: LLMServer) -> None:
    llm_server.count = len

    assert anthropic(llm_server).count_tokens(replace(REQUEST, json_schema=FACTS)) == sum(
        map(len, ["Be kind.", "Good morning", "Good morning!", "Where is Kyoto?"])
    )
    assert "max_tokens" not in llm_server.counted[0].body
    assert openai(llm_server).count_tokens(REQUEST) is None


def test_a_server_without_counting_is_none_and_a_wrong_key_is_not(llm_server: LLMServer) -> None:
    assert anthropic(llm_server, base_url=f"{llm_server.url}/elsewhere").count_tokens(REQUEST) is None

    with pytest.raises(ProviderMisconfigured):
        anthropic(llm_server, api_key="wrong-key").count_tokens(REQUEST)


def test_the_configured_vendor_answers(llm: LLMServer) -> None:
    llm.answer(Reply("Hello"))

    provider = client.llm_provider()

    assert provider is client.llm_provider()
    assert provider.complete(REQUEST).text == "Hello"
    assert asyncio.run(anext(provider.stream(REQUEST))) is not None  # type: ignore[arg-type]


def test_anthropic_has_nothing_for_free_json_and_blank_stops(llm_server: LLMServer) -> None:
    free, blank = Constraints(response_format={"type": "json_object"}), Constraints(stop=("END", "\n"))
    assert anthropic(llm_server).unsupported(free) == ("response_format",)
    assert anthropic(llm_server).unsupported(blank) == ("stop",)
    assert anthropic(llm_server).unsupported(Constraints(stop=("END",), parallel_tool_calls=False)) == ()
    assert openai(llm_server).unsupported(free) == openai(llm_server).unsupported(blank) == ()
