"""JSON schemas of answers: as the vendors take them, and as we check them ourselves.

Both vendors take a part of JSON Schema only and refuse the rest: objects must be closed, lengths and ranges must not
be told. So they get the shape, and the answer is checked here against the whole schema.
"""

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator

from memoryhub.llm.errors import BadAnswer
from memoryhub.validators import UnusableJSON, parse_json

KEPT = ("type", "enum", "const", "description", "title", "required", "$ref")
"""Keywords that both vendors understand; those that hold schemas are treated one by one."""
MAPS_OF_SCHEMAS = ("properties", "$defs")
LISTS_OF_SCHEMAS = ("anyOf", "allOf")


def shape_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a schema that vendors take; several types in one place become `anyOf`."""
    if isinstance(schema.get("type"), list):
        rest = {name: value for name, value in schema.items() if name not in ("type", "description")}
        described = {name: schema[name] for name in ("description",) if name in schema}
        return {**described, "anyOf": [shape_of({**rest, "type": kind}) for kind in schema["type"]]}
    shape = {name: schema[name] for name in KEPT if name in schema}
    for name in MAPS_OF_SCHEMAS:
        if name in schema:
            shape[name] = {key: shape_of(each) for key, each in schema[name].items()}
    for name in LISTS_OF_SCHEMAS:
        if name in schema:
            shape[name] = [shape_of(each) for each in schema[name]]
    if "items" in schema:
        shape["items"] = shape_of(schema["items"])
    return _for_its_type(shape)


def _for_its_type(shape: dict[str, Any]) -> dict[str, Any]:
    if shape.get("type", "object") != "object":
        return {name: value for name, value in shape.items() if name not in ("properties", "required")}
    return {**shape, "additionalProperties": False} if "type" in shape else shape


def is_strict(shape: Any) -> bool:
    """Tell whether every object requires all of its properties, which OpenAI's strict mode asks for."""
    if isinstance(shape, list):
        return all(map(is_strict, shape))
    if not isinstance(shape, dict):
        return True
    requires_all = set(shape.get("required", ())) == set(shape.get("properties", ()))
    return (shape.get("type") != "object" or requires_all) and all(map(is_strict, shape.values()))


def document_in(text: str, schema: Mapping[str, Any]) -> Any:
    """Return the document that an answer holds. Raises BadAnswer where it is none, or another one than asked for."""
    try:
        document = parse_json(_unfenced(text).encode())
    except UnusableJSON:  # its message quotes the answer's keys
        raise BadAnswer("The provider's answer is no usable JSON.", code="not_json") from None
    if not Draft202012Validator(schema).is_valid(document):
        raise BadAnswer("The provider's answer does not have the form asked for.", code="wrong_schema")
    return document


def _unfenced(text: str) -> str:
    """Return what stands in a Markdown fence, which servers without structured output like to put around JSON."""
    stripped = text.strip()
    if not (stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped):
        return stripped
    return stripped[stripped.index("\n") : -3]
