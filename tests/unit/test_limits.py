"""Every text and list that a client sends has a length: in the API's schema and in the tools of MCP (SPEC H3)."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from django import forms
from django.utils.module_loading import autodiscover_modules

from memoryhub.admin.fields import ObjectField
from memoryhub.mcp.calls import TOOLS
from tests.sources import openapi
from tests.unit.patterns import modules

API = openapi()
OPERATIONS = [
    (f"{method} {path}", operation)
    for path, operations in API["paths"].items()
    for method, operation in operations.items()
]
BOUNDED_FORMATS = {"uuid", "date", "date-time"}
BOUNDS = {"maxLength", "enum", "const"}


def unbounded(schema: Mapping[str, Any], definitions: Mapping[str, Any], place: str, depth: int = 12) -> Iterator[str]:
    """Yield the places of strings and arrays without a length."""
    if not depth or schema.get("readOnly"):
        return
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rsplit("/", 1)[-1]]
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "string" in kinds and not BOUNDS & schema.keys() and schema.get("format") not in BOUNDED_FORMATS:
        yield place
    if "array" in kinds and "maxItems" not in schema:
        yield f"{place}[]"
    parts = {f".{name}": part for name, part in schema.get("properties", {}).items()}
    parts |= {"": {}} if not isinstance(schema.get("items"), dict) else {"[0]": schema["items"]}
    parts |= {f"|{at}": part for kind in ("oneOf", "anyOf", "allOf") for at, part in enumerate(schema.get(kind, ()))}
    if isinstance(values := schema.get("additionalProperties"), dict):
        parts[".*"] = values
    for name, part in parts.items():
        yield from unbounded(part, definitions, place + name, depth - 1)


@pytest.mark.parametrize(("name", "operation"), OPERATIONS, ids=[name for name, _ in OPERATIONS])
def test_what_an_operation_reads_has_a_length(name: str, operation: Mapping[str, Any]) -> None:
    # Headers: the server reads 64 kB of a head.
    schemas = {
        parameter["name"]: parameter["schema"]
        for parameter in operation.get("parameters", ())
        if parameter["in"] != "header"
    }
    schemas |= {kind: body["schema"] for kind, body in operation.get("requestBody", {}).get("content", {}).items()}
    found = [
        place for at, schema in schemas.items() for place in unbounded(schema, API["components"]["schemas"], str(at))
    ]
    assert not found, found


def test_what_a_tool_reads_has_a_length() -> None:
    from mcp.server.mcpserver import MCPServer

    from memoryhub.mcp.server import _add_tool

    autodiscover_modules("mcp")
    server = MCPServer("memoryhub")
    for tool in TOOLS:
        _add_tool(server, tool)
    tools = asyncio.run(server.list_tools())
    schemas = {tool.name: tool.input_schema for tool in tools}
    assert len(schemas) == len(TOOLS) > 0
    assert not [place for name, schema in schemas.items() for place in unbounded(schema, schema.get("$defs", {}), name)]


def test_what_a_form_reads_has_a_length() -> None:
    found = [
        f"{name}.{attribute}.{label}"
        for name, module in modules().items()
        for attribute, form in vars(module).items()
        if isinstance(form, type) and issubclass(form, forms.BaseForm) and form.__module__ == name
        for label, field in getattr(form, "base_fields", {}).items()
        if isinstance(field, forms.CharField) and not isinstance(field, ObjectField)
        if field.max_length is None and not label.startswith("password")  # hashed only
    ]
    assert not found, found
