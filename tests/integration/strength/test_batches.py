"""Many memories in one call, and the feed of changes."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.utils import timezone
from rest_framework.test import APIClient

from conversations.models import Message
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import command
from memoryhub.errors import DomainError
from memoryhub.jobs.models import Job
from strength.actions.curation import apply_transition, delete_memory
from strength.actions.memories import NewMemory, write_memory
from strength.actions.write_many import write_memories
from strength.domain.memories import Kind, Source
from strength.models import Memory, MemoryIndex, MemoryNumbers, MemoryRevision
from tests.conftest import client_with_key, run_jobs
from tests.integration.strength.conftest import BY, NOW
from tests.integration.strength.talking import talk

API = "/api/v1"
COLOURS = ("red", "blue", "green", "yellow", "white")
THINGS = ("boat", "bicycle", "lantern", "kettle")
PLACES = ("harbour", "temple", "market", "bridge", "station")
NAMES = {"agent_id": "kana", "user_id": "hiroki"}


def batch(client: APIClient, *memories: Any) -> list[Any]:
    answer = client.post(f"{API}/memories/batch", {**NAMES, "memories": list(memories)})
    assert answer.status_code == 200, answer.content
    results: list[Any] = answer.json()["results"]
    return results


def test_batch_writes_what_single_calls_write(client: APIClient) -> None:
    given = {"kind": "preference", "tags": ["tea"], "metadata": {"a": 1}, "strength": 1.5, "learnings": {"cook": "hot"},
             "strength_by_perspective": {"cook": 0.5}, "confidence": 0.8, "channel": "slack"}  # fmt: skip
    [one] = batch(client, {"content": "likes green tea", **given})
    assert (one["result"], one["status"], one["errors"]) == ("created", "active", [])
    other = client.post(f"{API}/memories", {**NAMES, "content": "likes black coffee", **given}).json()
    batched = client.get(f"{API}/memories/{one['id']}").json()
    differing = {"id", "content", "created_at", "updated_at"}
    assert {key: batched[key] for key in batched.keys() - differing} == {
        key: other[key] for key in other.keys() - differing
    }
    revisions = [
        MemoryRevision.objects.values("verb", "changed_after", "beside", "number").get(memory_id=key)
        for key in (one["id"], other["id"])
    ]
    for revision in revisions:
        del revision["changed_after"]["content"], revision["beside"]["mark"]
    assert revisions[0] == revisions[1]
    assert MemoryIndex.objects.filter(memory_id=one["id"]).count() == 1
    found = client.post(f"{API}/memories/search", {**NAMES, "query": "green tea"}).json()["results"]
    assert found[0]["memory"]["id"] == one["id"]
    assert MemoryIndex.repair() == 0


def test_an_item_of_no_kind_keeps_no_other_out(client: APIClient) -> None:
    results = batch(client, None, 5, [], {"content": "likes tea"})
    assert [each["result"] for each in results] == ["refused"] * 3 + ["created"]


def test_batch_answers_for_each_item_in_order(client: APIClient) -> None:
    known = client.post(f"{API}/memories", {**NAMES, "content": "likes cake"}).json()
    gone = client.post(f"{API}/memories", {**NAMES, "content": "was born in Osaka in spring"}).json()
    assert client.delete(f"{API}/memories/{gone['id']}").status_code == 204
    results = batch(
        client,
        {"content": "lives in Kyoto"},
        {"content": ""},
        {"content": "likes cake"},
        {"content": "lives in Kyoto"},
        {"content": "x", "nonsense": 1},
        "nothing",
        {"content": "was born in Osaka in the spring"},
        {
            "content": "drives a car",
            "confidence": 0.5,
            "valid_from": "2026-02-01T00:00:00Z",
            "valid_to": "2026-01-01T00:00:00Z",
        },
        {"content": "was born in Osaka in spring", "source": "task"},
        {"content": "has two cats"},
    )
    assert [(each["result"], each["status"]) for each in results] == [
        ("created", "active"), ("refused", None), ("reinforced", "active"), ("reinforced", "active"), ("refused", None),
        ("refused", None), ("created", "pending"), ("refused", None), ("refused", None), ("created", "active"),
    ]  # fmt: skip
    assert results[2]["id"] == known["id"]
    assert results[3]["id"] == results[0]["id"]
    errors = [(each["errors"][0]["field"], each["errors"][0]["code"]) for each in results if each["errors"]]
    assert errors == [
        ("content", "blank"),
        ("nonsense", "invalid"),
        ("body", "invalid"),
        ("valid_to", "invalid"),
        (None, "decided_against"),
    ]
    for wrong in ([], [{"content": "x"}] * 1_001):
        assert client.post(f"{API}/memories/batch", {**NAMES, "memories": wrong}).status_code == 400


def test_batch_of_an_untrusted_key_waits(client: APIClient) -> None:
    untrusted = client_with_key(is_trusted=False)
    [one] = batch(untrusted, {"content": "likes green tea", "pinned": True})
    assert one["status"] == "pending"


# The feed


def feed(client: APIClient, **query: Any) -> Any:
    answer = client.get(f"{API}/changes", {**NAMES, **query})
    assert answer.status_code == 200, answer.content
    return answer.json()


def bulk(client: APIClient, verb: str, status: int = 202, **values: Any) -> Any:
    answer = client.post(f"{API}/memories/bulk", {**NAMES, "verb": verb, **values})
    assert answer.status_code == status, answer.content
    return answer.json()


def count(client: APIClient, **query: Any) -> int:
    return int(client.get(f"{API}/memories/count", {**NAMES, **query}).json()["count"])


def test_memories_are_archived_by_a_filter_and_brought_back_as_one_batch(client: APIClient) -> None:
    batch(client, *({"content": f"tea {n}", "tags": ["tea"]} for n in range(3)), {"content": "coffee", "pinned": True})
    client.post(f"{API}/memories", {**NAMES, "user_id": "aoi", "content": "tea of another", "tags": ["tea"]})
    plan = bulk(client, "archive", 200, tag=["tea"], dry_run=True)
    assert (plan["count"], plan["batch"], {each["tags"][0] for each in plan["sample"]}) == (3, None, {"tea"})
    assert count(client) == 4, "a dry run changes nothing"
    assert bulk(client, "archive", 409, tag=["tea"], expected_count=2)["code"] == "wrong_state"
    ordered = bulk(client, "archive", tag=["tea"], expected_count=3, reason="spring cleaning")
    address = f"{API}/memories/bulk/{ordered['batch']}"
    assert client.get(address).json()["state"] == "queued"
    assert client.post(f"{address}/undo").status_code == 409, "it has not begun"
    late = client.post(f"{API}/memories", {**NAMES, "content": "tea 3", "tags": ["tea"]}).json()
    edited = client.get(f"{API}/memories", {**NAMES, "text": "tea 1"}).json()["results"][0]
    client.patch(f"{API}/memories/{edited['id']}", {"content": "tea of Uji"})
    run_jobs()
    assert client.get(address).json() == {
        "batch": ordered["batch"],
        "verb": "archive",
        "state": "done",
        "done": 3,
        "total": 3,
        "changed": 2,
    }
    kept = client.get(f"{API}/memories", NAMES).json()["results"]
    assert {each["content"] for each in kept} == {"coffee", "tea of Uji", late["content"]}
    archived = client.get(f"{API}/memories", {**NAMES, "status": "archived"}).json()["results"][0]
    [made, _] = client.get(f"{API}/memories/{archived['id']}/revisions").json()["results"]
    assert (made["reason"], made["by"]["kind"]) == ("spring cleaning", "key")
    assert client.post(f"{address}/undo", {"reason": "after all"}).json()["verb"] == "undo"
    run_jobs()
    assert count(client) == 5
    assert client.post(f"{address}/undo").status_code == 409, "once is enough"
    assert client_with_key(user_id="aoi").get(address).status_code == 404
    assert count(client, user_id="aoi") == 1


def test_labels_are_changed_by_a_filter_and_undone(client: APIClient) -> None:
    batch(client, *({"content": f"tea {n}", "tags": ["tea", "old"]} for n in range(3)), {"content": "coffee"})
    refused = bulk(client, "relabel", 400, tag=["tea"])
    assert refused["errors"][0]["field"] == "labels"
    assert bulk(client, "archive", 400, labels={"kind": "fact"})["errors"][0]["field"] == "labels"
    assert bulk(client, "relabel", 400, labels={})["errors"][0]["field"].startswith("labels")
    misspelt = bulk(client, "relabel", 400, labels={"add_tag": ["tea"], "kind": "fact"}, dry_run=True)
    assert misspelt["errors"][0]["field"] == "labels.add_tag"
    wrong = bulk(client, "relabel", 400, labels={"namespace": "/a/{who}/"}, dry_run=True)
    assert wrong["errors"][0]["field"] == "labels.namespace"
    labels = {"add_tags": ["green tea"], "remove_tags": ["old"], "kind": "preference", "namespace": "/tea/{actorId}/"}
    ordered = bulk(client, "relabel", tag=["tea"], labels=labels, reason="in one place")
    run_jobs()
    moved = client.get(f"{API}/memories", {**NAMES, "kind": "preference"}).json()["results"]
    assert len(moved) == 3 and all(each["tags"] == ["tea", "green tea"] for each in moved)
    assert all(each["namespace"].startswith("/tea/") and "{" not in each["namespace"] for each in moved)
    assert count(client, namespace=moved[0]["namespace"]) == 3
    [change, _] = client.get(f"{API}/memories/{moved[0]['id']}/revisions").json()["results"]
    assert (change["verb"], change["reason"]) == ("relabel", "in one place")
    client.post(f"{API}/memories/bulk/{ordered['batch']}/undo")
    run_jobs()
    assert count(client, kind="preference") == 0 and count(client, tag=["old"]) == 3


def test_a_stored_tag_that_is_a_secret_is_removed_and_not_stored_again(client: APIClient) -> None:
    secret, other = "sk-proj-" + "a1B2" * 12, "ghp_" + "a1B2c3D4e5F6" * 3
    client.post(f"{API}/agents", {"agent_id": NAMES["agent_id"], "policy": {"secrets": "keep"}})
    batch(client, {"content": "tea", "tags": ["tea", secret]}, {"content": "coffee", "tags": ["tea"]})
    client.patch(f"{API}/agents/{NAMES['agent_id']}", {"policy": {}})
    bulk(client, "relabel", tag=["tea"], labels={"add_tags": [f"new {other}"], "remove_tags": [secret]})
    run_jobs()
    stored = [each["tags"] for each in client.get(f"{API}/memories", NAMES).json()["results"]]
    assert all(secret not in tags and "tea" in tags for tags in stored) and len(stored) == 2
    payload = str(Job.objects.get(kind="curate_memories").payload)
    assert secret not in payload and other not in payload and "[secret removed" in payload


def test_memories_are_deleted_by_a_filter_once_their_number_is_stated(client: APIClient) -> None:
    batch(client, {"content": "tea", "tags": ["tea"]}, {"content": "more tea", "tags": ["tea"]}, {"content": "coffee"})
    refused = bulk(client, "delete", 400, tag=["tea"])
    assert refused["errors"][0]["field"] == "expected_count"
    assert bulk(client, "approve", 400)["errors"][0]["field"] == "verb"
    ordered = bulk(client, "delete", tag=["tea"], expected_count=2)
    run_jobs()
    address = f"{API}/memories/bulk/{ordered['batch']}"
    assert client.get(address).json()["changed"] == 2 and count(client, status="all") == 1
    answer = client.post(f"{address}/undo")
    assert answer.status_code == 409 and "cannot be restored" in answer.json()["detail"]
    again = {**NAMES, "content": "Tea!", "source": "extraction"}
    assert client.post(f"{API}/memories", again).json()["code"] == "decided_against"


def test_an_untrusted_key_curates_no_selection(client: APIClient) -> None:
    batch(client, {"content": "tea"})
    key = client_with_key(is_trusted=False)
    bulk(key, "archive", 403)
    ordered = bulk(client, "archive")
    run_jobs()
    assert key.post(f"{API}/memories/bulk/{ordered['batch']}/undo").status_code == 403


def committed() -> None:
    """Run what runs when a transaction commits; a test's own never does."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")


def test_feed_tells_each_kind_of_change_once(client: APIClient) -> None:
    results = batch(client, *({"content": f"fact {number}"} for number in range(5)))
    ids = [each["id"] for each in results]
    client.patch(f"{API}/memories/{ids[0]}", {"content": "another fact 0"})
    client.post(f"{API}/memories/{ids[1]}/archive")
    client.post(f"{API}/memories/{ids[2]}/supersede", {"content": "fact 2 is 3 now"})
    client.delete(f"{API}/memories/{ids[3]}")
    committed()
    told = feed(client)
    kinds = [(each["change"], each["memory_id"]) for each in told["results"]]
    assert kinds[:5] == [("created", key) for key in ids]
    assert ("changed", ids[0]) in kinds
    assert ("archived", ids[1]) in kinds
    assert ("superseded", ids[2]) in kinds
    assert kinds[-1] == ("erased", ids[3])
    assert told["has_more"] is False
    assert feed(client, after=told["cursor"]) == {"results": [], "cursor": told["cursor"], "has_more": False}
    page = feed(client, limit=2)
    assert (page["has_more"], page["results"]) == (True, told["results"][:2])
    assert feed(client, after=page["cursor"])["results"] == told["results"][2:]


def test_feed_of_all_users_is_for_keys_of_all_users(client: APIClient) -> None:
    for user in ("hiroki", "aoi"):
        client.post(f"{API}/memories", {"agent_id": "kana", "user_id": user, "content": f"of {user}"})
    client.post(f"{API}/memories", {"agent_id": "mira", "user_id": "aoi", "content": "of another agent"})
    committed()
    assert {each["user_id"] for each in feed(client)["results"]} == {"hiroki"}
    told = feed(client, all_users="true")["results"]
    assert [(each["agent_id"], each["user_id"]) for each in told] == [("kana", "hiroki"), ("kana", "aoi")]
    bound = client_with_key(user_id="hiroki")
    assert bound.get(f"{API}/changes", {**NAMES, "all_users": "true"}).status_code == 403
    assert bound.get(f"{API}/changes", {"agent_id": "kana", "user_id": "aoi"}).status_code == 403


def test_feed_tells_an_agent_what_an_erased_user_took_along(client: APIClient) -> None:
    ids = {each["id"] for each in batch(client, {"content": "tea"}, {"content": "coffee"})}
    client.post(f"{API}/memories", {**NAMES, "user_id": "aoi", "content": "of another"})
    committed()
    cursor = feed(client, all_users="true")["cursor"]
    assert client.delete(f"{API}/actors?agent_id=kana&user_id=hiroki").status_code == 200
    committed()
    told = feed(client, all_users="true", after=cursor)["results"]
    assert {each["memory_id"] for each in told} == ids
    assert {(each["change"], each["agent_id"], each["user_id"]) for each in told} == {("erased", "kana", None)}
    assert {each["user_id"] for each in feed(client, all_users="true")["results"]} == {None, "aoi"}
    assert feed(client)["results"] == [] == feed(client, agent_id="mira", all_users="true")["results"]


@pytest.mark.django_db(transaction=True)
def test_feed_neither_skips_nor_repeats_while_others_write() -> None:
    """Four writers, some of whose transactions fail, and a reader who polls meanwhile."""
    by, now = command("test"), timezone.now()
    actors = [actor_for_writing(by, "kana", user, now=now) for user in ("hiroki", "aoi")]

    def work(number: int) -> None:
        random = Random(number)
        try:
            for step in range(15):
                actor = actors[random.randrange(2)]
                with transaction.atomic():
                    memory, _ = write_memory(
                        actor=actor, new=NewMemory(content=f"thing{number}x{step}"), by=by, now=now
                    )
                    apply_transition(memory=memory, verb="pin", by=by, reason="", now=now)
                    if random.random() < 0.3:
                        transaction.set_rollback(True)
                        continue
                if random.random() < 0.3:
                    delete_memory(memory=memory, expected_version=None, by=by, reason="", now=now)
        finally:
            connection.close()

    reader, told, cursor = client_with_key(), [], 0
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(work, number) for number in range(4)]
        while True:
            is_over = all(future.done() for future in futures)
            query: dict[str, Any] = {"agent_id": "kana", "all_users": "true", "after": cursor, "limit": 7}
            page = reader.get(f"{API}/changes", query).json()
            told += page["results"]
            cursor = page["cursor"]
            if is_over and not page["has_more"]:
                break
        for future in futures:
            future.result()
    keys = [(each["memory_id"], each["version"]) for each in told]
    assert len(keys) == len(set(keys))
    kept = set(MemoryRevision.objects.values_list("memory_id", "number"))
    erased = {each["memory_id"] for each in told if each["change"] == "erased"}
    assert {key for key in keys if key[0] not in erased} == {(str(memory), number) for memory, number in kept}
    versions: dict[str, list[int]] = {}
    for memory_id, version in keys:
        versions.setdefault(memory_id, []).append(version)
    assert all(each == list(range(1, len(each) + 1)) for each in versions.values())
    assert MemoryNumbers.objects.count() == len(versions) - len(erased)


def prepared_actor(user_id: str) -> tuple[Any, list[Any]]:
    """Return a user with memories in every state, and messages to name as sources."""
    actor = actor_for_writing(BY, "kana", user_id, now=NOW)
    session = talk(actor, "I like cake.", "I live in Kobe.", "And I own a boat.")
    messages = list(Message.objects.of([actor.pk]).filter(session=session).order_by("seq"))

    def write(content: str, **values: Any) -> Any:
        return write_memory(actor=actor, new=NewMemory(content=content, **values), by=BY, now=NOW)[0]

    write("likes cake", kind=Kind.PREFERENCE)
    write("lives in Kobe", kind=Kind.FACT, source_message_ids=[messages[1].pk])
    write("perhaps rides horses", kind=Kind.FACT, confidence=0.1)
    write("ended long ago", kind=Kind.FACT, valid_to=NOW)
    for verb in ("archive", "reject"):
        memory = write(f"was once told to {verb} this", kind=Kind.FACT)
        apply_transition(memory=memory, verb=verb, by=command("test"), reason="", now=NOW)
    return actor, messages


def news_of(messages: list[Any]) -> list[NewMemory]:
    """Return texts that repeat, nearly repeat and do not repeat memories and each other, from programs and extraction."""
    keys = [each.pk for each in messages]
    of_fact: dict[str, Any] = {"kind": Kind.FACT}
    extracted: dict[str, Any] = {**of_fact, "source": Source.EXTRACTION}
    return [
        NewMemory(content="likes cake", kind=Kind.PREFERENCE),
        NewMemory(content="Likes cake!", kind=Kind.PREFERENCE),
        NewMemory(content="Likes cake!", **of_fact),
        NewMemory(content="lives in Kobe", **of_fact, source_message_ids=keys[1:2]),
        NewMemory(content="lives in Kobe.", **extracted, source_message_ids=keys[:1]),
        NewMemory(content="lives in Kobe", **of_fact, namespace="/elsewhere/"),
        NewMemory(content="really lives in Kobe", **extracted, source_message_ids=keys[2:]),
        NewMemory(content="owns a blue boat in the harbour of Kobe", **extracted, source_message_ids=keys[2:]),
        NewMemory(content="owns a blue boat in the harbour of Kobe, too", **extracted, source_message_ids=keys[1:]),
        NewMemory(content="sold the red bicycle to a friend", **extracted),
        NewMemory(content="sold a red bicycle to the friend", **extracted),
        NewMemory(content="perhaps rides horses", **of_fact),
        NewMemory(content="ended long ago", **of_fact),
        NewMemory(content="was once told to archive this", **extracted),
        NewMemory(content="was once told to reject this", **extracted),
        NewMemory(content="was once told to reject this", **of_fact),
        NewMemory(content="likes cake", kind=Kind.PREFERENCE, needs_approval=True),
        NewMemory(content="has two cats", **of_fact),
        NewMemory(content="paints harbours", **extracted, source_message_ids=keys),
        NewMemory(content="of nobody", **of_fact, source_message_ids=[uuid4()]),
    ]


def state_of(actor: Any) -> list[Any]:
    """Return what may differ between two ways of writing the same."""
    rows = Memory.objects.of([actor.pk]).joined_with_numbers().order_by("content", "kind", "namespace", "status")
    return [
        (row.content, row.kind, row.namespace.replace(actor.user_id, "*"), row.status, row.version,
         row.numbers.access_count, round(row.strength, 9), row.numbers.last_accessed_at,
         sorted(row.sources.values_list("trust", flat=True)), row.revisions.count())
        for row in rows
    ]  # fmt: skip


@pytest.mark.parametrize("has_idempotency_key", [False, True])
@pytest.mark.parametrize("after", [timedelta(seconds=5), timedelta(hours=1)])
def test_a_batch_does_what_its_items_do_one_after_the_other(
    after: timedelta, has_idempotency_key: bool, db: None
) -> None:
    single, of_single = prepared_actor("single")
    batched, of_batched = prepared_actor("batched")
    assert state_of(single) == state_of(batched)
    results = []
    for new in news_of(of_single):
        try:
            with transaction.atomic():
                told = replace(new, has_idempotency_key=has_idempotency_key)
                memory, is_new = write_memory(actor=single, new=told, by=BY, now=NOW + after)
            results.append((memory.content, is_new, None))
        except DomainError as error:
            results.append((None, False, str(error).partition(":")[0]))
    news = [replace(new, has_idempotency_key=has_idempotency_key) for new in news_of(of_batched)]
    items = write_memories(actor=batched, news=news, by=BY, now=NOW + after)
    assert [
        (item.memory and item.memory.content, item.is_new, item.error and str(item.error).partition(":")[0])
        for item in items
    ] == results
    assert state_of(batched) == state_of(single)


def test_repetitions_cost_no_statement_each(db: None, django_assert_max_num_queries: Any) -> None:
    actor = actor_for_writing(BY, "kana", "hiroki", now=NOW)
    session = talk(actor, "I said it all.")
    said = Message.objects.of([actor.pk]).get(session=session)
    extracted: dict[str, Any] = {"source": Source.EXTRACTION, "source_message_ids": [said.pk]}
    words = [f"{first} {second} near the {third}" for first in COLOURS for second in THINGS for third in PLACES]
    news = [NewMemory(content=f"The user owns a {words}") for words in words]
    news += [NewMemory(content=f"The user sold a {words}", **extracted) for words in words]
    with django_assert_max_num_queries(60):
        assert all(item.error is None for item in write_memories(actor=actor, news=news, by=BY, now=NOW))
    with django_assert_max_num_queries(25):
        items = write_memories(actor=actor, news=news, by=BY, now=NOW + timedelta(hours=1))
    assert not any(item.is_new for item in items)
    used = MemoryNumbers.objects.filter(actor=actor).values_list("memory__source", "access_count")
    assert set(used) == {("manual", 1), ("extraction", 0)}, "a source that is known is no new evidence"
