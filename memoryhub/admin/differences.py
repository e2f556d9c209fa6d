"""Which words two texts do not share, for people who decide whether they say the same: pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from memoryhub.admin.comparing import Comparison, Effort

LONGEST_COMPARED: Final = 5_000
"""Characters of a text."""

# Words with the white space behind them; everything else, such as scripts without spaces, one by one.
_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]|\w+\s*|\s+|.\s*", re.DOTALL)


# Where a row of the comparison ends: behind a sentence or a line.
_END = re.compile(r"[.!?](?=\s)\s*|[。！？\n]\s*")

LEAST_SHARED: Final = 3
"""Characters between two differences that count as shared; fewer are chance, and make the text hard to read."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text; `own` where the other text does not have it there."""

    text: str
    own: bool


@dataclass(frozen=True, slots=True)
class Row:
    """What stands side by side: a sentence of one text, and what the other has for it."""

    one: list[Piece]
    other: list[Piece]

    @property
    def differs(self) -> bool:
        """Whether one of the two has something of its own here."""
        return any(piece.own for piece in (*self.one, *self.other))


def compared(one: str, other: str, effort: Effort | None = None) -> tuple[list[Piece], list[Piece]] | None:
    """Return both texts in pieces, those that only one of them has marked; None where that would take too long.

    `effort` is what a page has for all its texts, else each has the usual one.
    """
    spans = _spans(one, other, effort or Effort())
    if spans is None:
        return None
    whole = Row([], [])
    for span in spans:
        _add(whole, span.one, span.other, own=span.own)
    return whole.one, whole.other


def aligned(one: str, other: str) -> list[Row] | None:
    """Return both texts as rows that stand side by side, a sentence or more each; None as `compared` does."""
    spans = _spans(one, other, Effort())
    if spans is None:
        return None
    rows = [Row([], [])]
    for span in spans:
        if span.own:
            _add(rows[-1], span.one, span.other, own=True)
            continue
        first, *others = _sentences(span.one)
        _add(rows[-1], first, first, own=False)
        for sentence in others:
            rows.append(Row([], []))
            _add(rows[-1], sentence, sentence, own=False)
    return [row for row in rows if row.one or row.other]


@dataclass(frozen=True, slots=True)
class _Span:
    """The next part of both texts: the same in both, or what each has there of its own."""

    one: str
    other: str
    own: bool


def _spans(one: str, other: str, effort: Effort) -> list[_Span] | None:
    if max(len(one), len(other)) > LONGEST_COMPARED:
        return None
    mine, theirs = _WORDS.findall(one), _WORDS.findall(other)
    comparison = Comparison(mine, theirs, effort)
    if not comparison.is_whole:
        return None
    spans = [
        _Span("".join(mine[a:b]), "".join(theirs[c:d]), own=tag != "equal")
        for tag, a, b, c, d in comparison.get_opcodes()
    ]
    return _joined(_without_chance(spans))


def _without_chance(spans: Sequence[_Span]) -> list[_Span]:
    """Take what is shared by chance between two differences as different too: a letter, a space, a particle."""
    last = len(spans) - 1
    return [
        _Span(span.one, span.other, own=True)
        if not span.own and 0 < place < last and len(span.one.strip()) < LEAST_SHARED
        else span
        for place, span in enumerate(spans)
    ]


def _joined(spans: Sequence[_Span]) -> list[_Span]:
    """Make neighbours of one sort one."""
    joined: list[_Span] = []
    for span in spans:
        if joined and joined[-1].own == span.own:
            before = joined.pop()
            span = _Span(before.one + span.one, before.other + span.other, span.own)
        joined.append(span)
    return joined


def _sentences(text: str) -> list[str]:
    """Return a text in sentences, each with its end; the last is what goes on in what follows, and may be empty."""
    ends = [found.end() for found in _END.finditer(text)]
    return [text[begin:end] for begin, end in pairwise([0, *ends, len(text)])]


def _add(row: Row, one: str, other: str, *, own: bool) -> None:
    for pieces, text in ((row.one, one), (row.other, other)):
        if pieces and pieces[-1].own == own:
            text = pieces.pop().text + text
        if text:
            pieces.append(Piece(text, own))
