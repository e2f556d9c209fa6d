"""Which words two texts do not share, for people who decide whether they say the same: pure."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

LONGEST_COMPARED: Final = 5_000
"""Characters of a text."""

MOST_PLACES: Final = 30_000
"""Pairs of equal words, which is what comparing takes time with: of texts that repeat themselves there are millions."""

# Words with the white space behind them; everything else, such as scripts without spaces, one by one.
_WORDS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]|\w+\s*|\s+|.\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text; `own` where the other text does not have it there."""

    text: str
    own: bool


def compared(one: str, other: str) -> tuple[list[Piece], list[Piece]] | None:
    """Return both texts in pieces, those that only one of them has marked; None where that would take too long."""
    if max(len(one), len(other)) > LONGEST_COMPARED:
        return None
    mine, theirs = _WORDS.findall(one), _WORDS.findall(other)
    begin = _shared(mine, theirs)
    end = _shared(mine[begin:][::-1], theirs[begin:][::-1])
    mine_between, theirs_between = mine[begin : len(mine) - end], theirs[begin : len(theirs) - end]
    if _places(mine_between, theirs_between) > MOST_PLACES:
        return None
    first, second = _pieces(mine_between, theirs_between)
    before, after = _same(mine[:begin]), _same(mine[len(mine) - end :])
    return [*before, *first, *after], [*before, *second, *after]


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


def _same(words: Sequence[str]) -> list[Piece]:
    return [Piece("".join(words), own=False)] if words else []


def _pieces(one: Sequence[str], other: Sequence[str]) -> tuple[list[Piece], list[Piece]]:
    first: list[Piece] = []
    second: list[Piece] = []
    for tag, a, b, c, d in SequenceMatcher(a=one, b=other, autojunk=False).get_opcodes():
        for pieces, words in ((first, one[a:b]), (second, other[c:d])):
            if words:
                pieces.append(Piece("".join(words), own=tag != "equal"))
    return first, second
