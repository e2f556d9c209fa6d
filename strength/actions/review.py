"""Review queue (SPEC W2): pending items and similar memories, holds, instructions for curators, saved views."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Case, Exists, F, FloatField, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce, Least
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.principals import Principal
from memoryhub.embeddings.spaces import active_space
from memoryhub.errors import DomainError
from memoryhub.search.query import build_query
from memoryhub.search.query_text import QueryText
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import actor_id
from strength.actions.duplicates import new_wordings
from strength.actions.search import nearest_memories
from strength.actions.second_review import without_approved_by
from strength.domain.memories import Status
from strength.domain.policy import SearchPolicy
from strength.domain.review import Assigned, Item, Order, Sort
from strength.domain.sleep import MergeState
from strength.models import Memory, MemoryIndex, Merge, ReviewHold, ReviewInstructions, ReviewPlan, SavedView
from strength.models.memory import STRENGTH_OF_MEMORY
from strength.models.revision import MAX_INSTRUCTIONS_LENGTH, MAX_VIEW_NAME_LENGTH, MAX_VIEW_QUERY_LENGTH

MAX_COUNTED: Final = 1_000
MAX_NEAR: Final = 5
MIN_RELEVANCE: Final = 0.05  # below this, two texts share only common words
MAX_COMPARED_LENGTH: Final = 2_000  # characters

CORRECTION_WEIGHT: Final = 3.0


@dataclass(frozen=True)
class QueueFilter:
    """Filters and order of the queue; empty values do not filter.

    `person_id` is of whom to show the items: those assigned to them, where `assigned` is MINE, and none that they have
    approved as the first of two. `is_snoozed` is None for items of any day.
    """

    agent_id: str = ""
    user_id: str = ""
    sort: Sort | None = None
    order: Order = Order.OLDEST
    assigned: Assigned | None = None
    person_id: int | None = None
    is_snoozed: bool | None = False


def next_item(queue: QueueFilter, *, now: datetime, excluded_ids: Collection[UUID] = ()) -> Item | None:
    candidates = []
    for rows in _queue_rows(queue, now):
        row = rows.exclude(pk__in=list(excluded_ids)).order_by("rank", "created_at", "pk").first()
        if row is not None:
            memory_sort = Sort.CORRECTION if row.get("supersedes") is not None else Sort.MEMORY
            sort = memory_sort if "supersedes" in row else Sort.MERGE
            candidates.append((row["rank"], row["created_at"], str(row["pk"]), Item(sort, row["pk"])))
    return min(candidates, key=lambda candidate: candidate[:3])[3] if candidates else None


def count_pending(queue: QueueFilter, *, now: datetime, limit: int = MAX_COUNTED) -> int:
    """Count the items of a queue, at most `limit` + 1."""
    tables = [rows.order_by().values_list("pk")[: limit + 1] for rows in _queue_rows(queue, now)]
    count: int = tables[0].union(*tables[1:], all=True).count()
    return min(count, limit + 1)


def still_pending(items: Collection[Item], queue: QueueFilter, *, now: datetime) -> list[Item]:
    """Return those of the items that are still pending, in the order given."""
    keys = [item.key for item in items]
    pending = {row["pk"] for rows in _queue_rows(queue, now) for row in rows.filter(pk__in=keys)} if keys else set()
    return [item for item in items if item.key in pending]


def put_off_items(queue: QueueFilter, *, now: datetime, limit: int) -> list[tuple[Item, datetime, UUID]]:
    """Return the first items that are put off, by day, each with its day and its memory, of a merge the kept one."""
    found = []
    for rows in _queue_rows(replace(queue, is_snoozed=True), now):
        is_merge = rows.model is Merge
        until = _plans("merge" if is_merge else "memory").values("snoozed_until")[:1]
        shown = F("kept_id") if is_merge else F("pk")
        planned: Any = rows.annotate(until=Subquery(until), shown=shown)
        for row in planned.order_by("until", "pk")[:limit]:
            sort = Sort.CORRECTION if row.get("supersedes") is not None else Sort.MEMORY
            found.append((Item(Sort.MERGE if is_merge else sort, row["pk"]), row["until"], row["shown"]))
    return sorted(found, key=lambda each: (each[1], str(each[0].key)))[:limit]


def pending_memories() -> QuerySet[Memory]:
    return Memory.objects.filter(status=Status.PENDING)


def open_merges(now: datetime) -> QuerySet[Merge]:
    """Return the proposals that can be decided: both are worded as compared, and the one to keep still holds."""
    active, owner = Status.ACTIVE, OuterRef("actor_id")
    changed = [
        Exists(new_wordings(OuterRef(f"{side}_id"), OuterRef(f"{side}_version")).filter(actor_id=owner))
        for side in ("kept", "absorbed")
    ]
    return Merge.objects.filter(
        Q(kept__valid_to=None) | Q(kept__valid_to__gt=now),
        *(~each for each in changed),
        state=MergeState.PROPOSED,
        kept__status=active,
        absorbed__status=active,
    )


def is_snoozed(kind: str, now: datetime) -> Exists:
    """Return the condition that a row of `kind` ("memory", "merge") is put off; changed memories are not."""
    version = Q(version=OuterRef("version")) if kind == "memory" else Q()
    return Exists(_plans(kind).filter(version, snoozed_until__gt=now))


def waiting_memories(now: datetime) -> QuerySet[Memory]:
    """Return the pending memories that no one has put off."""
    return pending_memories().exclude(is_snoozed("memory", now))


def waiting_merges(now: datetime) -> QuerySet[Merge]:
    """Return the open proposals that no one has put off."""
    return open_merges(now).exclude(is_snoozed("merge", now))


def _plans(kind: str) -> QuerySet[ReviewPlan]:
    return ReviewPlan.objects.filter(**{"actor_id": OuterRef("actor_id"), f"{kind}_id": OuterRef("pk")})


def _planned(rows: Any, kind: str, queue: QueueFilter, now: datetime) -> Any:
    """Filter rows by day and person; the items of a closed account are of no one."""
    if kind == "memory":
        rows = without_approved_by(rows, queue.person_id)
    if queue.is_snoozed is not None:
        rows = (rows.filter if queue.is_snoozed else rows.exclude)(is_snoozed(kind, now))
    assigned = _plans(kind).filter(assigned_to__is_active=True)
    if queue.assigned is Assigned.MINE:
        return rows.filter(Exists(assigned.filter(assigned_to_id=queue.person_id)))
    return rows.exclude(Exists(assigned)) if queue.assigned is Assigned.NO_ONE else rows


def _queue_rows(queue: QueueFilter, now: datetime) -> list[Any]:
    """Return the rows of each table; by weight: corrections, then stronger memories, and the most alike merges."""
    owner = Q()
    if queue.agent_id:
        owner &= Q(actor__agent_id=queue.agent_id)
    if queue.user_id:
        owner &= Q(actor__user_id=queue.user_id)
    by_weight, no_rank = queue.order is Order.WEIGHTIEST, Value(0.0, output_field=FloatField())
    tables: list[Any] = []
    if queue.sort is not Sort.MERGE:
        memories = _planned(pending_memories().filter(owner), "memory", queue, now)
        if queue.sort is not None:
            memories = memories.filter(supersedes__isnull=queue.sort is Sort.MEMORY)
        weight = Case(
            When(supersedes__isnull=False, then=Value(-CORRECTION_WEIGHT)),
            default=-Least(Coalesce(STRENGTH_OF_MEMORY, 0.0) / 2.0, 1.0),
            output_field=FloatField(),
        )
        rows = memories.annotate(rank=weight if by_weight else no_rank)
        tables.append(rows.values("pk", "rank", "created_at", "supersedes"))
    if queue.sort in (None, Sort.MERGE):
        merges = _planned(open_merges(now).filter(owner), "merge", queue, now)
        merges = merges.annotate(rank=-F("likeness") if by_weight else no_rank)
        tables.append(merges.values("pk", "rank", "created_at"))
    return tables


def near_memories(memory: Memory, *, now: datetime) -> list[tuple[Memory, float]]:
    """Return the active memories nearest to a pending one, with their relevance. Calls no provider."""
    space, actor_ids = active_space(), {memory.actor_id, actor_id(memory.actor.agent_id, "")}
    own = MemoryIndex.objects.filter(actor_id=memory.actor_id, memory=memory, space=space)
    vector = own.values_list("vector", flat=True).first()
    query = build_query(QueryText.of(memory.content[:MAX_COMPARED_LENGTH]), vector, space=space)
    where = Q(actor_id__in=actor_ids, status=Status.ACTIVE) & (Q(valid_to=None) | Q(valid_to__gt=now))
    policy = effective_policy(SearchPolicy, memory.agent, memory.actor)
    near = nearest_memories(
        where & ~Q(memory_id=memory.pk),
        query,
        limit=MAX_NEAR,
        similarity_threshold=policy.similarity_threshold,
        word_floor=policy.word_floor,
    )
    return [(other, relevance) for other, relevance in near if relevance >= MIN_RELEVANCE]


HOLD_DURATION: Final = timedelta(minutes=10)
MAX_VIEWS: Final = 20

# One statement, so that only one of two concurrent curators gets the item.
HOLD_STATEMENT: Final = """
WITH released AS (DELETE FROM strength_reviewhold WHERE person_id = %(person)s AND key <> %(key)s)
INSERT INTO strength_reviewhold (key, person_id, ends_at) VALUES (%(key)s, %(person)s, %(ends_at)s)
ON CONFLICT (key) DO UPDATE SET person_id = excluded.person_id, ends_at = excluded.ends_at
WHERE strength_reviewhold.person_id = excluded.person_id OR strength_reviewhold.ends_at <= %(now)s
RETURNING key
"""


class UnusableView(DomainError):
    """A view cannot be saved as it was named."""


def holds_of_others(*, person_id: int, now: datetime) -> dict[UUID, str]:
    """Return the keys of items that other curators hold, with the curators' names."""
    rows = ReviewHold.objects.filter(ends_at__gt=now).exclude(person_id=person_id)
    return dict(rows.values_list("key", "person__username"))


def hold_item(*, key: UUID, person_id: int, now: datetime) -> bool:
    """Reserve an item and release what the person held before; return False where another curator has it."""
    values: dict[str, Any] = {"key": key, "person": person_id, "ends_at": now + HOLD_DURATION, "now": now}
    with connection.cursor() as cursor:
        cursor.execute(HOLD_STATEMENT, values)
        return cursor.fetchone() is not None


def release_items(*, person_id: int) -> None:
    ReviewHold.objects.filter(person_id=person_id).delete()


def review_instructions() -> str:
    return ReviewInstructions.objects.values_list("text", flat=True).first() or ""


@transaction.atomic
def write_review_instructions(*, text: str, by: Principal, now: datetime) -> None:
    text = text.strip()[:MAX_INSTRUCTIONS_LENGTH]
    row, is_new = ReviewInstructions.objects.select_for_update().get_or_create(pk=1)
    if row.text == text and not is_new:
        return
    row.text, row.updated_at = text, now
    row.save()
    audit.record(by=by, verb="update", row=row, now=now)


def save_view(*, person_id: int, name: str, query: str) -> None:
    """Save a view, replacing one of the same name. Raises UnusableView."""
    name = " ".join(name.split())
    if not name or len(name) > MAX_VIEW_NAME_LENGTH:
        raise UnusableView(_("A view needs a name of at most 60 characters."))
    if len(query) > MAX_VIEW_QUERY_LENGTH:
        raise UnusableView(_("These filters are too long to be saved."))
    own = SavedView.objects.filter(person_id=person_id)
    if own.exclude(name=name).count() >= MAX_VIEWS:
        raise UnusableView(_("There are 20 saved views; delete one first."))
    SavedView.objects.update_or_create(person_id=person_id, name=name, defaults={"query": query})


def delete_view(*, person_id: int, view_id: UUID) -> None:
    SavedView.objects.filter(person_id=person_id, pk=view_id).delete()
