"""What is written with typing errors, or together instead of apart, is found where nothing else is."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from strength.models import Memory

API = "/api/v1"
WHO = {"agent_id": "speller", "user_id": "kana"}
MEMORIES = (
    "The Kubernetes cluster runs in Frankfurt.",
    "Deployments go through ArgoCD every Thursday.",
    "The slow helper is getUserById.",
    "The dentist prescribed amoxicillin.",
    "渡邊さんと毎週会う。",
    "弟はダイヤモンドを買った。",
)


@pytest.fixture
def _memories(client: APIClient) -> None:
    for content in MEMORIES:
        assert client.post(f"{API}/memories", {**WHO, "content": content}).status_code == 201


def search(client: APIClient, query: str, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = client.post(f"{API}/memories/search", {**WHO, "query": query, **options}).json()
    return found


@pytest.mark.usefixtures("_memories")
@pytest.mark.parametrize(
    ("query", "place", "searched_for"),
    [
        ("Kuberentes", 0, "kubernetes"),
        ("argo cd", 1, "argocd"),
        ("argocd", 1, ""),
        ("user by id", 2, ""),
        ("渡辺", 4, ""),
        ("ダイアモンド", 5, ""),
        ("Kuberentes cluster", 0, ""),
    ],
)
def test_a_search_finds_it(client: APIClient, query: str, place: int, searched_for: str) -> None:
    found = search(client, query)
    assert found["results"][0]["memory"]["content"] == MEMORIES[place]
    assert found["searched_for"] == searched_for


def test_messages_are_found_too(client: APIClient) -> None:
    session = client.post(f"{API}/sessions", WHO).json()["id"]
    for content in ("I moved to Wroclaw in May.", "The weather is fine."):
        client.post(f"{API}/sessions/{session}/messages", {"role": "user", "content": content})
    found = search(client, "Wroclav", include_messages=True)
    assert found["results"][0]["message"]["content"] == "I moved to Wroclaw in May."


@pytest.mark.usefixtures("_memories")
def test_words_of_others_are_not_read(client: APIClient) -> None:
    """Neither another user's nor what a filter leaves out."""
    other = client.post(f"{API}/memories/search", {**WHO, "user_id": "someone", "query": "Kuberentes"}).json()
    assert (other["results"], other["searched_for"]) == ([], "")
    found = search(client, "Kuberentes", filters={"kind": ["preference"]})
    assert (found["results"], found["searched_for"]) == ([], "")


@pytest.mark.usefixtures("_memories")
def test_a_request_to_forget_is_taken_by_its_words(client: APIClient) -> None:
    client.post(f"{API}/context", {**WHO, "message": "Please forget everything about Kuberentes.", "store": True})
    assert set(Memory.objects.values_list("status", flat=True)) == {"active"}
