"""Finding memories that say the same as a text, word for word or in near words (SPEC M8, S5)."""

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
from strength.domain.merges import Side, kept_first
from strength.models import Memory, MemoryIndex, SleepRun

MOST_CANDIDATES = 8
"""The most relevant memories that are compared word for word: what says the same is among the first."""

WORD_FLOOR = 0.3
SIMILARITY_FLOOR = 0.8
"""Below both, two texts of one sentence have little in common."""


@dataclass(frozen=True)
class NearDuplicate:
    """A memory that says the same, and how nearly, in [0, 1]."""

    memory: Memory
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
    """Return the actor's memories of a namespace that hold now and say the same as a text, the nearest first.

    No network: the vector is the caller's, or none.
    """
    query = build_query(text, space=space, embed=lambda _: vector)
    rows = MemoryIndex.objects.filter(
        Q(valid_to=None) | Q(valid_to__gt=now),
        actor_id=actor_id, namespace=namespace, status__in=among,
    ).exclude(memory_id__in=list(besides))  # fmt: skip
    found = candidates(
        rows, query, similarity_threshold=SIMILARITY_FLOOR, word_floor=WORD_FLOOR, limit=MOST_CANDIDATES
    ).best
    memories = (
        Memory.objects.of([actor_id]).select_related("numbers").in_bulk([each.owner_id for each in found])
    )
    return _near(text, [memories[each.owner_id] for each in found if each.owner_id in memories])


def _near(text: str, memories: Sequence[Memory]) -> list[NearDuplicate]:
    if not memories:
        return []
    written, prints = fingerprint(text), [fingerprint(memory.content) for memory in memories]
    weights = idf(written.terms.union(*(each.terms for each in prints)))
    scored = [
        NearDuplicate(memory, likeness(written, each, weights))
        for memory, each in zip(memories, prints, strict=True)
    ]
    return sorted((each for each in scored if each.likeness >= NEAR), key=lambda each: -each.likeness)


ALIKE: Final = ("kind", "scope_level", "scope_domain", "scope_project", "valid_from", "valid_to")
"""What must be the same as well: one that fewer see, or that ends, cannot stand for the other."""


@dataclass(frozen=True)
class Pair:
    """Two memories that say the same: the one that would stay, the one it would absorb, and how alike they are."""

    kept: Memory
    absorbed: Memory
    likeness: float


def to_compare(run: SleepRun, most: int) -> list[Memory]:
    """Return the next memories that have changed since the last sleep, in the order of their changes."""
    rows = Memory.objects.of([run.actor_id]).active().filter(Q(valid_to=None) | Q(valid_to__gt=run.now))
    if run.compared_at is not None:
        later = Q(updated_at__gt=run.compared_at)
        if run.after is not None:
            later |= Q(updated_at=run.compared_at, id__gt=run.after)
        rows = rows.filter(later)
    return list(rows.select_related("numbers").order_by("updated_at", "id")[:most])


def pairs_among(actor: Actor, memories: Sequence[Memory], *, now: datetime) -> list[Pair]:
    """Return for each memory the one that says the same, where there is one; reads only, and asks no provider."""
    space = active_space()
    vectors = dict(
        MemoryIndex.objects.filter(actor_id=actor.id, space=space, memory__in=memories).values_list(
            "memory_id", "vector"
        )
    )
    pairs = []
    for memory in memories:
        vector = vectors.get(memory.pk)
        alike = near_duplicates(
            actor_id=actor.id, namespace=memory.namespace, text=memory.content, space=space,
            vector=vector, now=now, among=[Status.ACTIVE], besides=[memory.pk],
        )  # fmt: skip
        same = [each for each in alike if _stand_for_each_other(memory, each.memory)]
        pairs += [_pair(memory, each.memory, each.likeness) for each in same[:1]]
    return pairs


def _stand_for_each_other(one: Memory, other: Memory) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in ALIKE)


def _pair(one: Memory, other: Memory, likeness: float) -> Pair:
    memories = {memory.pk: memory for memory in (one, other)}
    first, second = kept_first(side(one), side(other))
    return Pair(memories[first.key], memories[second.key], likeness)


def side(memory: Memory) -> Side:
    """Return what decides which of two memories stays."""
    return Side(memory.pk, memory.locked, memory.pinned, memory.numbers.strength, memory.created_at)


def would_stay(one: Memory, other: Memory) -> tuple[Memory, Memory]:
    """Return the two with the one that stays first, unless a person says otherwise."""
    first, _second = kept_first(side(one), side(other))
    return (one, other) if first.key == one.pk else (other, one)


def likeness_of(one: str, other: str) -> float:
    """Return how alike two texts are, in [0, 1]."""
    first, second = fingerprint(one), fingerprint(other)
    return min(1.0, max(0.0, likeness(first, second, idf(first.terms | second.terms))))
