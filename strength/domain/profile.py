"""The written profile: the lines that a model wrote from a user's preferences and facts, and what may be shown of them.

Pure. A line names the memories that it rests on, each with the digest of its text as it was read. It may only shorten
and join: every word of substance, number and negation in it must be in those memories, so that a model adds no claims
(ADR 39). A line that a person wrote may rest on none.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from difflib import SequenceMatcher
from enum import StrEnum
from itertools import accumulate
from typing import Any, Final, NamedTuple
from uuid import UUID

from conversations.domain.content import one_line
from memoryhub.errors import DomainError, _
from memoryhub.llm.types import array_schema, object_schema
from strength.domain.duplicates import Fingerprint, fingerprint
from strength.domain.extraction import cited, is_storable, list_at
from strength.domain.memories import content_digest

JOB_KIND: Final = "write_profile"
MAX_LINES: Final = 40
MAX_LINE_LENGTH: Final = 400
MAX_TEXT_LENGTH: Final = 20_000
LINE_TOKENS: Final = 8
"""Tokens of a memory's number and kind in the prompt."""

MAX_MEMORIES_PER_LINE: Final = 8
"""Most memories joined in a line; a line is hidden when one of them changes."""

MIN_COVERAGE: Final = 0.75
"""Minimum share of a memory's words that a line must contain to restate it."""

SCHEMA: Final = object_schema(
    {"lines": array_schema(object_schema({"text": {"type": "string"}, "memories": array_schema({"type": "integer"})}))}
)
_HEADINGS: Final[Mapping[str, str]] = {"en": "memories", "ja": "記憶"}


class Generator(StrEnum):
    LLM = "llm"
    PERSON = "person"


class UnusableLines(DomainError, ValueError):
    """The lines of an imported profile have another form."""


class ProfileMemory(NamedTuple):
    """The part of a memory that a profile shows."""

    pk: UUID
    kind: str
    content: str
    said_on: date | None
    valid_from: datetime | None
    created_at: datetime
    rank: int = 0
    """Among preferences, facts, or others, by strength."""


@dataclass(frozen=True)
class Source:
    """A memory with the digest of its text as read."""

    memory_id: UUID
    digest: str

    @classmethod
    def of(cls, memory: ProfileMemory) -> "Source":
        return cls(memory.pk, content_digest(memory.content).hex()[:16])

    def as_json(self) -> dict[str, str]:
        return {"id": str(self.memory_id), "digest": self.digest}

    @classmethod
    def read(cls, value: Any) -> "Source":
        return cls(UUID(value["id"]), str(value["digest"]))


@dataclass(frozen=True)
class Line:
    """A line of a written profile with its source memories."""

    text: str = field(repr=False)
    sources: tuple[Source, ...] = ()

    @property
    def memory_ids(self) -> tuple[UUID, ...]:
        return tuple(each.memory_id for each in self.sources)

    def holds(self, known: Collection[Source]) -> bool:
        """Return whether each source memory is still known with the same text."""
        return all(each in known for each in self.sources)

    def as_json(self) -> dict[str, Any]:
        return {"text": self.text, "sources": [each.as_json() for each in self.sources]}

    @classmethod
    def read(cls, value: Any) -> "Line":
        return cls(str(value["text"]), tuple(Source.read(each) for each in value["sources"]))


def check_lines(lines: Any, sources: Any) -> None:
    """Validate imported lines and sources. Raises UnusableLines."""
    try:
        texts = [Line.read(each).text for each in lines]
        known = [Source.read(each) for each in sources]
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise UnusableLines(_("These are not lines of a profile.")) from error
    if len(known) > 1_000 or not all(is_storable(text, MAX_TEXT_LENGTH) and "\n" not in text for text in texts):
        raise UnusableLines(_("These are not lines of a profile."))


def join_lines(lines: Sequence[Line]) -> str:
    return "\n".join(line.text for line in lines)


def memory_blocks(memories: Sequence[ProfileMemory], *, language: str) -> dict[str, str]:
    """Return the memories, numbered from 1, one line each with its kind, under their heading."""
    shown = [f"{number}. [{each.kind}] {one_line(each.content)}" for number, each in enumerate(memories, 1)]
    return {_HEADINGS.get(language, _HEADINGS["en"]): "\n".join(shown)}


def first_within(
    memories: Sequence[ProfileMemory], *, most: int, count: Callable[[str], int]
) -> Sequence[ProfileMemory]:
    """Return the first memories that have so many tokens together; contexts list the others unchanged."""
    sizes = accumulate(count(each.content) + LINE_TOKENS for each in memories)
    return memories[: sum(1 for size in sizes if size <= most)]


def parse_lines(data: Any, memories: Sequence[ProfileMemory]) -> list[Line]:
    """Return the lines of an answer that restate memories, each memory in the first line that cites it."""
    prints = {each.pk: fingerprint(each.content) for each in memories}
    lines, used = list[Line](), set[UUID]()
    for raw in list_at(data, "lines"):
        text = raw.get("text") if isinstance(raw, Mapping) else None
        text = one_line(text) if isinstance(text, str) else ""
        if not is_storable(text, MAX_LINE_LENGTH):
            continue
        unused = [each for each in cited(memories, raw.get("memories")) if each.pk not in used]
        if restated := _restated(text, unused, prints):
            lines.append(Line(text, tuple(Source.of(each) for each in restated)))
            used.update(each.pk for each in restated)
    return lines[:MAX_LINES]


def _restated(
    text: str, memories: Sequence[ProfileMemory], prints: Mapping[UUID, Fingerprint]
) -> Sequence[ProfileMemory]:
    """Return the memories that a text restates; none if it has more than they do.

    Marks (numbers, negation, modality) must be the same: joined with others, a negation could change its object.
    """
    line = fingerprint(text)
    kind = memories[0].kind if memories else ""
    found = [
        each
        for each in memories
        if each.kind == kind
        and prints[each.pk].marks == line.marks
        and prints[each.pk].terms
        and len(line.terms & prints[each.pk].terms) >= MIN_COVERAGE * len(prints[each.pk].terms)
    ]
    words = frozenset[int]().union(*(prints[each.pk].terms for each in found))
    return found if len(found) <= MAX_MEMORIES_PER_LINE and line.terms <= words else ()


def count_changes(before: Sequence[Source], now: Sequence[Source]) -> int:
    """Return the larger of the numbers of added or rewritten and of removed memories."""
    earlier, current = set(before), set(now)
    return max(len(current - earlier), len(earlier - current))


def edit_lines(lines: Sequence[Line], text: str) -> list[Line]:
    """Return the lines of an edited text; a rewritten line keeps its source memories."""
    new = [each for each in map(one_line, text.splitlines()) if each]
    result = list[Line]()
    for verb, first, last, start, end in SequenceMatcher(
        None, [line.text for line in lines], new, autojunk=False
    ).get_opcodes():
        former = list(lines[first:last]) if verb in ("equal", "replace") else []
        for place, words in enumerate(new[start:end]):
            result.append(replace(former[place], text=words) if place < len(former) else Line(words))
    return result


def remove_memories(lines: Sequence[Line], memory_ids: Collection[UUID]) -> list[Line]:
    return [line for line in lines if not set(line.memory_ids) & set(memory_ids)]


@dataclass(frozen=True)
class Entry:
    """An entry of a profile: a written line with its memories, or one memory itself."""

    text: str = field(repr=False)
    memories: tuple[ProfileMemory, ...]
    line: Line | None = None


def entries_of(
    lines: Sequence[Line], memories: Sequence[ProfileMemory], others: Sequence[ProfileMemory]
) -> Iterator[Entry]:
    """Yield the valid lines and all memories, best first: a line right before the first of its memories.

    A line's memories are yielded too, for readers that skip a line because another layer shows one of them. `others`
    are further valid source memories of lines. Lines without sources, which a person wrote, come first.
    """
    known = {Source.of(each): each for each in (*memories, *others)} if lines else {}
    rank = {each.pk: place for place, each in enumerate(memories)}
    showing = [line for line in lines if line.holds(known)]
    best = {line: min((rank.get(key, len(rank)) for key in line.memory_ids), default=-1) for line in showing}
    placed: list[tuple[tuple[int, int], Entry]] = [
        ((best[line], 0), Entry(line.text, tuple(known[each] for each in line.sources), line)) for line in showing
    ]
    placed += [((place, 1), Entry(each.content, (each,))) for place, each in enumerate(memories)]
    yield from (entry for _place, entry in sorted(placed, key=lambda each: each[0]))
