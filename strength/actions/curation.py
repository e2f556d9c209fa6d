"""What people decide about memories: edit, pin, archive, approve, restore, delete (SPEC M9, M10)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils.dateparse import parse_datetime
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.actions.receipts import forget_source
from memoryhub.api.idempotency import forget_answers
from memoryhub.auth import audit
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.domain import Forbidden, Principal, PrincipalKind
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.embeddings.spaces import index_entries, writing_spaces
from memoryhub.errors import DomainError
from memoryhub.ids import new_id
from memoryhub.tenancy.domain import Trust
from memoryhub.tenancy.namespaces import expand_namespace
from memoryhub.tenancy.policies import effective_policy
from strength.actions.memories import end_superseded, is_activated
from strength.actions.revisions import STRENGTH, TEXT_ONCE, is_about, keep_revision, snapshot, state_beside
from strength.actions.search import follow_memories, index_memory
from strength.actions.tombstones import (
    BlockedByTombstone,
    are_near_duplicates,
    find_tombstone,
    leave_tombstone,
    lift_tombstones,
)
from strength.actions.usage import set_strengths
from strength.domain.memories import (
    DuplicateMemory,
    LockedByPerson,
    MemoryRefused,
    ScopeLevel,
    Status,
    TombstoneReason,
    WrongState,
    changed,
    check_scope,
    content_digest,
    values_after,
)
from strength.domain.policy import StrengthPolicy
from strength.models import CurrentNumbers, Memory, MemoryRevision
from strength.models.locks import lock_shared

EDITABLE = frozenset(
    {"content", "namespace", "kind", "tags", "scope_level", "scope_domain", "scope_project", "learnings", "confidence",
     "valid_from", "valid_to", "pinned"}
)  # fmt: skip


@dataclass(frozen=True)
class Transition:
    """What a verb does: from which states, and the curated values it sets."""

    allowed: frozenset[Status]
    sets: Mapping[str, Any]


TRANSITIONS = {
    "pin": Transition(frozenset({Status.ACTIVE}), {"pinned": True}),
    "unpin": Transition(frozenset(Status), {"pinned": False}),
    "archive": Transition(frozenset({Status.ACTIVE}), {"status": Status.ARCHIVED, "pinned": False}),
    "reactivate": Transition(frozenset({Status.ARCHIVED}), {"status": Status.ACTIVE}),
    "approve": Transition(frozenset({Status.PENDING}), {"status": Status.ACTIVE}),
    "reject": Transition(frozenset({Status.PENDING}), {"status": Status.REJECTED, "pinned": False}),
}


def edit_memory(
    *,
    memory: Memory,
    values: Mapping[str, Any],
    expected_version: int | None,
    by: Principal,
    reason: str,
    now: datetime,
) -> Memory:
    """Change curated values. A new text is found anew and locked against jobs; the former is decided against.

    Raises VersionMismatch, DuplicateMemory, LockedByPerson where a job would rewrite what a person has put right,
    and MemoryRefused naming the value that is wrong.
    """
    return _change(
        memory=memory, verb="edit", values={key: values[key] for key in values if key in EDITABLE},
        expected_version=expected_version, by=by, reason=reason, now=now,
    )  # fmt: skip


def apply_transition(
    *,
    memory: Memory,
    verb: str,
    by: Principal,
    reason: str,
    now: datetime,
    expected_version: int | None = None,
    batch: UUID | None = None,
) -> Memory:
    """Do what the verb's row in TRANSITIONS says; `batch` is shared by what is changed at once.

    Raises WrongState where the memory is in another state, Forbidden where an untrusted key would
    make a text trusted, VersionMismatch, DuplicateMemory.
    """
    transition = TRANSITIONS[verb]
    with transaction.atomic():
        locked = _lock(memory, expected_version, by)
        _check_state(locked, verb, transition.allowed)
        wakes = verb == "reactivate"
        memory = _change(
            memory=memory, verb=verb, values=transition.sets, expected_version=expected_version,
            by=by, reason=reason, now=now, with_it=_strength_of(locked) if wakes else {}, batch=batch,
        )  # fmt: skip
        if wakes:
            strength = effective_policy(StrengthPolicy, memory.agent, memory.actor).reactivation_strength
            set_strengths(memories=[memory], strengths={memory.pk: strength}, by=by, now=now)
        return memory


def approve_memory(
    *,
    memory: Memory,
    values: Mapping[str, Any],
    expected_version: int | None,
    by: Principal,
    reason: str,
    now: datetime,
) -> Memory:
    """Approve a memory that waits, with curated values put right on the way: one change, one revision.

    Raises as `edit_memory` and `apply_transition` do.
    """
    approve = TRANSITIONS["approve"]
    edited = {key: values[key] for key in values if key in EDITABLE}
    return _change(
        memory=memory, verb="approve", values={**edited, **approve.sets}, expected_version=expected_version,
        by=by, reason=reason, now=now, allowed=approve.allowed,
    )  # fmt: skip


def archive_memories(*, memories: Sequence[Memory], by: Principal, reason: str, now: datetime) -> int:
    """Archive those of the memories that are active, each with its revision; return how many. Raises Forbidden."""
    archived = 0
    with transaction.atomic():
        for memory in sorted(memories, key=lambda each: (each.actor_id, each.pk)):
            with suppress(WrongState, UnknownRow):
                apply_transition(memory=memory, verb="archive", by=by, reason=reason, now=now)
                archived += 1
    return archived


def restore_revision(
    *,
    memory: Memory,
    revision: MemoryRevision,
    expected_version: int | None,
    by: Principal,
    reason: str,
    now: datetime,
) -> Memory:
    """Bring back the curated values as they stood after a revision; the way back is a revision too."""
    if revision.memory_id != memory.pk:
        raise UnknownRow(format_lazy(_("No revision {id} of this memory."), id=revision.pk))
    values = values_after(revision.after)
    for name in ("valid_from", "valid_to"):
        values[name] = parse_datetime(values[name]) if values.get(name) else None
    return _change(
        memory=memory,
        verb="restore",
        values=values,
        expected_version=expected_version,
        by=by,
        reason=reason,
        now=now,
    )


@transaction.atomic
def delete_memory(
    *, memory: Memory, expected_version: int | None, by: Principal, reason: str, now: datetime
) -> None:
    """Delete a memory with its revisions and sources; its text leaves the receipts as well, and does not come back."""
    locked = _lock(memory, expected_version, by)
    if locked.trust == Trust.TRUSTED or by.is_trusted:
        leave_tombstone(
            memory=locked,
            text=locked.content,
            decision=TombstoneReason.DELETED,
            stands_in=None,
            by=by,
            now=now,
        )
    forget_source(source_id=locked.pk)
    forget_answers(actor=locked.actor, row_id=locked.pk)
    audit.record(
        by=by,
        verb="delete",
        object_kind="memory",
        object_id=locked.pk,
        actor=memory.actor,
        reason=reason,
        now=now,
    )
    locked.delete()


def _change(
    *, memory: Memory, verb: str, values: Mapping[str, Any], expected_version: int | None, by: Principal, reason: str,
    now: datetime, allowed: frozenset[Status] = frozenset(Status), with_it: Mapping[str, Any] = MappingProxyType({}),
    batch: UUID | None = None,
) -> Memory:  # fmt: skip
    spaces = writing_spaces()
    entry = index_entries([values["content"]], spaces)[0] if "content" in values else None
    try:
        with transaction.atomic():
            locked = _lock(memory, expected_version, by)
            _check_state(locked, verb, allowed)
            before = snapshot(locked)
            beside = {**state_beside(locked, _decidable(locked, values)), **with_it}
            _apply(locked, values, by)
            _check_decisions(locked, before, by)
            if snapshot(locked) == before:
                return locked
            _lock_what_a_person_wrote(locked, before, verb, by)
            locked.version, locked.updated_at = locked.version + 1, now
            locked.save()
            if entry is not None and before["content"] != locked.content:
                index_memory(locked, entry, spaces)
            follow_memories([locked])
            _keep_decision(locked, before, by, now)
            keep_revision(
                memory=locked, verb=verb, before=before, by=by, reason=reason, now=now, beside=beside, batch=batch
            )  # fmt: skip
            if is_activated(locked, before["status"]):
                end_superseded(locked, by=by, now=now)
            return locked
    except IntegrityError as error:
        if not is_about(error, TEXT_ONCE):
            raise
        raise DuplicateMemory(_("Another memory in this namespace has the same text.")) from error


def _lock_what_a_person_wrote(memory: Memory, before: Mapping[str, Any], verb: str, by: Principal) -> None:
    """Keep a text that a person has put right from being rewritten by a job. Raises LockedByPerson."""
    is_rewritten = memory.content != before["content"]
    if memory.locked and is_rewritten and by.kind is PrincipalKind.JOB:
        raise LockedByPerson(_("A person has put this text right; a job may not rewrite it."))
    is_put_right = verb == "edit" or (verb == "approve" and is_rewritten)
    memory.locked = memory.locked or (is_put_right and by.kind is not PrincipalKind.JOB)


def _strength_of(memory: Memory) -> dict[str, Any]:
    return {
        STRENGTH: CurrentNumbers.objects.values_list("strength", flat=True).get(
            actor_id=memory.actor_id, memory_id=memory.pk
        )
    }


def _decidable(memory: Memory, values: Mapping[str, Any]) -> set[str]:
    """Return the texts that a change may leave a decision against, or lift one from."""
    if not values.keys() & {"content", "status"}:
        return set()
    return {memory.content, values.get("content", memory.content)}


def _check_decisions(memory: Memory, before: Mapping[str, Any], by: Principal) -> None:
    """Raise DecidedAgainst where a client would edit in what a person decided against about another memory."""
    if memory.content == before["content"] or by.kind in (PrincipalKind.CURATOR, PrincipalKind.COMMAND):
        return
    decided = find_tombstone(actor_id=memory.actor_id, text=memory.content)
    if decided is not None and decided.memory_id != memory.pk:
        raise BlockedByTombstone(TombstoneReason(decided.decision))


def _keep_decision(memory: Memory, before: Mapping[str, Any], by: Principal, now: datetime) -> None:
    """Remember what a person decided against, and forget it where they bring it back (SPEC M9)."""
    if not by.is_trusted or by.kind is PrincipalKind.JOB:
        return
    if memory.status == Status.REJECTED != before["status"]:
        leave_tombstone(
            memory=memory,
            text=memory.content,
            decision=TombstoneReason.REJECTED,
            stands_in=None,
            by=by,
            now=now,
        )
    if memory.content != before["content"] and not are_near_duplicates(memory.content, before["content"]):
        leave_tombstone(
            memory=memory,
            text=before["content"],
            decision=TombstoneReason.EDITED,
            stands_in=memory.pk,
            by=by,
            now=now,
        )
    is_back = memory.status == Status.ACTIVE and changed(before, snapshot(memory))[1].keys() & {
        "content",
        "status",
    }
    if is_back:
        lift_tombstones(actor_id=memory.actor_id, text=memory.content)


def _lock(memory: Memory, expected_version: int | None, by: Principal) -> Memory:
    lock_shared(memory.actor_id)
    rows = Memory.objects.select_for_update(of=["self"]).select_related("actor__agent")
    # With what it would end, in the order of keys, as everybody locks who locks more than one.
    held = rows.filter(pk__in=[memory.pk, *(memory.supersedes or [])], actor_id=memory.actor_id)
    locked = {each.pk: each for each in held.order_by("id")}.get(memory.pk)
    if locked is None:
        raise UnknownRow(format_lazy(_("No memory {id}."), id=memory.pk))
    if not by.is_trusted and locked.trust == Trust.TRUSTED:
        raise Forbidden(_("An untrusted key may not touch what is believed; a curator can."))
    if expected_version is not None and locked.version != expected_version:
        raise VersionMismatch(locked.version)
    return locked


def _check_state(memory: Memory, verb: str, allowed: frozenset[Status]) -> None:
    if Status(memory.status) not in allowed:
        raise WrongState(
            format_lazy(
                _("A memory that is {status} cannot be {done}."),
                status=_(memory.status),
                done=_(_past(verb)),
            )
        )


def _apply(memory: Memory, values: Mapping[str, Any], by: Principal) -> None:
    was, text = memory.status, memory.content
    for name, value in values.items():
        setattr(memory, name, value)
    if memory.status == Status.ACTIVE != was and memory.valid_to is None:
        memory.superseded_by = None  # it was absorbed by another, and stands for itself again
    _complete(memory)
    _check(memory)
    if memory.status == Status.ACTIVE != was:
        _bring_in(memory, by)
    if memory.content != text:
        _take_new_text(memory, by)


def _complete(memory: Memory) -> None:
    memory.namespace = expand_namespace(
        memory.namespace, agent_id=memory.actor.agent_id, user_id=memory.actor.user_id
    )
    if memory.scope_level == ScopeLevel.DOMAIN and not memory.scope_domain:
        memory.scope_domain = memory.agent.domain


def _check(memory: Memory) -> None:
    if memory.pinned and memory.status != Status.ACTIVE:
        raise WrongState(
            format_lazy(_("A memory that is {status} cannot be pinned."), status=_(memory.status))
        )
    check_scope(ScopeLevel(memory.scope_level), domain=memory.scope_domain, user_id=memory.actor.user_id)
    if memory.valid_from and memory.valid_to and memory.valid_from > memory.valid_to:
        raise MemoryRefused("valid_to", _("A memory cannot end before it begins."))


def _bring_in(memory: Memory, by: Principal) -> None:
    """Whoever makes a memory active vouches for its text (SPEC M10)."""
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key cannot bring a memory into contexts; a curator can."))
    memory.trust = Trust.TRUSTED


def _take_new_text(memory: Memory, by: Principal) -> None:
    memory.content_digest = content_digest(memory.content)
    if not by.is_trusted:
        # An approval is bound to the exact text: other words from an untrusted hand wait again.
        memory.trust, memory.status, memory.pinned = Trust.UNTRUSTED, Status.PENDING, False


def _past(verb: str) -> str:
    irregular = {"pin": "pinned", "unpin": "unpinned"}
    return irregular.get(verb, f"{verb}d" if verb.endswith("e") else f"{verb}ed")


class AlreadySo(WrongState):
    """Nothing would change."""


@dataclass
class Many:
    """What came of it: the memories that were changed; the refusals of the others, and whom, by what they say."""

    batch: UUID
    changed: list[Memory] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    refusals: dict[str, DomainError] = field(default_factory=dict)
    whom: defaultdict[str, list[Memory]] = field(default_factory=lambda: defaultdict(list))

    def leave(self, memory: Memory, error: DomainError) -> None:
        """Note that a memory was left as it was."""
        self.left[str(error)] += 1
        self.refusals[str(error)] = error
        self.whom[str(error)].append(memory)


def expected(memories: Iterable[Memory], verb: str) -> Many:
    """Return what doing this to the memories would change, as they stand now; nothing is done."""
    plan = Many(new_id())
    for memory in memories:
        try:
            check_transition(memory, verb)
        except WrongState as error:
            plan.leave(memory, error)
        else:
            plan.changed.append(memory)
    return plan


def check_transition(memory: Memory, verb: str) -> None:
    """Raise WrongState where the verb does not suit a memory's state, AlreadySo where it changes nothing."""
    transition = TRANSITIONS[verb]
    if all(getattr(memory, name) == value for name, value in transition.sets.items()):
        raise AlreadySo(_("It is so already."))
    if Status(memory.status) not in transition.allowed:
        raise WrongState(format_lazy(_("Its state ({state}) does not allow it."), state=_(memory.status)))


def check_was_read(verb: str, version: int | None) -> None:
    """Raise WrongState where an approval does not say which text was read: it is bound to that one (SPEC M10)."""
    if verb == "approve" and version is None:
        raise WrongState(_("The page did not say which text was read. Nothing was decided."))


@transaction.atomic
def curate_many(
    *,
    memories: Sequence[Memory],
    versions: Mapping[str, int],
    verb: str,
    by: Principal,
    reason: str,
    now: datetime,
) -> Many:
    """Do what the verb says to each memory that allows it; the revisions share a batch, to be taken back as one.

    `versions` are those that the person saw, by id. In the order of keys, as everybody locks who locks more than one.
    """
    done = Many(new_id())
    for memory in sorted(memories, key=lambda each: (each.actor_id, each.pk)):
        try:
            check_transition(memory, verb)
            seen = versions.get(str(memory.pk))
            check_was_read(verb, seen)
            new = apply_transition(
                memory=memory,
                verb=verb,
                by=by,
                reason=reason,
                now=now,
                expected_version=seen,
                batch=done.batch,
            )
        except DomainError as error:
            done.leave(memory, error)
        else:
            done.changed.append(new)
    return done


@transaction.atomic
def delete_many(*, memories: Sequence[Memory], by: Principal, reason: str, now: datetime) -> Many:
    """Delete memories, each with its audit entry and its decision; there is no way back."""
    done = Many(new_id())
    for memory in sorted(memories, key=lambda each: (each.actor_id, each.pk)):
        try:
            delete_memory(memory=memory, expected_version=None, by=by, reason=reason, now=now)
        except DomainError as error:
            done.leave(memory, error)
        else:
            done.changed.append(memory)
    return done
