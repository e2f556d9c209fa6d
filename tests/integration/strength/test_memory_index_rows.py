"""Index rows repeat their memory: always the same, whatever was done to the memory."""

import pytest
from rest_framework.test import APIClient

from strength.models import Facets, Memory, MemoryIndex
from strength.sql import FACETS

API = "/api/v1"
NAMES = {"agent_id": "kana", "user_id": "hiroki"}


def wrote(client: APIClient, content: str) -> str:
    answer = client.post(f"{API}/memories", {**NAMES, "content": content})
    assert answer.status_code == 201, answer.content
    return str(answer.json()["id"])


def test_statements_name_every_facet() -> None:
    assert set(FACETS) == {field.column for field in Facets._meta.get_fields()}


def test_mending_tells_how_many_rows_were_wrong(client: APIClient) -> None:
    ids = [wrote(client, f"tea number {number}") for number in range(3)]
    Memory.objects.filter(pk__in=ids[:2]).update(tags=["a"], valid_from=None, status="archived")

    assert MemoryIndex.repair() == 4  # the index row and the numbers of each
    assert MemoryIndex.repair() == 0
    assert list(MemoryIndex.objects.filter(tags=["a"]).values_list("status", flat=True)) == ["archived"] * 2


@pytest.mark.parametrize("name", ["status", "valid_to", "namespace"])
def test_stale_row_never_shows_what_may_not_be_seen(client: APIClient, name: str) -> None:
    """The best are read from their own table under the same conditions, so a stale row costs a place, no more."""
    memory_id = wrote(client, "the secret harbour")
    stale = {"status": "archived", "valid_to": "2020-01-01T00:00:00Z", "namespace": "/elsewhere/x/"}[name]
    Memory.objects.filter(pk=memory_id).update(**{name: stale})

    body = {**NAMES, "query": "secret harbour", "filters": {"namespace": "/notes/"}}
    assert client.post(f"{API}/memories/search", body).json()["results"] == []
    MemoryIndex.repair()


def test_every_curated_change_reaches_the_index(client: APIClient) -> None:
    memory_id = wrote(client, "green tea")
    address = f"{API}/memories/{memory_id}"
    steps = [
        ("patch", address, {"tags": ["b"], "namespace": "/facts/hiroki/", "valid_to": "2030-01-01T00:00:00Z"}),
        ("post", f"{address}/pin", {}),
        ("post", f"{address}/archive", {}),
        ("post", f"{address}/reactivate", {}),
    ]
    for method, path, body in steps:
        answer = getattr(client, method)(path, body)
        assert answer.status_code == 200, answer.content
        assert MemoryIndex.repair() == 0, path
    row = MemoryIndex.objects.get(memory_id=memory_id)
    assert (row.tags, row.namespace, row.status) == (["b"], "/facts/hiroki/", "active")
