"""Which stretches two texts share, of lines or of words, in bounded time: pure.

difflib looks through what is left once more for each stretch it finds: of long texts with many small changes that takes
minutes. Here it counts its steps, and where they are too many it looks only between what stands once in both texts.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from itertools import accumulate, pairwise
from typing import Final

MOST_STEPS: Final = 1_000_000
"""Of one comparison, unless the page says otherwise; about a fifth of a second."""

ITEM_STEPS: Final = 10
"""What a line or word costs before any search: counting it, and finding whether it stands once."""


class Effort:
    """The steps that comparing may still take: one for each item looked at, and one for each place of its like."""

    def __init__(self, steps: int = MOST_STEPS) -> None:
        self.left = steps
        self.refused = 0

    def takes(self, steps: int) -> bool:
        """Take steps; of too few none are taken, and what they were wanted for is left undone."""
        if steps > self.left:
            self.refused += 1
            return False
        self.left -= steps
        return True


class Comparison(SequenceMatcher[str]):
    """Two texts in lines or words; what there was no time to look through counts as different."""

    def __init__(self, one: Sequence[str], other: Sequence[str], effort: Effort) -> None:
        super().__init__(a=one, b="")
        self.b = other  # Later, since difflib would at once note each place of each item, for nothing.
        refused = effort.refused
        found = _alike(one, other, effort, _between)
        self._blocks = [*_joined(found), Match(len(one), len(other), 0)]
        self.is_whole = effort.refused == refused

    def get_matching_blocks(self) -> list[Match]:
        """Return the stretches that both share in order, the last one empty, as difflib does."""
        return self._blocks


def shared_ends(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """Return how many items both begin with, and with how many of the rest both end."""
    begin = _shared(one, other)
    return begin, _shared(one[begin:][::-1], other[begin:][::-1])


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


Search = Callable[[Sequence[str], Sequence[str], Effort], Iterable[Match]]


def _alike(one: Sequence[str], other: Sequence[str], effort: Effort, search: Search) -> Iterator[Match]:
    """Yield both ends that are alike, and what a search finds between them."""
    begin, end = shared_ends(one, other)
    a, b = len(one) - end, len(other) - end
    yield Match(0, 0, begin)
    yield from _moved(search(one[begin:a], other[begin:b], effort), begin, begin)
    yield Match(a, b, end)


def _moved(blocks: Iterable[Match], a: int, b: int) -> Iterator[Match]:
    return (Match(a + block.a, b + block.b, block.size) for block in blocks)


def _between(one: Sequence[str], other: Sequence[str], effort: Effort) -> Iterable[Match]:
    """Search at first in the whole, with half of the effort; if that is too little, between what stands once."""
    if not effort.takes(ITEM_STEPS * (len(one) + len(other))):
        return []
    half = effort.left // 2
    trial = Effort(half)
    found = _searched(one, other, trial)
    effort.left -= half - trial.left
    return _anchored(one, other, effort) if trial.refused else found


def _searched(one: Sequence[str], other: Sequence[str], effort: Effort) -> Iterable[Match]:
    if not one or not other or set(one).isdisjoint(other):
        return []
    return _Bounded(one, other, effort).get_matching_blocks()


class _Bounded(SequenceMatcher[str]):
    """difflib's search, longest stretches first, as far as the effort goes."""

    def __init__(self, one: Sequence[str], other: Sequence[str], effort: Effort) -> None:
        super().__init__(a=one, b=other, autojunk=False)
        places = Counter(other)
        self._steps = [0, *accumulate(1 + places[each] for each in one)]
        self._effort = effort

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        """Return the longest stretch shared; an empty one where looking for it would take too long."""
        end = len(self._steps) - 1 if ahi is None else ahi
        if not self._effort.takes(self._steps[end] - self._steps[alo]):
            return Match(alo, blo, 0)
        return super().find_longest_match(alo, end, blo, bhi)


def _anchored(one: Sequence[str], other: Sequence[str], effort: Effort) -> Iterator[Match]:
    """Yield what stands once in both texts in the same order, and what is found around it."""
    places = [(-1, -1), *_anchors(one, other), (len(one), len(other))]
    for (a, b), (next_a, next_b) in pairwise(places):
        gap = one[a + 1 : next_a], other[b + 1 : next_b]
        yield from _moved(_alike(*gap, effort, _searched), a + 1, b + 1)
        yield Match(next_a, next_b, int(next_a < len(one)))


def _anchors(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int]]:
    """Return the places of what stands once in both texts: the longest row of it that has the same order in both."""
    theirs = _once(other)
    return _rising([(at, theirs[each]) for each, at in _once(one).items() if each in theirs])


def _once(items: Sequence[str]) -> dict[str, int]:
    times = Counter(items)
    return {each: at for at, each in enumerate(items) if times[each] == 1}


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest row of pairs whose second numbers rise; patience sorting, as Bram Cohen's diff has it."""
    ends: list[int] = []
    rows: list[_Row] = []
    for pair in pairs:
        length = bisect_left(ends, pair[1])
        row = _Row(pair, rows[length - 1] if length else None)
        ends[length : length + 1] = [pair[1]]
        rows[length : length + 1] = [row]
    return [*_of(rows[-1])][::-1] if rows else []


@dataclass(frozen=True, slots=True)
class _Row:
    """The last pair of a row, and the row before it."""

    pair: tuple[int, int]
    before: "_Row | None"


def _of(row: _Row | None) -> Iterator[tuple[int, int]]:
    while row is not None:
        yield row.pair
        row = row.before


def _joined(blocks: Iterable[Match]) -> Iterator[Match]:
    """Yield the blocks, those that touch as one, without the empty."""
    open_ = Match(0, 0, 0)
    for block in blocks:
        if (block.a, block.b) == (open_.a + open_.size, open_.b + open_.size):
            open_ = open_._replace(size=open_.size + block.size)
        elif block.size:
            if open_.size:
                yield open_
            open_ = block
    if open_.size:
        yield open_
