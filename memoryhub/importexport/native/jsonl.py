"""Export format: one JSON object per line with header and trailer, and the import report. Pure.

Lines are `{"memoryhub": …}` (version, counts), `{"agent": …}`, `{"actor": …}` (owner of the rows that follow),
`{"table": …, "row": …}`, and `{"end": …}` with the line count and SHA-256, which detects truncated or altered files.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, BinaryIO, Final

from memoryhub.validators import UnusableJSON, check_storable, decode_json

VERSION: Final = 1
MAX_LINE_BYTES: Final = 64 * 2**20
"""Maximum size of a line, or of an element of a foreign export: larger than any row."""

MAX_DEPTH: Final = 100
"""Nesting of a line: three times what the API accepts, and safe for recursion."""


class Part(StrEnum):
    HEADER = "memoryhub"
    AGENT = "agent"
    ACTOR = "actor"
    ROW = "row"
    END = "end"


class BrokenFile(ValueError):
    """A file that cannot be imported; the message has line numbers and never content."""


@dataclass(frozen=True)
class Line:
    number: int
    part: Part
    values: Mapping[str, Any] = field(repr=False)
    table: str = ""
    size: int = 0


class Digest:
    """Encoder of lines that counts them and computes their SHA-256."""

    def __init__(self) -> None:
        self._lines = 0
        self._sum = hashlib.sha256()

    def line(self, part: Part, values: Any, *, table: str = "") -> bytes:
        return self.note(_dump({"table": table, part: values} if table else {part: values}))

    def note(self, line: bytes) -> bytes:
        self._lines += 1
        self._sum.update(line)
        return line

    def values(self) -> dict[str, Any]:
        return {"lines": self._lines, "sha256": self._sum.hexdigest()}

    def end(self) -> bytes:
        return _dump({Part.END: self.values()})


def header(counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the header; it has no time, so that equal data make equal files."""
    return {"version": VERSION, "counts": dict(counts)}


def read_lines(file: BinaryIO) -> Iterator[Line]:
    """Yield the lines between header and trailer, the header first.

    Raises BrokenFile where the file is incomplete, altered, or of an unknown version.
    """
    digest, ended, number = Digest(), False, 0
    while raw := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(raw) > MAX_LINE_BYTES:
            raise BrokenFile(f"Line {number}: longer than {MAX_LINE_BYTES} bytes.")
        if not raw.endswith(b"\n"):
            raise BrokenFile(f"Line {number}: ends in the middle: the file was cut.")
        if ended:
            raise BrokenFile(f"Line {number}: the export ended before this line.")
        line = _parse_line(number, raw)
        if (number == 1) != (line.part is Part.HEADER):
            raise BrokenFile(f"Line {number}: an export begins with its header, which is its first line alone.")
        version = line.values.get("version")
        if line.part is Part.HEADER and (version != VERSION or isinstance(version, bool)):
            raise BrokenFile(f"Line {number}: version {str(version)[:20]!a} is not known here, only {VERSION}.")
        ended = line.part is Part.END
        if ended and line.values != digest.values():
            raise BrokenFile(f"Line {number}: the lines before are not those that were exported.")
        if not ended:
            digest.note(raw)
            yield line
    if not ended:
        raise BrokenFile(f"Line {number}: the file ends here without its last line: it was cut.")


def load_json(raw: bytes, *, is_stored: bool = True) -> Any:
    """Parse JSON. Raises UnusableJSON for invalid input or, with `is_stored`, for values the database cannot hold."""
    try:
        value = decode_json(raw.decode(), "the line")
        # In valid JSON, NUL and lone surrogates occur only as escapes.
        if is_stored and b"\\u" in raw:
            check_storable(value, "the line")
        if is_stored and raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
            _check_depth(value)
    except UnicodeDecodeError as error:
        raise UnusableJSON(f"no UTF-8 (byte {error.start}).") from None
    except json.JSONDecodeError as error:
        raise UnusableJSON(f"no JSON: {error.msg} (column {error.colno}).") from None
    except RecursionError:
        raise UnusableJSON("nested too deep.") from None
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise UnusableJSON("nested too deep.")


def _parse_line(number: int, raw: bytes) -> Line:
    try:
        value = load_json(raw)
    except UnusableJSON as error:
        raise BrokenFile(f"Line {number}: {error}") from None
    if isinstance(value, dict) and value.keys() == {"table", "row"} and isinstance(value["table"], str):
        part, values, table = Part.ROW, value["row"], value["table"]
    elif isinstance(value, dict) and len(value) == 1 and next(iter(value)) in (*Part,) and "row" not in value:
        ((name, values),) = value.items()
        part, table = Part(name), ""
    else:
        raise BrokenFile(f"Line {number}: neither header, agent, actor, row nor end of an export.")
    if not isinstance(values, dict):
        raise BrokenFile(f"Line {number}: holds no object.")
    return Line(number, part, values, table, len(raw))


def _dump(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n").encode()


MAX_NOTES: Final = 1_000
"""Maximum number of notes; further ones are only counted."""

MAX_EXAMPLES: Final = 3
"""Examples of what is left out for one reason."""


@dataclass(frozen=True)
class Note:
    """One line or entry that was not imported, or needs attention; `what` is its table or record type."""

    line: int
    what: str
    why: str
    entry: int = 0
    file: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.file, self.position.capitalize(), self.what, self.why)))

    @property
    def position(self) -> str:
        line = f"line {self.line}" if self.line else ""
        entry = f"entry {self.entry}" if self.entry else ""
        return ", ".join(filter(None, (entry, line)))


@dataclass
class Report:
    """Counts of created, existing and refused rows by table, and a note per line that needs attention.

    `dropped` counts by reason what is left out by design; `examples` are the places of the first ones. `tokens` is the
    size of new messages, about.
    """

    made: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    notes: list[Note] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=dict)
    tokens: int = 0
    entry: int = 0
    """Position of the current entry in a list; 0 in JSON Lines."""
    file: str = ""
    names_files: bool = True

    def add_known(self, line: int, name: str, reason: str = "") -> None:
        self.known[name] += 1
        if reason:
            self.note(line, name, reason)

    def refuse(self, line: int, name: str, reason: str) -> None:
        self.refused[name] += 1
        self.note(line, name, reason)

    def note(self, line: int, name: str, reason: str) -> None:
        self.reasons[reason] += 1
        if len(self.notes) < MAX_NOTES:
            self.notes.append(Note(line, name, reason, self.entry, self._printable_file()))

    def drop(self, line: int, reason: str, count: int, where: str) -> None:
        """Count elements that are left out; `where` is the other system's id of their conversation."""
        self.dropped[reason] += count
        examples = self.examples.setdefault(reason, [])
        if len(examples) < MAX_EXAMPLES:
            place = Note(line, "", "", self.entry).position
            examples.append(", ".join(filter(None, (self._printable_file(), place, printable(where[:80])))))

    def _printable_file(self) -> str:
        return printable(self.file[-80:]) if self.names_files else ""


def printable(text: str) -> str:
    """Return a text for messages, with escapes for control characters and those that change the direction of text."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
