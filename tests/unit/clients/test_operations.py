"""The Python client against the API's schema: every operation, every field, and the generated types."""

import ast
import inspect
import json
import runpy
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from django.conf import settings

from memoryhub_client import AsyncMemoryhub, Memoryhub
from memoryhub_client.methods import listing, operation
from memoryhub_client.types import ChatIn
from tests.sources import openapi

PACKAGE = Path(settings.BASE_DIR) / "clients" / "python"
API = openapi()
BY_HAND = {"chat", "actor_export"}
"""What streams is written for each client by itself."""

HEADERS = {"If-Match": "if_match", "If-None-Match": "if_none_match", "Idempotency-Key": "idempotency_key"}
OF_THE_CLIENT = {"cursor", "format", "stream"}
"""Pages are iterators, the answers' format is JSON, and `chat` has `stream` beside its fields."""


OPERATIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    described["operationId"]: (method, path, described)
    for path, methods in API["paths"].items()
    for method, described in methods.items()
}


def component(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = API["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return found


def wanted(described: dict[str, Any]) -> set[str]:
    """Return the arguments that the schema asks for."""
    names = {HEADERS.get(each["name"], each["name"]) for each in described["parameters"]}
    content = described.get("requestBody", {}).get("content", {}).get("application/json")
    if content:
        body = component(content["schema"])
        for each in [component(part) for part in body.get("oneOf", [])] or [body]:
            names |= set(each["properties"])
    return {"from_" if name == "from" else name for name in names} - OF_THE_CLIENT


def offered(build: Any) -> set[str]:
    """Return the arguments that a method of the client has."""
    names = set()
    hints = get_type_hints(build, include_extras=True)
    for name, parameter in inspect.signature(build).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            names |= set(get_type_hints(get_args(hints[name])[0]))
        elif name != "self":
            names.add(name)
    return names - OF_THE_CLIENT


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - BY_HAND))
def test_client_has_every_operation_with_its_arguments(name: str) -> None:
    method, path, described = OPERATIONS[name]
    descriptor = inspect.getattr_static(Memoryhub, name)
    assert offered(descriptor.build) == wanted(described)
    segments = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    call = descriptor.build(None, *segments, **({"user_id": "u"} if name == "actor_erase" else {}))
    assert (call.method, call.path) == (method.upper(), path.replace("{", "").replace("}", ""))
    assert isinstance(descriptor, listing) == ('Page"' in json.dumps(described["responses"]))
    body = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    in_query = any(each["name"] == "agent_id" and each["in"] == "query" for each in described["parameters"])
    in_body = (
        body is not None
        and name not in ("agents_create", "webhooks_create")
        and "agent_id" in component(body).get("properties", {})
    )
    assert call.tenant == ("query" if in_query else "body" if in_body else None)


def test_client_has_the_arguments_of_what_streams() -> None:
    for client in (Memoryhub, AsyncMemoryhub):
        assert offered(client.actor_export) == wanted(OPERATIONS["actor_export"][2])
    assert set(get_type_hints(ChatIn)) == wanted(OPERATIONS["chat"][2])


def test_client_has_no_operation_beyond_the_schema() -> None:
    own = {name for name, value in inspect.getmembers_static(Memoryhub) if isinstance(value, operation | listing)}
    assert own | BY_HAND == set(OPERATIONS)


@pytest.mark.parametrize("module", ["types", "operations"])
def test_client_is_generated_from_the_schema(module: str) -> None:
    render = runpy.run_path(str(PACKAGE / "generate.py"))[f"render_{module}"]
    written = (PACKAGE / f"src/memoryhub_client/{module}.py").read_text("utf-8")
    assert written == render(API), "run `make schema`"


def test_client_depends_on_nothing_of_the_server() -> None:
    extras = {
        "memory_tool.py": {"anthropic"},
        "agents_session.py": {"agents"},
        "langgraph_store.py": {"langgraph"},
        "pydantic_ai_store.py": {"pydantic", "pydantic_ai"},
    }
    allowed = {"anyio", "httpx2", "memoryhub_client"} | sys.stdlib_module_names
    for file in (PACKAGE / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.partition(".")[0] for name in names} <= allowed | extras.get(file.name, set()), file.name
