"""Exports of mem0 and ChatGPT, and refusals of hostile ones."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.importexport.foreign.formats import chatgpt, claude, letta, mem0
from memoryhub.importexport.foreign.records import (
    ImportedMemory,
    ImportedMessage,
    ImportedSession,
    Record,
    Refusal,
    UnreadableElement,
)

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


def test_only_what_was_said_for_the_other_to_read_is_a_message() -> None:
    mapping = {
        **ROOT, "1": node("root", "system", "be kind"),
        "2": node("1", "user", {"content_type": "user_editable_context", "user_profile": "x"}),
        "3": node("2", "user", {"content_type": "multimodal_text", "parts": [
            {"content_type": "image_asset_pointer", "asset_pointer": "file"}, "Look", {"text": "heard"}]}),
        "4": node("3", "assistant", "search()", recipient="browser"), "5": node("4", "tool", "found"),
        "6": node("5", "assistant", {"content_type": "thoughts", "thoughts": []}),
        "7": node("6", "user", "hidden", metadata={"is_visually_hidden_from_conversation": True}),
        "8": node("7", "assistant", {"content_type": "text", "parts": None}),
        "9": node("8", "assistant", "A cup", recipient="all"),
    }  # fmt: skip
    assert said(talk(mapping)) == [("user", "Look\nheard"), ("assistant", "A cup")]


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
    assert [(each.text, each.is_generated) for each in memories] == [
        ("Plays the koto.", True),
        ("Likes green tea", True),
        ("Lives in Kyoto\nsince 2020", True),
    ]
    assert said(talk(mapping)) == []


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([], "no conversation"),
        ({"mapping": []}, "no conversation"),
        (talk(ROOT, conversation_id=None), "conversation_id"),
        (talk(ROOT, conversation_id="x" * 256), "conversation_id"),
        (talk(ROOT, conversation_id="a\x00"), "conversation_id"),
        (talk(ROOT, "nowhere"), "current_node"),
        (talk(ROOT, ["root"]), "current_node"),
        (talk({"1": node("gone")}), "parent that is not there"),
        (talk({"1": node(None) | {"parent": 7}}), "parent that is not there"),
        (talk({"1": node("2"), "2": node("1")}), "circle"),
        (talk({"1": node("1")}), "circle"),
        (talk(ROOT, create_time=1e39), "time"),
        (talk({"1": "text"}), "parent that is not there"),
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
        ("2", node("1", "user", "late", create_time=1e39), "time"),
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
    assert session_of(talk(ROOT, conversation_id=None, id="old")).id == "old"
    assert session_of(talk(ROOT, title=None)).title == ""
    assert len(session_of(talk(ROOT, title="x" * 900)).title) == 500


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
        lambda: letta.read_agent_file(value),
        lambda: claude.read_element(value, {}),
    )
    for read in readers:
        try:
            list(read())
        except UnreadableElement as error:
            assert str(error)
    assert not (mem0.is_memory(value) and chatgpt.is_conversation(value))
