"""No input gives a 500 (SPEC H3): the served schema, fuzzed, and hostile values in every place by hand.

Everything runs in this process through WSGI, as a server would call it. Seeds are fixed: a failure
comes back the next time.
"""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from copy import deepcopy
from io import BytesIO
from itertools import count, cycle, islice
from typing import Any, TypeVar

import pytest
import schemathesis
from asgiref.sync import async_to_sync
from django.core.handlers.wsgi import WSGIHandler
from hypothesis import HealthCheck, Phase, given, seed, settings
from rest_framework.test import APIClient
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig

from conversations.models import Receipt
from memoryhub.auth.actions import issue_key
from memoryhub.auth.principals import Scope, command
from memoryhub.auth.throttling import KeyRateThrottle
from tests.conftest import NOW, client_with_key
from tests.examples import examples
from tests.factories.planting import API, Planted, body_of, plant_first
from tests.factories.routes import Route, closed_routes

SEED = 20260301
PARTS = 4
"""The operations are shared out, so that several workers try them at once."""
REQUESTS_WANTED = examples(1_300) // PARTS
EXAMPLES = {GenerationMode.POSITIVE: examples(20), GenerationMode.NEGATIVE: examples(30)}
PROBLEM_MEMBERS = {"type", "title", "status", "detail", "code", "errors"}

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("llm"),
    # A streamed answer is read whole here; a real server streams it.
    pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume asynchronous iterators"),
]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take the throttle away, which would answer most of this with 429, and the log lines of refusals."""
    monkeypatch.setattr(KeyRateThrottle, "rate", "1000000/minute", raising=False)
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def fuzz_client(transactional_db: None) -> APIClient:
    client = client_with_key()
    client.raise_request_exception = False
    return client


@pytest.fixture
def planted(fuzz_client: APIClient) -> Planted:
    return plant_first()


def check_answer(status: int, content_type: str, body: bytes, about: object) -> None:
    """Fail for a 5xx, and for a refusal that is not a problem with all of its members."""
    assert status < 500, (status, about, body[:500])
    if status >= 400:
        assert content_type.startswith("application/problem+json"), (status, content_type, about)
        problem = json.loads(body)
        assert set(problem) >= PROBLEM_MEMBERS, (problem, about)
        assert problem["status"] == status
        assert problem["detail"] and problem["code"], (problem, about)


def whole(response: Any) -> bytes:
    """Return an answer's body, also of one that is streamed."""
    if not getattr(response, "is_async", False):
        return bytes(response.getvalue())

    async def collected() -> bytes:
        return b"".join([piece async for piece in response.streaming_content])

    return async_to_sync(collected)()


def checked(response: Any, about: object) -> Any:
    check_answer(response.status_code, response.get("Content-Type", ""), whole(response), about)
    return response


# The served schema


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_schema_fuzz(planted: Planted, part: int) -> None:
    _, key = issue_key(name="fuzz", scopes=list(Scope), by=command("test"), now=NOW)
    headers = {"Authorization": f"Bearer {key.text}"}
    schema = schemathesis.openapi.from_wsgi(f"{API}/schema?format=json", WSGIHandler(), config=SchemathesisConfig())
    answers: Counter[int] = Counter()
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) >= 30
    for operation in operations[part::PARTS]:
        for mode, number in EXAMPLES.items():
            _fuzz(operation, mode, number, headers, planted, answers)
    total = sum(answers.values())
    assert total >= REQUESTS_WANTED, answers
    assert any(status < 300 for status in answers), "nothing was accepted; the fuzz reached no view"


def _fuzz(
    operation: Any,
    mode: GenerationMode,
    max_examples: int,
    headers: dict[str, str],
    planted: Planted,
    answers: Counter[int],
) -> None:
    real = {place: planted.ids[place] for place in operation.path.split("{")[1:] for place in [place.split("}")[0]]}
    number = 0

    @seed(SEED)
    @settings(
        max_examples=max_examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=False,
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def attempt(case: Any) -> None:
        nonlocal number
        number += 1
        if number % 2 and operation.method.upper() != "DELETE":
            case.path_parameters = {**(case.path_parameters or {}), **real}
        response = case.call(headers=headers)
        answers[response.status_code] += 1
        content_type = (response.headers.get("content-type") or [""])[0]
        check_answer(response.status_code, content_type, response.content, f"{mode} {operation.label}")

    try:
        attempt()
    except schemathesis.errors.LoaderError:
        raise
    except Exception as error:
        if type(error).__name__ != "Unsatisfiable":  # an operation without input has no wrong input
            raise


# Hostile values, in every place of every body

HOSTILE: dict[str, Any] = {
    "nul": "a\x00b", "empty": "", "blank": " \t\n", "null": None, "true": True, "zero": 0, "negative": -1,
    "fraction": 0.5, "large float": 1e39, "largest float": 1.7e308, "tiny": 5e-324, "huge integer": 10**99,
    "bigint": 2**63, "int32": 2**31, "NaN in words": "NaN", "infinity in words": "Infinity", "-inf in words": "-inf",
    "1e400 in words": "1e400", "digits of other scripts": "\u0661\u0662", "array": [], "object": {},
    "nested array": [[[[]]]], "array of null": [None], "array of objects": [{}], "array of NaN": ["nan"],
    "object of null": {"a": None}, "object of array": {"": [1, {"b": {}}]}, "object of NaN": {"a": "NaN"},
    "empty key": {"": ""}, "NUL key": {"a\x00": 1}, "percent": "%s %(x)s %", "braces": "{actorId}{0}",
    "bad uuid": "not-a-uuid", "uuid in braces": "{0198d1a2-0000-7000-8000-000000000000}", "uuid as number": 2**128,
    "nil uuid": "00000000-0000-0000-0000-000000000000", "year 0": "0000-01-01T00:00:00Z",
    "year 1, far east": "0001-01-01T00:00:00+14:00", "year 9999, far west": "9999-12-31T23:59:59-12:00",
    "year 10000": "10000-01-01T00:00:00Z", "odd offset": "2026-01-01T00:00:00+23:59", "wild offset": "2026-01-01T00:00:00+99:99",
    "day only": "2026-02-30", "leap second": "2026-06-30T23:59:60Z", "direction mark": "\u202eabc\u2066",
    "control": "\x07\x1b[31m", "noncharacter": "\uffff\U0010ffff", "combining": "a" + "\u0301" * 500,
    "quotes": "'\";--\\", "long": "x" * 70_000, "path": "../../etc/passwd", "namespace": "/a/../{actorId}/",
    "slashes": "//", "many": ["x"] * 2000, "wide object": {str(number): number for number in range(2000)},
}  # fmt: skip

VECTORS: dict[str, Any] = {
    "two numbers": [0.1, 0.2],
    "zeros": [0.0] * 384,
    "large numbers": [1e30] * 384,
    "too large": [1e31] * 384,
    "tiny numbers": [5e-324] * 384,
    "booleans": [True] * 384,
    "17,000 numbers": [0.1] * 17_000,
}
"""Lists of numbers, dear to parse: for places that take a list of numbers."""

RAW: dict[str, bytes] = {
    "lone high surrogate": b'"\\ud800"', "lone low surrogate": b'"a\\udfff"', "surrogates reversed": b'"\\udc00\\ud800"',
    "surrogate key": b'{"\\ud800": 1}', "escaped NUL": b'"\\u0000"', "1e400": b"1e400", "-1e400": b"-1e400",
    "NaN": b"NaN", "Infinity": b"-Infinity", "400 digits": b"1" * 400, "5,000 digits": b"9" * 5000,
    "5,000 decimals": b"0." + b"1" * 5000, "deep arrays": b"[" * 5000 + b"]" * 5000, "deep objects": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "33 deep": b"[" * 33 + b"]" * 33, "invalid UTF-8": b'"\xff\xfe"', "overlong": b'"\xc0\x80"', "UTF-8 surrogate": b'"\xed\xa0\x80"',
    "control in text": b'"a\x01b"', "duplicate keys": b'{"a": 1, "a": 2}', "trailing comma": b"[1,]", "no value": b"",
}  # fmt: skip
"""What Python's json would not write."""


def full_bodies(planted: Planted) -> dict[str, dict[str, Any]]:
    """Return a body for each route with every field that it knows, so that each is a place for a hostile value."""
    names, memory_id = planted.names, planted.ids["memory_id"]
    curated = {
        "content": "tea", "kind": "fact", "namespace": "/facts/{actorId}/", "tags": ["a"], "scope_level": "project",
        "scope_domain": "", "scope_project": "atlas", "learnings": {"general": "x"}, "pinned": False, "confidence": 0.9,
        "valid_from": "2026-01-01T00:00:00Z", "valid_to": "2026-02-01T00:00:00Z",
    }  # fmt: skip
    message = {
        "role": "user",
        "content": "hello",
        "author": "ann",
        "client_message_id": "one",
        "created_at": "2026-01-01T00:00:00Z",
        "metadata": {"a": 1},
    }
    blocks = [
        {"type": "text", "text": "x"},
        {"type": "image", "name": "a", "media_type": "image/png", "url": "https://example.org/a", "data": "QUJD"},
    ]
    agent = {
        "name": "K", "language": "ja", "system_prompt": "x", "domain": "tea", "related_domains": ["art"], "current_project": "",
        "fixed_user_id": "", "strategies": {"semantic": True}, "topics_include": ["a"], "topics_exclude": ["b"],
        "policy": {
            "recall_limit": 1, "token_safety_margin": 0.8, "max_tokens": 5000, "untrusted_channels": ["slack"], "confidence_floor": 0.1,
            "score_weights": {"similarity": 0.5, "strength": 0.3, "recency": 0.2}, "recency_half_life_days": 30,
            "consolidation_thresholds": [0, 1, 2, 3, 4, 5], "daily_decay_targets": {str(level): 0.9 for level in range(6)},
            "layer_budgets": {"pinned": 0.5}, "system_prompt": "x", "memory_placement": "before_history", "decay_clock": "task",
        },
        "retrieval_config": {"/facts/{actorId}/": {"top_k": 5, "relevance_score": 0.5}},
    }  # fmt: skip
    session = {**names, "session_id": planted.ids["session_id"], "channel": "slack", "title": "t", "metadata": {"a": 1}}
    return {
        "agents": {"agent_id": "new-agent", **agent},
        "agent": agent,
        "agent-what-if": agent,
        "actors": {"policy": agent["policy"]},
        "webhooks": {
            "agent_id": planted.agent_id, "url": "https://example.org/hook", "kinds": ["memory.created"], "with_texts": True,
        },
        "actor-what-if": {**names, "policy": agent["policy"]},
        "sessions": session,
        "session": {"title": "t", "metadata": {"a": 1}},
        "session-forget": {"from_seq": 1, "to_seq": 2, "dry_run": True, "reason": "because"},
        "messages": message,
        "messages batch": {"messages": [message, {**message, "content": blocks}]},
        "context": {
            **names, "session_id": planted.ids["session_id"], "project": "atlas", "message": "hello", "perspective": "p",
            "format": "openai", "exact_tokens": True,
            "options": {
                "working_memory_limit": 5, "semantic_memory_limit": 5, "recall_limit": 3, "include_semantic_memory": True,
                "include_session_summary": True, "include_recall": True, "include_project": True, "include_pinned": True,
                "max_tokens": 5000, "token_safety_margin": 0.8, "memory_placement": "before_history", "cache": True,
            },
        },
        "summary post": {"start_time": "2020-01-01T00:00:00Z", "end_time": "2030-01-01T00:00:00Z"},
        "summary patch": {"summary": "They spoke of tea.", "locked": False, "reason": "because"},
        "summary-restore": {"number": 1, "reason": "because"},
        "profile post": names,
        "profile patch": {"text": "Likes tea.", "locked": False, "reason": "because"},
        "profile-restore": {**names, "number": 1, "reason": "because"},
        "summaries-digest": {**names, "from": "2020-01-01T00:00:00Z", "to": "2030-01-01T00:00:00Z", "project": "atlas"},
        "projects": {**names, "name": "tea-garden", "description": "About tea."},
        "project": {"description": "About green tea.", "reason": "because"},
        "document": {"text": "# Tea\n\n> Tea.\n", "reason": "because"},
        "document-entries": {"text": "Tea is green.", "pinned": True, "channel": "slack"},
        "document-restore": {"number": 0, "reason": "because"},
        "projects-route": {**names, "message": "tea", "channel": "slack"},
        "route-correct": {"project": planted.ids["project_name"], "reason": "because"},
        "chat": {
            **names, "session_id": planted.ids["session_id"], "channel": "slack", "project": "atlas", "perspective": "p",
            "message": "hello", "stream": False, "memory": True,
            "options": {"working_memory_limit": 5, "max_tokens": 5000, "cache": True},
        },
        "openai-chat-completions": {
            "model": planted.agent_id, "user": planted.user_id, "metadata": {"session_id": "one"}, "max_tokens": 9,
            "max_completion_tokens": 9, "stream": False, "stream_options": {"include_usage": True}, "n": 1, "stop": [],
            "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
            "tool_choice": "auto", "response_format": {"type": "text"},
            "messages": [
                {"role": "system", "content": "Be brief."}, {"role": "user", "name": "ann", "content": [{"type": "text", "text": "tea"}]},
                {"role": "assistant", "content": None, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "green"},
            ],
        },
        "openai-responses": {
            "model": planted.agent_id, "user": planted.user_id, "metadata": {"session_id": "one"}, "instructions": "Be brief.",
            "max_output_tokens": 9, "stream": False, "store": True, "previous_response_id": None, "tool_choice": "auto",
            "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
            "text": {"format": {"type": "text"}, "verbosity": "low"}, "reasoning": {"effort": "low"},
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "tea"}]},
                {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "green"},
            ],
        },
        "anthropic-messages": {
            "model": planted.agent_id, "metadata": {"user_id": planted.user_id}, "max_tokens": 9, "stream": False,
            "system": [{"type": "text", "text": "Be brief."}], "stop_sequences": ["x"], "tool_choice": {"type": "auto"},
            "tools": [{"name": "look", "description": "Look.", "input_schema": {"type": "object"}}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "tea"}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "green"}]},
            ],
        },
        "anthropic-count-tokens": {
            "model": planted.agent_id, "system": "Be brief.", "messages": [{"role": "user", "content": "tea"}],
            "tools": [{"name": "look", "input_schema": {"type": "object"}}],
        },
        "memories": {
            **names, **curated, "perspective": "p", "learning": "x", "source": "manual", "strength": 1.0,
            "strength_by_perspective": {"p": 0.5}, "embedding": [0.1] * 384,
            "source_message_ids": [], "channel": "slack",
        },
        "memory": {**curated, "reason": "because"},
        "memories-search": {
            **names, "query": "tea", "perspective": "p", "project": "atlas", "limit": 5, "candidate_limit": 20,
            "similarity_threshold": 0.1, "include_messages": True, "mark_candidates": True,
            "filters": {
                "kind": ["fact"], "namespace": "/facts/{actorId}/", "tags": ["a"], "status": "active",
                "created_after": "2020-01-01T00:00:00Z", "created_before": "2030-01-01T00:00:00Z", "as_of": "2026-01-15T00:00:00Z",
            },
        },
        "memories-search vector": {**names, "embedding": [0.1] * 384},
        "memory-supersede": {
            "content": "coffee", "tags": ["a"], "source": "manual", "source_message_ids": [], "channel": "slack",
            "confidence": 0.9, "valid_from": "2026-12-01T00:00:00Z", "reason": "because",
        },
        "memory-what-if": {"verb": "edit", "values": curated},
        "merge-what-if": {"keep_id": memory_id},
        "expectations": {"receipt_id": planted.ids["receipt_id"], "memory_id": memory_id, "wanted": True},
        "expectations-check": names,
        "memory-used": {"perspective": "p", "task_id": "t"},
        "memory-impact": {"impact_type": "task_success"},
        "memories-used": {"ids": [memory_id], "perspective": "p", "task_id": "t"},
        "memories-candidates": {"ids": [memory_id]},
        "memories-batch": {**names, "memories": [{"content": "a batch", "metadata": {"a": [1]}}]},
        "memories-bulk": {
            **names, "verb": "delete", "dry_run": True, "expected_count": 0, "status": "all", "kind": ["fact"],
            "namespace": "/facts/{actorId}/", "tag": ["a"], "source": ["manual"], "trust": "trusted", "channel": "slack",
            "text": "tea", "pinned": False, "metadata": {"a": 1}, "ended": True, "as_of": "2026-01-15T00:00:00Z",
            "created_after": "2020-01-01T00:00:00Z", "created_before": "2030-01-01T00:00:00Z",
            "updated_after": "2020-01-01T00:00:00Z", "updated_before": "2030-01-01T00:00:00Z",
            "used_after": "2020-01-01T00:00:00Z", "used_before": "2030-01-01T00:00:00Z",
            "min_strength": 0.1, "max_strength": 3, "reason": "because",
        },
        "memories-bulk labels": {
            **names, "verb": "relabel", "dry_run": True, "text": "tea",
            "labels": {"add_tags": ["a"], "remove_tags": ["b"], "kind": "fact", "namespace": "/facts/{actorId}/"},
        },
        "memories-bulk-undo": {"reason": "because"},
        "imports": {**names, "file_name": "mem0.json", "format": "mem0"},
        "import-chunks": {"offset": planted.upload_size, "content": "W10="},
        "import-orders": {"verb": "preview"},
        **{f"project-{verb}": {"reason": "because"} for verb in ("archive", "reactivate", "event-undo")},
        "project-merge": {"into": "tea-garden", "dry_run": True, "reason": "because"},
        "document-move": {
            "into": "tea-garden", "lines": ["- x"], "new_project": False, "document": "decisions.md", "dry_run": True,
            "reason": "because",
        },
        "route-misplaced": {"entry_ids": [memory_id], "dry_run": True, "reason": "because"},
        "memories-archive": {"ids": [planted.ids["pending_id"]], "reason": "because"},
        "memories-strengths": {"updates": [{"id": memory_id, "strength": 1.5}]},
        "tasks": {**names, "query": "tea", "perspective": "p", "project": "auto"},
        "task-complete": {
            "result": {"text": "tea", "list": [1]}, "used_memory_ids": [memory_id], "perspective": "p",
            "learning_content": "x", "learning_text": "y", "extract_learning": True, "impact_type": "task_success",
            "run_sleep_phase": True,
        },
        "sleep-runs": {**names, "all_users": False, "dry_run": True},
        "session-extract": {},
        "memories-retrieve": {**names, "query": "tea", "config": {"/facts/{actorId}/": {"top_k": 5, "relevance_score": 0.5}}},
    }  # fmt: skip


METHODS = {"post", "patch", "put"}
Value = TypeVar("Value")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value within a body, the body itself first; of long lists the first item alone."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    if isinstance(value, list) and len(value) == 2:  # a batch of messages: blocks are in the second
        items = enumerate(value)
    for key, item in items:
        yield from places(item, (*path, key))


def in_turn(values: Sequence[Value], number: int, *, of: int = 2) -> Sequence[Value]:
    """Return every second value, the others for the next number: neighbouring places are read by the same code."""
    return values[number % of :: of]


def share_of(label: str) -> int:
    """Return of how many values one is tried at a place: a what-if reads its body as the call does that it tries."""
    return 8 if "what-if" in label else 2


def with_value(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of the body with the value at a path."""
    if not path:
        return value
    changed = deepcopy(body)
    spot = changed
    for key in path[:-1]:
        spot = spot[key]
    spot[path[-1]] = value
    return changed


def calls(planted: Planted) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Return method, address and full body of every call that takes one."""
    bodies = full_bodies(planted)
    found = {}
    for route in closed_routes():
        for method in route.methods:
            if method in ("get", "delete"):
                continue
            says_whose = (
                route.name == "actors" or (route.name, method) == ("profile", "patch") or "project_name" in route.places
            )
            address = route.address(planted.ids) + (query(planted) if says_whose else "")
            full = {label: body for label, body in bodies.items() if is_for(label, route.name, method)}
            for label, body in (full or {route.name: body_of(route.name, method, planted) or {}}).items():
                if method == "patch" or route.name != "agent":
                    found[f"{method} {label}"] = (method, address, body)
    return found


def tried_calls(planted: Planted) -> Iterator[tuple[str, tuple[str, str, dict[str, Any]]]]:
    """Yield the calls of `calls`. A what-if assembles the latest contexts again: those of former calls are deleted."""
    for label, call in calls(planted).items():
        if "what-if" in label:
            Receipt.objects.exclude(pk=planted.ids["receipt_id"]).delete()
        yield label, call


def is_for(label: str, route: str, method: str) -> bool:
    """Return whether a full body is one of a route's, and of this method's where its label names one."""
    name, *rest = label.split()
    return name == route and (rest[:1] in ([method], []) or rest[0] not in METHODS)


def query(planted: Planted) -> str:
    return f"?agent_id={planted.agent_id}&user_id={planted.user_id}"


def send(
    client: APIClient, method: str, address: str, body: bytes, content_type: str = "application/json", **extra: Any
) -> Any:
    return client.generic(method.upper(), address, body, content_type, **extra)


def test_full_bodies_are_accepted(fuzz_client: APIClient, planted: Planted) -> None:
    """The control: what is refused below is refused for the hostile value, not for the rest."""
    for label, (method, address, body) in calls(planted).items():
        answer = checked(send(fuzz_client, method, address, json.dumps(body).encode()), label)
        assert answer.status_code < 300 or answer.status_code == 409 or label == "post sessions", (
            label,
            answer.content,
        )


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_hostile_values_everywhere(fuzz_client: APIClient, planted: Planted, part: int) -> None:
    sent = 0
    places_tried = count()
    for label, (method, address, body) in islice(tried_calls(planted), part, None, PARTS):
        for path in places(body):
            values = HOSTILE | VECTORS if path and path[-1] == "embedding" else HOSTILE
            for kind, value in in_turn(list(values.items()), next(places_tried), of=share_of(label)):
                answer = send(fuzz_client, method, address, json.dumps(with_value(body, path, value)).encode())
                checked(answer, (label, path, kind))
                sent += 1
    print(f"\n{sent} requests with hostile values")  # noqa: T201
    assert sent > 5_000 / PARTS
    still_works(fuzz_client, planted)


REPLACED = {"lone high surrogate", "lone low surrogate", "surrogates reversed", "escaped NUL"}
OF_PLACES = REPLACED | {"surrogate key", "no value"}
"""Kinds that the field of a place answers; the others are refused by the parser, the same everywhere."""

PARSED_AT_EACH = 2
"""Of the others, those that are tried at each place, in turn."""


@pytest.mark.slow
def test_hostile_json_everywhere(fuzz_client: APIClient, planted: Planted) -> None:
    by_parser, places_tried = cycle(sorted(RAW.keys() - OF_PLACES)), count()
    for label, (method, address, body) in tried_calls(planted):
        for path in places(body):
            kinds = (*sorted(OF_PLACES), *islice(by_parser, PARSED_AT_EACH))
            for kind in in_turn(kinds, next(places_tried), of=share_of(label) // 2):
                written = json.dumps(with_value(body, path, "@@HERE@@")).encode().replace(b'"@@HERE@@"', RAW[kind])
                answer = checked(send(fuzz_client, method, address, written), (label, path, kind))
                # `[]` is a list, `` an empty body; such characters are replaced in texts, and that is told.
                is_accepted = kind == "no value" or (kind in REPLACED and "Replaced-Texts" in answer.headers)
                assert is_accepted or answer.status_code in (400, 409), (label, path, kind, answer.content)
    assert next(places_tried) > 500
    still_works(fuzz_client, planted)


def still_works(client: APIClient, planted: Planted) -> None:
    """What was accepted can be read again: no stored value breaks a list, a search or a context."""
    for address in ("sessions", "memories", "memories?status=all"):
        joint = "&" if "?" in address else "?"
        assert client.get(f"{API}/{address}{joint}{query(planted)[1:]}").status_code == 200
    assert client.get(f"{API}/agents").status_code == 200
    assert client.get(f"{API}/sessions/{planted.ids['session_id']}/messages").status_code == 200
    assert client.get(f"{API}/memories/{planted.ids['memory_id']}/revisions").status_code == 200
    for path, body in (
        ("memories/search", {"query": "tea", "limit": 200}),
        ("memories/retrieve", {"query": "tea"}),
        ("context", {"message": "tea"}),
    ):
        assert client.post(f"{API}/{path}", {**planted.names, **body}).status_code == 200


def test_every_number_that_is_none_is_refused(fuzz_client: APIClient, planted: Planted) -> None:
    """`"NaN"` passes many a minimum and maximum; stored, it would break every later answer."""
    for label, (method, address, body) in calls(planted).items():
        for path in places(body):
            spot: Any = body
            for key in path:
                spot = spot[key]
            if not isinstance(spot, float):
                continue
            for word in ("NaN", "Infinity", "-inf", "1e400"):
                answer = send(fuzz_client, method, address, json.dumps(with_value(body, path, word)).encode())
                assert answer.status_code == 400, (label, path, word, answer.content)


# Hostile addresses, queries, headers and bodies as a whole

QUERY_VALUES = [
    "", " ", "%00", "a%00b", "%ED%A0%80", "%FF%FE", "-1", "0", "1e400", "nan", "9" * 400, "9" * 5000, "x" * 9000, "%0A", "%1F", "[]", "{}", "true",
    "null", "../..", "%F0%9F%98%80", "cD1h", "cD0lMDA=", "cD0yMDI2LTk5LTk5", "bz0tMQ==", "cj14", "bz05OTk5OTk5OTk5", "////", "=" * 50, "\u00e9",
    "eyJhdCI6W119", "W10=", "bnVsbA==", "MQ==", "eyJhdCI6IFtudWxsXX0=",
]  # fmt: skip
QUERY_NAMES = [
    "agent_id", "user_id", "cursor", "limit", "ordering", "status", "kind", "namespace", "tag", "pinned", "format", "%00", "a[]",
]  # fmt: skip


@pytest.mark.long
@pytest.mark.slow
def test_hostile_queries(fuzz_client: APIClient, planted: Planted) -> None:
    sent = 0
    for route in closed_routes():
        if "get" not in route.methods:
            continue
        address = route.address(planted.ids)
        for name in QUERY_NAMES:
            for value in QUERY_VALUES:
                rest = "" if name in ("agent_id", "user_id") else query(planted)[1:] + "&"
                checked(fuzz_client.get(f"{address}?{rest}{name}={value}"), (route.name, name, value[:50]))
                sent += 1
    print(f"\n{sent} requests with hostile queries")  # noqa: T201


def test_bad_cursors_are_refused(fuzz_client: APIClient, planted: Planted) -> None:
    lists = [
        f"sessions{query(planted)}",
        f"memories{query(planted)}",
        f"memories{query(planted)}&ordering=strength",
        "agents?limit=5",
    ]
    for address in lists:
        for value in ("x", "%00", "cD0yMDI2LTk5LTk5", "bnVsbA==", "\u00e9"):
            answer = checked(fuzz_client.get(f"{API}/{address}&cursor={value}"), (address, value))
            assert answer.status_code in (400, 404), (address, value, answer.content)


@pytest.mark.parametrize(
    "part",
    [
        "not-a-uuid",
        "0" * 400,
        "%00",
        "%ED%A0%80",
        "..",
        "%2e%2e%2f",
        "{}",
        "0198d1a2-0000-7000-8000-00000000000g",
        "\u3042",
        " ",
        "%",
    ],
)
def test_hostile_paths(fuzz_client: APIClient, planted: Planted, part: str) -> None:
    for route in closed_routes():
        for place in route.places:
            address = route.address({**planted.ids, place: part})
            for method in route.methods:
                if method == "delete" and place != "agent_id":
                    answer = checked(fuzz_client.delete(address), (address, method))
                else:
                    answer = checked(send(fuzz_client, method, address, b"{}"), (address, method))
                assert 400 <= answer.status_code < 500, (address, method)


@pytest.mark.slow
def test_bodies_of_the_wrong_kind(fuzz_client: APIClient, planted: Planted) -> None:
    whole = [
        b"",
        b" ",
        b"null",
        b"true",
        b"1",
        b'"text"',
        b"[]",
        b"[[]]",
        b"[{}]",
        b"{",
        b"}{",
        b"{}{}",
        b"\xef\xbb\xbf{}",
        b"\x00",
        b"{}" * 1000,
        b"<xml/>",
        b"a=b",
    ]
    for number, (label, (method, address, body)) in enumerate(tried_calls(planted)):
        for raw in in_turn(whole, number):
            checked(send(fuzz_client, method, address, raw), (label, raw[:20]))
        for content_type in (
            "text/plain",
            "application/xml",
            "multipart/form-data; boundary=x",
            "application/x-www-form-urlencoded",
            "x",
            "/",
            "application/json; charset=utf-16",
        ):
            answer = checked(
                send(fuzz_client, method, address, json.dumps(body).encode(), content_type), (label, content_type)
            )
            is_json = content_type.startswith("application/json")
            assert answer.status_code in {415, 400} or is_json, (label, content_type)


def test_a_body_is_refused_where_none_is_taken(fuzz_client: APIClient, planted: Planted) -> None:
    """Also by a view that reads none: `session-end`, orders to a webhook."""
    empty = {label: call for label, call in calls(planted).items() if call[2] == {}}
    assert len(empty) >= 6
    for label, (method, address, _body) in empty.items():
        assert send(fuzz_client, method, address, b"x", "text/plain").status_code == 415, label
        assert send(fuzz_client, method, address, b'{"unknown": 1}').status_code == 400, label


HEADERS: Mapping[str, list[str]] = {
    "HTTP_IDEMPOTENCY_KEY": ["", " ", "x" * 255, "x" * 256, "x" * 9000, "\x00", "\xff\xfe", "\x01", "'; drop table", "%s"],
    "HTTP_IF_MATCH": ["", "*", '"1"', 'W/"1"', '"0"', '"-1"', '"' + "9" * 5000 + '"', '"x"', "1", '"1", "2"', '""', "\x00", "\xff", '"\xb2"'],
    "HTTP_AUTHORIZATION": ["", " ", "Bearer", "Bearer ", "Bearer  ", "bearer x", "Bearer a b", "Basic eDp5", "\xff", "Bearer \xff\xfe", "Bearer \x00", "Bearer " + "x" * 9000, "Bearer mh_\xe9"],
    "HTTP_ACCEPT": ["", "*/*", "text/html", "application/xml", ";;;", "application/json; q=x", "\xff", "a/b/c", "," * 500],
    "HTTP_ACCEPT_LANGUAGE": ["x" * 5000, "\xff", "ja;q=9", ",,,"],
    "HTTP_HOST": ["testserver"],
    "HTTP_COOKIE": ["sessionid=\xff", "a" * 9000, "sessionid=x; csrftoken=y", "=;=;"],
    "HTTP_X_FORWARDED_FOR": ["'", "x" * 5000],
    "HTTP_RANGE": ["bytes=0-0,-1"],
    "HTTP_IF_NONE_MATCH": ["\xff", '"1"'],
    "HTTP_IF_MODIFIED_SINCE": ["never", "Thu, 32 Foo 99999 00:00:00 GMT"],
    "HTTP_CONTENT_ENCODING": ["gzip", "x"],
}  # fmt: skip


@pytest.mark.long
@pytest.mark.slow
def test_hostile_headers(fuzz_client: APIClient, planted: Planted) -> None:
    routes_tried = count()
    for label, (method, address, body) in tried_calls(planted):
        tried = next(routes_tried)
        for name, values in HEADERS.items():
            for value in in_turn(values, tried, of=4):
                checked(
                    send(fuzz_client, method, address, json.dumps(body).encode(), **{name: value}),
                    (label, name, value[:30]),
                )
    for route in (route for route in closed_routes() if "get" in route.methods):
        tried = next(routes_tried)
        for name, values in HEADERS.items():
            for value in in_turn(values, tried, of=4):
                checked(
                    fuzz_client.get(route.address(planted.ids) + query(planted), **{name: value}),
                    (route.name, name, value[:30]),
                )


class Drip(BytesIO):
    """A body that comes without a length."""


def raw_call(environment: dict[str, Any], body: bytes = b"") -> tuple[int, str, bytes]:
    """Call the application as a server does, with an environment of our own; return status, type and body."""
    began: list[Any] = []
    environ = {
        "REQUEST_METHOD": "POST", "SERVER_NAME": "testserver", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "QUERY_STRING": "",
        "CONTENT_TYPE": "application/json", "wsgi.input": Drip(body), "wsgi.errors": BytesIO(), "wsgi.url_scheme": "http", "wsgi.version": (1, 0),
        "wsgi.multithread": True, "wsgi.multiprocess": False, "wsgi.run_once": False, **environment,
    }  # fmt: skip
    answer = b"".join(WSGIHandler()(environ, lambda status, headers: began.append((status, dict(headers)))))
    status, headers = began[0]
    return int(status.split()[0]), headers.get("Content-Type", ""), answer


@pytest.mark.parametrize(
    "length", ["x", "-1", "-99999999999", "1.5", "0x10", "\uff11", " 5 ", "9" * 400, "9" * 5000, "", "1", "99999"]
)
def test_hostile_content_lengths(planted: Planted, length: str) -> None:
    _, key = issue_key(name="lengths", scopes=list(Scope), by=command("test"), now=NOW)
    for route in ("memories/search", "memories", "context"):
        environment = {
            "PATH_INFO": f"{API}/{route}",
            "CONTENT_LENGTH": length,
            "HTTP_AUTHORIZATION": f"Bearer {key.text}",
        }
        status, content_type, body = raw_call(environment, b'{"agent_id": "kana"}')
        check_answer(status, content_type, body, (route, length))
        assert 400 <= status < 500


def test_body_without_length(planted: Planted) -> None:
    _, key = issue_key(name="chunked", scopes=list(Scope), by=command("test"), now=NOW)
    environment = {
        "PATH_INFO": f"{API}/memories",
        "HTTP_TRANSFER_ENCODING": "chunked",
        "wsgi.input_terminated": True,
        "HTTP_AUTHORIZATION": f"Bearer {key.text}",
    }
    status, content_type, body = raw_call(environment, b'{"agent_id": "kana", "content": "by and by"}')
    check_answer(status, content_type, body, "chunked")


def test_eleven_megabytes_are_too_much(fuzz_client: APIClient, planted: Planted) -> None:
    body = json.dumps({**planted.names, "content": "x" * 11_000_000}).encode()
    for route in (route for route in closed_routes() if "post" in route.methods):
        answer = checked(send(fuzz_client, "post", route.address(planted.ids), body), route.name)
        assert answer.status_code == 413
        assert answer.json()["code"] == "payload_too_large"


async def _asgi(messages: list[dict[str, Any]], headers: list[tuple[bytes, bytes]], path: str) -> list[dict[str, Any]]:
    from memoryhub.asgi import application

    sent: list[dict[str, Any]] = []
    queue = iter(messages)
    gone: Any = None

    async def receive() -> dict[str, Any]:
        import asyncio

        nonlocal gone
        try:
            return next(queue)
        except StopIteration:
            gone = gone or asyncio.Event()
            await gone.wait()
            raise

    async def answer(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http", "path": path,
        "raw_path": path.encode(), "query_string": b"", "headers": [(b"host", b"testserver"), *headers], "server": ("testserver", 80),
        "client": ("127.0.0.1", 1),
    }  # fmt: skip
    await application(scope, receive, answer)
    return sent


@pytest.mark.parametrize("megabytes", [1, 11])
def test_chunked_body_over_asgi(planted: Planted, megabytes: int) -> None:
    """What uvicorn hands over: no Content-Length, the body in pieces."""
    from asgiref.sync import async_to_sync

    _, key = issue_key(name="asgi", scopes=list(Scope), by=command("test"), now=NOW)
    whole = json.dumps({**planted.names, "title": "x" * megabytes * 1_000_000}).encode()
    pieces = [whole[start : start + 65_536] for start in range(0, len(whole), 65_536)]
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages.append({"type": "http.request", "body": b"", "more_body": False})
    headers = [
        (b"authorization", f"Bearer {key.text}".encode()),
        (b"content-type", b"application/json"),
        (b"transfer-encoding", b"chunked"),
    ]
    sent = copy_context().run(async_to_sync(_asgi), messages, headers, f"{API}/sessions")  # its id stays in there
    status = sent[0]["status"]
    content_type = {name.lower(): value for name, value in sent[0]["headers"]}[b"content-type"].decode()
    check_answer(status, content_type, b"".join(message.get("body", b"") for message in sent[1:]), megabytes)
    expected = {"400": "invalid"} if megabytes == 1 else {"413": "payload_too_large"}
    answer = json.loads(b"".join(message.get("body", b"") for message in sent[1:]))
    assert {str(status): answer["code"]} == expected
    assert megabytes == 11 or [error["field"] for error in answer["errors"]] == ["title"], "the body was read"


def test_many_parameters_are_refused(fuzz_client: APIClient) -> None:
    answer = checked(fuzz_client.get(f"{API}/agents?{'a=1&' * 6000}"), "6,000 parameters")
    assert answer.status_code == 400


def test_unknown_addresses_and_methods_are_problems(fuzz_client: APIClient, planted: Planted) -> None:
    assert checked(fuzz_client.get(f"{API}/nothing"), "nothing").status_code == 404
    for route in closed_routes():
        refused: Callable[..., Any] = fuzz_client.generic
        for method in {"PUT", "TRACE", "CONNECT", "BREW"} - {each.upper() for each in route.methods}:
            answer = checked(refused(method, route.address(planted.ids)), (route.name, method))
            assert answer.status_code == 405, (route.name, method)


def test_control_characters_in_names_are_refused(fuzz_client: APIClient) -> None:
    for user_id in ("a\nb", "\x07", "\x7f", "x" * 256):
        answer = checked(fuzz_client.post(f"{API}/sessions", {"agent_id": "kana", "user_id": user_id}), user_id)
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["field"] == "user_id"
    for agent_id in ("", "a b", "a/b", "a\nb", "\u3042", "x" * 256):
        assert checked(fuzz_client.post(f"{API}/sessions", {"agent_id": agent_id}), agent_id).status_code == 400


def test_routes_with_bodies_have_a_full_one(planted: Planted) -> None:
    """A route without a full body is fuzzed with a small one; those with many fields must not be forgotten."""
    named = {label.split()[0] for label in full_bodies(planted)}
    small: set[str] = {
        "session-end",
        "document-compact",
        "memory-restore",
        "sleep-run-undo",
        *(f"webhook-{verb}" for verb in ("test", "rotate", "enable", "redeliver")),
        *(f"merge-{verb}" for verb in ("accept", "dismiss", "undo")),
        *(f"memory-{verb}" for verb in ("pin", "unpin", "archive", "reactivate", "approve", "reject")),
    }
    missing: set[Route | str] = {
        route.name for route in closed_routes() if METHODS & set(route.methods) and route.name not in named | small
    }
    assert not missing, f"Give full_bodies() an entry for {missing}."
