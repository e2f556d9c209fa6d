"""Find memories that say the same as a text, and pairs of them (SPEC M8, S5)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Q

from memoryhub.embeddings.spaces import active_space
from memoryhub.search.index import idf
from memoryhub.search.models import EmbeddingSpace
from memoryhub.search.query import build_query
from memoryhub.tenancy.models import Actor
from strength.actions.search import nearest_memories
from strength.domain.duplicates import NEAR, fingerprint, likeness
from strength.domain.memories import Status
from strength.domain.sleep import keep_rank
from strength.models import Memory, MemoryIndex, SleepRun

MOST_CANDIDATES: Final = 8
"""Memories that are compared word for word: duplicates are among the most relevant."""

# Two texts below both floors have too little in common.
WORD_FLOOR: Final = 0.3
SIMILARITY_FLOOR: Final = 0.8

SAME_SCOPE: Final = ("scope_level", "scope_domain", "scope_project", "valid_from", "valid_to")
"""What must be equal to merge: a memory that fewer see, or that ends, cannot replace the other."""


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
) -> list[tuple[Memory, float]]:
    """Return valid memories that say the same as a text, with likenesses, the nearest first. Calls no provider."""
    query = build_query(text, space=space, embed=lambda _: vector)
    where = (Q(valid_to=None) | Q(valid_to__gt=now)) & Q(
        actor_id=actor_id, namespace=namespace, status__in=among
    )
    nearest = nearest_memories(
        where & ~Q(memory_id__in=besides), query, limit=MOST_CANDIDATES,
        similarity_threshold=SIMILARITY_FLOOR, word_floor=WORD_FLOOR,
    )  # fmt: skip
    if not nearest:
        return []
    memories = [memory for memory, _relevance in nearest]
    written, prints = fingerprint(text), [fingerprint(memory.content) for memory in memories]
    weights = idf(written.terms.union(*(each.terms for each in prints)))
    scores = [likeness(written, each, weights) for each in prints]
    near = [each for each in zip(memories, scores, strict=True) if each[1] >= NEAR]
    return sorted(near, key=lambda each: -each[1])


def to_compare(run: SleepRun, most: int) -> list[Memory]:
    """Return the next memories that changed since the last sleep, in the order of their changes."""
    rows = Memory.objects.of([run.actor_id]).active().filter(Q(valid_to=None) | Q(valid_to__gt=run.now))
    if run.compared_at is not None:
        later = Q(updated_at__gt=run.compared_at)
        if run.after is not None:
            later |= Q(updated_at=run.compared_at, id__gt=run.after)
        rows = rows.filter(later)
    return list(rows.select_related("numbers", "actor__sleep_state").order_by("updated_at", "id")[:most])


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
        for other, alike in found:
            if all(getattr(memory, name) == getattr(other, name) for name in ("kind", *SAME_SCOPE)):
                pairs.append(Pair(*kept_and_absorbed(memory, other), alike))
                break
    return pairs


def kept_and_absorbed(one: Memory, other: Memory) -> tuple[Memory, Memory]:
    """Return the memory that a merge keeps, unless a person chooses otherwise, and the one that it absorbs."""

    def rank(memory: Memory) -> Any:
        return keep_rank(
            locked=memory.locked, pinned=memory.pinned, strength=memory.strength,
            created_at=memory.created_at, key=memory.pk,
        )  # fmt: skip

    return (one, other) if rank(one) <= rank(other) else (other, one)


def likeness_of(one: str, other: str) -> float:
    first, second = fingerprint(one), fingerprint(other)
    return min(1.0, max(0.0, likeness(first, second, idf(first.terms | second.terms))))
