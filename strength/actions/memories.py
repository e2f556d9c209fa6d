"""Writing memories: once each, with provenance, findable at once (SPEC M1–M3, M8, M10)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Subquery
from django.db.models.functions import Coalesce
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
from memoryhub.tenancy.policies import effective_policy
from strength.actions.duplicates import near_duplicates
from strength.actions.revisions import keep_revision, snapshot
from strength.actions.search import follow_memories, index_memory
from strength.actions.tombstones import (
    BlockedByTombstone,
    atomic_but_for_tombstones,
    count_held_back,
    find_deletion,
    find_tombstone,
    lift_tombstones,
)
from strength.actions.usage import reinforce, set_strengths
from strength.domain.memories import (
    AUTOMATIC,
    SLEEP_VERB,
    Kind,
    MemoryRefused,
    ScopeLevel,
    Source,
    Status,
    TombstoneReason,
    WrongState,
    check_scope,
    content_digest,
    default_namespace,
)
from strength.domain.policy import StrengthPolicy
from strength.domain.strength import initial_strength
from strength.models import (
    CurrentNumbers,
    Memory,
    MemoryNumbers,
    MemoryRevision,
    MemorySource,
    PerspectiveStrength,
    SleepState,
)
from strength.models.locks import lock_shared
from strength.sql import FADES_BY


@dataclass(frozen=True, kw_only=True)
class NewMemory:
    """A memory as somebody wants it written; None leaves the choice to policy and agent."""

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
    embedding: Sequence[float] | None = None
    pinned: bool = False
    source_message_ids: Sequence[UUID] = ()
    channel: str = ""
    confidence: float | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    waits: bool = False
    """Whether it waits for a curator whatever its source is."""
    unlike: frozenset[UUID] = frozenset()
    """Memories that it contradicts: however near their words are, they do not say the same."""

    @property
    def is_automatic(self) -> bool:
        """Whether a program writes it on its own account."""
        return self.source in AUTOMATIC


def write_memory(*, actor: Actor, new: NewMemory, by: Principal, now: datetime) -> tuple[Memory, bool]:
    """Write a memory and return it with True, or reinforce the one that says the same and return False.

    The same is the same text; for what was extracted, near words too. Text from an untrusted key, channel or source
    message, or below the confidence floor, waits as `pending`, and reinforces nothing. What a person decided against
    does not come back: what a program writes is not stored (DecidedAgainst), or answered with what the person put in
    its place; what a client asks for waits for a curator; a curator's own word lifts the decision.

    Raises MemoryRefused naming the value that is wrong, UnknownRow where the actor was erased meanwhile.
    """
    spaces = writing_spaces()
    draft = _draft(actor, new, now)
    messages = _source_messages(actor, new.source_message_ids)
    _judge(draft, actor, new, messages, by)
    entry = _entry(new, spaces)
    with transaction.atomic():
        lock_shared(actor.id)
        known = _same_text(draft)
        believed = known is not None and known.status == Status.ACTIVE
        standing = Standing() if believed else _weigh(draft, new, by, now)
        if standing.in_its_place is not None:
            return standing.in_its_place, False
        if standing.against is None:
            known = known or _said_before(draft, new, entry, spaces) or _faded_away(draft, by, now)
            known = known or _insert_or_find(draft)
            if known is not None:
                return _seen_again(known, draft, messages, by=by, now=now), False
            _add_numbers(draft, new)
            _add_sources(draft, messages, now)
            index_memory(draft, entry, spaces)
            keep_revision(memory=draft, verb="create", before={}, by=by, reason=standing.reason, now=now)
    if standing.against is not None:
        raise BlockedByTombstone(standing.against)
    return draft, True


@transaction.atomic
def say_again(*, memory: Memory, new: NewMemory, by: Principal, now: datetime) -> Memory:
    """Note that a memory was said again in words of another kind: where, and that it is believed the more for it.

    For whoever knows by meaning that it is the same; its text stays. What waits is not brought in: it is approved by
    its exact text. Raises MemoryRefused, UnknownRow.
    """
    draft = _draft(memory.actor, new, now)
    messages = _source_messages(memory.actor, new.source_message_ids)
    _judge(draft, memory.actor, new, messages, by)
    lock_shared(memory.actor_id)
    rows = Memory.objects.select_for_update(of=["self"]).select_related("actor__agent")
    known = rows.filter(actor_id=memory.actor_id, pk=memory.pk).first()
    if known is None:
        raise UnknownRow(format_lazy(_("No memory {id}."), id=memory.pk))
    if known.status == Status.ACTIVE and known.valid_to is None:
        return _seen_again(known, draft, messages, by=by, now=now)
    _add_sources(known, messages, now)
    return known


@dataclass(frozen=True)
class Standing:
    """How a text stands to what people decided: what keeps it out, what they put in its place, why it waits."""

    against: TombstoneReason | None = None
    in_its_place: Memory | None = None
    reason: str = ""


def _weigh(draft: Memory, new: NewMemory, by: Principal, now: datetime) -> Standing:
    """Hold a draft against what people decided, and make it wait where a client insists."""
    if by.kind is PrincipalKind.CURATOR:
        lift_tombstones(actor_id=draft.actor_id, text=draft.content)
        return Standing()
    decided = find_tombstone(actor_id=draft.actor_id, text=draft.content)
    if decided is None and new.source is Source.EXTRACTION:
        decided = find_deletion(actor_id=draft.actor_id, kind=draft.kind, message_ids=new.source_message_ids)
    if decided is None:
        return Standing()
    decision = TombstoneReason(decided.decision)
    if not new.is_automatic and by.kind is not PrincipalKind.JOB:
        draft.status, draft.pinned = Status.PENDING, False
        return Standing(reason=f"A person {decision} a memory that says this.")
    count_held_back(decided, now=now)
    put_right = Memory.objects.of([draft.actor_id]).active().filter(pk__in=[decided.memory_id]).first()
    return Standing(in_its_place=put_right) if put_right else Standing(against=decision)


def _said_before(
    draft: Memory, new: NewMemory, entry: IndexEntry, spaces: Sequence[EmbeddingSpace]
) -> Memory | None:
    """Return the memory of the namespace that says the same in near words as what was extracted, locked.

    Believed words meet believed ones only: what waits is approved by its exact text (SPEC M10).
    """
    if new.source is not Source.EXTRACTION:
        return None
    alike = near_duplicates(
        actor_id=draft.actor_id, namespace=draft.namespace, text=draft.content, space=spaces[0],
        vector=entry.vectors.get(spaces[0].id), now=draft.created_at,
        among=[Status.ACTIVE] if draft.status == Status.ACTIVE else [Status.ACTIVE, Status.PENDING],
        besides=new.unlike,
    )  # fmt: skip
    rows = Memory.objects.select_for_update(of=["self"]).select_related("actor__agent")
    return rows.filter(actor_id=draft.actor_id, pk=alike[0].memory.pk).first() if alike else None


def _faded_away(draft: Memory, by: Principal, now: datetime) -> Memory | None:
    """Return the memory with this text that a sleep has archived, brought back: with its uses, its level, its origin.

    One that a person archived is left where they put it.
    """
    if draft.status != Status.ACTIVE:
        return None
    rows = (
        Memory.objects.select_for_update(of=["self"]).select_related("actor__agent").order_by("-updated_at")
    )
    faded = rows.filter(
        actor_id=draft.actor_id, namespace=draft.namespace, content_digest=draft.content_digest,
        status=Status.ARCHIVED, superseded_by=None, valid_to=None,
    ).first()  # fmt: skip
    if faded is None or _last_verb(faded) != SLEEP_VERB:
        return None
    before = snapshot(faded)
    faded.status, faded.version, faded.updated_at = Status.ACTIVE, faded.version + 1, now
    faded.save(update_fields=["status", "version", "updated_at"])
    follow_memories([faded])
    strength = effective_policy(StrengthPolicy, faded.agent, faded.actor).reactivation_strength
    set_strengths(memories=[faded], strengths={faded.pk: strength}, by=by, now=now)
    keep_revision(memory=faded, verb="return", before=before, by=by, reason="It was said again.", now=now)
    return faded


def _last_verb(memory: Memory) -> str | None:
    revisions = MemoryRevision.objects.filter(actor_id=memory.actor_id, memory=memory)
    return revisions.order_by("-number").values_list("verb", flat=True).first()


def _insert_or_find(draft: Memory) -> Memory | None:
    """Insert the draft and return None, or return the memory that has got its text meanwhile, locked."""
    try:
        with transaction.atomic():
            draft.save(force_insert=True)
    except IntegrityError:
        if known := _same_text(draft):
            return known
        raise
    return None


def _draft(actor: Actor, new: NewMemory, now: datetime) -> Memory:
    names = {"agent_id": actor.agent_id, "user_id": actor.user_id}
    domain = new.scope_domain if new.scope_domain is not None else actor.agent.domain
    check_scope(new.scope_level, domain=domain, user_id=actor.user_id)
    if new.valid_from and new.valid_to and new.valid_from > new.valid_to:
        raise MemoryRefused("valid_to", _("A memory cannot end before it begins."))
    if new.confidence is not None and not 0 <= new.confidence <= 1:
        raise MemoryRefused("confidence", _("A confidence lies between 0 and 1."))
    in_project = new.scope_level is ScopeLevel.PROJECT
    project = new.scope_project if new.scope_project is not None else actor.agent.current_project
    return Memory(
        actor=actor,
        content=new.content,
        content_digest=content_digest(new.content),
        namespace=expand_namespace(new.namespace or default_namespace(new.kind), **names),
        kind=new.kind,
        tags=list(dict.fromkeys(new.tags)),
        scope_level=new.scope_level,
        scope_domain=domain if new.scope_level is ScopeLevel.DOMAIN else "",
        scope_project=project if in_project else "",
        pinned=new.pinned,
        source=new.source,
        channel=new.channel,
        confidence=new.confidence,
        learnings=dict(new.learnings),
        valid_from=new.valid_from,
        valid_to=new.valid_to,
        created_at=now,
        updated_at=now,
    )


def _source_messages(actor: Actor, message_ids: Sequence[UUID]) -> list[Message]:
    found = list(Message.objects.of([actor.id]).filter(id__in=message_ids).select_related("session"))
    if missing := set(message_ids) - {message.id for message in found}:
        raise MemoryRefused(
            "source_message_ids",
            format_lazy(_("No such message of this actor: {id}."), id=sorted(map(str, missing))[0]),
        )
    return found


def _judge(draft: Memory, actor: Actor, new: NewMemory, messages: Sequence[Message], by: Principal) -> None:
    """Set trust and status: a memory is never more trusted than what it was drawn from."""
    policy = effective_policy(TrustPolicy, actor.agent, actor)
    channels = [new.channel, *(message.session.channel for message in messages)]
    verdicts = {policy.trust(channel=channel, source_is_trusted=by.is_trusted) for channel in channels}
    verdicts |= {Trust(message.trust) for message in messages}
    draft.trust = Trust.UNTRUSTED if Trust.UNTRUSTED in verdicts else Trust.TRUSTED
    doubtful = new.waits or (new.confidence is not None and new.confidence < policy.confidence_floor)
    if draft.trust == Trust.UNTRUSTED or doubtful:
        draft.status = Status.PENDING
        draft.pinned = False


def _entry(new: NewMemory, spaces: Sequence[EmbeddingSpace]) -> IndexEntry:
    entry = index_entries([new.content], spaces)[0]
    if new.embedding is None:
        return entry
    try:
        given = unit_vector(new.embedding, dimension=spaces[0].dimension)
    except UnusableVector as error:
        raise MemoryRefused("embedding", str(error)) from error
    return IndexEntry(entry.terms, {**entry.vectors, spaces[0].id: given})


def _same_text(draft: Memory) -> Memory | None:
    rows = Memory.objects.select_for_update(of=["self"]).filter(
        actor_id=draft.actor_id,
        namespace=draft.namespace,
        content_digest=draft.content_digest,
        status__in=[Status.ACTIVE, Status.PENDING],
        superseded_by=None,
        valid_to=None,
    )
    return rows.select_related("actor__agent").first()


def _seen_again(
    memory: Memory, draft: Memory, messages: Sequence[Message], *, by: Principal, now: datetime
) -> Memory:
    """Add where it was said again; believed words reinforce, and bring in a text that was waiting.

    The same message read once more says nothing again.
    """
    is_told_anew = _add_sources(memory, messages, now) or not messages
    if draft.status != Status.ACTIVE:
        return memory
    if memory.status == Status.PENDING:
        before = snapshot(memory)
        memory.status, memory.trust = Status.ACTIVE, Trust.TRUSTED
        memory.version, memory.updated_at = memory.version + 1, now
        memory.save(update_fields=["status", "trust", "version", "updated_at"])
        follow_memories([memory])
        keep_revision(
            memory=memory,
            verb="confirm",
            before=before,
            by=by,
            reason="A trusted source said the same.",
            now=now,
        )
        end_superseded(memory, by=by, now=now)
    if is_told_anew:
        reinforce(memory=memory, now=now)
    return memory


def _add_numbers(memory: Memory, new: NewMemory) -> None:
    policy = effective_policy(StrengthPolicy, memory.agent, memory.actor)
    values = {
        "memory": memory,
        "actor_id": memory.actor_id,
        "strength": initial_strength(policy, source=Source(memory.source), stated=new.strength),
        "last_decay_at": memory.created_at,
        **{name: getattr(memory, name) for name in FADES_BY},
    }
    MemoryNumbers.objects.create(decayed_at_task=_tasks_completed(memory.actor_id), **values)
    CurrentNumbers(faded=0.0, **values)  # the memory's `numbers`, which need not be read: it is new
    PerspectiveStrength.objects.bulk_create(
        PerspectiveStrength(
            actor_id=memory.actor_id, memory=memory, perspective=name, strength=value, as_of=memory.created_at
        )
        for name, value in new.strength_by_perspective.items()
    )


def _tasks_completed(actor_id: UUID) -> Coalesce:
    """Return the actor's clock of tasks as the database knows it, 0 before the first."""
    clock = SleepState.objects.filter(actor_id=actor_id).values("tasks_completed")
    return Coalesce(Subquery(clock), 0)


def _add_sources(memory: Memory, messages: Sequence[Message], now: datetime) -> bool:
    """Note where a memory was said, and return whether one of the messages was not known as its source before."""
    sources = MemorySource.objects.filter(actor_id=memory.actor_id, memory=memory)
    known = sources.filter(message_id__in=[message.id for message in messages]).count()
    MemorySource.objects.bulk_create(
        [
            MemorySource(
                actor_id=memory.actor_id,
                memory=memory,
                message_id=message.id,
                session_id=message.session_id,
                channel=message.session.channel,
                trust=message.trust,
                created_at=now,
            )
            for message in messages
        ],
        ignore_conflicts=True,
    )
    return known < len(messages)


APPROVED: Final = "What contradicts it was approved."


def end_memory(old: Memory, new: Memory, at: datetime, *, by: Principal, reason: str, now: datetime) -> None:
    """Let a locked memory have held until `at`, and name what holds since; it is kept, with its revision."""
    before = snapshot(old)
    old.valid_to, old.superseded_by, old.pinned = at, new, False
    old.version, old.updated_at = old.version + 1, now
    old.save(update_fields=["valid_to", "superseded_by", "pinned", "version", "updated_at"])
    follow_memories([old])
    keep_revision(memory=old, verb="supersede", before=before, by=by, reason=reason, now=now)


def note_superseded(waiting: Memory, olds: Sequence[Memory], *, is_new: bool, now: datetime) -> None:
    """Note with a memory that waits what no longer holds once it is approved.

    One that waited before is another version by that: who read it without what it ends has not approved of it.
    """
    known = list(waiting.supersedes or [])
    more = [old.pk for old in olds if old.pk not in known]
    if not more:
        return
    waiting.supersedes = [*known, *more]
    if not is_new:
        waiting.version, waiting.updated_at = waiting.version + 1, now
    waiting.save(update_fields=["supersedes", "version", "updated_at"])


def end_superseded(approved: Memory, *, by: Principal, now: datetime) -> None:
    """End what a memory that was just brought in contradicts, as far as it still holds; in its transaction.

    A person who approves it has decided so; a job ends nothing that a person pinned or put right.
    """
    keys, at = approved.supersedes or [], min(approved.valid_from or now, now)
    rows = Memory.objects.of([approved.actor_id]).active().filter(pk__in=keys, superseded_by=None)
    for old in rows.select_for_update(of=["self"]).select_related("actor__agent").order_by("id"):
        is_kept = by.kind is PrincipalKind.JOB and (old.pinned or old.locked)
        has_ended = old.valid_to is not None and old.valid_to <= at
        begins_later = old.valid_from is not None and old.valid_from > at
        if not (is_kept or has_ended or begins_later):
            end_memory(old, approved, at, by=by, reason=APPROVED, now=now)
    if keys:
        approved.supersedes = None
        approved.save(update_fields=["supersedes"])


def is_activated(memory: Memory, was: str) -> bool:
    """Say whether a memory that waited has just become active."""
    return memory.status == Status.ACTIVE and was == Status.PENDING


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
    """Write what holds from `at` on, and end what held until then; return the new memory.

    What is not stated of the new one is as it was of the old. The old one is kept with its end, and found by those who
    ask what held at a time before (`as_of`). Those `along` end with it where they can. Where the new text has to wait
    for a curator, or a job would end what a person has put right, the new one waits and the old ones hold on until it
    is approved. Raises VersionMismatch, WrongState for a memory that is not active or has ended, MemoryRefused for an
    end before its begin, DecidedAgainst and others as `write_memory` does.
    """
    lock_shared(memory.actor_id)
    rows = Memory.objects.of([memory.actor_id]).select_for_update(of=["self"]).select_related("actor__agent")
    held = {
        each.pk: each for each in rows.filter(pk__in=[memory.pk, *(each.pk for each in along)]).order_by("id")
    }
    old = held.pop(memory.pk, None)
    if old is None:
        raise UnknownRow(format_lazy(_("No memory {id}."), id=memory.pk))
    if expected_version is not None and old.version != expected_version:
        raise VersionMismatch(old.version)
    _check(old, at, by)
    olds = [old, *_endable(list(held.values()), at, by)]
    waits = new.waits or (by.kind is PrincipalKind.JOB and any(each.locked for each in olds))
    unlike = new.unlike.union(each.pk for each in olds)
    written, is_new = write_memory(
        actor=old.actor, new=_like(old, replace(new, waits=waits, unlike=unlike), at), by=by, now=now
    )
    if written.pk == old.pk:
        raise MemoryRefused("content", _("The new text says what the memory says already."))
    ending = [each for each in olds if each.pk != written.pk]
    if written.status == Status.ACTIVE:
        for each in ending:
            end_memory(each, written, at, by=by, reason=reason, now=now)
    elif written.status == Status.PENDING and by.is_trusted:
        note_superseded(written, ending, is_new=is_new, now=now)
    return written


def _endable(memories: Sequence[Memory], at: datetime, by: Principal) -> list[Memory]:
    found = []
    for each in memories:
        with suppress(Forbidden, WrongState, MemoryRefused):
            _check(each, at, by)
            found.append(each)
    return found


def _check(old: Memory, at: datetime, by: Principal) -> None:
    if not by.is_trusted and old.trust == Trust.TRUSTED:
        raise Forbidden(_("An untrusted key may not end what is believed; a curator can."))
    if old.status != Status.ACTIVE or old.superseded_by_id or (old.valid_to and old.valid_to <= at):
        raise WrongState(_("Only a memory that is active and still holds can be superseded."))
    # What was said at one moment may replace itself more than once: it then held for no time at all.
    if old.valid_from and at < old.valid_from:
        raise MemoryRefused("valid_from", _("A memory cannot end before it begins."))


def _like(old: Memory, new: NewMemory, at: datetime) -> NewMemory:
    """Return the new memory where and of what sort the old one was, from its time on."""
    return replace(
        new,
        kind=Kind(old.kind),
        namespace=old.namespace,
        tags=new.tags or old.tags,
        scope_level=ScopeLevel(old.scope_level),
        scope_domain=old.scope_domain or None,
        scope_project=old.scope_project,
        valid_from=at,
    )
