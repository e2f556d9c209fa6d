"""Reading messages for a project, and which answers become entries (SPEC P6)."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from summaries.domain.entries import (
    MAX_ENTRIES,
    MAX_EXTRACTED_LENGTH,
    EntryWords,
    Passage,
    ProjectMessage,
    answer_schema,
    known_lines,
    next_passage,
    parse_entries,
    prompt_blocks,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def words(text: str) -> int:
    return len(text.split())


def heard(seq: int, text: str, *, project: str = "otaru", trusted: bool = True, user: bool = True) -> ProjectMessage:
    return ProjectMessage(uuid4(), seq, project, user, "Mika" if user else "", text, trusted, NOW)


def passage_of(*texts: str) -> Passage:
    return next_passage([heard(seq, text) for seq, text in enumerate(texts, 1)], count=words)


def test_a_passage_is_of_one_project_and_one_trust() -> None:
    messages = [heard(1, "a"), heard(2, "b", user=False), heard(3, "c", trusted=False), heard(4, "d", project="x")]
    first = next_passage(messages, count=words)
    assert (first.project, first.until, first.is_trusted) == ("otaru", 2, True)
    assert first.lines == ("[1] 2026-03-01 Sun user (Mika): a", "[2] 2026-03-01 Sun assistant: b")
    second = next_passage(messages[2:], count=words)
    assert (second.until, second.is_trusted) == (3, False)


def test_messages_without_a_project_are_passed_by_together() -> None:
    none = next_passage([heard(1, "a", project=""), heard(2, "b", project=""), heard(3, "c")], count=words)
    assert (none.project, none.lines, none.until) == ("", (), 2)


def test_a_passage_ends_where_a_call_is_full_and_a_long_message_loses_its_middle() -> None:
    messages = [heard(1, "a " * 50), heard(2, "b " * 5), heard(3, "c")]
    passage = next_passage(messages, count=words, most=20)
    assert passage.until == 1 and words(passage.lines[0]) <= 20 and "[…]" in passage.lines[0]
    tiny = next_passage(messages, count=lambda text: len(text), most=3)
    assert tiny.lines[0] == "[1]"


def test_remembered_text_and_blank_messages_tell_nothing() -> None:
    code = "0" * 16
    remembered = f"<remembered-{code}>\nold\n</remembered-{code}>\nnew"
    passage = passage_of(remembered, " \n ")
    assert passage.lines == ("[1] 2026-03-01 Sun user (Mika): new",) and passage.until == 2


def test_known_lines_are_the_last_of_each_document() -> None:
    shown = known_lines(["a\n\nb\nc\n", "", "d\n"], count=words, most=4)
    assert shown == ["b", "c", "d"]


@pytest.mark.parametrize(
    ("language", "headings"), [("en", ["known-already", "messages"]), ("ja", ["記録済み", "メッセージ"])]
)
def test_blocks_name_what_is_known(language: str, headings: list[str]) -> None:
    assert list(prompt_blocks(passage_of("a"), ["b"], language=language)) == headings
    assert list(prompt_blocks(passage_of("a"), [], language=language)) == headings[1:]


def test_schema_asks_for_a_list_for_each_document() -> None:
    assert answer_schema()["required"] == ["facts", "decisions", "timeline"]


def entry(text: Any, sources: Any = (1,)) -> dict[str, Any]:
    return {"text": text, "sources": list(sources) if isinstance(sources, tuple) else sources}


def test_entries_go_to_their_documents() -> None:
    passage = passage_of("We use Django.", "Release on Friday.")
    data = {
        "facts": [entry("- [PINNED] The server is\nwritten in Django.")],
        "decisions": [entry("Release on Friday.", (2,))],
        "timeline": [entry("Django was chosen.", (1, 2))],
    }
    learned = parse_entries(data, passage, {})
    assert [(each.document, each.text) for each in learned] == [
        ("MEMORY.md", "The server is written in Django."),
        ("decisions.md", "Release on Friday."),
        ("timeline.md", "Django was chosen."),
    ]
    assert learned[2].sources == passage.messages


@pytest.mark.parametrize(
    "data",
    [
        None, [], {}, {"facts": "no"}, {"facts": ["no"]}, {"facts": [entry(7)]}, {"facts": [entry(" - ")]},
        {"facts": [entry("a b", ())]}, {"facts": [entry("a b", (9, True))]}, {"facts": [entry("a b", "1")]},
        {"facts": [entry("long " * MAX_EXTRACTED_LENGTH)]}, {"facts": [entry("half \ud800")]},
    ],
)  # fmt: skip
def test_what_is_no_entry_is_left_out(data: Any) -> None:
    kept = parse_entries(data, passage_of("a"), {})
    assert [each.text for each in kept if "half" not in each.text] == []


def test_no_more_than_a_few_entries_are_taken() -> None:
    data = {"facts": [entry(f"fact number {number} holds") for number in range(40)]}
    assert len(parse_entries(data, passage_of("a"), {})) == MAX_ENTRIES


def test_what_is_known_is_not_said_again() -> None:
    data = {
        "facts": [entry("The team uses PostgreSQL."), entry("The team uses the PostgreSQL!"), entry("New fact here.")]
    }
    learned = parse_entries(data, passage_of("a"), {"MEMORY.md": "- Our team uses PostgreSQL daily.\n\n"})
    assert [each.text for each in learned] == ["New fact here."]


@pytest.mark.parametrize(
    ("new", "old", "same"),
    [
        ("We use PostgreSQL 18.", "The team uses PostgreSQL 18 as its database.", True),
        ("Release is on Friday.", "Release is on Monday.", False),
        ("Release is on 12 May.", "Release is on 13 May.", False),
        ("We use Redis for sessions.", "We decided against Redis for sessions.", False),
        ("We use Redis.", "We do not use Redis.", False),
        ("Cache", "The cache in front of the search has two levels and a clock of its own.", False),
        ("データベースはPostgreSQLを使う。", "データベースはPostgreSQLを使う", True),
        ("データベースはPostgreSQLを使わない。", "データベースはPostgreSQLを使う。", False),
        ("会議は東京で行う。", "会議は大阪で行う。", False),
        ("担当は渡邊さん。", "担当は渡辺さん。", False),
        ("?!", "?!", False),
    ],
)
def test_near_words_say_the_same_and_other_facts_do_not(new: str, old: str, same: bool) -> None:
    assert EntryWords.of(new).repeats(EntryWords.of(old)) is same
