"""Divide a text into script classes, because vendors' token counts differ by script, not by text.

Pure: characters in, pieces out. The rule is a heuristic and meant to be one. It works in two steps:

1. Lines. A line is code when it lies in a fenced block (``` or ~~~, the fences included), or when it has at
   least 8 visible characters, of which at least 12 % are of the kind that programs and data are full of
   (braces, brackets, operators, underscores, slashes …) and none is Japanese.
   Prose seldom passes 5 %.
2. Characters. Everywhere else a run of Chinese, Japanese or Korean characters and full-width punctuation is
   `japanese`; a run of letters of any other non-Latin script, or of emoji, is `other`; the rest (Latin
   letters with and without accents, digits, ASCII punctuation) is `latin`. Blanks stay with what precedes.

Wrong guesses shift a share of the text from one factor to a neighbouring one; no character is ever lost:
the pieces joined are the text.
"""

import re
from collections.abc import Iterator
from typing import Literal

Script = Literal["latin", "japanese", "code", "other"]
SCRIPTS: tuple[Script, ...] = ("latin", "japanese", "code", "other")

MIN_CODE_LINE_CHARS = 8
MIN_CODE_SYMBOL_SHARE = 0.12

# Hangul jamo, CJK radicals … kana … unified ideographs, Hangul syllables, compatibility ideographs,
# vertical and full-width forms, and the supplementary ideographic planes (Unicode 16, Blocks.txt).
_CJK = "\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
_CJK += "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
# Up to U+024F, Latin Extended Additional, general punctuation, currency: what Western prose is written with.
_LATIN = "\u0000-\u024f\u1e00-\u1eff\u2000-\u206f\u20a0-\u20cf\u2100-\u214f"

_cjk = re.compile(f"[{_CJK}]")
_only_latin = re.compile(f"[{_LATIN}]*")
_run = re.compile(
    rf"(?P<japanese>[{_CJK}][{_CJK}\s]*)"
    rf"|(?P<other>[^{_LATIN}{_CJK}][^{_LATIN}{_CJK}\u0020]*\s*)"
    rf"|(?P<latin>[{_LATIN}]+)"
)
_fence = re.compile(r"\s{0,3}(```|~~~)")
_symbol = re.compile(r"[{}()\[\]<>=;_/\\|&*$#@%^~`+]")


def split_by_script(text: str) -> list[tuple[Script, str]]:
    """Cut the text into maximal (script, piece) runs whose pieces, joined, are the text."""
    return list(_merged(_classified(text)))


def _classified(text: str) -> Iterator[tuple[Script, str]]:
    for is_code, line in _lines(text):
        if is_code:
            yield "code", line
        elif _only_latin.fullmatch(line):
            yield "latin", line
        else:
            yield from _runs(line)


def _lines(text: str) -> Iterator[tuple[bool, str]]:
    """Yield (is code, line with its ending), following fenced blocks."""
    closing: str | None = None
    for line in text.splitlines(keepends=True):
        fence = _fence.match(line)
        if fence and closing in (None, fence[1]):
            closing = fence[1] if closing is None else None
            yield True, line
        else:
            yield closing is not None or looks_like_code(line), line


def looks_like_code(line: str) -> bool:
    """Tell whether a single line reads like a program or data; see step 1 of the module's docstring."""
    visible = len(line) - line.count(" ") - line.count("\t")
    if visible < MIN_CODE_LINE_CHARS or _cjk.search(line):
        return False
    return len(_symbol.findall(line)) >= MIN_CODE_SYMBOL_SHARE * visible


def _runs(line: str) -> Iterator[tuple[Script, str]]:
    for match in _run.finditer(line):
        script: Script = "japanese" if match["japanese"] else "other" if match["other"] else "latin"
        yield script, match[0]


def _merged(pieces: Iterator[tuple[Script, str]]) -> Iterator[tuple[Script, str]]:
    current: Script | None = None
    parts: list[str] = []
    for script, piece in pieces:
        if current is not None and script != current:
            yield current, "".join(parts)
            parts = []
        current = script
        parts.append(piece)
    if current is not None:
        yield current, "".join(parts)
