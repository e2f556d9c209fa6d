"""Where two long texts differ: nothing is lost, nothing is marked that both say, and it stays short."""

from hypothesis import given, settings
from hypothesis import strategies as st

from summaries.admin.passages import (
    LONGEST_OWN,
    LONGEST_PASSAGE,
    MOST_SHOWN,
    Differences,
    Part,
    differences,
)

LINES = [f"Line {number} says something of its own.\n" for number in range(300)]
TEXTS = st.lists(st.sampled_from(["a\n", "b c\n", "\n", "抹茶の話。\n", "x" * 30]), max_size=12).map("".join)


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
        page = differences(one, two, first=first, most=500)
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
    assert len(own(passage.now)) == LONGEST_OWN and passage.now[0].left_out == 120_000 - LONGEST_OWN


def test_texts_that_repeat_themselves_are_compared_as_one_passage() -> None:
    one, two = "a\nb\n" * 2_000, "b\na\n" * 1_000 + "c\n" + "a\nb\n" * 1_000
    found = differences(one, two)
    assert found.total == 1 and "c" in own(found.passages[0].now)


def test_a_text_with_many_small_changes_takes_pages_each_short_and_with_every_change() -> None:
    lines = [f"Line {number} says something of its own.\n" for number in range(6_000)]
    other = [line if number % 2 else f"Changed {number}.\n" for number, line in enumerate(lines)]
    seen: list[str] = []
    first: int | None = 0
    while first is not None:
        page = differences("".join(lines), "".join(other), first=first)
        assert sum(each.size for each in page.passages) < MOST_SHOWN + 2 * LONGEST_PASSAGE
        seen += ["".join(part.text for part in each.now) for each in page.passages]
        first = page.following
    assert "".join(seen) == "".join(other)


def test_the_words_of_a_page_are_compared_as_long_as_there_is_time() -> None:
    one, two = (
        "".join(f"{number}\n" * 5 + f"抹茶{particle}好き" * 20 + "\n" for number in range(150))
        for particle in "がは"
    )
    passages = differences(one, two).passages
    assert len(passages) == 150
    assert [part.text for part in passages[0].now if part.own] == ["は"] * 20
    assert [part.text.count("は") for part in passages[-1].now if part.own] == [20]


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS)
def test_what_is_not_marked_is_in_both(one: str, other: str) -> None:
    found = differences(one, other)
    assert (found.total == 0) == (one == other)
    for passage in found.passages:
        same = ["".join(part.text for part in side if not part.own) for side in (passage.was, passage.now)]
        assert same[0] == same[1]
        for side, text in ((passage.was, one), (passage.now, other)):
            assert "".join(part.text for part in side) in text
