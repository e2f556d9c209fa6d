"""A foreign id is answered as an unknown one: every place for an id, of every call and tool, with every id there is."""

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from itertools import takewhile
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from django.utils.module_loading import autodiscover_modules
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

from memoryhub.auth.models import ApiKey
from memoryhub.auth.throttling import KeyRateThrottle
from memoryhub.mcp.calls import TOOLS, Address, CallFailed, call_tool
from tests.conftest import client_with_key
from tests.factories.planting import API, Planted, body_of, made, plant, plant_first
from tests.factories.routes import Route, closed_routes

pytestmark = pytest.mark.usefixtures("llm")

UNKNOWN_ID = "0198d1a2-0000-7000-8000-000000000000"
UUIDS = re.compile("[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
TIMES = (
    r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)|(?<=\(Now: )[^)]+|(?<=（現在: )[^）]+"
    r"|(?<=\"created\":)\d+|(?<=\"created_at\":)\d+|(?<=_ms\":)[\d.]+"
)
"""What two answers a moment apart differ in, the minute that a context names among it."""
VARYING = re.compile(
    TIMES + r"|(?<=remembered-)\w+|whsec_[\w+/=]+|(?<=tokens\":)\d+|(?<=token_count\":)\d+|\d+\.\d{4,}"
)
"""Times and random codes; tokens, as ids of other digits have others; strengths, which decay between two calls."""

UNCOMPARED_HEADERS = {"Server-Timing", "Content-Length", "RateLimit"}
NAMES = ("agent_id", "user_id", "model", "user", "project", "project_name", "document_name", "into", "name")
ID = re.compile(r"(^|_)ids?$")


@dataclass(frozen=True)
class Target:
    """One place for an id: of a call by its route and method, or of a tool."""

    route: Route | None
    method: str
    where: str
    name: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            f"{self.method} {self.route.name if self.route else 'tool'} {self.where} {'.'.join(self.path) or self.name}"
        )


CLIENT_HEADERS = ("X-Session-Id", "X-Conversation-Id", "X-OpenWebUI-Chat-Id", "X-User-Id", "X-OpenWebUI-User-Id")
CLIENT_CALLS: Mapping[str, Sequence[tuple[str, ...]]] = {
    "openai-chat-completions": [("model",), ("user",), ("metadata", "session_id")],
    "openai-responses": [
        ("model",), ("user",), ("previous_response_id",), ("metadata", "session_id"), ("conversation",),
        ("input", "[]", "reference_id"),
    ],
    "anthropic-messages": [("model",), ("metadata", "user_id"), ("metadata", "session_id")],
    "anthropic-count-tokens": [("model",)],
}  # fmt: skip
"""Fields of vendors' forms, which the schema does not have."""

ARGUMENTS: Mapping[str, dict[str, Any]] = {
    "context": {"message": "green tea?"},
    "remember": {"content": "Something new"},
    "recall": {"query": "green tea"},
    "correct": {"content": "Something else", "memory_id": "memory_id"},
    "forget": {"reason": "because"},
    "what_if": {"content": "Something else", "memory_id": "memory_id"},
    "search": {"query": "green tea"},
    "fetch": {"id": "memory_id"},
    "project_file": {"command": "view", "project": "tea-house", "name": "decisions.md"},
}
"""What each tool needs besides the id; names of planted ids stand for them."""


@cache
def targets() -> list[Target]:
    schema: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    found: list[Target] = []
    for route in closed_routes():
        address = "/" + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", route.template)
        for method in route.methods:
            found += [Target(route, method, "path", place) for place in route.places]
            operation = schema["paths"].get(address, {}).get(method)
            found += [] if operation is None else _described(route, method, operation, schema["components"]["schemas"])
            if method == "post":
                found.append(Target(route, method, "header", "Idempotency-Key"))
            if route.name in CLIENT_CALLS and method == "post":
                found += [Target(route, method, "body", path[-1], path) for path in CLIENT_CALLS[route.name]]
                found += [Target(route, method, "header", name) for name in CLIENT_HEADERS]
    autodiscover_modules("mcp")
    for tool in TOOLS:
        named = [name for name in inspect.signature(tool.run).parameters if ID.search(name) or name in NAMES]
        found += [Target(None, tool.name, where, name) for where, names in
                  (("argument", named), ("address", ("agent_id", "user_id"))) for name in names]  # fmt: skip
    return found


def _described(route: Route, method: str, operation: Any, components: Any) -> Iterator[Target]:
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "query" and (ID.search(parameter["name"]) or parameter["name"] in NAMES):
            yield Target(route, method, "query", parameter["name"])
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    for path in {*_paths(content.get("schema", {}), components, ())}:
        if ID.search(path[-1]) or path[-1] in NAMES:
            yield Target(route, method, "body", path[-1], path)


def _paths(schema: Any, components: Any, seen: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the ways to all fields of a body; `[]` is into a list."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        yield from () if name in seen else _paths(components[name], components, (*seen, name))
    for each in (*schema.get("allOf", ()), *schema.get("oneOf", ()), *schema.get("anyOf", ())):
        yield from _paths(each, components, seen)
    if "items" in schema:
        yield from (("[]", *path) for path in _paths(schema["items"], components, seen))
    for name, value in schema.get("properties", {}).items():
        yield (name,)
        yield from ((name, *path) for path in _paths(value, components, seen))


def placed(body: Any, path: Sequence[str], value: str) -> Any:
    """Return a body with a value at a place, made where it is not there."""
    if not path:
        return value
    name, *rest = path
    if name == "[]":
        return [placed(body[0] if isinstance(body, list) and body else {}, rest, value)]
    if name == "reference_id":
        return {"type": "item_reference", "id": value}
    inner = body.get(name) if isinstance(body, dict) else None
    is_list = not rest and name in ("ids", "source_message_ids", "entry_ids", "used_memory_ids")
    return {**(body if isinstance(body, dict) else {}), name: [value] if is_list else placed(inner, rest, value)}


@dataclass
class Stranger:
    """A key with rows of its own, to which the planted ones are foreign."""

    client: APIClient
    key: ApiKey
    own: Planted
    foreign: Planted
    agents_are_foreign: bool

    def answer(self, target: Target, value: str) -> str:
        """Return what a call or tool answers to an id, without it and what varies; the database is left as it was."""
        with transaction.atomic():
            said = self._tool(target, value) if target.route is None else self._call(target, value)
            transaction.set_rollback(True)
        assert self.foreign.user_mark not in said, target
        bare = said.replace(value, "ID").replace(value.replace(".", "-"), "ID")
        return VARYING.sub("…", UUIDS.sub("UUID", bare))

    def _call(self, target: Target, value: str) -> str:
        assert target.route is not None
        ids, headers = {**self.own.ids}, {}
        query = dict(self.own.names) if self._takes_names(target) else {}
        body = body_of(target.route.name, target.method, self.own)
        if target.where == "path":
            ids[target.name] = value
        elif target.where == "query":
            query[target.name] = value
        elif target.where == "header":
            headers[target.name] = value
        else:
            body = placed(deepcopy(body), target.path, value)
        send = getattr(self.client, target.method)
        address = target.route.address(ids) + ("?" + "&".join(f"{k}={v}" for k, v in query.items()) if query else "")
        given = {"headers": headers} if headers else {}
        answer = send(address, **given) if body is None else send(address, body, format="json", **given)
        shown = {name: text for name, text in answer.headers.items() if name not in UNCOMPARED_HEADERS}
        return f"{answer.status_code} {sorted(shown.items())} {in_order(answer.getvalue().decode())}"

    def _takes_names(self, target: Target) -> bool:
        assert target.route is not None
        is_list = target.method in ("get", "patch", "delete") and not target.route.places
        return target.where == "query" or is_list or "project_name" in target.route.places

    def _tool(self, target: Target, value: str) -> str:
        [tool] = [each for each in TOOLS if each.name == target.method]
        arguments = {name: self.own.ids.get(each, each) for name, each in ARGUMENTS[tool.name].items()}
        names = {**self.own.names}
        (arguments if target.where == "argument" else names)[target.name] = value
        is_id = inspect.signature(tool.run).parameters
        try:
            given = {
                name: UUID(text) if "UUID" in str(is_id[name].annotation) else text for name, text in arguments.items()
            }
        except ValueError:
            return "refused by the schema"
        try:
            return call_tool(tool, api_key=self.key, address=Address(**names), idempotency_key=None, arguments=given)
        except CallFailed as failed:
            return f"failed: {failed}"


STRANGERS: dict[str, tuple[dict[str, Any], tuple[str, str]]] = {
    "a key of another agent": ({"agent_ids": ["other"]}, ("other", "mallory")),
    "a key of another agent and user": ({"agent_ids": ["other"], "user_id": "mallory"}, ("other", "mallory")),
    "a key of another agent and the same user": ({"agent_ids": ["other"], "user_id": "hiroki"}, ("other", "hiroki")),
    "a key of two other agents": ({"agent_ids": ["other", "third"]}, ("other", "mallory")),
    "a key of another user": ({"user_id": "mallory"}, ("other", "mallory")),
    "a key of another user of the agent": ({"agent_ids": ["kana"], "user_id": "mallory"}, ("kana", "mallory")),
}


@pytest.fixture(autouse=True)
def unthrottled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key makes more than 6,000 calls in a minute here."""
    monkeypatch.setattr(KeyRateThrottle, "rate", "1000000/min", raising=False)


@pytest.fixture
def planted(client: APIClient) -> Planted:
    """Return the foreign rows, with names that nobody else has."""
    planted = plant_first()
    made(client.post(f"{API}/projects", {**planted.names, "name": "foreign-garden", "description": "Theirs."}))
    document = f"{API}/projects/foreign-garden/documents/detail-foreign.md?agent_id=kana&user_id=hiroki"
    made(client.put(document, {"text": f"{planted.user_mark} plan"}))
    named = {"project_name": "foreign-garden", "document_name": "detail-foreign.md", "key": "foreign-key"}
    kept = client.post(
        f"{API}/memories", {**planted.names, "content": "Kept once"}, headers={"Idempotency-Key": "foreign-key"}
    )
    made(kept)
    return replace(planted, ids={**planted.ids, **named, "user_id": planted.user_id})


def stranger(client: APIClient, name: str, foreign: Planted) -> Stranger:
    options, (agent_id, user_id) = STRANGERS[name]
    own = plant(client, agent_id=agent_id, user_id=user_id)
    made(client.post(f"{API}/agents", {"agent_id": "third"}))
    own_client = client_with_key(name=name, **options)
    key = ApiKey.objects.get(name=name)
    return Stranger(own_client, key, own, foreign, "kana" not in options.get("agent_ids", ["kana"]))


def in_order(body: str) -> str:
    """Return a JSON body with sorted keys: some are in the order of rows that have none."""
    try:
        return json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except ValueError:
        return body


def unknown_like(value: str) -> str:
    """Return an id of the same form, as sizes and proposed names follow from it."""
    if UUIDS.fullmatch(value):
        return UNKNOWN_ID
    known = value.removeprefix("detail-")
    return (
        value.removesuffix(known)
        + re.sub("[a-z]+", lambda word: "q" * len(word[0]), known.removesuffix(".md"))
        + (".md" if known.endswith(".md") else "")
    )


def unlike(stranger: Stranger, target: Target, values: Sequence[str]) -> list[str]:
    """Return in which answers a foreign id differs from an unknown one."""
    unknown = {value: unknown_like(value) for value in values}
    missing = {value: stranger.answer(target, value) for value in {*unknown.values()}}
    answers = {value: stranger.answer(target, value) for value in values}
    return [
        f"{target}: {value}\n{differing(answer, missing[unknown[value]])}"
        for value, answer in answers.items()
        if answer != missing[unknown[value]]
    ]


def differing(foreign: str, unknown: str) -> str:
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(foreign, unknown, strict=False)))
    part = slice(max(0, same - 100), same + 200)
    return f"  foreign: {foreign[:4]}{foreign[part]}\n  unknown: {unknown[:4]}{unknown[part]}"


def foreign_values(stranger: Stranger, planted: Planted) -> list[str]:
    """Return the foreign ids that differ from the stranger's own; an agent that the key may use is not foreign."""
    own = {*stranger.own.ids.values(), *stranger.own.names.values()}
    own |= set() if stranger.agents_are_foreign else {planted.agent_id}
    return sorted({*planted.ids.values()} - own)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", STRANGERS)
def test_every_foreign_id_in_every_place_is_answered_as_an_unknown_one(
    client: APIClient, planted: Planted, name: str
) -> None:
    """Of the six keys two send each id to each place: they take the ids in turn."""
    who, problems, compared = stranger(client, name, planted), list[str](), 0
    for number, target in enumerate(targets(), start=[*STRANGERS].index(name)):
        values = foreign_values(who, planted)[number % 3 :: 3]
        problems += unlike(who, target, values)
        compared += len(values)
    assert not problems, "\n".join(problems[:20])
    assert compared >= 1_700, "more than 10,000 by all keys"


def test_foreign_ids_of_a_places_kind_are_answered_as_unknown_ones(client: APIClient, planted: Planted) -> None:
    who, problems, compared = stranger(client, "a key of another agent", planted), list[str](), 0
    for target in targets():
        values = [value for value in foreign_values(who, planted) if value in kinds_of(target, planted)]
        problems += unlike(who, target, values)
        compared += len(values)
    assert not problems, "\n".join(problems[:20])
    assert compared >= 250


def kinds_of(target: Target, planted: Planted) -> set[str]:
    """Return the foreign ids of the kind that a place is for; of a session where the kind has no name."""
    named = planted.ids.get(target.name) or planted.ids.get(target.name.removesuffix("s"))
    by_name = {"Idempotency-Key": "key", "project": "project_name", "into": "project_name", "user": "user_id"}
    return {named or planted.ids[by_name.get(target.name, "session_id")]}
