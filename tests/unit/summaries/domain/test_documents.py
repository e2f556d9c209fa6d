"""Lines that are appended to documents, and how they are known again."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summaries.domain.documents import (
    appended,
    best_sections,
    combined,
    entry_line,
    line_digest,
    pinned_line,
    reverted,
    with_pending_lines,
    without_lines,
)

AT = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "pinned", "document", "line"),
    [
        ("Tea\n is green.", False, "MEMORY.md", "- Tea is green."),
        ("Tea", True, "MEMORY.md", "- [PINNED] Tea"),
        ("[PINNED] Tea", True, "MEMORY.md", "- [PINNED] Tea"),
        ("Opened.", False, "timeline.md", "- 2026-03-01: Opened."),
    ],
)
def test_entry_is_one_line(text: str, pinned: bool, document: str, line: str) -> None:
    assert entry_line(text, pinned=pinned, document=document, at=AT) == line


@pytest.mark.parametrize("moved", ["- Tea", "  * Tea", "Tea  ", "1. Tea", "+ Tea\n", "2) Tea"])
def test_line_is_known_wherever_it_was_moved(moved: str) -> None:
    assert line_digest(moved) == line_digest("- Tea")


@pytest.mark.parametrize("other", ["- tea", "- Tea!", "- - Tea", ""])
def test_other_lines_are_others(other: str) -> None:
    assert line_digest(other) != line_digest("- Tea")


@given(st.text(max_size=200), st.text(alphabet=st.characters(exclude_categories=["Cc", "Zl", "Zp"]), max_size=50))
def test_appending_keeps_what_was_there(text: str, words: str) -> None:
    line = f"- {words}"
    longer = appended(text, line)
    assert longer.startswith(text)
    assert longer.removesuffix("\n").split("\n")[-1] == line


def test_doubted_lines_are_left_out() -> None:
    assert without_lines("# A\n- x\n- y\n", {line_digest("x")}) == "# A\n- y\n"
    assert without_lines("# A\n- x", frozenset()) == "# A\n- x"


def scored(section: str) -> float:
    return float(section[0])


def test_best_sections_stand_in_their_own_order() -> None:
    chosen, best = best_sections(["3", "1", "5", "4"], scored, floor=2, most_tokens=2, count=len)
    assert (chosen, best) == (["5", "4"], 5.0)


def test_section_that_is_too_long_leaves_room_for_others() -> None:
    chosen, _ = best_sections(["5 too long", "4"], scored, floor=1, most_tokens=3, count=len)
    assert chosen == ["4"]


def test_nothing_that_answers_is_nothing() -> None:
    assert best_sections(["1"], scored, floor=2, most_tokens=9, count=len) == ([], 0.0)
    assert best_sections([], scored, floor=2, most_tokens=9, count=len) == ([], 0.0)


@pytest.mark.parametrize(
    ("text", "former", "whole"),
    [
        ("a\n", "a\n", "a\n"),
        ("a\n", "- h\nb\n", "a\n- h\n"),
        ("a", "- h\n", "a\n- h\n"),
        ("", "- h\n", "- h\n"),
        ("* h\nb\n", "- h\n", "* h\nb\n"),
    ],
)
def test_pending_lines_stay_behind_an_edited_text(text: str, former: str, whole: str) -> None:
    assert with_pending_lines(text, former, {line_digest("h")}) == whole
    assert with_pending_lines(text, former, set()) == text


@pytest.mark.parametrize(
    ("text", "lines", "document", "expected"),
    [
        ("- a\n", ["- a"], "MEMORY.md", "- a\n"),
        ("- a", ["- a", "- b"], "MEMORY.md", "- a\n- b\n"),
        ("", ["", "- b", ""], "MEMORY.md", "- b\n"),
        ("- 2026-03-02: b\n", ["- 2026-03-01: a"], "timeline.md", "- 2026-03-01: a\n- 2026-03-02: b\n"),
        ("no day\n", ["- 2026-03-01: a"], "timeline.md", "no day\n- 2026-03-01: a\n"),
    ],
)
def test_combined_adds_what_is_missing(text: str, lines: list[str], document: str, expected: str) -> None:
    assert combined(text, lines, document) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a\n- new\n", "- a\n- gone\n- b\n"),  # untouched since
        ("- a\n- new\n- later\n", "- a\n- gone\n- b\n- later\n"),
        ("- new\n- later\n", "- later\n- gone\n- b\n"),  # what it followed is gone, too
    ],
)
def test_reverted_takes_a_change_back_and_keeps_what_came_since(text: str, expected: str) -> None:
    assert reverted(text, before="- a\n- gone\n- b\n", after="- a\n- new\n") == expected


@pytest.mark.parametrize(
    ("line", "pinned"),
    [
        ("- tea", "[PINNED] tea"),
        ("2. tea", "[PINNED] tea"),
        ("- [PINNED] tea", "[PINNED] tea"),
        ("tea [PINNED]", "[PINNED] tea"),
        ("- 2026-03-01: tea", "2026-03-01: [PINNED] tea"),
    ],
)
def test_a_pinned_line_has_one_mark_after_its_day(line: str, pinned: str) -> None:
    assert pinned_line(line, is_pinned=True) == pinned
    assert pinned_line(pinned, is_pinned=False) == pinned.replace("[PINNED] ", "")
