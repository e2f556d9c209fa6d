"""Incremental reader of other systems' JSON: an array, the list inside one object, or JSON Lines. Pure.

An export may be one line of gigabytes, so elements are cut at their brackets before they are parsed; an unreadable one
is reported with its line, and the others are read.
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
"""The names under which an export that is one object keeps its list."""

# Pieces, or sentences about them, each with its line; and at last how far the chunk is used up.
Cut = Generator[tuple[int, bytes | str], None, int]

# A text that the chunk holds whole is skipped at once: exports are texts for the most part.
_MARK = re.compile(rb'("[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+")|[\\"\[\]{},\n]')
_TEXT_MARK = re.compile(rb'[\\"\n]')
_WRAPPED = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:%s)"\s*:\s*(?=\[)' % "|".join(WRAPPERS).encode())
_OPENING, _CLOSING, _BOM = b"[{", b"]}", b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Element:
    """One element, or why it cannot be parsed; `line` is where it begins, 0 if unknown.

    `entry` is its position in a list, which may be one line; 0 for JSON Lines.
    """

    line: int
    value: Any = field(default=None, repr=False)
    problem: str = ""
    entry: int = 0


def elements(file: BinaryIO, *, longest: int = MAX_ELEMENT_BYTES) -> Iterator[Element]:
    """Yield the elements of a JSON array, of the list inside one object, or of JSON Lines."""
    start = file.read(len(_BOM) + 256)
    wrapper = _WRAPPED.match(start)
    cutter = _Splitter(longest, is_wrapped=wrapper is not None)
    if wrapper is not None:
        cutter.line += start[: wrapper.end()].count(b"\n")
        start = start[wrapper.end() :]
    pieces = _parse_pieces(cutter, chain([start], iter(lambda: file.read(CHUNK_BYTES), b"")))
    first, second = next(pieces, None), next(pieces, None)
    if first is None:
        return
    value = first.value if second is None and isinstance(first.value, dict) else {}
    wrapped = next((value[name] for name in WRAPPERS if isinstance(value.get(name), list)), None)
    if wrapped is None:
        yield first
        yield from chain([second] if second is not None else [], pieces)
        return
    for number, inner in enumerate(wrapped, 1):
        yield Element(0, inner, entry=number)


def lines(file: BinaryIO, *, longest: int = MAX_ELEMENT_BYTES) -> Iterator[Element]:
    """Yield the lines of JSON Lines, each parsed alone: a torn one spoils no other."""
    number, is_rest = 0, False
    while raw := file.readline(longest + 1):
        was_rest, is_rest = is_rest, not raw.endswith(b"\n") and len(raw) > longest
        if was_rest:
            continue
        number += 1
        if is_rest:
            yield Element(number, problem=f"longer than {longest} bytes.")
        elif bare := raw.removeprefix(_BOM).strip():
            try:
                yield Element(number, load_json(bare, is_stored=False))
            except UnusableJSON as error:
                yield Element(number, problem=str(error))


def _parse_pieces(cutter: "_Splitter", chunks: Iterator[bytes]) -> Iterator[Element]:
    for number, (line, piece) in enumerate(cutter.cut(chunks), 1):
        entry = number if cutter.is_array else 0
        if isinstance(piece, str):
            yield Element(line, problem=piece, entry=entry)
            continue
        try:
            # Few of its texts are kept, and whoever keeps one looks at it.
            yield Element(line, load_json(piece, is_stored=False), entry=entry)
        except UnusableJSON as error:
            yield Element(line, problem=str(error), entry=entry)


class _Splitter:
    """Split a document at the brackets and commas of its outermost level."""

    def __init__(self, longest: int, *, is_wrapped: bool) -> None:
        self.longest = longest
        self.depth = 0
        self.is_wrapped, self.has_ended = is_wrapped, False
        self.line = self.begun_at = 1
        self.is_array: bool | None = None
        self.in_text = self.too_long = False
        self.escaped_at = -1
        self.kept = bytearray()

    def cut(self, chunks: Iterator[bytes]) -> Iterator[tuple[int, bytes | str]]:
        """Yield each piece with its line, or an error message where it is too long or incomplete."""
        start = 0
        for chunk in chunks:
            yield from self._through(chunk, start)
            start += len(chunk)
            if self.has_ended:
                return
        if self.depth or self.in_text:
            yield self.begun_at, "the file ends in the middle of this."
        else:
            yield from self._strayed()

    def _through(self, chunk: bytes, start: int) -> Iterator[tuple[int, bytes | str]]:
        done = place = 0
        while mark := (_TEXT_MARK if self.in_text else _MARK).search(chunk, place):
            begin, place = mark.span()
            if mark.lastindex:
                if self.depth:
                    continue
                place = begin + 1
            sign = chunk[begin : begin + 1]
            if sign == b"\n":
                done = yield from self._next_line(chunk, done, begin)
            if start + begin == self.escaped_at:
                continue
            if sign == b"\\":
                self.escaped_at = start + begin + 1 if self.in_text else -1
            elif sign == b'"' and self.depth:
                self.in_text = not self.in_text
            elif not self.in_text:
                done = yield from self._at(sign, chunk, done, begin)
                if self.has_ended:
                    return
        self._keep(chunk[done:])

    def _next_line(self, chunk: bytes, done: int, place: int) -> Cut:
        if self.depth == 0:
            self.kept += chunk[done:place]
            yield from self._strayed()
            done = place + 1
        self.line += 1
        return done

    def _at(self, sign: bytes, chunk: bytes, done: int, place: int) -> Cut:
        if sign in _OPENING:
            return (yield from self._open(sign, chunk, done, place))
        if sign in _CLOSING:
            self.depth = max(0, self.depth - 1)
            if self.depth == 0:
                self._keep(chunk[done : place if self.is_array else place + 1])
                yield from self._piece()
                self.has_ended = self.is_wrapped
                return len(chunk) if self.has_ended else place + 1
        elif sign == b"," and self.depth == 1 and self.is_array:
            self._keep(chunk[done:place])
            yield from self._piece()
            return place + 1
        return done

    def _open(self, sign: bytes, chunk: bytes, done: int, place: int) -> Cut:
        self.depth += 1
        if self.is_array is None:
            self.is_array = sign == b"["
        if self.depth == 1:
            self.kept += chunk[done:place]
            yield from self._strayed()
            self.begun_at = self.line
            return place + 1 if self.is_array else place
        if self.depth == 2 and self.is_array:
            self.begun_at = self.line
        return done

    def _strayed(self) -> Iterator[tuple[int, bytes | str]]:
        strayed = bytes(self.kept).removeprefix(_BOM).strip()
        self.kept.clear()
        if strayed:
            yield self.line, "no JSON object."

    def _keep(self, part: bytes) -> None:
        if self.depth == 0 and not part.strip():
            return
        self.too_long = self.too_long or len(self.kept) + len(part) > self.longest
        if self.too_long:
            self.kept.clear()
        else:
            self.kept += part

    def _piece(self) -> Iterator[tuple[int, bytes | str]]:
        piece, line = bytes(self.kept), self.begun_at
        self.kept.clear()
        self.begun_at = self.line
        if self.too_long:
            self.too_long = False
            yield line, f"longer than {self.longest} bytes."
        elif piece.strip():
            yield line, piece.strip()
