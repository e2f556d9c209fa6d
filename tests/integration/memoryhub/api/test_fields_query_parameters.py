"""Query parameters that an operation does not have, or that are malformed, are refused everywhere."""

import re
from typing import Any
from uuid import uuid4

import pytest
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

API = "/api/v1"
UNKNOWN = (
    "agent", "agentid", "Agent_id", "user", "userId", "limits", "page", "page_size", "offset", "sort", "order",
    "order_by", "query", "filter", "type", "statuses", "name_space", "created", "since", "nonsense",
)  # fmt: skip
OWNED = {"agent_id": "kana", "user_id": "hiroki"}


def operations() -> dict[str, tuple[str, str, dict[str, Any]]]:
    paths = SchemaGenerator().get_schema(request=None, public=True)["paths"]  # type: ignore[no-untyped-call]
    return {
        described["operationId"]: (method, path, described)
        for path, methods in paths.items()
        for method, described in methods.items()
        if path not in (f"{API}/schema", f"{API}/docs")
    }


def address(path: str) -> str:
    return re.sub(r"\{\w+_id\}", str(uuid4()), re.sub(r"\{\w+_name\}", "atlas", path))


def test_every_list_refuses_unknown_parameters(client: APIClient) -> None:
    lists = {
        name: path
        for name, (method, path, described) in operations().items()
        if method == "get" and "Page" in str(described["responses"])
    }
    assert len(lists) >= 12
    for name, path in lists.items():
        for unknown in UNKNOWN:
            answer = client.get(address(path), {unknown: "1"})
            assert answer.status_code == 400, (name, unknown, answer.content)
            assert [each["field"] for each in answer.json()["errors"]] == [unknown]


def test_every_operation_refuses_an_unknown_parameter(client: APIClient) -> None:
    for name, (method, path, _described) in operations().items():
        answer = getattr(client, method)(f"{address(path)}?nonsense=1")
        assert answer.status_code == 400, (name, answer.content)
        assert "nonsense" in [each["field"] for each in answer.json()["errors"]], name


@pytest.mark.parametrize(
    ("given", "nearest"),
    [("agentid", "agent_id"), ("Kind", "kind"), ("tags", "tag"), ("create_after", "created_after")],
)
def test_nearest_name_is_suggested(client: APIClient, given: str, nearest: str) -> None:
    answer = client.get(f"{API}/memories", {given: "1"})
    assert f"Did you mean {nearest}?" in answer.json()["errors"][0]["detail"]


def test_parameter_may_be_given_once_unless_it_is_a_list(client: APIClient) -> None:
    refused = client.get(f"{API}/memories?agent_id=kana&agent_id=mira")
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["field"] == "agent_id"
    assert client.get(f"{API}/memories?agent_id=kana&tag=tea&tag=cake&kind=fact&kind=note").status_code == 200


@pytest.mark.parametrize(
    "malformed",
    [
        {"pinned": "maybe"}, {"kind": "rumour"}, {"status": ""}, {"created_after": "yesterday"}, {"min_strength": "strong"},
        {"min_strength": "nan"}, {"metadata": "{"}, {"metadata": "[1]"}, {"metadata": '{"a": "\\u0000"}'}, {"ended": "2"}, {"as_of": "2026-13-01"},
        {"limit": "0"}, {"limit": "many"}, {"cursor": "x"}, {"ordering": "name"}, {"namespace": "facts"}, {"trust": "some"}, {"text": ""},
    ],
)  # fmt: skip
def test_malformed_parameter_is_refused(client: APIClient, malformed: dict[str, str]) -> None:
    answer = client.get(f"{API}/memories", {**OWNED, **malformed})
    assert answer.status_code == 400, answer.content


def test_what_is_missing_in_the_address_is_named_so(client: APIClient) -> None:
    answer = client.patch(f"{API}/actors", {**OWNED, "policy": {}})
    [error] = answer.json()["errors"]
    assert answer.status_code == 400
    assert error == {"field": "agent_id", "code": "required", "detail": "This query parameter is required."}
