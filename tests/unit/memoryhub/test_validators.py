"""JSON that is refused before a later layer breaks on it (SPEC H3)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.validators import (
    MAX_CONTAINERS,
    MAX_DEPTH,
    MAX_STRINGS,
    MAX_VALUES,
    UnusableJSON,
    check_storable,
    parse_json,
    parse_mended_json,
    text_problem,
)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"{", "not JSON"),
        (b"\xff{}", "not UTF-8"),
        (b'{"a": "\\u0000"}', "body.a: the character NUL"),
        (b'{"a": ["x", "\\ud800"]}', r"body.a\[1\]: half of a surrogate pair"),
        (b'{"\\udfff": 1}', r"body \(a key\): half of a surrogate"),
        (b'{"a": NaN}', "NaN is not"),
        (b"[Infinity]", "Infinity is not"),
        (b"[1e400]", "too large"),
        (b"[" + b"9" * 5000 + b"]", "5000 digits"),
        (b'{"a": 1, "b": 2, "a": 1}', r"body\.a: the key is given more than once"),
        (b'{"a": [0, {"b": {"c": 1, "\\u0063": null}}]}', r"body\.a\[1\]\.b\.c: the key is"),
        (b'[{"a": {"x": 1, "x": 2}, "a": {}}]', r"body\[0\]\.a\.x: the key is"),
        (b'{"a": {}, "a": {"x": 1, "x": 2}}', r"body\.a: the key is"),
        (b'{"": 1, "": 2}', r"body\.: the key is"),
        (b'{"\\ud800": 1, "\\ud800": 2}', r"body\.'\\ud800': the key is"),
        (b'{"a": {"x": 1, "x": 2}, ', "not JSON"),
        (b"[" * 5000 + b"]" * 5000, "5000 levels deep"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "5000 levels deep"),
        (b"[1." + b"0" * 200 + b"]", "too large"),
        pytest.param(b"[" + b"{}," * MAX_CONTAINERS + b"1]", "50001 lists and objects; at most 50000", id="objects"),
        pytest.param(b'["[,",' * 9 + b'"x",' * MAX_STRINGS + b"1" + b"]" * 9, "200009 texts; at most", id="texts"),
        pytest.param(b"[" + b"1," * MAX_VALUES + b"1]", "1000002 values; at most", id="values"),
    ],
)
def test_unusable_body_is_refused_with_the_place(body: bytes, problem: str) -> None:
    with pytest.raises(UnusableJSON, match=problem):
        parse_json(body)


@pytest.mark.parametrize("body", [b"", b"  \n"])
def test_empty_body_is_an_empty_object(body: bytes) -> None:
    assert parse_json(body) == {}


def test_brackets_in_strings_are_no_depth() -> None:
    assert parse_json(b'{"a": "' + b"[" * 500 + b'\\"["}') == {"a": "[" * 500 + '"['}
    assert parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) is not None
    crowded = "[{}]," * MAX_CONTAINERS
    assert parse_json(json.dumps({"a": crowded}).encode()) == {"a": crowded}


@given(st.lists(st.text('"\\\\[{]},:a'), min_size=MAX_DEPTH))
def test_shape_of_a_document_is_counted_without_its_texts(texts: list[str]) -> None:
    document = [{text: [text]} for text in texts]
    assert parse_json(json.dumps(document).encode()) == document
    too_deep = "[" * MAX_DEPTH + json.dumps(document) + "]" * MAX_DEPTH
    with pytest.raises(UnusableJSON, match=f"nested {MAX_DEPTH + 3} levels deep"):
        parse_json(too_deep.encode())


@pytest.mark.parametrize("body", ['{"a": {"a": [{"a": 1}, {"a": 1}]}, "A": 1, "b": {"a": 1}}', '[{}, {"": {}}]'])
def test_keys_that_differ_in_case_or_place_are_no_repetition(body: str) -> None:
    assert parse_json(body.encode()) == json.loads(body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"a": "x\\u0000y", "b": ["\\ud800", 1, null]}', ({"a": "x\ufffdy", "b": ["\ufffd", 1, None]}, 2)),
        (b'{"a": "\\ud83c\\udf75"}', ({"a": "🍵"}, 0)),
        (b'"plain"', ("plain", 0)),
    ],
)
def test_what_texts_cannot_hold_is_replaced_and_counted(body: bytes, expected: tuple[Any, int]) -> None:
    assert parse_mended_json(body) == expected


def test_a_key_is_not_mended() -> None:
    with pytest.raises(UnusableJSON, match="a key"):
        parse_mended_json(b'{"a": {"\\u0000": 1}}')


def test_whole_surrogate_pairs_are_characters() -> None:
    assert parse_json(b'["\\ud83d\\ude00"]') == ["😀"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.floats(-1e30, 1e30) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_what_passes_holds_nothing_that_cannot_be_stored(value: object) -> None:
    try:
        parsed = parse_json(json.dumps(value).encode())
    except UnusableJSON:
        return
    check_storable(parsed)
    json.dumps(parsed, ensure_ascii=False).encode()


def test_text_problem_names_what_is_wrong() -> None:
    assert text_problem("fine 日本語") is None
    assert "NUL" in str(text_problem("a\x00"))
    assert "surrogate" in str(text_problem("\udc00"))
