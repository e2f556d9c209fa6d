"""Find memories that say the same as a text, and pairs of them (SPEC M8, S5)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Q

from memoryhub.embeddings.spaces import active_space
from memoryhub.search.index import idf
from memoryhub.search.models import EmbeddingSpace
from memoryhub.search.query import build_query, candidates
from memoryhub.tenancy.models import Actor
from strength.domain.duplicates import NEAR, fingerprint, likeness
from strength.domain.memories import Status
from strength.domain.sleep import Side, kept_first
from strength.models import Memory, MemoryIndex, SleepRun

MOST_CANDIDATES: Final = 8
"""Memories that are compared word for word: duplicates are among the most relevant."""

# Two texts below both floors have too little in common.
WORD_FLOOR: Final = 0.3
SIMILARITY_FLOOR: Final = 0.8

EQUAL_IN_PAIRS: Final = ("kind", "scope_level", "scope_domain", "scope_project", "valid_from", "valid_to")
"""A memory that fewer see, or that ends, cannot replace another."""


@dataclass(frozen=True)
class NearDuplicate:
    """A memory that says the same as a text, and its likeness in [0, 1]."""

    memory: Memory
    likeness: float


@dataclass(frozen=True)
class Pair:
    """Two memories to merge, and their likeness in [0, 1]."""

    kept: Memory
    absorbed: Memory
    likeness: float


def near_duplicates(
    *,
    actor_id: UUID,
    namespace: str,
    text: str,
    space: EmbeddingSpace,
    vector: Sequence[float] | None,
    now: datetime,
    among: Sequence[Status],
    besides: Collection[UUID] = (),
) -> list[NearDuplicate]:
    """Return the namespace's valid memories that say the same as a text, the nearest first; calls no provider."""
    query = build_query(text, space=space, embed=lambda _: vector)
    rows = MemoryIndex.objects.filter(
        Q(valid_to=None) | Q(valid_to__gt=now),
        actor_id=actor_id, namespace=namespace, status__in=among,
    ).exclude(memory_id__in=list(besides))  # fmt: skip
    found = candidates(
        rows, query, similarity_threshold=SIMILARITY_FLOOR, word_floor=WORD_FLOOR, limit=MOST_CANDIDATES
    ).best
    by_id = Memory.objects.of([actor_id]).select_related("numbers").in_bulk([each.owner_id for each in found])
    memories = [by_id[each.owner_id] for each in found if each.owner_id in by_id]
    if not memories:
        return []
    written, prints = fingerprint(text), [fingerprint(memory.content) for memory in memories]
    weights = idf(written.terms.union(*(each.terms for each in prints)))
    scored = [
        NearDuplicate(memory, likeness(written, each, weights))
        for memory, each in zip(memories, prints, strict=True)
    ]
    return sorted((each for each in scored if each.likeness >= NEAR), key=lambda each: -each.likeness)


def to_compare(run: SleepRun, most: int) -> list[Memory]:
    """Return the next memories that changed since the last sleep, in the order of their changes."""
    rows = Memory.objects.of([run.actor_id]).active().filter(Q(valid_to=None) | Q(valid_to__gt=run.now))
    if run.compared_at is not None:
        later = Q(updated_at__gt=run.compared_at)
        if run.after is not None:
            later |= Q(updated_at=run.compared_at, id__gt=run.after)
        rows = rows.filter(later)
    return list(rows.select_related("numbers").order_by("updated_at", "id")[:most])


def pairs_among(actor: Actor, memories: Sequence[Memory], *, now: datetime) -> list[Pair]:
    """Return each memory's pair with its nearest duplicate, where it has one; reads only, and calls no provider."""
    space = active_space()
    rows = MemoryIndex.objects.filter(actor_id=actor.id, space=space, memory__in=memories)
    vectors = dict(rows.values_list("memory_id", "vector"))
    pairs = []
    for memory in memories:
        found = near_duplicates(
            actor_id=actor.id, namespace=memory.namespace, text=memory.content, space=space,
            vector=vectors.get(memory.pk), now=now, among=[Status.ACTIVE], besides=[memory.pk],
        )  # fmt: skip
        for each in found:
            if all(getattr(memory, name) == getattr(each.memory, name) for name in EQUAL_IN_PAIRS):
                pairs.append(Pair(*kept_and_absorbed(memory, each.memory), each.likeness))
                break
    return pairs


def side(memory: Memory) -> Side:
    return Side(memory.pk, memory.locked, memory.pinned, memory.numbers.strength, memory.created_at)


def kept_and_absorbed(one: Memory, other: Memory) -> tuple[Memory, Memory]:
    """Return the memory that a merge keeps, unless a person chooses otherwise, and the one that it absorbs."""
    first, _second = kept_first(side(one), side(other))
    return (one, other) if first.key == one.pk else (other, one)


def likeness_of(one: str, other: str) -> float:
    """Return the likeness of two texts, in [0, 1]."""
    first, second = fingerprint(one), fingerprint(other)
    return min(1.0, max(0.0, likeness(first, second, idf(first.terms | second.terms))))
