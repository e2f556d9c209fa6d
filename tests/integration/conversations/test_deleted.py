"""What was deleted is not stored again by a client that shows it, a repeat or an import (SPEC C7)."""

from pathlib import Path

import pytest
from django.core.management import call_command
from rest_framework.test import APIClient

from conversations.models import DeletedMessage, Message, Session
from tests.factories.foreign_exports import write_export
from tests.factories.planting import API, made
from tests.integration.conversations.test_client_history import Program, program_of

pytestmark = pytest.mark.django_db
NAMES = {"agent_id": "kana", "user_id": "hiroki"}


@pytest.fixture
def program() -> Program:
    return program_of("hiroki")


@pytest.mark.parametrize("name", [None, "conversation-7"])
@pytest.mark.parametrize("first", [1, 3])
def test_a_client_shows_it_again(program: Program, client: APIClient, name: str | None, first: int) -> None:
    talk = program.ask([], "My cat is called Momo.", name=name)
    talk = program.ask(talk, "The salary is 84,300 dollars.", name=name)
    session = Session.objects.get()
    made(client.post(f"{API}/sessions/{session.pk}/forget", {"from_seq": first, "to_seq": 4}), 200)
    talk = program.ask(talk, "What is my cat called?", name=name)
    program.ask(talk, "And yours?", name=name)
    contents = [row.content for row in Message.objects.order_by("created_at", "seq")]
    kept = [] if first == 1 else [talk[0].content, talk[1].content]
    assert contents[: len(kept) + 1] == [*kept, "What is my cat called?"]
    assert not [text for text in contents if "84,300" in text or (first == 1 and "is called Momo" in text)]


def test_a_deleted_session_is_shown_again(program: Program, client: APIClient) -> None:
    talk = program.ask([], "The salary is 84,300 dollars.", name="conversation-7")
    made(client.delete(f"{API}/sessions/{Session.objects.get().pk}"), 200)
    program.ask(talk, "What is my cat called?", name="conversation-7")
    assert Message.objects.get(seq=1).content == "What is my cat called?"
    assert Message.objects.count() == 2


def test_a_question_that_is_asked_again_is_stored(program: Program, client: APIClient) -> None:
    program.ask([], "The salary is 84,300 dollars.", name="conversation-7")
    made(client.delete(f"{API}/sessions/{Session.objects.get().pk}"), 200)
    program.ask([], "The salary is 84,300 dollars.", name="conversation-7")
    assert Message.objects.count() == 2


def test_a_repeat_of_its_id_is_left_out(client: APIClient) -> None:
    session = made(client.post(f"{API}/sessions", NAMES))
    path = f"{API}/sessions/{session['id']}/messages"
    batch = [{"role": "user", "content": f"number {n}", "client_message_id": str(n)} for n in range(3)]
    rows = made(client.post(path, {"messages": batch}))["results"]
    made(client.delete(f"{API}/messages/{rows[1]['id']}"), 200)
    again = client.post(path, {"messages": batch})
    assert (again.status_code, [row["seq"] for row in again.json()["results"]]) == (200, [1, 3])
    assert client.post(path, batch[1]).json() == {"results": []}
    said = made(client.post(path, {"role": "user", "content": "number 1"}))["results"]
    assert [row["seq"] for row in said] == [4], "without an id it is said, not sent, again"


def test_a_text_with_a_secret_is_left_out_as_well(program: Program, client: APIClient) -> None:
    talk = program.ask([], "My cat is called Momo.", name="conversation-7")
    talk = program.ask(talk, f"My key is ghp_{'aB3dE6gH9j' * 4}, keep it.", name="conversation-7")
    session = Session.objects.get()
    made(client.post(f"{API}/sessions/{session.pk}/forget", {"from_seq": 3, "to_seq": 4}), 200)
    program.ask(talk, "What is my cat called?", name="conversation-7")
    assert [row.seq for row in Message.objects.order_by("seq")] == [1, 2, 5, 6]


def test_an_import_of_the_same_file(client: APIClient, tmp_path: Path) -> None:
    path = write_export("chatgpt", tmp_path, count=2)
    call_command("import", str(path), "--agent", "kana", "--user", "hiroki")
    one, other = Session.objects.order_by("started_at", "pk")
    row = Message.objects.filter(session_id=one.pk, seq=2).get()
    made(client.delete(f"{API}/messages/{row.pk}"), 200)
    made(client.delete(f"{API}/sessions/{other.pk}"), 200)
    left = set(Message.objects.values_list("pk", flat=True))
    call_command("import", str(path), "--agent", "kana", "--user", "hiroki")
    assert set(Message.objects.values_list("pk", flat=True)) == left
    assert Session.objects.get() == one


def test_no_words_are_kept(client: APIClient) -> None:
    session = made(client.post(f"{API}/sessions", NAMES))
    made(client.post(f"{API}/sessions/{session['id']}/messages", {"role": "user", "content": "hunter2"}))
    made(client.delete(f"{API}/sessions/{session['id']}"), 200)
    row = DeletedMessage.objects.get()
    assert (str(row.session_id), len(row.digest)) == (session["id"], 32)
