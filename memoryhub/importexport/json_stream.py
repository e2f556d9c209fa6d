"""Incremental reader of other systems' JSON: an array, the list inside one object, or JSON Lines. Pure.

An export may be one line of gigabytes, so elements are split at their brackets before they are parsed; an unreadable
one is reported with its line, and the others are read.
"""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, BinaryIO, Final

from memoryhub.importexport.jsonl import load_json
from memoryhub.validators import UnusableJSON

CHUNK_BYTES: Final = 2**18
MAX_ELEMENT_BYTES: Final = 16 * 2**20
"""Bytes of one element, which is parsed as a whole: its objects take about five times as much."""

WRAPPERS: Final = ("results", "memories", "conversations")
"""Keys of the list in exports that are one object."""

# Yields pieces or error messages, each with its line; returns how much of the chunk is consumed.
Scan = Generator[tuple[int, bytes | str], None, int]

# A string that is whole within the chunk is skipped by one match: exports are mostly strings.
_MARK = re.compile(rb'("[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+")|[\\"\[\]{},\n]')
_TEXT_MARK = re.compile(rb'[\\"\n]')
_WRAPPED = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:%s)"\s*:\s*(?=\[)' % "|".join(WRAPPERS).encode())
_OPENING, _CLOSING, _BOM = b"[{", b"]}", b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Element:
    """One element, or the problem with it; `line` is where it begins, 0 if unknown.

    `entry` is its position in a list, which may be one line; 0 for JSON Lines.
    """

    line: int
    value: Any = field(default=None, repr=False)
    problem: str = ""
    entry: int = 0


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
    if first is None:
        return
    value = first.value if second is None and isinstance(first.value, dict) else {}
    wrapped = next((value[name] for name in WRAPPERS if isinstance(value.get(name), list)), None)
    if wrapped is None:
        yield first
        yield from chain([second] if second is not None else [], pieces)
        return
    for entry, inner in enumerate(wrapped, 1):
        yield Element(0, inner, entry=entry)


def lines(file: BinaryIO, *, max_bytes: int = MAX_ELEMENT_BYTES) -> Iterator[Element]:
    """Yield the lines of JSON Lines, each parsed alone: a damaged one affects no other."""
    number, is_truncated = 0, False
    while raw := file.readline(max_bytes + 1):
        was_truncated, is_truncated = is_truncated, not raw.endswith(b"\n") and len(raw) > max_bytes
        if was_truncated:
            continue
        number += 1
        if is_truncated:
            yield Element(number, problem=f"longer than {max_bytes} bytes.")
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
            # Few of its texts are stored, and each of these is checked then.
            yield Element(line, load_json(piece, is_stored=False), entry=entry)
        except UnusableJSON as error:
            yield Element(line, problem=str(error), entry=entry)


class _Splitter:
    """Split a document at the brackets and commas of its outermost level."""

    def __init__(self, max_bytes: int, *, is_wrapped: bool) -> None:
        self.max_bytes = max_bytes
        self.depth = 0
        self.is_wrapped, self.has_ended = is_wrapped, False
        self.line = self.start_line = 1
        self.is_array: bool | None = None
        self.in_text = self.too_long = False
        self.escaped_at = -1
        self.buffer = bytearray()

    def split(self, chunks: Iterator[bytes]) -> Iterator[tuple[int, bytes | str]]:
        """Yield each piece with its line, or an error message where it is too long or incomplete."""
        start = 0
        for chunk in chunks:
            yield from self._scan(chunk, start)
            start += len(chunk)
            if self.has_ended:
                return
        if self.depth or self.in_text:
            yield self.start_line, "the file ends in the middle of this."
        else:
            yield from self._report_stray()

    def _scan(self, chunk: bytes, start: int) -> Iterator[tuple[int, bytes | str]]:
        consumed = position = 0
        while mark := (_TEXT_MARK if self.in_text else _MARK).search(chunk, position):
            begin, position = mark.span()
            if mark.lastindex:
                if self.depth:
                    continue
                position = begin + 1
            char = chunk[begin : begin + 1]
            if char == b"\n":
                consumed = yield from self._end_line(chunk, consumed, begin)
            if start + begin == self.escaped_at:
                continue
            if char == b"\\":
                self.escaped_at = start + begin + 1 if self.in_text else -1
            elif char == b'"' and self.depth:
                self.in_text = not self.in_text
            elif not self.in_text:
                consumed = yield from self._handle_bracket(char, chunk, consumed, begin)
                if self.has_ended:
                    return
        self._append(chunk[consumed:])

    def _end_line(self, chunk: bytes, consumed: int, position: int) -> Scan:
        if self.depth == 0:
            self.buffer += chunk[consumed:position]
            yield from self._report_stray()
            consumed = position + 1
        self.line += 1
        return consumed

    def _handle_bracket(self, char: bytes, chunk: bytes, consumed: int, position: int) -> Scan:
        if char in _OPENING:
            return (yield from self._open(char, chunk, consumed, position))
        if char in _CLOSING:
            self.depth = max(0, self.depth - 1)
            if self.depth == 0:
                self._append(chunk[consumed : position if self.is_array else position + 1])
                yield from self._emit_piece()
                self.has_ended = self.is_wrapped
                return len(chunk) if self.has_ended else position + 1
        elif char == b"," and self.depth == 1 and self.is_array:
            self._append(chunk[consumed:position])
            yield from self._emit_piece()
            return position + 1
        return consumed

    def _open(self, char: bytes, chunk: bytes, consumed: int, position: int) -> Scan:
        self.depth += 1
        if self.is_array is None:
            self.is_array = char == b"["
        if self.depth == 1:
            self.buffer += chunk[consumed:position]
            yield from self._report_stray()
            self.start_line = self.line
            return position + 1 if self.is_array else position
        if self.depth == 2 and self.is_array:
            self.start_line = self.line
        return consumed

    def _report_stray(self) -> Iterator[tuple[int, bytes | str]]:
        stray = bytes(self.buffer).removeprefix(_BOM).strip()
        self.buffer.clear()
        if stray:
            yield self.line, "no JSON object."

    def _append(self, part: bytes) -> None:
        if self.depth == 0 and not part.strip():
            return
        self.too_long = self.too_long or len(self.buffer) + len(part) > self.max_bytes
        if self.too_long:
            self.buffer.clear()
        else:
            self.buffer += part

    def _emit_piece(self) -> Iterator[tuple[int, bytes | str]]:
        piece, line = bytes(self.buffer), self.start_line
        self.buffer.clear()
        self.start_line = self.line
        if self.too_long:
            self.too_long = False
            yield line, f"longer than {self.max_bytes} bytes."
        elif piece.strip():
            yield line, piece.strip()
