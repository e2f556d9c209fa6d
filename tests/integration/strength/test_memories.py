"""Memories over REST: writing, reading, searching, curating (SPEC M1–M11, S1, S2)."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rest_framework.test import APIClient

from conversations.api.serializers import ScoreBreakdownOut
from strength.models import Memory, MemoryIndex
from tests.conftest import client_with_key

API = "/api/v1"
NAMES = {"agent_id": "kana", "user_id": "hiroki"}


def wrote(client: APIClient, content: str = "likes green tea", **values: Any) -> Any:
    response = client.post(f"{API}/memories", {**NAMES, "content": content, **values})
    assert response.status_code == 201, response.content
    return response.json()


def verb(client: APIClient, memory: Any, name: str, **body: Any) -> Any:
    return client.post(f"{API}/memories/{memory['id']}/{name}", body)


def search(client: APIClient, query: str = "green tea", **values: Any) -> Any:
    response = client.post(f"{API}/memories/search", {**NAMES, "query": query, **values})
    assert response.status_code == 200, response.content
    return response.json()


def texts(answer: Any) -> list[str]:
    return [result["memory"]["content"] for result in answer["results"]]


def refused_field(response: Any) -> str:
    assert response.status_code == 400, response.content
    return str(response.json()["errors"][0]["field"])


# M1, M3, S1


def test_memory_has_defaults_and_all_fields(client: APIClient) -> None:
    memory = wrote(client)
    expected = {
        **NAMES, "content": "likes green tea", "namespace": "/notes/hiroki/", "kind": "note", "tags": [], "scope_level": "project",
        "scope_domain": "", "scope_project": "", "status": "active", "pinned": False, "locked": False, "source": "manual", "trust": "trusted",
        "confidence": None, "strength": 1.0, "strength_by_perspective": {}, "access_count": 0, "candidate_count": 0, "last_accessed_at": None,
        "impact_score": 0.0, "consolidation_level": 0, "learnings": {}, "valid_from": None, "valid_to": None, "superseded_by": None, "sources": [],
        "last_decay_at": None, "channel": "", "version": 1,
    }  # fmt: skip
    assert {key: memory[key] for key in expected} == expected
    assert client.get(f"{API}/memories/{memory['id']}").json() == memory


def test_memory_has_what_was_given(client: APIClient) -> None:
    given = {
        "kind": "preference", "namespace": "/tastes/{actorId}/", "tags": ["tea", "drink", "tea"], "scope_project": "atlas", "pinned": True,
        "strength": 1.7, "strength_by_perspective": {"cook": 0.4}, "learnings": {"cook": "brew at 70 °C"}, "confidence": 0.9,
        "source": "import", "valid_from": "2026-01-01T00:00:00Z", "channel": "slack",
    }  # fmt: skip
    memory = wrote(client, **given)
    assert memory["namespace"] == "/tastes/hiroki/"
    assert memory["tags"] == ["tea", "drink"]
    rest = {key: value for key, value in given.items() if key not in ("namespace", "tags")}
    assert {key: memory[key] for key in rest} == rest


def test_learning_goes_to_its_perspective_else_to_general(client: APIClient) -> None:
    assert wrote(client, "a", learning="x", perspective="cook")["learnings"] == {"cook": "x"}
    assert wrote(client, "b", learning="x")["learnings"] == {"general": "x"}


def test_education_starts_weaker(client: APIClient) -> None:
    assert wrote(client, source="education")["strength"] == 0.5
    client.patch(f"{API}/agents/kana", {"policy": {"initial_strength_education": 0.3, "initial_strength": 1.2}})
    assert wrote(client, "b", source="education")["strength"] == 0.3
    assert wrote(client, "c")["strength"] == 1.2
    assert wrote(client, "d", source="education", strength=0.9)["strength"] == 0.9


def test_memory_links_to_its_messages(client: APIClient) -> None:
    session = client.post(f"{API}/sessions", {**NAMES, "channel": "slack"}).json()
    (row,) = client.post(f"{API}/sessions/{session['id']}/messages", {"role": "user", "content": "I like tea"}).json()[
        "results"
    ]
    (source,) = wrote(client, source_message_ids=[row["id"]])["sources"]
    assert {key: source[key] for key in ("message_id", "session_id", "channel", "trust")} == {
        "message_id": row["id"],
        "session_id": session["id"],
        "channel": "slack",
        "trust": "trusted",
    }


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"content": " "}, "content"), ({"kind": "rumour"}, "kind"), ({"namespace": "/facts/x"}, "namespace"), ({"namespace": "facts/"}, "namespace"),
        ({"namespace": "/a b/"}, "namespace"), ({"scope_level": "galaxy"}, "scope_level"), ({"confidence": 1.1}, "confidence"),
        ({"strength": -0.1}, "strength"), ({"valid_from": "2026-02-01T00:00:00Z", "valid_to": "2026-01-01T00:00:00Z"}, "valid_to"),
        ({"source": "rumour"}, "source"), ({"embedding": [0.5]}, "embedding"), ({"colour": "red"}, "colour"),
        ({"strength_by_perspective": {"": 1}}, "strength_by_perspective"),
    ],
)  # fmt: skip
def test_wrong_values_are_named(client: APIClient, body: dict[str, Any], field: str) -> None:
    assert refused_field(client.post(f"{API}/memories", {**NAMES, "content": "x", **body})) == field
    assert Memory.objects.count() == 0


# M8


def test_equal_text_reinforces(client: APIClient) -> None:
    first = wrote(client)
    headers = {"Idempotency-Key": "said-again"}
    again = client.post(f"{API}/memories", {**NAMES, "content": "  likes green tea\n"}, headers=headers)
    assert again.status_code == 200
    body = again.json()
    assert body["id"] == first["id"]
    assert (body["access_count"], body["strength"]) == (1, pytest.approx(1.1))
    assert body["last_accessed_at"]
    assert len(client.get(f"{API}/memories/{first['id']}/revisions").json()["results"]) == 1


def test_text_that_differs_in_punctuation_or_emphasis_reinforces(client: APIClient) -> None:
    first, ja = wrote(client), wrote(client, content="コーヒーが好き", kind="preference")
    for content, kind, known in [
        ("Really likes green tea.", "note", first),
        ("ＬＩＫＥＳ  green tea!", "note", first),
        ("コーヒーがまじで好き。", "preference", ja),
        ("ｺｰﾋｰがとても好き", "preference", ja),
    ]:
        again = client.post(f"{API}/memories", {**NAMES, "content": content, "kind": kind})
        assert (again.status_code, again.json()["id"], again.json()["content"]) == (200, known["id"], known["content"])
        assert again.json()["access_count"] == 0, "within a minute it may be a retry"
    others = [
        {"kind": "fact"},
        {"valid_to": "2030-01-01T00:00:00Z"},
        {"scope_project": "tea"},
        {"content": "liked green tea"},
    ]
    assert len({wrote(client, **{"content": "likes green tea!", **each})["id"] for each in others} | {first["id"]}) == 5
    batch = client.post(
        f"{API}/memories/batch",
        {**NAMES, "memories": [{"content": "likes green tea?"}, {"content": "has a dog"}, {"content": "Has a dog."}]},
    )
    assert [each["result"] for each in batch.json()["results"]] == ["reinforced", "created", "reinforced"]
    verb(client, first, "archive")
    returned = client.post(f"{API}/memories", {**NAMES, "content": "likes green tea."}).json()
    assert (returned["id"], returned["status"]) == (first["id"], "pending")


def test_equal_text_elsewhere_is_another_memory(client: APIClient) -> None:
    ids = {wrote(client)["id"], wrote(client, kind="fact")["id"], wrote(client, user_id="aoi")["id"]}
    assert len(ids) == 3


def test_equal_text_of_an_archived_memory_waits_in_its_row(client: APIClient) -> None:
    first = wrote(client)
    verb(client, first, "archive")
    again = client.post(f"{API}/memories", {**NAMES, "content": first["content"]})
    assert (again.status_code, again.json()["id"], again.json()["status"]) == (200, first["id"], "pending")


def test_consolidation_level_rises_with_use(client: APIClient) -> None:
    wrote(client)
    levels = [
        client.post(
            f"{API}/memories", {**NAMES, "content": "likes green tea"}, headers={"Idempotency-Key": str(number)}
        ).json()["consolidation_level"]
        for number in range(15)
    ]
    assert levels == [0] * 4 + [1] * 10 + [2]


# M10


@pytest.mark.parametrize("way", ["confidence", "key", "channel", "message"])
def test_doubtful_memories_wait_and_are_found_by_nobody(client: APIClient, way: str) -> None:
    client.post(f"{API}/agents", {"agent_id": "kana", "policy": {"untrusted_channels": ["email"]}})
    writer = client_with_key(is_trusted=False) if way == "key" else client
    extra: dict[str, Any] = (
        {"confidence": 0.49} if way == "confidence" else {"channel": "email"} if way == "channel" else {}
    )
    if way == "message":
        session = client.post(f"{API}/sessions", {**NAMES, "channel": "email"}).json()
        (row,) = client.post(f"{API}/sessions/{session['id']}/messages", {"role": "user", "content": "x"}).json()[
            "results"
        ]
        extra = {"source_message_ids": [row["id"]]}
    memory = wrote(writer, pinned=True, **extra)
    assert (memory["status"], memory["pinned"]) == ("pending", False)
    assert memory["trust"] == ("trusted" if way == "confidence" else "untrusted")
    assert search(client)["results"] == []
    assert "green tea" not in str(client.post(f"{API}/context", {**NAMES, "message": "tea?"}).json()["messages"])
    assert client.get(f"{API}/memories", NAMES).json()["results"] == []
    assert len(client.get(f"{API}/memories", {**NAMES, "status": "pending"}).json()["results"]) == 1
    approved = verb(client, memory, "approve", reason="seen").json()
    assert (approved["status"], approved["trust"]) == ("active", "trusted")
    assert texts(search(client)) == ["likes green tea"]


def test_untrusted_keys_neither_reinforce_nor_approve(client: APIClient) -> None:
    memory = wrote(client)
    stranger = client_with_key(is_trusted=False)
    again = stranger.post(f"{API}/memories", {**NAMES, "content": "likes green tea"}).json()
    assert (again["access_count"], again["strength"]) == (0, 1.0)
    pending = wrote(client, "perhaps likes coffee", confidence=0.1)
    assert verb(stranger, pending, "approve").status_code == 403
    verb(client, memory, "archive")
    assert verb(stranger, memory, "reactivate").status_code == 403


def test_approval_is_bound_to_the_text(client: APIClient) -> None:
    stranger = client_with_key(is_trusted=False)
    names = {"agent_id": "kana", "user_id": "hiroki"}
    waiting = stranger.post(f"{API}/memories", {**names, "content": "likes gin"}).json()
    tag = stranger.patch(f"{API}/memories/{waiting['id']}", {"content": "likes rum"})["ETag"]
    stranger.patch(f"{API}/memories/{waiting['id']}", {"content": "likes whatever I sell"})
    address = f"{API}/memories/{waiting['id']}/approve"
    assert client.post(address, {}, HTTP_IF_MATCH=tag).status_code == 412, "not the text that was read"
    assert client.post(address, {}).json()["status"] == "active"
    assert stranger.patch(f"{API}/memories/{waiting['id']}", {"content": "likes poison"}).status_code == 403


def test_rejected_memories_stay_out(client: APIClient) -> None:
    memory = wrote(client, confidence=0.1)
    assert verb(client, memory, "reject").json()["status"] == "rejected"
    assert verb(client, memory, "approve").status_code == 409


# M9


def test_edit_makes_a_revision_and_locks(client: APIClient) -> None:
    memory = wrote(client)
    edited = client.patch(
        f"{API}/memories/{memory['id']}", {"content": "loves green tea", "tags": ["tea"], "reason": "he said so"}
    )
    assert edited.status_code == 200
    assert (edited.json()["locked"], edited.json()["version"], edited["ETag"]) == (True, 2, '"2"')
    newest, oldest = client.get(f"{API}/memories/{memory['id']}/revisions").json()["results"]
    assert (newest["verb"], newest["number"], newest["reason"]) == ("edit", 2, "he said so")
    assert newest["changed_before"] == {"content": "likes green tea", "tags": [], "locked": False}
    assert newest["changed_after"] == {"content": "loves green tea", "tags": ["tea"], "locked": True}
    assert newest["by"]["kind"] == "key"
    assert oldest["verb"] == "create"
    assert texts(search(client, "loves green tea")) == ["loves green tea"]


def test_edit_that_changes_nothing_is_no_revision(client: APIClient) -> None:
    memory = wrote(client)
    same = client.patch(f"{API}/memories/{memory['id']}", {"content": memory["content"], "tags": []})
    assert (same.status_code, same["ETag"]) == (200, '"1"')
    assert len(client.get(f"{API}/memories/{memory['id']}/revisions").json()["results"]) == 1


def test_revision_can_be_restored(client: APIClient) -> None:
    memory = wrote(client, valid_from="2026-01-01T00:00:00Z")
    address = f"{API}/memories/{memory['id']}"
    client.patch(address, {"content": "hates tea", "valid_from": None, "kind": "fact"})
    verb(client, memory, "pin")
    first = client.get(f"{address}/revisions").json()["results"][-1]
    restored = client.post(f"{address}/restore", {"revision_id": first["id"], "reason": "a mistake"})
    assert restored.status_code == 200, restored.content
    body = restored.json()
    assert (body["content"], body["kind"], body["pinned"], body["valid_from"]) == (
        "likes green tea",
        "note",
        False,
        "2026-01-01T00:00:00Z",
    )
    assert [row["verb"] for row in client.get(f"{address}/revisions").json()["results"]] == [
        "restore",
        "pin",
        "edit",
        "create",
    ]
    assert texts(search(client)) == ["likes green tea"]
    other = wrote(client, "another")
    assert client.post(f"{API}/memories/{other['id']}/restore", {"revision_id": first["id"]}).status_code == 404


def test_stale_edit_is_412(client: APIClient) -> None:
    memory = wrote(client)
    address = f"{API}/memories/{memory['id']}"
    seen = client.get(address)["ETag"]
    assert client.patch(address, {"tags": ["a"]}, headers={"If-Match": seen}).status_code == 200
    for stale in (seen, '"99"', '"x"', "garbage"):
        refused = client.patch(address, {"tags": ["b"]}, headers={"If-Match": stale})
        assert (refused.status_code, refused.json()["code"]) == (412, "version_mismatch")
        assert client.delete(address, headers={"If-Match": stale}).status_code == 412
        assert client.post(f"{address}/pin", {}, headers={"If-Match": stale}).status_code == 412
    assert client.patch(address, {"tags": ["c"]}, headers={"If-Match": "*"}).status_code == 200
    assert client.patch(address, {"tags": ["d"]}).status_code == 200, "If-Match is a choice"
    assert client.delete(address, headers={"If-Match": client.get(address)["ETag"]}).status_code == 204


def test_stale_supersession_is_412(client: APIClient) -> None:
    memory = wrote(client)
    address = f"{API}/memories/{memory['id']}"
    seen = client.get(address)["ETag"]
    assert client.patch(address, {"tags": ["a"]}).status_code == 200
    before = client.get(address).json()
    for stale in (seen, '"x"'):
        refused = client.post(f"{address}/supersede", {"content": "likes coffee"}, headers={"If-Match": stale})
        assert (refused.status_code, refused.json()["code"]) == (412, "version_mismatch")
    assert client.get(address).json() == before
    assert Memory.objects.count() == 1
    now = client.get(address)["ETag"]
    done = client.post(f"{address}/supersede", {"content": "likes coffee"}, headers={"If-Match": now})
    assert done.status_code == 201
    assert client.get(address).json()["superseded_by"] == done.json()["id"]


def test_etag_covers_curated_fields_and_not_strength(client: APIClient) -> None:
    memory = wrote(client)
    before = client.get(f"{API}/memories/{memory['id']}")["ETag"]
    client.post(f"{API}/memories", {**NAMES, "content": memory["content"]})
    search(client)
    assert client.get(f"{API}/memories/{memory['id']}")["ETag"] == before


def test_edit_into_another_memorys_text_is_409(client: APIClient) -> None:
    wrote(client, "first")
    second = wrote(client, "second")
    conflict = client.patch(f"{API}/memories/{second['id']}", {"content": "first"})
    assert (conflict.status_code, conflict.json()["code"]) == (409, "duplicate_memory")


def test_deleted_memory_is_gone(client: APIClient) -> None:
    memory = wrote(client)
    assert client.delete(f"{API}/memories/{memory['id']}").status_code == 204
    assert client.get(f"{API}/memories/{memory['id']}").status_code == 404
    assert client.delete(f"{API}/memories/{memory['id']}").status_code == 404
    assert search(client)["results"] == []


# States


@pytest.mark.parametrize(
    ("start", "name", "expected"),
    [
        ("active", "pin", 200), ("active", "unpin", 200), ("active", "archive", 200), ("active", "reactivate", 409), ("active", "approve", 409),
        ("active", "reject", 200), ("archived", "reactivate", 200), ("archived", "archive", 409), ("archived", "pin", 409), ("archived", "unpin", 200),
        ("pending", "approve", 200), ("pending", "reject", 200), ("pending", "archive", 409), ("pending", "pin", 409), ("pending", "reactivate", 409),
        ("rejected", "approve", 409), ("rejected", "reactivate", 409), ("rejected", "pin", 409),
    ],
)  # fmt: skip
def test_verbs_want_their_state(client: APIClient, start: str, name: str, expected: int) -> None:
    memory = wrote(client, **({"confidence": 0.1} if start in ("pending", "rejected") else {}))
    for step in {"archived": ["archive"], "rejected": ["reject"]}.get(start, []):
        verb(client, memory, step)
    assert client.get(f"{API}/memories/{memory['id']}").json()["status"] == start
    response = verb(client, memory, name)
    assert response.status_code == expected, response.content
    if expected == 409:
        assert response.json()["code"] == "wrong_state"
        assert start in response.json()["detail"]


def test_what_a_person_archived_comes_back_as_strong_as_it_was(client: APIClient) -> None:
    memory = wrote(client, strength=1.8, pinned=True)
    archived = verb(client, memory, "archive").json()
    assert (archived["status"], archived["pinned"], archived["strength"]) == ("archived", False, 1.8)
    assert search(client)["results"] == []
    back = verb(client, memory, "reactivate").json()
    assert (back["status"], back["strength"]) == ("active", 1.8)
    assert texts(search(client)) == ["likes green tea"]


def test_pinned_twice_is_one_revision(client: APIClient) -> None:
    memory = wrote(client)
    assert verb(client, memory, "pin").json()["pinned"] is True
    assert verb(client, memory, "pin").status_code == 200
    assert len(client.get(f"{API}/memories/{memory['id']}/revisions").json()["results"]) == 2


# M4–M6


def test_search_explains_its_scores(client: APIClient) -> None:
    wrote(client, "likes green tea in the morning", strength=1.5)
    wrote(client, "green tea is kept in the kitchen", strength=5.0, strength_by_perspective={"cook": 9.0})
    wrote(client, "drives a red car", strength=0.5)
    answer = search(client)
    assert answer["results"] and answer["degraded"] == []
    for result in answer["results"]:
        parts = result["score_breakdown"]
        assert parts.keys() == ScoreBreakdownOut().fields.keys() - {"own_relevance"}
        assert result["final_score"] == parts["total"]
        assert parts["total"] == pytest.approx(
            parts["similarity_weighted"] + parts["strength_weighted"] + parts["recency_weighted"], abs=1e-12
        )
        assert parts["similarity_weighted"] == pytest.approx(0.5 * parts["relevance"], abs=1e-12)
        assert parts["strength_normalized"] == min(1.0, parts["strength_raw"] / 2)
        assert parts["strength_weighted"] == pytest.approx(0.3 * parts["strength_normalized"], abs=1e-12)
        assert parts["recency_weighted"] == pytest.approx(0.2 * parts["recency_raw"], abs=1e-12)
        assert 0 <= parts["relevance"] <= 1 and 0 < parts["recency_raw"] <= 1
        assert parts["strength_raw"] == result["memory"]["strength"]
        assert result["similarity"] == parts["similarity_raw"]
    as_cook = {
        each["memory"]["content"]: each["score_breakdown"]["strength_raw"]
        for each in search(client, perspective="cook")["results"]
    }
    assert as_cook["green tea is kept in the kitchen"] == 9.0
    assert as_cook["likes green tea in the morning"] == 1.5


def test_recency_halves_in_thirty_days(client: APIClient) -> None:
    memory = wrote(client)
    Memory.objects.filter(pk=memory["id"]).update(created_at=datetime.now(UTC) - timedelta(days=30))
    MemoryIndex.repair()
    assert search(client)["results"][0]["score_breakdown"]["recency_raw"] == pytest.approx(0.5, abs=1e-4)
    client.post(f"{API}/memories", {**NAMES, "content": memory["content"]})
    assert search(client)["results"][0]["score_breakdown"]["recency_raw"] == pytest.approx(1.0, abs=1e-4)


def test_weights_are_policy(client: APIClient) -> None:
    wrote(client, "green tea of the strong", strength=2.0)
    weights = {"similarity": 0.1, "strength": 0.9, "recency": 0.0}
    assert client.patch(f"{API}/agents/kana", {"policy": {"score_weights": weights}}).status_code == 200
    parts = search(client)["results"][0]["score_breakdown"]
    assert (parts["strength_weighted"], parts["recency_weighted"]) == (pytest.approx(0.9), 0.0)
    for wrong in (
        {"similarity": 0.5, "strength": 0.3, "recency": 0.3},
        {"similarity": 1.0},
        {"similarity": 1.5, "strength": -0.5, "recency": 0},
    ):
        refused = client.patch(f"{API}/agents/kana", {"policy": {"score_weights": wrong}})
        assert refused_field(refused) == "policy.score_weights"


def test_only_search_marks_and_only_where_wanted(client: APIClient) -> None:
    memory = wrote(client)

    def count() -> int:
        return int(client.get(f"{API}/memories/{memory['id']}").json()["candidate_count"])

    search(client)
    assert count() == 1
    search(client, mark_candidates=False)
    reader = client_with_key(scopes=["read"])
    assert texts(search(reader)) == ["likes green tea"]
    assert count() == 1, "a key that may only read changes nothing"
    search(client, limit=0)
    assert count() == 1
    after = client.get(f"{API}/memories/{memory['id']}").json()
    assert (after["strength"], after["access_count"], after["last_accessed_at"]) == (1.0, 0, None)


def test_limits_and_counts(client: APIClient) -> None:
    for number in range(30):
        wrote(client, f"green tea number {number}")
    assert len(search(client)["results"]) == 10
    few = search(client, limit=3)
    assert (len(few["results"]), few["candidate_count"]) == (3, 30)
    assert search(client, limit=3, candidate_limit=5)["candidate_count"] == 30, "the count has no cap"
    assert len(search(client, limit=10, candidate_limit=5)["results"]) == 5, "no more than are ranked"
    none = search(client, limit=0)
    assert (none["results"], none["candidate_count"]) == ([], 30)
    for wrong in ({"limit": -1}, {"limit": 201}, {"candidate_limit": 0}, {"similarity_threshold": 2}):
        assert client.post(f"{API}/memories/search", {**NAMES, "query": "x", **wrong}).status_code == 400


def test_off_topic_query_finds_nothing(client: APIClient) -> None:
    wrote(client)
    wrote(client, "京都に引っ越した")
    answer = search(client, "quantum chromodynamics lecture")
    assert (answer["results"], answer["candidate_count"]) == ([], 0)


def test_search_wants_either_query_or_embedding(client: APIClient) -> None:
    for body in ({}, {"query": "x", "embedding": [0.1] * 384}):
        assert refused_field(client.post(f"{API}/memories/search", {**NAMES, **body})) == "query"


def test_filters_narrow(client: APIClient) -> None:
    wrote(client, "green tea fact", kind="fact", tags=["a", "b"])
    wrote(client, "green tea taste", kind="preference", tags=["b"])
    old = wrote(client, "green tea of old", kind="note")
    Memory.objects.filter(pk=old["id"]).update(created_at=datetime.now(UTC) - timedelta(days=100))
    MemoryIndex.repair()
    a_month_ago = (datetime.now(UTC) - timedelta(days=30)).isoformat()

    def found(**filters: Any) -> set[str]:
        return {text.split()[-1] for text in texts(search(client, filters=filters))}

    assert found(kind="fact") == {"fact"}
    assert found(kind=["fact", "note"]) == {"fact", "old"}
    assert found(tags=["b"]) == {"fact", "taste"}
    assert found(tags=["a", "b"]) == {"fact"}
    assert found(namespace="/preferences/{actorId}/") == {"taste"}
    assert found(namespace="/preferences/") == {"taste"}
    assert found(created_before=a_month_ago) == {"old"}
    assert found(created_after=a_month_ago) == {"fact", "taste"}
    assert found(status="archived") == set()
    assert (
        refused_field(
            client.post(f"{API}/memories/search", {**NAMES, "query": "x", "filters": {"namespace": "/preferences"}})
        )
        == "namespace"
    )


def test_as_of_asks_what_held_at_a_time(client: APIClient) -> None:
    wrote(client, "green tea until may", valid_from="2026-01-01T00:00:00Z", valid_to="2026-05-01T00:00:00Z")
    wrote(client, "green tea from may", valid_from="2026-05-01T00:00:00Z")

    def at(time: str) -> set[str]:
        return {text.split()[2] for text in texts(search(client, filters={"as_of": time}))}

    assert at("2025-12-31T00:00:00Z") == set()
    assert at("2026-03-01T00:00:00Z") == {"until"}
    assert at("2026-05-01T00:00:00Z") == {"from"}, "a memory ends before its successor begins"
    assert at("2026-06-01T00:00:00Z") == {"from"}


def test_superseded_memory_is_kept_and_can_be_asked_for(client: APIClient) -> None:
    old, new = wrote(client, "lives in Osaka by the sea"), wrote(client, "lives in Kyoto by the river")
    changed_at = datetime.now(UTC) - timedelta(days=1)
    Memory.objects.filter(pk=old["id"]).update(valid_to=changed_at, superseded_by_id=new["id"])
    MemoryIndex.repair()
    assert texts(search(client, "lives in")) == ["lives in Kyoto by the river"]
    before = search(client, "lives in", filters={"as_of": (changed_at - timedelta(days=1)).isoformat()})
    assert "lives in Osaka by the sea" in texts(before)
    assert client.get(f"{API}/memories/{old['id']}").json()["superseded_by"] == new["id"]
    assert wrote(client, "lives in Osaka by the sea")["id"] != old["id"], "true again: a new memory"


# M7


def test_retrieve_has_the_default_namespaces(client: APIClient) -> None:
    wrote(client, "likes green tea", kind="preference")
    wrote(client, "green tea is from Uji", kind="fact")
    answer = client.post(f"{API}/memories/retrieve", {**NAMES, "query": "green tea"}).json()
    assert set(answer["namespaces"]) == {
        f"/{name}/hiroki/"
        for name in ["preferences", "facts", "summaries", "episodes", "reflections", "learnings", "decisions", "notes"]
    }
    assert [each["memory"]["content"] for each in answer["namespaces"]["/preferences/hiroki/"]] == ["likes green tea"]
    assert [each["memory"]["content"] for each in answer["namespaces"]["/facts/hiroki/"]] == ["green tea is from Uji"]
    assert answer["namespaces"]["/episodes/hiroki/"] == []


def test_retrieve_uses_call_then_agent_then_default(client: APIClient) -> None:
    for number in range(4):
        wrote(client, f"green tea note {number}")
    client.patch(
        f"{API}/agents/kana", {"retrieval_config": {"/notes/{actorId}/": {"top_k": 2, "relevance_score": 0.1}}}
    )
    agents = client.post(f"{API}/memories/retrieve", {**NAMES, "query": "green tea note"}).json()["namespaces"]
    assert {prefix: len(found) for prefix, found in agents.items()} == {"/notes/hiroki/": 2}
    body = {**NAMES, "query": "green tea note", "config": {"/notes/": {"top_k": 3}, "/nothing/": {}}}
    calls = client.post(f"{API}/memories/retrieve", body).json()["namespaces"]
    assert {prefix: len(found) for prefix, found in calls.items()} == {"/notes/": 3, "/nothing/": 0}


def test_retrieve_keeps_to_the_floor_on_relevance(client: APIClient) -> None:
    wrote(client, "green tea")
    wrote(client, "tea time is at five o'clock in the big garden behind our old house")
    for floor in (0.0, 0.4, 0.85, 0.9):
        body = {**NAMES, "query": "green tea", "config": {"/notes/": {"top_k": 10, "relevance_score": floor}}}
        found = client.post(f"{API}/memories/retrieve", body).json()["namespaces"]["/notes/"]
        assert all(each["score_breakdown"]["relevance"] >= floor for each in found)
        assert "green tea" in [each["memory"]["content"] for each in found]
        assert len(found) == (2 if floor < 0.5 else 1)


@pytest.mark.parametrize(
    "config",
    [
        {"/facts/{actorId}": {}},
        {"facts/": {}},
        {},
        {"/facts/": {"top_k": 0}},
        {"/facts/": {"relevance_score": 2}},
        {"/facts/": {"k": 1}},
        {"/facts/": 5},
    ],
)
def test_wrong_retrieval_configurations_are_refused(client: APIClient, config: dict[str, Any]) -> None:
    refused = client.post(f"{API}/memories/retrieve", {**NAMES, "query": "x", "config": config})
    if config == {}:
        assert refused.status_code in (200, 400)
    else:
        assert refused_field(refused) == "config"
    assert client.post(f"{API}/agents", {"agent_id": "kana", "retrieval_config": config}).status_code == 400


def test_user_ids_are_encoded_in_namespaces(client: APIClient) -> None:
    memory = wrote(client, user_id="U1/ann /x")
    assert memory["namespace"] == "/notes/U1%2Fann%20%2Fx/"
    assert wrote(client, user_id="U1")["namespace"] == "/notes/U1/"
    assert wrote(client, user_id="")["namespace"] == "/notes/kana/"


# Lists


def test_list_filters_and_counts(client: APIClient) -> None:
    wrote(client, "a", kind="fact", tags=["x"], pinned=True)
    wrote(client, "b", kind="preference")
    archived = wrote(client, "c")
    verb(client, archived, "archive")
    for query, expected in (
        ({}, {"a", "b"}), ({"status": "archived"}, {"c"}), ({"status": "all"}, {"a", "b", "c"}), ({"kind": "fact"}, {"a"}), ({"tag": "x"}, {"a"}),
        ({"pinned": "true"}, {"a"}), ({"pinned": "false"}, {"b"}), ({"namespace": "/preferences/"}, {"b"}), ({"user_id": "aoi"}, set()),
    ):  # fmt: skip
        listed = client.get(f"{API}/memories", {**NAMES, **query}).json()["results"]
        assert {memory["content"] for memory in listed} == expected, query
        assert client.get(f"{API}/memories/count", {**NAMES, **query}).json() == {"count": len(expected)}, query
    for wrong in (
        {"status": "lost"},
        {"kind": "x"},
        {"namespace": "/x"},
        {"pinned": "perhaps"},
        {"ordering": "content"},
        {"limit": 0},
        {"limit": 501},
    ):
        assert client.get(f"{API}/memories", {**NAMES, **wrong}).status_code == 400, wrong


@pytest.mark.parametrize("ordering", ["created_at", "strength", "last_accessed_at"])
@pytest.mark.parametrize("sign", ["", "-"])
def test_pages_hold_every_memory_once_in_order(client: APIClient, ordering: str, sign: str) -> None:
    """Also where many share a value, and where the value is NULL."""
    for number in range(23):
        wrote(client, f"memory {number}", strength=[0.5, 1.0, 2.0][number % 3])
    for number in range(0, 23, 4):
        client.post(f"{API}/memories", {**NAMES, "content": f"memory {number}"})
    forwards = walk(client, f"{API}/memories?agent_id=kana&user_id=hiroki&limit=4&ordering={sign}{ordering}")
    rows = [row for page in forwards for row in page["results"]]
    assert [len(page["results"]) for page in forwards] == [4, 4, 4, 4, 4, 3]
    assert len({row["id"] for row in rows}) == 23
    values = [row[ordering] or "" for row in rows]
    assert values == sorted(values, reverse=bool(sign))
    backwards = walk(client, forwards[-1]["previous"], way="previous")
    assert [page["results"] for page in backwards] == [page["results"] for page in forwards[-2::-1]]
    assert forwards[0]["previous"] is None and forwards[-1]["next"] is None


def walk(client: APIClient, address: str | None, way: str = "next") -> list[Any]:
    pages = []
    while address:
        response = client.get(address)
        assert response.status_code == 200, response.content
        pages.append(response.json())
        address = pages[-1][way]
        assert len(pages) < 100, "the pages never end"
    return pages


def test_pages_stay_whole_while_rows_are_added(client: APIClient) -> None:
    first = [wrote(client, f"early {number}")["id"] for number in range(6)]
    page = client.get(f"{API}/memories", {**NAMES, "limit": 3}).json()
    wrote(client, "late")
    rest = client.get(page["next"]).json()
    assert [row["id"] for row in page["results"] + rest["results"]] == first[::-1]


@pytest.mark.slow
def test_pages_end_where_thousands_share_a_value(client: APIClient) -> None:
    """REST framework's own cursor counts ties by an offset of at most 1,000, and then begins again."""
    session = client.post(f"{API}/sessions", NAMES).json()
    del session
    from memoryhub.tenancy.models import Actor
    from strength.domain.memories import content_digest
    from strength.models import MemoryNumbers

    actor = Actor.objects.get()
    rows = [
        Memory(actor=actor, content=str(n), content_digest=content_digest(str(n)), namespace="/notes/hiroki/")
        for n in range(2_300)
    ]
    Memory.objects.bulk_create(rows)
    MemoryNumbers.objects.bulk_create(MemoryNumbers(memory=row, actor=actor, strength=1.0, mark=0.0) for row in rows)
    pages = walk(client, f"{API}/memories?agent_id=kana&user_id=hiroki&limit=500&ordering=-strength")
    assert len({row["id"] for page in pages for row in page["results"]}) == 2_300


# Lists tell the truth


def listed(client: APIClient, **filters: Any) -> set[str]:
    asked: Any = {**NAMES, **filters}
    answer = client.get(f"{API}/memories", asked)
    assert answer.status_code == 200, answer.content
    found = {row["content"] for row in answer.json()["results"]}
    assert client.get(f"{API}/memories/count", asked).json() == {"count": len(found)}
    return found


def test_a_list_with_q_has_what_a_search_finds(client: APIClient) -> None:
    for count, tea in enumerate(("green", "black", "white")):
        wrote(client, f"likes {tea} tea", kind="preference", tags=[tea], namespace=f"/tea/{count}/")
    wrote(client, "rides a bicycle")
    address = f"{API}/memories?agent_id=kana&user_id=hiroki&q=green+tea"

    def listed(filters: str = "") -> list[str]:
        page = client.get(address + filters).json()
        assert (page["next"], page["previous"]) == (None, None)
        return [each["content"] for each in page["results"]]

    assert listed() == texts(search(client, mark_candidates=False)) and listed()[0] == "likes green tea"
    assert listed("&limit=1") == ["likes green tea"]
    assert listed("&tag=black&kind=preference&namespace=/tea/&status=all&pinned=false") == ["likes black tea"]
    assert listed("&created_before=2020-01-01T00:00:00Z") == listed("&pinned=true") == []
    assert not Memory.objects.with_numbers().filter(numbers__candidate_count__gt=0), "a GET changes nothing"


@pytest.mark.parametrize(
    ("filters", "field"),
    [("ordering=strength", "ordering"), ("cursor=x", "cursor"), ("trust=trusted", "trust"), ("limit=201", "limit")],
)
def test_a_list_with_q_refuses_what_a_search_has_not(client: APIClient, filters: str, field: str) -> None:
    wrote(client)
    assert refused_field(client.get(f"{API}/memories?agent_id=kana&user_id=hiroki&q=tea&{filters}")) == field
    assert client.get(f"{API}/memories?agent_id=kana&user_id=hiroki&q=%20").status_code == 400


def test_lists_leave_out_what_has_ended_unless_asked(client: APIClient) -> None:
    now = datetime.now(UTC)
    day = timedelta(days=1)
    wrote(client, "lives in Kyoto", valid_from=(now - 9 * day).isoformat())
    wrote(client, "on holiday", valid_from=(now - 5 * day).isoformat(), valid_to=(now - day).isoformat())
    wrote(client, "works until Friday", valid_to=(now + day).isoformat())
    old = wrote(client, "drives a red car", valid_from=(now - 9 * day).isoformat())
    at = (now - 3 * day).isoformat()
    assert verb(client, old, "supersede", content="drives a bicycle", valid_from=at).status_code == 201
    standing = {"lives in Kyoto", "works until Friday", "drives a bicycle"}
    assert listed(client) == standing
    assert listed(client, ended="true") == standing | {"on holiday", "drives a red car"}
    then = {"lives in Kyoto", "on holiday", "drives a red car", "works until Friday"}
    assert listed(client, as_of=(now - 4 * day).isoformat()) == then


def test_lists_filter_by_every_facet(client: APIClient) -> None:
    wrote(client, "Likes 100% Green Tea", tags=["tea", "drink"], kind="preference", strength=2.5, channel="slack",
          metadata={"app": {"id": 7, "labels": ["x", "y"]}})  # fmt: skip
    wrote(client, "likes cake", tags=["cake"], source="task", pinned=True, namespace="/tastes/{actorId}/")
    tea, cake = {"Likes 100% Green Tea"}, {"likes cake"}
    assert listed(client, text="100% green") == tea
    assert listed(client, tag=["tea", "drink"]) == tea
    assert listed(client, tag=["tea", "cake"]) == set()
    assert listed(client, kind=["preference", "note"]) == tea | cake
    assert listed(client, source="task") == listed(client, pinned="true") == cake
    assert listed(client, channel="slack") == listed(client, min_strength="2.5") == tea
    assert listed(client, max_strength="1.5", channel="") == listed(client, namespace="/tastes/") == cake
    assert listed(client, metadata='{"app": {"labels": ["y"]}}') == tea
    assert listed(client, metadata='{"app": {"id": 8}}') == set()
    numbers = {"$gte": 7, "$lt": 8}
    assert listed(client, metadata=json.dumps({"app": {"id": numbers, "labels": ["y"]}})) == tea
    for unmet in ({"$gt": 7}, {"$lt": "8"}, {"$ne": 7}, {"$eq": [7]}, {"$gt": None}):
        assert tea & listed(client, metadata=json.dumps({"app": {"id": unmet}})) == set(), unmet
    assert listed(client, metadata='{"app": {"labels": {"$eq": ["x", "y"]}}}') == tea
    assert listed(client, metadata='{"it\'s \\"new\\"": {"$ne": 1}}') == tea | cake
    for wrong in ('{"$gt": 7}', '{"app": {"$like": "x"}}'):
        answer = client.get(f"{API}/memories", {**NAMES, "metadata": wrong})
        assert (answer.status_code, refused_field(answer)) == (400, "metadata")
    found = search(client, "likes", filters={"metadata": {"app": {"id": {"$lte": 7}}}})
    assert set(texts(found)) == tea
    assert listed(client, trust="untrusted") == listed(client, used_after="2020-01-01T00:00:00Z") == set()
    assert listed(client, updated_before="2020-01-01T00:00:00Z") == set()
    found = search(client, "likes", filters={"metadata": {"app": {"id": 7}}})
    assert set(texts(found)) == tea


def test_metadata_are_bounded_edited_and_restored(client: APIClient) -> None:
    memory = wrote(client, metadata={"a": 1})
    address = f"{API}/memories/{memory['id']}"
    assert client.patch(address, {"metadata": {"b": "é"}}).json()["metadata"] == {"b": "é"}
    first = client.get(f"{address}/revisions").json()["results"][-1]
    assert client.post(f"{address}/restore", {"revision_id": first["id"]}).json()["metadata"] == {"a": 1}
    long = {"a": "x" * 4_096}
    assert refused_field(client.patch(address, {"metadata": long})) == "metadata"
    assert refused_field(client.post(f"{API}/memories", {**NAMES, "content": "x", "metadata": long})) == "metadata"


def test_search_of_several_users_checks_each(client: APIClient) -> None:
    for user, text in (("hiroki", "likes green tea"), ("aoi", "grows green tea"), ("ken", "sells green tea")):
        where = {"agent_id": "kana", "user_id": user, "namespace": "/tastes/{actorId}/"}
        assert client.post(f"{API}/memories", {**where, "content": text}).status_code == 201
    aoi = {"agent_id": "kana", "user_id": "aoi"}
    assert set(texts(search(client))) == {"likes green tea"}
    filters = {"namespace": "/tastes/{actorId}/"}
    both = search(client, others=[aoi], filters=filters)
    assert set(texts(both)) == {"likes green tea", "grows green tea"}
    assert {each["memory"]["user_id"] for each in both["results"]} == {"hiroki", "aoi"}
    bound = client_with_key(user_id="hiroki")
    for other in (aoi, {"agent_id": "mira", "user_id": "aoi"}):
        refused = bound.post(f"{API}/memories/search", {**NAMES, "query": "tea", "others": [other]})
        assert refused.status_code == 403
    only_kana = client_with_key(agent_ids=["kana"])
    refused = only_kana.post(f"{API}/memories/search", {**NAMES, "query": "tea", "others": [{"agent_id": "mira"}]})
    assert refused.status_code == 403
