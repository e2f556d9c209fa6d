"""What two texts do not share, as people read it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.admin.differences import LONGEST_COMPARED, Row, aligned, compared

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


def own(text: str, other: str) -> list[str]:
    pieces = compared(text, other)
    assert pieces is not None
    return [piece.text for piece in pieces[0] if piece.own]


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
    ],
)
def test_what_only_one_says_is_marked(one: str, other: str, expected: list[str]) -> None:
    assert own(one, other) == expected


def test_sentences_stand_side_by_side() -> None:
    rows = aligned("Likes tea. Lives in Kyoto. Has 3.5 cats", "Likes tea. Lives in Osaka now. Has 3.5 cats")
    assert sides(rows) == [
        ("Likes tea. ", "Likes tea. "),
        ("Lives in Kyoto. ", "Lives in Osaka now. "),
        ("Has 3.5 cats", "Has 3.5 cats"),
    ]
    assert rows is not None and [row.differs for row in rows] == [False, True, False]


def test_japanese_sentences_stand_side_by_side() -> None:
    rows = aligned("京都に住む。緑茶が好きです。", "大阪に住む。緑茶が大好きです。")
    assert sides(rows) == [("京都に住む。", "大阪に住む。"), ("緑茶が好きです。", "緑茶が大好きです。")]


@given(one=TEXTS, other=TEXTS)
def test_the_rows_are_the_whole_texts(one: str, other: str) -> None:
    rows, pieces = aligned(one, other), compared(one, other)
    assert rows is not None and pieces is not None
    assert (
        "".join(left for left, _ in sides(rows)) == one
        and "".join(right for _, right in sides(rows)) == other
    )
    assert ["".join(piece.text for piece in side) for side in pieces] == [one, other]
    assert any(row.differs for row in rows) == (one != other) == any(p.own for side in pieces for p in side)
    assert all(piece.text for row in rows for piece in (*row.one, *row.other))


def test_long_texts_and_texts_that_repeat_themselves_are_not_compared() -> None:
    one, other = ("".join(chr(0x4E00 + number * step % 101) for number in range(5000)) for step in (1, 7))
    for pair in (("x" * (LONGEST_COMPARED + 1), "x"), (one, other)):
        assert compared(*pair) is None and aligned(*pair) is None
