"""Write memories without duplicates, and let new ones supersede old ones (SPEC M1-M3, M8, M10)."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.models import Message
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.principals import Forbidden, Principal, PrincipalKind
from memoryhub.auth.screening import Screening
from memoryhub.embeddings.spaces import index_entries, writing_spaces
from memoryhub.errors import stored_text
from memoryhub.search.models import EmbeddingSpace
from memoryhub.telemetry.spans import memory_operation
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import Trust
from strength.actions.drafts import (
    Draft,
    NewMemory,
    build_draft,
    complete_memories,
    index_entry_of,
    is_shared,
    screen_memory,
    sources_of,
)
from strength.actions.duplicates import near_duplicates
from strength.actions.revisions import awaits_person, check_reach, last_verb, snapshot, store_change
from strength.actions.tombstones import (
    BlockedByTombstone,
    atomic_but_for_tombstones,
    count_blocked_write,
    find_deletion,
    find_tombstone,
    lift_tombstones,
)
from strength.actions.usage import reinforce, set_strengths
from strength.domain.duplicates import wording_digest
from strength.domain.memories import (
    AUTOMATIC_SOURCES,
    RETURN_VERB,
    SLEEP_VERB,
    Kind,
    MemoryRefused,
    ScopeLevel,
    Source,
    Status,
    TombstoneReason,
    WrongState,
)
from strength.domain.policy import REVIEW, StrengthPolicy
from strength.models import Memory, MemorySource
from strength.models.locks import lock_shared

RETRY_WINDOW: Final = timedelta(minutes=1)


@memory_operation(
    "upsert_memory", lambda written, _arguments: {"gen_ai.memory.record.count": 1, "memoryhub.created": int(written[1])}
)
def write_memory(*, actor: Actor, new: NewMemory, by: Principal, now: datetime) -> tuple[Memory, bool]:
    """Write a memory and return it with True, or reinforce its duplicate and return that with False.

    A duplicate has the same text, but for case, width, punctuation and emphasis; for extracted text, similar words too.
    An untrusted memory is no duplicate of an active draft: a pending one is archived and replaced, so that no value of
    its writer becomes active.
    A repetition within RETRY_WINDOW counts as a retry and reinforces nothing, unless it has an idempotency key. Text
    from an untrusted key, channel or source message, or below the confidence floor, is `pending` and reinforces
    nothing. Where a tombstone matches, automatic writes are blocked (BlockedByTombstone) or return the memory that
    replaced the text, clients' writes are `pending`, and a curator's write lifts the tombstone.

    Raises MemoryRefused naming the value that is wrong, UnknownRow where the actor was erased concurrently.
    """
    spaces, screening = writing_spaces(), Screening(actor)
    new = screen_memory(new, screening, by)
    memory, messages = build_draft(actor, new, by, now)
    [entry] = index_entries([new.content], spaces, cues=[memory.cues])
    draft = Draft(memory, new, messages, index_entry_of(new, entry, spaces))
    with atomic_but_for_tombstones():
        lock_shared(actor.id)
        existing, reason = _with_text(memory, new.contradicted_ids), ""
        if existing is None or existing.status != Status.ACTIVE:
            replacement, reason = _match_tombstones(memory, new, by, now)
            if replacement is not None:
                return replacement, False
        # Active drafts do not match pending memories, which are approved by exact text.
        statuses = [Status.ACTIVE] if memory.status == Status.ACTIVE else [Status.ACTIVE, Status.PENDING]
        replaced = existing if existing is not None and _is_replaced_by(memory, existing, by) else None
        existing = None if replaced else existing or _near_duplicate(draft, spaces[0], statuses)
        existing = existing or _reactivate_archived(draft, spaces[0], by, now)
        if replaced is not None:
            _archive_replaced(replaced, by, now)
        existing = existing or _insert_or_find(memory)
        if existing is not None:
            is_intended = new.has_idempotency_key or not looks_like_retry(existing, messages, now)
            return _repeat(existing, memory, messages, by=by, now=now, counts=is_intended), False
        complete_memories([draft], spaces, by=by, reason=reason, now=now)
        screening.record(by=by, row=memory, now=now)
        if replaced is not None:
            Memory.objects.of([actor.pk]).filter(pk=replaced.pk).update(superseded_by=memory)
    return memory, True


def _is_replaced_by(draft: Memory, existing: Memory, by: Principal) -> bool:
    """Return whether a pending memory is replaced by an active draft of its text: no value of it was trusted."""
    if draft.status != Status.ACTIVE or existing.status != Status.PENDING or existing.trust == Trust.TRUSTED:
        return False
    return by.kind is PrincipalKind.CURATOR or not awaits_person(existing)


def _archive_replaced(pending: Memory, by: Principal, now: datetime) -> None:
    before, pending.status = snapshot(pending), Status.ARCHIVED
    store_change(
        pending, verb="archive", before=before, by=by, reason=stored_text("A trusted source wrote this text."), now=now
    )


@transaction.atomic
def repeat_memory(*, memory: Memory, new: NewMemory, by: Principal, now: datetime) -> Memory:
    """Reinforce an active memory, or add the sources to a pending one. Raises MemoryRefused."""
    new = screen_memory(new, Screening(memory.actor), by)
    draft, messages = build_draft(memory.actor, new, by, now)
    lock_shared(memory.actor_id)
    locked = Memory.objects.of([memory.actor_id]).locked([memory.pk]).get(memory.pk)
    if locked is None:
        raise UnknownRow(format_lazy(_("No memory {id}."), id=memory.pk))
    if locked.status == Status.ACTIVE and locked.valid_to is None:
        return _repeat(locked, draft, messages, by=by, now=now)
    _add_sources(locked, messages, now)
    return locked


def _match_tombstones(draft: Memory, new: NewMemory, by: Principal, now: datetime) -> tuple[Memory | None, str]:
    """Return the memory that replaced the text, or the reason why the draft is pending. Raises BlockedByTombstone."""
    if by.kind is PrincipalKind.CURATOR:
        lift_tombstones(actor_id=draft.actor_id, text=draft.content)
        return None, ""
    tombstone = find_tombstone(actor_id=draft.actor_id, text=draft.content)
    if tombstone is None and new.source is Source.EXTRACTION:
        tombstone = find_deletion(actor_id=draft.actor_id, kind=draft.kind, message_ids=new.source_message_ids)
    if tombstone is None:
        return None, ""
    count_blocked_write(tombstone, now=now)
    if new.source not in AUTOMATIC_SOURCES and by.kind is not PrincipalKind.JOB:
        draft.status, draft.pinned = Status.PENDING, False
        return None, f"A person {tombstone.decision} a memory that says this."
    replacement = Memory.objects.of([draft.actor_id]).active().filter(pk__in=[tombstone.memory_id]).first()
    if replacement is None:
        raise BlockedByTombstone(TombstoneReason(tombstone.decision))
    return replacement, ""


def _near_duplicate(draft: Draft, space: EmbeddingSpace, statuses: Sequence[Status]) -> Memory | None:
    """Return the nearest duplicate of an extracted text, locked."""
    if draft.new.source is not Source.EXTRACTION:
        return None
    actor_id, now = draft.memory.actor_id, draft.memory.created_at
    [matches] = near_duplicates(
        [draft.duplicate_query(space)], actor_id=actor_id, space=space, now=now, statuses=statuses
    )
    keys = [memory.pk for memory, _likeness in matches if memory.superseded_by_id is None][:1]
    return next(iter(Memory.objects.of([actor_id]).locked(keys).values()), None)


def _reactivate_archived(draft: Draft, space: EmbeddingSpace, by: Principal, now: datetime) -> Memory | None:
    """Return the archived duplicate, reactivated or pending for a curator.

    A memory that a sleep archived, or that a curator writes again, becomes active; for one that a person archived, the
    policy `archived_repeats` decides. One archived by a sleep gets at least `reactivation_strength`. A draft whose
    memory becomes pending does so as well.
    """
    if draft.memory.status != Status.ACTIVE:
        return None
    archived = _with_text(draft.memory, draft.new.contradicted_ids, [Status.ARCHIVED])
    archived = archived or _near_duplicate(draft, space, [Status.ARCHIVED])
    if archived is None or archived.trust != Trust.TRUSTED or (is_shared(archived) and not by.may_touch_all_agents):
        return None
    policy = effective_policy(StrengthPolicy, archived.agent, archived.actor)
    by_sleep, before = last_verb(archived) == SLEEP_VERB, snapshot(archived)
    if not by_sleep and policy.archived_repeats == REVIEW and by.kind is not PrincipalKind.CURATOR:
        draft.memory.status = Status.PENDING
    archived.status = draft.memory.status
    store_change(archived, verb=RETURN_VERB, before=before, by=by, reason=stored_text("It was said again."), now=now)
    if by_sleep:
        strength = max(archived.strength, policy.reactivation_strength)
        set_strengths(memories=[archived], strengths={archived.pk: strength}, by=by, now=now)
    return archived


def _insert_or_find(draft: Memory) -> Memory | None:
    """Insert the draft and return None, or return the memory that got its text since, locked."""
    try:
        with transaction.atomic():
            draft.save(force_insert=True)
    except IntegrityError:
        if existing := _with_text(draft):
            return existing
        raise
    return None


SCOPE_FIELDS: Final = ("kind", "scope_level", "scope_domain", "scope_project")
"""Fields that must be equal for texts that differ in punctuation or emphasis to be duplicates."""


def memories_with_digests(
    actor_id: UUID, digests: Iterable[bytes], statuses: Iterable[Status] = (Status.ACTIVE, Status.PENDING)
) -> QuerySet[Memory]:
    """Return the valid memories with one of these digests of text or wording, locked, in the order of keys."""
    listed = list(digests)
    rows = Memory.objects.select_for_update(of=["self"]).select_related("actor__agent", "numbers")
    return rows.filter(
        Q(content_digest__in=listed) | Q(wording_digest__in=listed),
        actor_id=actor_id,
        status__in=list(statuses),
        superseded_by=None,
        valid_to=None,
    ).order_by("id")


def text_digests(memory: Memory) -> tuple[bytes, bytes]:
    return bytes(memory.content_digest), bytes(memory.wording_digest or wording_digest(memory.content))


def first_with_same_text(draft: Memory, contradicted_ids: Iterable[UUID], memories: Iterable[Memory]) -> Memory | None:
    """Return the oldest memory of the same text, else of the same kind and scope that differs in punctuation only.

    `memories` are of the draft's actor. A draft with a period of validity has only equal texts as duplicates.
    """
    content, wording = text_digests(draft)

    def is_same(memory: Memory) -> bool:
        return bytes(memory.content_digest) == content

    def is_alike(memory: Memory) -> bool:
        return (
            not (draft.valid_to or draft.valid_from)
            and memory.pk not in contradicted_ids
            and memory.wording_digest is not None
            and bytes(memory.wording_digest) == wording
            and all(getattr(memory, name) == getattr(draft, name) for name in SCOPE_FIELDS)
        )

    matches = [
        memory for memory in memories if memory.namespace == draft.namespace and (is_same(memory) or is_alike(memory))
    ]
    return min(matches, key=lambda memory: (not is_same(memory), memory.created_at), default=None)


def _with_text(
    draft: Memory, contradicted_ids: Iterable[UUID] = (), statuses: Iterable[Status] = (Status.ACTIVE, Status.PENDING)
) -> Memory | None:
    rows = memories_with_digests(draft.actor_id, text_digests(draft), statuses)
    return first_with_same_text(draft, frozenset(contradicted_ids), rows)


def looks_like_retry(memory: Memory, messages: Sequence[Message], now: datetime) -> bool:
    """Return whether a repetition without sources follows a write or use within RETRY_WINDOW."""
    if messages:
        return False
    latest = max(memory.created_at, memory.numbers.last_accessed_at or memory.created_at)
    return now - latest < RETRY_WINDOW


def _repeat(
    memory: Memory, draft: Memory, messages: Sequence[Message], *, by: Principal, now: datetime, counts: bool = True
) -> Memory:
    """Add the sources; an active draft reinforces the memory unless all were known, and activates a pending one."""
    is_new_evidence = _add_sources(memory, messages, now) or not messages
    if draft.status != Status.ACTIVE:
        return memory
    if memory.status == Status.PENDING:
        if by.kind is not PrincipalKind.CURATOR and awaits_person(memory):
            return memory
        confirm_pending(memory, by=by, reason=stored_text("A trusted source said the same."), now=now)
    if is_new_evidence and counts:
        reinforce([memory], now=now)
    return memory


def confirm_pending(memory: Memory, *, by: Principal, reason: str, now: datetime) -> None:
    """Activate a locked pending memory, and end what it supersedes."""
    before = snapshot(memory)
    memory.status, memory.trust = Status.ACTIVE, Trust.TRUSTED
    store_change(memory, verb="confirm", before=before, by=by, reason=reason, now=now)
    end_superseded(memory, by=by, now=now)


def _add_sources(memory: Memory, messages: Sequence[Message], now: datetime) -> bool:
    known = memory.sources.filter(message_id__in=[message.id for message in messages]).count()
    MemorySource.objects.bulk_create(sources_of(memory, messages, now), ignore_conflicts=True)
    return known < len(messages)


def end_memory(old: Memory, new: Memory, at: datetime, *, by: Principal, reason: str, now: datetime) -> None:
    """End a locked memory at `at` in favour of another; it is kept, with its revision."""
    before = snapshot(old)
    old.valid_to, old.superseded_by, old.pinned = at, new, False
    store_change(old, verb="supersede", before=before, by=by, reason=reason, now=now)


def store_superseded(pending: Memory, olds: Sequence[Memory], *, is_new: bool, now: datetime) -> None:
    """Store what a pending memory supersedes once approved; its version rises, so that it must be read again."""
    stored = list(pending.supersedes or [])
    added = [old.pk for old in olds if old.pk not in stored]
    if not added:
        return
    pending.supersedes = [*stored, *added]
    if not is_new:
        pending.version, pending.updated_at = pending.version + 1, now
    pending.save(update_fields=["supersedes", "version", "updated_at"])


def end_superseded(approved: Memory, *, by: Principal, now: datetime) -> None:
    """End the still valid memories that an activated one supersedes; jobs spare what a person pinned or edited."""
    keys, at = approved.supersedes or [], min(approved.valid_from or now, now)
    rows = Memory.objects.of([approved.actor_id]).active().filter(superseded_by=None)
    for old in rows.locked(keys).values():
        is_protected = by.kind is PrincipalKind.JOB and (old.pinned or old.locked)
        has_ended = old.valid_to is not None and old.valid_to <= at
        begins_later = old.valid_from is not None and old.valid_from > at
        if not (is_protected or has_ended or begins_later):
            end_memory(old, approved, at, by=by, reason=stored_text("What contradicts it was approved."), now=now)
    if keys:
        approved.supersedes = None
        approved.save(update_fields=["supersedes"])


@atomic_but_for_tombstones()
def supersede_memory(
    *,
    memory: Memory,
    new: NewMemory,
    at: datetime,
    by: Principal,
    reason: str,
    now: datetime,
    also_ended: Sequence[Memory] = (),
    expected_version: int | None = None,
) -> Memory:
    """Write a memory that holds from `at` on, end the old one then, and return the new one.

    Values that the new one does not state are the old one's. Those `also_ended` end with it where possible. If the new
    one is pending, or a job would end what a person has edited, the old ones hold until it is approved. Raises
    VersionMismatch, WrongState for a memory that has ended or is not active, MemoryRefused, BlockedByTombstone.
    """
    lock_shared(memory.actor_id)
    locked = Memory.objects.of([memory.actor_id]).locked([memory.pk, *(other.pk for other in also_ended)])
    old = locked.pop(memory.pk, None)
    if old is None:
        raise UnknownRow(format_lazy(_("No memory {id}."), id=memory.pk))
    if expected_version not in (None, old.version):
        raise VersionMismatch(old.version)
    _check_endable(old, at, by)
    olds = [old]
    for other in locked.values():
        with suppress(Forbidden, WrongState, MemoryRefused):
            _check_endable(other, at, by)
            olds.append(other)
    written, is_new = write_memory(actor=old.actor, new=_successor(new, olds, at, by), by=by, now=now)
    if written.pk == old.pk:
        raise MemoryRefused("content", _("The new text equals the memory's."))
    ending = [ended for ended in olds if ended.pk != written.pk]
    if written.status == Status.ACTIVE:
        for ended in ending:
            end_memory(ended, written, at, by=by, reason=reason, now=now)
    elif written.status == Status.PENDING and by.is_trusted:
        store_superseded(written, ending, is_new=is_new, now=now)
    return written


def _check_endable(old: Memory, at: datetime, by: Principal) -> None:
    check_reach(snapshot(old), by)
    if not by.is_trusted and old.trust == Trust.TRUSTED:
        raise Forbidden(_("An untrusted key may not end a trusted memory; a curator can."))
    if old.status != Status.ACTIVE or old.superseded_by_id or (old.valid_to and old.valid_to <= at):
        raise WrongState(_("Only a memory that is active and still valid can be superseded."))
    # Equal times are allowed: the superseded memory was then valid for no time.
    if old.valid_from and at < old.valid_from:
        raise MemoryRefused("valid_from", _("valid_to must not be before valid_from."))


def _successor(new: NewMemory, olds: Sequence[Memory], at: datetime, by: Principal) -> NewMemory:
    old = olds[0]
    return replace(
        new,
        kind=Kind(old.kind),
        namespace=old.namespace,
        tags=new.tags or old.tags,
        scope_level=ScopeLevel(old.scope_level),
        scope_domain=old.scope_domain or None,
        scope_project=old.scope_project,
        valid_from=at,
        needs_approval=new.needs_approval or (by.kind is PrincipalKind.JOB and any(memory.locked for memory in olds)),
        contradicted_ids=new.contradicted_ids.union(memory.pk for memory in olds),
    )
