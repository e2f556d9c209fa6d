"""Tool use end to end: stored, replayed, answered by results; in both vendors' forms."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.core.management import call_command
from pytest_django.fixtures import Settings
from rest_framework.test import APIClient

from conversations.models import Message, MessageIndex
from memoryhub.embeddings import registry
from memoryhub.jobs.models import Job
from memoryhub.llm.config import LLMConfig
from memoryhub.tenancy.models import Agent
from tests.conftest import client_with_key, run_jobs
from tests.fakes.llm_server import LLMServer, Reply
from tests.serving import Web

API = "/api/v1"
NAMES = {"agent_id": "kana", "user_id": "hiroki"}
CHAT = f"{API}/chat"
TOOL = {
    "name": "search",
    "description": "Find flights.",
    "input_schema": {"type": "object", "properties": {"to": {"type": "string"}}},
}
OPENAI_TOOL = {
    "type": "function",
    "function": {"name": "search", "description": "Find flights.", "parameters": TOOL["input_schema"]},
}
CALL = ("toolu_1", "search", {"to": "京都"})
THREE = '[{"id": 1}, {"id": 2}, {"id": 3}]'
RESULT = {"tool_use_id": "toolu_1", "content": THREE}


@pytest.fixture(params=["anthropic", "openai"])
def vendor(request: pytest.FixtureRequest, llm: LLMServer, settings: Settings) -> Iterator[str]:
    """Both vendors in turn, as this installation's language model."""
    url = llm.url if request.param == "anthropic" else llm.base_url
    settings.LLM = LLMConfig(request.param, base_url=url, api_key=llm.key)
    registry.reset()
    yield request.param
    registry.reset()


def told(response: Any, status: int = 200) -> Any:
    assert response.status_code == status, response.content
    return response.json()


def ask(client: APIClient, **values: Any) -> Any:
    return client.post(CHAT, {**NAMES, **values})


def session_of(client: APIClient) -> str:
    return str(told(client.post(f"{API}/sessions", NAMES), 201)["id"])


def store(client: APIClient, session: str, *messages: Any) -> Any:
    return client.post(f"{API}/sessions/{session}/messages", {"messages": list(messages)})


def context(client: APIClient, session: str, **values: Any) -> Any:
    return told(client.post(f"{API}/context", {**NAMES, "session_id": session, "message": "And now?", **values}))


ANTHROPIC_TALK = (
    {"role": "user", "content": "Flights to Kyoto?"},
    {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "signed"},
        {"type": "text", "text": "I look.", "citations": None},
        {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"to": "京都"}, "caller": {"type": "direct"}},
    ]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": THREE}]},
    {"role": "assistant", "content": "Three."},
)  # fmt: skip
OPENAI_TALK = (
    {"role": "user", "content": "Flights to Kyoto?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "toolu_1", "type": "function", "function": {"name": "search", "arguments": '{"to": "京都"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "toolu_1", "content": THREE},
    {"role": "assistant", "content": "Three."},
)


@pytest.mark.parametrize("talk", [ANTHROPIC_TALK, OPENAI_TALK], ids=["anthropic", "openai"])
def test_either_vendors_messages_are_stored_alike_and_replayed_to_both(talk: Any, client: APIClient) -> None:
    session = session_of(client)
    stored = told(store(client, session, *talk), 201)["results"]

    assert [each["role"] for each in stored] == ["user", "assistant", "tool", "assistant"]
    call, result = stored[1]["content"][-1], stored[2]["content"]
    assert call == {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"to": "京都"}}
    assert result == [{"type": "tool_result", "tool_use_id": "toolu_1", "content": THREE}]
    assert stored[2]["token_count"] > 5
    anthropic = context(client, session)["messages"]
    assert [each["role"] for each in anthropic] == ["user", "assistant", "user", "assistant", "user"]
    assert anthropic[1]["content"][-1] == call
    assert anthropic[2]["content"] == result
    openai = context(client, session, format="openai")["messages"]
    assert [each["role"] for each in openai] == ["system", "user", "assistant", "tool", "assistant", "user"]
    assert openai[2]["tool_calls"][0]["function"] == {"name": "search", "arguments": '{"to": "京都"}'}
    assert openai[3] == {"role": "tool", "tool_call_id": "toolu_1", "content": THREE}
    traced = context(client, session, options={"include_tools": False})["messages"]
    assert "(called search(…) → 3 results)" in str(traced[1]["content"])
    assert not MessageIndex.objects.filter(message__seq=3).exists()


def test_a_result_is_never_without_its_call(client: APIClient) -> None:
    session = session_of(client)
    talk = [{"role": "user", "content": "Hello."}, *OPENAI_TALK[1:3]] * 3
    told(store(client, session, *talk[2:]), 201)

    for limit in range(1, 8):
        sent = context(client, session, options={"working_memory_limit": limit, "recall_limit": 0})["messages"]
        calls = [
            block["id"]
            for each in sent
            for block in each["content"]
            if isinstance(block, dict) and block["type"] == "tool_use"
        ]
        results = [
            block["tool_use_id"]
            for each in sent
            for block in each["content"]
            if isinstance(block, dict) and block["type"] == "tool_result"
        ]
        assert calls == results
        assert len(calls) == min(2, limit // 2)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"role": "user", "content": [{"type": "tool_use", "id": "a", "name": "x", "input": {}}]}, "content"),
        ({"role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "a"}]}, "content"),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "x"}]}, "input"),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "a b", "input": {}}]}, "name"),
        ({"role": "assistant", "content": [{"type": "text", "text": "x", "id": "a"}]}, "id"),
        ({"role": "user", "content": "x", "tool_call_id": "a"}, "tool_call_id"),
        ({"role": "user", "content": "x", "tool_calls": OPENAI_TALK[1]["tool_calls"]}, "tool_calls"),
        ({"role": "assistant"}, "content"),
        ({"role": "tool", "content": " "}, "content"),
        ({"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "a b", "media_type": "image/png"}}]}, "data"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "ftp://x"}}]}, "url"),
        ({"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "x"}}]}, "source"),
        ({"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "file"}]}]}, "content"),
    ],
)  # fmt: skip
def test_what_no_vendor_has_is_refused(client: APIClient, message: Any, field: str) -> None:
    response = client.post(f"{API}/sessions/{session_of(client)}/messages", message)

    assert response.status_code == 400
    assert field in response.json()["detail"]
    assert not Message.objects.exists()


def test_vendors_images_become_one_form(client: APIClient) -> None:
    session = session_of(client)
    told(store(client, session, {"role": "user", "content": [
        {"type": "text", "text": "Look."},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8=", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
    ]}), 201)  # fmt: skip

    inline = {"type": "image", "media_type": "image/png", "data": "aGVsbG8="}
    linked = {"type": "image", "url": "https://example.org/a.png"}
    assert Message.objects.get().blocks[1:] == [inline, linked, inline, linked]


@pytest.mark.parametrize("tool", [TOOL, OPENAI_TOOL], ids=["anthropic", "openai"])
def test_chat_calls_tools_and_goes_on_from_their_results(
    tool: Any, vendor: str, client: APIClient, llm: LLMServer
) -> None:
    llm.then(
        Reply("I look.", calls=[CALL], thinking="Hm."),
        Reply(calls=[("toolu_2", "search", {})]),
        Reply("Three flights."),
    )

    first = told(ask(client, message="Flights to Kyoto?", tools=[tool]))
    assert (first["status"], first["text"]) == ("tool_use", "I look.")
    assert first["tool_calls"] == [{"id": "toolu_1", "name": "search", "input": {"to": "京都"}}]
    session = first["session_id"]
    second = told(ask(client, session_id=session, tools=[tool], tool_results=[RESULT]))
    assert (second["status"], second["text"]) == ("tool_use", "")
    failed = {"tool_use_id": "toolu_2", "content": "no such place", "is_error": True}
    last = told(ask(client, session_id=session, tools=[tool], tool_results=[failed]))

    assert (last["status"], last["text"], last["tool_calls"]) == ("ok", "Three flights.", [])
    assert [each.body["tools"] for each in llm.asked] == [[TOOL if vendor == "anthropic" else OPENAI_TOOL]] * 3
    roles = [each["role"] for each in llm.asked[2].messages]
    assert roles == ["user", *(["assistant", "user" if vendor == "anthropic" else "tool"] * 2)]
    assert str(llm.asked[2].messages).count("Flights to Kyoto?") == 1
    if vendor == "anthropic":
        thought = {"type": "thinking", "thinking": "Hm.", "signature": "signed"}
        assert llm.asked[2].messages[1]["content"][:2] == [thought, {"type": "text", "text": "I look."}]
    stored = Message.objects.filter(session_id=session).order_by("seq")
    assert [each.role for each in stored] == ["user", "assistant", "tool", "assistant", "tool", "assistant"]


def test_without_tools_the_history_holds_lines(vendor: str, client: APIClient, llm: LLMServer) -> None:
    session = session_of(client)
    told(store(client, session, *ANTHROPIC_TALK), 201)

    told(ask(client, session_id=session, message="Which is best?"))

    assert "(called search(…) → 3 results)" in str(llm.asked[0].messages)


def test_results_of_no_call_are_refused_and_not_stored(client: APIClient, llm: LLMServer) -> None:
    llm.then(Reply(calls=[CALL]))
    session = told(ask(client, message="Flights?", tools=[TOOL]))["session_id"]
    stored = Message.objects.count()

    for wrong in (
        {"tool_results": [{**RESULT, "tool_use_id": "other"}], "tools": [TOOL], "session_id": session},
        {"tool_results": [RESULT], "tools": [TOOL]},
        {"tool_results": [RESULT], "session_id": session},
        {"tool_results": [RESULT], "tools": [TOOL], "session_id": session_of(client)},
        {"tool_results": [RESULT], "tools": [TOOL], "session_id": session, "message": "x"},
        {"message": "x", "tools": [TOOL, TOOL]},
        {},
    ):
        assert ask(client, **wrong).status_code == 400, wrong
    assert Message.objects.count() == stored


def test_a_result_that_never_came_is_told_so(vendor: str, client: APIClient, llm: LLMServer) -> None:
    llm.then(Reply(calls=[CALL, ("toolu_2", "search", {})]), Reply("Fine."))
    session = told(ask(client, message="Flights?", tools=[TOOL]))["session_id"]

    told(ask(client, session_id=session, message="Never mind.", tools=[TOOL]))

    assert str(llm.asked[1].messages).count("(no result)") == 2


def test_arguments_that_are_no_json_are_no_answer(client: APIClient, llm: LLMServer, settings: Settings) -> None:
    settings.LLM = LLMConfig("openai", base_url=llm.base_url, api_key=llm.key)
    registry.reset()
    llm.answer(Reply(calls=[("a", "search", '{"to": ')]))

    response = ask(client, message="Flights?", tools=[TOOL])

    assert (response.status_code, response.json()["reason"]) == (502, "bad_call")
    assert Message.objects.count() == 1
    registry.reset()


def test_without_memory_a_loop_goes_on_all_the_same(vendor: str, client: APIClient, llm: LLMServer) -> None:
    told(client.post(f"{API}/memories", {**NAMES, "content": "likes Kyoto"}), 201)
    llm.then(Reply(calls=[CALL]), Reply("Three."))
    session = told(ask(client, message="Flights to Kyoto?", tools=[TOOL], memory=False))["session_id"]

    told(ask(client, session_id=session, tools=[TOOL], tool_results=[RESULT], memory=False))

    assert "likes Kyoto" not in str(llm.asked[1].messages)
    assert THREE in str(llm.asked[1].messages).replace("\\", "")


PHOTO = {"type": "image", "media_type": "image/jpeg", "data": "a" * 6_990_000}


@pytest.mark.parametrize("memory", [True, False])
def test_a_photo_is_shown_to_the_model(vendor: str, memory: bool, client: APIClient, llm: LLMServer) -> None:
    content = [{"type": "text", "text": "What is this?"}, PHOTO]

    answer = told(ask(client, message=content, memory=memory))

    shown = llm.asked[0].messages[0]["content"]
    assert shown[-1]["text"] == "What is this?"
    assert PHOTO["data"] in str(shown[-2])
    assert Message.objects.get(role="user").blocks[1]["media_type"] == "image/jpeg"
    assert answer["status"] == "ok"
    assert ask(client, message=[PHOTO]).status_code == 400


def test_background_work_sees_a_line_for_each_call(client: APIClient, llm: LLMServer) -> None:
    client.post(f"{API}/agents", {"agent_id": "kana"})
    session = session_of(client)
    told(store(client, session, *OPENAI_TALK), 201)
    told(client.post(f"{API}/sessions/{session}/end", {}))
    Job.objects.update(due_at=datetime(2026, 1, 1, tzinfo=UTC))
    run_jobs()

    asked = [each.text for each in llm.asked if "Three." in each.text]
    assert len(asked) >= 2
    for text in asked:
        assert "(called search(…) → 3 results)" in text
        assert "京都" not in text and '"id"' not in text


def test_a_stream_ends_with_the_calls(web: Web, llm: LLMServer, vendor: str) -> None:
    client = client_with_key()
    llm.answer(Reply("I look at the flights.", calls=[CALL], thinking="Hm."))
    body = {**NAMES, "message": "Flights?", "stream": True, "tools": [TOOL]}

    key = {"Authorization": client._credentials["HTTP_AUTHORIZATION"]}
    text = httpx2.post(web.url + CHAT, json=body, headers=key, timeout=60).text

    assert '"status": "tool_use"' in text
    assert '"tool_calls": [{"id": "toolu_1", "name": "search", "input": {"to": "京都"}}]' in text
    blocks = Message.objects.get(role="assistant").blocks
    assert [each["type"] for each in blocks if each["type"] != "thinking"] == ["text", "tool_use"]


def test_results_of_untrusted_keys_stay_in_their_own_session(client: APIClient) -> None:
    session = session_of(client)
    told(store(client, session, *OPENAI_TALK[:2]), 201)
    told(store(client_with_key(is_trusted=False), session, OPENAI_TALK[2]), 201)

    assert THREE in str(context(client, session)["messages"])
    elsewhere = context(client, session_of(client))["messages"]
    assert "(no result)" in str(elsewhere) and THREE not in str(elsewhere)


def test_a_window_does_not_begin_with_an_answer(client: APIClient) -> None:
    session = session_of(client)
    talk = [{"role": role, "content": f"{role} {number}"} for number in range(3) for role in ("user", "assistant")]
    told(store(client, session, {"role": "assistant", "content": "Welcome!"}, *talk), 201)

    def first(limit: int) -> Any:
        sent = context(client, session, options={"working_memory_limit": limit, "include_recall": False})["messages"]
        return sent[0]["content"], sent[1]["content"]

    assert first(3) == first(2)[:1] + first(3)[1:] == ("user 2", "assistant 2")
    assert first(7) == ("(The conversation continues.)", "Welcome!")


def test_export_and_import_keep_the_use_of_tools(client: APIClient, tmp_path: Path) -> None:
    session = session_of(client)
    told(store(client, session, *ANTHROPIC_TALK), 201)
    stored = list(Message.objects.order_by("seq").values_list("role", "blocks"))
    file = tmp_path / "all.jsonl"
    call_command("export", str(file))
    Agent.objects.all().delete()

    call_command("import", str(file))

    assert list(Message.objects.order_by("seq").values_list("role", "blocks")) == stored
