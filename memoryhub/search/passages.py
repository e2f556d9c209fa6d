"""Split long texts into passages, which are searched in addition to the whole text. Pure: no Django, no database.

BM25 normalises by length, so one mention in 1,500 words weighs almost nothing. A long text is therefore scored as
its whole or as its best passage, whichever is greater. Constants were measured (see docs/algorithm.md).
"""

import re
from collections.abc import Iterator, Mapping
from math import ceil
from typing import Final

from memoryhub.search.analysis import ENGLISH_STOP_WORDS as STOP_WORDS
from memoryhub.search.analysis import UNSPACED, analyse
from memoryhub.search.bm25 import document_weights

MIN_WORDS: Final = 85
"""Shorter texts have no passages: BM25's length normalisation serves them well. Lengths leave out stop words, as
`bm25.text_length` does: prose of 150 words has about 85."""

MAX_WORDS: Final = 50
"""Greatest length of a passage, about 90 words of prose."""

UNSPACED_SHARE: Final = 0.28
"""Length of a character of a script without spaces, in words."""

PASSAGE_SHARE: Final = 0.7
"""Weight of a passage relative to a separate text: it is one of several chances to match."""

_TOKEN: Final = re.compile(f"[{UNSPACED}]{{1,5}}|[^\\W{UNSPACED}]+")
_BOUNDARY: Final = re.compile(
    r"(?<=[.!?])\s+|(?<=[.!?][\"')\]])\s+|(?<=[。！？])(?![。！？」』）])|(?<=[。！？][」』）])|\n+"
)

Span = tuple[int, int]


def split(text: str) -> list[Span]:
    """Return the passages of a text as (start, end): adjacent, in order, together the whole text.

    They end with sentences or lines where possible, and have similar lengths. A short text is one passage.
    """
    tokens = list(_sizes(text))
    total = sum(size for _start, size in tokens)
    if total <= MIN_WORDS:
        return [(0, len(text))]
    limit = ceil(total / ceil(total / MAX_WORDS))
    boundaries = (match.end() for match in _BOUNDARY.finditer(text))
    cuts = [0]
    length = since_boundary = 0.0
    boundary, following = 0, next(boundaries, len(text))
    for start, size in tokens:
        while following <= start < len(text):
            boundary, since_boundary = following, 0.0
            following = next(boundaries, len(text) + 1)
        if length + size > limit and start > cuts[-1]:
            at_boundary = boundary > cuts[-1]
            cuts.append(boundary if at_boundary else start)
            length = since_boundary if at_boundary else 0.0
            if not at_boundary:
                since_boundary = 0.0
        length += size
        since_boundary += size
    return list(zip(cuts, [*cuts[1:], len(text)], strict=True))


def _sizes(text: str) -> Iterator[tuple[int, float]]:
    """Yield the start and the length in words of each word, or of a few characters of a script without spaces."""
    for match in _TOKEN.finditer(text):
        found = match[0]
        yield match.start(), UNSPACED_SHARE * len(found) if _is_unspaced(found) else float(found not in STOP_WORDS)


_UNSPACED_START: Final = re.compile(f"[{UNSPACED}]")


def _is_unspaced(token: str) -> bool:
    return not token[0].isascii() and bool(_UNSPACED_START.match(token))


def passage_weights(text: str, share: float = PASSAGE_SHARE) -> list[dict[int, float]]:
    """Return the term weights of each passage of a long text; empty for a short one."""
    spans = split(text)
    if len(spans) == 1:
        return []
    passages = (document_weights(analyse(text[start:end])) for start, end in spans)
    return [{term: share * weight for term, weight in each.items()} for each in passages]


def best_passage(text: str, weights: Mapping[int, float]) -> Span:
    """Return the passage with the greatest word score, the first of equals. `weights` are a query's, by term id."""
    spans = split(text)

    def score(span: Span) -> float:
        document = document_weights(analyse(text[slice(*span)]))
        return sum(weights[term] * weight for term, weight in document.items() if term in weights)

    return max(spans, key=score) if len(spans) > 1 else spans[0]
