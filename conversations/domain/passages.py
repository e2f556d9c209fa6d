"""Sentence segmentation, and extraction of the sentences of a long text that are relevant to a query. Pure.

A few rules for English and Japanese, in linear time; a wrong segmentation does little harm.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Final

from conversations.domain.content import visible
from memoryhub.search.analysis import COMPOUND, fold
from memoryhub.search.bm25 import term_id
from memoryhub.search.passages import best_passage

MAX_READ_LENGTH: Final = 20_000
"""Most characters of a text that are split into sentences; of a longer one, those around its best passage."""

_OPENING: Final = "「『（【("
_CLOSING: Final = "」』）】)"
_ENDS: Final = "。！？!?."
_CODE_FENCE: Final = re.compile(r"^\s*(?:```|~~~)")
_LIST_MARK: Final = re.compile(r"^\s*(?:[-*•・#>]+|\d{1,2}[.)])\s+")
_ABBREVIATION: Final = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|approx|mr|mrs|ms|dr|prof|st|no|fig|inc|ltd|a\.m|p\.m|[a-z])\.$", re.IGNORECASE
)


def sentences(text: str, *, code: bool = False) -> list[str]:
    """Return the sentences of a text; line breaks end sentences. Fenced code is left out, unless `code`."""
    found: list[str] = []
    in_code = False
    for line in filter(str.strip, visible(text[:MAX_READ_LENGTH]).splitlines()):
        if _CODE_FENCE.match(line):
            in_code = not in_code
        elif code or not in_code:
            parts = (" ".join(part.split()) for part in _split(_LIST_MARK.sub("", line)))
            found += [part for part in parts if any(map(str.isalnum, part))]
    return found


def _split(line: str) -> Iterator[str]:
    """Yield a line's sentences; quotations and brackets are not divided."""
    start, depth = 0, 0
    for place, letter in enumerate(line):
        if letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth = max(0, depth - 1)
        elif letter in _ENDS and not depth and _is_sentence_end(line, start, place):
            yield line[start : place + 1]
            start = place + 1
    yield line[start:]


def _is_sentence_end(line: str, start: int, place: int) -> bool:
    """Return whether a mark ends a sentence: not before another mark, nor in a number, domain or abbreviation."""
    after = line[place + 1 : place + 2]
    if after in _ENDS and after:
        return False
    if line[place] in "。！？":
        return True
    if after and not after.isspace():
        # "3.5", "v1.2", "example.org"; but Japanese writes no space after "!?".
        return line[place] != "." and ord(after) > 0x2E80
    return line[place] != "." or not _ABBREVIATION.search(line[max(start, place - 12) : place + 1])


GAP: Final = " … "
"""Where sentences were left out."""


def passages(text: str, terms: Mapping[str, float], *, limit: int) -> str:
    """Return a text of at most `limit` bytes of UTF-8, or the sentences of a longer one with the greatest weights.

    Sentences keep their order; the remaining bytes are filled with sentences around the best one. Bytes, because a
    Japanese character has about as many tokens as three or four English ones.
    """
    if len(text.encode()) <= limit:
        return text
    text = _surroundings(text, terms)
    parts, weights = _weighted(text, terms)
    best = max(range(len(parts)), key=lambda place: (weights[place], -place))
    if len(parts[best].encode()) > limit:
        return _cut(parts[best], terms, limit)
    chosen: list[int] = []
    remaining = limit
    for place in sorted(range(len(parts)), key=lambda place: (-weights[place], abs(place - best))):
        size = len(parts[place].encode())
        if size <= remaining:
            chosen.append(place)
            remaining -= size
        elif not weights[place]:  # without terms, only sentences around the best one are taken
            break
    chosen.sort()
    joints = [" " if after == before + 1 else GAP for before, after in pairwise(chosen)]
    shown = "".join(f"{parts[place]}{joint}" for place, joint in zip(chosen, [*joints, ""], strict=True))
    return f"{GAP.lstrip() if chosen[0] else ''}{shown}{GAP.rstrip() if chosen[-1] < len(parts) - 1 else ''}"


def _cut(sentence: str, terms: Mapping[str, float], limit: int) -> str:
    """Return at most `limit` bytes of a sentence, with the heaviest of the terms that it contains."""
    folded = sentence.casefold()
    known = [term for term in sorted(terms, key=lambda term: -terms[term]) if _substring(term) in folded]
    before = sentence[: folded.index(_substring(known[0]))].encode() if known else b""
    start = max(0, len(before) - limit // 3)
    end = start + limit
    whole = sentence.encode()
    shown = whole[start:end].decode(errors="ignore")
    return f"{GAP.lstrip() if start else ''}{shown}{GAP.rstrip() if end < len(whole) else ''}"


def _surroundings(text: str, terms: Mapping[str, float]) -> str:
    """Return the part of a long text around the passage by which the terms find it, else the text."""
    if len(text) <= MAX_READ_LENGTH or not terms:
        return text
    start, end = best_passage(text, {term_id(term): weight for term, weight in terms.items()})
    around = max(0, MAX_READ_LENGTH - (end - start)) // 2
    return text[max(0, start - around) : end + around]


def _weighted(text: str, terms: Mapping[str, float]) -> tuple[list[str], list[float]]:
    """Return a text's sentences with their weights; with those of code, if no other has a term."""
    parts = sentences(text) or [text]
    weights = [_weight(part, terms) for part in parts]
    if terms and not any(weights) and ("```" in text or "~~~" in text):
        parts = sentences(text, code=True) or [text]
        weights = [_weight(part, terms) for part in parts]
    return parts, weights


def _weight(sentence: str, terms: Mapping[str, float]) -> float:
    """Return the weight of the terms that a sentence contains as substrings, as stems mostly are.

    Analysing each sentence would take twenty times as long. A stem may end in "i" instead of "y".
    """
    folded = fold(sentence)
    return sum(weight for term, weight in terms.items() if _substring(term) in folded)


@lru_cache(maxsize=1_000)
def _substring(term: str) -> str:
    bare = term.removeprefix(COMPOUND)
    return bare[:-1] if len(bare) > 3 and bare.endswith("i") else bare
