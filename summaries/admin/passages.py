"""Where two long texts differ: the changed lines with a few around them, and in those the changed words. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Final

from memoryhub.admin.differences import Piece, compared

AROUND: Final = 2
"""Lines that are shown before and after a change."""

MOST_PLACES: Final = 400_000
"""Pairs of equal lines, which is what comparing takes time with; beyond, all between the first and the last change is
one passage."""

POPULAR: Final = 100
"""From which share of its text on (a hundredth) a line of a long one is passed over by the comparison."""

MOST_SHOWN: Final = 60_000
"""Characters on one page, of both sides."""

LONGEST_SAME: Final = 400
LONGEST_OWN: Final = 8_000
"""Characters of one stretch; the middle of a longer one is left out."""


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of one side: `own` where only this side has it, `left_out` characters missing in its middle."""

    text: str
    own: bool
    end: str = ""
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Passage:
    """One change with what stands around it; `line` is where it begins in the newer text, from 1 on."""

    line: int
    was: list[Part]
    now: list[Part]

    @property
    def size(self) -> int:
        """Return how many characters it shows."""
        return sum(len(part.text) + len(part.end) for part in (*self.was, *self.now))


@dataclass(frozen=True, slots=True)
class Differences:
    """The changes that a page shows, from the first or a later one on; `following` is where the next page begins."""

    passages: list[Passage]
    total: int
    first: int = 0
    following: int | None = None


def differences(one: str, other: str, *, first: int = 0, most: int = MOST_SHOWN) -> Differences:
    """Return what changed from one text to another, from the change number `first` (from 0) on."""
    if one == other:
        return Differences([], 0)
    mine, theirs = one.splitlines(keepends=True), other.splitlines(keepends=True)
    groups = list(_groups(mine, theirs))
    passages: list[Passage] = []
    used = 0
    for number, codes in enumerate(groups[first:], start=first):
        if passages and used >= most:
            return Differences(passages, len(groups), first, number)
        passages.append(_passage(codes, mine, theirs))
        used += passages[-1].size
    return Differences(passages, len(groups), first)


Code = tuple[str, int, int, int, int]


def _groups(mine: Sequence[str], theirs: Sequence[str]) -> Iterator[Sequence[Code]]:
    if _places(mine, theirs) <= MOST_PLACES:
        yield from SequenceMatcher(a=mine, b=theirs).get_grouped_opcodes(AROUND)
        return
    begin = _shared(mine, theirs)
    end = _shared(mine[begin:][::-1], theirs[begin:][::-1])
    before, after = max(0, begin - AROUND), min(end, AROUND)
    a, b = len(mine) - end, len(theirs) - end
    yield [
        ("equal", before, begin, before, begin),
        ("replace", begin, a, begin, b),
        ("equal", a, a + after, b, b + after),
    ]


def _places(mine: Sequence[str], theirs: Sequence[str]) -> int:
    """Return at how many places a line of one meets the same of the other; such as difflib passes over do not count."""
    times = Counter(theirs)
    popular = len(theirs) // POPULAR + 1 if len(theirs) >= 200 else len(theirs)
    return sum(number * times[line] for line, number in Counter(mine).items() if times[line] <= popular)


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def _passage(codes: Sequence[Code], mine: Sequence[str], theirs: Sequence[str]) -> Passage:
    was: list[Piece] = []
    now: list[Piece] = []
    for tag, a, b, c, d in codes:
        before, after = "".join(mine[a:b]), "".join(theirs[c:d])
        pieces = _same(before) if tag == "equal" else _words(before, after)
        was += pieces[0]
        now += pieces[1]
    return Passage(codes[0][3] + 1, _parts(was), _parts(now))


def _same(text: str) -> tuple[list[Piece], list[Piece]]:
    pieces = [Piece(text, own=False)] if text else []
    return pieces, pieces


def _words(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Return both texts in pieces; of long ones, what lies between their alike beginnings and ends may be one piece."""
    sides = compared(before, after)
    if sides is not None:
        return sides
    begin = _shared(before, after)
    end = _shared(before[begin:][::-1], after[begin:][::-1])
    middles = before[begin : len(before) - end], after[begin : len(after) - end]
    marked = compared(*middles) or ([Piece(middles[0], own=True)], [Piece(middles[1], own=True)])
    head, tail = _same(before[:begin])[0], _same(before[len(before) - end :])[0]
    return [*head, *marked[0], *tail], [*head, *marked[1], *tail]


def _parts(pieces: Sequence[Piece]) -> list[Part]:
    return [_part(piece.text, piece.own) for piece in _joined(pieces) if piece.text]


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces with neighbours of one sort as one."""
    if not pieces:
        return []
    bounds = [0, *(at for at, (a, b) in enumerate(pairwise(pieces), 1) if a.own != b.own), len(pieces)]
    return [
        Piece("".join(piece.text for piece in pieces[begin:end]), pieces[begin].own)
        for begin, end in pairwise(bounds)
    ]


def _part(text: str, own: bool) -> Part:
    longest = LONGEST_OWN if own else LONGEST_SAME
    if len(text) <= longest:
        return Part(text, own)
    half = longest // 2
    return Part(text[:half], own, end=text[-half:], left_out=len(text) - 2 * half)
