"""What was decided against is in no recorded answer."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from memoryhub.api.idempotency import IdempotencyRecord

API = "/api/v1"
NAMES = {"agent_id": "kana", "user_id": "hiroki"}
SECRET = "The vault is behind the green door."


def recorded() -> str:
    return " ".join(str(body) for body in IdempotencyRecord.objects.values_list("body", flat=True))


def keyed(client: APIClient, path: str, body: Any, key: str) -> Any:
    answer = client.post(f"{API}/{path}", body, headers={"Idempotency-Key": key})
    assert answer.status_code < 300, answer.content
    return answer.json()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("post", "reject", {}),
        ("post", "archive", {}),
        ("post", "supersede", {"content": "The vault is under the stairs."}),
        ("patch", "", {"content": "The vault is gone."}),
        ("delete", "", None),
    ],
)
def test_a_memory_leaves_recorded_answers(client: APIClient, method: str, path: str, body: Any) -> None:
    memory = keyed(client, "memories", {**NAMES, "content": SECRET}, "write")
    keyed(client, "memories/search", {**NAMES, "query": "Where is the vault?"}, "search")
    keyed(client, "context", {**NAMES, "message": "Where is the vault?"}, "context")
    assert recorded().count(SECRET) >= 3

    address = f"{API}/memories/{memory['id']}" + (f"/{path}" if path else "")
    assert getattr(client, method)(address, body).status_code < 300

    assert SECRET not in recorded()


def test_what_a_sleep_archives_leaves_recorded_searches(client: APIClient) -> None:
    memory = keyed(client, "memories", {**NAMES, "content": SECRET, "strength": 0.01}, "write")
    keyed(client, "context", {**NAMES, "message": "Where is the vault?"}, "context")
    assert client.post(f"{API}/sleep-runs", NAMES).status_code == 201
    assert client.get(f"{API}/memories/{memory['id']}").json()["status"] == "archived"
    assert not IdempotencyRecord.objects.filter(is_read=True).exists()
