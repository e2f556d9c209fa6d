"""Cues: words by which a memory is found although its text lacks them."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from memoryhub.search.bm25 import CUE_SHARE, term_id
from memoryhub.search.maintenance import reindex
from memoryhub.tenancy.models import Actor
from strength.actions.memories import NewMemory
from strength.actions.write_many import write_memories
from strength.domain.memories import MAX_CUES_LENGTH, Status
from strength.models import Memory, MemoryIndex
from tests.conftest import client_with_key
from tests.fakes.llm_server import LLMServer
from tests.integration.strength.conftest import BY, NOW, Write
from tests.integration.strength.talking import Model, item, read, talk

pytestmark = pytest.mark.django_db
API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}
TEXT = "The user gets hives from walnuts."
CUES = "allergy nut dessert アレルギー"


def write_by_api(client: APIClient, **values: Any) -> dict[str, Any]:
    answer = client.post(f"{API}/memories", {**WHO, "content": TEXT, **values})
    assert answer.status_code == 201, answer.content
    written: dict[str, Any] = answer.json()
    return written


def found(client: APIClient, query: str) -> list[str]:
    results = client.post(f"{API}/memories/search", {**WHO, "query": query}).json()["results"]
    return [each["memory"]["content"] for each in results]


@pytest.mark.parametrize("query", ["any allergy?", "アレルギー", "dessert"])
def test_a_memory_is_found_by_its_cues(client: APIClient, query: str) -> None:
    written = write_by_api(client, cues=CUES)
    assert written["cues"] == CUES
    assert found(client, query) == [TEXT]


def test_contexts_use_cues_and_do_not_show_them(client: APIClient) -> None:
    write_by_api(client, cues=CUES)
    answer = client.post(f"{API}/context", {**WHO, "message": "Which dessert could I bring?"}).json()
    assert TEXT in str(answer["messages"])
    assert "allergy" not in str(answer)


def test_cues_weigh_half_of_a_word_of_the_text(client: APIClient) -> None:
    write_by_api(client, cues="allergy walnuts")
    weights = MemoryIndex.objects.get().words
    by_term = dict(zip(weights.indices(), weights.values(), strict=True))
    assert by_term[term_id("allergi")] == pytest.approx(CUE_SHARE * by_term[term_id("walnut")], rel=1e-6)


def test_a_change_of_cues_is_a_version_that_can_be_undone(client: APIClient) -> None:
    written = write_by_api(client)
    address = f"{API}/memories/{written['id']}"
    changed = client.patch(address, {"cues": CUES}, headers={"If-Match": '"1"'}).json()
    assert (changed["version"], changed["cues"], found(client, "allergy")) == (2, CUES, [TEXT])
    emptied = client.patch(address, {"cues": ""}, headers={"If-Match": '"2"'}).json()
    assert (emptied["cues"], found(client, "allergy")) == ("", [])
    revision = client.get(f"{address}/revisions").json()["results"][1]["id"]
    restored = client.post(f"{address}/restore", {"revision_id": revision}, headers={"If-Match": '"3"'})
    assert restored.status_code == 200, restored.content
    assert found(client, "allergy") == [TEXT]
    edited = client.patch(address, {"content": "The user gets hives from pecans."}, headers={"If-Match": '"4"'})
    assert edited.json()["cues"] == CUES
    assert found(client, "allergy") == ["The user gets hives from pecans."]


def test_an_untrusted_key_may_not_send_any(client: APIClient) -> None:
    stranger = client_with_key(is_trusted=False)
    refused = stranger.post(f"{API}/memories", {**WHO, "content": TEXT, "cues": "everything"})
    assert (refused.status_code, "cues" in str(refused.json())) == (400, True)
    own = stranger.post(f"{API}/memories", {**WHO, "content": TEXT}).json()
    changed = stranger.patch(f"{API}/memories/{own['id']}", {"cues": "everything"}, headers={"If-Match": '"1"'})
    assert changed.status_code == 400
    assert Memory.objects.get().cues == ""


def test_a_text_of_an_untrusted_key_has_no_cues_of_the_former_text(client: APIClient) -> None:
    """Otherwise what it writes would be found by words that a trusted source wrote for another text."""
    stranger = client_with_key(is_trusted=False)
    written = stranger.post(f"{API}/memories", {**WHO, "content": TEXT}).json()
    address = f"{API}/memories/{written['id']}"
    with_cues = client.patch(address, {"cues": CUES}, headers={"If-Match": '"1"'}).json()
    assert (with_cues["cues"], with_cues["trust"]) == (CUES, "untrusted")
    edited = stranger.patch(address, {"content": "The user never travels."}, headers={"If-Match": '"2"'}).json()
    assert edited["cues"] == ""
    assert term_id("allergi") not in MemoryIndex.objects.get().words.indices()
    revision = client.get(f"{address}/revisions").json()["results"][1]["id"]
    restored = stranger.post(f"{address}/restore", {"revision_id": revision}, headers={"If-Match": '"3"'})
    assert restored.status_code == 400, restored.content


def test_too_many_are_refused(client: APIClient) -> None:
    refused = client.post(f"{API}/memories", {**WHO, "content": TEXT, "cues": "x" * (MAX_CUES_LENGTH + 1)})
    assert refused.status_code == 400
    assert "cues" in str(refused.json())


@pytest.mark.parametrize("writes_many", [False, True])
def test_memories_of_untrusted_sources_keep_none(actor: Actor, write: Write, writes_many: bool) -> None:
    session = talk(actor, "I get hives from walnuts.", channel="mail")
    actor.agent.policy = {"untrusted_channels": ["mail"]}
    actor.agent.save()
    new: dict[str, Any] = {"channel": "mail", "cues": CUES, "source_message_ids": [session.messages.get().pk]}
    if writes_many:
        write_memories(actor=actor, news=[NewMemory(content=TEXT, **new)], by=BY, now=NOW)
    else:
        write(TEXT, **new)
    memory = Memory.objects.get()
    assert (memory.status, memory.cues) == (Status.PENDING, "")
    assert term_id("allergi") not in MemoryIndex.objects.get().words.indices()


def test_a_reindex_and_a_batch_give_the_same_rows(client: APIClient, actor: Actor) -> None:
    write_by_api(client, cues=CUES)
    alone = MemoryIndex.objects.get().words.to_text()
    MemoryIndex.objects.update(words_version=1)
    reindex(batch_size=10, progress=lambda _done: None)
    assert MemoryIndex.objects.get().words.to_text() == alone
    Memory.objects.all().delete()
    client.post(f"{API}/memories/batch", {**WHO, "memories": [{"content": TEXT, "cues": CUES}]})
    assert MemoryIndex.objects.get().words.to_text() == alone


def test_secrets_are_removed_from_cues(client: APIClient) -> None:
    secret = "sk-ant-api03-" + "a1B2c3D4" * 12
    assert secret not in write_by_api(client, cues=f"key {secret}")["cues"]


def test_extraction_stores_the_cues_of_a_models_answer(actor: Actor, llm: LLMServer) -> None:
    talk(actor, "I get hives from walnuts, and I live in Kobe.")
    facts = [item(TEXT, cues=["allergy\n", "nut  "]), item("The user lives in Kobe.", cues=None)]
    Model(llm, {"facts": facts})
    read(actor)
    assert dict(Memory.objects.values_list("content", "cues")) == {TEXT: "allergy nut", "The user lives in Kobe.": ""}
