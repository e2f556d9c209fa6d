"""Change, delete and restore many memories by a few statements for each actor (SPEC W1).

The database writes the values and the revisions. What needs more than the same values in many rows, such as an approval
that ends what it contradicts, is left to the functions for one memory, and so is a set in which two memories would have
the same text.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from memoryhub.api.idempotency import forget_answers
from memoryhub.auth import audit
from memoryhub.auth.principals import Principal
from memoryhub.auth.screening import Screening
from memoryhub.errors import DomainError
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.namespaces import expand_namespace
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import Trust
from strength.actions.curation import (
    RELABEL,
    RELABELLED,
    TRANSITIONS,
    apply_transition,
    check_labels,
    check_locked,
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
    check_reach,
    raise_if_duplicate,
    snapshot,
    undo_revision,
)
from strength.actions.tombstones import with_exact_tombstones
from strength.actions.usage import set_strengths
from strength.domain.memories import SLEEP_VERB, DuplicateMemory, Labels, Status
from strength.domain.policy import StrengthPolicy
from strength.domain.sleep import ChangeReason
from strength.models import Memory, MemoryNumbers, MemoryRevision
from strength.models.locks import lock_shared, update_fading
from strength.sql import QUERIES, run_query

SET_VERBS: Final = frozenset({"pin", "unpin", "archive", "reactivate", RELABEL})
"""Verbs that write few different values into many memories."""

SET_FIELDS: Final = frozenset({"status", "pinned", "kind", "namespace", "tags"})
"""Fields that these verbs write."""

DUPLICATE: Final = DuplicateMemory("Two memories of the set would have the same text.")


@dataclass(frozen=True)
class _Wanted:
    """New values of a memory of some version, as JSON; `trust` None leaves its trust."""

    memory_id: UUID
    version: int
    values: str
    trust: str | None = None


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
    change: dict[str, Any] = {"by": by, "reason": reason, "now": now, "batch": result.batch}

    def by_sets(actor: Actor, rows: Sequence[Memory]) -> Collection[UUID]:
        return _transition(actor, _as_seen(rows, versions), verb=verb, **change)

    def one_by_one(memory: Memory) -> None:
        check_transition(memory, verb)
        version = versions.get(str(memory.pk))
        require_version(verb, version)
        changed = apply_transition(memory=memory, verb=verb, expected_version=version, **change)
        result.first_approvals += verb == "approve" and changed.status == Status.PENDING

    _for_each_actor(memories, result, by_sets if verb in SET_VERBS and by.is_trusted else None, one_by_one)
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
    change: dict[str, Any] = {"by": by, "reason": reason, "now": now, "batch": result.batch}

    def by_sets(actor: Actor, rows: Sequence[Memory]) -> Collection[UUID]:
        return _relabel(actor, _as_seen(rows, versions), labels=labels, **change)

    def one_by_one(memory: Memory) -> None:
        check_labels(memory, labels)
        version = versions.get(str(memory.pk), memory.version)
        relabel_memory(memory=memory, labels=labels, expected_version=version, **change)

    _for_each_actor(memories, result, by_sets if by.is_trusted else None, one_by_one)
    return result


@transaction.atomic
def delete_many(*, memories: Sequence[Memory], by: Principal, reason: str, now: datetime) -> BatchResult:
    """Delete memories, each with its audit entry and its tombstone; this cannot be undone."""
    result = BatchResult()
    change: dict[str, Any] = {"by": by, "reason": reason, "now": now}

    def by_sets(actor: Actor, rows: Sequence[Memory]) -> Collection[UUID]:
        lock_shared(actor.pk)
        found = Memory.objects.locked_of(actor, (memory.pk for memory in rows))
        deleted = {}
        for key, memory in found.items():
            with suppress(DomainError):
                check_reach(snapshot(check_locked(memory, key, None, by)), by)
                deleted[key] = memory
        delete_locked([*deleted.values()], actor=actor, by=by, reason=reason, now=now)
        return deleted

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

    def by_sets(actor: Actor, rows: Sequence[MemoryRevision]) -> Collection[UUID]:
        return _revert(actor, rows, **change)

    def one_by_one(revision: MemoryRevision) -> None:
        undo_revision(revision=revision, **change)

    _for_each_actor(revisions, result, by_sets if by.is_trusted else None, one_by_one)
    return result


def _for_each_actor(
    rows: Iterable[Any],
    result: BatchResult,
    by_sets: Callable[[Actor, Sequence[Any]], Collection[UUID]] | None,
    one_by_one: Callable[[Any], object],
) -> None:
    """Process the rows of each actor together, and one by one those that are left: each with what is wrong with it.

    `by_sets` returns the ids of those that it processed.
    """
    in_order = sorted(rows, key=lambda row: (row.actor_id, getattr(row, "memory_id", row.pk)))
    for _actor_id, group in groupby(in_order, key=lambda row: row.actor_id):
        of_actor = list(group)
        done: Collection[UUID] = ()
        if by_sets is not None and len(of_actor) > 1:
            with suppress(DomainError), raise_if_duplicate(DUPLICATE):
                done = by_sets(of_actor[0].actor, of_actor)
        for row in of_actor:
            if row.pk in done:
                result.changed.append(row)
                continue
            with result.collect(row):
                one_by_one(row)


def _as_seen(memories: Iterable[Memory], versions: Mapping[str, int]) -> list[Memory]:
    """Return those that were loaded in the version that the person saw, if any is given."""
    return [memory for memory in memories if versions.get(str(memory.pk), memory.version) == memory.version]


def _transition(
    actor: Actor, memories: Sequence[Memory], *, verb: str, by: Principal, now: datetime, **change: Any
) -> Collection[UUID]:
    """Apply a transition of SET_VERBS to memories of one actor."""
    transition = TRANSITIONS[verb]
    lock_shared(actor.pk)
    if "status" in transition.sets:  # the tombstone of such a text is stored with the revision, or lifted
        blocked = with_exact_tombstones(actor_id=actor.pk, memory_ids=[memory.pk for memory in memories])
        memories = [memory for memory in memories if memory.pk not in blocked]
    values, trust = json.dumps(dict(transition.sets)), Trust.TRUSTED if verb == "reactivate" else None
    wanted = [_Wanted(memory.pk, memory.version, values, trust) for memory in memories]
    strengths = _reactivated_strengths(actor, memories) if verb == "reactivate" else {}
    before = {key: former for key, (former, _after) in strengths.items()}
    changed = _change_set(
        actor, wanted, verb=verb, allowed=transition.allowed, strengths=before, by=by, now=now, **change
    )
    _set_strengths(actor, {key: after for key, (_before, after) in strengths.items() if key in changed}, by, now)
    return changed


def _relabel(
    actor: Actor, memories: Sequence[Memory], *, labels: Labels, by: Principal, now: datetime, **change: Any
) -> Collection[UUID]:
    """Change the labels of memories of one actor. Raises DomainError where none of them can be changed so."""
    screening = Screening(actor)
    labels = replace(labels, add_tags=tuple(screening.columns(Memory, {"tags": labels.add_tags})["tags"]))
    if labels.namespace:
        namespace = expand_namespace(labels.namespace, agent_id=actor.agent_id, user_id=actor.user_id)
        labels = replace(labels, namespace=namespace)
    lock_shared(actor.pk)
    wanted = {}
    for memory in memories:
        with suppress(DomainError):
            check_labels(memory, labels)
            wanted[memory.pk] = _Wanted(memory.pk, memory.version, json.dumps(labels.values_for(memory.tags)))
    changed = _change_set(actor, [*wanted.values()], verb=RELABEL, allowed=RELABELLED, by=by, now=now, **change)
    if screening.removed:
        for memory in memories:
            if memory.pk in changed:
                screening.record(by=by, row=memory, now=now)
    return changed


def _revert(
    actor: Actor, revisions: Sequence[MemoryRevision], *, by: Principal, now: datetime, reason: str
) -> Collection[UUID]:
    """Write back the values before revisions of one actor's memories; return the ids of those that were undone."""
    lock_shared(actor.pk)
    plain = {revision.memory_id: revision for revision in revisions if _is_plain(revision)}
    wanted = [
        _Wanted(key, revision.number, json.dumps(revision.changed_before), revision.beside[TRUST])
        for key, revision in plain.items()
    ]
    changed = _change_set(actor, wanted, verb="undo", allowed=Status, by=by, now=now, reason=reason, batch=None)
    besides = {key: plain[key].beside for key in changed}
    _set_strengths(actor, {key: beside[STRENGTH] for key, beside in besides.items() if STRENGTH in beside}, by, now)
    return {plain[key].pk for key in changed}


def _is_plain(revision: MemoryRevision) -> bool:
    """Return whether the undo of a revision only writes values back."""
    beside = revision.beside
    is_simple = TRUST in beside and not beside.get(SUPERSEDES) and TOMBSTONES not in beside
    return is_simple and revision.verb in SET_VERBS and revision.changed_before.keys() <= SET_FIELDS


def _change_set(
    actor: Actor, wanted: Sequence[_Wanted], *, verb: str, allowed: Iterable[Status], by: Principal, reason: str,
    now: datetime, batch: UUID | None, strengths: Mapping[UUID, float] = MappingProxyType({}),
) -> Collection[UUID]:  # fmt: skip
    """Save the next versions of one actor's memories with their revisions, as `store_change` does for one.

    `strengths` are those before the change, to be stored with the revisions. Returns the ids of the changed.
    """
    ids = [each.memory_id for each in wanted]
    locked = run_query(QUERIES["lock_for_change"], {"actor_id": actor.pk, "memory_ids": ids})
    if dated := [key for key, is_dated in locked if is_dated]:
        update_fading(actor.pk, dated, now=now)  # the validity may have begun or ended since the last sleep
    values = {
        **MemoryRevision.made(by, reason, now),
        "actor_id": actor.pk, "now": now, "verb": verb, "batch": batch, "allowed": list(allowed),
        "memory_ids": ids, "versions": [each.version for each in wanted],
        "values": [each.values for each in wanted], "trusts": [each.trust for each in wanted],
        "strengths": json.dumps({str(key): strength for key, strength in strengths.items()}),
        "reaches_shared": by.may_touch_all_agents and not actor.user_id,
    }  # fmt: skip
    changed = run_query(QUERIES["change_set"], values)
    memory_ids = [key for key, _fields, _is_taken in changed]
    if not changed:
        return memory_ids
    run_query(QUERIES["sync_index"], {"actor_ids": [actor.pk], "memory_ids": memory_ids})
    update_fading(actor.pk, memory_ids, now=now, since=now)
    if taken := [key for key, _fields, is_taken in changed if is_taken]:
        forget_answers(actor=actor, row_ids=taken)
    by_fields: dict[tuple[str, ...], list[UUID]] = defaultdict(list)
    for key, fields, _is_taken in changed:
        by_fields[tuple(fields)].append(key)
    entry: dict[str, Any] = {"by": by, "actor": actor, "reason": reason, "now": now, "object_kind": "memory"}
    for names, keys in by_fields.items():
        audit.record_each(verb=verb, object_ids=keys, details={"fields": list(names)}, **entry)
    return set(memory_ids)


def _set_strengths(actor: Actor, strengths: Mapping[UUID, float], by: Principal, now: datetime) -> None:
    if strengths:
        memories = [*Memory.objects.locked_of(actor, strengths).values()]
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
