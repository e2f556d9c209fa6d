"""SPEC X6: what remembered text may not do to its line."""

import pytest

from conversations.domain.content import label, one_line, quoted, visible
from memoryhub.look_alikes import is_blank

LINE_BREAKS = ["\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize("line_break", LINE_BREAKS)
def test_one_line_turns_every_kind_of_line_break_into_one_space(line_break: str) -> None:
    assert one_line(f"a{line_break}{line_break} {line_break}## b{line_break}") == "a ## b"


@pytest.mark.parametrize("line_break", LINE_BREAKS)
def test_quoted_marks_every_line(line_break: str) -> None:
    assert quoted(f"a{line_break}## b") == "> a\n> ## b"


@pytest.mark.parametrize(
    "hidden",
    [
        *["\x00", "\x1b", "\x1f", "\x7f", "\x9b", "\u00ad", "\u061c", "\u180e", "\u200b", "\u200e", "\u200f"],
        *["\u202a", "\u202e", "\u2060", "\u2066", "\u2069", "\ufeff", "\ufff9", "\U000e0001", "\U000e0041"],
    ],
)
def test_invisible_characters_and_overrides_of_direction_go(hidden: str) -> None:
    assert one_line(f"pass{hidden}word") == "password"
    assert is_blank(f" {hidden}\n")


@pytest.mark.parametrize(
    "kept", ["👨\u200d👩\u200d👧", "❤\ufe0f\u200d🔥", "1\ufe0f\u20e3", "می\u200cخواهم", "ක්\u200dෂ", "a  b", "é", "⠓⠊"]
)
def test_what_scripts_need_stays(kept: str) -> None:
    assert one_line(kept) == kept


def test_hidden_messages_in_joiners_and_selectors_go() -> None:
    assert visible("a" + "\ufe00\U000e0101\u200d" * 50 + "b") == "ab"
    assert visible("p\ufe0fa\u200ds\u200cs") == "pass"
    assert visible("👍" + "\ufe0f\u200d" * 50 + "b") == "👍\ufe0fb"
    assert visible("葛\U000e0100城") == "葛城"


# DerivedCoreProperties.txt of Unicode 16
DEFAULT_IGNORABLE = """
00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0 FFF0-FFF8
1BCA0-1BCA3 1D173-1D17A E0000-E0FFF
"""


def ignorable() -> list[str]:
    ranges = [each.split("-") for each in DEFAULT_IGNORABLE.split()]
    return [chr(code) for each in ranges for code in range(int(each[0], 16), int(each[-1], 16) + 1)]


def test_what_renders_as_nothing_goes() -> None:
    for each in [*ignorable(), "\u2800", "\ufff9", "\U0001d159"]:
        assert is_blank(each * 3), hex(ord(each))
        assert one_line(f"pass{each}word").replace(" ", "") == "password", hex(ord(each))


def test_lone_surrogates_become_something_that_can_be_sent() -> None:
    assert visible("a\ud800b").encode() == "a\ufffdb".encode()


def test_tabs_are_kept_in_quotes_only() -> None:
    assert one_line("a\tb") == "a b"
    assert quoted("\ta\tb") == "> \ta\tb"


def test_quoted_drops_blank_ends_and_keeps_blank_lines_between() -> None:
    assert quoted("\n \n  a  \n\n\u200b\nb\n\n") == ">   a\n>\n>\n> b"
    assert quoted(" \n\u2028") == ""


@pytest.mark.parametrize(("text", "blank"), [("", True), ("\u3000", True), ("\u200d\ufe0f", True), ("。", False)])
def test_blank_is_what_nobody_sees(text: str, blank: bool) -> None:
    assert is_blank(text) is blank


def test_label_has_no_brackets_and_an_end() -> None:
    assert label("[a]\n" + "b" * 99) == "(a) " + "b" * 56


def test_cleaning_takes_linear_time_on_hostile_blanks() -> None:
    assert one_line("a" + " " * 1_000_000 + "b") == "a" + " " * 1_000_000 + "b"
    assert quoted("a" + " " * 1_000_000) == "> a"


@pytest.mark.parametrize("plane", [range(0x11000), range(0xE0000, 0xE0200)], ids=["basic", "tags"])
def test_printable_text_is_cleaned_like_any_other(plane: range) -> None:
    for each in map(chr, plane):
        # A vertical tab is a line break that is not printable.
        assert f"{visible(each * 3)}\v" == visible(f"{each * 3}\v"), hex(ord(each))
