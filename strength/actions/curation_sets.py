"""Change, delete and restore many memories by a few statements for each actor (SPEC W1).

What needs more than the same values in many rows, such as an approval that ends what it contradicts, is left to the
functions for one memory, and so is a set in which two memories would have the same text.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import F

from memoryhub.api.idempotency import forget_answers
from memoryhub.auth import audit
from memoryhub.auth.principals import Principal
from memoryhub.auth.screening import Screening
from memoryhub.db.copy import copy_models
from memoryhub.errors import DomainError
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from strength.actions.curation import (
    RELABEL,
    TRANSITIONS,
    apply_transition,
    apply_values,
    check_labels,
    check_locked,
    check_state,
    check_transition,
    delete_locked,
    delete_memory,
    relabel_memory,
    require_version,
)
from strength.actions.revisions import (
    STRENGTH,
    SUPERSEDES,
    TOMBSTONES,
    TRUST,
    BatchResult,
    ChangedSince,
    check_reach,
    new_revision,
    parsed_dates,
    raise_if_duplicate,
    snapshot,
    takes_away,
    undo_revision,
    unversioned_state,
)
from strength.actions.tombstones import lift_tombstones
from strength.actions.usage import set_strengths
from strength.domain.memories import SLEEP_VERB, DuplicateMemory, Labels, Status
from strength.domain.policy import StrengthPolicy
from strength.domain.sleep import ChangeReason
from strength.models import Memory, MemoryNumbers, MemoryRevision, Tombstone
from strength.models.locks import lock_shared, update_fading
from strength.sql import QUERIES, run_query

SET_VERBS: Final = frozenset({"pin", "unpin", "archive", "reactivate", RELABEL})
"""Verbs that write few different values into many memories."""

DUPLICATE: Final = DuplicateMemory("Two memories of the set would have the same text.")


@dataclass
class _Change:
    """A locked memory with its new values, its values before, and what its revision holds beside."""

    memory: Memory
    before: Mapping[str, Any]
    values: Mapping[str, Any]
    beside: dict[str, Any] = field(default_factory=dict)


@transaction.atomic
def curate_many(
    *,
    memories: Sequence[Memory],
    versions: Mapping[str, int],
    verb: str,
    by: Principal,
    reason: str,
    now: datetime,
    batch: UUID | None = None,
) -> BatchResult:
    """Apply a transition to each memory that allows it, as one batch; `versions` are those that the person saw."""
    result = BatchResult() if batch is None else BatchResult(batch)
    change: dict[str, Any] = {"by": by, "reason": reason, "now": now}

    def by_sets(actor: Actor, rows: Sequence[Memory], result: BatchResult) -> None:
        _transition(actor, rows, result, versions=versions, verb=verb, **change)

    def one_by_one(memory: Memory) -> None:
        check_transition(memory, verb)
        version = versions.get(str(memory.pk))
        require_version(verb, version)
        changed = apply_transition(memory=memory, verb=verb, expected_version=version, batch=result.batch, **change)
        result.first_approvals += verb == "approve" and changed.status == Status.PENDING

    _for_each_actor(memories, result, by_sets if verb in SET_VERBS else None, one_by_one)
    return result


@transaction.atomic
def relabel_many(
    *,
    memories: Sequence[Memory],
    versions: Mapping[str, int],
    labels: Labels,
    by: Principal,
    reason: str,
    now: datetime,
    batch: UUID | None = None,
) -> BatchResult:
    """Change the tags, kind or namespace of each memory, as one batch; `versions` are those that the person saw."""
    result = BatchResult() if batch is None else BatchResult(batch)
    change: dict[str, Any] = {"by": by, "reason": reason, "now": now}

    def by_sets(actor: Actor, rows: Sequence[Memory], result: BatchResult) -> None:
        _relabel(actor, rows, result, versions=versions, labels=labels, **change)

    def one_by_one(memory: Memory) -> None:
        check_labels(memory, labels)
        version = versions.get(str(memory.pk), memory.version)
        relabel_memory(memory=memory, labels=labels, expected_version=version, batch=result.batch, **change)

    _for_each_actor(memories, result, by_sets, one_by_one)
    return result


@transaction.atomic
def delete_many(*, memories: Sequence[Memory], by: Principal, reason: str, now: datetime) -> BatchResult:
    """Delete memories, each with its audit entry and its tombstone; this cannot be undone."""
    result = BatchResult()
    change: dict[str, Any] = {"by": by, "reason": reason, "now": now}

    def by_sets(actor: Actor, rows: Sequence[Memory], result: BatchResult) -> None:
        lock_shared(actor.pk)
        locked = Memory.objects.locked_of(actor, (memory.pk for memory in rows))
        for memory in rows:
            with result.collect(memory):
                check_reach(snapshot(check_locked(locked.get(memory.pk), memory.pk, None, by)), by)
        delete_locked([locked[memory.pk] for memory in result.changed], actor=actor, by=by, reason=reason, now=now)

    _for_each_actor(
        memories, result, by_sets, lambda memory: delete_memory(memory=memory, expected_version=None, **change)
    )
    return result


@transaction.atomic
def undo_many(
    *, revisions: Iterable[MemoryRevision], batch: UUID, by: Principal, reason: str, now: datetime
) -> BatchResult:
    """Undo a batch's revisions; those of memories that were changed since are skipped."""
    result = BatchResult(batch)
    change: dict[str, Any] = {"by": by, "reason": reason, "now": now}

    def by_sets(actor: Actor, rows: Sequence[MemoryRevision], result: BatchResult) -> None:
        _revert(actor, rows, result, **change)

    def one_by_one(revision: MemoryRevision) -> None:
        undo_revision(revision=revision, **change)

    rows = list(revisions)
    plain = [each for each in rows if by.is_trusted and _is_plain(each)]
    in_sets = {each.pk for each in plain}
    _for_each_actor(plain, result, by_sets, one_by_one)
    _for_each_actor((each for each in rows if each.pk not in in_sets), result, None, one_by_one)
    return result


def _is_plain(revision: MemoryRevision) -> bool:
    """Return whether the undo of a revision only writes values back."""
    beside = revision.beside
    return revision.verb in SET_VERBS and TRUST in beside and not beside.get(SUPERSEDES) and TOMBSTONES not in beside


def _for_each_actor(
    rows: Iterable[Any],
    result: BatchResult,
    by_sets: Callable[[Actor, Sequence[Any], BatchResult], None] | None,
    one_by_one: Callable[[Any], object],
) -> None:
    """Process the rows of each actor together, or one by one where that is refused for the set as a whole."""
    in_order = sorted(rows, key=lambda row: (row.actor_id, getattr(row, "memory_id", row.pk)))
    for _actor_id, group in groupby(in_order, key=lambda row: row.actor_id):
        of_actor = list(group)
        attempt = BatchResult(result.batch)
        if by_sets is not None and len(of_actor) > 1:
            try:
                with raise_if_duplicate(DUPLICATE):
                    by_sets(of_actor[0].actor, of_actor, attempt)
            except DomainError:
                attempt = BatchResult(result.batch)
            else:
                result.add(attempt)
                continue
        for row in of_actor:
            with result.collect(row):
                one_by_one(row)


def _transition(
    actor: Actor,
    memories: Sequence[Memory],
    result: BatchResult,
    *,
    versions: Mapping[str, int],
    verb: str,
    by: Principal,
    reason: str,
    now: datetime,
) -> None:
    """Apply a transition of SET_VERBS to memories of one actor."""
    lock_shared(actor.pk)
    locked = Memory.objects.locked_of(actor, (memory.pk for memory in memories))
    transition = TRANSITIONS[verb]
    has_tombstones = "status" in transition.sets and Tombstone.objects.filter(actor_id=actor.pk).exists()
    changes = []
    for memory in memories:
        with result.collect(memory):
            check_transition(memory, verb)
            row = check_locked(locked.get(memory.pk), memory.pk, versions.get(str(memory.pk)), by)
            check_state(row, verb, transition.allowed)
            beside = unversioned_state(row, {row.content} if has_tombstones else ())
            with _recorded(row, by, beside) as change:
                apply_values(row, transition.sets, by)
            changes.append(change)
    strengths = {}
    if verb == "reactivate":
        strengths = _reactivated_strengths(actor, [change.memory for change in changes])
        for change in changes:
            if change.memory.pk in strengths:
                change.beside[STRENGTH] = strengths[change.memory.pk][0]
            if has_tombstones:
                lift_tombstones(actor_id=actor.pk, text=change.memory.content)
    _store(actor, changes, verb=verb, by=by, reason=reason, now=now, batch=result.batch)
    _set_strengths(changes, {key: after for key, (_before, after) in strengths.items()}, by, now)


def _relabel(
    actor: Actor,
    memories: Sequence[Memory],
    result: BatchResult,
    *,
    versions: Mapping[str, int],
    labels: Labels,
    by: Principal,
    reason: str,
    now: datetime,
) -> None:
    """Change the labels of memories of one actor. Raises DomainError where none of them can be changed so."""
    screening = Screening(actor)
    labels = replace(labels, add_tags=tuple(screening.columns(Memory, {"tags": labels.add_tags})["tags"]))
    lock_shared(actor.pk)
    locked = Memory.objects.locked_of(actor, (memory.pk for memory in memories))
    changes = []
    for memory in memories:
        with result.collect(memory):
            row = check_locked(locked.get(memory.pk), memory.pk, versions.get(str(memory.pk)), by)
            check_labels(row, labels)
            with _recorded(row, by, unversioned_state(row, ())) as change:
                apply_values(row, labels.values_for(row.tags), by)
            changes.append(change)
    _store(actor, changes, verb=RELABEL, by=by, reason=reason, now=now, batch=result.batch)
    for change in changes:
        screening.record(by=by, row=change.memory, now=now)


def _revert(
    actor: Actor, revisions: Sequence[MemoryRevision], result: BatchResult, *, by: Principal, reason: str, now: datetime
) -> None:
    """Write back the values before revisions of one actor's memories; see `_is_plain`."""
    lock_shared(actor.pk)
    locked = Memory.objects.locked_of(actor, (revision.memory_id for revision in revisions))
    changes, strengths = [], {}
    for revision in revisions:
        with result.collect(revision):
            memory = locked.get(revision.memory_id)
            if memory is None or memory.version != revision.number:
                raise ChangedSince()
            with _recorded(memory, by) as change:
                for name, value in parsed_dates(revision.changed_before).items():
                    setattr(memory, name, value)
                memory.trust, memory.supersedes = revision.beside[TRUST], None
            changes.append(change)
            if STRENGTH in revision.beside:
                strengths[memory.pk] = revision.beside[STRENGTH]
    _store(actor, changes, verb="undo", by=by, reason=reason, now=now, batch=None)
    _set_strengths(changes, strengths, by, now)


UNCURATED: Final = ("trust", "superseded_by_id", "supersedes")
"""Columns outside a snapshot that a transition writes."""


@contextmanager
def _recorded(memory: Memory, by: Principal, beside: dict[str, Any] | None = None) -> Iterator[_Change]:
    """Yield a change, which holds once the block has changed the memory what it has changed. Raises Forbidden."""
    before, former = snapshot(memory), {name: getattr(memory, name) for name in UNCURATED}
    change = _Change(memory, before, {}, beside or {})
    yield change
    after = snapshot(memory)
    check_reach(after, by)
    check_reach(before, by)
    changed = [name for name in after if after[name] != before[name]]
    changed += [name for name in UNCURATED if getattr(memory, name) != former[name]]
    change.values = {name: getattr(memory, name) for name in changed}


def _store(
    actor: Actor,
    changes: Sequence[_Change],
    *,
    verb: str,
    by: Principal,
    reason: str,
    now: datetime,
    batch: UUID | None,
) -> None:
    """Save the next versions of one actor's locked memories with their revisions, as `store_change` does for one."""
    changes = [change for change in changes if change.values]
    memory_ids = [change.memory.pk for change in changes]
    if not changes:
        return
    dated = [each.memory.pk for each in changes if each.before.get("valid_from") or each.before.get("valid_to")]
    if dated:  # the validity may have begun or ended since the last sleep
        update_fading(actor.pk, dated, now=now)
    groups: dict[str, list[_Change]] = defaultdict(list)
    for change in changes:
        groups[repr(sorted(change.values.items()))].append(change)
        change.memory.version, change.memory.updated_at = change.memory.version + 1, now
    for group in groups.values():
        rows = Memory.objects.of([actor.pk]).filter(pk__in=[change.memory.pk for change in group])
        rows.update(**group[0].values, version=F("version") + 1, updated_at=now)
    run_query(QUERIES["sync_index"], {"actor_ids": [actor.pk], "memory_ids": memory_ids})
    update_fading(actor.pk, memory_ids, now=now, since=now)
    if taken := [change.memory.pk for change in changes if takes_away(change.before, change.memory)]:
        forget_answers(actor=actor, row_ids=taken)
    _record(actor, changes, verb=verb, by=by, reason=reason, now=now, batch=batch)


def _record(
    actor: Actor,
    changes: Sequence[_Change],
    *,
    verb: str,
    by: Principal,
    reason: str,
    now: datetime,
    batch: UUID | None,
) -> None:
    revisions = [
        new_revision(
            each.memory, verb=verb, before=each.before, by=by, reason=reason, now=now, beside=each.beside, batch=batch
        )
        for each in changes
    ]
    copy_models(revisions)
    by_fields: dict[tuple[str, ...], list[UUID]] = defaultdict(list)
    for revision in revisions:
        by_fields[tuple(sorted(revision.changed_after))].append(revision.memory_id)
    for names, memory_ids in by_fields.items():
        audit.record_each(
            by=by,
            verb=verb,
            object_kind="memory",
            object_ids=memory_ids,
            actor=actor,
            reason=reason,
            details={"fields": list(names)},
            now=now,
        )


def _set_strengths(changes: Sequence[_Change], strengths: Mapping[UUID, float], by: Principal, now: datetime) -> None:
    memories = [change.memory for change in changes if change.memory.pk in strengths]
    if memories:
        set_strengths(memories=memories, strengths=strengths, by=by, now=now)


def _reactivated_strengths(actor: Actor, memories: Sequence[Memory]) -> dict[UUID, tuple[float, float]]:
    """Return the strengths before and after of memories that a sleep archived below the policy's, by their ids."""
    keys = [memory.pk for memory in memories]
    archivings = MemoryRevision.objects.filter(
        actor_id=actor.pk, memory__in=keys, changed_after__status=Status.ARCHIVED
    ).order_by("memory_id", "-number")
    latest = archivings.distinct("memory_id").values_list("memory_id", "verb", "reason")
    by_sleep = [key for key, verb, reason in latest if verb == SLEEP_VERB and reason != ChangeReason.EXPIRED]
    if not by_sleep:
        return {}
    least = effective_policy(StrengthPolicy, actor.agent, actor).reactivation_strength
    numbers: Any = MemoryNumbers.objects.with_strength().filter(actor_id=actor.pk, memory__in=by_sleep)
    strengths = dict(numbers.values_list("memory_id", "strength_now"))
    return {key: (strength, least) for key, strength in strengths.items() if strength < least}
