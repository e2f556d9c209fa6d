"""Which stretches two texts share: right whatever the effort, and never more work than that."""

from difflib import SequenceMatcher
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.admin.comparing import ITEM_STEPS, MOST_STEPS, Comparison, Effort, shared_ends
from tests.counting import work

ITEMS = st.lists(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), max_size=30)
LINES = [f"Line {number}" for number in range(4_000)]


def shared(one: list[str], other: list[str], effort: Effort) -> list[str]:
    blocks = Comparison(one, other, effort).get_matching_blocks()
    return [each for block in blocks for each in one[block.a : block.a + block.size]]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("", "", (0, 0)),
        ("abc", "abc", (3, 0)),
        ("abc", "abxbc", (2, 1)),
        ("xa", "ya", (0, 1)),
        ("aa", "aaa", (2, 0)),
    ],
)
def test_the_ends_alike_never_overlap(one: str, other: str, expected: tuple[int, int]) -> None:
    assert shared_ends(one, other) == expected


@given(one=ITEMS, other=ITEMS, steps=st.integers(0, 2_000))
def test_what_is_shared_is_in_both_in_order_whatever_the_effort(
    one: list[str], other: list[str], steps: int
) -> None:
    comparison = Comparison(one, other, Effort(steps))
    blocks = comparison.get_matching_blocks()
    assert blocks[-1] == (len(one), len(other), 0)
    for block in blocks:
        assert one[block.a : block.a + block.size] == other[block.b : block.b + block.size]
    for before, after in pairwise(blocks):
        assert before.size and before.a + before.size <= after.a and before.b + before.size <= after.b
        assert not after.size or (before.a + before.size, before.b + before.size) != (after.a, after.b)
    codes = comparison.get_opcodes()
    assert [each for _, a, b, _, _ in codes for each in one[a:b]] == one
    assert [each for _, _, _, c, d in codes for each in other[c:d]] == other


@given(one=ITEMS, other=ITEMS)
def test_texts_that_there_is_time_for_are_compared_as_difflib_does(one: list[str], other: list[str]) -> None:
    comparison = Comparison(one, other, Effort())
    begin, end = shared_ends(one, other)
    between = SequenceMatcher(
        a=one[begin : len(one) - end], b=other[begin : len(other) - end], autojunk=False
    )
    sizes = sum(block.size for block in between.get_matching_blocks())
    assert comparison.is_whole
    assert sum(block.size for block in comparison.get_matching_blocks()) == begin + sizes + end


def test_many_small_changes_in_a_long_text_are_all_found_with_little_work() -> None:
    other = [line if number % 2 else f"Changed {number}" for number, line in enumerate(LINES)]
    effort = Effort()
    assert work(lambda: Comparison(LINES, other, effort)) < 2 * MOST_STEPS
    assert effort.left > 0 and shared(LINES, other, Effort()) == LINES[1::2]


def test_what_is_found_between_what_stands_once_is_found_too() -> None:
    one = [each for number in range(600) for each in ("the", f"only {number}", "end", "of")]
    other = [each for number in range(600) for each in ("the", f"only {number}", "of", "it")]
    assert shared(one, other, Effort(200_000)) == [each for each in one if each != "end"]


def test_what_was_moved_is_shared_once() -> None:
    other = [*LINES[2_500:], *LINES[:2_500]]
    assert shared(LINES, other, Effort(ITEM_STEPS * 8_000)) == LINES[:2_500]


def test_beyond_the_effort_all_between_the_ends_is_different() -> None:
    one, other = ["a", *"bc" * 900, "z"], ["a", *"cb" * 900, "z"]
    effort = Effort(100_000)
    comparison = Comparison(one, other, effort)
    assert [tag for tag, *_ in comparison.get_opcodes()] == ["equal", "replace", "equal"]
    assert not comparison.is_whole and effort.left >= 0


def test_texts_of_too_many_lines_are_not_even_looked_through() -> None:
    effort = Effort(ITEM_STEPS * 3_999)
    assert not Comparison(LINES[:2_000], LINES[2_000:], effort).is_whole
    assert effort.left == ITEM_STEPS * 3_999


def test_one_effort_serves_many_comparisons_and_each_tells_of_itself() -> None:
    one, other = LINES[:], LINES[:]
    Random(1).shuffle(other)
    effort = Effort(ITEM_STEPS * 8_000)
    assert not Comparison(one * 2, other * 2, effort).is_whole
    assert Comparison(one[:20], other[:20], effort).is_whole
