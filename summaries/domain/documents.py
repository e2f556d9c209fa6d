"""Lines of a document that were appended as entries, and how they are known again. Pure."""

import re
import unicodedata
from collections.abc import Callable, Set
from datetime import datetime
from hashlib import sha256
from typing import Final

from summaries.domain.projects import TIMELINE, one_line

PIN: Final = "[PINNED]"
LONGEST_ENTRY: Final = 4_000
LONGEST_DOCUMENT: Final = 1_000_000
"""Characters; what a context takes of them is decided by its tokens."""

_BULLET: Final = re.compile(r"\s*(?:[-*+]\s+|\d+[.)]\s+)?")


def entry_line(text: str, *, pinned: bool, document: str, at: datetime) -> str:
    """Return the one line that an entry is written as; in the timeline with its day."""
    words = one_line(text)
    if pinned and not words.startswith(PIN):
        words = f"{PIN} {words}"
    return f"- {at:%Y-%m-%d}: {words}" if document == TIMELINE else f"- {words}"


def line_digest(line: str) -> bytes:
    """Return by what an entry is known: its line without indent and bullet, so that a person may move it."""
    bare = _BULLET.sub("", unicodedata.normalize("NFC", line), count=1).strip()
    return sha256(bare.encode("utf-8", "surrogatepass")).digest()


def appended(text: str, line: str) -> str:
    """Return the text with a line at its end."""
    if not text:
        return f"{line}\n"
    return f"{text}{'' if text.endswith(chr(10)) else chr(10)}{line}\n"


def without_lines(text: str, digests: Set[bytes]) -> str:
    """Return the text without the lines that are known by these digests: those that nobody believes yet."""
    if not digests:
        return text
    return "".join(line for line in text.splitlines(keepends=True) if line_digest(line) not in digests)


def best_sections(
    sections: list[str],
    score: Callable[[str], float],
    *,
    floor: float,
    most_tokens: int,
    count: Callable[[str], int],
) -> tuple[list[str], float]:
    """Return the sections that score best, in their own order and within so many tokens, and the best score."""
    scored = sorted(((score(each), -place) for place, each in enumerate(sections)), reverse=True)
    chosen: list[int] = []
    used = 0
    for value, place in scored:
        tokens = count(sections[-place])
        if value < floor:
            break
        if used + tokens <= most_tokens:
            chosen.append(-place)
            used += tokens
    best = scored[0][0] if chosen else 0.0
    return [sections[place] for place in sorted(chosen)], best
