"""Differences between texts: nothing is lost, no word is marked in part, and the work is bounded."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.admin.diff import (
    CUT,
    GONE,
    MAX_CHANGED_LENGTH,
    MAX_COMPARED_LENGTH,
    MAX_INLINE_LENGTH,
    MAX_PAGE_LENGTH,
    MAX_PASSAGE_LENGTH,
    NEW,
    SAME,
    Differences,
    Part,
    Row,
    Run,
    differences,
    inline_diff,
    shared_words,
    side_by_side,
    word_spans,
)
from tests.examples import examples
from tests.unit.timing import time_problem

PARTS = [
    "Likes tea. ",
    "Lives in Kyoto.\n",
    "緑茶が好きです。",
    "猫を飼っている。",
    "a ",
    "is ",
    "3.5",
    " ",
    "！",
    "\n\n",
]
TEXTS = st.one_of(st.text(max_size=150), st.lists(st.sampled_from(PARTS), max_size=12).map("".join))


LETTERS = "".join(chr(0x4E00 + number) for number in range(5_000))
LINES = [f"Line {number} says something of its own.\n" for number in range(300)]
LINE_TEXTS = st.lists(st.sampled_from(["a\n", "b c\n", "\n", "抹茶の話。\n", "x" * 30]), max_size=12).map("".join)


def own_words(text: str, other: str) -> list[str]:
    return [span.one for span in word_spans(text, other) if span.own and span.one]


def sides(rows: list[Row] | None) -> list[tuple[str, str]]:
    assert rows is not None
    return [("".join(p.text for p in row.one), "".join(p.text for p in row.other)) for row in rows]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Likes green tea.", "Likes black tea.", ["green "]),
        ("抹茶アイスが大好き", "抹茶アイスが好き", ["大"]),
        ("same", "same", []),
        ("", "all of it", []),
        ("all of it", "", ["all of it"]),
        # What is shared by chance between two differences is not worth reading: here one letter and one space.
        ("彼は京都", "私は大阪", ["彼は京都"]),
        ("Owns a red car", "Has a blue car", ["Owns a red "]),
        ("佐々木さんはiPhoneが好き", "佐々木さんもiPhoneが好き", ["は"]),
        # A number is a word: no digit of it is taken for shared.
        ("Pays 100 yen", "Pays 1001 yen", ["100 "]),
    ],
)
def test_what_only_one_says_is_marked(one: str, other: str, expected: list[str]) -> None:
    assert own_words(one, other) == expected


def test_sentences_stand_side_by_side() -> None:
    rows = side_by_side("Likes tea. Lives in Kyoto. Has 3.5 cats", "Likes tea. Lives in Osaka now. Has 3.5 cats")
    assert sides(rows) == [
        ("Likes tea. ", "Likes tea. "),
        ("Lives in Kyoto. ", "Lives in Osaka now. "),
        ("Has 3.5 cats", "Has 3.5 cats"),
    ]
    assert rows is not None and [row.differs for row in rows] == [False, True, False]


def test_japanese_sentences_stand_side_by_side() -> None:
    rows = side_by_side("京都に住む。緑茶が好きです。", "大阪に住む。緑茶が大好きです。")
    assert sides(rows) == [("京都に住む。", "大阪に住む。"), ("緑茶が好きです。", "緑茶が大好きです。")]


@given(one=TEXTS, other=TEXTS)
def test_the_rows_are_the_whole_texts(one: str, other: str) -> None:
    rows, spans = side_by_side(one, other), word_spans(one, other)
    assert rows is not None
    assert "".join(left for left, _ in sides(rows)) == one
    assert "".join(right for _, right in sides(rows)) == other
    assert ["".join(span.one for span in spans), "".join(span.other for span in spans)] == [one, other]
    assert any(row.differs for row in rows) == (one != other) == any(span.own for span in spans)
    assert all(part.text for row in rows for part in (*row.one, *row.other))


def test_long_texts_are_not_compared_as_a_whole() -> None:
    long = "x" * (MAX_COMPARED_LENGTH + 1)
    assert side_by_side(long, "x") is None and inline_diff("x", long) is None


@pytest.mark.parametrize("deadline", [0.0, None])
def test_texts_that_repeat_themselves_take_no_more_time_than_there_is(deadline: float | None) -> None:
    one, other = ("".join(chr(0x4E00 + number * step % 101) for number in range(5000)) for step in (1, 7))
    assert not time_problem(lambda: word_spans(one, other, deadline), seconds=20)
    spans = word_spans(one, other, deadline)
    assert "".join(span.one for span in spans) == one and "".join(span.other for span in spans) == other


def test_small_changes_in_a_long_text_are_found_without_searching() -> None:
    other = "".join(letter if number % 8 < 4 else "々" for number, letter in enumerate(LETTERS))
    spans = word_spans(LETTERS, other, deadline=0.0)
    assert [len(span.one) for span in spans] == [4] * 1250
    assert [span.own for span in spans] == [False, True] * 625


def test_texts_with_little_in_common_hold_all_of_both() -> None:
    shuffled = [*LETTERS]
    Random(1).shuffle(shuffled)
    spans = word_spans(LETTERS, "".join(shuffled), deadline=0.0)
    assert "".join(span.one for span in spans) == LETTERS
    assert "".join(span.other for span in spans) == "".join(shuffled)


# In one text


def joined(runs: list[Run], *kinds: str) -> str:
    return "".join(run.text for run in runs if run.kind in kinds)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", ""),
        ("", "new"),
        ("old", ""),
        ("a b c", "a x c"),
        ("抹茶が好き", "珈琲が好き"),
        ("x y", "y x"),
        ("same", "same"),
    ],
)
def test_an_inline_difference_holds_both_texts(before: str, after: str) -> None:
    runs = inline_diff(before, after)
    assert runs is not None
    assert joined(runs, SAME, GONE) == before and joined(runs, SAME, NEW) == after


def test_an_inline_difference_leaves_out_what_stayed_and_is_cut() -> None:
    same = "word " * 400
    runs = inline_diff(f"{same}old {same}", f"{same}new {same}")
    assert runs is not None and [run.kind for run in runs] == [CUT, SAME, GONE, NEW, SAME, CUT]
    long = inline_diff("", "new " * 1200)
    assert long is not None and long[-1].kind == CUT and len(joined(long, NEW)) <= MAX_INLINE_LENGTH


# Passages


def own(parts: list[Part]) -> str:
    return "".join(part.text + part.end for part in parts if part.own)


def test_the_same_text_has_no_differences() -> None:
    assert differences("a", "a") == Differences([], 0)


def test_changed_lines_stand_with_two_around_and_only_their_words_are_marked() -> None:
    other = [*LINES]
    other[100] = other[100].replace("something", "nothing")
    (passage,) = differences("".join(LINES), "".join(other)).passages
    assert passage.line == 99
    assert own(passage.was).strip() == "something" and own(passage.now).strip() == "nothing"
    assert sum(part.text.count("\n") for part in passage.now) == 5


def test_changes_far_apart_are_passages_of_their_own() -> None:
    other = [line.replace("own", "one") if number in (10, 200) else line for number, line in enumerate(LINES)]
    assert [each.line for each in differences("".join(LINES), "".join(other)).passages] == [9, 199]


def test_a_page_of_changes_says_where_the_next_begins() -> None:
    other = [line.replace("own", "one") if number % 10 == 0 else line for number, line in enumerate(LINES)]
    one, two = "".join(LINES), "".join(other)
    whole = differences(one, two)
    seen, first = [], 0
    while True:
        page = differences(one, two, first=first, max_length=500)
        seen += page.passages
        if page.following is None:
            break
        first = page.following
    assert seen == whole.passages and len(seen) == whole.total == 30


def test_a_long_line_shows_what_changed_in_it() -> None:
    one = "word " * 20_000
    passage = differences(one, f"{one[:50_000]}NEW {one[50_000:]}").passages[0]
    assert own(passage.now) == "NEW " and own(passage.was) == ""
    assert passage.size < 3_000 and sum(part.left_out for part in passage.now) > 90_000


def test_what_is_new_as_a_whole_is_cut_in_its_middle() -> None:
    passage = differences("", "抹茶。\n" * 30_000).passages[0]
    assert len(own(passage.now)) == MAX_CHANGED_LENGTH and passage.now[0].left_out == 120_000 - MAX_CHANGED_LENGTH


def test_what_is_new_among_lines_that_repeat_themselves_is_marked() -> None:
    one, two = "a\nb\n" * 2_000, "b\na\n" * 1_000 + "c\n" + "a\nb\n" * 1_000
    assert any("c" in own(passage.now) for passage in differences(one, two).passages)


def test_a_text_with_many_small_changes_takes_pages_each_short_and_with_every_change() -> None:
    lines = [f"Line {number} says something of its own.\n" for number in range(6_000)]
    other = [line if number % 2 else f"Changed {number}.\n" for number, line in enumerate(lines)]
    seen: list[str] = []
    first: int | None = 0
    while first is not None:
        page = differences("".join(lines), "".join(other), first=first)
        assert sum(each.size for each in page.passages) < MAX_PAGE_LENGTH + 2 * MAX_PASSAGE_LENGTH
        seen += ["".join(part.text for part in each.now) for each in page.passages]
        first = page.following
    assert "".join(seen) == "".join(other)


def test_the_words_of_a_page_are_compared_as_long_as_there_is_time() -> None:
    one, two = (
        "".join(f"{number}\n" * 5 + f"抹茶{particle}好き" * 20 + "\n" for number in range(150)) for particle in "がは"
    )
    assert [[part.text for part in each.now if part.own] for each in differences(one, two, seconds=60).passages] == [
        ["は"] * 20
    ] * 150
    hurried = differences(one, two, seconds=0)
    assert hurried.total == 1 and len(own(hurried.passages[0].now)) == MAX_CHANGED_LENGTH


@settings(max_examples=examples(60), deadline=None)
@given(LINE_TEXTS, LINE_TEXTS)
def test_what_is_not_marked_is_in_both(one: str, other: str) -> None:
    found = differences(one, other)
    assert (found.total == 0) == (one == other)
    for passage in found.passages:
        same = ["".join(part.text for part in side if not part.own) for side in (passage.was, passage.now)]
        assert same[0] == same[1]
        for side, text in ((passage.was, one), (passage.now, other)):
            assert "".join(part.text for part in side) in text


def test_a_mark_does_not_cut_the_last_kana_off_a_word() -> None:
    shared = [each.text for each in shared_words("はるかさんは京都へ。", "はるかさんの猫。") if each.is_shared]
    assert "".join(shared).startswith("はるかさん")
