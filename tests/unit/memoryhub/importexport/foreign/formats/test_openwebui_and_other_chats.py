"""Exports of chat programs: what is odd in them, and what is left out of them."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.importexport.foreign.formats import deepseek, gemini, grok, librechat, openwebui
from memoryhub.importexport.foreign.records import (
    BRANCHES,
    FAILED,
    FILES,
    HIDDEN,
    NO_MESSAGES,
    NO_OBJECTS,
    OTHER_PARTS,
    THOUGHTS,
    TOOLS,
    ImportedMemory,
    ImportedSession,
    LeftOut,
    Omission,
    Record,
    UnreadableElement,
)

AT = 1_740_000_000


def said(records: Iterable[Record]) -> list[tuple[str, str]]:
    sessions = [each for each in records if isinstance(each, ImportedSession)]
    return [(message.role, message.text) for session in sessions for message in session.messages]


def left_out(records: Iterable[Record]) -> dict[str, int]:
    return {each.reason: each.count for each in records if isinstance(each, Omission)}


def webui(messages: Any, current: Any = None, **values: Any) -> list[Record]:
    chat = {"history": {"messages": messages, "currentId": current}, "title": "Tea", **values}
    return list(openwebui.read_element({"id": "c", "user_id": "u", "title": "Tea", "chat": chat, "created_at": AT}))


def webui_message(role: str, content: Any, parent: str | None = None, time: int = AT, **values: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "parentId": parent, "timestamp": time, **values}


def test_a_chat_of_open_webui_follows_its_current_message_without_folded_texts() -> None:
    folded = '<details type="reasoning" done="true">hm</details>\n<details type="tool_calls">x</details>\nGreen.'
    records = webui(
        {
            "a": webui_message("user", "Which tea?", files=[{"type": "image"}]),
            "b": webui_message("assistant", "Black.", "a", AT + 1),
            "c": webui_message("assistant", folded, "a", AT + 2),
            "d": webui_message("user", [{"type": "text", "text": "Why?"}, {"type": "image_url"}], "c", AT + 3),
            "e": webui_message("assistant", "", "d", AT + 4, error={"content": "Overloaded"}),
            "f": webui_message("system", "Be brief", "e", AT + 5),
            "g": 7,
        },
        "f",
    )
    assert said(records) == [("user", "Which tea?"), ("assistant", "Green."), ("user", "Why?")]
    assert left_out(records) == {BRANCHES: 1, FILES: 2, THOUGHTS: 1, TOOLS: 1, FAILED: 1, HIDDEN: 1, NO_OBJECTS: 1}
    (session,) = [each for each in records if isinstance(each, ImportedSession)]
    assert (session.id, session.user_id, session.title) == ("c", "u", "Tea")
    assert session.messages[0].created_at == datetime.fromtimestamp(AT, UTC)


def test_a_chat_of_open_webui_may_be_a_list_or_have_no_frame() -> None:
    listed = [{"id": "a", "role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    framed = openwebui.read_element({"id": "c", "chat": {"messages": listed}})
    bare = openwebui.read_element({"history": {"messages": {"a": webui_message("user", "Hi")}}, "timestamp": AT * 1000})
    assert said(framed) == [("user", "Hi"), ("assistant", "Hello")]
    (session,) = [each for each in bare if isinstance(each, ImportedSession)]
    assert (session.id, session.started_at) == ("a", datetime.fromtimestamp(AT, UTC))


def test_a_memory_of_open_webui_waits() -> None:
    row = {"id": "m", "user_id": "u", "content": "Likes tea", "created_at": AT, "updated_at": AT}
    assert list(openwebui.read_element(row)) == [
        ImportedMemory(
            "Likes tea", since=datetime.fromtimestamp(AT, UTC), user_id="u", needs_review=True,
            metadata={"origin": "saved memory"},
        )
    ]  # fmt: skip


def seek(*messages: dict[str, Any]) -> list[Record]:
    nodes: dict[str, Any] = {"root": {"id": "root", "parent": None, "children": ["1"], "message": None}}
    for number, message in enumerate(messages, 1):
        parent = str(number - 1) if number > 1 else "root"
        nodes[str(number)] = {"id": str(number), "parent": parent, "children": [], "message": message}
    return list(deepseek.read_conversation({"id": "c", "title": "Tea", "inserted_at": "2025-03-01", "mapping": nodes}))


def test_fragments_of_deepseek_tell_the_role() -> None:
    answer = [
        {"type": "THINK", "content": "hm"},
        {"type": "SEARCH", "results": []},
        {"type": "RESPONSE", "content": "Hi"},
    ]
    records = seek({"fragments": [{"type": "REQUEST", "content": "Hello"}], "files": [{}]}, {"fragments": answer})
    assert said(records) == [("user", "Hello"), ("assistant", "Hi")]
    assert left_out(records) == {FILES: 1, THOUGHTS: 1, TOOLS: 1}


def test_older_messages_of_deepseek_take_turns() -> None:
    records = seek({"content": "Hello"}, {"content": "Hi", "reasoning_content": "hm"}, {"content": "Thanks"})
    assert said(records) == [("user", "Hello"), ("assistant", "Hi"), ("user", "Thanks")]
    assert left_out(records) == {THOUGHTS: 1}


def test_a_conversation_of_librechat_may_be_empty_failed_or_in_parts() -> None:
    messages = [
        {
            "messageId": "a",
            "parentMessageId": "00000000-0000-0000-0000-000000000000",
            "text": "Hi",
            "isCreatedByUser": True,
        },
        {"messageId": "b", "parentMessageId": "a", "content": [{"type": "text", "text": {"value": "Hello"}}]},
        {"messageId": "c", "parentMessageId": "b", "text": "Out of credit", "error": True},
        "nonsense",
    ]
    records = list(librechat.read_element({"conversationId": "x", "messages": messages}))
    assert said(records) == [("user", "Hi"), ("assistant", "Hello")]
    assert left_out(records) == {FAILED: 1, NO_OBJECTS: 1}
    empty = list(librechat.read_element({"conversationId": "x", "messagesTree": []}))
    assert empty == [Omission(NO_MESSAGES, 1, "x")]


def activity(title: str, **values: Any) -> dict[str, Any]:
    return {
        "header": "Gemini Apps",
        "products": ["Gemini Apps"],
        "title": title,
        "time": "2025-03-01T09:00:00Z",
        **values,
    }


ANSWER = [{"html": "<p>Green &amp; <b>hot</b></p><ul><li>one</li><li>two</li></ul>"}]


@pytest.mark.parametrize(
    ("value", "question", "answer"),
    [
        (activity("Prompted Which tea?", safeHtmlItem=ANSWER), "Which tea?", "Green & hot\n\n- one\n- two"),
        (activity("Prompted\xa0Which tea? Attached 2 files."), "Which tea?", ""),
        (activity("Asked Bard: Which tea?"), "Which tea?", ""),
        (activity("どのお茶？", safeHtmlItem=ANSWER[:1]), "どのお茶？", "Green & hot\n\n- one\n- two"),
        (
            activity(
                "Used Gemini Apps",
                details=[{"name": "Request", "value": "Which?"}, {"name": "Response", "value": "Green"}],
            ),
            "Which?",
            "Green",
        ),
    ],
)
def test_an_activity_of_gemini_is_a_question_with_its_answer(value: Any, question: str, answer: str) -> None:
    read = gemini.read_activity(value)
    assert (read[0], read[3], read[4]) == ("2025-03-01", question, answer)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (activity("Gave feedback: Good"), gemini.NO_QUESTION),
        (activity("何かをしました"), gemini.NO_QUESTION),
        ({**activity("Searched for tea"), "header": "Search", "products": ["Search"]}, gemini.OTHER_PRODUCTS),
    ],
)
def test_other_activities_are_left_out(value: Any, why: str) -> None:
    with pytest.raises(LeftOut, match=why):
        gemini.read_activity(value)


def test_a_conversation_of_gemini_is_its_own_session() -> None:
    address = "https://gemini.google.com/app/0123abcd"
    assert gemini.read_activity(activity("Prompted Hi", titleUrl=address))[0] == "2025-03-01 0123abcd"


def test_answers_of_grok_are_by_any_name_and_may_name_no_parent() -> None:
    def response(key: str, sender: str, text: str, **values: Any) -> dict[str, Any]:
        time = {"$date": {"$numberLong": str(AT * 1000 + ord(key))}}
        return {"response": {"_id": key, "sender": sender, "message": text, "create_time": time, **values}}

    conversation = {"id": "x", "title": "Tea", "create_time": "2025-02-19T21:20:00Z"}
    responses = [
        response("a", "human", "Hi", file_attachments=["f"]),
        response("b", "grok-3", "Hello", thinking_trace="hm", parent_response_id="a"),
        response("c", "human", "Draw"),
        response("d", "ASSISTANT", "", generated_image_urls=["u"]),
        response("e", "assistant", "", error="Failed to respond."),
    ]
    records = list(grok.read_conversation({"conversation": conversation, "responses": responses}))
    assert said(records) == [("user", "Hi"), ("assistant", "Hello"), ("user", "Draw")]
    assert left_out(records) == {FILES: 2, THOUGHTS: 1, FAILED: 1}
    rest = list(grok.read_rest({"projects": [{"name": "p", "custom_personality": "Be brief"}], "tasks": [1, 2]}))
    assert [each.text for each in rest if isinstance(each, ImportedMemory)] == ["Be brief"]
    assert left_out(rest) == {OTHER_PARTS: 2}


NAMES = [
    "mapping", "id", "parent", "children", "message", "fragments", "type", "content", "inserted_at", "files", "role", "chat",
    "history", "messages", "currentId", "parentId", "timestamp", "user_id", "created_at", "updated_at", "messageId",
    "conversationId", "messagesTree", "options", "promptPrefix", "key", "value", "tokenCount", "header", "title", "time",
    "products", "safeHtmlItem", "html", "details", "name", "titleUrl", "conversation", "responses", "response", "_id",
    "sender", "create_time", "steps", "file_attachments", "projects", "custom_personality",
]  # fmt: skip
NONSENSE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "Gemini", "REQUEST", "user", "x", "2025"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=6),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "read",
    [
        openwebui.read_element, deepseek.read_conversation, librechat.read_element, grok.read_conversation, grok.read_rest,
        lambda value: [gemini.read_activity(value)],
    ],
    ids=["openwebui", "deepseek", "librechat", "grok", "grok projects", "gemini"],
)  # fmt: skip
@given(value=NONSENSE)
def test_nothing_but_a_reason_comes_of_nonsense(read: Callable[[Any], Iterable[Any]], value: Any) -> None:
    try:
        list(read(value))
    except (UnreadableElement, LeftOut) as error:
        assert str(error)
