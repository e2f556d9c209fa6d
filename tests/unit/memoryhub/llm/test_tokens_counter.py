"""Counts are those recorded from OpenAI's own encoder, and estimates never fall below what they must not."""

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.llm.tokens import (
    CLAUDE,
    MAX_BLANK_RUN_CHARS,
    MAX_CACHED_CHARS,
    MAX_LETTER_RUN_CHARS,
    MAX_PIECES,
    O200K,
    Factors,
    TokenCounter,
    count_raw,
    counter_for,
    o200k_base,
    raw_counts,
    split_by_script,
)

# Counted once with the npm package "tiktoken" 1.0.22 (a build of its own, in WebAssembly) over texts written
# for this test.
COUNTED_TEXTS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("counted_texts.json").read_text("utf-8"))
MIXED = Factors(latin=1.5, japanese=1.4, code=1.2, other=2.0)


def test_there_are_two_hundred_recorded_counts() -> None:
    assert len(COUNTED_TEXTS) == 200


@pytest.mark.parametrize("recorded", COUNTED_TEXTS, ids=range(len(COUNTED_TEXTS)))
def test_count_raw_is_the_recorded_count(recorded: dict[str, Any]) -> None:
    assert count_raw(recorded["text"]) == recorded["tokens"]


@pytest.mark.parametrize("recorded", COUNTED_TEXTS, ids=range(len(COUNTED_TEXTS)))
def test_a_model_of_o200k_base_is_counted_exactly(recorded: dict[str, Any]) -> None:
    assert counter_for("gpt-4o").count(recorded["text"]) == recorded["tokens"]


def test_special_tokens_are_ordinary_text() -> None:
    assert count_raw("<|endoftext|>") > 1


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        " " * 1_000_001,
        " " * 1_000_000 + "x",
        "\u3000" * 1_000_001,
        "\n" * 1_000_000,
        "\t " * 500_000,
        "あ" * 1_000_000,
        "!" * 1_000_000,
        "A" * 1_000_000 + "1",
    ],
    ids=lambda text: f"{text[:2]!r}…",
)
def test_a_long_run_is_counted(text: str) -> None:
    assert 0 < count_raw(text) <= len(text.encode())


@pytest.mark.parametrize("blank", [" ", "\t", "\u3000", " \t"])
@pytest.mark.parametrize("length", [1, 3, 17])
def test_a_run_of_blanks_counted_in_parts_is_not_counted_lower(blank: str, length: int) -> None:
    run = blank * (MAX_BLANK_RUN_CHARS // len(blank) + length)
    whole = len(o200k_base().encode_ordinary(run + "x"))

    assert whole <= count_raw(run + "x") <= whole + 4


@pytest.mark.parametrize("letters", ["a", "xyz", "qwertzuiop", "漢字", "каша"])
def test_a_run_of_letters_counted_in_parts_is_not_counted_lower(letters: str) -> None:
    run = letters * (2 * MAX_BLANK_RUN_CHARS // len(letters))
    whole = len(o200k_base().encode_ordinary(run))

    assert whole <= count_raw(run) <= 1.05 * whole + len(run) // MAX_LETTER_RUN_CHARS


def test_a_text_in_very_many_pieces_counts_no_less_than_its_parts() -> None:
    part = "".join(random.Random(7).choices(["あ", "x", " ", "б", "9", "の"], k=20_000))
    counter = counter_for("claude-x")

    assert len(list(split_by_script(3 * part))) > MAX_PIECES >= len(list(split_by_script(part)))
    assert 3 * counter.count(part) <= counter.count(3 * part) <= 5 * counter.count(part)


def test_a_lone_surrogate_is_counted() -> None:
    assert count_raw("a\ud800b") > 0
    assert counter_for(None).count("a\ud800b") > 0


@given(st.text(max_size=300))
def test_count_raw_lies_between_nothing_and_the_bytes(text: str) -> None:
    assert (count_raw(text) == 0) == (text == "")
    assert count_raw(text) <= len(text.encode())


@given(st.text(max_size=200), st.text(max_size=200))
def test_count_raw_of_a_joined_text_is_hardly_more_than_of_its_parts(first: str, second: str) -> None:
    # A merge across the seam can break up better merges on either side of it, so it may be a little more.
    apart = count_raw(first) + count_raw(second)
    assert count_raw(first + second) <= 1.25 * apart + 4


@given(st.text(max_size=300))
def test_an_estimate_never_falls_below_raw_times_the_smallest_factor(text: str) -> None:
    raw = count_raw(text)

    assert math.ceil(raw * MIXED.smallest) <= TokenCounter(MIXED).count(text)
    assert raw <= counter_for("claude-x").count(text) <= counter_for("nobody-knows").count(text)


@pytest.mark.parametrize("recorded", COUNTED_TEXTS, ids=range(len(COUNTED_TEXTS)))
def test_an_estimate_stays_within_the_largest_factor_and_the_seams(recorded: dict[str, Any]) -> None:
    estimate = TokenCounter(MIXED).count(recorded["text"])

    assert estimate <= math.ceil(recorded["tokens"] * 2.0) + 2 * len(recorded["text"].split())


@pytest.mark.parametrize(
    ("text", "factor"),
    [
        ("The quick brown fox jumps over the lazy dog.", 1.5),
        ("今日は良い天気です。", 1.4),
        ("for (i = 0; i < n; i++) { f(i); }", 1.2),
        ("Привет", 2.0),
    ],
)
def test_a_text_of_one_script_is_multiplied_by_its_factor(text: str, factor: float) -> None:
    assert TokenCounter(MIXED).count(text) == math.ceil(count_raw(text) * factor)


def test_scripts_of_a_mixed_text_are_counted_apart() -> None:
    by_script = raw_counts("Hello 世界").by_script

    assert by_script["latin"] == count_raw("Hello ")
    assert by_script["japanese"] == count_raw("世界")
    assert by_script["code"] == by_script["other"] == 0


def test_an_empty_text_costs_nothing() -> None:
    assert counter_for(None).count("") == 0


@pytest.mark.parametrize("length", [MAX_CACHED_CHARS, MAX_CACHED_CHARS + 1])
def test_cached_and_uncached_counts_agree(length: int) -> None:
    text = ("words and 言葉 " * length)[:length]

    assert [counter_for("claude-x").count(text) for _ in range(3)] == [TokenCounter(CLAUDE).count(text)] * 3


def test_overheads_come_from_the_factors() -> None:
    assert counter_for("gpt-4o").factors.per_message == O200K.per_message
    assert counter_for("gpt-4o").factors.per_request == O200K.per_request


@given(
    st.lists(st.sampled_from(["\n", "\r", "12.", "1. ", " ", "/", ".", "'s", "word", "語", "\u0301", "\u3000", "\x1c"]))
)
def test_a_text_counted_by_lines_counts_what_it_does_as_a_whole(pieces: list[str]) -> None:
    text = "".join(pieces) + f"\n3. {'A line of prose. ' * 10}\n" * 13

    assert len(text) > MAX_CACHED_CHARS
    assert count_raw(text) == len(o200k_base().encode_ordinary(text))
