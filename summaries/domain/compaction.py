"""Divide a document into protected and free text, mask the former for a model, and validate the answer (SPEC P7).

Pure. Protected text is never shown to a model: a mark on a separate line replaces it, and the rewritten text must
hold each mark once and in order. Then the protected text replaces the marks, word for word, and the whole is checked
once more.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import chain, groupby
from typing import Final

from conversations.domain.content import visible
from memoryhub.zones import day_end
from summaries.domain.documents import MEMORY, PIN, PINNED, TIMELINE, line_digest

COMPACTED: Final = frozenset({MEMORY, TIMELINE})
"""Documents that are compacted automatically, since they grow automatically; others are on request."""

NEVER_COMPACTED: Final = PINNED

PROTECTED_AGE: Final = timedelta(days=7)
SECTION_TOKENS: Final = 12_000
"""Free text of one call, so that prompt and answer fit into any model."""

MIN_ROOM_TOKENS: Final = 100
"""Tokens that must be left besides the protected text, for a text to be written."""

FOLLOW_UP: Final = timedelta(days=1)
"""Pause after a refusal, except on request, since each attempt costs a model call."""

_FENCE: Final = re.compile(r" {0,3}(```|~~~)")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_ITEM: Final = re.compile(r"([ \t]*)(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_QUOTE: Final = re.compile(r" {0,3}>")
_DAY: Final = re.compile(r"(?<!\d)(\d{4})(?:-(\d{1,2})-(\d{1,2})|/(\d{1,2})/(\d{1,2})|年(\d{1,2})月(\d{1,2})日)(?!\d)")

Count = Callable[[str], int]


class Outcome(StrEnum):
    DONE = "done"
    NOT_NEEDED = "not_needed"
    NO_MODEL = "no_model"
    TOO_MUCH_PROTECTED = "too_much_protected"
    REFUSED = "refused"


REFUSED_OUTCOMES: Final = (Outcome.REFUSED, Outcome.TOO_MUCH_PROTECTED)
"""A person has to unpin or shorten something."""


@dataclass(frozen=True)
class Block:
    """Heading, list item with its lines, paragraph or piece of code, with the blank lines after it.

    `level` is that of a heading, from 1 on, else 0; `indent` that of a list item, else -1.
    """

    text: str = field(repr=False)
    level: int = 0
    indent: int = -1

    @property
    def first_line(self) -> str:
        return next(iter(self.text.splitlines()), "")


@dataclass(frozen=True)
class Piece:
    """Part of a document that is kept word for word, or that may be rewritten.

    `heading` has the headings in a kept part, which show a model the place of the rest.
    """

    text: str = field(repr=False)
    is_kept: bool
    heading: str = field(default="", repr=False)


@dataclass(frozen=True)
class Section:
    pieces: tuple[Piece, ...]

    @property
    def free(self) -> str:
        return "".join(piece.text for piece in self.pieces if not piece.is_kept)

    @property
    def kept(self) -> tuple[Piece, ...]:
        return tuple(piece for piece in self.pieces if piece.is_kept)

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True)
class Protection:
    """Protected text: pinned lines, lines with these digests, and blocks dated after a moment, in days of the zone."""

    digests: Container[bytes]
    young_after: datetime
    zone: tzinfo = UTC

    @classmethod
    def at(cls, now: datetime, digests: Container[bytes], zone: tzinfo = UTC) -> "Protection":
        return cls(digests, now - PROTECTED_AGE, zone)

    def covers(self, block: Block) -> bool:
        """Return whether a block is protected, apart from blocks above and below it."""
        day = day_in(block.first_line)
        is_young = day is not None and day_end(day, self.zone) > self.young_after
        is_protected = any(line_digest(line) in self.digests for line in block.text.splitlines())
        return is_young or is_protected or PIN in block.text


class CannotCompact(ValueError):
    """The document must stay as it is; `outcome` is the reason."""

    def __init__(self, outcome: Outcome, *, missing: int = 0) -> None:
        self.outcome = outcome
        self.missing = missing
        super().__init__(outcome.value)


def day_in(line: str) -> date | None:
    for match in _DAY.finditer(line):
        numbers = [int(number) for number in match.groups() if number is not None]
        try:
            return date(*numbers)
        except ValueError:  # the 31st of February
            continue
    return None


def blocks_of(text: str) -> list[Block]:
    return [_block(lines) for lines in _grouped(text.splitlines(keepends=True))]


def _grouped(lines: Sequence[str]) -> Iterator[list[str]]:
    current: list[str] = []
    fence = ""
    for line in lines:
        if current and not fence and _begins(line, current):
            yield current
            current = []
        mark = _FENCE.match(line)
        if mark is not None:
            fence = mark[1] if not fence else "" if mark[1] == fence else fence
        current.append(line)
    if current:
        yield current


def _begins(line: str, current: Sequence[str]) -> bool:
    if not line.strip() or (not current[0].strip() and len(current) == 1):
        return False
    if _HEADING.match(line) or _ITEM.match(line) or _HEADING.match(current[0]):
        return True
    if current[-1].strip():
        return bool(_QUOTE.match(line)) != bool(_QUOTE.match(current[-1]))
    is_item = _ITEM.match(current[0]) is not None
    return not (is_item and line[:1] in " \t")


def _block(lines: Sequence[str]) -> Block:
    first = next((line for line in lines if line.strip()), "")
    text, heading, item = "".join(lines), _HEADING.match(first), _ITEM.match(first)
    if heading:
        return Block(text, level=len(heading[1]))
    return Block(text, indent=len(item[1].expandtabs(4))) if item else Block(text)


def protected_places(blocks: Sequence[Block], protection: Protection) -> set[int]:
    """Return the places of the blocks that are kept word for word.

    A heading protects its whole section, and a list item everything below it. The headings above a protected block are
    kept as well, and so are the title and the first block quote, which is the description in the catalog.
    """
    filled = [place for place, block in enumerate(blocks) if block.text.strip()]
    kept = {place for place in filled[:1] if blocks[place].level == 1}
    kept.update([place for place in filled if _QUOTE.match(blocks[place].first_line)][:1])
    headings: list[tuple[int, int, bool]] = []  # level, index, whether everything below is kept
    items: list[tuple[int, bool]] = []  # indent, whether everything below is kept
    for place, block in enumerate(blocks):
        if block.level:
            headings = [above for above in headings if above[0] < block.level]
        items = [above for above in items if 0 <= above[0] < block.indent]
        inherits = any(above[2] for above in headings) or any(is_kept for _, is_kept in items)
        is_kept = inherits or protection.covers(block)
        if block.level:
            headings.append((block.level, place, is_kept))
        if block.indent >= 0:
            items.append((block.indent, is_kept))
        if is_kept:
            kept |= {place, *(above[1] for above in headings)}
    return kept


def pieces_of(text: str, protection: Protection) -> list[Piece]:
    """Return a document's blocks as pieces, each kept or free, which joined are the text."""
    blocks = blocks_of(text)
    kept = protected_places(blocks, protection)
    return [
        Piece(block.text, place in kept, block.text.strip() if block.level and place in kept else "")
        for place, block in enumerate(blocks)
    ]


def sections_of(pieces: Sequence[Piece], *, count: Count, most: int = SECTION_TOKENS) -> list[Section]:
    """Return the pieces in sections of at most so many free tokens, which joined are the document."""
    sections: list[Section] = []
    current: list[Piece] = []
    used = 0
    for piece in chain.from_iterable(_parts(each, count, most) for each in pieces):
        tokens = 0 if piece.is_kept else count(piece.text)
        if current and used + tokens > most:
            sections.append(Section(_merged(current)))
            current, used = [], 0
        current.append(piece)
        used += tokens
    return [*sections, Section(_merged(current))] if current else sections


def _parts(piece: Piece, count: Count, most: int) -> Iterator[Piece]:
    """Yield a free piece in halves until each fits into a call; one without line breaks is cut between characters."""
    if piece.is_kept or count(piece.text) <= most or len(piece.text) < 2:
        yield piece
        return
    middle = len(piece.text) // 2
    at = piece.text.rfind("\n", 0, middle) + 1 or middle
    for part in (piece.text[:at], piece.text[at:]):
        yield from _parts(Piece(part, is_kept=False), count, most)


def _merged(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    return tuple(
        Piece("".join(each.text for each in group), is_kept, " / ".join(each.heading for each in group if each.heading))
        for is_kept, grouped in groupby(pieces, key=lambda piece: piece.is_kept)
        if (group := list(grouped))
    )


def free_tokens(pieces: Sequence[Piece], *, target: int, count: Count) -> int:
    """Return the tokens for the rewritten text. Raises CannotCompact where the protected text leaves too few."""
    room = target - count("".join(piece.text for piece in pieces if piece.is_kept))
    if room < MIN_ROOM_TOKENS:
        raise CannotCompact(Outcome.TOO_MUCH_PROTECTED)
    return room


def shares(sections: Sequence[Section], *, room: int, count: Count) -> list[int]:
    sizes = [count(section.free) for section in sections]
    return [room * size // max(1, sum(sizes)) for size in sizes]


def mark_of(number: int, code: str) -> str:
    """Return the mark of a kept piece, numbered from 1 on; `code` is random for each section."""
    return f"[[kept-{number}-{code}]]"


def masked_text(section: Section, code: str) -> str:
    """Return a section for a model: marks instead of kept pieces, each followed by the headings in it."""
    lines: list[str] = []
    number = 0
    for piece in section.pieces:
        if piece.is_kept:
            number += 1
            lines.append(f"{mark_of(number, code)} {piece.heading}".rstrip())
        else:
            lines.append(piece.text.strip("\n"))
    return "\n".join(lines)


@dataclass(frozen=True)
class Rewritten:
    """Section as a model rewrote it; `faults` are the marks that do not occur once and in order."""

    text: str = field(repr=False)
    faults: tuple[int, ...]
    is_blank: bool

    @property
    def can_be_kept(self) -> bool:
        return not self.faults and not self.is_blank


def rewritten(section: Section, answer: str, code: str) -> Rewritten:
    """Return a section with the answer's text and its kept pieces; pins are removed, since only people pin."""
    mark = re.compile(rf"\s*\[\[kept-(\d{{1,6}})-{re.escape(code)}\]\]")
    parts: list[tuple[bool, str]] = []
    found: list[int] = []
    for line in visible(answer).splitlines():
        match = mark.match(line)
        if match is None:
            parts.append((False, line.replace(PIN, "").rstrip()))
            continue
        found.append(int(match[1]))
        parts += [(True, piece.text) for piece in section.kept[found[-1] - 1 :][:1] if found[-1]]
    wanted, latest = range(1, len(section.kept) + 1), 0
    faults = set(wanted) - set(found)
    for number in found:
        if number <= latest or number not in wanted:
            faults.add(number)
        latest = max(latest, number)
    if section.pieces[0].is_kept and next((is_kept for is_kept, text in parts if text), True) is False:
        faults.add(1)  # text was inserted above the title
    says_something = any(text for is_kept, text in parts if not is_kept) or not section.free.strip()
    return Rewritten(_laid_out(parts), tuple(sorted(faults)), not says_something)


def _laid_out(parts: Iterable[tuple[bool, str]]) -> str:
    """Join the parts, with a blank line where a paragraph would run on from kept to free text or back."""
    text, was_kept = "", False
    for is_kept, part in parts:
        last = text[text.rfind("\n", 0, -1) + 1 :]
        is_open = last.strip() and part.strip() and not _HEADING.match(last)
        if is_kept != was_kept and is_open and not (_ITEM.match(part) or _HEADING.match(part)):
            text += "\n"
        text += part if part.endswith("\n") else f"{part}\n"
        was_kept = is_kept
    return text


def missing_pieces(pieces: Sequence[Piece], text: str) -> int:
    """Return how many kept pieces a text does not hold word for word, as whole lines and in order."""
    missing, at = 0, 0
    for piece in pieces:
        if not piece.is_kept:
            continue
        wanted = piece.text.rstrip("\n")
        place = _line_place(text, wanted, at)
        if place < 0:
            missing += 1
        else:
            at = place + len(wanted)
    return missing


def _line_place(text: str, wanted: str, at: int) -> int:
    """Return the position of these whole lines in a text, -1 where it does not hold them."""
    while (place := text.find(wanted, at)) >= 0:
        end = place + len(wanted)
        if (place == 0 or text[place - 1] == "\n") and (end == len(text) or text[end] in "\r\n"):
            return place
        at = place + 1
    return -1


def checked(pieces: Sequence[Piece], text: str, *, target: int, count: Count) -> str:
    """Return the text. Raises CannotCompact where a protected piece is missing, or the text is too long."""
    missing = missing_pieces(pieces, text)
    if missing or count(text) > target:
        raise CannotCompact(Outcome.REFUSED, missing=missing)
    return text
