"""Names and texts of projects' documents, and their lines that were appended as entries. Pure."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence, Set
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final

from memoryhub.errors import DomainError, _, format_lazy
from memoryhub.search.analysis import limit_combining_marks
from summaries.domain.projects import MAX_DESCRIPTION_LENGTH, MAX_NAME_LENGTH, one_line

MEMORY: Final = "MEMORY.md"
PINNED: Final = "pinned.md"
DECISIONS: Final = "decisions.md"
TIMELINE: Final = "timeline.md"
DOCUMENTS: Final = (MEMORY, PINNED, DECISIONS, TIMELINE)
_DETAIL: Final = re.compile(r"detail-([a-z0-9]+(?:-[a-z0-9]+)*)\.md")

PIN: Final = "[PINNED]"
MAX_ENTRY_LENGTH: Final = 4_000
MAX_DOCUMENT_LENGTH: Final = 1_000_000
MAX_DOCUMENT_NAME_LENGTH: Final = 100
"""Above all names; one is checked by `check_name`."""
"""Characters; contexts limit documents by tokens."""

_DATE_PREFIX: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:: ?|、| (?=\S))")
_DAY: Final = re.compile(r"- \d{4}-\d\d-\d\d: ")
_BULLET: Final = re.compile(r"\A\s*+(?:[-*+]\s+|\d++[.)]\s+)?")


class DocumentKind(StrEnum):
    CREATE = "create"
    EDIT = "edit"
    APPEND = "append"
    COMPACTION = "compaction"
    RESTORE = "restore"
    SYNC = "sync"
    MERGE = "merge"
    MOVE = "move"


class BadDocumentName(DomainError, ValueError):
    """The text is no document's name."""

    code = "invalid_document_name"


def check_document_name(name: str) -> None:
    """Raise BadDocumentName for what is not `MEMORY.md`, `pinned.md`, … or `detail-<topic>.md`."""
    detail = _DETAIL.fullmatch(name)
    if name not in DOCUMENTS and not (detail and len(detail[1]) <= MAX_NAME_LENGTH):
        raise BadDocumentName(
            format_lazy(_("A document is called {names} or detail-<topic>.md."), names=", ".join(DOCUMENTS))
        )


def document_order(name: str) -> tuple[int, str]:
    """Return the sort key of a document: first the four that every project may have, then details by topic."""
    return (DOCUMENTS.index(name) if name in DOCUMENTS else len(DOCUMENTS), name)


def description_in(memory: str) -> str:
    """Return MEMORY.md's first block quote as one line, "" where it has none; the catalog shows it (SPEC P2)."""
    lines = memory.splitlines()
    at, end = _quote_places(lines)
    return one_line(" ".join(line.lstrip()[1:] for line in lines[at:end]))[:MAX_DESCRIPTION_LENGTH]


def _quote_places(lines: Sequence[str]) -> tuple[int, int]:
    """Return where the first block quote begins and ends; where there is none, both are behind the last line."""
    is_quoted = [line.lstrip().startswith(">") for line in lines]
    at = is_quoted.index(True) if any(is_quoted) else len(lines)
    return at, is_quoted.index(False, at) if False in is_quoted[at:] else len(lines)


def described(name: str, description: str) -> str:
    quote = f"> {one_line(description)}\n" if description.strip() else ""
    return f"# {name}\n\n{quote}"


def title_of(text: str) -> str:
    """Return the first line of a text where it is a heading of the first level, else ""."""
    line, _, _ = text.partition("\n")
    return line.removeprefix("# ").strip() if line.startswith("# ") else ""


def with_description(memory: str, name: str, description: str) -> str:
    """Return MEMORY.md with another description in its first block quote, which is added where it has none."""
    lines = memory.splitlines(keepends=True)
    quote = f"> {one_line(description)}\n" if description.strip() else ""
    at, end = _quote_places(lines)
    if not lines:
        return described(name, description)
    if at == len(lines):
        is_titled = lines[0].startswith("# ")
        title, rest = (lines[0].rstrip("\n") + "\n\n", lines[1:]) if is_titled else ("", lines)
        gap = "" if rest and not rest[0].strip() else "\n"
        return "".join([title, quote, gap, *rest])
    return "".join([*lines[:at], quote, *lines[end:]])


def with_heading(memory: str, former: str, name: str) -> str:
    """Return MEMORY.md with a project's new name as its heading; a heading of the writer's own stays."""
    heading = f"# {former}"
    return f"# {name}{memory.removeprefix(heading)}" if memory.partition("\n")[0].rstrip() == heading else memory


def entry_line(text: str, *, pinned: bool, document: str, at: datetime) -> str:
    """Return an entry as a line of a document; in the timeline with one day: the text's own, else that of `at`."""
    words = one_line(text)
    day = ""
    if document == TIMELINE:
        dated = _DATE_PREFIX.match(words)
        day, words = (dated[1], words[dated.end() :]) if dated else (f"{at:%Y-%m-%d}", words)
    if pinned and not words.startswith(PIN):
        words = f"{PIN} {words}"
    return f"- {day}: {words}" if day else f"- {words}"


def pinned_line(line: str, *, is_pinned: bool) -> str:
    """Return a line without bullet, with or without the mark that pins it, which comes after a day."""
    words = bare_line(line.replace(f"{PIN} ", "").replace(PIN, ""))
    dated = _DATE_PREFIX.match(words)
    at = dated.end() if dated else 0
    return f"{words[:at]}{PIN} {words[at:]}" if is_pinned else words


def line_digest(line: str) -> bytes:
    """Return the digest that identifies an entry: of its line without indent and bullet, so that it may be moved."""
    bare = bare_line(unicodedata.normalize("NFC", limit_combining_marks(line)))
    return sha256(bare.encode("utf-8", "surrogatepass")).digest()


def bare_line(line: str) -> str:
    """Return a line without indent and bullet."""
    return _BULLET.sub("", line, count=1).strip()


def lines_by_digest(text: str) -> dict[bytes, str]:
    return {line_digest(line): line.strip() for line in text.splitlines() if line.strip()}


def appended(text: str, line: str) -> str:
    if not text:
        return f"{line}\n"
    return f"{text}{'' if text.endswith(chr(10)) else chr(10)}{line}\n"


def with_line_replaced(text: str, digest: bytes, line: str) -> str:
    """Put an entry in the place of the first one with this digest; indent and bullet stay those of the document."""
    lines = text.splitlines(keepends=True)
    at = next(number for number, former in enumerate(lines) if line_digest(former) == digest)
    former = lines[at]
    bullet, ending = _BULLET.match(former)[0], former[len(former.rstrip()) :]  # type: ignore[index]
    lines[at] = f"{bullet}{_BULLET.sub('', line, count=1)}{ending}"
    return "".join(lines)


def without_lines(text: str, digests: Set[bytes]) -> str:
    if not digests:
        return text
    return "".join(line for line in text.splitlines(keepends=True) if line_digest(line) not in digests)


def body_lines(text: str, document: str, *, name: str) -> list[str]:
    """Return the lines of a project's document that a merge takes over.

    Of MEMORY.md, title and description become a section's heading and first line, if they are not empty.
    """
    lines = text.splitlines()
    if document != MEMORY:
        return lines
    lines = lines[1:] if title_of(text) else lines
    at, end = _quote_places(lines)
    description, rest = description_in(text), _stripped([*lines[:at], *lines[end:]])
    parts = [part for part in ([description] if description else [], rest) if part]
    return ["", f"## {name}", *(line for part in parts for line in ("", *part))] if parts else []


def _stripped(lines: Sequence[str]) -> list[str]:
    filled = [place for place, line in enumerate(lines) if line.strip()]
    return list(lines[filled[0] : filled[-1] + 1]) if filled else []


def combined(text: str, lines: Sequence[str], document: str) -> str:
    """Return a text with those lines of another added that it does not hold; timelines stay in order of their days."""
    known = {line_digest(line) for line in text.splitlines() if line.strip()}
    new = [line for line in lines if not line.strip() or line_digest(line) not in known]
    if not any(line.strip() for line in new):
        return text
    if document == TIMELINE:
        every = [line for line in [*text.splitlines(), *new] if line.strip()]
        days = [_DAY.match(line) for line in every]
        if all(days):
            return "".join(f"{line}\n" for line in sorted(every, key=lambda line: line[2:12]))
    if not text.strip():
        new = _stripped(new)
    return f"{text}{chr(10) if text and not text.endswith(chr(10)) else ''}" + "".join(f"{line}\n" for line in new)


def reverted(text: str, *, before: str, after: str) -> str:
    """Return a text without a change that was made to it some time ago, keeping what was written since.

    `before` and `after` are the texts around the change. A line that the change took away comes back after the line
    that it followed, or at the end without it.
    """
    if text == after:
        return before
    was, became = Counter(before.splitlines()), Counter(after.splitlines())
    added = Counter({line: number for line, number in (became - was).items() if line.strip()})
    kept: list[str] = []
    for line in reversed(text.splitlines()):
        if added[line]:
            added[line] -= 1
        else:
            kept.append(line)
    kept.reverse()
    missing = {line for line in was - became if line.strip()}
    previous = ""
    for line in before.splitlines():
        if line in missing and line not in kept:
            kept.insert(kept.index(previous) + 1 if previous in kept else len(kept), line)
        previous = line if line.strip() else previous
    return "".join(f"{line}\n" for line in kept)


def with_pending_lines(text: str, former: str, pending: Set[bytes]) -> str:
    """Return a text followed by those pending lines of the former text that it does not hold itself."""
    held = {line_digest(line) for line in text.splitlines()} if pending else set()
    for line in former.splitlines() if pending else ():
        if line_digest(line) in pending - held:
            text = appended(text, line)
    return text


def best_sections(
    sections: list[str], score: Callable[[str], float], *, floor: float, most_tokens: int, count: Callable[[str], int]
) -> tuple[list[str], float]:
    """Return the sections with the best scores, in their own order and within so many tokens, and the best score."""
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
