"""Every character lands in exactly one script class, and typical lines land in the right one."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.llm.tokens import SCRIPTS, Script, split_by_script


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
        (
            "See:\n```\nplain\n```\nDone.",
            [("latin", "See:\n"), ("code", "```\nplain\n```\n"), ("latin", "Done.")],
        ),
        ("~~~\na ``` b\n```\nc\n~~~\nd", [("code", "~~~\na ``` b\n```\nc\n~~~\n"), ("latin", "d")]),
        ("```\nnever closed", [("code", None)]),
    ],
)
def test_split_by_script_classifies(text: str, expected: list[tuple[Script, str | None]]) -> None:
    assert split_by_script(text) == [(script, text if piece is None else piece) for script, piece in expected]


@given(st.text(max_size=400) | st.text("aあж{};\n `~\r\u2028", max_size=80))
def test_split_by_script_loses_nothing(text: str) -> None:
    pieces = split_by_script(text)

    assert "".join(piece for _, piece in pieces) == text
    assert all(piece and script in SCRIPTS for script, piece in pieces)
    assert all(first[0] != second[0] for first, second in pairwise(pieces))
