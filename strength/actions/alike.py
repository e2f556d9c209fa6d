"""Finding memories that say the same as a text, word for word or in near words (SPEC M8, S5)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from memoryhub.search.expressions import candidates
from memoryhub.search.models import EmbeddingSpace
from memoryhub.search.query import build_query
from memoryhub.search.statistics import idf
from strength.domain.duplicates import NEAR, fingerprint, likeness
from strength.domain.memories import Status
from strength.models import Memory, MemoryIndex

NOMINEES = 8
"""The most relevant memories that are compared word for word: what says the same is among the first."""

WORD_FLOOR = 0.3
SIMILARITY_FLOOR = 0.8
"""Below both, two texts of one sentence have little in common."""


@dataclass(frozen=True)
class Alike:
    """A memory that says the same, and how nearly, in [0, 1]."""

    memory: Memory
    likeness: float


def alike_memories(
    *,
    actor_id: UUID,
    namespace: str,
    text: str,
    space: EmbeddingSpace,
    vector: Sequence[float] | None,
    now: datetime,
    among: Sequence[Status],
    besides: Collection[UUID] = (),
) -> list[Alike]:
    """Return the actor's memories of a namespace that hold now and say the same as a text, the nearest first.

    No network: the vector is the caller's, or none.
    """
    query = build_query(text, space=space, embed=lambda _: vector)
    rows = MemoryIndex.objects.filter(
        Q(valid_to=None) | Q(valid_to__gt=now),
        actor_id=actor_id, namespace=namespace, status__in=among,
    ).exclude(memory_id__in=list(besides))  # fmt: skip
    found = candidates(
        rows, query, similarity_threshold=SIMILARITY_FLOOR, word_floor=WORD_FLOOR, limit=NOMINEES
    ).best
    memories = (
        Memory.objects.of([actor_id]).select_related("numbers").in_bulk([each.owner_id for each in found])
    )
    return _near(text, [memories[each.owner_id] for each in found if each.owner_id in memories])


def _near(text: str, memories: Sequence[Memory]) -> list[Alike]:
    if not memories:
        return []
    written, prints = fingerprint(text), [fingerprint(memory.content) for memory in memories]
    weights = idf(written.terms.union(*(each.terms for each in prints)))
    scored = [
        Alike(memory, likeness(written, each, weights)) for memory, each in zip(memories, prints, strict=True)
    ]
    return sorted((each for each in scored if each.likeness >= NEAR), key=lambda each: -each.likeness)
