"""Numbering a batch of messages."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations.domain.messages import (
    NewMessage,
    Placement,
    Role,
    past_days_asked,
    place_batch,
    role_and_author,
    text_of_blocks,
)


def said(client_id: str | None = None) -> NewMessage:
    return NewMessage(role=Role.USER, content="hello", client_message_id=client_id)


@pytest.mark.parametrize(
    ("role", "author", "expected"),
    [
        ("user", "", (Role.USER, "")),
        ("kana", "", (Role.ASSISTANT, "kana")),
        ("yuno", "Yuno-san", (Role.ASSISTANT, "Yuno-san")),
        ("tool", "grep", (Role.TOOL, "grep")),
    ],
)
def test_assistants_names_are_the_assistant(role: str, author: str, expected: tuple[Role, str]) -> None:
    assert role_and_author(role, author) == expected


def test_blocks_say_what_their_texts_say() -> None:
    blocks = [{"type": "text", "text": "look"}, {"type": "image", "url": "x"}, {"type": "text", "text": "there"}]
    assert text_of_blocks(blocks) == "look\nthere"


def test_new_messages_are_numbered_on() -> None:
    batch = [said(), said("a"), said()]
    placement = place_batch(batch, known=frozenset(), last_seq=7)
    assert [numbered.seq for numbered in placement.new] == [8, 9, 10]
    assert placement.order == (8, 9, 10)


def test_repeats_get_no_row() -> None:
    placement = place_batch([said("a"), said("b"), said("b")], known=frozenset({"a"}), last_seq=0)
    assert [numbered.message.client_message_id for numbered in placement.new] == ["b"]
    assert placement.order == ("a", 1, "b")


def test_nothing_new_is_nothing() -> None:
    assert place_batch([said("a")], known=frozenset({"a"}), last_seq=3) == Placement((), ("a",))


@given(
    st.lists(st.none() | st.sampled_from("abcdef"), max_size=30),
    st.frozensets(st.sampled_from("abcdef")),
    st.integers(0, 1000),
)
def test_numbers_have_no_gaps_and_ids_one_row(ids: list[str | None], known: frozenset[str], last_seq: int) -> None:
    placement = place_batch([said(client_id) for client_id in ids], known=known, last_seq=last_seq)
    assert [each.seq for each in placement.new] == list(range(last_seq + 1, last_seq + 1 + len(placement.new)))
    stored = [each.message.client_message_id for each in placement.new if each.message.client_message_id]
    assert len(stored) == len(set(stored))
    assert set(stored).isdisjoint(known)
    assert len(placement.order) == len(ids)


@pytest.mark.parametrize(
    ("question", "days"),
    [
        ("What did we talk about yesterday?", [28]),
        ("What did I say the day before yesterday?", [27]),
        ("What was it three days ago?", [26]),
        ("Did I call her 18 days ago?", [11]),
        ("Tell me what we decided last Saturday.", [28]),
        ("Where was I last Sunday?", [22]),
        ("What did we do last week?", range(16, 23)),
        ("昨日は何を話しましたか？", [28]),
        ("一昨日は何を話した？", [27]),
        ("おととい何を話したっけ", [27]),
        ("３日前と四日前は？", [26, 25]),
        ("二十日前と twenty-two days ago は？", []),
        ("先週の土曜日は？", [21]),
        ("先週は何をした？", range(16, 23)),
        ("Yesterday I bought a bicycle.", []),
        ("昨日、自転車を買いました。", []),
        ("What is planned for today?", []),
    ],
)
def test_questions_name_past_days(question: str, days: list[int]) -> None:
    """On Sunday, 29 November 2026."""
    found = past_days_asked(question, today=date(2026, 11, 29))

    assert found == tuple(date(2026, 11, day) for day in days)
