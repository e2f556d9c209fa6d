"""Every character lands in exactly one script class, and typical lines land in the right one."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.llm.tokens import SCRIPTS, Script, looks_like_code, script_sizes, split_by_script


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Plain English prose, with commas; and a dash — like this.", [("latin", None)]),
        ("Crème brûlée costs €4.", [("latin", None)]),
        ("今日は良い天気です。", [("japanese", None)]),
        ("ｶﾀｶﾅ　ＡＢＣ", [("japanese", None)]),
        ("안녕하세요 세계", [("japanese", None)]),
        ("Привет, мир", [("other", "Привет"), ("latin", ", "), ("other", "мир")]),
        ("👍", [("other", None)]),
        ("Hello 世界!", [("latin", "Hello "), ("japanese", "世界"), ("latin", "!")]),
        ("for (i = 0; i < n; i++) { f(i); }", [("code", None)]),
        ('{"name": "kana", "tags": ["a"]}', [("code", None)]),
        ("(yes)", [("latin", None)]),
        ("print('日本語')", [("latin", "print('"), ("japanese", "日本語"), ("latin", "')")]),
        ("See:\n```\nplain\n```\nDone.", [("latin", "See:\n"), ("code", "```\nplain\n```\n"), ("latin", "Done.")]),
        ("~~~\na ``` b\n```\nc\n~~~\nd", [("code", "~~~\na ``` b\n```\nc\n~~~\n"), ("latin", "d")]),
        ("```\nnever closed", [("code", None)]),
    ],
)
def test_split_by_script_classifies(text: str, expected: list[tuple[Script, str | None]]) -> None:
    assert list(split_by_script(text)) == [(script, text if piece is None else piece) for script, piece in expected]


@given(st.text(max_size=400) | st.text("aあж{};\n `~\r\u2028", max_size=80))
def test_split_by_script_loses_nothing(text: str) -> None:
    pieces = list(split_by_script(text))

    assert "".join(piece for _, piece in pieces) == text
    assert all(piece and script in SCRIPTS for script, piece in pieces)
    assert all(first[0] != second[0] for first, second in pairwise(pieces))


@given(
    st.text("aZ9.é \tあ漢、한бก👍\u0301\u200b", max_size=300) | st.text(st.characters(exclude_categories=["Z", "C"]))
)
def test_sizes_of_a_line_are_those_of_its_pieces(line: str) -> None:
    pieces = [] if looks_like_code(line) else list(split_by_script(line))
    expected = {script: sum(len(piece) for each, piece in pieces if each == script) for script in SCRIPTS}

    assert looks_like_code(line) or script_sizes(line) == (expected, len(pieces))


@given(st.lists(st.text("aあб \n{}=", max_size=20), max_size=20).map("\n".join) | st.text(max_size=400))
def test_sizes_are_of_all_characters_and_code_is_code(text: str) -> None:
    sizes, cuts = script_sizes(text)
    pieces = list(split_by_script(text))

    assert sum(sizes.values()) == len(text)
    assert sizes["code"] == sum(len(piece) for script, piece in pieces if script == "code")
    assert cuts >= len(pieces) - len(text.splitlines())
