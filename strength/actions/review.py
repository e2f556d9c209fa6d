"""What waits for a person: in which order, how much of it, and what is near it already (SPEC W2). Reads alone."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Case, F, FloatField, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce, Least

from memoryhub.embeddings.spaces import active_space
from memoryhub.search.query import build_query, candidates
from memoryhub.tenancy.domain import actor_id
from memoryhub.tenancy.policies import effective_policy
from strength.domain.memories import Status
from strength.domain.merges import MergeState
from strength.domain.policy import SearchPolicy
from strength.domain.review import Item, Order, Sort
from strength.models import Memory, MemoryIndex, Merge

MOST_COUNTED: Final = 1_000
MOST_NEAR: Final = 5
LEAST_NEAR: Final = 0.05  # below it two texts share little but a word that everybody uses
LONGEST_COMPARED: Final = 2_000
"""Characters of a waiting text that others are looked for by."""

CORRECTIONS_WEIGH: Final = 3.0


@dataclass(frozen=True)
class Narrowed:
    """Which part of what waits is asked for; empty values do not narrow."""

    agent_id: str = ""
    user_id: str = ""
    sort: Sort | None = None
    order: Order = Order.OLDEST


@dataclass(frozen=True)
class Near:
    """A memory that is believed already and near one that waits."""

    memory: Memory
    relevance: float
    similarity: float | None


def next_item(narrowed: Narrowed, *, now: datetime, besides: Collection[UUID] = ()) -> Item | None:
    """Return what comes first of all that waits, besides what was skipped."""
    firsts = [
        (row["comes"], row["created_at"], str(row["pk"]), Item(_sort_of(row), row["pk"]))
        for rows in _waiting(narrowed, now)
        if (row := rows.exclude(pk__in=list(besides)).order_by("comes", "created_at", "pk").first())
    ]
    return min(firsts, key=lambda first: first[:3])[3] if firsts else None


def count_waiting(narrowed: Narrowed, *, now: datetime, among: Collection[UUID] | None = None) -> int:
    """Return how much waits, as far as MOST_COUNTED + 1; or how much of what was named waits."""
    counts: list[int] = [
        (rows if among is None else rows.filter(pk__in=list(among)))[: MOST_COUNTED + 1].count()
        for rows in _waiting(narrowed, now)
    ]
    return min(sum(counts), MOST_COUNTED + 1)


def still_waiting(items: Collection[Item], narrowed: Narrowed, *, now: datetime) -> list[Item]:
    """Return those of the items that wait still, in the order given."""
    keys = [item.key for item in items]
    waiting = (
        {row["pk"] for rows in _waiting(narrowed, now) for row in rows.filter(pk__in=keys)} if keys else set()
    )
    return [item for item in items if item.key in waiting]


def memories_that_wait() -> QuerySet[Memory]:
    """Return what waits for approval, of everybody."""
    return Memory.objects.filter(status=Status.PENDING)


def merges_that_wait(now: datetime) -> QuerySet[Merge]:
    """Return the open proposals that can be decided as they stand.

    Neither of the two was changed since they were compared, and the one that is to stay still holds.
    """
    active = Status.ACTIVE
    return Merge.objects.filter(
        Q(kept__valid_to=None) | Q(kept__valid_to__gt=now),
        state=MergeState.PROPOSED, kept__status=active, absorbed__status=active,
        kept__version=F("kept_version"), absorbed__version=F("absorbed_version"),
    )  # fmt: skip


def _waiting(narrowed: Narrowed, now: datetime) -> list[Any]:
    """Return the rows of each table: their key, what they come by, and whether they end others."""
    whose = Q()
    if narrowed.agent_id:
        whose &= Q(actor__agent_id=narrowed.agent_id)
    if narrowed.user_id:
        whose &= Q(actor__user_id=narrowed.user_id)
    tables: list[Any] = []
    if narrowed.sort is not Sort.MERGE:
        memories = memories_that_wait().filter(whose)
        if narrowed.sort is not None:
            memories = memories.filter(supersedes__isnull=narrowed.sort is Sort.MEMORY)
        comes = _weight_of_memory() if narrowed.order is Order.WEIGHTIEST else _equal()
        tables.append(memories.annotate(comes=comes).values("pk", "comes", "created_at", "supersedes"))
    if narrowed.sort in (None, Sort.MERGE):
        comes = -F("likeness") if narrowed.order is Order.WEIGHTIEST else _equal()
        merges = merges_that_wait(now).filter(whose).annotate(comes=comes)
        tables.append(merges.values("pk", "comes", "created_at"))
    return tables


def _sort_of(row: dict[str, Any]) -> Sort:
    if "supersedes" not in row:
        return Sort.MERGE
    return Sort.MEMORY if row["supersedes"] is None else Sort.CORRECTION


def _equal() -> Value:
    return Value(0.0, output_field=FloatField())


def _weight_of_memory() -> Any:
    """Return the negative of a waiting memory's weight: what would end others first, then the stronger."""
    strength = Least(Coalesce(F("numbers__strength"), 0.0) / 2.0, 1.0)
    return Case(
        When(supersedes__isnull=False, then=Value(-CORRECTIONS_WEIGH)),
        default=-strength,
        output_field=FloatField(),
    )


def near_memories(memory: Memory, *, now: datetime) -> list[Near]:
    """Return the active memories nearest to one that waits, of its actor and of the agent itself; asks no provider.

    `memory` has its actor and agent loaded.
    """
    space, whose = active_space(), {memory.actor_id, actor_id(memory.actor.agent_id, "")}
    own = MemoryIndex.objects.filter(actor_id=memory.actor_id, memory=memory, space=space)
    vector = own.values_list("vector", flat=True).first()
    text = memory.content[:LONGEST_COMPARED]
    query = build_query(text, space=space, embed=lambda _: vector)
    rows = MemoryIndex.objects.filter(
        Q(valid_to=None) | Q(valid_to__gt=now), actor_id__in=whose, status=Status.ACTIVE
    ).exclude(memory_id=memory.pk)
    policy = effective_policy(SearchPolicy, memory.agent, memory.actor)
    found = candidates(
        rows,
        query,
        similarity_threshold=policy.similarity_threshold,
        word_floor=policy.word_floor,
        limit=MOST_NEAR,
    ).best
    memories = Memory.objects.of(whose).select_related("numbers").in_bulk([each.owner_id for each in found])
    return [
        Near(memories[each.owner_id], each.relevance, each.similarity_raw)
        for each in found
        if each.owner_id in memories and each.relevance >= LEAST_NEAR
    ]
