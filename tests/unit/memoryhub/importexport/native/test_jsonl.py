"""Lines of an export, and which files are whole; the rest is in the round trip."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.importexport.native import jsonl
from memoryhub.importexport.native.jsonl import BrokenFile, Digest, Part, header, load_json, read_lines
from memoryhub.validators import UnusableJSON

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def file_of(rows: list[dict[str, Any]]) -> bytes:
    digest = Digest()
    written = [digest.line(Part.HEADER, header({"t": len(rows)}))]
    written += [digest.line(Part.ROW, row, table="t") for row in rows]
    return b"".join([*written, digest.end()])


def read(content: bytes) -> list[Any]:
    return [(line.part, line.table, line.values) for line in read_lines(io.BytesIO(content))]


@given(st.lists(st.dictionaries(TEXT, VALUES, max_size=4), max_size=5))
def test_what_is_written_is_read(rows: list[dict[str, Any]]) -> None:
    read_back = read(file_of(rows))
    assert read_back[0] == (Part.HEADER, "", {"version": 1, "counts": {"t": len(rows)}})
    assert read_back[1:] == [(Part.ROW, "t", row) for row in rows]


@given(st.data())
def test_no_beginning_of_a_file_passes_for_the_whole(data: st.DataObject) -> None:
    content = file_of([{"a": "お茶"}, {"b": [1, 2]}, {"c": None}])
    end = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(BrokenFile):
        read(content[:end])


@given(st.data())
def test_no_changed_byte_passes(data: st.DataObject) -> None:
    content = bytearray(file_of([{"a": "tea"}, {"b": [1, 2]}]))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BrokenFile):
        read(bytes(content))


def test_a_line_without_end_is_refused_before_it_fills_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 1_000)
    whole = file_of([{"a": "x" * 2_000}])
    with pytest.raises(BrokenFile, match="Line 2: longer than 1000 bytes"):
        read(whole)


@pytest.mark.parametrize(("levels", "is_read"), [(100, True), (101, False), (900, False)])
def test_only_so_many_levels_are_read(levels: int, is_read: bool) -> None:
    raw = b"[" * levels + b"]" * levels
    if is_read:
        assert load_json(raw)
        return
    with pytest.raises(UnusableJSON, match="nested too deep"):
        load_json(raw)
    assert load_json(raw, is_stored=False), "what is not kept may be"


def test_texts_are_readable_in_the_file() -> None:
    assert "抹茶アイスが好き" in file_of([{"content": "抹茶アイスが好き"}]).decode()


def test_a_line_breaker_of_unicode_does_not_break_a_line() -> None:
    content = file_of([{"a": "one\u2028two\u0085three\nfour"}])
    assert len(content.split(b"\n")) == 4
    assert read(content)[1][2] == {"a": "one\u2028two\u0085three\nfour"}


def test_every_line_is_json_by_itself() -> None:
    assert [list(json.loads(line)) for line in file_of([{"a": 1}]).splitlines()] == [
        ["memoryhub"],
        ["table", "row"],
        ["end"],
    ]
