"""SPEC X1, X5, X7: the two providers' forms, their count, their validation."""

from typing import Any

import pytest

from conversations.domain.assembly import InvalidContext, check_context
from conversations.domain.content import Block, excerpt, plain_text, reference_label
from conversations.domain.formats import (
    IMAGE_TOKENS,
    count_context,
    one_text,
    write_anthropic,
    write_openai,
    write_text,
)
from conversations.domain.prompt import Prompt, Turn

MARK = {"type": "ephemeral"}
TEXT = {"type": "text", "text": "t"}
WEB = {"type": "image", "url": "https://example.org/a.png"}
INLINE = {"type": "image", "media_type": "image/png", "data": "AAAA"}
TURNS = (Turn("user", (TEXT,)), Turn("assistant", (TEXT, TEXT), cache_after=1), Turn("user", (TEXT,)))


def test_anthropic_keeps_system_apart() -> None:
    system, messages = write_anthropic(Prompt("s", TURNS), "en")

    assert system == "s"
    assert messages == [
        {"role": "user", "content": "t"},
        {"role": "assistant", "content": [TEXT, TEXT]},
        {"role": "user", "content": "t"},
    ]


def test_anthropic_cache_marks_end_system_and_history() -> None:
    system, messages = write_anthropic(Prompt("s", TURNS, cache=True), "en")

    assert system == [{"type": "text", "text": "s", "cache_control": MARK}]
    assert messages[1]["content"] == [TEXT, TEXT | {"cache_control": MARK}]
    assert messages[2]["content"] == "t"


def test_a_marked_single_text_becomes_a_list() -> None:
    _, messages = write_anthropic(Prompt("s", (Turn("user", (TEXT,), cache_after=0),), cache=True), "en")

    assert messages[0]["content"] == [TEXT | {"cache_control": MARK}]


def test_openai_has_system_first_and_no_marks() -> None:
    system, messages = write_openai(Prompt("s", TURNS, cache=True), "en")

    assert system is None
    assert messages[0] == {"role": "system", "content": "s"}
    assert messages[2] == {"role": "assistant", "content": [TEXT, TEXT]}


def test_text_is_one_string_with_who_speaks() -> None:
    system, messages = write_text(Prompt("s", TURNS, cache=True), "en")
    assert (system, [message["role"] for message in messages]) == (None, ["system", "user"])
    assert one_text(messages) == "s\n\nuser: t\n\nassistant: t\nt\n\nuser: t"
    assert "アシスタント: t" in one_text(write_text(Prompt("s", TURNS), "ja")[1])
    assert one_text(write_text(Prompt("", TURNS[:1]), "en")[1]) == "t"


def test_text_has_words_for_images_and_tools() -> None:
    call = {"type": "tool_use", "id": "1", "name": "weather", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": "Sunny."}
    turns = (Turn("user", (WEB,)), Turn("assistant", (call,)), Turn("user", (result, TEXT)))
    text = one_text(write_text(Prompt("s", turns), "en")[1])
    assert "[image]" in text and "weather" in text and text.endswith("user: Sunny.\nt")


@pytest.mark.parametrize(
    ("block", "anthropic", "openai"),
    [
        (
            WEB,
            {"type": "image", "source": {"type": "url", "url": WEB["url"]}},
            {"type": "image_url", "image_url": {"url": WEB["url"]}},
        ),
        (
            INLINE,
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ),
    ],
)
def test_images_are_shown_in_each_form(block: Block, anthropic: Any, openai: Any) -> None:
    prompt = Prompt("s", (Turn("user", (block,)),))

    assert write_anthropic(prompt, "en")[1][0]["content"] == [anthropic]
    assert write_openai(prompt, "en")[1][1]["content"] == [openai]


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"type": "image"}, "[image]"),
        ({"type": "image", "url": "file:///etc/passwd", "name": "a\n]b"}, "[image: a )b]"),
        ({"type": "image", "url": 7}, "[image]"),
        ({"type": "image", "data": "AAAA", "media_type": "image/tiff"}, "[image]"),
        ({"type": "image", "data": b"AAAA", "media_type": "image/png"}, "[image]"),
        (WEB | {"given_way": True, "name": "a"}, "[image]"),
        ({"type": "file", "name": "b.pdf", "url": "https://example.org/b.pdf"}, "[file: b.pdf]"),
        ({"type": "hologram\n## x"}, "[hologram ## x]"),
        ({}, "[file]"),
    ],
)
def test_what_cannot_be_shown_becomes_words(block: Block, words: str) -> None:
    prompt = Prompt("s", (Turn("user", (block,)),))

    assert write_anthropic(prompt, "en")[1][0]["content"] == words
    assert write_openai(prompt, "en")[1][1]["content"] == words


def test_assistants_show_no_images() -> None:
    assert write_anthropic(Prompt("s", (Turn("assistant", (WEB,)),)), "en")[1][0]["content"] == "[image]"


def test_words_for_references_follow_the_language() -> None:
    assert reference_label({"type": "file", "name": "見積.pdf"}, "ja") == "[ファイル: 見積.pdf]"


def test_plain_text_and_excerpt_read_blocks() -> None:
    content = ({"type": "text", "text": "a"}, {"type": "text"}, {"type": "text", "text": " "}, WEB)

    assert plain_text(content, "en") == "a\n[image]"
    assert excerpt(content, "en") == "a [image]"
    assert len(excerpt("x\n" * 1000, "en")) == 200


def test_count_adds_texts_images_and_the_constants() -> None:
    system, messages = write_anthropic(Prompt("sss", (Turn("user", (TEXT, WEB, INLINE)),), cache=True), "en")
    expected = 3 + (4 + 1 + 3) + (4 + 1 + 1 + 1 + 1 + IMAGE_TOKENS + 1 + IMAGE_TOKENS) - 1

    assert count_context(system, messages, len) == expected


def test_both_forms_count_the_same() -> None:
    prompt = Prompt("system", (*TURNS, Turn("user", (WEB, TEXT))))

    assert count_context(*write_anthropic(prompt, "en"), len) == count_context(*write_openai(prompt, "en"), len)


def test_count_refuses_blocks_that_nobody_writes() -> None:
    with pytest.raises(ValueError, match="video"):
        count_context(None, [{"role": "user", "content": [{"type": "video"}]}], len)


USER, ASSISTANT = {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}
SYSTEM = {"role": "system", "content": "s"}


@pytest.mark.parametrize(
    ("system", "messages"),
    [
        ("s", [USER]),
        ("s", [USER, ASSISTANT, USER]),
        (None, [SYSTEM, USER]),
        ([TEXT], [{"role": "user", "content": [WEB, TEXT]}]),
    ],
)
def test_a_sound_context_passes(system: Any, messages: list[Any]) -> None:
    check_context(system, messages, 10, 10)


@pytest.mark.parametrize(
    ("system", "messages", "problem"),
    [
        ("s", [], "there is no message"),
        (None, [], "there is no message"),
        (None, [SYSTEM], "there is no message"),
        (" ", [USER], "system is empty"),
        (None, [USER], "system is empty"),
        (None, [SYSTEM | {"content": ""}, USER], "system is empty"),
        ("s", [SYSTEM, USER], "message 0 has the role 'system'"),
        ("s", [USER, ASSISTANT], "the last message is not the user's"),
        ("s", [ASSISTANT, USER], "the first message is not the user's"),
        ("s", [USER, USER], "messages 0 and 1 have the same role"),
        ("s", [{"content": "u"}], "message 0 has the role None"),
        ("s", [{"role": "user"}], "message 0 is empty, or has an empty block"),
        ("s", [{"role": "user", "content": " \n"}], "message 0 is empty, or has an empty block"),
        ("s", [{"role": "user", "content": []}], "message 0 is empty, or has an empty block"),
        ("s", [{"role": "user", "content": [TEXT, {"type": "text", "text": ""}]}], "has an empty block"),
    ],
)
def test_a_broken_context_is_refused(system: Any, messages: list[Any], problem: str) -> None:
    with pytest.raises(InvalidContext, match=problem):
        check_context(system, messages, 10, 10)


def test_every_problem_is_named_the_total_among_them() -> None:
    with pytest.raises(InvalidContext) as refused:
        check_context("", [ASSISTANT], 11, 10)

    assert refused.value.problems == (
        "system is empty",
        "the first message is not the user's",
        "the last message is not the user's",
        "11 tokens are more than the limit of 10",
    )
