"""Vector search over REST against brute force in NumPy: the same memories, the same scores (SPEC M4, M6)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from django.db import connection
from django.db.models import Q
from numpy.typing import NDArray
from pgvector import HalfVector
from rest_framework.test import APIClient

from memoryhub.auth.access import ensure_actor
from memoryhub.embeddings.spaces import active_space
from memoryhub.ids import new_id
from memoryhub.search.bm25 import WORDS_VERSION
from memoryhub.search.index import word_vector
from memoryhub.search.models import EmbeddingSpace
from memoryhub.search.query import build_vector_query, candidates
from memoryhub.tenancy.models import Agent
from strength.domain.memories import content_digest
from strength.models import Memory, MemoryIndex, MemoryNumbers

API = "/api/v1"
NOW = datetime.now(UTC)
KINDS = ("fact", "preference", "note")
TOLERANCE = 1e-5
"""pgvector adds in single precision: over 384 products its cosine is off by up to 2e-6 from NumPy's in double."""
LIMIT = 200
QUERIES = 10


@dataclass(frozen=True)
class Library:
    """Memories as they lie in the database, side by side: row, vector at half precision, strength."""

    rows: Sequence[Memory]
    vectors: NDArray[np.float64]
    strengths: NDArray[np.float64]
    space: EmbeddingSpace


def fill(count: int, seed: int = 7) -> Library:
    """Write memories straight into the tables: near each other, so that relevance spreads over its whole range."""
    random = np.random.default_rng(seed)
    space = active_space()
    agent = Agent.objects.create(agent_id="kana")
    actor = ensure_actor(agent, "hiroki")
    centres = random.normal(size=(8, space.dimension))
    noise = random.uniform(0.3, 3.0, size=(count, 1)) * random.normal(size=(count, space.dimension))
    vectors = centres[random.integers(0, 8, size=count)] + noise
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    strengths = random.uniform(0.1, 2.5, size=count)
    rows = [
        Memory(
            id=new_id(),
            actor=actor,
            content=f"memory {number}",
            content_digest=content_digest(f"memory {number}"),
            namespace=f"/shelf-{number % 5}/hiroki/",
            kind=KINDS[number % 3],
            tags=["odd"] if number % 2 else ["even", "calm"],
            created_at=NOW - timedelta(hours=number),
            updated_at=NOW,
            valid_from=NOW - timedelta(days=400) if number % 7 else NOW - timedelta(days=10),
            valid_to=NOW - timedelta(days=20) if number % 11 == 0 and number % 7 else None,
        )
        for number in range(count)
    ]
    Memory.objects.bulk_create(rows)
    MemoryNumbers.objects.bulk_create(
        MemoryNumbers(memory=row, actor=actor, strength=strength, mark=0.0)
        for row, strength in zip(rows, strengths, strict=True)
    )
    words = word_vector(Counter())
    MemoryIndex.objects.bulk_create(
        MemoryIndex(
            actor=actor, memory=row, space=space, vector=HalfVector(vector), words=words, words_version=WORDS_VERSION
        )
        for row, vector in zip(rows, vectors, strict=True)
    )
    with connection.cursor() as cursor:  # else plans are for the few rows of the test before
        cursor.execute("ANALYZE strength_memory, strength_memorynumbers, strength_memoryindex")
    MemoryIndex.repair()
    return Library(rows, stored_vectors(rows), strengths, space)


def stored_vectors(rows: Sequence[Memory]) -> NDArray[np.float64]:
    found = dict(MemoryIndex.objects.values_list("memory_id", "vector"))
    return np.array([found[row.id] for row in rows], dtype=np.float16).astype(np.float64)


def cosines(library: Library, query: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each memory's cosine to the query, which the database sees at half precision too."""
    seen = (query / np.linalg.norm(query)).astype(np.float16).astype(np.float64)
    return library.vectors @ seen / (np.linalg.norm(library.vectors, axis=1) * np.linalg.norm(seen))


def relevances(library: Library, cosine: NDArray[np.float64]) -> NDArray[np.float64]:
    bounds = library.space.bounds
    return np.clip((cosine - bounds.cosine_low) / (bounds.cosine_high - bounds.cosine_low), 0, 1)


def totals(library: Library, relevance: NDArray[np.float64]) -> NDArray[np.float64]:
    ages = np.array([(datetime.now(UTC) - row.created_at).total_seconds() / 86400 for row in library.rows])
    return 0.5 * relevance + 0.3 * np.minimum(1, library.strengths / 2) + 0.2 * 0.5 ** (ages / 30)


def search(client: APIClient, query: NDArray[np.float64], **values: Any) -> Any:
    body = {
        "agent_id": "kana",
        "user_id": "hiroki",
        "embedding": query.tolist(),
        "similarity_threshold": -1,
        "limit": LIMIT,
        "candidate_limit": 1000,
        **values,
    }
    response = client.post(f"{API}/memories/search", body)
    assert response.status_code == 200, response.content
    return response.json()


def queries(library: Library, seed: int = 11) -> list[NDArray[np.float64]]:
    random = np.random.default_rng(seed)
    near = library.vectors[random.integers(0, len(library.rows), size=QUERIES)]
    return list(near + 0.02 * random.normal(size=near.shape))


def check(library: Library, answer: Any, query: NDArray[np.float64], mask: NDArray[np.bool_], limit: int) -> None:
    """Fail where an answer lacks a memory that is better than one it has, by more than the tolerance."""
    cosine = cosines(library, query)
    relevance = relevances(library, cosine)
    places = {str(row.id): place for place, row in enumerate(library.rows)}
    found = [places[result["memory"]["id"]] for result in answer["results"]]
    allowed = np.flatnonzero(mask)
    assert answer["candidate_count"] == len(allowed)
    assert set(found) <= set(allowed.tolist()), "a memory that the filters leave out"
    assert len(found) == len(set(found)) == min(limit, len(allowed))
    # Stage 1: the 1,000 most relevant, ties in doubt; stage 2: the best of these by their whole score.
    score = totals(library, relevance)
    cut = min(np.sort(relevance[allowed])[::-1][:1000], default=0.0)
    nominees = allowed[relevance[allowed] > cut + TOLERANCE]
    worst = min(score[found], default=0.0)
    better = {int(place) for place in nominees if score[place] > worst + TOLERANCE}
    recall = len(better & set(found)) / len(better) if better else 1.0
    assert recall == 1.0, f"{len(better - set(found))} better memories are missing"
    for result, place in zip(answer["results"], found, strict=True):
        parts = result["score_breakdown"]
        assert parts["similarity_raw"] == pytest.approx(cosine[place], abs=TOLERANCE)
        assert parts["relevance"] == pytest.approx(relevance[place], abs=TOLERANCE / 0.35)
        assert result["final_score"] == pytest.approx(score[place], abs=TOLERANCE)
    assert [result["final_score"] for result in answer["results"]] == sorted(
        (result["final_score"] for result in answer["results"]), reverse=True
    )


@pytest.mark.parametrize("count", [10, 1_000, pytest.param(5_000, marks=pytest.mark.slow)])
def test_vector_search_is_exact(client: APIClient, count: int) -> None:
    library = fill(count)
    everything = np.array([row.valid_to is None or row.valid_to > NOW for row in library.rows])
    for query in queries(library):
        check(library, search(client, query), query, everything, LIMIT)


@pytest.mark.slow
def test_filtered_vector_search_is_exact(client: APIClient) -> None:
    library = fill(2_000)
    rows = library.rows
    month_ago = NOW - timedelta(days=30)

    def held(row: Memory, at: datetime) -> bool:
        return (row.valid_from is None or row.valid_from <= at) and (row.valid_to is None or row.valid_to > at)

    filters: list[tuple[dict[str, Any], Any]] = [
        ({"kind": "fact"}, lambda row: row.kind == "fact" and held(row, NOW)),
        ({"kind": ["fact", "note"]}, lambda row: row.kind in ("fact", "note") and held(row, NOW)),
        ({"namespace": "/shelf-2/{actorId}/"}, lambda row: row.namespace == "/shelf-2/hiroki/" and held(row, NOW)),
        ({"tags": ["even", "calm"]}, lambda row: "even" in row.tags and held(row, NOW)),
        ({"tags": ["odd"], "kind": "note"}, lambda row: "odd" in row.tags and row.kind == "note" and held(row, NOW)),
        (
            {"created_after": (NOW - timedelta(days=20)).isoformat()},
            lambda row: row.created_at >= NOW - timedelta(days=20) and held(row, NOW),
        ),
        (
            {"created_before": (NOW - timedelta(days=20)).isoformat()},
            lambda row: row.created_at <= NOW - timedelta(days=20) and held(row, NOW),
        ),
        ({"as_of": month_ago.isoformat()}, lambda row: held(row, month_ago)),
        ({"as_of": month_ago.isoformat(), "kind": "fact"}, lambda row: row.kind == "fact" and held(row, month_ago)),
        ({"kind": "episode"}, lambda row: False),
    ]
    assert any(row.valid_to for row in rows) and any(row.valid_from and row.valid_from > month_ago for row in rows)
    for wanted, rule in filters:
        mask = np.array([rule(row) for row in rows], dtype=bool)
        assert mask.any() or wanted == {"kind": "episode"}
        for query in queries(library)[:3]:
            check(library, search(client, query, filters=wanted), query, mask, LIMIT)


def test_most_similar_come_first_among_the_clearly_relevant(client: APIClient) -> None:
    """Above the space's upper bound every memory is fully relevant; the best cosines must still be the nominees."""
    library = fill(1_000)
    random = np.random.default_rng(3)
    target = random.normal(size=library.space.dimension)
    target /= np.linalg.norm(target)
    actor = library.rows[0].actor
    close: list[tuple[UUID, float]] = []
    for number, spread in enumerate(random.permutation(np.linspace(0.0, 0.04, 120))):
        vector = target + spread * random.normal(size=target.shape)
        vector /= np.linalg.norm(vector)
        row = Memory.objects.create(
            id=new_id(),
            actor=actor,
            content=f"close {number}",
            content_digest=content_digest(f"close {number}"),
            namespace="/close/x/",
            created_at=NOW,
            updated_at=NOW,
        )
        MemoryNumbers.objects.create(memory=row, actor=actor, strength=1.0, mark=0.0)
        MemoryIndex.objects.create(
            actor=actor,
            memory=row,
            space=library.space,
            vector=HalfVector(vector),
            words=word_vector(Counter()),
            words_version=WORDS_VERSION,
            namespace=row.namespace,
            created_at=row.created_at,
        )
        close.append((row.id, float(vector @ target)))
    fully = [pair for pair in close if pair[1] > library.space.cosine_high]
    assert len(fully) > 60, "more than one search nominates"
    found = search(client, target, limit=10, candidate_limit=10)
    best = {str(identity) for identity, _ in sorted(close, key=lambda pair: -pair[1])[:10]}
    assert {result["memory"]["id"] for result in found["results"]} == best


@pytest.mark.parametrize("bad", [[], [1.0], [0.1] * 383, [0.1] * 385])
def test_vector_of_another_dimension_is_refused(client: APIClient, bad: list[float]) -> None:
    fill(3)
    body = {"agent_id": "kana", "user_id": "hiroki", "embedding": bad}
    response = client.post(f"{API}/memories/search", body)
    assert response.status_code == 400
    assert response.json()["errors"][0]["field"].startswith("embedding")


def test_given_vector_is_what_a_memory_is_found_by(client: APIClient) -> None:
    space = active_space()
    vector = np.random.default_rng(5).normal(size=space.dimension)
    names = {"agent_id": "kana", "user_id": "hiroki"}
    written = client.post(
        f"{API}/memories", {**names, "content": "words of no use", "embedding": (vector * 1e20).tolist()}
    )
    assert written.status_code == 201
    client.post(f"{API}/memories", {**names, "content": "another"})
    found = search(client, vector, limit=1)
    assert found["results"][0]["memory"]["id"] == written.json()["id"]
    assert found["results"][0]["similarity"] == pytest.approx(1.0, abs=1e-3)


def forget_statistics(table: str, columns: Sequence[str]) -> None:
    """Make the planner know nothing of a table. Before PostgreSQL 18 only a superuser can."""
    with connection.cursor() as cursor:
        if connection.pg_version >= 180_000:
            cursor.execute("SELECT pg_clear_relation_stats('public', %s)", [table])
            for column in columns:
                cursor.execute("SELECT pg_clear_attribute_stats('public', %s, %s, false)", [table, column])
        else:
            cursor.execute("UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE oid = %s::regclass", [table])
            cursor.execute("DELETE FROM pg_statistic WHERE starelid = %s::regclass", [table])


@pytest.mark.django_db
def test_rows_are_counted_once_where_the_planner_knows_nothing_of_them() -> None:
    """After an import, before the next ANALYZE: the planner expects a row or two of the actor."""
    library = fill(300)
    forget_statistics("strength_memoryindex", ("actor_id", "space_id"))
    plans: list[Any] = []

    def explain(execute: Any, sql: str, params: Any, *rest: Any) -> Any:
        if sql.lstrip().startswith("WITH scored"):
            with connection.connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params)
                plans.append(cursor.fetchone()[0][0]["Plan"])
        return execute(sql, params, *rest)

    where = Q(actor_id=library.rows[0].actor_id)
    query = build_vector_query(library.vectors[0].tolist(), space=library.space)
    with connection.execute_wrapper(explain):
        found = candidates(MemoryIndex, where, query, similarity_threshold=0.0, word_floor=0.0, limit=200)

    def nodes(plan: Any) -> Iterator[Any]:
        yield plan
        for each in plan.get("Plans", ()):
            yield from nodes(each)

    assert found.count > 100
    counting = [each for each in nodes(plans[0]) if each["Node Type"] == "Aggregate"]
    assert [each["Actual Loops"] for each in counting] == [1]
