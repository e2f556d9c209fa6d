"""Write the client's `types.py` and `operations.py` from the API's schema: `python clients/python/generate.py`.

Types: a TypedDict per component, and one per list for its filters. Operations: a method per operation.
"""

import keyword
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

PACKAGE = Path(__file__).parent / "src" / "memoryhub_client"
SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "openapi.yaml"
TYPES_HEAD = '''"""Requests and answers of the API. Written by `make schema` from the API's schema; do not edit."""

# ruff: noqa: E501
# fmt: off
from __future__ import annotations

from typing import Any, Literal, NotRequired, Required, TypedDict


class Write(TypedDict, total=False):
    """Options of every POST; a key is generated where none is given."""

    idempotency_key: str


class Whose(TypedDict, total=False):
    """The agent and user of a call; the client's own where it names none."""

    agent_id: str
    user_id: str


class Paging(TypedDict, total=False):
    """Size of the pages in which a list is fetched."""

    limit: int


class WhosePaging(Whose, Paging, total=False):
    pass
'''
OPERATIONS_HEAD = '''"""Operations of the API. Written by `make schema` from the API's schema; do not edit.

A method builds a `Call`, and its client sends it. Methods are named after the API's operation ids, fields after the
API's fields. On `Memoryhub` they return the answer, on `AsyncMemoryhub` an awaitable of it; lists are iterators over
all their pages.
"""

# ruff: noqa: E501
# fmt: off
from __future__ import annotations

from typing import Unpack

from memoryhub_client import types as t
from memoryhub_client.methods import listing, operation
from memoryhub_client.transport import Call, path


class Operations:
    """Methods of both clients."""
'''
BY_HAND = {"actor_erase", "actor_export", "chat"}
"""Operations whose methods are in `client.py`."""

SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
TENANT = {"agent_id", "user_id"}
OF_PAGES = {"cursor", "limit", "format"}  # `format` is of the generated documentation, not of the API
Schema = Mapping[str, Any]


def class_name(component: str) -> str:
    if component.startswith("Patched"):
        return component.removeprefix("Patched").removesuffix("Request")
    return component.removesuffix("Request").removesuffix("Out").removesuffix("Enum")


def python_type(schema: Schema) -> str:
    """Return the annotation of a schema."""
    if "$ref" in schema:
        text = class_name(schema["$ref"].rsplit("/", 1)[1])
    elif "allOf" in schema and len(schema["allOf"]) == 1:
        text = python_type(schema["allOf"][0])
    elif "oneOf" in schema:
        parts = [python_type(each) for each in schema["oneOf"]]
        text = " | ".join(dict.fromkeys("None" if part == "Null" else part for part in parts))
    elif "enum" in schema:
        values = [value for value in schema["enum"] if value is not None]
        text = f"Literal[{', '.join(map(repr, values)).replace(chr(39), chr(34))}]"
    elif schema.get("type") == "array":
        text = f"list[{python_type(schema['items'])}]"
    elif schema.get("type") == "object":
        text = f"dict[str, {python_type(schema.get('additionalProperties') or {})}]"
    else:
        text = SCALARS.get(schema.get("type", ""), "Any")
    return f"{text} | None" if schema.get("nullable") and "None" not in text and text != "Any" else text


def fields(properties: Schema, required: set[str], *, is_request: bool) -> Iterator[str]:
    for name, schema in properties.items():
        text = python_type(schema)
        if is_request and name in required - TENANT:
            text = f"Required[{text}]"
        elif not is_request and name not in required:
            text = f"NotRequired[{text}]"
        yield f"    {f'{name}_' if is_request and keyword.iskeyword(name) else name}: {text}"


class Class(NamedTuple):
    """A TypedDict: the lines of its fields, and what it inherits."""

    name: str
    bases: list[str]
    lines: list[str]
    is_request: bool
    description: str = ""

    @property
    def has_keywords(self) -> bool:
        """Return whether a field is called like a keyword of Python, which no class can write."""
        return any(keyword.iskeyword(each.partition(":")[0].strip()) for each in self.lines)

    def parent(self, others: Iterable["Class"]) -> "Class | None":
        """Return the class that has the most of its fields, and no others."""
        alike = (each for each in others if each.is_request == self.is_request and len(each.lines) > 2)
        smaller = (each for each in alike if set(each.lines) < set(self.lines) and not each.has_keywords)
        return max(smaller, key=lambda each: len(each.lines), default=None)

    def written(self, parent: "Class | None") -> str:
        if self.has_keywords:
            pairs = (each.strip().split(": ", 1) for each in self.lines)
            inside = "\n".join(f'    "{key}": {value!r},' for key, value in pairs)
            return f'{self.name} = TypedDict("{self.name}", {{\n{inside}\n}})\n'
        inherited, known = ([parent.name], parent) if parent else ([], Class("", [], [], self.is_request))
        bases = [*inherited, *(each for each in self.bases if each not in known.bases)] or ["TypedDict"]
        head = ", ".join([*bases, *(["total=False"] if self.is_request else [])])
        docstring = [f'    """{self.description}"""\n'] if self.description else []
        own = [each for each in self.lines if each not in known.lines]
        return "\n".join([f"class {self.name}({head}):", *docstring, *own]) + "\n"


def typed_dict(name: str, schema: Schema, *, bases: list[str], is_request: bool, has_etag: bool = False) -> Class:
    # `stream` decides what `chat` returns, and is named there.
    properties = {key: each for key, each in schema["properties"].items() if (name, key) != ("ChatIn", "stream")}
    lines = list(fields(properties, set(schema.get("required", ())), is_request=is_request))
    lines += ["    etag: NotRequired[str]"] if has_etag else []
    return Class(name, bases, lines, is_request, schema.get("description", ""))


def one_or_many(schema: Schema, components: Schema) -> Schema:
    """Merge alternatives into one object, none of whose fields is required."""
    members = [components[each["$ref"].rsplit("/", 1)[1]] for each in schema["oneOf"]]
    return {"properties": {name: value for member in members for name, value in member["properties"].items()}}


def operations(api: Schema) -> Iterator[tuple[str, str, Schema]]:
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def component_of(content: Schema) -> str:
    schema = content.get("application/json", {}).get("schema", {})
    return str(schema.get("$ref", "")).rsplit("/", 1)[-1]


def parameters(operation: Schema, place: str) -> Schema:
    return {each["name"]: each["schema"] for each in operation["parameters"] if each["in"] == place}


def query_name(operation: Schema) -> str:
    """Return the type of a list's query; that of its paging and tenant where it has no fields of its own."""
    names = parameters(operation, "query")
    if names.keys() - TENANT - OF_PAGES:
        return "".join(part.title() for part in operation["operationId"].split("_")) + "Query"
    return "Whose" * ("agent_id" in names) + "Paging" * ("limit" in names)


def written(classes: Sequence[Class]) -> list[str]:
    """Return the classes in their order, but those that others inherit from first."""
    parents = {each.name: each.parent(classes) for each in classes}
    inherited = {each.name: len(each.lines) for each in parents.values() if each}
    ordered = sorted(classes, key=lambda each: inherited.get(each.name, sys.maxsize))
    return [each.written(parents[each.name]) for each in ordered]


def row_type(operation: Schema, components: Schema) -> tuple[str, str]:
    """Return the decorator of an operation's method, and the type of its answer or of a page's rows."""
    contents = [answer["content"] for answer in operation["responses"].values() if answer.get("content")]
    if not contents or "application/json" not in contents[0]:
        return "operation", "str" if contents else "None"
    name = component_of(contents[0])
    if name.endswith("Page"):
        return "listing", f"t.{python_type(components[name]['properties']['results']['items'])}"
    return "operation", f"t.{class_name(name)}"


def body_of(operation: Schema) -> str:
    return component_of(operation.get("requestBody", {}).get("content", {}))


def tenants_of_bodies(api: Schema) -> Mapping[str, set[bool]]:
    """Return for each body whether the tenant is in the query, by the operations that take it."""
    found: dict[str, set[bool]] = {}
    for _path, verb, operation in operations(api):
        if verb != "get":
            found.setdefault(body_of(operation), set()).add("agent_id" in parameters(operation, "query"))
    return found


def body_type(operation: Schema, api: Schema) -> str:
    """Return the type of a method's fields; an operation without a body still takes an idempotency key."""
    body = body_of(operation)
    has_tenant = "agent_id" in parameters(operation, "query") and tenants_of_bodies(api)[body] == {True, False}
    return "Whose" * has_tenant + (class_name(body) or "Write")


def method(path: str, verb: str, operation: Schema, api: Schema) -> str:
    query, takes_query = parameters(operation, "query"), verb in ("get", "delete")
    segments = [part.strip("{}") if "{" in part else f'"{part}"' for part in path.split("/")[3:]]
    conditions = {name: name.lower().replace("-", "_") for name in parameters(operation, "header") if "If-" in name}
    own = {} if takes_query else {name: python_type(query[name]) for name in query if name not in TENANT}
    types = {**dict.fromkeys(conditions.values(), "str"), **own}
    decorator, row = row_type(operation, api["components"]["schemas"])
    arguments = ["self", *(f"{each}: str" for each in segments if '"' not in each), *["*"] * bool(types)]
    arguments += [f"{name}: {kind} | None = None" for name, kind in types.items()]
    sent = [f'"{verb.upper()}"', f"path({', '.join(segments)})"]
    if fields := query_name(operation) if takes_query else body_type(operation, api):
        arguments.append(f"**{'query' if takes_query else 'fields'}: Unpack[t.{fields}]")
        sent.append("query" if takes_query else "body=fields")
    sent += [f"query={mapping({name: name for name in own})}"] * bool(own)
    sent += [f'tenant="{place}"' for place in tenant_place(operation, api)]
    sent += [f"conditions={mapping(conditions)}"] * bool(conditions)
    return f'''    @{decorator}
    def {operation["operationId"]}({", ".join(arguments)}) -> Call[{row}]:
        """{operation["description"].replace(chr(10), chr(10) + " " * 8)}"""
        return Call({", ".join(sent)})
'''.replace("\n        \n", "\n\n")


def mapping(names: Mapping[str, str]) -> str:
    return f"{{{', '.join(f'{chr(34)}{key}{chr(34)}: {name}' for key, name in names.items())}}}"


def tenant_place(operation: Schema, api: Schema) -> list[str]:
    """Return where a call has its agent and user: in the query, in the body, or nowhere."""
    body = api["components"]["schemas"].get(body_of(operation), {})
    in_body = body.get("properties", {}).keys() >= TENANT
    return ["query"] if "agent_id" in parameters(operation, "query") else ["body"] * in_body


def render_operations(api: Schema) -> str:
    methods = [
        method(path, verb, operation, api)
        for path, verb, operation in operations(api)
        if operation["operationId"] not in BY_HAND
    ]
    return "\n".join([OPERATIONS_HEAD, *methods])


def render_types(api: Schema) -> str:
    components, tagged = api["components"]["schemas"], set()
    classes: list[Class] = []
    queries: list[Class] = []
    bodies = tenants_of_bodies(api)
    posted = {""}
    for _path, method, operation in operations(api):
        body = body_of(operation)
        query = parameters(operation, "query")
        if method == "post":
            posted.add(body)
        if any(each["name"] == "If-Match" for each in operation["parameters"]):
            tagged |= {component_of(answer.get("content", {})) for answer in operation["responses"].values()}
        own = {name: schema for name, schema in query.items() if name not in TENANT | OF_PAGES}
        if method in ("get", "delete") and own and operation["operationId"] not in BY_HAND:
            bases = ["Whose"] * ("agent_id" in query) + ["Paging"] * ("limit" in query)
            queries.append(typed_dict(query_name(operation), {"properties": own}, bases=bases, is_request=True))
    parts = [TYPES_HEAD]
    enums = [name for name in components if "enum" in components[name] and name != "NullEnum"]
    parts += ["\n".join(f"{class_name(name)} = {python_type(components[name])}" for name in enums) + "\n"]
    for name, schema in components.items():
        if "enum" in schema or name.endswith("Page"):
            continue  # lists are iterators over what their pages hold
        merged = one_or_many(schema, components) if "oneOf" in schema else schema
        bases = ["Whose"] * (bodies.get(name) == {True}) + ["Write"] * (name in posted)
        is_request, has_etag = name.endswith("Request"), name in tagged
        classes.append(typed_dict(class_name(name), merged, bases=bases, is_request=is_request, has_etag=has_etag))
    parts += written(classes)
    for body in sorted(body for body, whose in bodies.items() if whose == {True, False}):
        name = class_name(body) or "Write"
        parts.append(f"class Whose{name}(Whose, {name}, total=False):\n    pass\n")
    return "\n\n".join(parts + written(queries))


if __name__ == "__main__":
    schema = yaml.safe_load(SCHEMA.read_text("utf-8"))
    (PACKAGE / "types.py").write_text(render_types(schema), "utf-8")
    (PACKAGE / "operations.py").write_text(render_operations(schema), "utf-8")
