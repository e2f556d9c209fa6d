"""Record, undo and read a memory's history: revisions, strength over time, chain of replacements (SPEC M8, M9, A11)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.db.models import Q
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext_lazy as _

from memoryhub.api.idempotency import forget_answers
from memoryhub.auth import audit
from memoryhub.auth.principals import Forbidden, Principal
from memoryhub.db.copy import copy_models
from memoryhub.embeddings.spaces import index_entries, writing_spaces
from memoryhub.errors import DomainError
from memoryhub.ids import new_id
from strength.actions.search import index_memory, sync_facets
from strength.actions.tombstones import restore_tombstone, tombstone_values
from strength.actions.usage import set_strengths
from strength.domain.memories import (
    CURATED_FIELDS,
    FIRST_APPROVAL_VERB,
    DuplicateMemory,
    ScopeLevel,
    Status,
    TombstoneReason,
    WrongState,
    changed_values,
    content_digest,
)
from strength.domain.review import REASONS_BY_VERB
from strength.domain.sleep import RunState
from strength.domain.strength import Point, PointKind, curve
from strength.models import Memory, MemoryChange, MemoryNumbers, MemoryRevision, SleepRun, StrengthPoint
from strength.models.locks import lock_shared, update_fading
from strength.sql import QUERIES, run_query

UNDOABLE: Final = frozenset(
    {"pin", "unpin", "archive", "reactivate", "approve", "reject", "edit", "relabel", "restore", "supersede"}
    | {FIRST_APPROVAL_VERB}
)
"""Verbs of single undoable revisions; merges and sleeps are undone as a whole."""

# Keys in `MemoryRevision.beside`.
TRUST: Final = "trust"
SUPERSEDES: Final = "supersedes"
STRENGTH: Final = "strength"
MARK: Final = "mark"
TOMBSTONES: Final = "decisions"
RESEMBLES: Final = "resembles"
UNCOMPARED: Final = "uncompared"
DOUBT: Final = "doubt"


def resembled_values(decision: TombstoneReason, day: date, memory_id: UUID) -> list[str]:
    """Return what `RESEMBLES` holds: the decision against the text that a memory resembles, and that text's memory."""
    return [decision, day.isoformat(), str(memory_id)]


LISTED: Final = frozenset({Status.ACTIVE, Status.PENDING})
"""States in which a memory is offered, or waits to be."""


class ChangedSince(WrongState):
    """The memory has later revisions; each of them can be restored by itself."""

    def __init__(self) -> None:
        super().__init__(_("It was changed since; restore the revision that you want instead."))


@dataclass
class BatchResult:
    batch: UUID = field(default_factory=new_id)
    changed: list[Any] = field(default_factory=list)
    first_approvals: int = 0
    """Memories that were approved by the first of two people."""
    _skipped: dict[str, tuple[DomainError, list[Any]]] = field(default_factory=dict)

    @contextmanager
    def collect(self, row: Any) -> Iterator[None]:
        """Count a row as changed, or as skipped where the block raises a DomainError, which ends here."""
        try:
            yield
        except DomainError as error:
            self._skipped.setdefault(str(error), (error, []))[1].append(row)
        else:
            self.changed.append(row)

    def add(self, other: "BatchResult") -> None:
        """Add the rows of another part of the batch."""
        self.changed += other.changed
        for key, (error, rows) in other._skipped.items():
            self._skipped.setdefault(key, (error, []))[1].extend(rows)

    @property
    def skipped(self) -> list[tuple[DomainError, list[Any]]]:
        """Return the skipped rows by the error that kept them, the most frequent first."""
        return sorted(self._skipped.values(), key=lambda group: -len(group[1]))


def snapshot(memory: Memory) -> dict[str, Any]:
    values = {name: getattr(memory, name) for name in CURATED_FIELDS} | {"tags": list(memory.tags)}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}


def store_change(
    memory: Memory,
    *,
    verb: str,
    before: Mapping[str, Any],
    by: Principal,
    reason: str,
    now: datetime,
    beside: Mapping[str, Any] | None = None,
    batch: UUID | None = None,
) -> None:
    """Save a locked memory's next version and its revision; `before` and `beside` hold values before the change.

    Every change of a memory passes here. Raises Forbidden where a key of some agents changes what others read.
    """
    check_reach(snapshot(memory), by)
    check_reach(before, by)
    if before.get("valid_from") or before.get("valid_to"):  # its validity may have begun or ended since the last sleep
        update_fading(memory.actor_id, [memory.pk], now=now)
    memory.version, memory.updated_at = memory.version + 1, now
    memory.save()
    sync_facets(memory)
    if takes_away(before, memory):
        forget_answers(actor=memory.actor, row_ids=[memory.pk])
    revision = new_revision(memory, verb=verb, before=before, by=by, reason=reason, now=now, beside=beside, batch=batch)
    revision.save(force_insert=True)
    details = {"fields": sorted(revision.changed_after)}
    audit.record(by=by, verb=verb, row=memory, reason=reason, details=details, now=now)


def check_reach(values: Mapping[str, Any], by: Principal) -> None:
    """Raise Forbidden where other agents read a memory with these values, and the caller may not touch them all."""
    is_shared = values["scope_level"] != ScopeLevel.PROJECT and values["status"] != Status.PENDING
    if is_shared and not by.may_touch_all_agents:
        raise Forbidden(_("A key of some agents may not change what other agents read; a curator can."))


def takes_away(before: Mapping[str, Any], memory: Memory) -> bool:
    """Return whether a change takes away a text that may have been in answers."""
    has_left = before["status"] in LISTED and memory.status not in LISTED
    has_ended = memory.valid_to is not None and before["valid_to"] != memory.valid_to.isoformat()
    return has_left or has_ended or before["content"] != memory.content


def store_creations(created: Sequence[tuple[Memory, str, Mapping[str, Any]]], *, by: Principal, now: datetime) -> None:
    """Store the first revisions of one actor's memories, each with its reason and extra data."""
    revisions = [
        new_revision(memory, verb="create", before={}, by=by, reason=reason, now=now, beside=beside)
        for memory, reason, beside in created
    ]
    copy_models(revisions)
    groups: dict[tuple[str, ...], list[UUID]] = defaultdict(list)
    for revision in revisions:
        groups[revision.reason, *sorted(revision.changed_after)].append(revision.memory_id)
    for (reason, *names), memory_ids in groups.items():
        audit.record_each(
            by=by,
            verb="create",
            object_kind="memory",
            object_ids=memory_ids,
            actor=created[0][0].actor,
            reason=reason,
            details={"fields": names},
            now=now,
        )


def new_revision(
    memory: Memory, *, verb: str, before: Mapping[str, Any], by: Principal, reason: str, now: datetime,
    beside: Mapping[str, Any] | None = None, batch: UUID | None = None,
) -> MemoryRevision:  # fmt: skip
    after = snapshot(memory)
    changed_before, changed_after = changed_values(before, after)
    return MemoryRevision(
        actor_id=memory.actor_id, memory=memory, number=memory.version, verb=verb,
        changed_before=changed_before, changed_after=changed_after, after=after, beside=beside or {}, batch=batch,
        **MemoryRevision.made(by, reason, now),
    )  # fmt: skip


def last_verb(memory: Memory) -> str | None:
    history = MemoryRevision.objects.filter(actor_id=memory.actor_id, memory=memory).order_by("-number")
    return history.values_list("verb", flat=True).first()


def state_revision(memory: Memory) -> MemoryRevision | None:
    """Return the latest revision but for first approvals and their undo, which leave the reasons of the state."""
    rows = memory.revisions.exclude(verb=FIRST_APPROVAL_VERB).exclude(verb="undo", changed_after={})
    return rows.order_by("-number").first()


def awaits_person(memory: Memory) -> bool:
    """Return whether a pending memory needs a person's decision, which repetition does not replace."""
    latest = state_revision(memory)
    verb, beside = (latest.verb, latest.beside) if latest is not None else ("", {})
    return verb in REASONS_BY_VERB or RESEMBLES in beside or UNCOMPARED in beside


def unversioned_state(memory: Memory, texts: Iterable[str]) -> dict[str, Any]:
    """Return the state outside curated values, as JSON types; tombstones by their texts' digests."""
    tombstones = {
        content_digest(text).hex(): values
        for text in set(texts)
        if (values := tombstone_values(actor_id=memory.actor_id, text=text)) is not None
    }
    return {
        TRUST: memory.trust,
        SUPERSEDES: [str(key) for key in memory.supersedes or []],
        **({TOMBSTONES: tombstones} if tombstones else {}),
    }


@contextmanager
def raise_if_duplicate(refusal: DomainError) -> Iterator[None]:
    """Run in a transaction, and raise `refusal` where another memory of the namespace has the text."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        if getattr(getattr(error.__cause__, "diag", None), "constraint_name", None) != "memory_text_once":
            raise
        raise refusal from error


def undo_revision(*, revision: MemoryRevision, by: Principal, reason: str, now: datetime) -> Memory:
    """Undo a memory's latest revision: its values, trust, tombstones and strength, and what it superseded.

    What it superseded stays where it was changed since. Leaves a revision too. Raises ChangedSince for one that is not
    the latest, WrongState for one that is undone otherwise, DuplicateMemory where another has its text by now,
    Forbidden.
    """
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not undo a decision; a curator can."))
    if revision.verb not in UNDOABLE:
        raise WrongState(_("This kind of change cannot be undone here."))
    superseded = _superseded(revision)
    with raise_if_duplicate(
        DuplicateMemory(_("Another memory in this namespace has since been written with the same text."))
    ):
        lock_shared(revision.actor_id)
        rows = Memory.objects.of([revision.actor_id])
        memory = rows.locked([revision.memory_id, *superseded]).get(revision.memory_id)
        if memory is None or memory.version != revision.number:
            raise ChangedSince
        _revert(memory, revision, by=by, reason=reason, now=now)
        superseded_rows = rows.select_related("actor__agent").filter(pk__in=superseded, superseded_by=memory)
        for old in superseded_rows.order_by("id"):
            supersession = old.revisions.filter(number=old.version, verb="supersede").first()
            if supersession is not None:
                _revert(old, supersession, by=by, reason=reason, now=now)
        return memory


def _superseded(revision: MemoryRevision) -> list[UUID]:
    return [UUID(key) for key in revision.beside.get(SUPERSEDES, ())]


def _revert(memory: Memory, revision: MemoryRevision, *, by: Principal, reason: str, now: datetime) -> None:
    before, values = snapshot(memory), parsed_dates(revision.changed_before)
    if TRUST in revision.beside:  # older revisions, without `beside`, have curated values only
        values |= {"trust": revision.beside[TRUST], "supersedes": _superseded(revision) or None}
    if revision.verb == "supersede":
        values["superseded_by"] = None
    for name, value in values.items():
        setattr(memory, name, value)
    memory.content_digest = content_digest(memory.content)
    if (memory.content, memory.cues) != (before["content"], before["cues"]):
        spaces = writing_spaces()
        index_memory(memory, index_entries([memory.content], spaces, cues=[memory.cues])[0], spaces)
    tombstones = revision.beside.get(TOMBSTONES, {})
    for text in {str(before["content"]), memory.content}:
        restore_tombstone(
            actor_id=memory.actor_id,
            text=text,
            former=tombstones.get(content_digest(text).hex()),
            created_at=revision.created_at,
        )
    store_change(memory, verb="undo", before=before, by=by, reason=reason, now=now)
    if STRENGTH in revision.beside:
        set_strengths(memories=[memory], strengths={memory.pk: revision.beside[STRENGTH]}, by=by, now=now)


def parsed_dates(values: Mapping[str, Any]) -> dict[str, Any]:
    dates = {name: parse_datetime(values[name]) for name in ("valid_from", "valid_to") if values.get(name)}
    return {**values, **dates}


MAX_NIGHTS: Final = 1_000
FULL_RETENTION: Final = timedelta(days=400)


def strength_history(*, memory: Memory, now: datetime) -> list[Point]:
    """Return a memory's strength after each day's events and each sleep, from its creation until now."""
    rows = StrengthPoint.objects.filter(actor_id=memory.actor_id, memory=memory)
    columns = [column.name for column in fields(Point)]
    points = [Point(**{**row, "kind": PointKind(row["kind"])}) for row in rows.values(*columns)]
    numbers: Any = MemoryNumbers.objects.with_strength().get(actor_id=memory.actor_id, memory=memory)
    strength, level = numbers.strength_now, numbers.consolidation_level
    runs = SleepRun.objects.filter(actor_id=memory.actor_id, dry_run=False, state=RunState.DONE)
    nights: Any = runs.filter(now__gte=memory.created_at, clock__isnull=False).order_by("-now")
    return curve(
        points,
        created=_created(memory, points, strength),
        now=Point(now, PointKind.NOW, strength, strength, None, level),
        nights=sorted(nights.values_list("now", "clock")[:MAX_NIGHTS]),
    )


def _created(memory: Memory, points: Iterable[Point], strength: float) -> Point:
    creation = memory.revisions.filter(verb="create").first()
    beside = creation.beside if creation else {}
    earliest = min(points, key=lambda point: point.at, default=None)
    initial_strength = beside.get(STRENGTH, strength if earliest is None else earliest.before)
    return Point(memory.created_at, PointKind.CREATED, initial_strength, initial_strength, beside.get(MARK), 0)


def thin_history(*, now: datetime, limit: int) -> int:
    """Thin out old points, of at most `limit` groups of a memory, kind and month; return the number of deleted rows."""
    with connection.cursor() as cursor:
        cursor.execute(QUERIES["thin_history"], {"before": (now - FULL_RETENTION).date(), "limit": limit})
        return int(cursor.rowcount)


FEED_LOCK: Final = 0x51EEA
"""The advisory lock that the triggers of MemoryChange share until their transaction is committed."""


@transaction.atomic
def changes_after(cursor: int, *, owner: Q, limit: int) -> list[MemoryChange]:
    """Return the changes after a cursor, oldest first: each is read once, however many transactions write.

    Waits for the transactions that are committing. The read is a separate statement, so that it sees what they wrote.
    """
    run_query("SELECT pg_advisory_xact_lock(%(lock)s)", {"lock": FEED_LOCK})
    rows = MemoryChange.objects.filter(owner, pk__gt=cursor).select_related("actor")
    return list(rows.order_by("pk")[:limit])


def last_change() -> int:
    """Return the highest cursor of the feed."""
    return MemoryChange.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


MAX_STEPS: Final = 20  # in either direction


def succession_of(memory: Memory) -> list[tuple[UUID, int]]:
    """Return ids and steps in order: what the memory replaced (below 0), itself (0), its replacements (above 0)."""
    keys: dict[str, Any] = {"actor_id": memory.actor_id, "memory_id": memory.pk, "limit": MAX_STEPS}
    return [(key, int(step)) for key, step in run_query(QUERIES["succession"], keys)]
