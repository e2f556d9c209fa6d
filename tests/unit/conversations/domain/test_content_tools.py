"""Tool use: calls and their results are never parted, in either vendor's form and within any budget."""

import json
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conversations.domain.assembly import AssemblyRequest, InvalidContext, assemble, check_context
from conversations.domain.budget import ContextTooLarge
from conversations.domain.content import (
    StoredMessage,
    calls_in,
    pair_calls,
    references_in,
    shortened_results,
    texts_with_traces,
    trace,
)
from conversations.domain.layers import WORKING, Candidate, LayerResult
from conversations.domain.policy import ContextPolicy
from tests.examples import examples
from tests.fakes.llm_server import message_problem

NONCE = "0123456789abcdef"
TOOLS = {"anthropic": [{"name": "search"}], "openai": [{"type": "function", "function": {"name": "search"}}]}


def plain(text: str) -> int:
    return len(text) // 3 + 1


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(key: str, name: str = "search", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": key, "name": name, "input": given}


def result(key: str, content: Any = "fine", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": key, "content": content, **more}


THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
IMAGE = {"type": "image", "media_type": "image/png", "data": "aGVsbG8="}

ids = st.sampled_from(["a", "b", "c", "toolu_1", "functions.search:0", "x" * 60, "é"])
names = st.sampled_from(["search", "search_flights", "n" * 100, "a b"])
words = st.sampled_from(["", " ", "Hello.", "word " * 300, "[mika] no"])
contents = st.one_of(words, st.lists(st.one_of(words.map(text), st.just(IMAGE)), max_size=3))
inputs = st.dictionaries(st.sampled_from(["q", "n"]), words, max_size=2)
calls = st.builds(lambda key, name, given: {**call(key, name), "input": given}, ids, names, inputs)
results = st.builds(
    lambda key, content, failed: result(key, content, **failed),
    ids,
    contents,
    st.sampled_from([{}, {"is_error": True}]),
)
assistants = st.lists(st.one_of(calls, calls, words.map(text), st.just(THINKING)), max_size=4)
users = st.lists(st.one_of(results, results, words.map(text), st.just(IMAGE)), max_size=3)
odd = st.lists(
    st.sampled_from([{"type": "tool_use"}, {"type": "tool_use", "id": 3, "name": "x", "input": {}}, {"type": "spoof"}]),
    max_size=1,
)
messages = st.one_of(
    st.builds(
        StoredMessage,
        st.sampled_from("12"),
        st.just("assistant"),
        st.builds(lambda one, two: (*one, *two), assistants, odd),
    ),
    st.builds(StoredMessage, st.sampled_from("12"), st.just("user"), users.map(tuple)),
    st.builds(StoredMessage, st.sampled_from("12"), st.just("tool"), st.lists(results, max_size=3).map(tuple)),
)
policies = st.fixed_dictionaries(
    {
        "max_tokens": st.integers(1000, 30_000),
        "working_memory_limit": st.integers(1, 20),
        "memory_placement": st.sampled_from(["auto", "before_history", "with_user_message"]),
        "cache": st.booleans(),
        "include_tools": st.sampled_from([True, True, True, False]),
        "layer_budgets": st.sampled_from([None, None, {"working": 0.2}]),
    }
)


@settings(max_examples=examples(1000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(messages, max_size=14),
    policies,
    st.sampled_from(["anthropic", "openai"]),
    st.integers(0, 14),
    st.booleans(),
)
def test_any_transcript_within_any_budget_is_valid_for_the_vendor(
    said: list[StoredMessage], options: dict[str, Any], form: Any, current: int, crowd: bool
) -> None:
    policy = ContextPolicy().validated(**options)
    numbers = count()
    candidates = [
        Candidate(
            layer=WORKING, role=said[place].role, content=blocks, source_id=str(next(numbers)), session_id=said[place].session,
            author=f"n{place % 2}" if crowd else "", is_answer=said[place].role == "assistant", is_earlier=said[place].session == "1" and place < current,
            is_current=place >= current and policy.include_tools and said[place].role == "assistant" and bool(calls_in(blocks)),
        )
        for place, blocks in pair_calls(said)
    ]  # fmt: skip
    candidates.sort(key=lambda each: each.is_current)
    request = AssemblyRequest(
        message="Now?",
        nonce=NONCE,
        policy=policy,
        layers=(LayerResult(tuple(candidates)),),
        format=form,
        author="n0" if crowd else "",
    )
    try:
        assembly = assemble(request, plain)
    except ContextTooLarge:
        assert any(candidate.is_current for candidate in candidates)
        return

    sent = assembly.messages if form == "anthropic" else assembly.messages[1:]
    assert message_problem(form, sent, TOOLS[form] if policy.include_tools else None) is None
    assert assembly.metadata.total_tokens <= policy.token_limit
    assert "Now?" in str(sent)


def test_results_stand_right_after_their_calls_and_all_others_are_left_out() -> None:
    said = [
        StoredMessage("1", "tool", (result("lost"),)),
        StoredMessage("1", "assistant", (text("Let me look."), call("a"), call("b"), call("a"))),
        StoredMessage("1", "user", (text("Hurry."),)),
        StoredMessage("1", "tool", (result("b", "2"), result("a", "1"), result("a", "again"))),
        StoredMessage("2", "user", (result("b"), text("Other session."))),
        StoredMessage("2", "user", ()),
    ]

    assert pair_calls(said) == [
        (1, (text("Let me look."), call("a"), call("b"), result("b", "2"), result("a", "1"))),
        (2, (text("Hurry."),)),
        (4, (text("Other session."),)),
        (5, ()),
    ]


def written(form: Any, *blocks: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    turns = (
        Candidate(layer=WORKING, role="user", content="Kyoto?"),
        Candidate(layer=WORKING, role="assistant", content=blocks),
    )
    request = AssemblyRequest(
        message="Now?",
        nonce=NONCE,
        policy=ContextPolicy().validated(**options),
        layers=(LayerResult(turns),),
        format=form,
    )
    return assemble(request, plain).messages


def test_anthropic_has_results_in_the_users_message() -> None:
    picture = [text("A map."), IMAGE]
    blocks = (
        THINKING,
        text("I look."),
        call("a", q="Kyoto"),
        call("b"),
        result("a", picture),
        result("b", "", is_error=True),
    )

    assert written("anthropic", *blocks)[1:] == [
        {"role": "assistant", "content": [THINKING, text("I look."), call("a", q="Kyoto"), call("b")]},
        {
            "role": "user",
            "content": [
                result(
                    "a",
                    [
                        text("A map."),
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}},
                    ],
                ),
                {"type": "tool_result", "tool_use_id": "b", "is_error": True},
                text("Now?"),
            ],
        },
    ]


def test_openai_has_a_message_for_each_result() -> None:
    blocks = (THINKING, call("a", q="京都"), call("b"), result("a", [text("A map."), IMAGE]))
    arguments = {"a": '{"q": "京都"}', "b": "{}"}
    tool_calls = [
        {"id": key, "type": "function", "function": {"name": "search", "arguments": arguments[key]}} for key in "ab"
    ]

    assert written("openai", *blocks)[2:] == [
        {"role": "assistant", "content": None, "tool_calls": tool_calls},
        {"role": "tool", "tool_call_id": "a", "content": "A map.\n[image]"},
        {"role": "tool", "tool_call_id": "b", "content": "(no result)"},
        {"role": "user", "content": "Now?"},
    ]


def test_without_tools_a_call_is_a_line() -> None:
    blocks = (text("I look."), call("a"), result("a", "[1, 2, 3]"))

    assert written("anthropic", *blocks, include_tools=False)[1] == {
        "role": "assistant",
        "content": "I look.\n(called search(…) → 3 results)",
    }


def test_thinking_stands_beside_calls_alone_and_never_after_other_blocks() -> None:
    assert written("anthropic", THINKING, text("Hi."))[1]["content"] == "Hi."
    late = written("anthropic", text("Hi."), THINKING, call("a"))[1]["content"]
    assert [block["type"] for block in late] == ["text", "tool_use"]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('[{"id": 1}, {"id": 2}, {"id": 3}]', "called search(…) → 3 results"),
        ('{"flights": [1], "total": 1}', "called search(…) → 1 result"),
        ("[]", "called search(…) → 0 results"),
        ('{"a": [1], "b": [2]}', "called search(…) → a result"),
        ("sunny", "called search(…) → a result"),
        ([text("[1, 2]"), IMAGE], "called search(…) → 2 results"),
        ("[" * 100_000, "called search(…) → a result"),
        (None, "called search(…) → a result"),
    ],
)
def test_a_trace_says_how_many_results_and_nothing_of_them(content: Any, line: str) -> None:
    assert trace(call("a", q="secret"), result("a", content), "en") == line


def test_a_trace_is_in_the_agents_language() -> None:
    assert trace(call("a"), None, "en") == "called search(…)"
    assert trace(call("a"), result("a", "[1]", is_error=True), "ja") == "search(…) を実行 → エラー"
    assert trace(call("a"), result("a", "[1, 2]"), "ja") == "search(…) を実行 → 2件"


def test_texts_have_a_line_for_each_call_with_its_result_of_a_later_message() -> None:
    said = [("Look!", None), ("I look.", [call("a"), call("b")]), ("", [result("a", "[1, 2]")]), ("Two.", [])]

    assert texts_with_traces(said, "en") == [
        "Look!",
        "I look.\n(called search(…) → 2 results)\n(called search(…))",
        "",
        "Two.",
    ]


def test_a_long_result_keeps_its_beginning_and_end() -> None:
    long = "東" * 1000 + "end"
    content = (call("a"), result("a", long), result("b", [text("short"), IMAGE]))

    assert shortened_results(content) == (
        call("a"),
        result("a", f"{'東' * 166} […] {'東' * 165}end"),
        result("b", "short"),
    )
    assert shortened_results("text") == "text"


def test_results_are_shortened_before_any_turn_goes() -> None:
    blocks = (call("a"), result("a", json.dumps(list(range(2000)))))

    sent = written("anthropic", *blocks, max_tokens=1000)

    assert " […] " in sent[2]["content"][0]["content"]
    assert sent[0]["content"] == "Kyoto?"


@pytest.mark.parametrize(
    ("turns", "problem"),
    [
        ([{"role": "user", "content": [result("a")]}], "result of no call"),
        ([{"role": "user", "content": "x"}, {"role": "assistant", "content": [call("a")]}], "last call has no result"),
        ([{"role": "user", "content": "x"}, {"role": "assistant", "content": [call("a")]}, {"role": "user", "content": "y"}], "leaves a call"),
        ([{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "a", "content": ""}], "result of no call"),
    ],
)  # fmt: skip
def test_a_torn_pair_is_no_context(turns: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(InvalidContext, match=problem):
        check_context("system", turns, 1, 10)


def test_an_assistants_name_stands_in_its_text_and_not_before_its_calls() -> None:
    said = [
        Candidate(layer=WORKING, role="assistant", author="yuno", content="Hello."),
        Candidate(
            layer=WORKING, role="assistant", author="kana", content=(THINKING, text("I look."), call("a"), result("a"))
        ),
        Candidate(layer=WORKING, role="assistant", author="kana", content=(call("b"), result("b"))),
    ]
    request = AssemblyRequest(message="Now?", nonce=NONCE, layers=(LayerResult(tuple(said)),))

    sent = assemble(request, plain).messages

    assert sent[1]["content"] == [text("[yuno] Hello."), text("[kana] I look."), call("a")]
    assert sent[3]["content"] == [call("b")]


def test_images_and_files_are_references_and_nothing_else_is() -> None:
    assert references_in([text("a"), IMAGE, call("a"), THINKING, {"type": "file"}]) == (IMAGE, {"type": "file"})
    assert references_in(None) == ()


@pytest.mark.parametrize(("seq", "first"), [(1, 0), (29, 0), (30, 30), (59, 30), (60, 60)])
def test_a_cached_conversation_begins_at_a_multiple_of_three_limits(seq: int, first: int) -> None:
    assert ContextPolicy(cache=True).window_start(seq) == first
    assert ContextPolicy().window_start(seq) == seq


def test_an_answer_goes_with_its_question() -> None:
    turns = [
        Candidate(layer=WORKING, role=role, content=f"{role} {'word ' * 200}", is_answer=role == "assistant")
        for role in ("user", "assistant", "assistant", "user", "assistant")
    ]
    assembly = assemble(
        AssemblyRequest(
            message="Now?", nonce=NONCE, policy=ContextPolicy(max_tokens=2000), layers=(LayerResult(tuple(turns)),)
        ),
        plain,
    )

    assert [item.reason for item in assembly.items[1:-1]] == ["over_budget"] * 3 + ["included"] * 2
    orphans = LayerResult(tuple(turns[1:]))
    reasons = [
        item.reason for item in assemble(AssemblyRequest(message="Now?", nonce=NONCE, layers=(orphans,)), plain).items
    ]
    assert reasons[1:-1] == ["orphan", "orphan", "included", "included"]
