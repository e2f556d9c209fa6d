"""Exports of mem0 and ChatGPT, and refusals of hostile ones."""

import json
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.importexport.foreign.formats import chatgpt, claude, letta, mem0
from memoryhub.importexport.foreign.records import (
    BRANCHES,
    BROKEN_LINKS,
    FILES,
    HIDDEN,
    NO_MESSAGES,
    NO_OBJECTS,
    NO_TEXT,
    THOUGHTS,
    TOOLS,
    UNREADABLE_TIMES,
    ImportedMemory,
    ImportedMessage,
    ImportedSession,
    Omission,
    Record,
    Refusal,
    UnreadableElement,
)
from memoryhub.importexport.foreign.trees import visible_branch

NOW = datetime(2026, 3, 1, tzinfo=UTC)
MEM0 = {
    "id": "892db2ae-06d9-49e5-8b3e-585ef9b85b8e",
    "memory": "Likes green tea",
    "hash": "a1b2",
    "metadata": {"category": "taste"},
    "categories": ["food", "", 7, "x" * 120, "a\x00b"],
    "created_at": "2025-08-13T20:46:35.106522-07:00",
    "updated_at": None,
    "user_id": "hiroki",
}


def read_mem0(value: Any) -> ImportedMemory:
    (memory,) = mem0.read_memory(value, NOW)
    assert isinstance(memory, ImportedMemory)
    return memory


def test_a_memory_of_mem0_has_text_user_tags_and_time() -> None:
    assert read_mem0(MEM0) == ImportedMemory(
        text="Likes green tea",
        user_id="hiroki",
        tags=("food", "x" * 100),
        since=datetime.fromisoformat("2025-08-13T20:46:35.106522-07:00"),
        metadata={"category": "taste"},
    )


@pytest.mark.parametrize("name", ["memory", "content", "text", "data"])
def test_the_text_has_several_names(name: str) -> None:
    assert read_mem0({name: "tea"}) == ImportedMemory(text="tea")


def test_times_are_read_as_words_and_as_seconds() -> None:
    assert read_mem0({"memory": "a", "created_at": 1_700_000_000}).since == datetime(
        2023, 11, 14, 22, 13, 20, tzinfo=UTC
    )
    assert read_mem0({"memory": "a", "created_at": "2025-01-01T00:00:00"}).since == datetime(2025, 1, 1, tzinfo=UTC)
    assert read_mem0({"memory": "a", "created_at": "2030-01-01T00:00:00Z"}).since is None
    assert read_mem0({"memory": "a", "expiration_date": "2030-01-01"}).text == "a"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("tea", "no memory"),
        ({}, "no memory"),
        ({"memory": None}, "no memory"),
        ({"memory": " \n"}, "empty"),
        ({"memory": " \u200b"}, "empty"),
        ({"memory": "x" * 100_001}, "longer than"),
        ({"memory": "a", "state": "Deleted"}, "deleted"),
        ({"memory": "a", "expiration_date": "2020-01-01"}, "expired"),
        ({"memory": "a", "created_at": 1e39}, "time"),
        ({"memory": "a", "created_at": "yesterday"}, "time"),
        ({"memory": "a", "created_at": True}, "time"),
        ({"memory": "a", "created_at": [1]}, "time"),
        ({"memory": "a", "user_id": 7}, "user_id"),
        ({"memory": "a", "user_id": "x" * 256}, "user_id"),
        ({"memory": "a", "user_id": "\x00"}, "user_id"),
    ],
)
def test_a_memory_that_cannot_be_taken_is_refused_without_its_text(value: Any, why: str) -> None:
    with pytest.raises(UnreadableElement, match=why):
        read_mem0(value)


def test_passages_of_letta_wait() -> None:
    passage = {"id": "passage-1", "text": "Likes tea", "tags": ["food"], "created_at": "2025-01-01T00:00:00Z"}
    (memory,) = letta.read_element(passage)
    assert isinstance(memory, ImportedMemory)
    assert (memory.text, memory.tags, memory.needs_review) == ("Likes tea", ("food",), True)


def node(parent: str | None, role: str = "user", text: Any = "", **message: Any) -> dict[str, Any]:
    content = text if isinstance(text, dict) else {"content_type": "text", "parts": [text]}
    return {"parent": parent, "children": [], "message": {"author": {"role": role}, "content": content, **message}}


def talk(mapping: dict[str, Any], current: Any = None, **values: Any) -> dict[str, Any]:
    return {
        "title": "Tea",
        "create_time": 1_700_000_000.5,
        "conversation_id": "c1",
        "mapping": mapping,
        "current_node": current if current is not None else list(mapping)[-1],
        **values,
    }


ROOT = {"root": {"id": "root", "parent": None, "children": ["1"], "message": None}}


def read_conversation(value: Any) -> list[Record]:
    return list(chatgpt.read_conversation(value))


def messages_of(records: list[Record]) -> list[ImportedMessage]:
    return [message for each in records if isinstance(each, ImportedSession) for message in each.messages]


def session_of(value: Any) -> ImportedSession:
    return next(each for each in read_conversation(value) if isinstance(each, ImportedSession))


def said(value: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in messages_of(read_conversation(value))]


def test_a_conversation_follows_the_branch_that_its_owner_sees() -> None:
    mapping = {
        **ROOT,
        "1": node("root", "user", "Which tea?", create_time=1_700_000_001),
        "2a": node("1", "assistant", "Black.", create_time=1_700_000_002),
        "2b": node("1", "assistant", "Green.", create_time=1_700_000_003),
        "3": node("2b", "user", "Thanks"),
    }
    read = session_of(talk(mapping))
    assert [(each.role, each.text, each.id) for each in read.messages] == [
        ("user", "Which tea?", "1"),
        ("assistant", "Green.", "2b"),
        ("user", "Thanks", "3"),
    ]
    assert [each.created_at and each.created_at.second for each in read.messages] == [21, 23, 23]
    assert (read.id, read.title) == ("c1", "Tea")
    assert read.started_at == datetime(2023, 11, 14, 22, 13, 20, 500_000, tzinfo=UTC)
    assert said(talk(mapping, "2a")) == [("user", "Which tea?"), ("assistant", "Black.")]


def left_out(value: dict[str, Any]) -> dict[str, int]:
    return {each.reason: each.count for each in read_conversation(value) if isinstance(each, Omission)}


CANVAS = json.dumps({"name": "plan", "type": "document", "content": "Open in May."})


def test_only_what_was_said_for_the_other_to_read_is_a_message_and_the_rest_is_counted() -> None:
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file"}
    mapping = {
        **ROOT, "1": node("root", "system", "be kind"), "1b": node("1", "system", ""),
        "3": node("1b", "user", {"content_type": "multimodal_text", "parts": [picture, "Look", {"text": "heard"}]}),
        "4": node("3", "assistant", "search()", recipient="browser"), "5": node("4", "tool", "found"),
        "6": node("5", "assistant", {"content_type": "thoughts", "thoughts": []}),
        "7": node("6", "user", "hidden", metadata={"is_visually_hidden_from_conversation": True}),
        "8": node("7", "assistant", {"content_type": "text", "parts": None}),
        "9": node("8", "user", {"content_type": "multimodal_text", "parts": [picture]}),
        "10": node("9", "assistant", {"content_type": "code", "text": "print()"}),
        "11": node("10", "assistant", CANVAS, recipient="canmore.create_textdoc"),
        "12": node("11", "assistant", "A cup", recipient="all", metadata={"attachments": [{"id": "f"}]}),
        "13": node("11", "assistant", "A pot"), "14": "text",
    }  # fmt: skip
    value = talk(mapping, "12")
    assert said(value) == [
        ("user", "Look\nheard"),
        ("assistant", "```\nprint()\n```"),
        ("assistant", "plan\n\nOpen in May."),
        ("assistant", "A cup"),
    ]
    assert left_out(value) == {
        BRANCHES: 1, HIDDEN: 2, TOOLS: 2, THOUGHTS: 1, FILES: 3, NO_TEXT: 1, NO_OBJECTS: 1,
    }  # fmt: skip


def test_a_conversation_without_a_message_is_no_session() -> None:
    assert read_conversation(talk(ROOT)) == [Omission(NO_MESSAGES, 1, "c1")]


CHAIN = {
    "a": node(None, "user", "first", create_time=1_700_000_001),
    "b": node("a", "assistant", "second", create_time=1_700_000_002),
    "c": node("b", "user", "third", create_time=1_700_000_003),
    "d": node("c", "assistant", "fourth", create_time=1_700_000_004),
}


@pytest.mark.parametrize(
    ("changes", "current", "broken"),
    [
        ({}, "d", 0),
        ({}, None, 0),
        ({}, "nowhere", 1),
        ({}, ["d"], 1),
        ({"c": {"parent": "gone"}}, "d", 1),
        ({"c": {"parent": 7}}, None, 1),
        ({"c": {"parent": "d"}}, "d", 1),
        ({"c": {"parent": "c"}}, "d", 1),
        ({"a": {"parent": "00000000-0000-4000-8000-000000000000"}}, "d", 0),
    ],
)
def test_a_broken_link_loses_no_message(changes: dict[str, Any], current: Any, broken: int) -> None:
    nodes = {key: {**each, **changes.get(key, {})} for key, each in CHAIN.items()}
    value = {**talk(nodes), "current_node": current}
    assert [text for _, text in said(value)] == ["first", "second", "third", "fourth"]
    assert left_out(value).get(BROKEN_LINKS, 0) == broken


def test_parents_are_known_by_their_children_alone() -> None:
    nodes = {key: {"message": each["message"], "children": []} for key, each in CHAIN.items()}
    for parent, child in (("a", "b"), ("b", "c"), ("c", "d")):
        nodes[parent]["children"].append(child)
    assert len(said({**talk(nodes), "current_node": None})) == 4


@given(
    st.dictionaries(
        st.sampled_from("abcdef"), st.none() | st.integers() | st.sampled_from("abcdefg"), min_size=1, max_size=6
    ),
    st.none() | st.sampled_from("abcdefg"),
    st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 9)),
)
def test_a_branch_holds_each_message_once_and_ends_at_the_current_one(
    parents: dict[str, Any], current: Any, times: dict[str, float]
) -> None:
    path, broken = visible_branch(parents, current, times=times)
    assert len(path) == len(set(path)) > 0 and set(path) <= parents.keys()
    assert path[-1] == current or current not in parents
    linked = [child for parent, child in pairwise(path) if parents[child] == parent]
    assert len(path) - len(linked) - 1 <= broken


@pytest.mark.parametrize("bad", [1e39, "0001-01-01", "9999-12-31T00:00:00+00:00", "yesterday", True, [1]])
def test_a_message_with_a_bad_time_has_that_of_the_message_before(bad: Any) -> None:
    tree = {"a": CHAIN["a"], "b": node("a", "user", "late", create_time=bad)}
    value = talk(tree, create_time=bad)
    assert [message.created_at and message.created_at.second for message in session_of(value).messages] == [21, 21]
    assert left_out(value) == {UNREADABLE_TIMES: 2}


def test_what_chatgpt_remembered_becomes_memories() -> None:
    listed = "1. [2024-05-02]. Likes green tea\n\n2. [2024-06-01]. Lives in Kyoto\nsince 2020"
    mapping = {
        **ROOT,
        "1": node("root", "assistant", "Plays the koto.", recipient="bio", create_time=1_700_000_001),
        "2": node("1", "assistant", {"content_type": "model_editable_context", "model_set_context": listed}),
        "3": node("2", "assistant", {"content_type": "model_editable_context", "model_set_context": None}),
        "4": node("3", "assistant", " ", recipient="bio"),
    }
    memories = [each for each in read_conversation(talk(mapping)) if isinstance(each, ImportedMemory)]
    assert [(each.text, each.needs_review) for each in memories] == [
        ("Plays the koto.", True),
        ("Likes green tea", True),
        ("Lives in Kyoto\nsince 2020", True),
    ]
    assert said(talk(mapping)) == []


@pytest.mark.parametrize("framed", [False, True])
def test_custom_instructions_wait_as_a_fact_and_a_preference(framed: bool) -> None:
    content: dict[str, Any] = {
        "content_type": "user_editable_context",
        "user_profile": "Profile:\n```I live in Kyoto```",
    }
    content["user_instructions"] = "How to answer:\n```Answer briefly.```"
    raw = {"about_user_message": "I live in Kyoto", "about_model_message": "Answer briefly."}
    metadata = {"is_visually_hidden_from_conversation": True, **({} if framed else {"user_context_message_data": raw})}
    value = talk({"a": node(None, "user", content, metadata=metadata), "b": node("a", "user", "Hello")})
    assert [each for each in read_conversation(value) if isinstance(each, ImportedMemory)] == [
        ImportedMemory("I live in Kyoto", needs_review=True, metadata={"origin": "custom instructions"}),
        ImportedMemory("Answer briefly.", "preference", needs_review=True, metadata={"origin": "custom instructions"}),
    ]
    assert (said(value), left_out(value)) == ([("user", "Hello")], {})


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], "no conversation"),
        ({"mapping": []}, "no conversation"),
        (talk(ROOT, conversation_id=None), "conversation_id"),
        (talk(ROOT, conversation_id="x" * 256), "conversation_id"),
        (talk(ROOT, conversation_id="a\x00"), "conversation_id"),
    ],
)
def test_a_conversation_that_cannot_be_taken_is_refused(value: Any, why: str) -> None:
    with pytest.raises(UnreadableElement, match=why):
        read_conversation(value)


@pytest.mark.parametrize(
    ("name", "broken", "why"),
    [
        ("\x00", node("1", "user", "odd id"), "usable `id`"),
        ("2", node("1", "user", "x" * 1_000_001), "longer"),
        ("x" * 256, node("1", "user", "long id"), "usable `id`"),
    ],
)
def test_a_message_that_cannot_be_taken_is_refused_alone(name: str, broken: Any, why: str) -> None:
    read = read_conversation(
        talk({"1": node(None, "user", "first"), name: broken, "3": node(name, "assistant", "last")})
    )
    assert [message.text for message in messages_of(read)] == ["first", "last"]
    (refused,) = [each for each in read if isinstance(each, Refusal)]
    assert why in refused.reason


def test_characters_that_cannot_be_stored_are_replaced() -> None:
    assert read_mem0({"memory": "a\x00b \ud800"}).text == "a\ufffdb \ufffd"
    value = talk({"1": node(None, "user", "a\x00b")}, title="t\udc00")
    assert said(value) == [("user", "a\ufffdb")]
    assert session_of(value).title == "t\ufffd"


def test_a_conversation_may_be_known_by_its_older_name() -> None:
    tree = {**ROOT, "1": node("root", "user", "Hello")}
    assert session_of(talk(tree, conversation_id=None, id="old")).id == "old"
    assert session_of(talk(tree, title=None)).title == ""
    assert len(session_of(talk(tree, title="x" * 900)).title) == 500


def test_ten_thousand_messages_in_a_row_are_no_matter() -> None:
    mapping = {"0": node(None, "user", "m0"), **{str(n): node(str(n - 1), "user", f"m{n}") for n in range(1, 10_000)}}
    read = read_conversation(talk(mapping))
    assert len(messages_of(read)) == 10_000
    assert max(len(each.messages) for each in read if isinstance(each, ImportedSession)) == 500


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["mapping", "current_node", "conversation_id", "1", "parent", "message", "content", "author", "role", "parts",
             "recipient", "metadata", "create_time", "memory", "user_id", "categories", "state", "expiration_date",
             "chat_messages", "sender", "uuid", "docs", "name", "conversations_memory", "project_memories", "agents",
             "blocks", "core_memory", "messages", "tool_calls", "value", "label"]
        ),
        inner,
        max_size=6,
    ),
    max_leaves=15,
)  # fmt: skip


@given(JSON)
def test_nothing_but_a_refusal_comes_of_nonsense(value: Any) -> None:
    readers = (
        lambda: mem0.read_memory(value, NOW),
        lambda: chatgpt.read_conversation(value),
        lambda: letta.read_element(value),
        lambda: claude.read_element(value, {}),
    )
    for read in readers:
        try:
            list(read())
        except UnreadableElement as error:
            assert str(error)
    assert not (mem0.is_memory(value) and chatgpt.is_conversation(value))
