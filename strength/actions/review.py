"""Query the review queue: pending memories and open merges, their order, and what is near them (SPEC W2)."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Case, F, FloatField, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce, Least

from memoryhub.embeddings.spaces import active_space
from memoryhub.search.analysis import QueryText
from memoryhub.search.query import build_query
from memoryhub.tenancy.domain import actor_id
from memoryhub.tenancy.policies import effective_policy
from strength.actions.search import nearest_memories
from strength.domain.memories import Status
from strength.domain.policy import SearchPolicy
from strength.domain.review import Item, Order, Sort
from strength.domain.sleep import MergeState
from strength.models import Memory, MemoryIndex, Merge
from strength.models.memory import STRENGTH_OF_MEMORY

MOST_COUNTED: Final = 1_000
MOST_NEAR: Final = 5
LEAST_NEAR: Final = 0.05  # below it two texts share little but a word that everybody uses
LONGEST_COMPARED: Final = 2_000  # characters

CORRECTIONS_WEIGH: Final = 3.0


@dataclass(frozen=True)
class QueueFilter:
    """Filters and order of the queue; empty values do not filter."""

    agent_id: str = ""
    user_id: str = ""
    sort: Sort | None = None
    order: Order = Order.OLDEST


def next_item(queue: QueueFilter, *, now: datetime, besides: Collection[UUID] = ()) -> Item | None:
    firsts = []
    for rows in _rows(queue, now):
        row = rows.exclude(pk__in=list(besides)).order_by("rank", "created_at", "pk").first()
        if row is not None:
            memory_sort = Sort.CORRECTION if row.get("supersedes") is not None else Sort.MEMORY
            sort = memory_sort if "supersedes" in row else Sort.MERGE
            firsts.append((row["rank"], row["created_at"], str(row["pk"]), Item(sort, row["pk"])))
    return min(firsts, key=lambda first: first[:3])[3] if firsts else None


def count_pending(queue: QueueFilter, *, now: datetime) -> int:
    counts: list[int] = [rows[: MOST_COUNTED + 1].count() for rows in _rows(queue, now)]
    return min(sum(counts), MOST_COUNTED + 1)


def still_pending(items: Collection[Item], queue: QueueFilter, *, now: datetime) -> list[Item]:
    """Return those of the items that are still pending, in the order given."""
    keys = [item.key for item in items]
    waiting = {row["pk"] for rows in _rows(queue, now) for row in rows.filter(pk__in=keys)} if keys else set()
    return [item for item in items if item.key in waiting]


def pending_memories() -> QuerySet[Memory]:
    return Memory.objects.filter(status=Status.PENDING)


def open_merges(now: datetime) -> QuerySet[Merge]:
    """Return the proposals that can be decided: both memories are unchanged, and the one to keep still holds."""
    active = Status.ACTIVE
    return Merge.objects.filter(
        Q(kept__valid_to=None) | Q(kept__valid_to__gt=now),
        state=MergeState.PROPOSED, kept__status=active, absorbed__status=active,
        kept__version=F("kept_version"), absorbed__version=F("absorbed_version"),
    )  # fmt: skip


def _rows(queue: QueueFilter, now: datetime) -> list[Any]:
    """Return the rows of each table; by weight: corrections, then stronger memories, and the most alike merges."""
    whose = Q()
    if queue.agent_id:
        whose &= Q(actor__agent_id=queue.agent_id)
    if queue.user_id:
        whose &= Q(actor__user_id=queue.user_id)
    by_weight, equal = queue.order is Order.WEIGHTIEST, Value(0.0, output_field=FloatField())
    tables: list[Any] = []
    if queue.sort is not Sort.MERGE:
        memories = pending_memories().filter(whose)
        if queue.sort is not None:
            memories = memories.filter(supersedes__isnull=queue.sort is Sort.MEMORY)
        weight = Case(
            When(supersedes__isnull=False, then=Value(-CORRECTIONS_WEIGH)),
            default=-Least(Coalesce(STRENGTH_OF_MEMORY, 0.0) / 2.0, 1.0),
            output_field=FloatField(),
        )
        rows = memories.annotate(rank=weight if by_weight else equal)
        tables.append(rows.values("pk", "rank", "created_at", "supersedes"))
    if queue.sort in (None, Sort.MERGE):
        merges = open_merges(now).filter(whose).annotate(rank=-F("likeness") if by_weight else equal)
        tables.append(merges.values("pk", "rank", "created_at"))
    return tables


def near_memories(memory: Memory, *, now: datetime) -> list[tuple[Memory, float]]:
    """Return the active memories nearest to a pending one, with their relevance. Calls no provider."""
    space, whose = active_space(), {memory.actor_id, actor_id(memory.actor.agent_id, "")}
    own = MemoryIndex.objects.filter(actor_id=memory.actor_id, memory=memory, space=space)
    vector = own.values_list("vector", flat=True).first()
    query = build_query(QueryText.of(memory.content[:LONGEST_COMPARED]), vector, space=space)
    where = Q(actor_id__in=whose, status=Status.ACTIVE) & (Q(valid_to=None) | Q(valid_to__gt=now))
    policy = effective_policy(SearchPolicy, memory.agent, memory.actor)
    near = nearest_memories(
        where & ~Q(memory_id=memory.pk), query, limit=MOST_NEAR,
        similarity_threshold=policy.similarity_threshold, word_floor=policy.word_floor,
    )  # fmt: skip
    return [(other, relevance) for other, relevance in near if relevance >= LEAST_NEAR]
