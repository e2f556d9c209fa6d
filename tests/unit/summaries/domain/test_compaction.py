"""Limits of a rewrite: what it may touch, what stands for the rest, and what is refused (SPEC P7)."""

from datetime import UTC, date, datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summaries.domain.compaction import (
    CannotCompact,
    Outcome,
    Piece,
    Protection,
    Section,
    blocks_of,
    checked,
    day_in,
    free_tokens,
    mark_of,
    masked_text,
    missing_pieces,
    pieces_of,
    rewritten,
    sections_of,
    shares,
)
from summaries.domain.documents import line_digest
from summaries.domain.policy import CompactionPolicy

NOW = datetime(2026, 3, 15, 12, 0, tzinfo=UTC)
CODE = "c0de"
NOTHING = Protection.at(NOW, frozenset())


def words(text: str) -> int:
    return len(text.split())


def kept(text: str, protection: Protection = NOTHING) -> list[str]:
    return [piece.text.strip() for piece in pieces_of(text, protection) if piece.is_kept]


def test_limits_are_shares_of_the_window() -> None:
    policy = CompactionPolicy()
    assert (policy.limit, policy.target) == (20_000, 12_000)


@pytest.mark.parametrize(
    ("line", "day"),
    [
        ("- 2026-03-01: moved", date(2026, 3, 1)),
        ("moved on 2026/3/1", date(2026, 3, 1)),
        ("2026年3月1日に決定", date(2026, 3, 1)),
        ("- 2026-02-31: never, 2026-03-02: then", date(2026, 3, 2)),
        ("- version 12026-03-011", None),
        ("- no day", None),
    ],
)
def test_days_are_read_in_both_languages(line: str, day: date | None) -> None:
    assert day_in(line) == day


def test_blocks_are_headings_items_paragraphs_and_code() -> None:
    text = "# T\n> about\n\nOne\ntwo\n- a\n  more of a\n\n  still a\n  - b\n1. c\nlazy\n\n```\n- no item\n\n# none\n```\nend"
    assert [block.text.strip("\n") for block in blocks_of(text)] == [
        "# T",
        "> about",
        "One\ntwo",
        "- a\n  more of a\n\n  still a",
        "  - b",
        "1. c\nlazy",
        "```\n- no item\n\n# none\n```\nend",
    ]


@given(st.text(alphabet="#->`~ \n\r1.ab[]\u2028", max_size=80))
def test_blocks_and_sections_joined_are_the_text(text: str) -> None:
    assert "".join(block.text for block in blocks_of(text)) == text
    sections = sections_of(pieces_of(text, NOTHING), count=len, most=7)
    assert "".join(section.text for section in sections) == text
    assert all(len(section.free) <= 7 for section in sections)


def test_title_and_first_quote_are_kept_and_nothing_else_by_itself() -> None:
    assert kept("# T\n\n> about\n\n> later quote\n\n- a\n") == ["# T", "> about"]


def test_an_entry_is_kept_for_its_pin_its_day_or_its_digest() -> None:
    text = "- a\n- [PINNED] b\n- 2026-03-07: old\n- 2026-03-08: young\n- appended of late\n- e\n"
    protection = Protection.at(NOW, {line_digest("- appended of late")})
    assert kept(text, protection) == ["- [PINNED] b", "- 2026-03-08: young", "- appended of late"]


def test_what_is_below_a_kept_heading_or_item_is_kept_with_it() -> None:
    text = "## [PINNED] Rules\n- a\n### More\ntext\n## Rest\n- [PINNED] b\n  - below b\n- c\n\n  of c\n"
    assert kept(text) == ["## [PINNED] Rules", "- a", "### More", "text", "## Rest", "- [PINNED] b", "- below b"]


def test_headings_above_what_is_kept_stay() -> None:
    text = "# T\n## Rejected\n### Stores\n- [PINNED] b\n## Old\n- c\n"
    assert kept(text) == ["# T", "## Rejected", "### Stores", "- [PINNED] b"]


def test_a_paragraph_ends_a_list() -> None:
    assert kept("- [PINNED] a\n\nA paragraph.\n") == ["- [PINNED] a"]


SECTION = Section(
    (
        Piece("- a\n- b\n", is_kept=False),
        Piece("## H\n- [PINNED] p\n", is_kept=True, heading="## H"),
        Piece("- c\n", is_kept=False),
        Piece("- [PINNED] q\n", is_kept=True),
    )
)


def test_a_sheet_shows_marks_and_nothing_that_is_kept() -> None:
    assert masked_text(SECTION, CODE) == "- a\n- b\n[[kept-1-c0de]] ## H\n- c\n[[kept-2-c0de]]"


def test_kept_pieces_take_the_places_of_their_marks() -> None:
    done = rewritten(SECTION, f"- ab [PINNED]\n {mark_of(1, CODE)} ## H\n{mark_of(2, CODE)}", CODE)
    assert done.text == "- ab\n## H\n- [PINNED] p\n- [PINNED] q\n"
    assert done.can_be_kept


@pytest.mark.parametrize(
    ("marks", "faults"),
    [([1], (2,)), ([], (1, 2)), ([2, 1], (1,)), ([1, 1, 2], (1,)), ([1, 2, 3], (3,)), ([0, 1, 2], (0,))],
)
def test_marks_must_stand_once_and_in_order(marks: list[int], faults: tuple[int, ...]) -> None:
    answer = "\n".join(["- text", *(mark_of(number, CODE) for number in marks)])
    done = rewritten(SECTION, answer, CODE)
    assert (done.faults, done.can_be_kept) == (faults, False)


def test_nothing_is_put_above_the_title() -> None:
    section = Section((Piece("# T\n", is_kept=True), Piece("- a\n", is_kept=False)))
    assert rewritten(section, f"Here it is:\n{mark_of(1, CODE)}\n- a", CODE).faults == (1,)
    assert rewritten(section, f"\n{mark_of(1, CODE)}\n- a", CODE).can_be_kept


def test_a_forged_mark_is_a_line_like_any_other() -> None:
    answer = f"[[kept-1-beef]]\n{mark_of(1, CODE)}\n{mark_of(2, CODE)}"
    done = rewritten(SECTION, answer, CODE)
    assert done.can_be_kept and done.text == "[[kept-1-beef]]\n## H\n- [PINNED] p\n- [PINNED] q\n"


def test_an_answer_of_marks_alone_says_nothing() -> None:
    answer = f"{mark_of(1, CODE)}\n{mark_of(2, CODE)}"
    assert not rewritten(SECTION, answer, CODE).can_be_kept


def test_paragraphs_do_not_run_into_what_is_kept() -> None:
    section = Section((Piece("one\n", is_kept=False), Piece("[PINNED] two", is_kept=True), Piece("x", is_kept=False)))
    done = rewritten(section, f"one\n{mark_of(1, CODE)}\nthree", CODE)
    assert done.text == "one\n\n[PINNED] two\n\nthree\n"
    assert [block.text.strip() for block in blocks_of(done.text)] == ["one", "[PINNED] two", "three"]


def test_room_is_what_protected_text_leaves() -> None:
    pieces = [Piece("a " * 500, is_kept=True), Piece("b " * 900, is_kept=False), Piece("c " * 300, is_kept=False)]
    assert free_tokens(pieces, target=700, count=words) == 200
    assert shares([Section((piece,)) for piece in pieces], room=200, count=words) == [0, 150, 50]
    with pytest.raises(CannotCompact) as refused:
        free_tokens(pieces, target=599, count=words)
    assert refused.value.outcome is Outcome.TOO_MUCH_PROTECTED


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("- p\nx\n- q\n  more", 0),
        ("- q\n  more\n- p\n", 1),
        ("- p\n", 1),
        ("- p and more\n- q\n  more\n", 1),
        ("x- p\n- q\n  more\n", 1),
        ("", 2),
    ],
)
def test_lost_counts_what_is_not_there_word_for_word(text: str, missing: int) -> None:
    pieces = [Piece("- p\n", is_kept=True), Piece("x\n", is_kept=False), Piece("- q\n  more\n\n", is_kept=True)]
    assert missing_pieces(pieces, text) == missing


def test_what_lost_a_piece_or_is_too_long_is_refused() -> None:
    pieces = [Piece("- p\n", is_kept=True)]
    assert checked(pieces, "- p\n- a\n", target=4, count=words) == "- p\n- a\n"
    for text, missing in (("- a\n", 1), ("- p\n- a\n- b\n", 0)):
        with pytest.raises(CannotCompact) as refused:
            checked(pieces, text, target=4, count=words)
        assert (refused.value.outcome, refused.value.missing) == (Outcome.REFUSED, missing)


@given(st.integers(0, 2**32))
def test_whatever_lines_are_dropped_protected_ones_are_there_or_the_answer_is_not_kept(seed: int) -> None:
    draw = Random(seed)
    lines = [f"- {'[PINNED] ' if draw.random() < 0.2 else ''}entry {number}" for number in range(30)]
    text = "# T\n\n> about\n\n## S\n" + "\n".join(lines) + "\n"
    pieces = pieces_of(text, NOTHING)
    for section in sections_of(pieces, count=words, most=30):
        given_back = [line for line in masked_text(section, CODE).splitlines() if draw.random() > 0.05]
        done = rewritten(section, "\n".join(given_back), CODE)
        own = [piece for piece in pieces if piece.text in section.text]
        assert not done.can_be_kept or missing_pieces(own, done.text) == 0
