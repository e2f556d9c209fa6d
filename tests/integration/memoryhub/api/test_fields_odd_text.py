"""Characters that no database stores do not cost the message: they are replaced, and the answer says so (SPEC H3)."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from conversations.models import Message, Session
from strength.models import Memory
from tests.factories.planting import API, made
from tests.fakes.llm_server import LLMServer, Reply

pytestmark = pytest.mark.django_db

WHO = {"agent_id": "kana", "user_id": "hiroki"}
ODD = '"tea \\u0000 and \\ud800 cake"'
MENDED = "tea \ufffd and \ufffd cake"


def post(client: APIClient, path: str, body: str) -> Any:
    return client.post(f"{API}/{path}", body, content_type="application/json")


@pytest.fixture
def session_id(client: APIClient) -> str:
    return str(made(client.post(f"{API}/sessions", WHO))["id"])


def test_a_message_is_stored_with_replaced_characters(client: APIClient, session_id: str) -> None:
    body = f'{{"role": "user", "content": {ODD}, "metadata": {{"note": {ODD}}}}}'
    answer = post(client, f"sessions/{session_id}/messages", body)
    assert (answer.status_code, answer["Replaced-Texts"]) == (201, "2")
    message = Message.objects.get()
    assert (message.content, message.metadata) == (MENDED, {"note": MENDED})


def test_results_of_tools_are_mended_in_openais_form(client: APIClient, session_id: str) -> None:
    call = '{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\\"a\\": \\"\\\\u0000\\"}"}}'
    body = f'{{"messages": [{{"role": "assistant", "tool_calls": [{call}]}},' + (
        f'{{"role": "tool", "tool_call_id": "c1", "content": {ODD}}}]}}'
    )
    made(post(client, f"sessions/{session_id}/messages", body))
    called, result = Message.objects.order_by("seq")
    assert called.blocks is not None and called.blocks[0]["input"] == {"a": "\ufffd"}
    assert result.blocks is not None and result.blocks[0]["content"] == MENDED


def test_a_compatible_client_gets_its_answer(client: APIClient, llm: LLMServer) -> None:
    made(client.post(f"{API}/agents", {"agent_id": "kana"}))
    llm.answer(Reply("With pleasure."))
    body = f'{{"model": "kana", "user": "hiroki", "messages": [{{"role": "user", "content": {ODD}}}]}}'
    answer = post(client, "openai/chat/completions", body)
    assert (answer.status_code, answer["Replaced-Texts"]) == (200, "1")
    assert Message.objects.filter(content=MENDED).exists()


def test_whole_texts_have_no_note(client: APIClient) -> None:
    answer = post(client, "memories", '{"agent_id": "kana", "content": "tea \\ud83c\\udf75"}')
    assert answer.status_code == 201 and "Replaced-Texts" not in answer
    assert Memory.objects.get().content == "tea 🍵"


@pytest.mark.parametrize("body", ['{"agent_id": "kana", "user_id": "a\\u0000b"}', '{"agent_id": "ka\\u0000na"}'])
def test_ids_are_refused(client: APIClient, body: str) -> None:
    assert post(client, "sessions", body).status_code == 400
    assert not Session.objects.exists()


def test_a_key_is_refused(client: APIClient) -> None:
    answer = post(client, "sessions", '{"agent_id": "kana", "metadata": {"\\u0000": 1}}')
    assert answer.status_code == 400 and "a key" in answer.content.decode()


@pytest.mark.parametrize("text", ["\u200b", " \u2060\ufeff ", "\u200d\n"])
def test_what_renders_as_nothing_is_empty(client: APIClient, session_id: str, text: str) -> None:
    for content in (text, [{"type": "text", "text": text}]):
        answer = client.post(f"{API}/sessions/{session_id}/messages", {"role": "user", "content": content})
        assert answer.status_code == 400, content
    assert client.post(f"{API}/memories", {**WHO, "content": text}).status_code == 400
