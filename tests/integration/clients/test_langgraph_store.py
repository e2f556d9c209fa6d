"""LangGraph's store: items are memories, and memories are items."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from memoryhub_client import Memoryhub
from memoryhub_client.errors import InvalidRequest
from memoryhub_client.langgraph_store import MemoryhubStore
from strength.models import Memory, MemoryRevision
from tests.integration.mcp.test_story import left_behind
from tests.serving import Web

DOCS = ("docs", "a/b {c}", "日本")
VALUES: list[dict[str, Any]] = [
    {"content": "Kana likes tea.", "score": 7, "deep": {"list": [1, {"x": None}], "yes": True}},
    {"content": "Kana likes tea.", "score": 7.5, "langgraph_like": "x"},
    {"content": " \n", "score": -1, "tags": ["x", "y"]},
    {"title": "no content", "score": "7"},
    {},
]
FILTERS: list[dict[str, Any]] = [
    {"score": 7}, {"score": {"$gt": 7}}, {"score": {"$gte": 7, "$lt": 7.5}}, {"score": {"$lte": 0}},
    {"content": "Kana likes tea."}, {"content": {"$ne": "Kana likes tea."}}, {"tags": ["x", "y"]}, {"tags": ["x"]},
    {"deep": {"yes": True}}, {"deep": {"list": {"$eq": [1, {"x": None}]}}}, {"score": {"$ne": 7}}, {"title": None},
    {"score": {"$eq": "7"}}, {"no'such\"key": 1}, {"title": "x\0"}, {"score": {"$eq": float("nan")}},
    {"score": {"$lt": 10**100, "$gt": float("-inf")}},
]  # fmt: skip


@pytest.fixture
def hub(web: Web, key: str) -> Iterator[Memoryhub]:
    with Memoryhub(web.url, key, agent_id="kana", user_id="hiroki") as hub:
        yield hub


def numbers_only(items: list[Any], wanted: dict[str, Any]) -> list[Any]:
    """The store in memory cannot compare texts with numbers."""
    ordered = isinstance(wanted.get("score"), dict) and not {"$eq", "$ne"} & wanted["score"].keys()
    return [item for item in items if not ordered or isinstance(item.value.get("score"), int | float)]


def test_items_are_those_of_the_store_in_memory(hub: Memoryhub) -> None:
    ours, theirs = MemoryhubStore(hub), InMemoryStore()
    for store in (ours, theirs):
        store.batch([PutOp(DOCS, f"key {n}", value) for n, value in enumerate(VALUES)])
        store.put(("docs",), "other", {"content": "Kana likes tea.", "score": 1})
        store.put(DOCS, "key 0", {"content": "gone"})
        store.put(DOCS, "key 0", VALUES[0])
    for n, value in enumerate(VALUES):
        item = ours.get(DOCS, f"key {n}")
        assert item is not None
        assert (item.namespace, item.key, item.value) == (DOCS, f"key {n}", value)
    assert ours.get(DOCS, "key") is ours.get(("docs",), "key 0") is ours.get(("docs", "a"), "b") is None
    every = theirs.search((), limit=99)
    for wanted in FILTERS:
        theirs_found = InMemoryStore()
        for item in numbers_only(every, wanted):
            theirs_found.put(item.namespace, item.key, item.value)
        expected = {(item.namespace, item.key) for item in theirs_found.search((), filter=wanted, limit=99)}
        found = ours.search(("docs",), filter=wanted, limit=99)
        assert {(item.namespace, item.key) for item in found} == expected, wanted
    with pytest.raises(ValueError, match="Unsupported operator"):
        ours.search((), filter={"score": {"$like": "7"}})
    assert [item.key for item in ours.search(("docs",), limit=2, offset=1)] == [
        item.key for item in ours.search((), limit=99)
    ][1:3]
    for prefix, suffix, depth in (
        (None, None, None),
        (("docs", "*"), None, None),
        (None, ("日本",), 1),
        (("docs",), None, 2),
        (("doc",), None, None),
    ):
        names = {"prefix": prefix, "suffix": suffix, "max_depth": depth}
        assert ours.list_namespaces(**names) == theirs.list_namespaces(**names), names
    with pytest.raises(InvalidNamespaceError):
        ours.put(("a.b",), "key", {})


def test_items_are_memories_that_people_see_and_correct(hub: Memoryhub) -> None:
    store = MemoryhubStore(hub, kind="fact")
    place = ("facts", "hiroki")
    store.put(place, "home", {"content": "Hiroki lives in Osaka.", "sure": True})
    memory = Memory.objects.get()
    assert (memory.content, memory.kind, memory.namespace) == ("Hiroki lives in Osaka.", "fact", "/facts/hiroki/home/")
    hub.memory_update(str(memory.pk), content="Hiroki lives in Kyoto.")
    assert (store.get(place, "home")).value == {"content": "Hiroki lives in Kyoto.", "sure": True}
    written = hub.memories_create(content="Hiroki has a cat.", kind="fact", metadata={"seen": 2})
    [found, *_] = store.search(place, query="cat", filter={"seen": {"$gt": 1}})
    assert (found.key, found.value) == (written["id"], {"content": "Hiroki has a cat.", "seen": 2})
    assert found.score is not None
    assert (store.get(place, written["id"])).value == found.value
    store.delete(place, written["id"])
    store.delete(place, "home")
    store.delete(place, "home")
    assert store.search(()) == []
    store.put(place, "home", {"content": "Hiroki lives in Kyoto."}, index=["content"])
    again = store.get(place, "home")
    assert again.value == {"content": "Hiroki lives in Kyoto."}
    with pytest.raises(InvalidRequest, match="4096 bytes"):
        store.put(place, "long", {"content": "x", "more": "y" * 5_000})
    store.put(place, "unseen", {"title": "a parrot"}, index=False)
    [hidden] = Memory.objects.filter(namespace="/facts/hiroki/unseen/")
    assert hidden.content == "unseen"
    memory = Memory.objects.get(namespace="/facts/hiroki/home/")
    verbs = MemoryRevision.objects.filter(memory=memory).order_by("number").values_list("verb", flat=True)
    assert list(verbs) == ["create", "edit", "archive", "edit", "reactivate"]


def test_story_is_told_recalled_corrected_forgotten_and_erased(hub: Memoryhub) -> None:
    place = ("facts", "hiroki")
    MemoryhubStore(hub, kind="fact").put(place, "home", {"content": "Hiroki lives in Osaka."})
    later = MemoryhubStore(hub, kind="fact")
    [found] = later.search(place, query="Where does Hiroki live?")
    assert found.value == {"content": "Hiroki lives in Osaka."}
    later.put(place, "home", {"content": "Hiroki lives in Kyoto."})
    assert "lives in Kyoto" in str(hub.context_assemble(message="Where does Hiroki live?")["messages"])
    later.delete(place, "home")
    assert later.get(place, "home") is None
    assert "lives in Kyoto" not in str(hub.context_assemble(message="Where does Hiroki live now?")["messages"])
    hub.actor_erase(user_id="hiroki")
    assert left_behind() == {}


def test_expired_items_are_gone_and_reads_put_it_off(hub: Memoryhub) -> None:
    store = MemoryhubStore(hub, ttl={"default_ttl": 60, "refresh_on_read": True})
    store.put(("ns",), "short", {"content": "soon over"})
    store.put(("ns",), "long", {"content": "stays"}, ttl=None)

    def set_left(minutes: float) -> None:
        ends = datetime.now(UTC) + timedelta(minutes=minutes)
        Memory.objects.filter(content="soon over").update(valid_to=ends)

    def left() -> float:
        return (Memory.objects.get(content="soon over").valid_to - datetime.now(UTC)).total_seconds() / 60

    set_left(1)
    assert store.get(("ns",), "short", refresh_ttl=False) is not None
    assert left() < 1
    assert store.get(("ns",), "short") is not None
    assert left() > 59
    set_left(58)
    store.search(("ns",))
    assert left() < 58
    set_left(-1)
    assert store.get(("ns",), "short") is None
    assert [each.key for each in store.search(("ns",))] == ["long"]
    store.put(("ns",), "short", {"content": "soon over"}, ttl=None)
    assert store.get(("ns",), "short") is not None
    assert Memory.objects.get(content="soon over").valid_to is None


def test_batches_read_before_they_write_and_other_users_see_nothing(hub: Memoryhub, web: Web, key: str) -> None:
    store = MemoryhubStore(hub)
    put = PutOp(("ns",), "k", {"content": "first"})
    results = store.batch(
        [GetOp(("ns",), "k"), put, put._replace(value={"content": "last"}), SearchOp(("ns",)), ListNamespacesOp()]
    )
    assert results == [None, None, None, [], []]
    assert asyncio.run(store.asearch(()))[0].value == {"content": "last"}
    with Memoryhub(web.url, key, agent_id="kana", user_id="maya") as other:
        stranger = MemoryhubStore(other)
        memory = str(Memory.objects.get().pk)
        assert stranger.search((), query="last") == stranger.search(()) == stranger.list_namespaces() == []
        assert stranger.get(("ns",), "k") is stranger.get(("ns", "k"), memory) is None
        stranger.delete(("ns",), "k")
        stranger.delete(("ns", "k"), memory)
    assert store.get(("ns",), "k") is not None


@pytest.mark.slow
def test_writers_of_one_item_at_once_get_no_errors(hub: Memoryhub) -> None:
    store = MemoryhubStore(hub)
    for number in range(4):
        store.put(("ns",), "k", {"content": "first"})
        store.delete(("ns",), "k")

        def put_or_delete(index: int, ends: bool = bool(number % 2)) -> None:
            value = None if ends and index % 2 else {"content": f"by {index}"}
            store.batch([PutOp(("ns",), "k", value)])

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(put_or_delete, range(16)))
    store.put(("ns",), "k", {"content": "last"})
    assert [each.value for each in store.search(())] == [{"content": "last"}]
