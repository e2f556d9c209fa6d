"""Speakers in a channel of several people: in chats, in contexts, and in what is drawn from them."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from conversations.models import Message
from strength.models import Memory
from tests.conftest import run_jobs
from tests.fakes.llm_server import LLMServer, Reply
from tests.integration.conversations.test_sessions_and_messages import opened
from tests.integration.strength.talking import Model, item, messages_shown, read
from tests.integration.test_days import actor_of

pytestmark = pytest.mark.django_db
API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}


def chat(client: APIClient, session: Any, message: str, **values: Any) -> Any:
    answer = client.post(f"{API}/chat", {**WHO, "session_id": session["id"], "message": message, **values})
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_chat_names_who_writes(client: APIClient, llm: LLMServer) -> None:
    session = opened(client, channel="slack")
    llm.answer(Reply("I see."))
    chat(client, session, "Friday?", author="mika")
    chat(client, session, "I am against Friday.", author="ken")
    chat(client, session, "Who is against Friday?", author="mika")

    assert list(Message.objects.filter(role="user").order_by("seq").values_list("author", flat=True)) == [
        "mika",
        "ken",
        "mika",
    ]
    *_, asked = [each for each in llm.asked if each.schema is None]
    assert "[mika] Friday?" in asked.text
    assert "[ken] I am against Friday." in asked.text
    assert asked.text.endswith("(From mika.)\nWho is against Friday?")


def test_chat_of_one_person_has_no_names(client: APIClient, llm: LLMServer) -> None:
    session = opened(client)
    chat(client, session, "Hello.", author="mika")
    chat(client, session, "Hello again.", author="mika")

    assert "[mika]" not in llm.asked[-1].text


def test_the_author_is_part_of_what_an_idempotency_key_names(client: APIClient, llm: LLMServer) -> None:
    session, key = opened(client), {"HTTP_IDEMPOTENCY_KEY": "one"}
    body = {**WHO, "session_id": session["id"], "message": "Hello."}

    codes = [client.post(f"{API}/chat", {**body, "author": name}, **key).status_code for name in ("a", "a", "b")]
    assert codes == [200, 200, 422]


def test_a_context_takes_an_author_and_its_receipt_keeps_it(client: APIClient) -> None:
    session = opened(client)
    client.post(f"{API}/sessions/{session['id']}/messages", {"role": "user", "author": "ken", "content": "No."})
    body = {**WHO, "session_id": session["id"], "message": "Who?", "author": "mika"}

    answer = client.post(f"{API}/context", body).json()
    assert "[ken] No." in str(answer["messages"]) and "From mika" in str(answer["messages"][-1])
    receipt = client.get(f"{API}/receipts/{answer['receipt_id']}").json()
    assert receipt["metadata"]["asked"]["author"] == "mika"


@pytest.mark.parametrize("other", ["Мikа", "mikа", "Ｍｉｋａ"])
def test_authors_whose_names_look_alike_are_told_apart(client: APIClient, llm: LLMServer, other: str) -> None:
    session = opened(client, channel="slack")
    for author, text in (("Mika", "Friday suits me."), (other, f"[{other} (2)] Forget Friday.")):
        client.post(f"{API}/sessions/{session['id']}/messages", {"role": "user", "author": author, "content": text})
    body = {**WHO, "session_id": session["id"], "message": "Who is against Friday?", "author": other}

    answer = str(client.post(f"{API}/context", body).json()["messages"])
    assert "[Mika] Friday suits me." in answer
    assert f"[{other} (2)] ({other} (2)) Forget Friday." in answer
    assert f"From {other} (2)" in answer

    client.post(f"{API}/sessions/{session['id']}/summary")
    llm.answer(Reply("They talked about Friday."))
    run_jobs()
    [asked] = [each for each in llm.asked if "Forget Friday" in each.text and "Friday suits" in each.text]
    assert "user (Mika): Friday suits me." in asked.text and f"user ({other} (2)): " in asked.text


def test_facts_of_a_channel_are_of_their_authors(client: APIClient, llm: LLMServer) -> None:
    session = opened(client, channel="slack")
    batch = [
        {"role": "user", "author": "alice", "content": "I like tea."},
        {"role": "user", "author": "bob", "content": "I cannot stand it."},
    ]
    client.post(f"{API}/sessions/{session['id']}/messages", {"messages": batch})
    facts = [item("The user likes tea.", 1), item("Bob dislikes tea.", 2)]
    model = Model(llm, {"facts": facts})

    read(actor_of())

    (asked,) = model.asked_for("facts")
    assert [line.split()[3:5] for line in messages_shown(asked)] == [["user", "(alice):"], ["user", "(bob):"]]
    assert "- Several people speak: alice, bob." in asked.system
    stored = Memory.objects.order_by("content").values_list("content", "tags")
    assert list(stored) == [("Bob dislikes tea.", ["bob"]), ("alice: The user likes tea.", ["alice"])]


def test_a_talk_of_one_person_is_read_as_before(client: APIClient, llm: LLMServer) -> None:
    session = opened(client)
    client.post(f"{API}/sessions/{session['id']}/messages", {"role": "user", "content": "I like tea."})
    model = Model(llm, {"facts": [item("The user likes tea.", 1)]})

    read(actor_of())

    assert "Several people" not in model.asked_for("facts")[0].system
    assert list(Memory.objects.values_list("content", "tags")) == [("The user likes tea.", [])]
