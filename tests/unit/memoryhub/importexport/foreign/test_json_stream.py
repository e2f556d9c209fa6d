"""Others' exports in pieces: whatever the shape, whatever the size of what is read at a time."""

import io
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryhub.importexport.foreign import json_stream
from memoryhub.importexport.foreign.json_stream import elements

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from('ab"\\[]{},\n'), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), min_size=2, max_size=5)


def read(text: str | bytes, **options: Any) -> list[Any]:
    content = text if isinstance(text, bytes) else text.encode()
    return [each.problem or each.value for each in elements(io.BytesIO(content), **options)]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(OBJECTS, st.integers(1, 40), st.sampled_from([None, 2]), st.booleans())
def test_arrays_and_lines_come_apart_as_they_were(
    objects: list[Any], at_once: int, indent: int | None, ascii_only: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "CHUNK_BYTES", at_once)
        dumped = [json.dumps(each, indent=indent, ensure_ascii=ascii_only) for each in objects]
        assert read("[" + ",".join(dumped) + "]") == objects
        assert read("\n".join(dumped) + "\n") == objects
        assert read("\ufeff" + json.dumps(objects, indent=indent)) == objects


def test_an_element_behind_a_long_stray_line_is_read() -> None:
    stray = "rest " * 20

    assert read(f'{{"a": 1}}\n{stray}\n{{"c": 3}}', max_bytes=50) == [{"a": 1}, "no JSON object.", {"c": 3}]


@pytest.mark.parametrize("name", ["results", "memories", "conversations"])
def test_the_list_within_one_object_is_meant(name: str) -> None:
    rest = {"user": {"id": 1}, "count": 2}
    for value in ({**rest, name: [{"a": 1}, {"b": 2}]}, {name: [{"a": 1}, {"b": 2}], **rest}):
        *first, last = elements(io.BytesIO(json.dumps(value).encode()))
        assert [each.value for each in first] == [{"a": 1}, {"b": 2}]
        assert (last.value, last.is_rest) == (rest, True)


def test_what_follows_the_list_may_be_broken() -> None:
    for text, why in (('{"memories": [1], "a": ', "no JSON"), ('{"memories": [1]', "ends after the list")):
        (*_, last) = elements(io.BytesIO(text.encode()))
        assert why in last.problem


def test_one_object_is_one_element() -> None:
    assert read('{"memory": "tea"}') == [{"memory": "tea"}]
    assert read('[{"memory": "tea"}]') == [{"memory": "tea"}]


@pytest.mark.parametrize("text", ["", " \n", "[]", " [ ] "])
def test_nothing_is_nothing(text: str) -> None:
    assert read(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[{"a": 1}, {"b": }, {"c": 3}]', [{"a": 1}, "no JSON: Expecting value (column 7).", {"c": 3}]),
        ('{"a": 1}\nnonsense\n{"c": 3}', [{"a": 1}, "no JSON object.", {"c": 3}]),
        ('{"a": 1}\n{"c": 3}\nrest', [{"a": 1}, {"c": 3}, "no JSON object."]),
        ('[{"a": 1}, {"b": 2', [{"a": 1}, "the file ends in the middle of this."]),
        ('[{"a": "b', ["the file ends in the middle of this."]),
        ('[{"a": 1e999}, {"b": NaN}]', ["A number is too large to be kept.", "NaN is not a JSON number."]),
        ('[{"a": 1, "a": 2}, {"b": 1}]', ["the line.a: the key is given more than once.", {"b": 1}]),
        ("hello", ["no JSON object."]),
        ('"text"', ["no JSON object."]),
    ],
)
def test_what_cannot_be_read_is_told_and_the_rest_is_read(text: str, found: list[Any]) -> None:
    assert read(text) == found


def test_hostile_texts_are_told_singly() -> None:
    found = read(b'[{"a": "\\u0000"}, {"b": "\\ud800"}, {"c": "\xff"}, {"d": 1}]')
    assert found == [{"a": "\x00"}, {"b": "\ud800"}, "no UTF-8 (byte 7).", {"d": 1}], "who keeps a text looks at it"


def test_what_is_too_long_is_passed_over_without_being_held() -> None:
    long = json.dumps({"a": ["x" * 1_000] * 100})
    assert read(f'[{long}, {{"b": 2}}, {long}]', max_bytes=5_000) == [
        "longer than 5000 bytes.",
        {"b": 2},
        "longer than 5000 bytes.",
    ]
    assert read(f'{long}\n{{"b": 2}}', max_bytes=5_000) == ["longer than 5000 bytes.", {"b": 2}]


def test_lines_are_counted() -> None:
    text = '[\n  {"a": 1},\n\n  {"b": [\n 1]},\n  {"c": }\n]'
    assert [each.line for each in elements(io.BytesIO(text.encode()))] == [2, 4, 6]


def test_depth_is_told() -> None:
    assert read("[" + "[" * 50_000 + "]" * 50_000 + ', {"a": 1}]') == ["nested too deep.", {"a": 1}]
