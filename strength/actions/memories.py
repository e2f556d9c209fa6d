"""Write memories without duplicates, and let new ones supersede old ones (SPEC M1-M3, M8, M10)."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Case, Q, QuerySet, When
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.models import Message
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.domain import Forbidden, Principal, PrincipalKind
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.embeddings.spaces import IndexEntry, index_entries, writing_spaces
from memoryhub.search.index import UnusableVector, unit_vector
from memoryhub.search.models import EmbeddingSpace
from memoryhub.tenancy.domain import Trust, TrustPolicy
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.namespaces import expand_namespace
from memoryhub.tenancy.policies import effective_policy, zone_of
from strength.actions.creation import NewRow, complete_new, sources_of
from strength.actions.duplicates import Sought, near_duplicates
from strength.actions.revisions import RESEMBLES, UNCOMPARED, awaits_person, last_verb, snapshot, store_change
from strength.actions.tombstones import (
    BlockedByTombstone,
    atomic_but_for_tombstones,
    count_held_back,
    find_deletion,
    find_tombstone,
    lift_tombstones,
)
from strength.actions.usage import reinforce, set_strengths
from strength.domain.duplicates import wording_digest
from strength.domain.memories import (
    AUTOMATIC,
    RETURN_VERB,
    SLEEP_VERB,
    Kind,
    MemoryRefused,
    ScopeLevel,
    Source,
    Status,
    TombstoneReason,
    WrongState,
    check_metadata,
    check_scope,
    content_digest,
    default_namespace,
)
from strength.domain.policy import REVIEW, StrengthPolicy
from strength.models import Memory, MemorySource
from strength.models.locks import lock_shared

RETRIED_WITHIN: Final = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class NewMemory:
    """The values of a memory to write; None leaves the choice to policy and agent."""

    content: str
    kind: Kind = Kind.NOTE
    namespace: str | None = None
    tags: Sequence[str] = ()
    scope_level: ScopeLevel = ScopeLevel.PROJECT
    scope_domain: str | None = None
    scope_project: str | None = None
    source: Source = Source.MANUAL
    strength: float | None = None
    strength_by_perspective: Mapping[str, float] = field(default_factory=dict)
    learnings: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    embedding: Sequence[float] | None = None
    pinned: bool = False
    source_message_ids: Sequence[UUID] = ()
    channel: str = ""
    confidence: float | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    needs_approval: bool = False
    resembles: tuple[TombstoneReason, date] | None = None
    """A decision against a text that this one may repeat, and its day: it waits for approval."""
    is_uncompared: bool = False
    """No model has compared it with what people decided against: it waits for that, or for approval."""
    is_told_from_retries: bool = False
    """The client names its retries by keys, so that a repetition within a minute is meant."""
    unlike: frozenset[UUID] = frozenset()
    """Memories that it contradicts: however near their words are, they are no duplicates of it."""


def write_memory(*, actor: Actor, new: NewMemory, by: Principal, now: datetime) -> tuple[Memory, bool]:
    """Write a memory and return it with True, or reinforce its duplicate and return that with False.

    A duplicate has the same text, but for case, width, punctuation and emphasis; for extracted text, near words too. A
    repetition within a minute is no use of it, unless the client tells it from a retry. Text from an untrusted key,
    channel or source message, or below the confidence floor, is `pending` and reinforces nothing. Where a tombstone
    matches, automatic writes are blocked (BlockedByTombstone) or answered with the memory that stands in the text's
    place, clients' writes are `pending`, and a curator's write lifts the tombstone.

    Raises MemoryRefused naming the value that is wrong, UnknownRow where the actor was erased meanwhile.
    """
    spaces = writing_spaces()
    draft, messages = judged_draft(actor, new, by, now)
    entry = entry_of(new, index_entries([new.content], spaces)[0], spaces)
    with atomic_but_for_tombstones():
        lock_shared(actor.id)
        known, reason = _same_text(draft, new.unlike), ""
        if known is None or known.status != Status.ACTIVE:
            replacement, reason = _match_tombstones(draft, new, by, now)
            if replacement is not None:
                return replacement, False
        # Active drafts meet no pending ones: those are approved by exact text.
        among = [Status.ACTIVE] if draft.status == Status.ACTIVE else [Status.ACTIVE, Status.PENDING]
        known = known or _near_duplicate(draft, new, entry, spaces, among)
        known = known or _returning(draft, new, entry, spaces, by, now)
        known = known or _insert_or_find(draft)
        if known is not None:
            is_meant = new.is_told_from_retries or not may_be_retry(known, messages, now)
            return _repeat(known, draft, messages, by=by, now=now, counts=is_meant), False
        complete_new([new_row(draft, new, entry, messages, reason)], spaces, by=by, now=now)
    return draft, True


@transaction.atomic
def repeat_memory(*, memory: Memory, new: NewMemory, by: Principal, now: datetime) -> Memory:
    """Reinforce an active memory that was said again; a pending one gets the sources only. Raises MemoryRefused."""
    draft, messages = judged_draft(memory.actor, new, by, now)
    lock_shared(memory.actor_id)
    known = Memory.objects.of([memory.actor_id]).locked([memory.pk]).get(memory.pk)
    if known is None:
        raise UnknownRow(format_lazy(_("No memory {id}."), id=memory.pk))
    if known.status == Status.ACTIVE and known.valid_to is None:
        return _repeat(known, draft, messages, by=by, now=now)
    _add_sources(known, messages, now)
    return known


def _match_tombstones(
    draft: Memory, new: NewMemory, by: Principal, now: datetime
) -> tuple[Memory | None, str]:
    """Return the memory in the text's place, or why the draft is pending now. Raises BlockedByTombstone."""
    if by.kind is PrincipalKind.CURATOR:
        lift_tombstones(actor_id=draft.actor_id, text=draft.content)
        return None, ""
    tombstone = find_tombstone(actor_id=draft.actor_id, text=draft.content)
    if tombstone is None and new.source is Source.EXTRACTION:
        tombstone = find_deletion(
            actor_id=draft.actor_id, kind=draft.kind, message_ids=new.source_message_ids
        )
    if tombstone is None:
        return None, ""
    if new.source not in AUTOMATIC and by.kind is not PrincipalKind.JOB:
        draft.status, draft.pinned = Status.PENDING, False
        return None, f"A person {tombstone.decision} a memory that says this."
    count_held_back(tombstone, now=now)
    replacement = Memory.objects.of([draft.actor_id]).active().filter(pk__in=[tombstone.memory_id]).first()
    if replacement is None:
        raise BlockedByTombstone(TombstoneReason(tombstone.decision))
    return replacement, ""


def sought_of(draft: Memory, new: NewMemory, entry: IndexEntry, spaces: Sequence[EmbeddingSpace]) -> Sought:
    vector = entry.vectors.get(spaces[0].id)
    numbers = None if vector is None else list(vector)
    return Sought(draft.content, draft.namespace, numbers, besides=new.unlike)


def _near_duplicate(
    draft: Memory,
    new: NewMemory,
    entry: IndexEntry,
    spaces: Sequence[EmbeddingSpace],
    among: Sequence[Status],
) -> Memory | None:
    """Return the nearest duplicate of an extracted text, locked."""
    if new.source is not Source.EXTRACTION:
        return None
    [alike] = near_duplicates(
        [sought_of(draft, new, entry, spaces)],
        actor_id=draft.actor_id,
        space=spaces[0],
        now=draft.created_at,
        among=among,
    )
    keys = [memory.pk for memory, _likeness in alike if memory.superseded_by_id is None][:1]
    return next(iter(Memory.objects.of([draft.actor_id]).locked(keys).values()), None)


def _returning(
    draft: Memory,
    new: NewMemory,
    entry: IndexEntry,
    spaces: Sequence[EmbeddingSpace],
    by: Principal,
    now: datetime,
) -> Memory | None:
    """Return the archived memory that says the same, active again or waiting for a curator.

    What a sleep archived comes back with the policy's strength, and what a curator writes again; else the policy says
    what becomes of what a person archived. A draft whose memory waits is pending as well.
    """
    if draft.status != Status.ACTIVE:
        return None
    archived = of_text(draft, new.unlike).filter(status=Status.ARCHIVED).first()
    archived = archived or _near_duplicate(draft, new, entry, spaces, [Status.ARCHIVED])
    if archived is None:
        return None
    policy = effective_policy(StrengthPolicy, archived.agent, archived.actor)
    by_sleep, before = last_verb(archived) == SLEEP_VERB, snapshot(archived)
    if not by_sleep and policy.archived_repeats == REVIEW and by.kind is not PrincipalKind.CURATOR:
        draft.status = Status.PENDING
    archived.status = draft.status
    store_change(archived, verb=RETURN_VERB, before=before, by=by, reason="It was said again.", now=now)
    if by_sleep:
        strength = max(archived.strength, policy.reactivation_strength)
        set_strengths(memories=[archived], strengths={archived.pk: strength}, by=by, now=now)
    return archived


def _insert_or_find(draft: Memory) -> Memory | None:
    """Insert the draft and return None, or return the memory that got its text meanwhile, locked."""
    try:
        with transaction.atomic():
            draft.save(force_insert=True)
    except IntegrityError:
        if known := _same_text(draft):
            return known
        raise
    return None


def new_row(
    memory: Memory, new: NewMemory, entry: IndexEntry, messages: Sequence[Message], reason: str = ""
) -> NewRow:
    beside: dict[str, Any] = {}
    if new.resembles is not None:
        beside[RESEMBLES] = [new.resembles[0], new.resembles[1].isoformat()]
    if new.is_uncompared:
        beside[UNCOMPARED] = {"alone": not new.needs_approval}
    return NewRow(memory, entry, messages, reason, new.strength, new.strength_by_perspective, beside)


def source_messages(actor: Actor, ids: Iterable[UUID]) -> dict[UUID, Message]:
    return Message.objects.of([actor.id]).select_related("session").in_bulk(set(ids)) if ids else {}


def judged_draft(
    actor: Actor,
    new: NewMemory,
    by: Principal,
    now: datetime,
    known: Mapping[UUID, Message] | None = None,
) -> tuple[Memory, list[Message]]:
    """Return the unsaved memory, no more trusted than its source messages, and these. Raises MemoryRefused.

    The messages may be `known` already.
    """
    draft = _draft(actor, new, now)
    ids = new.source_message_ids
    found = source_messages(actor, ids) if known is None else known
    messages = [found[key] for key in dict.fromkeys(ids) if key in found]
    if missing := set(ids) - {message.id for message in messages}:
        problem = format_lazy(_("No such message of this actor: {id}."), id=min(map(str, missing)))
        raise MemoryRefused("source_message_ids", problem)
    if messages:
        latest = max(messages, key=lambda message: message.created_at)
        draft.said_on = latest.local_time(zone_of(actor.agent, actor)).date()
    policy = effective_policy(TrustPolicy, actor.agent, actor)
    channels = [new.channel, *(message.session.channel for message in messages)]
    trusts = {policy.trust(channel=channel, source_is_trusted=by.is_trusted) for channel in channels}
    trusts |= {Trust(message.trust) for message in messages}
    draft.trust = Trust.UNTRUSTED if Trust.UNTRUSTED in trusts else Trust.TRUSTED
    is_unsure = new.confidence is not None and new.confidence < policy.confidence_floor
    if (
        draft.trust == Trust.UNTRUSTED
        or new.needs_approval
        or new.resembles
        or new.is_uncompared
        or is_unsure
    ):
        draft.status, draft.pinned = Status.PENDING, False
    return draft, messages


def _draft(actor: Actor, new: NewMemory, now: datetime) -> Memory:
    domain = new.scope_domain if new.scope_domain is not None else actor.agent.domain
    check_scope(new.scope_level, domain=domain, user_id=actor.user_id)
    if new.valid_from and new.valid_to and new.valid_from > new.valid_to:
        raise MemoryRefused("valid_to", _("A memory cannot end before it begins."))
    check_metadata(new.metadata)
    if new.confidence is not None and not 0 <= new.confidence <= 1:
        raise MemoryRefused("confidence", _("A confidence lies between 0 and 1."))
    project = new.scope_project if new.scope_project is not None else actor.agent.current_project
    return Memory(
        actor=actor, content=new.content, content_digest=content_digest(new.content),
        namespace=expand_namespace(
            new.namespace or default_namespace(new.kind), agent_id=actor.agent_id, user_id=actor.user_id
        ),
        kind=new.kind, tags=list(dict.fromkeys(new.tags)), scope_level=new.scope_level,
        scope_domain=domain if new.scope_level is ScopeLevel.DOMAIN else "",
        scope_project=project if new.scope_level is ScopeLevel.PROJECT else "",
        pinned=new.pinned, source=new.source, channel=new.channel, confidence=new.confidence,
        learnings=dict(new.learnings), metadata=dict(new.metadata), valid_from=new.valid_from, valid_to=new.valid_to,
        created_at=now, updated_at=now,
    )  # fmt: skip


def entry_of(new: NewMemory, entry: IndexEntry, spaces: Sequence[EmbeddingSpace]) -> IndexEntry:
    """Return an index entry with the vector that was stated, if any. Raises MemoryRefused."""
    if new.embedding is None:
        return entry
    try:
        given = unit_vector(new.embedding, dimension=spaces[0].dimension)
    except UnusableVector as error:
        raise MemoryRefused("embedding", str(error)) from error
    return IndexEntry(entry.terms, {**entry.vectors, spaces[0].id: given})


SAME_SORT: Final = ("kind", "scope_level", "scope_domain", "scope_project")
"""What must be equal where texts differ in punctuation or emphasis."""


def _same_text(draft: Memory, unlike: Iterable[UUID] = ()) -> Memory | None:
    return of_text(draft, unlike).filter(status__in=[Status.ACTIVE, Status.PENDING]).first()


WRITTEN_AGAIN: Final = Q(status__in=[Status.ACTIVE, Status.PENDING], superseded_by=None, valid_to=None)
"""Memories that a repetition of their text adds to, in place of a new one."""


def of_text(draft: Memory, unlike: Iterable[UUID] = ()) -> QuerySet[Memory]:
    """Return the memories of the same text, or of the same kind and scope that differ in punctuation or emphasis."""
    rows = Memory.objects.select_for_update(of=["self"]).select_related("actor__agent")
    alike = Q(wording_digest=wording_digest(draft.content)) & ~Q(pk__in=list(unlike))
    alike &= Q(**{name: getattr(draft, name) for name in SAME_SORT})
    is_same = Q(content_digest=draft.content_digest)
    return rows.filter(
        is_same if draft.valid_to or draft.valid_from else is_same | alike,
        actor_id=draft.actor_id, namespace=draft.namespace, superseded_by=None, valid_to=None,
    ).order_by(Case(When(is_same, then=0), default=1), "created_at")  # fmt: skip


def may_be_retry(memory: Memory, messages: Sequence[Message], now: datetime) -> bool:
    """Say whether a repetition without sources follows a write or use so closely that a client may have retried."""
    if messages:
        return False
    latest = max(memory.created_at, memory.numbers.last_accessed_at or memory.created_at)
    return now - latest < RETRIED_WITHIN


def _repeat(
    memory: Memory,
    draft: Memory,
    messages: Sequence[Message],
    *,
    by: Principal,
    now: datetime,
    counts: bool = True,
) -> Memory:
    """Add the sources; an active draft reinforces the memory unless all were known, and activates a pending one."""
    is_new_evidence = _add_sources(memory, messages, now) or not messages
    if draft.status != Status.ACTIVE:
        return memory
    if memory.status == Status.PENDING:
        if by.kind is not PrincipalKind.CURATOR and awaits_person(memory):
            return memory
        confirm_pending(memory, by=by, reason="A trusted source said the same.", now=now)
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
    sources = MemorySource.objects.filter(actor_id=memory.actor_id, memory=memory)
    known = sources.filter(message_id__in=[message.id for message in messages]).count()
    MemorySource.objects.bulk_create(sources_of(memory, messages, now), ignore_conflicts=True)
    return known < len(messages)


def end_memory(old: Memory, new: Memory, at: datetime, *, by: Principal, reason: str, now: datetime) -> None:
    """End a locked memory at `at` in favour of another; it is kept, with its revision."""
    before = snapshot(old)
    old.valid_to, old.superseded_by, old.pinned = at, new, False
    store_change(old, verb="supersede", before=before, by=by, reason=reason, now=now)


def note_superseded(pending: Memory, olds: Sequence[Memory], *, is_new: bool, now: datetime) -> None:
    """Store what ends once a pending memory is approved; a former approval must not cover it: its version rises."""
    known = list(pending.supersedes or [])
    more = [old.pk for old in olds if old.pk not in known]
    if not more:
        return
    pending.supersedes = [*known, *more]
    if not is_new:
        pending.version, pending.updated_at = pending.version + 1, now
    pending.save(update_fields=["supersedes", "version", "updated_at"])


def end_superseded(approved: Memory, *, by: Principal, now: datetime) -> None:
    """End what an activated memory supersedes and still holds; a job ends nothing that a person pinned or edited."""
    keys, at = approved.supersedes or [], min(approved.valid_from or now, now)
    rows = Memory.objects.of([approved.actor_id]).active().filter(superseded_by=None)
    for old in rows.locked(keys).values():
        is_kept = by.kind is PrincipalKind.JOB and (old.pinned or old.locked)
        has_ended = old.valid_to is not None and old.valid_to <= at
        begins_later = old.valid_from is not None and old.valid_from > at
        if not (is_kept or has_ended or begins_later):
            end_memory(old, approved, at, by=by, reason="What contradicts it was approved.", now=now)
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
    along: Sequence[Memory] = (),
    expected_version: int | None = None,
) -> Memory:
    """Write a memory that holds from `at` on, end the old one then, and return the new one.

    Values that the new one does not state are the old one's. Those `along` end with it where they can. Where the new
    one is pending, or a job would end what a person has edited, the old ones hold until it is approved. Raises
    VersionMismatch, WrongState for a memory that has ended or is not active, MemoryRefused, BlockedByTombstone.
    """
    lock_shared(memory.actor_id)
    held = Memory.objects.of([memory.actor_id]).locked([memory.pk, *(each.pk for each in along)])
    old = held.pop(memory.pk, None)
    if old is None:
        raise UnknownRow(format_lazy(_("No memory {id}."), id=memory.pk))
    if expected_version not in (None, old.version):
        raise VersionMismatch(old.version)
    _check_endable(old, at, by)
    olds = [old]
    for each in held.values():
        with suppress(Forbidden, WrongState, MemoryRefused):
            _check_endable(each, at, by)
            olds.append(each)
    written, is_new = write_memory(actor=old.actor, new=_successor(new, olds, at, by), by=by, now=now)
    if written.pk == old.pk:
        raise MemoryRefused("content", _("The new text says what the memory says already."))
    ending = [each for each in olds if each.pk != written.pk]
    if written.status == Status.ACTIVE:
        for each in ending:
            end_memory(each, written, at, by=by, reason=reason, now=now)
    elif written.status == Status.PENDING and by.is_trusted:
        note_superseded(written, ending, is_new=is_new, now=now)
    return written


def _check_endable(old: Memory, at: datetime, by: Principal) -> None:
    if not by.is_trusted and old.trust == Trust.TRUSTED:
        raise Forbidden(_("An untrusted key may not end a trusted memory; a curator can."))
    if old.status != Status.ACTIVE or old.superseded_by_id or (old.valid_to and old.valid_to <= at):
        raise WrongState(_("Only a memory that is active and still holds can be superseded."))
    # Several statements of one moment may replace each other: the former then held for no time at all.
    if old.valid_from and at < old.valid_from:
        raise MemoryRefused("valid_from", _("A memory cannot end before it begins."))


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
        needs_approval=new.needs_approval
        or (by.kind is PrincipalKind.JOB and any(each.locked for each in olds)),
        unlike=new.unlike.union(each.pk for each in olds),
    )
