"""Keeping what people decided: a revision and an audit entry for every curated change (SPEC M9, A11)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.domain import Forbidden, Principal
from memoryhub.embeddings.spaces import index_entries, writing_spaces
from memoryhub.errors import DomainError
from strength.actions.search import follow_memories, index_memory
from strength.actions.tombstones import (
    restore_tombstone,
    tombstone_values,
)
from strength.actions.usage import set_strengths
from strength.domain.memories import (
    CURATED,
    DuplicateMemory,
    WrongState,
    changed,
    content_digest,
)
from strength.domain.sleep import RunState
from strength.domain.strength import Point, PointKind, curve
from strength.models import CurrentNumbers, Memory, MemoryRevision, SleepRun, StrengthPoint
from strength.models.locks import lock_shared


def snapshot(memory: Memory) -> dict[str, Any]:
    """Return the curated values as JSON types."""
    return {field: _plain(getattr(memory, field)) for field in CURATED}


def keep_revision(
    *,
    memory: Memory,
    verb: str,
    before: Mapping[str, Any],
    by: Principal,
    reason: str,
    now: datetime,
    beside: Mapping[str, Any] | None = None,
    batch: UUID | None = None,
) -> MemoryRevision:
    """Write down a change that was just made to a locked row: its revision and its audit entry.

    `beside` is what stood beside the curated values before it (`strength.actions.revisions`); `batch` is shared by what
    was changed at once.
    """
    after = snapshot(memory)
    changed_before, changed_after = changed(before, after)
    revision = MemoryRevision.objects.create(
        actor_id=memory.actor_id,
        memory=memory,
        number=memory.version,
        verb=verb,
        who_kind=by.kind,
        who_id=by.id,
        who_name=by.name[:150],
        reason=reason,
        changed_before=changed_before,
        changed_after=changed_after,
        after=after,
        beside=beside or {},
        batch=batch,
        created_at=now,
    )
    audit.record(
        by=by, verb=verb, object_kind="memory", object_id=memory.id, actor=memory.actor, reason=reason,
        details={"fields": sorted(changed_after)}, now=now,
    )  # fmt: skip
    return revision


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return list(value) if isinstance(value, tuple) else value


TEXT_ONCE = "memory_text_once"


def is_about(error: IntegrityError, constraint: str) -> bool:
    """Say whether it was this constraint that was broken."""
    return getattr(getattr(error.__cause__, "diag", None), "constraint_name", None) == constraint


TRUST: Final = "trust"
SUPERSEDES: Final = "supersedes"
STRENGTH: Final = "strength"
DECISIONS: Final = "decisions"


def state_beside(memory: Memory, texts: Iterable[str]) -> dict[str, Any]:
    """Return what stands beside a memory's curated values, as JSON types: ids, states and decisions, no text.

    The decisions are those against exactly these texts, by digests that tell nothing of them.
    """
    kept = {
        content_digest(text).hex(): decision
        for text in set(texts)
        if (decision := tombstone_values(actor_id=memory.actor_id, text=text)) is not None
    }
    return {
        TRUST: memory.trust,
        SUPERSEDES: [str(key) for key in memory.supersedes or []],
        **({DECISIONS: kept} if kept else {}),
    }


def tombstones_beside(beside: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the decisions that stood, by the digests of their texts."""
    found: Mapping[str, Any] = beside.get(DECISIONS, {})
    return found


CAN_BE: Final = frozenset(
    {"pin", "unpin", "archive", "reactivate", "approve", "reject", "edit", "restore", "supersede"}
)
"""A merge is undone by itself, for two memories took part in it; nothing stood before the first revision."""

TAKEN_BACK: Final = "undo"
ENDED: Final = "supersede"
DATES: Final = ("valid_from", "valid_to")


class ChangedSince(WrongState):
    """The memory has been changed since; its revisions tell how, and bring back what is wanted."""


@dataclass
class TakenBack:
    """How many memories are as they were, and why the others are not: the reasons, with how often."""

    done: int = 0
    left: Counter[str] = field(default_factory=Counter)
    refusals: dict[str, DomainError] = field(default_factory=dict)


def take_back(*, revision: MemoryRevision, by: Principal, reason: str, now: datetime) -> Memory:
    """Let a memory be as it was before its latest revision, with all that the change did beside its values.

    What it says and where it stands, its trust, the decisions against its texts, what it would end and what it ended.
    That is a revision too. Raises ChangedSince where something came after it, WrongState for what is undone otherwise,
    DuplicateMemory where another has its text by now, Forbidden.
    """
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not take a decision back; a curator can."))
    if revision.verb not in CAN_BE:
        raise WrongState(_("This change is not one that can be taken back here."))
    try:
        with transaction.atomic():
            memory = _lock(revision)
            _let_be_as_before(memory, revision, by=by, reason=reason, now=now)
            for ended in _ended_by(memory, revision):
                _let_be_as_before(memory=ended[0], revision=ended[1], by=by, reason=reason, now=now)
            return memory
    except IntegrityError as error:
        if not is_about(error, TEXT_ONCE):
            raise
        raise DuplicateMemory(_("Another memory in this namespace has the same text by now.")) from error


def take_back_batch(*, batch: UUID, by: Principal, reason: str, now: datetime) -> TakenBack:
    """Take back what was done to many memories at once; those changed since stay, and are told."""
    came_of = TakenBack()
    with transaction.atomic():
        for revision in MemoryRevision.objects.filter(batch=batch).order_by("actor_id", "memory_id"):
            try:
                take_back(revision=revision, by=by, reason=reason, now=now)
            except DomainError as error:
                came_of.left[str(error)] += 1
                came_of.refusals[str(error)] = error
            else:
                came_of.done += 1
    return came_of


def _lock(revision: MemoryRevision) -> Memory:
    """Hold the memory and what it ended, in the order of keys, as everybody locks who locks more than one."""
    lock_shared(revision.actor_id)
    rows = (
        Memory.objects.of([revision.actor_id]).select_for_update(of=["self"]).select_related("actor__agent")
    )
    held = rows.filter(pk__in=[revision.memory_id, *_superseded(revision)])
    memory = {each.pk: each for each in held.order_by("id")}.get(revision.memory_id)
    if memory is None or memory.version != revision.number:
        raise ChangedSince(_("It was changed since; its revisions bring back what is wanted."))
    return memory


def _superseded(revision: MemoryRevision) -> list[UUID]:
    return [UUID(key) for key in revision.beside.get(SUPERSEDES, ())]


def _let_be_as_before(
    memory: Memory, revision: MemoryRevision, *, by: Principal, reason: str, now: datetime
) -> None:
    before = snapshot(memory)
    for name, value in _values_before(revision).items():
        setattr(memory, name, value)
    memory.content_digest = content_digest(memory.content)
    memory.version, memory.updated_at = memory.version + 1, now
    memory.save()
    if memory.content != before["content"]:
        spaces = writing_spaces()
        index_memory(memory, index_entries([memory.content], spaces)[0], spaces)
    follow_memories([memory])
    _bring_decisions_back(memory, revision, {str(before["content"]), memory.content})
    if STRENGTH in revision.beside:
        set_strengths(memories=[memory], strengths={memory.pk: revision.beside[STRENGTH]}, by=by, now=now)
    keep_revision(memory=memory, verb=TAKEN_BACK, before=before, by=by, reason=reason, now=now)


def _values_before(revision: MemoryRevision) -> dict[str, Any]:
    """Return what the change changed, as it was; of a change of before this was kept, the curated values alone."""
    values: dict[str, Any] = dict(revision.changed_before)
    values |= {name: _moment(values[name]) for name in DATES if name in values}
    if TRUST in revision.beside:
        values |= {"trust": revision.beside[TRUST], "supersedes": _superseded(revision) or None}
    if revision.verb == ENDED:
        values["superseded_by"] = None
    return values


def _bring_decisions_back(memory: Memory, revision: MemoryRevision, texts: set[str]) -> None:
    kept: Mapping[str, Any] = tombstones_beside(revision.beside)
    for text in texts:
        restore_tombstone(
            actor_id=memory.actor_id,
            text=text,
            kept=kept.get(content_digest(text).hex()),
            left_at=revision.created_at,
        )


def _ended_by(memory: Memory, revision: MemoryRevision) -> list[tuple[Memory, MemoryRevision]]:
    """Return what the change ended, with how, where nobody has changed it since; each was held with the memory."""
    rows = Memory.objects.of([memory.actor_id]).select_related("actor__agent")
    ended = rows.filter(pk__in=_superseded(revision), superseded_by=memory).order_by("id")
    revisions = MemoryRevision.objects.filter(actor_id=memory.actor_id, memory__in=ended, verb=ENDED)
    latest = {each.memory_id: each for each in revisions.order_by("number")}
    return [
        (each, latest[each.pk])
        for each in ended
        if each.pk in latest and latest[each.pk].number == each.version
    ]


def _moment(text: str | None) -> datetime | None:
    return parse_datetime(text) if text else None


MOST_NIGHTS: Final = 1_000
KEPT_IN_FULL: Final = timedelta(days=400)

# Of what is older, each month keeps its last point of a sort, with the times of the others, and how it was before them.
THIN = """
WITH old AS (
    SELECT actor_id, memory_id, kind, date_trunc('month', day)::date AS month, max(day) AS last,
        sum(times) AS times, (array_agg(before ORDER BY day))[1] AS before,
        (array_agg(coalesce(began_at, at) ORDER BY day))[1] AS began_at,
        (array_agg(coalesce(faded_before, faded) ORDER BY day))[1] AS faded_before
    FROM strength_strengthpoint WHERE day < %(before)s GROUP BY 1, 2, 3, 4 HAVING count(*) > 1 LIMIT %(most)s
), summed AS (
    UPDATE strength_strengthpoint AS point SET times = old.times, before = old.before, began_at = old.began_at,
        faded_before = old.faded_before FROM old
    WHERE point.actor_id = old.actor_id AND point.memory_id = old.memory_id AND point.kind = old.kind
        AND point.day = old.last
)
DELETE FROM strength_strengthpoint AS point USING old
WHERE point.actor_id = old.actor_id AND point.memory_id = old.memory_id AND point.kind = old.kind
    AND point.day >= old.month AND point.day < old.last
"""


def strength_history(*, memory: Memory, now: datetime) -> list[Point]:
    """Return how strong a memory was after each day's events and each sleep, from its creation until now."""
    numbers = CurrentNumbers.objects.get(actor_id=memory.actor_id, memory=memory)
    rows = StrengthPoint.objects.filter(actor_id=memory.actor_id, memory=memory)
    kept = [_point(row) for row in rows]
    runs = SleepRun.objects.filter(actor_id=memory.actor_id, dry_run=False, now__gte=memory.created_at)
    nights = runs.filter(state=RunState.DONE).order_by("-now").values_list("now", flat=True)[:MOST_NIGHTS]
    return curve(
        kept,
        created_at=memory.created_at,
        now=now,
        strength=numbers.strength,
        faded=numbers.faded,
        level=numbers.consolidation_level,
        nights=sorted(nights),
    )


def _point(row: StrengthPoint) -> Point:
    return Point(
        row.at, PointKind(row.kind), row.strength, row.before, row.faded, row.level, row.times,
        began_at=row.began_at, faded_before=row.faded_before,
    )  # fmt: skip


def thin_history(*, now: datetime, most: int) -> int:
    """Thin out the points of long ago, those of at most so many months; return how many rows went."""
    with connection.cursor() as cursor:
        cursor.execute(THIN, {"before": (now - KEPT_IN_FULL).date(), "most": most})
        return int(cursor.rowcount)


MOST_STEPS: Final = 20
"""To either side."""

# From a memory to what stands in its place, and on; and back to what it stands in the place of. `UNION` ends circles.
CHAIN = """
WITH RECURSIVE later AS (
    SELECT id, superseded_by_id, 0 AS step FROM strength_memory WHERE actor_id = %(actor_id)s AND id = %(memory_id)s
    UNION
    SELECT next.id, next.superseded_by_id, later.step + 1 FROM strength_memory AS next
    JOIN later ON next.id = later.superseded_by_id WHERE next.actor_id = %(actor_id)s AND later.step < %(most)s
), earlier AS (
    SELECT id, 0 AS step FROM strength_memory WHERE actor_id = %(actor_id)s AND id = %(memory_id)s
    UNION
    SELECT former.id, earlier.step - 1 FROM strength_memory AS former
    JOIN earlier ON former.superseded_by_id = earlier.id
    WHERE former.actor_id = %(actor_id)s AND earlier.step > -%(most)s
)
SELECT id, min(step) FROM (SELECT id, step FROM earlier UNION SELECT id, step FROM later) AS chain
GROUP BY id ORDER BY 2, 1 LIMIT %(most)s * 2 + 1
"""


def succession_of(memory: Memory) -> list[tuple[UUID, int]]:
    """Return the ids of the memory, what it replaced (steps below 0) and what replaced it (above), in that order."""
    keys: dict[str, Any] = {"actor_id": memory.actor_id, "memory_id": memory.pk, "most": MOST_STEPS}
    with connection.cursor() as cursor:
        cursor.execute(CHAIN, keys)
        return [(key, int(step)) for key, step in cursor.fetchall()]
