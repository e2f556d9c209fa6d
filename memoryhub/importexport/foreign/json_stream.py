"""Incremental reader of other systems' JSON: an array, the list inside one object, or JSON Lines. Pure.

An export may be one line of gigabytes, so elements are split at their brackets before they are parsed; an unreadable
one is reported with its line, and the others are read.
"""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, BinaryIO, Final

from memoryhub.errors import stored_text
from memoryhub.importexport.native.jsonl import load_json
from memoryhub.validators import UnusableJSON

CHUNK_BYTES: Final = 2**18
MAX_ELEMENT_BYTES: Final = 16 * 2**20
"""Bytes of one element, which is parsed as a whole: its objects take about five times as much."""

WRAPPERS: Final = ("results", "memories", "conversations")
"""Keys of the list in exports that are one object."""

Pieces = Iterator[tuple[int, bytes | str]]
"""Pieces or error messages, each with its line."""

# A string is skipped by one match, up to where the chunk ends: exports are mostly strings.
_MARK = re.compile(rb'"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+("?)|[\[\]{},\n]')
_OUTER_MARK = re.compile(rb"[\[\]{},\n]")
_TEXT_MARK = re.compile(rb'\\[^\n]|["\n]')
_WRAPPED = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:%s)"\s*:\s*(?=\[)' % "|".join(WRAPPERS).encode())
_OPENING, _CLOSING, _BOM = b"[{", b"]}", b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Element:
    """One element, or the problem with it; `line` is where it begins, 0 if unknown.

    `entry` is its position in a list, which may be one line; 0 for JSON Lines. With `is_rest` it is what a file holds
    besides the list inside its object.
    """

    line: int
    value: Any = field(default=None, repr=False)
    problem: str = ""
    entry: int = 0
    is_rest: bool = False


def elements(file: BinaryIO, *, max_bytes: int = MAX_ELEMENT_BYTES) -> Iterator[Element]:
    """Yield the elements of a JSON array, of the list inside one object, or of JSON Lines."""
    start = file.read(len(_BOM) + 256)
    wrapper = _WRAPPED.match(start)
    splitter = _Splitter(max_bytes, is_wrapped=wrapper is not None)
    if wrapper is not None:
        splitter.line += start[: wrapper.end()].count(b"\n")
        start = start[wrapper.end() :]
    pieces = _parse_pieces(splitter, chain([start], iter(lambda: file.read(CHUNK_BYTES), b"")))
    first, second = next(pieces, None), next(pieces, None)
    value = first.value if first is not None and second is None and isinstance(first.value, dict) else {}
    name = next((name for name in WRAPPERS if isinstance(value.get(name), list)), "")
    if name and wrapper is None:
        for entry, inner in enumerate(value.pop(name), 1):
            yield Element(0, inner, entry=entry)
        yield Element(0, value, is_rest=True)
        return
    yield from (each for each in (first, second) if each is not None)
    yield from pieces
    if wrapper is not None and splitter.is_done:
        yield _rest(bytes(splitter.buffer), file, splitter.line, max_bytes)


def _rest(begin: bytes, file: BinaryIO, line: int, max_bytes: int) -> Element:
    """Return what follows the list inside one object."""
    content = (begin + file.read(max(0, max_bytes + 1 - len(begin)))).lstrip()
    if len(content) > max_bytes:
        return Element(line, problem=stored_text("what follows the list is longer than {most} bytes.", most=max_bytes))
    if not content:
        return Element(line, problem=stored_text("the file ends after the list."))
    try:
        return Element(line, load_json(b"{" + content.removeprefix(b","), is_stored=False), is_rest=True)
    except UnusableJSON as error:
        return Element(line, problem=str(error))


def lines(file: BinaryIO, *, max_bytes: int = MAX_ELEMENT_BYTES) -> Iterator[Element]:
    """Yield the lines of JSON Lines, each parsed alone: a damaged one affects no other."""
    number, is_truncated = 0, False
    while raw := file.readline(max_bytes + 1):
        was_truncated, is_truncated = is_truncated, not raw.endswith(b"\n") and len(raw) > max_bytes
        if was_truncated:
            continue
        number += 1
        if is_truncated:
            yield Element(number, problem=stored_text("longer than {most} bytes.", most=max_bytes))
        elif content := raw.removeprefix(_BOM).strip():
            try:
                yield Element(number, load_json(content, is_stored=False))
            except UnusableJSON as error:
                yield Element(number, problem=str(error))


def _parse_pieces(splitter: "_Splitter", chunks: Iterator[bytes]) -> Iterator[Element]:
    for number, (line, piece) in enumerate(splitter.split(chunks), 1):
        entry = number if splitter.is_array else 0
        if isinstance(piece, str):
            yield Element(line, problem=piece, entry=entry)
            continue
        try:
            # Few of its texts are stored; those are validated then.
            yield Element(line, load_json(piece, is_stored=False), entry=entry)
        except UnusableJSON as error:
            yield Element(line, problem=str(error), entry=entry)


class _Splitter:
    """Split a document at the brackets and commas of its outermost level."""

    def __init__(self, max_bytes: int, *, is_wrapped: bool) -> None:
        self.max_bytes, self.is_wrapped = max_bytes, is_wrapped
        self.depth = 0
        self.line = self.start_line = 1
        self.is_array: bool | None = None
        self.in_text = self.too_long = False
        self.is_done = False
        """Whether the wrapped list has ended; the buffer holds what follows it."""
        self.buffer = bytearray()
        """What follows the latest piece, as far as it was read."""

    def split(self, chunks: Iterator[bytes]) -> Pieces:
        """Yield each piece with its line, or an error message where it is too long or incomplete."""
        position = 0
        for chunk in chunks:
            self.buffer += chunk
            while mark := self._pattern().search(self.buffer, position):
                begin, position = mark.span()
                char = self.buffer[begin : begin + 1]
                if char == b'"':
                    if self.in_text or not mark[1]:  # the end of a string, or not a whole one
                        self.in_text = not self.in_text
                elif char == b"\n":
                    if self.depth == 0:
                        yield from self._report_stray(begin)
                        position = self._drop(position)
                    self.line += 1
                elif not self.in_text:
                    position = yield from self._handle_bracket(char, begin)
                    if position < 0:
                        return
            # An escape at the end needs its next byte.
            position = max(position, len(self.buffer) - self.buffer.endswith(b"\\"))
            if len(self.buffer) > self.max_bytes:
                self.too_long = self.too_long or self.depth > 0
                position = self._drop(position)
        if self.depth or self.in_text:
            yield self.start_line, stored_text("the file ends in the middle of this.")
        else:
            yield from self._report_stray(len(self.buffer))

    def _pattern(self) -> re.Pattern[bytes]:
        return _TEXT_MARK if self.in_text else _MARK if self.depth else _OUTER_MARK

    def _handle_bracket(self, char: bytearray, begin: int) -> Generator[tuple[int, bytes | str], None, int]:
        """Handle a bracket or comma; return where to go on in the buffer, -1 where nothing follows."""
        if char in _OPENING:
            self.depth += 1
            if self.is_array is None:
                self.is_array = char == b"["
            if self.depth <= 1 + self.is_array:
                self.start_line = self.line
            if self.depth == 1:
                yield from self._report_stray(begin)
                return self._drop(begin + self.is_array) + (not self.is_array)
        elif char in _CLOSING:
            self.depth = max(0, self.depth - 1)
            if self.depth == 0:
                yield from self._emit_piece(begin if self.is_array else begin + 1)
                self._drop(begin + 1)
                self.is_done = self.is_wrapped
                return -self.is_done
        elif self.depth == 1 and self.is_array:
            yield from self._emit_piece(begin)
            return self._drop(begin + 1)
        return begin + 1

    def _drop(self, end: int) -> int:
        del self.buffer[:end]
        return 0

    def _report_stray(self, end: int) -> Pieces:
        if self.buffer[:end].removeprefix(_BOM).strip():
            yield self.line, stored_text("no JSON object.")

    def _emit_piece(self, end: int) -> Pieces:
        piece, line = bytes(self.buffer[:end]).strip(), self.start_line
        too_long, self.too_long, self.start_line = self.too_long or end > self.max_bytes, False, self.line
        if too_long:
            yield line, stored_text("longer than {most} bytes.", most=self.max_bytes)
        elif piece:
            yield line, piece
