"""The check of wording counts prose, comments, docstrings and screens, and no code."""

from pathlib import Path

import pytest

from scripts import wording

CODE = '''
"""A docstring says nothing here."""
# Whoever reads this is told so.
title = _("What a memory says")
text = "says"
'''


@pytest.mark.parametrize(
    ("sort", "suffix", "text", "hits"),
    [
        ("prose", ".md", "It says `say` so.\n\n```sh\nsay\n```\n[a](go.md)", ["says"]),
        ("comments", ".py", CODE, ["Whoever", "told"]),
        ("docstrings", ".py", CODE, ["says"]),
        ("screens", ".py", CODE, ["says"]),
        (
            "screens",
            ".html",
            '<p class="go">{# say #}{% translate "Nobody" %} {{ told }} beside</p>',
            ["beside", "Nobody"],
        ),
        ("comments", ".html", '<p class="go">{# who says #} beside', ["says"]),
        ("comments", ".sql", "-- name: go\n-- It lies there.\nSELECT 1 -- whose\n", ["lies", "whose"]),
        ("comments", ".js", "go(); // told\n/* whose\n way */ const link = 'http://nobody';", ["told", "whose"]),
        ("prose", ".md", "A program in Go, a stand-alone server, a standard.", []),
    ],
)
def test_words_are_counted_by_sort(sort: str, suffix: str, text: str, hits: list[str]) -> None:
    assert wording.check(wording.READERS[sort][suffix](text))[0] == hits


@pytest.mark.parametrize(
    ("words", "hits", "is_bad"), [(1000, 3, False), (1000, 4, True), (20, 2, False), (20, 3, True)]
)
def test_limit_is_three_in_a_thousand_and_one_more_in_short_texts(words: int, hits: int, is_bad: bool) -> None:
    assert wording.check("says " * hits + "is " * (words - hits))[2] is is_bad


def test_files_above_the_limit_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("Nobody says whose it is.")
    monkeypatch.setattr("sys.argv", ["wording.py", str(page)])
    with pytest.raises(SystemExit) as ended:
        wording.main()
    assert ended.value.code
