"""What a user asks to be forgotten is not recalled for it, and waits for a person (SPEC C9)."""

from typing import Any
from uuid import uuid4

import pytest
from django.db.models import F
from django.test import Client
from rest_framework.test import APIClient

from conversations.actions import context
from conversations.models import Receipt
from memoryhub.jobs.executor import run
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Offer
from memoryhub.tenancy.models import Actor
from strength.models import Memory
from tests.conftest import client_with_key
from tests.factories.planting import API, made
from tests.fakes.llm_server import LLMServer, Reply

pytestmark = pytest.mark.django_db
NAMES = {"agent_id": "kana", "user_id": "hiroki"}
REQUESTS = [
    ("Hiroki's phone number is 090-1234-5678.", "Hiroki has a cat called Momo.", "Please forget my phone number."),
    ("電話番号は090-1234-5678です。", "猫の名前はモモです。", "私の電話番号を忘れてください。"),
]


def say(client: APIClient, message: str) -> None:
    session = made(client.post(f"{API}/sessions", NAMES))["id"]
    made(client.post(f"{API}/sessions/{session}/messages", {"role": "user", "content": message}))
    for job in Job.objects.filter(kind="hold_forgotten"):
        run(Offer(job.pk, "hold_forgotten"), worker=uuid4())


@pytest.mark.parametrize("kind", ["note", "fact"])
@pytest.mark.parametrize(("private", "other", "request_text"), REQUESTS)
def test_nothing_is_recalled_and_a_person_decides(
    client: APIClient, admin_client: Client, private: str, other: str, request_text: str, kind: str
) -> None:
    told = {"kind": kind, "content": private}, {"content": other}
    kept = [made(client.post(f"{API}/memories", {**NAMES, **each}))["id"] for each in told]
    asked: Any = made(client.post(f"{API}/context", {**NAMES, "message": request_text}))
    assert asked["metadata"]["forget_request"] in request_text
    assert private not in str(asked["messages"]) and asked["metadata"]["semantic_memory_count"] == 0
    say(client, request_text)
    states = [Memory.objects.get(pk=key).status for key in kept]
    assert states == ["pending", "active"]
    revision = made(client.get(f"{API}/memories/{kept[0]}/revisions"))["results"]
    assert any(
        each["verb"] == "ask_to_forget" and each["reason"] == "The user asked to forget it." for each in revision
    )
    page = admin_client.get("/admin/review/").content.decode()
    assert "The user asked that it be forgotten." in page and "stored as pending on request" not in page
    made(client.post(f"{API}/memories/{kept[0]}/approve", {"reason": "He wants to keep it."}))
    say(client, "Don't forget to buy milk.")
    assert Memory.objects.get(pk=kept[0]).status == "active"


SURGERY = [
    ("Hiroki had a surgery in May.", "My surgery? Toss it, would you.", "my surgery"),
    ("5月に手術を受けた。", "手術のことは忘却の彼方へ", "手術"),
]


def found(number: int, about: str) -> dict[str, Any]:
    return {"message": number, "kind": "forget", "about": about}


@pytest.mark.parametrize(("private", "request_text", "about"), SURGERY)
def test_a_model_reads_what_words_do_not_decide(
    client: APIClient, llm: LLMServer, private: str, request_text: str, about: str
) -> None:
    for text in (private, "Hiroki has a cat called Momo."):
        made(client.post(f"{API}/memories", {**NAMES, "content": text}))
    llm.answer(Reply(data={"messages": [found(1, about), found(7, "cat"), found(1, "everything about me")]}))
    say(client, request_text)
    assert sorted(Memory.objects.values_list("content", "status")) == sorted(
        [(private, "pending"), ("Hiroki has a cat called Momo.", "active")]
    )
    assert request_text in str(llm.asked[-1].messages) and request_text not in llm.asked[-1].system


def test_a_model_that_answers_nothing_usable_leaves_it_to_words(client: APIClient, llm: LLMServer) -> None:
    private, _other, request_text = REQUESTS[0]
    for text in (private, SURGERY[0][0]):
        made(client.post(f"{API}/memories", {**NAMES, "content": text}))
    llm.answer(Reply(data={"messages": "none"}))
    say(client, f"{SURGERY[0][1]}")
    say(client, request_text)
    assert dict(Memory.objects.values_list("content", "status")) == {private: "pending", SURGERY[0][0]: "active"}
    assert {job.state for job in Job.objects.filter(kind="hold_forgotten")} == {"done"}


def test_no_model_is_asked_about_other_messages(client: APIClient, llm: LLMServer) -> None:
    say(client, "What is the tallest mountain of Japan?")
    say(client, "Please forget my phone number.")
    assert not llm.asked


def test_an_untrusted_key_asks_in_vain(client: APIClient) -> None:
    private, _other, request_text = REQUESTS[0]
    made(client.post(f"{API}/memories", {**NAMES, "content": private}))
    say(client_with_key(is_trusted=False), request_text)
    assert Memory.objects.get().status == "active" and not Job.objects.filter(kind="hold_forgotten").exists()


@pytest.mark.parametrize("request_text", ["Forget everything you know about me.", "私のことは全部忘れてください。"])
def test_everything_waits_where_everything_is_to_be_forgotten(client: APIClient, request_text: str) -> None:
    for text in ("Hiroki's phone number is 090-1234-5678.", "Hiroki has a cat called Momo."):
        made(client.post(f"{API}/memories", {**NAMES, "content": text}))
    made(client.post(f"{API}/memories", {**NAMES, "user_id": "maya", "content": "Maya has a dog."}))
    say(client, request_text)
    assert sorted(Memory.objects.values_list("status", flat=True)) == ["active", "pending", "pending"]


def test_a_receipt_quotes_nothing_where_messages_were_deleted_meanwhile(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, _other, request_text = REQUESTS[0]
    made(client.post(f"{API}/memories", {**NAMES, "content": private}))
    assemble = context._assemble

    def interrupted(*given: Any) -> Any:
        Actor.objects.update(deletions=F("deletions") + 1)
        return assemble(*given)

    monkeypatch.setattr(context, "_assemble", interrupted)
    for message in (request_text, "What is his phone number?"):
        made(client.post(f"{API}/context", {**NAMES, "message": message}))
        receipt = Receipt.objects.latest("created_at")
        assert receipt.query == "" and "phone" not in f"{receipt.items}{receipt.metadata}"


def test_a_memory_deleted_while_a_context_is_assembled_leaves_no_excerpt(
    client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, _other, _request_text = REQUESTS[0]
    memory_id = made(client.post(f"{API}/memories", {**NAMES, "content": private}))["id"]
    assemble = context._assemble

    def interrupted(*given: Any) -> Any:
        assembly = assemble(*given)
        assert client.delete(f"{API}/memories/{memory_id}").status_code == 204
        return assembly

    monkeypatch.setattr(context, "_assemble", interrupted)
    made(client.post(f"{API}/context", {**NAMES, "message": "What is his phone number?"}))
    assert "090" in str(Receipt.objects.get().items)
    job = Job.objects.get(kind="clear_excerpts")
    assert job.due_at > job.created_at and private not in str(job.payload)
    run(Offer(job.pk, "clear_excerpts"), worker=uuid4())
    assert "090" not in str([item["excerpt"] for item in Receipt.objects.get().items])
