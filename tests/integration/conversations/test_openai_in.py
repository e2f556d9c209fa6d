"""What OpenAI accepts is accepted: requests as SDKs and frameworks send them, before both vendors (ADR 51)."""

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
from tests.integration.conversations.test_openai import (  # noqa: F401
    API,
    TOOL,
    Talk,
    abandoned_in,
    key_of,
    said,
    sdk,
    sdk_of,
    session_of,
    stored,
)
from tests.serving import Web

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}
CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
CALLED = [
    said("user", "Which flights are there?"),
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "one at nine"},
]


@pytest.fixture(params=["anthropic", "openai"])
def vendor(request: pytest.FixtureRequest, llm: LLMServer, settings: Settings) -> str:
    if request.param == "openai":
        settings.LLM = LLMConfig("openai", base_url=llm.base_url, api_key=llm.key)
        llm_provider.cache_clear()
    return str(request.param)


ACCEPTED: dict[str, tuple[list[Any], dict[str, Any], list[str]]] = {
    "results without tools": (CALLED, {}, ["Which flights are there?"]),
    "results and no choice": (CALLED, {"tools": [TOOL], "tool_choice": "none"}, ["Which flights are there?"]),
    "results in the history": (
        [*CALLED, said("assistant", "At nine."), said("user", "And later?")],
        {},
        ["Which flights are there?", "And later?"],
    ),
    "an answer to continue": ([said("user", "Name a tea."), said("assistant", "Gyo")], {}, ["Name a tea."]),
    "an image alone": ([{"role": "user", "content": [IMAGE]}], {}, []),
    "a blank part": (
        [{"role": "user", "content": [{"type": "text", "text": " "}, {"type": "text", "text": "Which tea?"}]}],
        {},
        ["Which tea?"],
    ),
    "a blank message before": (
        [{"role": "user", "content": [{"type": "text", "text": ""}]}, said("user", "Which tea?")],
        {},
        ["Which tea?"],
    ),
    "a refusal": (
        [
            said("user", "Name a poison."),
            {"role": "assistant", "content": None, "refusal": "I do not name any."},
            {"role": "user", "content": "A tea?"},
            {"role": "assistant", "content": [{"type": "refusal", "refusal": "Nor this."}]},
            said("user", "And a cake?"),
        ],
        {},
        ["Name a poison.", "I do not name any.", "Nor this.", "And a cake?"],
    ),
    "a file and sound": (
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is in both?"},
                    {"type": "file", "file": {"filename": "plan.pdf", "file_data": "data:application/pdf;base64,aGk="}},
                    {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
                ],
            }
        ],
        {},
        ["What is in both?", "[file: plan.pdf]", "[file: audio.mp3]"],
    ),
    "functions": (
        [
            said("user", "Which flights are there?"),
            {"role": "assistant", "content": None, "function_call": {"name": "search", "arguments": "{}"}},
            {"role": "function", "name": "search", "content": "one at nine"},
            said("user", "Is that all?"),
        ],
        {},
        ["Which flights are there?", "Is that all?"],
    ),
    "no parameters": (
        [said("user", "hi")],
        {"tools": [{"type": "function", "function": {"name": "now", "parameters": None, "description": None}}]},
        ["hi"],
    ),
    "many parts": (
        [{"role": "user", "content": [{"type": "text", "text": f"part {number}"} for number in range(150)]}],
        {},
        ["part 149"],
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_openai_accepts_is_accepted(
    name: str,
    vendor: str,
    sdk: openai.OpenAI,  # noqa: F811
    llm: LLMServer,
) -> None:
    messages, options, shown = ACCEPTED[name]
    llm.answer(Reply("Certainly."))
    answer = Talk(sdk, **options).send(messages)
    assert answer.choices[0].message.content == "Certainly."
    sent = json.dumps(llm.asked[0].messages)
    assert all(text in sent for text in shown), sent
    if "one at nine" in str(messages):
        assert "one at nine" in sent and "(no result)" not in sent and "called search" not in sent
    if name == "an image alone":
        assert "aGVsbG8=" in sent
    if name == "an answer to continue":
        assert llm.asked[0].messages[-1]["role"] == "assistant"
        assert stored(session_of(answer)) == ["Name a tea.", "Certainly."]


def test_instructions_alone_go_to_the_vendor(
    sdk: openai.OpenAI,  # noqa: F811
    llm: LLMServer,
    settings: Settings,
) -> None:
    settings.LLM = LLMConfig("openai", base_url=llm.base_url, api_key=llm.key)
    llm_provider.cache_clear()
    assert Talk(sdk).send([said("system", "Greet.")]).choices[0].message.content
    assert llm.asked[0].system == "Greet." and not Message.objects.exists()


def test_only_allowed_tools_are_offered(sdk: openai.OpenAI, llm: LLMServer) -> None:  # noqa: F811
    other = {"type": "function", "function": {"name": "book", "parameters": {"type": "object", "properties": {}}}}
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "book"}}]}
    Talk(sdk, tools=[TOOL, other], tool_choice={"type": "allowed_tools", "allowed_tools": allowed}).say("hi")
    assert [tool["name"] for tool in llm.asked[0].body["tools"]] == ["book"]
    assert llm.asked[0].body["tool_choice"] == {"type": "any"}


def test_an_answer_that_is_continued_stays_shown(sdk: openai.OpenAI, llm: LLMServer) -> None:  # noqa: F811
    talk = Talk(sdk)
    llm.answer(Reply("Sencha, and"))
    session = session_of(talk.say("Name two teas."))
    llm.answer(Reply(" gyokuro."))
    assert session_of(talk.send(talk.messages)) == session
    assert stored(session) == ["Name two teas.", "Sencha, and", " gyokuro."] and not abandoned_in(session)


def test_a_key_of_some_agents_is_not_advised_to_create_one(web: Web, llm: LLMServer) -> None:
    client_with_key().post(f"{API}/agents", {"agent_id": "kana"})
    key = key_of(agent_ids=["kana"])
    with sdk_of(web, key, **{"X-Memoryhub-Create-Agent": ""}) as client, pytest.raises(openai.NotFoundError) as no:
        Talk(client, model="gpt-4o").say("hi")
    assert str(no.value).endswith("There is no agent gpt-4o. Known to this key: kana.")


def test_an_unknown_model_is_refused_with_the_known_ones(web: Web, llm: LLMServer) -> None:
    for agent_id in ("kana", "yuno"):
        client_with_key().post(f"{API}/agents", {"agent_id": agent_id})
    with sdk_of(web, **{"X-Memoryhub-Create-Agent": ""}) as client:
        with pytest.raises(
            openai.NotFoundError, match=r"There is no agent gpt-4o\. Known to this key: kana, yuno"
        ) as no:
            Talk(client, model="gpt-4o").say("hi")
        assert no.value.code == "model_not_found" and not Message.objects.exists()
        assert Talk(client, model="yuno").say("hi").model == "yuno"
        assert client.models.retrieve("yuno").id == "yuno"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("gpt-4o")
    with sdk_of(web, key_of(agent_ids=["yuno"])) as bound, pytest.raises(openai.NotFoundError):
        bound.models.retrieve("kana")


def test_a_vendors_reason_and_its_limits_reach_the_caller(
    vendor: str,
    sdk: openai.OpenAI,  # noqa: F811
    llm: LLMServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    llm.answer(Reply(failure="400"))
    with pytest.raises(openai.BadRequestError, match="SECRET") as refused:
        Talk(sdk).say("hi")
    assert refused.value.code == "refused_by_vendor" and "SECRET" not in caplog.text
    llm.answer(Reply(failure="retry_after_3600"))
    with pytest.raises(openai.RateLimitError) as limited:
        Talk(sdk, extra_headers={"X-Stainless-Retry-Count": "0"}).sdk.with_options(
            max_retries=0
        ).chat.completions.create(
            model="kana",
            user="hiroki",
            messages=[said("user", "hi")],  # type: ignore[list-item]
        )
    assert limited.value.response.headers["Retry-After"] == "3600"


def test_memory_is_read_and_nothing_stored_by_wish(sdk: openai.OpenAI, llm: LLMServer) -> None:  # noqa: F811
    client = client_with_key()
    names = {"agent_id": "kana", "user_id": "hiroki"}
    client.post(f"{API}/memories", {**names, "content": "likes green tea"})
    for headers, reads in (
        ({"X-Memoryhub-Mode": "read"}, True),
        ({"X-Memoryhub-Store": "none"}, True),
        ({"X-Memoryhub-Mode": "off"}, False),
    ):
        history = [said("user", "hi"), said("assistant", "Hello!"), said("user", "Which green tea?")]
        answer = Talk(sdk, extra_headers=headers).send(history)
        assert answer.memoryhub["session_id"] is None
        sent = str(llm.asked[-1].messages)
        assert ("likes green tea" in sent) is reads and "Hello!" in sent, headers
        assert not Message.objects.exists()
    with pytest.raises(openai.BadRequestError, match="must be one of full, read, off"):
        Talk(sdk, extra_headers={"X-Memoryhub-Mode": "on"}).say("hi")
