"""Where two long texts differ: the changed lines with a few around them, and in those the changed words. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from memoryhub.admin.comparing import Comparison, Effort, shared_ends
from memoryhub.admin.differences import Piece, compared

AROUND: Final = 2
"""Lines that are shown before and after a change."""

MOST_SHOWN: Final = 60_000
"""Characters on one page, of both sides."""

LONGEST_PASSAGE: Final = 10_000
"""Characters of both sides after which a passage ends: where every second line changed, all is one change."""

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
    used, effort = 0, Effort()
    for number, codes in enumerate(groups[first:], start=first):
        if passages and used >= most:
            return Differences(passages, len(groups), first, number)
        passages.append(_passage(codes, mine, theirs, effort))
        used += passages[-1].size
    return Differences(passages, len(groups), first)


Code = tuple[str, int, int, int, int]


def _groups(mine: Sequence[str], theirs: Sequence[str]) -> Iterator[Sequence[Code]]:
    for codes in Comparison(mine, theirs, Effort()).get_grouped_opcodes(AROUND):
        yield from _divided(codes, mine, theirs)


def _divided(codes: Sequence[Code], mine: Sequence[str], theirs: Sequence[str]) -> Iterator[Sequence[Code]]:
    """Yield the codes in stretches short enough to be read, each with a change."""
    begin = size = 0
    for at, (tag, a, b, c, d) in enumerate(codes):
        size += sum(map(len, mine[a:b])) + sum(map(len, theirs[c:d]))
        if size >= LONGEST_PASSAGE and tag != "equal" and at + 2 < len(codes):
            yield codes[begin : at + 2]
            begin, size = at + 2, 0
    yield codes[begin:]


def _passage(codes: Sequence[Code], mine: Sequence[str], theirs: Sequence[str], effort: Effort) -> Passage:
    was: list[Piece] = []
    now: list[Piece] = []
    for tag, a, b, c, d in codes:
        before, after = "".join(mine[a:b]), "".join(theirs[c:d])
        pieces = _same(before) if tag == "equal" else _words(before, after, effort)
        was += pieces[0]
        now += pieces[1]
    return Passage(codes[0][3] + 1, _parts(was), _parts(now))


def _same(text: str) -> tuple[list[Piece], list[Piece]]:
    pieces = [Piece(text, own=False)] if text else []
    return pieces, pieces


def _words(before: str, after: str, effort: Effort) -> tuple[list[Piece], list[Piece]]:
    """Return both texts in pieces; of long ones, what lies between their alike beginnings and ends may be one piece."""
    sides = compared(before, after, effort)
    if sides is not None:
        return sides
    begin, end = shared_ends(before, after)
    middles = before[begin : len(before) - end], after[begin : len(after) - end]
    marked = compared(*middles, effort) or ([Piece(middles[0], own=True)], [Piece(middles[1], own=True)])
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
