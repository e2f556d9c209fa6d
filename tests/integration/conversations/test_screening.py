"""A client and a model get what was written; what is stored is screened, and recognised all the same (SPEC M13)."""

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from conversations.models import Message, MessageIndex, Session
from memoryhub.auth.models import AuditEntry
from memoryhub.jobs.status import DatabaseCollector
from strength.models import Memory
from tests.conftest import client_with_key
from tests.factories.planting import API, made
from tests.factories.secrets import made_secrets
from tests.fakes.llm_server import LLMServer, Reply

pytestmark = pytest.mark.django_db

WHO = {"agent_id": "kana", "user_id": "hiroki"}
SECRET = made_secrets(1)[0][2]
REMOVED = "[secret removed: OpenAI key]"
STATED = "The deploy password is hunter2-blue, by the way."


@pytest.fixture
def agent(client: APIClient) -> str:
    return str(made(client.post(f"{API}/agents", {"agent_id": "kana"}))["agent_id"])


def complete(client: APIClient, *messages: dict[str, Any], **values: Any) -> Any:
    body = {"model": "kana", "user": "hiroki", "messages": list(messages), **values}
    return made(client.post(f"{API}/openai/chat/completions", body))


def said(content: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": content}


def test_the_model_and_the_client_get_what_was_written(client: APIClient, llm: LLMServer, agent: str) -> None:
    llm.answer(Reply(f"Set it as OPENAI_API_KEY={SECRET} in the shell."))
    question = said(f"My key is {SECRET}. How do I set it?")
    answer = complete(client, question)["choices"][0]["message"]["content"]
    assert SECRET in answer and SECRET in llm.asked[-1].text
    assert [SECRET in row.content for row in Message.objects.all()] == [False, False]
    assert all(REMOVED in row.content for row in Message.objects.all())


@pytest.mark.parametrize("path", ["chat", "openai/responses", "anthropic/v1/messages"])
def test_other_forms_of_the_chat_do_so_too(client: APIClient, llm: LLMServer, agent: str, path: str) -> None:
    text = f"My key is {SECRET}. How do I set it?"
    llm.answer(Reply(f"Set {SECRET}."))
    bodies: dict[str, dict[str, Any]] = {
        "chat": {**WHO, "message": text},
        "openai/responses": {"model": "kana", "user": "hiroki", "input": text},
        "anthropic/v1/messages": {
            "model": "kana", "max_tokens": 100, "metadata": {"user_id": "hiroki"}, "messages": [said(text)],
        },
    }  # fmt: skip
    assert SECRET in json.dumps(made(client.post(f"{API}/{path}", bodies[path])))
    assert SECRET in llm.asked[-1].text
    assert not Message.objects.filter(content__contains=SECRET).exists()


def test_a_conversation_with_secrets_is_recognised(client: APIClient, llm: LLMServer, agent: str) -> None:
    """Each message is stored once, in one session, though the client repeats what is not stored so."""
    history: list[dict[str, Any]] = []
    for number in range(4):
        llm.answer(Reply(f"Answer {number}: use {SECRET} as the key, which is long enough."))
        history.append(said(f"Question {number}: the key is {SECRET}, is it right?"))
        answer = complete(client, *history)["choices"][0]["message"]["content"]
        history.append(said(answer, "assistant"))
        assert llm.asked[-1].text.count(SECRET) >= number + 1
    assert Session.objects.count() == 1
    assert Message.objects.count() == len(history)


def test_results_of_tools_are_read_whole_and_stored_screened(client: APIClient, llm: LLMServer, agent: str) -> None:
    tools = [{"name": "read_file", "description": "Read.", "input_schema": {"type": "object", "properties": {}}}]
    llm.answer(Reply(calls=[("call-1", "read_file", {"path": f"/tmp?token={SECRET}"})]))
    first = made(client.post(f"{API}/chat", {**WHO, "message": "What is in .env?", "tools": tools}))
    llm.answer(Reply("It holds a key."))
    results = [{"tool_use_id": "call-1", "content": f"OPENAI_API_KEY={SECRET}"}]
    body = {**WHO, "session_id": first["session_id"], "tool_results": results, "tools": tools}
    made(client.post(f"{API}/chat", body))
    assert SECRET in json.dumps(llm.asked[-1].messages)
    assert SECRET not in json.dumps(list(Message.objects.values_list("content", "blocks")))


def test_an_image_whose_address_has_a_secret_is_stored_by_its_name(client: APIClient, agent: str) -> None:
    session = made(client.post(f"{API}/sessions", WHO))["id"]
    signed = f"https://files.example/a.png?sig={SECRET[8:48]}"
    blocks = [{"type": "text", "text": "Look."}, {"type": "image", "url": signed}]
    made(client.post(f"{API}/sessions/{session}/messages", {"role": "user", "content": blocks}))
    stored = Message.objects.get().blocks
    assert stored is not None
    assert stored[1] == {"type": "image", "name": "https://files.example/a.png?sig=[secret removed: URL token]"}


def test_a_repeated_client_message_id_with_a_secret_is_the_same_message(client: APIClient, agent: str) -> None:
    session = made(client.post(f"{API}/sessions", WHO))["id"]
    message = {"role": "user", "content": f"It is {SECRET}", "client_message_id": "m-1"}
    for _ in range(2):
        made(client.post(f"{API}/sessions/{session}/messages", message), 200, 201)
    assert Message.objects.get().content == f"It is {REMOVED}"


def test_what_was_removed_is_counted_and_not_named(client: APIClient, agent: str) -> None:
    session = made(client.post(f"{API}/sessions", WHO))["id"]
    made(client.post(f"{API}/sessions/{session}/messages", said(f"{SECRET} and AKIAQ2W3E4R5T6Y7U2I3")))
    made(client.post(f"{API}/memories", {**WHO, "content": f"The key is {SECRET}"}))
    entries = AuditEntry.objects.filter(verb="redact").order_by("at")
    assert [entry.details["removed"] for entry in entries] == [
        {"OpenAI key": 1, "AWS access key": 1}, {"OpenAI key": 1},
    ]  # fmt: skip
    metrics = {
        sample.labels["kind"]: sample.value
        for family in DatabaseCollector.registry().collect()
        for sample in family.samples
        if sample.name == "memoryhub_secrets_removed_today"
    }
    assert metrics == {"OpenAI key": 2, "AWS access key": 1}


def test_a_stated_password_is_kept_in_its_session_and_waits_for_review(
    client: APIClient, llm: LLMServer, agent: str
) -> None:
    session = made(client.post(f"{API}/sessions", WHO))["id"]
    made(client.post(f"{API}/sessions/{session}/messages", said(STATED)))
    assert Message.objects.get().content == STATED
    assert not MessageIndex.objects.exists()
    made(client.post(f"{API}/memories", {**WHO, "content": STATED}))
    assert Memory.objects.get().status == "pending"
    for body in ({}, {"session_id": made(client.post(f"{API}/sessions", WHO))["id"]}):
        context = made(client.post(f"{API}/context", {**WHO, **body, "message": "What is the deploy password?"}))
        assert "hunter2" not in json.dumps(context)
    own = made(client.post(f"{API}/context", {**WHO, "session_id": session, "message": "What is it?"}))
    assert "hunter2" in json.dumps(own)


@pytest.mark.parametrize(("policy", "status"), [("review", "pending"), ("keep", "active")])
def test_an_agent_may_keep_secrets(client: APIClient, policy: str, status: str) -> None:
    made(client.post(f"{API}/agents", {"agent_id": "kana", "policy": {"secrets": policy}}))
    session = made(client.post(f"{API}/sessions", WHO))["id"]
    made(client.post(f"{API}/sessions/{session}/messages", said(f"The key is {SECRET}")))
    made(client.post(f"{API}/memories", {**WHO, "content": f"The key is {SECRET}"}))
    assert SECRET in Message.objects.get().content
    assert (SECRET in Memory.objects.get().content, Memory.objects.get().status) == (True, status)
    assert MessageIndex.objects.exists() == (policy == "keep")


def test_only_an_operator_changes_the_policy(client: APIClient, agent: str) -> None:
    made(client.post(f"{API}/memories", {**WHO, "content": "Tea."}))
    writer = client_with_key(scopes=["read", "write"])
    answer = writer.patch(f"{API}/actors?agent_id=kana&user_id=hiroki", {"policy": {"secrets": "keep"}})
    assert answer.status_code == 403
