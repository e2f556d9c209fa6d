"""Which words two texts do not share, for people who decide whether they say the same: pure."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final

LONGEST_COMPARED: Final = 5_000
"""Characters of a text."""

MOST_PLACES: Final = 30_000
"""Pairs of equal words, which is what comparing takes time with: of texts that repeat themselves there are millions."""

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


def compared(one: str, other: str) -> tuple[list[Piece], list[Piece]] | None:
    """Return both texts in pieces, those that only one of them has marked; None where that would take too long."""
    spans = _spans(one, other)
    if spans is None:
        return None
    whole = Row([], [])
    for span in spans:
        _add(whole, span.one, span.other, own=span.own)
    return whole.one, whole.other


def aligned(one: str, other: str) -> list[Row] | None:
    """Return both texts as rows that stand side by side, a sentence or more each; None as `compared` does."""
    spans = _spans(one, other)
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


def _spans(one: str, other: str) -> list[_Span] | None:
    if max(len(one), len(other)) > LONGEST_COMPARED:
        return None
    mine, theirs = _WORDS.findall(one), _WORDS.findall(other)
    begin = _shared(mine, theirs)
    end = _shared(mine[begin:][::-1], theirs[begin:][::-1])
    mine_between, theirs_between = mine[begin : len(mine) - end], theirs[begin : len(theirs) - end]
    if _places(mine_between, theirs_between) > MOST_PLACES:
        return None
    between = _without_chance(_between(mine_between, theirs_between))
    return _joined([*_same(mine[:begin]), *between, *_same(mine[len(mine) - end :])])


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many words both begin with."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def _places(one: Sequence[str], other: Sequence[str]) -> int:
    """Return at how many places a word of one meets the same word of the other."""
    theirs = Counter(other)
    return sum(times * theirs[word] for word, times in Counter(one).items())


def _same(words: Sequence[str]) -> list[_Span]:
    text = "".join(words)
    return [_Span(text, text, own=False)] if text else []


def _between(one: Sequence[str], other: Sequence[str]) -> list[_Span]:
    return [
        _Span("".join(one[a:b]), "".join(other[c:d]), own=tag != "equal")
        for tag, a, b, c, d in SequenceMatcher(a=one, b=other, autojunk=False).get_opcodes()
    ]


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
