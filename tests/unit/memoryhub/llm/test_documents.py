"""Answers as small models write them: thoughts, fences, prose, keys in other case."""

from typing import Any

import pytest

from memoryhub.llm.documents import conformed, parse_document, without_thoughts
from memoryhub.llm.errors import BadAnswer
from memoryhub.llm.types import array_schema, object_schema

SCHEMA = object_schema(
    {"facts": array_schema(object_schema({"text": {"type": "string"}, "own_words": {"type": "integer"}}))}
)
GOOD = {"facts": [{"text": "x", "own_words": 1}]}
JSON = '{"facts": [{"text": "x", "own_words": 1}]}'


@pytest.mark.parametrize(
    "text",
    [
        JSON, f"```json\n{JSON}\n```", f"```\n{JSON}", f"Sure! Here it is:\n{JSON}\nAnything else?", f"<think>Hm {{}}</think>\n{JSON}",
        f"Let me see.\n```json\n{JSON}\n```\nDone.", f"thinking {{…}}</think>{JSON}",
        '{"Facts": [{"OWN-words": 1, "Text": "x", "why": "because"}], "note": "none"}',
    ],
)  # fmt: skip
def test_a_document_is_found(text: str) -> None:
    assert parse_document(text, SCHEMA) == GOOD


@pytest.mark.parametrize(
    ("text", "code"),
    [("", "not_json"), ("no", "not_json"), ("} {", "not_json"), ("{}", "wrong_schema"), ("<think>never ends", "not_json"),
     ('{"facts": [{"text": 1, "own_words": 1}]}', "wrong_schema")],
)  # fmt: skip
def test_what_is_no_document(text: str, code: str) -> None:
    with pytest.raises(BadAnswer) as caught:
        parse_document(text, SCHEMA)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("<think>a</think>b", "b"), (" <Thinking>a</Thinking>\nb", "b"), ("a</think>b", "b"), ("<think>a", ""), ("plain", "plain"),
        ("The tag <think> opens thoughts, </think> ends them.", "The tag <think> opens thoughts, </think> ends them."),
        ("<think>a</think><think>b</think>c", "c"),
    ],
)  # fmt: skip
def test_thoughts_are_cut_off(text: str, rest: str) -> None:
    assert without_thoughts(text) == rest


@pytest.mark.parametrize(
    ("document", "schema", "found"),
    [
        ({"A": 1, "b": 2}, {"properties": {"a": {}}}, {"a": 1, "b": 2}), ([{"A": 1}], {"items": object_schema({"a": {}})}, [{"a": 1}]),
        ({}, object_schema({"a": {"default": 7}}), {"a": 7}), ({"A": 1}, {"type": "object"}, {"A": 1}), (["x"], {}, ["x"]), (3, SCHEMA, 3),
        ({"a": None}, object_schema({"a": {"default": 7}}), {"a": 7}), ({"a": None}, object_schema({"a": {}}), {"a": None}),
        ({"a": ["x", "y"]}, object_schema({"a": {"type": "string"}}), {"a": "x y"}),
    ],
)  # fmt: skip
def test_keys_take_the_case_of_the_schema(document: Any, schema: Any, found: Any) -> None:
    assert conformed(document, schema) == found
