"""Cutting what was said into sentences, English and Japanese: pure, and linear in the text.

A rule of thumb, not a grammar: what is cut wrongly costs a summary a little, so the rules stay few.
"""

import re
from collections.abc import Iterator
from typing import Final

from conversations.domain.cleaning import visible

LONGEST_READ: Final = 20_000
"""Characters of a message that are looked at: its sentences are chosen from the beginning of a pasted book."""

_OPENING: Final = "「『（【("
_CLOSING: Final = "」』）】)"
_ENDS: Final = "。！？!?."
_CODE_FENCE: Final = re.compile(r"^\s*(?:```|~~~)")
_LIST_MARK: Final = re.compile(r"^\s*(?:[-*•・#>]+|\d{1,2}[.)])\s+")
_ABBREVIATION: Final = re.compile(
    r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|approx|mr|mrs|ms|dr|prof|st|no|fig|inc|ltd|a\.m|p\.m|[a-z])\.$",
    re.IGNORECASE,
)


def sentences(text: str) -> list[str]:
    """Return the sentences of a text; code between fences is left out, and a line's end ends a sentence."""
    return [
        sentence
        for line in _prose(visible(text[:LONGEST_READ]))
        for part in _cut(line)
        if any(map(str.isalnum, sentence := " ".join(part.split())))
    ]


def _prose(text: str) -> Iterator[str]:
    """Yield the lines that are no code, without the marks of lists and headings."""
    in_code = False
    for line in text.splitlines():
        if _CODE_FENCE.match(line):
            in_code = not in_code
        elif not in_code:
            yield _LIST_MARK.sub("", line)


def _cut(line: str) -> Iterator[str]:
    """Yield a line's sentences; what stands in quotation marks or brackets belongs to the sentence around it."""
    start, depth = 0, 0
    for place, letter in enumerate(line):
        if letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth = max(0, depth - 1)
        elif letter in _ENDS and not depth and _ends_at(line, start, place):
            yield line[start : place + 1]
            start = place + 1
    yield line[start:]


def _ends_at(line: str, start: int, place: int) -> bool:
    """Say whether the mark at a place ends a sentence: not where another follows, nor within a number or a name."""
    after = line[place + 1 : place + 2]
    if after in _ENDS and after:
        return False
    if line[place] in "。！？":
        return True
    if after and not after.isspace():
        # "3.5", "v1.2", "example.org"; but Japanese writes no space after "!?".
        return line[place] != "." and ord(after) > 0x2E80
    return line[place] != "." or not _ABBREVIATION.search(line[max(start, place - 12) : place + 1])
