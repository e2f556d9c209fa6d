"""The pure parts of the language model providers: events, drafts, schemas."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.llm.answers import (
    Draft,
    Event,
    EventDecoder,
    Stop,
    completion,
    is_strict,
    parse_document,
    parse_object,
    token_count,
    value_at,
    vendor_schema,
)
from memoryhub.llm.config import default_model
from memoryhub.llm.errors import BadAnswer, ProviderError, ProviderRejected
from memoryhub.llm.types import ChatMessage, CompletionRequest, Operation

REQUEST = CompletionRequest(Operation.CHAT, (ChatMessage("user", "Hello"),), 100, 10.0)
STREAM = (
    ": a comment\r\n\r\nevent: start\ndata: {}\n\nretry: 5\nid: 1\ndata: 日本語\r\ndata:two lines\r\n\r\ndata\n\n"
    "event: without data\n\ndata: last\n\nevent: never finished\ndata: x"
).encode()
EVENTS = [Event("start", "{}"), Event("", "日本語\ntwo lines"), Event("", ""), Event("", "last")]


@settings(deadline=None)  # a busy machine is no failure
@given(st.lists(st.integers(0, len(STREAM))))
def test_events_do_not_depend_on_how_the_bytes_are_cut(cuts: list[int]) -> None:
    decoder = EventDecoder()
    borders = [0, *sorted(cuts), len(STREAM)]

    events = [event for start, end in pairwise(borders) for event in decoder.feed(STREAM[start:end])]

    assert events == EVENTS


@settings(deadline=None)  # a busy machine is no failure
@given(st.binary(max_size=200))
def test_any_bytes_make_some_events_or_none(content: bytes) -> None:
    assert all(isinstance(event.data, str) for event in EventDecoder().feed(content))


@pytest.mark.parametrize(
    ("draft", "kind", "code"),
    [
        (Draft(["Half"], stop=None), BadAnswer, "unfinished"),
        (Draft(["Half"], stop=Stop.OTHER), BadAnswer, "unfinished"),
        (Draft(["Half"], stop=Stop.TRUNCATED), BadAnswer, "truncated"),
        (Draft([], stop=Stop.REFUSED), ProviderRejected, "refused"),
        (Draft(["Sorry"], stop=Stop.FINISHED, refused=True), ProviderRejected, "refused"),
        (Draft([" ", "\n"], stop=Stop.FINISHED), BadAnswer, "empty"),
    ],
)
def test_a_draft_is_no_answer_until_it_is_whole(draft: Draft, kind: type[ProviderError], code: str) -> None:
    with pytest.raises(kind) as caught:
        completion(draft, REQUEST, model="m")
    assert caught.value.code == code


@pytest.mark.parametrize("told", [None, 5, "", "x" * 201, "two\nlines", ["m"]])
def test_a_model_that_is_no_name_is_the_one_that_was_asked(told: Any) -> None:
    draft = Draft(["Hello"], model=told, stop=Stop.FINISHED, input_tokens=1, output_tokens=1)

    assert completion(draft, REQUEST, model="asked").model == "asked"


@pytest.mark.parametrize("piece", ["NUL \x00", "half \ud800"])
def test_what_cannot_be_stored_is_replaced_in_a_piece(piece: str) -> None:
    draft = Draft()
    assert draft.add(piece) == piece[:-1] + "\ufffd"
    draft.block(0, "text", text=piece)
    draft.block(0, "text", id=piece)
    assert draft.blocks[0] == {"type": "text", "text": piece[:-1] + "\ufffd", "id": piece[:-1] + "\ufffd"}


@pytest.mark.parametrize("piece", [None, 5, "", ["text"], {"text": "x"}])
def test_what_is_no_text_adds_nothing(piece: Any) -> None:
    draft = Draft()

    assert (draft.add(piece), draft.pieces) == ("", [])


@pytest.mark.parametrize("content", [b"", b"[]", b"<html>", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"a":'])
def test_what_is_no_object_is_a_bad_answer(content: bytes) -> None:
    with pytest.raises(BadAnswer):
        parse_object(content)


def test_paths_lead_into_any_document_without_an_error() -> None:
    document = {"choices": [{"message": {"content": "x"}}]}

    assert value_at(document, "choices", 0, "message", "content") == "x"
    for path in [("choices", 1), ("choices", "a"), (0,), ("choices", 0, "message", "content", 0), ("none", "x")]:
        assert value_at(document, *path) is None


@pytest.mark.parametrize(("told", "tokens"), [(0, 0), (7, 7), (-1, None), (True, None), ("7", None), (2**40, None)])
def test_an_amount_is_a_plain_number(told: Any, tokens: int | None) -> None:
    assert token_count(told) == tokens


SCHEMA = {
    "type": "object",
    "title": "T",
    "properties": {
        "name": {"type": "string", "minLength": 1, "pattern": "^a", "description": "d"},
        "kind": {"enum": ["a", "b"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 3},
        "maybe": {"type": ["object", "null"], "properties": {"x": {"type": "integer"}}, "description": "d"},
        "either": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/deep"}]},
    },
    "required": ["name"],
    "$defs": {"deep": {"type": "object", "properties": {"y": {"type": "number", "minimum": 0}}}},
}


def test_the_shape_of_a_schema_holds_what_vendors_take() -> None:
    assert vendor_schema(SCHEMA) == {
        "type": "object",
        "title": "T",
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "description": "d"},
            "kind": {"enum": ["a", "b"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "maybe": {
                "description": "d",
                "anyOf": [
                    {"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": False},
                    {"type": "null"},
                ],
            },
            "either": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/deep"}]},
        },
        "required": ["name"],
        "$defs": {"deep": {"type": "object", "properties": {"y": {"type": "number"}}, "additionalProperties": False}},
    }


def test_strict_is_what_requires_everything_at_every_depth() -> None:
    inner = {"type": "object", "properties": {"x": {"type": "string"}}}
    outer = {"type": "object", "properties": {"a": {"type": "array", "items": inner}}, "required": ["a"]}

    assert not is_strict(vendor_schema(outer))
    assert is_strict(vendor_schema({**outer, "properties": {"a": {"type": "string"}}}))
    assert not is_strict(vendor_schema({"anyOf": [inner, {"type": "null"}]}))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("no JSON", "not_json"),
        ('{"name": "a"', "not_json"),
        ('{"name": "a\\u0000"}', "not_json"),
        ('{"name": "a", "n": NaN}', "not_json"),
        ("[" * 5000 + "]" * 5000, "not_json"),
        ('{"name": ""}', "wrong_schema"),
        ('{"name": "a", "tags": ["a", "a", "a", "a"]}', "wrong_schema"),
        ("[]", "wrong_schema"),
    ],
)
def test_an_answer_of_another_form_is_bad_and_is_not_quoted(text: str, code: str) -> None:
    with pytest.raises(BadAnswer) as caught:
        parse_document(text, SCHEMA)
    assert caught.value.code == code
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "text", ['{"name": "a"}', ' \n{"name": "a"}\n', '```json\n{"name": "a"}\n```', '```\n{"name": "a"}```']
)
def test_a_document_is_found_bare_or_in_a_fence(text: str) -> None:
    assert parse_document(text, SCHEMA) == {"name": "a"}


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_every_operation_has_a_default_model(provider: str) -> None:
    assert all(default_model(provider, operation) for operation in Operation)
