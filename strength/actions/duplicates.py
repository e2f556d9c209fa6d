"""Find near duplicates of texts, and pairs of duplicate memories (SPEC M8, S5)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Q, QuerySet

from memoryhub.embeddings.spaces import active_space
from memoryhub.search.bm25 import QueryWords
from memoryhub.search.index import idf
from memoryhub.search.models import EmbeddingSpace
from memoryhub.search.query import build_queries, vector_text, words_text
from memoryhub.search.query_text import QueryText
from memoryhub.tenancy.models import Actor
from strength.domain.duplicates import DUPLICATE_THRESHOLD, Fingerprint, fingerprint, likeness
from strength.domain.memories import Status
from strength.domain.sleep import keep_rank
from strength.models import Memory, MemoryIndex, MemoryRevision, SleepState
from strength.sql import QUERIES, run_query

MAX_CANDIDATES: Final = 8
"""Most relevant memories to compare by words."""

# Two texts below both floors have too little in common.
WORD_FLOOR: Final = 0.3
SIMILARITY_FLOOR: Final = 0.8

NO_WORDS: Final = QueryWords({}, 0.0)

SAME_SCOPE: Final = ("scope_level", "scope_domain", "scope_project", "valid_from", "valid_to")
"""Fields that must be equal for a merge, so that the kept memory has the same visibility and validity."""


COMPARED: Final = ("content", "kind", "namespace", *SAME_SCOPE)
"""Fields that a comparison of two memories depends on; others, such as tags, leave a proposal open."""


def new_wordings(memory: Any, version: Any) -> QuerySet[MemoryRevision]:
    """Return the revisions of a memory after a version that change one of COMPARED; also for outer references."""
    rows = MemoryRevision.objects.filter(memory_id=memory, number__gt=version)
    return rows.filter(changed_after__has_any_keys=list(COMPARED))


@dataclass(frozen=True)
class Pair:
    """Two memories to merge, and their likeness in [0, 1]."""

    kept: Memory
    absorbed: Memory
    likeness: float


@dataclass(frozen=True)
class DuplicateQuery:
    """A text to search for duplicates of, in its namespace."""

    text: str
    namespace: str
    vector: Sequence[float] | None
    excluded_ids: Collection[UUID] = ()


def near_duplicates(
    queries: Sequence[DuplicateQuery],
    *,
    actor_id: UUID,
    space: EmbeddingSpace,
    now: datetime,
    statuses: Sequence[Status],
) -> list[list[tuple[Memory, float]]]:
    """Return for each text the valid memories with the same content, with likenesses, the nearest first.

    Calls no provider.
    """
    nearest = _nearest(queries, actor_id=actor_id, space=space, now=now, statuses=statuses)
    prints = {memory.pk: fingerprint(memory.content) for memories in nearest for memory in memories}
    query_prints = [
        fingerprint(query.text) if memories else None for query, memories in zip(queries, nearest, strict=True)
    ]
    weights = idf(
        frozenset().union(*(text_print.terms for text_print in (*prints.values(), *query_prints) if text_print))
    )
    return [
        _compare_candidates(text, [(memory, prints[memory.pk]) for memory in memories], weights) if text else []
        for text, memories in zip(query_prints, nearest, strict=True)
    ]


def _compare_candidates(
    text: Fingerprint, candidates: Sequence[tuple[Memory, Fingerprint]], idf_of_terms: Mapping[int, float]
) -> list[tuple[Memory, float]]:
    # Unknown terms weigh as much as the rarest of those compared.
    weights = {
        term: idf_of_terms[term] for term in text.terms.union(*(text_print.terms for _memory, text_print in candidates))
    }
    scores = [(memory, likeness(text, text_print, weights)) for memory, text_print in candidates]
    return sorted((score for score in scores if score[1] >= DUPLICATE_THRESHOLD), key=lambda score: -score[1])


def _nearest(
    duplicate_queries: Sequence[DuplicateQuery],
    *,
    actor_id: UUID,
    space: EmbeddingSpace,
    now: datetime,
    statuses: Sequence[Status],
) -> list[list[Memory]]:
    queries = build_queries([(QueryText.of(query.text), query.vector) for query in duplicate_queries], space=space)
    words = [query.words or NO_WORDS for query in queries]
    values = {
        "actor_id": actor_id,
        "space_id": space.pk,
        "now": now,
        "statuses": [str(status) for status in statuses],
        "namespaces": [query.namespace for query in duplicate_queries],
        "excluded_ids": [f"{{{','.join(map(str, query.excluded_ids))}}}" for query in duplicate_queries],
        "vectors": [query.vector and vector_text(query.vector) for query in queries],
        "words": [words_text(query_words) for query_words in words],
        "reachable": [float(query_words.normalizer) for query_words in words],
        "lows": [query.bounds.cosine_low for query in queries],
        "highs": [query.bounds.cosine_high for query in queries],
        "weights": [query.bounds.vector_weight for query in queries],
        "similarity_floor": SIMILARITY_FLOOR,
        "word_floor": WORD_FLOOR,
        "limit": MAX_CANDIDATES,
    }
    rows = run_query(QUERIES["nearest_of_each"], values)
    memories = Memory.objects.of([actor_id]).select_related("numbers", "actor__sleep_state")
    by_id = memories.in_bulk({memory_id for _position, memory_id in rows})
    nearest: list[list[Memory]] = [[] for _ in duplicate_queries]
    for position, memory_id in rows:
        if memory_id in by_id:
            nearest[position - 1].append(by_id[memory_id])
    return nearest


def memories_to_compare(state: SleepState, limit: int, *, now: datetime) -> list[Memory]:
    """Return the next memories that were not compared yet, in the order of their changes."""
    rows = Memory.objects.of([state.actor_id]).active().filter(Q(valid_to=None) | Q(valid_to__gt=now))
    if state.compared_until is not None:
        later = Q(updated_at__gt=state.compared_until)
        if state.compared_after is not None:
            later |= Q(updated_at=state.compared_until, id__gt=state.compared_after)
        rows = rows.filter(later)
    return list(rows.select_related("numbers", "actor__sleep_state").order_by("updated_at", "id")[:limit])


def duplicate_pairs(actor: Actor, memories: Sequence[Memory], *, now: datetime) -> list[Pair]:
    """Return each memory's pair with its nearest duplicate, where it has one; reads only, and calls no provider."""
    space = active_space()
    rows = MemoryIndex.objects.filter(actor_id=actor.id, space=space, memory__in=memories)
    vectors = dict(rows.values_list("memory_id", "vector"))
    queries = [
        DuplicateQuery(memory.content, memory.namespace, vectors.get(memory.pk), excluded_ids=[memory.pk])
        for memory in memories
    ]
    duplicates = near_duplicates(queries, actor_id=actor.id, space=space, now=now, statuses=[Status.ACTIVE])
    pairs = []
    for memory, matches in zip(memories, duplicates, strict=True):
        for other, score in matches:
            if all(getattr(memory, name) == getattr(other, name) for name in ("kind", *SAME_SCOPE)):
                pairs.append(Pair(*kept_and_absorbed(memory, other), score))
                break
    return pairs


def kept_and_absorbed(one: Memory, other: Memory) -> tuple[Memory, Memory]:
    """Return the memory that a merge keeps, unless a person chooses otherwise, and the one that it absorbs."""

    def rank(memory: Memory) -> Any:
        return keep_rank(
            locked=memory.locked,
            pinned=memory.pinned,
            strength=memory.strength,
            created_at=memory.created_at,
            key=memory.pk,
        )

    return (one, other) if rank(one) <= rank(other) else (other, one)


def text_likeness(one: str, other: str) -> float:
    first, second = fingerprint(one), fingerprint(other)
    return min(1.0, max(0.0, likeness(first, second, idf(first.terms | second.terms))))
