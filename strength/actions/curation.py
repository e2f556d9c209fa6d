"""Edit, pin, archive, approve, restore and delete memories, one or many at once (SPEC M9, M10, W1)."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.actions.receipts import forget_sources
from memoryhub.api.idempotency import forget_answers
from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.principals import Forbidden, Principal, PrincipalKind
from memoryhub.auth.screening import Screening
from memoryhub.embeddings.spaces import IndexEntry, index_entries, writing_spaces
from memoryhub.search.models import EmbeddingSpace
from memoryhub.telemetry.spans import memory_operation
from memoryhub.tenancy.models import Actor, delete_rows
from memoryhub.tenancy.namespaces import expand_namespace
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import Trust
from strength.actions.drafts import SCREENED_FIELDS
from strength.actions.duplicates import text_likeness
from strength.actions.memories import end_superseded
from strength.actions.profiles import forget_in_profile
from strength.actions.revisions import (
    STRENGTH,
    BatchResult,
    check_reach,
    last_verb,
    parsed_dates,
    raise_if_duplicate,
    snapshot,
    store_change,
    unversioned_state,
)
from strength.actions.search import index_memory
from strength.actions.second_review import approval_to_note, seen_version
from strength.actions.tombstones import (
    BlockedByTombstone,
    find_tombstone,
    leave_tombstone,
    leave_tombstones,
    lift_tombstones,
)
from strength.actions.usage import set_strengths, use_memories
from strength.domain.duplicates import DUPLICATE_THRESHOLD
from strength.domain.memories import (
    APPROVER,
    CURATED_FIELDS,
    FIRST_APPROVAL_VERB,
    NO_UNTRUSTED_CUES,
    SLEEP_VERB,
    DuplicateMemory,
    Labels,
    LockedByPerson,
    MemoryRefused,
    ScopeLevel,
    Status,
    TombstoneReason,
    WrongState,
    check_metadata,
    check_scope,
    content_digest,
    restorable_values,
)
from strength.domain.policy import StrengthPolicy
from strength.domain.sleep import ChangeReason
from strength.models import Memory, MemoryRevision
from strength.models.locks import lock_shared

EDITABLE = frozenset(CURATED_FIELDS) - {"status", "locked"}


@dataclass(frozen=True)
class Transition:
    """The states that a verb applies to, and the curated values it sets."""

    allowed: frozenset[Status]
    sets: Mapping[str, Any]


TRANSITIONS = {
    "pin": Transition(frozenset({Status.ACTIVE}), {"pinned": True}),
    "unpin": Transition(frozenset(Status), {"pinned": False}),
    "archive": Transition(frozenset({Status.ACTIVE}), {"status": Status.ARCHIVED, "pinned": False}),
    "reactivate": Transition(frozenset({Status.ARCHIVED}), {"status": Status.ACTIVE}),
    "approve": Transition(frozenset({Status.PENDING}), {"status": Status.ACTIVE}),
    "reject": Transition(
        frozenset({Status.PENDING, Status.ACTIVE, Status.ARCHIVED}), {"status": Status.REJECTED, "pinned": False}
    ),
}


DECISIONS = frozenset({"approve", "reject"})
"""Verbs about what waits."""

RELABEL = "relabel"
RELABELLED = frozenset({Status.ACTIVE, Status.PENDING, Status.ARCHIVED})
"""States of memories with tags, kind and namespace that can be changed together with those of others."""


def edit_memory(
    *,
    memory: Memory,
    values: Mapping[str, Any],
    expected_version: int | None,
    by: Principal,
    reason: str,
    now: datetime,
) -> Memory:
    """Change curated values; a new text is reindexed and locked against jobs, and the former gets a tombstone.

    Raises VersionMismatch, DuplicateMemory, LockedByPerson where a job would rewrite what a person has edited, and
    MemoryRefused naming the value that is wrong.
    """
    return _change(
        memory=memory,
        verb="edit",
        values={key: values[key] for key in values if key in EDITABLE},
        expected_version=expected_version,
        by=by,
        reason=reason,
        now=now,
    )


def apply_transition(
    *,
    memory: Memory,
    verb: str,
    by: Principal,
    reason: str,
    now: datetime,
    expected_version: int | None = None,
    batch: UUID | None = None,
    values: Mapping[str, Any] = MappingProxyType({}),
) -> Memory:
    """Apply the verb's row in TRANSITIONS, with edits (`values`), as one change; those made at once share a `batch`.

    Raises WrongState where the memory is in another state, Forbidden where an untrusted key would make a text trusted,
    VersionMismatch, DuplicateMemory, MemoryRefused.
    """
    transition = TRANSITIONS[verb]
    edited = {key: values[key] for key in values if key in EDITABLE}
    return _change(
        memory=memory, verb=verb, values={**edited, **transition.sets}, expected_version=expected_version,
        by=by, reason=reason, now=now, allowed=transition.allowed, batch=batch,
    )  # fmt: skip


def relabel_memory(
    *,
    memory: Memory,
    labels: Labels,
    expected_version: int,
    by: Principal,
    reason: str,
    now: datetime,
    batch: UUID | None = None,
) -> Memory:
    """Change tags, kind or namespace; the text stays open to jobs. Raises as `apply_transition`."""
    return _change(
        memory=memory, verb=RELABEL, values=labels.values_for(memory.tags), expected_version=expected_version,
        by=by, reason=reason, now=now, allowed=RELABELLED, batch=batch,
    )  # fmt: skip


def archive_memories(*, memories: Sequence[Memory], by: Principal, reason: str, now: datetime) -> int:
    """Archive the active ones, each with its revision; return how many. Raises Forbidden."""
    archived = 0
    with transaction.atomic():
        for memory in _in_lock_order(memories):
            with suppress(WrongState, UnknownRow):
                apply_transition(memory=memory, verb="archive", by=by, reason=reason, now=now)
                archived += 1
    return archived


@transaction.atomic
def report_use(
    *, memories: Sequence[Memory], perspective: str | None, task: str | None, by: Principal, now: datetime
) -> tuple[list[Memory], int]:
    """Reinforce memories that a client used; return them, and how many of them count; see `use_memories`.

    By policy, what a sleep archived is reactivated first, and never weaker than it was. What a person archived, what
    has ended, and what is pending or rejected is left out. Raises Forbidden.
    """
    usable = []
    for memory in _in_lock_order(memories):
        if memory.status == Status.ARCHIVED and _reactivates_on_use(memory, now):
            with suppress(WrongState, DuplicateMemory, UnknownRow):
                reason = "It was used."
                usable.append(apply_transition(memory=memory, verb="reactivate", by=by, reason=reason, now=now))
        elif memory.status == Status.ACTIVE:
            usable.append(memory)
    return usable, use_memories(memories=usable, perspective=perspective, task=task, by=by, now=now)


def _reactivates_on_use(memory: Memory, now: datetime) -> bool:
    policy = effective_policy(StrengthPolicy, memory.agent, memory.actor)
    has_ended = memory.valid_to is not None and memory.valid_to <= now
    return policy.archived_use == "reactivate" and not has_ended and last_verb(memory) == SLEEP_VERB


def restore_revision(
    *, memory: Memory, revision: MemoryRevision, expected_version: int | None, by: Principal, reason: str, now: datetime
) -> Memory:
    if revision.memory_id != memory.pk:
        raise UnknownRow(format_lazy(_("No revision {id} of this memory."), id=revision.pk))
    return _change(
        memory=memory,
        verb="restore",
        values=parsed_dates(restorable_values(revision.after)),
        expected_version=expected_version,
        by=by,
        reason=reason,
        now=now,
    )


@transaction.atomic
def delete_memory(*, memory: Memory, expected_version: int | None, by: Principal, reason: str, now: datetime) -> None:
    """Delete a memory with its revisions, sources and text in receipts; a tombstone keeps it from being extracted."""
    locked = _lock(memory, expected_version, by)
    check_reach(snapshot(locked), by)
    delete_locked([locked], actor=memory.actor, by=by, reason=reason, now=now)


def delete_locked(memories: Sequence[Memory], *, actor: Actor, by: Principal, reason: str, now: datetime) -> None:
    """Delete an actor's locked memories, each with its tombstone; see `delete_without_tombstones`."""
    kept_out = [memory for memory in memories if memory.trust == Trust.TRUSTED or by.is_trusted]
    leave_tombstones(memories=kept_out, decision=TombstoneReason.DELETED, by=by, now=now)
    memory_ids = [memory.pk for memory in memories]
    delete_without_tombstones(actor=actor, memory_ids=memory_ids, by=by, reason=reason, now=now)


@memory_operation(
    "delete_memory", lambda _nothing, arguments: {"gen_ai.memory.record.count": len(arguments["memory_ids"])}
)
def delete_without_tombstones(
    *, actor: Actor, memory_ids: Sequence[UUID], by: Principal, reason: str, now: datetime
) -> None:
    """Delete an actor's memories with their revisions and sources, and their texts in receipts, profile and answers."""
    if not memory_ids:
        return
    forget_sources(memory_ids)
    forget_in_profile(actor_id=actor.pk, memory_ids=memory_ids)
    forget_answers(actor=actor, row_ids=memory_ids)
    delete_rows(Memory.objects.of([actor.pk]).filter(pk__in=memory_ids))
    audit.record_each(
        by=by, verb="delete", object_kind="memory", object_ids=memory_ids, actor=actor, reason=reason, now=now
    )


@memory_operation("update_memory", lambda _memory, _arguments: {"gen_ai.memory.record.count": 1})
def _change(
    *, memory: Memory, verb: str, values: Mapping[str, Any], expected_version: int | None, by: Principal, reason: str,
    now: datetime, allowed: frozenset[Status] = frozenset(Status), batch: UUID | None = None,
) -> Memory:  # fmt: skip
    spaces, screening = writing_spaces(), Screening(memory.actor)
    written = {name: values[name] for name in SCREENED_FIELDS if name in values}
    values = {**values, **screening.columns(Memory, written)}
    found_by = values.get("content", memory.content), values.get("cues", memory.cues)
    entry = _index_entry(found_by, spaces) if values.keys() & {"content", "cues"} else None
    with raise_if_duplicate(DuplicateMemory(_("Another memory in this namespace has the same text."))):
        locked = _lock(memory, expected_version, by, is_decision=verb in DECISIONS)
        check_state(locked, verb, allowed)
        approver, values = _approver_to_note(locked, verb, values, by)
        has_tombstones = bool(values.keys() & {"content", "status"})
        texts = {locked.content, values.get("content", locked.content)} if has_tombstones else set()
        before, revision_data = snapshot(locked), unversioned_state(locked, texts)
        apply_values(locked, values, by)
        if snapshot(locked) == before and not approver:
            return locked
        is_rewritten = locked.content != before["content"]
        if by.kind is PrincipalKind.JOB and locked.locked and is_rewritten:
            raise LockedByPerson(_("A person has edited this text; a job may not rewrite it."))
        if by.kind is not PrincipalKind.JOB and (verb == "edit" or (verb == "approve" and is_rewritten)):
            locked.locked = True
        _update_tombstones(locked, before, by, now)
        if locked.status == Status.REJECTED != before["status"]:
            forget_sources([locked.pk])
            forget_in_profile(actor_id=locked.actor_id, memory_ids=[locked.pk])
        if entry is not None and (is_rewritten or locked.cues != before["cues"]):
            _reindex(locked, entry, found_by, spaces)
        strength = reactivated_strength(locked) if verb == "reactivate" else locked.strength
        if strength != locked.strength:
            revision_data[STRENGTH] = locked.strength
        change = {"before": before, "by": by, "reason": reason, "now": now, "batch": batch}
        _store_version(locked, verb=verb, approver=approver, beside=revision_data, change=change)
        screening.record(by=by, row=locked, now=now)
        if STRENGTH in revision_data:
            set_strengths(memories=[locked], strengths={locked.pk: strength}, by=by, now=now)
        if locked.status == Status.ACTIVE and before["status"] == Status.PENDING:
            end_superseded(locked, by=by, now=now)
        return locked


def _index_entry(found_by: tuple[str, str], spaces: Sequence[EmbeddingSpace]) -> IndexEntry:
    content, cues = found_by
    return index_entries([content], spaces, cues=[cues])[0]


def _reindex(locked: Memory, entry: IndexEntry, found_by: tuple[str, str], spaces: Sequence[EmbeddingSpace]) -> None:
    """Store the index entry made before the lock, or another where the row was changed concurrently."""
    found_now = locked.content, locked.cues
    index_memory(locked, entry if found_now == found_by else _index_entry(found_now, spaces), spaces)


def _store_version(
    locked: Memory, *, verb: str, approver: str, beside: dict[str, Any], change: Mapping[str, Any]
) -> None:
    """Store the revision of a change; a first approval has its own verb (ADR 67)."""
    if approver:
        store_change(locked, verb=FIRST_APPROVAL_VERB, beside={**beside, APPROVER: approver}, **change)
    else:
        store_change(locked, verb=verb, beside=beside, **change)


def _approver_to_note(
    locked: Memory, verb: str, values: Mapping[str, Any], by: Principal
) -> tuple[str, Mapping[str, Any]]:
    """Return who gives the first of two approvals, and the values without the state that it leaves; "" for others."""
    if not values.get("status") == Status.ACTIVE != locked.status == Status.PENDING:
        return "", values
    edits = {name: value for name, value in values.items() if name != "status"}
    approver = approval_to_note(locked, verb, edits, by)
    return approver, edits if approver else values


def reactivated_strength(memory: Memory) -> float:
    """Return the strength after reactivation: the policy's if a sleep archived the memory."""
    archived = MemoryRevision.objects.filter(
        actor_id=memory.actor_id, memory=memory, changed_after__status=Status.ARCHIVED
    ).order_by("-number")
    latest = archived.values_list("verb", "reason").first()
    if latest is None or latest[0] != SLEEP_VERB or latest[1] == ChangeReason.EXPIRED:
        return memory.strength
    policy = effective_policy(StrengthPolicy, memory.agent, memory.actor)
    return max(memory.strength, policy.reactivation_strength)


def _update_tombstones(memory: Memory, before: Mapping[str, Any], by: Principal, now: datetime) -> None:
    """Leave tombstones of rejected or replaced texts; lift an activated text's. Raises BlockedByTombstone."""
    is_rewritten = memory.content != before["content"]
    if is_rewritten and by.kind not in (PrincipalKind.CURATOR, PrincipalKind.COMMAND):
        tombstone = find_tombstone(actor_id=memory.actor_id, text=memory.content)
        if tombstone is not None and tombstone.memory_id != memory.pk:
            raise BlockedByTombstone(TombstoneReason(tombstone.decision))
    if not by.is_trusted or by.kind is PrincipalKind.JOB:
        return
    if memory.status == Status.REJECTED != before["status"]:
        leave_tombstone(memory=memory, text=memory.content, decision=TombstoneReason.REJECTED, by=by, now=now)
    # A tombstone of a near-duplicate would also match the new text.
    if is_rewritten and text_likeness(memory.content, before["content"]) < DUPLICATE_THRESHOLD:
        leave_tombstone(
            memory=memory,
            text=before["content"],
            decision=TombstoneReason.EDITED,
            replacement_id=memory.pk,
            by=by,
            now=now,
        )
    if memory.status == Status.ACTIVE and (is_rewritten or memory.status != before["status"]):
        lift_tombstones(actor_id=memory.actor_id, text=memory.content)


def _lock(memory: Memory, expected_version: int | None, by: Principal, *, is_decision: bool = False) -> Memory:
    lock_shared(memory.actor_id)
    # Include those that it would invalidate, as locks are taken in the order of keys.
    keys = [memory.pk, *(memory.supersedes or [])]
    locked = Memory.objects.of([memory.actor_id]).locked(keys).get(memory.pk)
    if is_decision and locked is not None:
        expected_version = seen_version(locked, expected_version)
    return check_locked(locked, memory.pk, expected_version, by)


def check_locked(locked: Memory | None, key: UUID, expected_version: int | None, by: Principal) -> Memory:
    """Return a locked row that the caller may change. Raises UnknownRow, Forbidden, VersionMismatch."""
    if locked is None:
        raise UnknownRow(format_lazy(_("No memory {id}."), id=key))
    if not by.is_trusted and locked.trust == Trust.TRUSTED:
        raise Forbidden(_("An untrusted key may not change trusted data; a curator can."))
    if expected_version is not None and locked.version != expected_version:
        raise VersionMismatch(locked.version)
    return locked


def check_state(memory: Memory, verb: str, allowed: frozenset[Status]) -> None:
    if Status(memory.status) not in allowed:
        irregular = {"pin": "pinned", "unpin": "unpinned"}
        participle = irregular.get(verb, f"{verb}d" if verb.endswith("e") else f"{verb}ed")
        text = _("A memory that is {status} cannot be {done}.")
        raise WrongState(format_lazy(text, status=_(memory.status), done=_(participle)))


def apply_values(memory: Memory, values: Mapping[str, Any], by: Principal) -> None:
    actor, former_status, former_text = memory.actor, memory.status, memory.content
    for name, value in values.items():
        setattr(memory, name, value)
    if memory.status == Status.ACTIVE != former_status and memory.valid_to is None:
        memory.superseded_by = None  # it had been merged into another
    if "namespace" in values:
        memory.namespace = expand_namespace(memory.namespace, agent_id=actor.agent_id, user_id=actor.user_id)
    if memory.scope_level == ScopeLevel.DOMAIN and not memory.scope_domain:
        memory.scope_domain = memory.agent.domain
    if memory.pinned and memory.status != Status.ACTIVE:
        problem = _("A memory that is {status} cannot be pinned.")
        raise WrongState(format_lazy(problem, status=_(memory.status)))
    check_metadata(memory.metadata)
    if values.get("cues") and not by.is_trusted:
        raise MemoryRefused("cues", NO_UNTRUSTED_CUES)
    check_scope(ScopeLevel(memory.scope_level), domain=memory.scope_domain, user_id=actor.user_id)
    if memory.valid_from and memory.valid_to and memory.valid_from > memory.valid_to:
        raise MemoryRefused("valid_to", _("valid_to must not be before valid_from."))
    if memory.status == Status.ACTIVE != former_status:
        if not by.is_trusted:
            raise Forbidden(_("An untrusted key cannot bring a memory into contexts; a curator can."))
        memory.trust = Trust.TRUSTED
    if memory.content != former_text:
        memory.content_digest = content_digest(memory.content)
        if not by.is_trusted:  # an approval is bound to the exact text (SPEC M10)
            memory.trust, memory.status, memory.pinned = Trust.UNTRUSTED, Status.PENDING, False
            memory.cues = ""


def plan_many(memories: Iterable[Memory], verb: str) -> BatchResult:
    """Return what `curate_many` would change, without changing it."""
    plan = BatchResult()
    for memory in memories:
        with plan.collect(memory):
            check_transition(memory, verb)
    return plan


def check_transition(memory: Memory, verb: str) -> None:
    """Raise WrongState where the memory's state does not allow the verb, or the verb changes nothing."""
    transition = TRANSITIONS[verb]
    if all(getattr(memory, name) == value for name, value in transition.sets.items()):
        raise WrongState(_("It is in this state already."))
    if Status(memory.status) not in transition.allowed:
        raise WrongState(format_lazy(_("Its state ({state}) does not allow it."), state=_(memory.status)))


def check_labels(memory: Memory, labels: Labels) -> None:
    """Raise WrongState where the memory is rejected, or has these labels; MemoryRefused for too many tags."""
    if Status(memory.status) not in RELABELLED:
        raise WrongState(format_lazy(_("Its state ({state}) does not allow it."), state=_(memory.status)))
    values = labels.values_for(memory.tags)
    if "namespace" in values:
        names = {"agent_id": memory.actor.agent_id, "user_id": memory.actor.user_id}
        values["namespace"] = expand_namespace(values["namespace"], **names)
    if all(getattr(memory, name) == value for name, value in values.items()):
        raise WrongState(_("It is in this state already."))


def require_version(verb: str, version: int | None) -> None:
    """Raise WrongState for an approval without a version; approvals are bound to the text that was read (SPEC M10)."""
    if verb == "approve" and version is None:
        raise WrongState(_("The request has no version of the text, so nothing was decided. Reload the page."))


def _in_lock_order(memories: Iterable[Memory]) -> list[Memory]:
    return sorted(memories, key=lambda memory: (memory.actor_id, memory.pk))
