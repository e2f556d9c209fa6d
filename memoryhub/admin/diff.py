"""Differences between texts: words in one text or side by side, and the changed passages of long documents.

Built on diff-match-patch, which stops at a deadline: the rest counts as changed. Words and lines are encoded as single
characters for it, so that no word is marked in part; for the same reason `word_spans` replaces its semantic clean-up,
which moves single characters.
"""

import re
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final

from diff_match_patch import diff_match_patch  # type: ignore[import-untyped]

from memoryhub.search.analysis import UNSPACED, analyse

TIME_LIMIT_SECONDS: Final = 0.5
"""Time for all comparisons of one page."""

MAX_COMPARED_LENGTH: Final = 5_000
"""Characters of a text that is compared word by word as a whole."""

ANCHORED_FROM: Final = 500
"""Words or lines of both texts from which unique ones are matched first: the search alone takes quadratic time."""

FIRST_CODE: Final = 0x10000
MIN_SHARED_LENGTH: Final = 3
"""Characters between two differences that count as shared; fewer are chance, and make the text hard to read."""

# Words with the white space after them; any other character, such as those of scripts without spaces, alone.
_UNSPACED = r"\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORDS = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+\s*|\s+|.\s*", re.DOTALL)
_PARTS = re.compile(rf"([{UNSPACED}]+)|[^\W{UNSPACED}]+|[\W_]", re.DOTALL)
# A row of the comparison ends after a sentence or a line.
_END = re.compile(r"[.!?](?=\s)\s*|[。！？\n]\s*")

_DIFFER = diff_match_patch()
# Disables the half-match heuristic: it is quadratic on repetitive texts and ignores the deadline.
_DIFFER.Diff_Timeout = 0
_Diffs = list[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class Span:
    """A part of both texts: equal, or different (`own`)."""

    one: str
    other: str
    own: bool


@dataclass(frozen=True, slots=True)
class Marked:
    """The next part of a text, and whether the other text has its words too."""

    text: str
    is_shared: bool


def shared_words(text: str, other: str) -> list[Marked]:
    """Return a text in parts, marking the content words that the other text has too."""
    terms = analyse(other)
    parts: list[tuple[str, bool]] = []
    for match in _PARTS.finditer(text):
        unspaced = match[1]
        if unspaced is None:
            word = match[0]
            own = analyse(word) if word[:1].isalnum() else None
            pieces = [(word, bool(own) and all(term in terms for term in own or ()))]
        else:
            shared = [False] * len(unspaced)
            for index, pair in enumerate(map("".join, pairwise(unspaced))):
                if pair in terms:
                    shared[index] = shared[index + 1] = True
            pieces = [
                (char, here or (before and char in NON_INITIAL_KANA))
                for char, here, before in zip(unspaced, shared, [False, *shared], strict=False)
            ]
        parts += pieces
    runs = groupby(parts, itemgetter(1))
    return [Marked("".join(piece for piece, _ in run), is_shared) for is_shared, run in runs]


NON_INITIAL_KANA: Final = "んンーゃゅょャュョ"
"""Kana that begin no word; a mark is extended over them."""


def page_deadline(seconds: float = TIME_LIMIT_SECONDS) -> float:
    return time.time() + seconds


def _compare_tokens(
    one: Sequence[str], other: Sequence[str], deadline: float
) -> Iterator[tuple[list[str], list[str], bool]]:
    """Yield the next tokens of both, and whether they differ; equal and different parts take turns."""
    codes: dict[str, int] = {}

    def encode(tokens: Sequence[str]) -> str:
        return "".join(chr(FIRST_CODE + codes.setdefault(token, len(codes))) for token in tokens)

    texts = encode(one), encode(other)
    tokens = list(codes)
    diffs = _diffs(*texts, deadline)
    _DIFFER.diff_cleanupMerge(diffs)
    pending: tuple[list[str], list[str]] = ([], [])
    for operation, text in diffs:
        decoded = [tokens[ord(code) - FIRST_CODE] for code in text]
        if operation != _DIFFER.DIFF_EQUAL:
            pending[operation == _DIFFER.DIFF_INSERT].extend(decoded)
            continue
        if any(pending):
            yield *pending, True
        yield decoded, decoded, False
        pending = ([], [])
    if any(pending):
        yield *pending, True


def _diffs(one: str, other: str, deadline: float) -> _Diffs:
    if len(one) + len(other) <= ANCHORED_FROM:
        return _search(one, other, deadline)
    prefix_length = _DIFFER.diff_commonPrefix(one, other)
    diffs: _Diffs = [(_DIFFER.DIFF_EQUAL, one[:prefix_length])] if prefix_length else []
    one, other = one[prefix_length:], other[prefix_length:]
    anchors = [(-1, -1), *_anchors(one, other), (len(one), len(other))]
    for (a, b), (next_a, next_b) in pairwise(anchors):
        diffs += _search(one[a + 1 : next_a], other[b + 1 : next_b], deadline)
        if next_a < len(one):
            diffs.append((_DIFFER.DIFF_EQUAL, one[next_a]))
    return diffs


def _search(one: str, other: str, deadline: float) -> _Diffs:
    return list(_DIFFER.diff_main(one, other, False, deadline))


def _anchors(one: str, other: str) -> list[tuple[int, int]]:
    """Return the positions of characters that are unique in both texts and in the same order (patience diff)."""
    other_positions = _unique(other)
    piles: list[list[tuple[int, int]]] = []
    predecessors: dict[tuple[int, int], tuple[int, int] | None] = {}
    pile_ends: list[int] = []
    for char, position in _unique(one).items():
        if char not in other_positions:
            continue
        pair = (position, other_positions[char])
        length = bisect_left(pile_ends, pair[1])
        predecessors[pair] = piles[length - 1][-1] if length else None
        if length == len(piles):
            piles.append([pair])
            pile_ends.append(pair[1])
        else:
            piles[length].append(pair)
            pile_ends[length] = pair[1]
    anchors, last = [], piles[-1][-1] if piles else None
    while last is not None:
        anchors.append(last)
        last = predecessors[last]
    return anchors[::-1]


def _unique(text: str) -> dict[str, int]:
    counts = Counter(text)
    return {char: position for position, char in enumerate(text) if counts[char] == 1}


# Words


def word_spans(one: str, other: str, deadline: float | None = None) -> list[Span]:
    """Return both texts in spans of words; of scripts without spaces, in spans of characters.

    Short shared parts between two differences (a letter, a space, a particle) count as different too.
    """
    deadline = page_deadline() if deadline is None else deadline
    compared = list(_compare_tokens(_WORDS.findall(one), _WORDS.findall(other), deadline))
    spans = []
    for index, (old_tokens, new_tokens, differs) in enumerate(compared):
        text, is_between = "".join(old_tokens), 0 < index < len(compared) - 1
        is_chance = is_between and len(text.strip()) < MIN_SHARED_LENGTH
        spans.append(Span(text, "".join(new_tokens), differs or is_chance))
    return _joined(spans)


def _joined(spans: Iterable[Span]) -> list[Span]:
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1].own == span.own:
            previous = joined.pop()
            span = Span(previous.one + span.one, previous.other + span.other, span.own)
        joined.append(span)
    return joined


# In one text

MAX_INLINE_LENGTH: Final = 3_000
"""Characters of one inline difference; what is left out is marked."""

CONTEXT_LENGTH: Final = 120
"""Characters that are shown around a change of what stayed as it was."""

SAME, GONE, NEW, CUT = "same", "gone", "new", "cut"


@dataclass(frozen=True, slots=True)
class Run:
    """A piece of an inline difference: SAME, GONE, NEW, or CUT where something is left out."""

    kind: str
    text: str


def inline_diff(before: str, after: str, deadline: float | None = None) -> list[Run] | None:
    """Return an inline difference of two texts; None where they are too long."""
    if max(len(before), len(after)) > MAX_COMPARED_LENGTH:
        return None
    runs: list[Run] = []
    for span in word_spans(before, after, deadline):
        parts = ((GONE, span.one), (NEW, span.other)) if span.own else ((SAME, span.one),)
        runs += [Run(kind, text) for kind, text in parts if text]
    return list(_limited(runs))


def _limited(runs: Sequence[Run]) -> Iterator[Run]:
    """Yield the runs up to MAX_INLINE_LENGTH characters; of long unchanged ones, only the text next to a change."""
    shown: list[Run] = []
    for index, run in enumerate(runs):
        if run.kind != SAME or len(run.text) <= 2 * CONTEXT_LENGTH:
            shown.append(run)
            continue
        if index > 0:
            shown.append(Run(SAME, run.text[:CONTEXT_LENGTH]))
        shown.append(Run(CUT, "…"))
        if index < len(runs) - 1:
            shown.append(Run(SAME, run.text[-CONTEXT_LENGTH:]))
    remaining = MAX_INLINE_LENGTH
    for run in shown:
        if len(run.text) > remaining:
            yield Run(run.kind, run.text[:remaining])
            yield Run(CUT, "…")
            return
        remaining -= len(run.text)
        yield run


# Side by side


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of one side: `own` where only this side has it, `left_out` characters missing before `end`."""

    text: str
    own: bool
    end: str = ""
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """A sentence of one text and its counterpart in the other."""

    one: list[Part]
    other: list[Part]

    @property
    def differs(self) -> bool:
        return any(part.own for part in (*self.one, *self.other))


def side_by_side(one: str, other: str) -> list[Row] | None:
    """Return both texts as rows of a sentence or more each; None where they are too long."""
    if max(len(one), len(other)) > MAX_COMPARED_LENGTH:
        return None
    rows: list[list[Span]] = [[]]
    for span in word_spans(one, other):
        if span.own:
            rows[-1].append(span)
            continue
        # Sentences with their terminators; the last may be empty.
        ends = [match.end() for match in _END.finditer(span.one)]
        first, *others = (span.one[begin:end] for begin, end in pairwise([0, *ends, len(span.one)]))
        rows[-1].append(Span(first, first, own=False))
        rows += [[Span(sentence, sentence, own=False)] for sentence in others]
    return [row for spans in rows if (row := Row(*_sides(spans))).one or row.other]


def _sides(spans: Sequence[Span], shorten: bool = False) -> tuple[list[Part], list[Part]]:
    joined = _joined(spans)
    make = _shortened if shorten else Part
    return [make(span.one, span.own) for span in joined if span.one], [
        make(span.other, span.own) for span in joined if span.other
    ]


# Passages of long texts

CONTEXT_LINES: Final = 2
"""Lines that are shown before and after a change."""

MAX_PAGE_LENGTH: Final = 60_000
"""Characters on one page, of both sides."""

MAX_PASSAGE_LENGTH: Final = 10_000
"""Characters of both sides after which a passage ends: where every second line changed, all is one change."""

MAX_EQUAL_LENGTH: Final = 400
MAX_CHANGED_LENGTH: Final = 8_000
"""Characters of one stretch; the middle of a longer one is left out."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One change with the lines around it; `line` is where it begins in the newer text, from 1 on."""

    line: int
    was: list[Part]
    now: list[Part]

    @property
    def size(self) -> int:
        return sum(len(part.text) + len(part.end) for part in (*self.was, *self.now))


@dataclass(frozen=True, slots=True)
class Differences:
    """The changes that a page shows, from number `first` on; `following` is where the next page begins."""

    passages: list[Passage]
    total: int
    first: int = 0
    following: int | None = None


def differences(
    one: str, other: str, *, first: int = 0, max_length: int = MAX_PAGE_LENGTH, seconds: float = TIME_LIMIT_SECONDS
) -> Differences:
    """Return the changes from one text to another, from change number `first` (0-based) on."""
    deadline = page_deadline(seconds)
    groups = list(_groups(one.splitlines(keepends=True), other.splitlines(keepends=True), deadline))
    passages: list[Passage] = []
    used = 0
    for number, (line, spans) in enumerate(groups[first:], start=first):
        if passages and used >= max_length:
            return Differences(passages, len(groups), first, number)
        words = [
            part for span in spans for part in (word_spans(span.one, span.other, deadline) if span.own else [span])
        ]
        passages.append(Passage(line, *_sides(words, shorten=True)))
        used += passages[-1].size
    return Differences(passages, len(groups), first)


def _groups(old_lines: Sequence[str], new_lines: Sequence[str], deadline: float) -> Iterator[tuple[int, list[Span]]]:
    group: list[Span] = []
    line, start_line, size = 1, 1, 0
    for one, other, differs in _compare_tokens(old_lines, new_lines, deadline):
        if differs:
            group.append(Span("".join(one), "".join(other), own=True))
            size += len(group[-1].one) + len(group[-1].other)
        else:
            has_change = any(span.own for span in group)
            head, tail = one[:CONTEXT_LINES] if has_change else [], one[-CONTEXT_LINES:]
            if has_change and (len(one) > 2 * CONTEXT_LINES or size >= MAX_PASSAGE_LENGTH):
                yield start_line, [*group, _same(head)]
                group, size = [], 0
                tail = tail if len(one) > 2 * CONTEXT_LINES else one[CONTEXT_LINES:]
            elif has_change:
                head, tail = [], one
            if not group:
                start_line = line + len(one) - len(tail)
            group.append(_same(tail))
            size += 2 * len(group[-1].one)
        line += len(other)
    if any(span.own for span in group):
        yield start_line, group


def _same(lines: Sequence[str]) -> Span:
    return Span("".join(lines), "".join(lines), own=False)


def _shortened(text: str, own: bool) -> Part:
    max_length = MAX_CHANGED_LENGTH if own else MAX_EQUAL_LENGTH
    if len(text) <= max_length:
        return Part(text, own)
    half = max_length // 2
    return Part(text[:half], own, end=text[-half:], left_out=len(text) - 2 * half)
