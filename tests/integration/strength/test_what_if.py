"""The effect of a change is announced exactly, and announcing changes nothing (SPEC X13)."""

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from rest_framework.test import APIClient

from conversations.models import Receipt
from memoryhub.auth.principals import Scope
from memoryhub.tenancy.models import Actor
from strength.actions.what_if import what_if
from strength.models import Memory, Merge
from tests.conftest import client_with_key
from tests.integration.strength.conftest import NOW, Write
from tests.integration.strength.trying import PERSON, a_trial, announced, contexts_now, fill

API = "/api/v1"
NAMES = {"agent_id": "kana", "user_id": "hiroki"}
pytestmark = pytest.mark.django_db


def remember(client: APIClient, content: str, **values: Any) -> str:
    answer = client.post(f"{API}/memories", {**NAMES, "content": content, **values})
    assert answer.status_code == 201, answer.content
    return str(answer.json()["id"])


def ask(client: APIClient, message: str, **values: Any) -> str:
    answer = client.post(f"{API}/context", {**NAMES, "message": message, **values})
    assert answer.status_code == 200, answer.content
    return str(answer.json()["receipt_id"])


def what_would(client: APIClient, memory_id: str, verb: str, **values: Any) -> Any:
    body = {"verb": verb, **({"values": values} if values else {})}
    answer = client.post(f"{API}/memories/{memory_id}/what-if", body)
    assert answer.status_code == 200, answer.content
    return answer.json()


def rows_of_all_tables() -> dict[str, Any]:
    tables = connection.introspection.table_names()
    with connection.cursor() as cursor:
        digests = {}
        for table in tables:
            cursor.execute(f"SELECT md5(coalesce(string_agg(t::text, ' ' ORDER BY t::text), '')) FROM \"{table}\" t")
            digests[table] = cursor.fetchone()[0]
    return digests


def test_an_edit_says_what_it_brings_in_and_pushes_out(client: APIClient) -> None:
    for place in range(3):
        remember(client, f"The train to Kyoto leaves from platform {place}.")
    memory = remember(client, "The cat sleeps all day long.")
    few = {"options": {"semantic_memory_limit": 2, "include_profile": False}}
    asked = ask(client, "Which platform does the train to Kyoto leave from?", **few)
    other = ask(client, "What does the cat do?", **few)
    effect = what_would(client, memory, "edit", content="The train to Kyoto leaves from platform 9.")
    assert (effect["contexts"], effect["held_before"], effect["held_after"]) == (2, 1, 1)
    by_receipt = {each["receipt_id"]: each for each in effect["changed"]}
    assert by_receipt.keys() == {asked, other}
    [pushed] = effect["pushes_out"]
    assert "leaves from platform" in pushed["excerpt"] and pushed["contexts"] == 1
    changed = by_receipt[asked]
    assert [changed[side]["holds_memory"] for side in ("before", "after")] == [False, True]
    assert [item["source_id"] for item in changed["after"]["only"]] == [memory]
    assert [item["source_id"] for item in changed["before"]["only"]] == [pushed["source_id"]]
    assert not by_receipt[other]["after"]["holds_memory"]


def test_an_edit_of_words_alone_is_a_change_of_the_same_entry(client: APIClient) -> None:
    memory = remember(client, "The user likes green tea.")
    ask(client, "Which tea do I like?")
    [changed] = what_would(client, memory, "edit", content="The user likes green tea very much.")["changed"]
    assert [[item["excerpt"] for item in changed[side]["only"]] for side in ("before", "after")] == [
        ["The user likes green tea."],
        ["The user likes green tea very much."],
    ]


def test_what_changes_no_context_says_so(client: APIClient) -> None:
    memory = remember(client, "The user likes green tea.")
    ask(client, "Which tea do I like?")
    effect = what_would(client, memory, "edit", tags=["drinks"])
    assert (effect["contexts"], effect["held_before"], effect["held_after"], effect["changed"]) == (1, 1, 1, [])


@pytest.mark.parametrize("verb", ["edit", "archive", "reject", "pin", "delete"])
def test_announcing_changes_no_row_of_any_table(client: APIClient, verb: str) -> None:
    memory = remember(client, "The user likes green tea.")
    remember(client, "The user dislikes black tea.")
    ask(client, "Which tea do I like?")
    before = rows_of_all_tables()
    values = {"content": "The user likes coffee."} if verb == "edit" else {}
    what_would(client, memory, verb, **values)
    changed = {table for table, digest in rows_of_all_tables().items() if digest != before[table]}
    assert changed <= {"memoryhub_apikey"}  # the time of its last use


def test_a_merge_is_announced(client: APIClient, actor: Actor, write: Write) -> None:
    kept, absorbed = write("The user rides a red bicycle."), write("The user rides the red bicycle.")
    ask(client, "What do I ride?", options={"include_profile": False})
    proposal = Merge.objects.create(
        actor=actor, kept=kept, absorbed=absorbed, kept_version=kept.version, absorbed_version=absorbed.version,
        likeness=0.9, created_at=NOW,
    )  # fmt: skip
    effect = client.post(f"{API}/merges/{proposal.pk}/what-if", {}).json()
    assert [item["source_id"] for item in effect["pushes_out"]] in ([], [str(absorbed.pk)])
    turned = client.post(f"{API}/merges/{proposal.pk}/what-if", {"keep_id": str(absorbed.pk)}).json()
    assert turned["held_after"] == 1
    assert Merge.objects.get().state == "proposed"


def test_trials_and_deleted_messages_are_no_contexts(client: APIClient, actor: Actor, write: Write) -> None:
    memory = write("The user likes green tea.")
    ask(client, "Which tea do I like?")
    receipts = Receipt.objects.filter(actor=actor)
    receipts.update(query="")
    ask(client, "Which tea?")
    receipts.exclude(query="").update(metadata={"is_trial": True})
    ask(client, "What tea do I drink?")
    assert what_would(client, str(memory.pk), "archive")["contexts"] == 1


def test_a_context_is_that_of_its_place_in_the_session(client: APIClient) -> None:
    memory = remember(client, "The user likes green tea.")
    session = client.post(f"{API}/sessions", NAMES).json()["id"]
    texts = ["Good morning", "What tea do I like?", "And what else?"]
    for text in texts[:2]:
        client.post(f"{API}/sessions/{session}/messages", {"role": "user", "content": text})
    ask(client, "What tea do I like?", session_id=session)
    client.post(f"{API}/sessions/{session}/messages", {"role": "user", "content": texts[2]})
    row = Memory.objects.select_related("actor__agent").get(pk=memory)
    effect = what_if(memory=row, verb="archive", values={}, expected_version=None, by=PERSON, now=NOW)
    [each] = effect.comparisons
    assert each.before is not None
    spoken = [item["excerpt"] for item in each.before.items if item["layer"] == "working"]
    assert spoken == ["Good morning"]


def test_an_agents_own_memory_is_looked_up_in_the_contexts_of_its_users(client: APIClient) -> None:
    answer = client.post(f"{API}/memories", {"agent_id": "kana", "content": "The office closes at six."})
    for user in ("hiroki", "mai"):
        client.post(f"{API}/context", {"agent_id": "kana", "user_id": user, "message": "When does the office close?"})
    client.post(f"{API}/context", {"agent_id": "yuno", "user_id": "mai", "message": "When does the office close?"})
    memory = answer.json()["id"]
    effect = what_would(client, memory, "archive")
    assert (effect["contexts"], effect["held_before"], effect["held_after"]) == (2, 2, 0)
    assert {each["user_id"] for each in effect["changed"]} == {"hiroki", "mai"}


def test_it_is_refused_as_the_change_itself(client: APIClient) -> None:
    memory = remember(client, "The user likes green tea.")
    address = f"{API}/memories/{memory}/what-if"
    ask(client, "Which tea do I like?")

    def status(by: APIClient, body: Any, **headers: str) -> int:
        return int(by.post(address, body, headers=headers).status_code)

    archive = {"verb": "archive"}
    assert status(client, archive) == 200
    assert status(client, {"verb": "approve"}) == 409
    assert status(client, {"verb": "edit", "values": {"content": ""}}) == 400
    assert status(client, archive, if_match='"7"') == 412
    assert status(client_with_key(is_trusted=False), archive) == 403
    assert status(client_with_key(scopes=[Scope.READ]), archive) == 403
    numbers = client_with_key(scopes=[Scope.WRITE]).post(address, archive).json()
    assert (numbers["contexts"], numbers["held_before"], numbers["held_after"]) == (1, 1, 0)
    assert "tea" not in str(numbers)
    assert status(client_with_key(agent_ids=["yuno"]), archive) == 404
    assert status(client_with_key(agent_ids=["kana"], user_id="mai"), archive) == 404
    assert status(client_with_key(agent_ids=["kana"], user_id="hiroki"), archive) == 200


@pytest.mark.parametrize("seed", range(4))
def test_what_is_announced_is_what_happens(
    actor: Actor, seed: int, django_capture_on_commit_callbacks: Callable[..., Any]
) -> None:
    dice, now = random.Random(seed), NOW + timedelta(days=30)
    fill(actor, dice, memories=40, contexts=6, now=now - timedelta(hours=1))
    receipts = list(Receipt.objects.filter(actor=actor))
    for _ in range(5):
        trial = a_trial(actor, dice, now)
        effect = trial.announce()
        assert announced(effect, "before") == contexts_now(receipts, by=PERSON, now=now), trial.name
        with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
            trial.make()
        assert announced(effect, "after") == contexts_now(receipts, by=PERSON, now=now), trial.name


def test_policies_of_an_agent_and_of_a_user_are_tried(client: APIClient) -> None:
    remember(client, "The user likes green tea.")
    ask(client, "Which tea do I like?")
    client.post(f"{API}/context", {"agent_id": "kana", "user_id": "mai", "message": "Which tea do I like?"})
    without = {"policy": {"include_profile": False, "include_semantic_memory": False}}
    of_agent = client.post(f"{API}/agents/kana/what-if", without).json()
    of_user = client.post(f"{API}/actors/what-if", {**NAMES, **without}).json()
    assert (of_agent["contexts"], of_user["contexts"]) == (2, 1)
    for effect in (of_agent, of_user):
        assert [item["excerpt"] for item in effect["pushes_out"]] == ["The user likes green tea."]
        assert (effect["held_before"], effect["held_after"]) == (0, 0)
    small = client.post(f"{API}/actors/what-if", {**NAMES, "policy": {"max_tokens": 1}})
    assert small.status_code == 400
    assert client.post(f"{API}/actors/what-if", {**NAMES, "user_id": "nobody", **without}).status_code == 404
    assert client.post(f"{API}/agents/nobody/what-if", without).status_code == 404
    assert client_with_key(is_trusted=False).post(f"{API}/agents/kana/what-if", without).status_code == 403
    assert client_with_key(scopes=[Scope.READ]).post(f"{API}/agents/kana/what-if", without).status_code == 403
    assert client.get(f"{API}/agents/kana").json()["policy"] == {}
