"""New memories: their values, unsaved drafts, and bulk insertion of their related rows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.domain.statements.grounding import Doubt
from conversations.models import Message
from memoryhub.auth.principals import Principal, PrincipalKind
from memoryhub.auth.screening import Screening
from memoryhub.embeddings.spaces import IndexEntry
from memoryhub.search.index import UnusableVector, unit_vector
from memoryhub.search.models import EmbeddingSpace
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.namespaces import expand_namespace
from memoryhub.tenancy.policies import effective_policy, zone_of
from memoryhub.tenancy.policy import Trust, TrustPolicy
from strength.actions.duplicates import DuplicateQuery
from strength.actions.revisions import DOUBT, MARK, RESEMBLES, STRENGTH, UNCOMPARED, resembled_values, store_creations
from strength.actions.search import index_new_memories
from strength.domain.memories import (
    NO_UNTRUSTED_CUES,
    Kind,
    MemoryRefused,
    ScopeLevel,
    Source,
    Status,
    TombstoneReason,
    check_metadata,
    check_scope,
    content_digest,
    default_namespace,
)
from strength.domain.policy import StrengthPolicy
from strength.domain.strength import NO_DECAY, initial_strength
from strength.models import Memory, MemoryNumbers, MemorySource, PerspectiveStrength
from strength.models.sleep import begin_clock
from strength.sql import QUERIES, run_query


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
    cues: str = ""
    """Other words by which searches find it; no words of an untrusted memory."""
    embedding: Sequence[float] | None = None
    pinned: bool = False
    source_message_ids: Sequence[UUID] = ()
    channel: str = ""
    confidence: float | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    needs_approval: bool = False
    resembles: tuple[TombstoneReason, date, UUID] | None = None
    """Decision against a similar text, and its day; the memory waits for approval."""
    is_uncompared: bool = False
    """Not yet compared by a model with rejected texts; it waits for that or for approval."""
    doubt: Doubt | None = None
    """Reason why its sources do not support it; it waits for approval."""
    has_idempotency_key: bool = False
    """The client sent an idempotency key, so a repetition within a minute is intended."""
    contradicted_ids: frozenset[UUID] = frozenset()
    """Memories that it contradicts, which are never its duplicates."""


DECIDERS: Final[list[Callable[[Sequence["Draft"], datetime], None]]] = []
"""What decides about new memories of an actor that wait, in the transaction that writes them."""

SCREENED_FIELDS: Final = ("content", "tags", "learnings", "metadata", "cues")


def screen_memory(new: NewMemory, screening: Screening, by: Principal) -> NewMemory:
    """Return a memory as it is to be stored; unless a curator writes it, one that needs a review is pending."""
    screening.needs_review = False
    texts = {name: getattr(new, name) for name in SCREENED_FIELDS}
    screened = replace(new, **screening.columns(Memory, texts))
    needs_review = screening.needs_review and by.kind is not PrincipalKind.CURATOR
    return replace(screened, needs_approval=new.needs_approval or needs_review)


@dataclass(frozen=True, eq=False)
class Draft:
    """An unsaved memory with its input values, source messages and index entry."""

    memory: Memory
    new: NewMemory
    messages: Sequence[Message]
    entry: IndexEntry

    def duplicate_query(self, space: EmbeddingSpace) -> DuplicateQuery:
        vector = self.entry.vectors.get(space.id)
        numbers = None if vector is None else list(vector)
        return DuplicateQuery(
            self.memory.content, self.memory.namespace, numbers, excluded_ids=self.new.contradicted_ids
        )

    @property
    def revision_extras(self) -> dict[str, Any]:
        """Return the first revision's data beyond the values."""
        extras: dict[str, Any] = {}
        if self.new.resembles is not None:
            extras[RESEMBLES] = resembled_values(*self.new.resembles)
        if self.new.is_uncompared:
            extras[UNCOMPARED] = {"alone": not (self.new.needs_approval or self.new.doubt)}
        if self.new.doubt:
            extras[DOUBT] = [self.new.doubt.reason, self.new.doubt.detail]
        return extras


def source_messages(actor: Actor, ids: Iterable[UUID]) -> dict[UUID, Message]:
    return Message.objects.of([actor.id]).select_related("session").in_bulk(set(ids)) if ids else {}


def build_draft(
    actor: Actor, new: NewMemory, by: Principal, now: datetime, loaded: Mapping[UUID, Message] | None = None
) -> tuple[Memory, list[Message]]:
    """Return an unsaved memory, no more trusted than its source messages, and the messages. Raises MemoryRefused.

    The messages may be `loaded` already.
    """
    draft = _draft(actor, new, now)
    if new.embedding is not None and not by.is_trusted:
        raise MemoryRefused("embedding", _("An untrusted key may not send a vector; the server embeds the text."))
    if new.cues and not by.is_trusted:
        raise MemoryRefused("cues", NO_UNTRUSTED_CUES)
    ids = new.source_message_ids
    known = source_messages(actor, ids) if loaded is None else loaded
    messages = [known[key] for key in dict.fromkeys(ids) if key in known]
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
    if draft.trust == Trust.UNTRUSTED:
        draft.cues = ""
    is_unsure = new.confidence is not None and new.confidence < policy.confidence_floor
    crosses = is_shared(draft) and not by.may_touch_all_agents
    is_doubtful = draft.trust == Trust.UNTRUSTED or new.resembles or new.is_uncompared or is_unsure or new.doubt
    if is_doubtful or new.needs_approval or crosses:
        draft.status, draft.pinned = Status.PENDING, False
    return draft, messages


def is_shared(memory: Memory) -> bool:
    """Return whether other agents may read a memory; only keys for all agents, and curators, decide about these."""
    return memory.scope_level != ScopeLevel.PROJECT


def _draft(actor: Actor, new: NewMemory, now: datetime) -> Memory:
    domain = new.scope_domain if new.scope_domain is not None else actor.agent.domain
    check_scope(new.scope_level, domain=domain, user_id=actor.user_id)
    if new.valid_from and new.valid_to and new.valid_from > new.valid_to:
        raise MemoryRefused("valid_to", _("valid_to must not be before valid_from."))
    check_metadata(new.metadata)
    if new.confidence is not None and not 0 <= new.confidence <= 1:
        raise MemoryRefused("confidence", _("A confidence is between 0 and 1."))
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
        cues=new.cues, created_at=now, updated_at=now,
    )  # fmt: skip


def index_entry_of(new: NewMemory, entry: IndexEntry, spaces: Sequence[EmbeddingSpace]) -> IndexEntry:
    """Return an index entry, with the client's vector if one was given. Raises MemoryRefused."""
    if new.embedding is None:
        return entry
    try:
        vector = unit_vector(new.embedding, dimension=spaces[0].dimension)
    except UnusableVector as error:
        raise MemoryRefused("embedding", str(error)) from error
    return replace(entry, vectors={**entry.vectors, spaces[0].id: vector})


def complete_memories(
    drafts: Sequence[Draft], spaces: Sequence[EmbeddingSpace], *, by: Principal, reason: str = "", now: datetime
) -> None:
    """Add numbers, sources, index rows and first revisions of one actor's new memories, a statement for each table.

    Then rules decide about those that wait.
    """
    extras = _add_numbers(drafts, now)
    MemorySource.objects.bulk_create(
        source for draft in drafts for source in sources_of(draft.memory, draft.messages, now)
    )
    index_new_memories([(draft.memory, draft.entry) for draft in drafts], spaces)
    store_creations(
        [(draft.memory, reason, {**extras[draft.memory.pk], **draft.revision_extras}) for draft in drafts],
        by=by,
        now=now,
    )
    for decide in DECIDERS:
        decide(drafts, now)


def _add_numbers(drafts: Sequence[Draft], now: datetime) -> dict[UUID, dict[str, float | None]]:
    """Add the numbers of new memories; return their strengths and marks, from which their histories begin."""
    actor = drafts[0].memory.actor
    policy = effective_policy(StrengthPolicy, actor.agent, actor)
    strengths = {
        draft.memory.pk: initial_strength(policy, source=Source(draft.memory.source), stated=draft.new.strength)
        for draft in drafts
    }
    values = {"actor_id": actor.pk, "memory_ids": list(strengths), "strengths": list(strengths.values()), "now": now}
    rows = run_query(QUERIES["insert_numbers"], values, server_prepared=True)
    marks = {memory_id: mark for memory_id, mark, _is_first in rows}
    PerspectiveStrength.objects.bulk_create(
        PerspectiveStrength(
            actor_id=actor.pk,
            memory=draft.memory,
            perspective=name,
            strength=value,
            mark=marks[draft.memory.pk],
            as_of=now,
        )
        for draft in drafts
        for name, value in draft.new.strength_by_perspective.items()
    )
    if rows[0][2]:
        begin_clock(actor.pk, policy, now)
    for memory in (draft.memory for draft in drafts):
        # Sets `memory.numbers` without a query.
        MemoryNumbers(
            memory=memory, actor_id=actor.pk, strength=strengths[memory.pk], mark=marks[memory.pk], began_at=now
        )
    return {
        key: {STRENGTH: strength, MARK: marks[key] if marks[key] > NO_DECAY else None}
        for key, strength in strengths.items()
    }


def sources_of(memory: Memory, messages: Sequence[Message], now: datetime) -> list[MemorySource]:
    return [
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
    ]
