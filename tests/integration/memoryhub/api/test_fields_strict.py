"""A number is no text: every text and id that comes in is refused where it is something else (SPEC H2)."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import get_resolver
from rest_framework import serializers
from rest_framework.test import APIClient

from memoryhub.api.fields import IdField, MomentField, StrictSerializer, StringField, TenantQuery

API = "/api/v1"
NAMES = {"agent_id": "kana", "user_id": "hiroki"}
NO_TEXTS: list[Any] = [5, 0.5, True, ["a"], {"a": "b"}]


def inputs() -> set[type[serializers.Serializer]]:
    """Return every serializer of what comes in, of all apps."""
    assert get_resolver().url_patterns, "the views, and with them their serializers, are imported"
    found: set[type[serializers.Serializer]] = set()
    waiting: list[type[serializers.Serializer]] = [StrictSerializer, TenantQuery]
    while waiting:
        each = waiting.pop()
        found.add(each)
        waiting += each.__subclasses__()
    return found


def fields_of(field: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield a field with all that it is made of."""
    yield path, field
    if isinstance(field, serializers.Serializer):
        for name, child in field.fields.items():
            yield from fields_of(child, f"{path}.{name}")
    elif (child := getattr(field, "child", None)) is not None:
        yield from fields_of(child, f"{path}[]")


def test_every_text_and_time_that_comes_in_is_strict() -> None:
    every = [found for kind in inputs() for found in fields_of(kind(), kind.__name__)]
    texts = [(path, each) for path, each in every if isinstance(each, serializers.CharField)]
    ids = [(path, each) for path, each in every if isinstance(each, serializers.UUIDField)]
    times = [(path, each) for path, each in every if isinstance(each, serializers.DateTimeField)]
    assert len(texts) > 100 and len(ids) > 10 and len(times) > 10
    assert [path for path, each in texts if not isinstance(each, StringField)] == []
    assert [path for path, each in ids if not isinstance(each, IdField)] == []
    assert [path for path, each in times if not isinstance(each, MomentField)] == []


@pytest.mark.parametrize("value", NO_TEXTS, ids=str)
@pytest.mark.parametrize(
    ("address", "body", "field"),
    [
        ("context", {**NAMES, "message": "hello"}, "project"),
        ("context", {**NAMES}, "message"),
        ("context", {**NAMES, "message": "hello"}, "session_id"),
        ("context", {"agent_id": "kana", "message": "hello"}, "user_id"),
        ("memories", {"user_id": "hiroki", "content": "tea"}, "agent_id"),
        ("memories", {**NAMES, "content": "tea"}, "namespace"),
        ("memories", {**NAMES, "content": "tea"}, "channel"),
        ("memories/search", {**NAMES, "query": "tea"}, "project"),
        ("sessions", NAMES, "channel"),
        ("sessions", NAMES, "title"),
        ("projects", NAMES, "name"),
        ("projects/route", {**NAMES, "message": "tea"}, "channel"),
    ],
)
def test_what_is_no_text_is_refused(
    client: APIClient, address: str, body: dict[str, Any], field: str, value: Any
) -> None:
    refused = client.post(f"{API}/{address}", {**body, field: value})
    assert (refused.status_code, refused["Content-Type"]) == (400, "application/problem+json")
    # The message of a context may be a list of blocks; then the place in it is named.
    assert [each["field"].partition(".")[0] for each in refused.json()["errors"]] == [field]


@pytest.mark.parametrize(
    ("address", "body"),
    [("sessions", NAMES), ("chat", {**NAMES, "message": "hello"}), ("projects/route", {**NAMES, "message": "tea"})],
)
@pytest.mark.parametrize("channel", ["slack:#general", "雑談"])
def test_refused_channel_is_told_what_a_channel_is(
    client: APIClient, address: str, body: dict[str, Any], channel: str
) -> None:
    refused = client.post(f"{API}/{address}", {**body, "channel": channel})
    assert refused.status_code == 400
    (error,) = refused.json()["errors"]
    assert (error["field"], error["detail"]) == ("channel", "must be 1 to 100 letters a-z or A-Z, digits, ., - or _.")


@pytest.mark.parametrize(
    ("block", "detail"),
    [
        ({"media_type": "PNG"}, "must be a media type such as image/png."),
        ({"data": "data:image/png;base64,QUJD"}, "must be base64 without white space or a data: prefix."),
    ],
)
def test_refused_block_is_told_what_is_allowed(client: APIClient, block: Any, detail: str) -> None:
    session = client.post(f"{API}/sessions", NAMES).json()
    message = {"role": "user", "content": [{"type": "image", **block}]}
    refused = client.post(f"{API}/sessions/{session['id']}/messages", message)
    assert refused.status_code == 400
    assert [error["detail"] for error in refused.json()["errors"]] == [detail]


@pytest.mark.parametrize(
    "value", ["2026-03-01T09:00:00", "2026-03-01 09:00", "2026-3-1", "yesterday", 1772355600, True, ["2026"]]
)
@pytest.mark.parametrize(
    ("address", "body", "place"),
    [
        ("memories", {**NAMES, "content": "tea"}, "valid_from"),
        ("memories/search", {**NAMES, "query": "tea"}, "filters.as_of"),
        ("summaries/digest", NAMES, "from"),
    ],
)
def test_time_without_an_offset_is_refused(
    client: APIClient, address: str, body: dict[str, Any], place: str, value: Any
) -> None:
    inner: Any = value
    for name in reversed(place.split(".")):
        inner = {name: inner}
    refused = client.post(f"{API}/{address}", {**body, **inner})
    assert refused.status_code == 400
    (error,) = refused.json()["errors"]
    assert (error["field"], error["detail"][:29]) == (place, "must be a time with its offse")


def test_a_day_is_no_time_but_for_as_of(client: APIClient) -> None:
    day = "2026-03-01"

    assert client.post(f"{API}/memories", {**NAMES, "content": "tea", "valid_from": day}).status_code == 400
    search = {**NAMES, "query": "tea", "filters": {"as_of": day}}
    assert client.post(f"{API}/memories/search", search).status_code == 200


def test_time_with_an_offset_is_taken_as_it_is_meant(client: APIClient) -> None:
    body = {**NAMES, "content": "tea", "valid_from": "2026-03-01T09:00:00+09:00"}
    assert client.post(f"{API}/memories", body).json()["valid_from"] == "2026-03-01T00:00:00Z"


def shown(client: APIClient, address: str) -> Any:
    session = client.post(f"{API}/sessions", NAMES).json()
    message = {"role": "user", "content": [{"type": "image", "url": address}]}
    return client.post(f"{API}/sessions/{session['id']}/messages", message)


@pytest.mark.parametrize(
    "address",
    [
        "http://minio:9000/b.png",
        "http://my_store/b.png",
        "https://example.org/a/b.png?x=1#y",
        "http://localhost",
        "http://10.0.0.7:9000/b.png",
        "http://[::1]:9000/b.png",
        "https://user@example.org/b.png",
        "https://例え.jp/画像.png",
    ],
)
def test_address_of_any_host_on_the_web_is_taken(client: APIClient, address: str) -> None:
    taken = shown(client, address)
    assert taken.status_code == 201, taken.content
    assert taken.json()["results"][0]["content"] == [{"type": "image", "url": address}]


@pytest.mark.parametrize(
    "address",
    [
        "ftp://x.example/b.png", "file:///etc/passwd", "javascript:alert(1)", "data:image/png;base64,QUJD", "minio:9000/b.png",
        "//minio/b.png", "http://", "http:///b.png", "http://:9000/", "http://a b/", "http://minio/a b.png", "http://minio/a\tb",
        "http://minio/\x07", "http://minio/\x85b", "http://minio:port/", "http://minio:99999/", "http://[::1/", "http://a\\b/",
        "http://mi<nio/", "http://" + "x" * 254 + "/",
    ],
)  # fmt: skip
def test_address_of_anything_else_is_refused(client: APIClient, address: str) -> None:
    refused = shown(client, address)
    assert refused.status_code == 400
    (error,) = refused.json()["errors"]
    assert error["field"].endswith("url")
    assert "begins with http:// or https://" in error["detail"]


def test_numbers_within_lists_are_refused(client: APIClient) -> None:
    for name, value, place in (("tags", ["a", 5], "tags.1"), ("source_message_ids", [5], "source_message_ids.0")):
        refused = client.post(f"{API}/memories", {**NAMES, "content": "tea", name: value})
        assert refused.status_code == 400
        assert [each["field"] for each in refused.json()["errors"]] == [place]


def test_body_with_a_key_twice_is_refused_with_its_place(client: APIClient) -> None:
    body = b'{"agent_id": "kana", "content": "tea", "metadata": {"cup": {"size": 1, "size": 2}}}'
    refused = client.post(f"{API}/memories", body, content_type="application/json")
    assert refused.status_code == 400
    assert refused.json()["detail"] == "body.metadata.cup.size: the key is given more than once."
    assert client.get(f"{API}/memories", {"agent_id": "kana"}).json()["results"] == []
