"""Compare extracted statements with known memories by a language model, and write them accordingly (SPEC M8–M10).

Near duplicates are found without a model; paraphrases and contradictions need one. It is asked once about everything
that one slice of messages yielded, before any of it is written, and in portions where much is known.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Final, Literal
from uuid import UUID

from django.db.models import F, Q

from conversations.domain.statements.grounding import Doubt
from conversations.models import Message
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Forbidden, Principal
from memoryhub.embeddings.spaces import active_space, embed_query
from memoryhub.errors import stored_text
from memoryhub.llm.client import complete_json, counter_in_use, material_limit
from memoryhub.llm.errors import BadAnswer, ProviderError
from memoryhub.llm.types import Operation
from memoryhub.llm.usage.recording import payer
from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import term_ids
from memoryhub.search.fusion import scaled_similarity
from memoryhub.search.models import EmbeddingSpace
from memoryhub.search.query import SearchQuery, build_query, candidates
from memoryhub.search.query_text import QueryText
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.namespaces import expand_namespace
from memoryhub.tenancy.policies import effective_policy, zone_of
from memoryhub.tenancy.policy import Trust, TrustPolicy
from memoryhub.zones import local_day
from strength.actions.drafts import NewMemory
from strength.actions.memories import confirm_pending, repeat_memory, supersede_memory, write_memory
from strength.actions.revisions import RESEMBLES, UNCOMPARED, resembled_values
from strength.actions.search import nearest_memories
from strength.actions.tombstones import BlockedByTombstone, atomic_but_for_tombstones, count_blocked_statement
from strength.domain.contradictions import (
    JUDGING_SCHEMA,
    REJECTING_STATES,
    Action,
    KnownMemory,
    KnownState,
    Relation,
    Resolution,
    compared_places,
    relations,
    resembles,
    resolve,
    statement_blocks,
)
from strength.domain.duplicates import fingerprint
from strength.domain.memories import (
    Kind,
    MemoryRefused,
    ScopeLevel,
    Source,
    Status,
    TombstoneReason,
    WrongState,
    default_namespace,
)
from strength.models import Memory, MemoryIndex, MemoryRevision, MemorySource, Tombstone
from strength.models.locks import lock_numbers, lock_shared

MAX_NEAREST: Final = 6
MAX_NEAREST_REJECTED: Final = 20
"""Most known statements compared with each new one: relevant ones, and those that people rejected or edited."""

SIMILARITY_FLOOR: Final = 0.15
"""Minimum relevance by cosine alone of a possible paraphrase."""

MAX_KNOWN: Final = 60
JUDGED_TOKENS: Final = 12_000
"""Known statements in one prompt; further prompts hold the rest."""

MERGED_KINDS: Final = (Kind.FACT, Kind.PREFERENCE)
COMPARED_KINDS: Final = frozenset({*MERGED_KINDS, Kind.REFLECTION})
"""Kinds that are compared; each episode is a separate event."""

MAX_CORRECTIONS: Final = 200
MAX_UNCOMPARED: Final = 20
"""Pending memories compared in one prompt."""

CONTRADICTION_REASON: Final = stored_text("What was said later contradicts it.")
COMPARISON_REASON: Final = stored_text("It is not what people rejected or edited.")

Step = Callable[[], AbstractContextManager[None]]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExtractedMemory:
    """A memory that a strategy extracted and has not written yet."""

    content: str = field(repr=False)
    kind: Kind
    namespace: str
    confidence: float
    message_ids: tuple[UUID, ...]
    said_at: datetime
    is_trusted: bool
    tags: tuple[str, ...] = ()
    doubt: Doubt | None = None
    """Reason why the messages do not support it."""
    cues: str = field(default="", repr=False)


def resolve_extracted(
    *, actor: Actor, extracted: Sequence[ExtractedMemory], now: datetime, retries_bad_answers: bool = True
) -> dict[int, Resolution]:
    """Return resolutions of extracted memories by index; those without one are written as new.

    Network, so outside any transaction. No model is asked where nothing similar is known. Raises ProviderError where
    another attempt helps, for unusable answers only if `retries_bad_answers`; otherwise near duplicates are
    detected at writing, without the model.
    """
    space, comparisons = active_space(), dict[int, dict[KnownMemory, bool]]()
    for index, new in enumerate(extracted):
        compared = known_memories(actor, new, space, now=now) if new.kind in COMPARED_KINDS else {}
        # Exact duplicates are detected when writing, without a model.
        if not any(known.text.strip() == new.content and known.state is KnownState.CURRENT for known in compared):
            comparisons[index] = compared
    return _resolve_by_model(actor, extracted, comparisons, retries_bad_answers=retries_bad_answers)


def _resolve_by_model(
    actor: Actor,
    extracted: Sequence[ExtractedMemory],
    comparisons: Mapping[int, Mapping[KnownMemory, bool]],
    *,
    retries_bad_answers: bool,
) -> dict[int, Resolution]:
    related: dict[int, dict[KnownMemory, Relation]] = {}
    uncompared = defaultdict[int, list[KnownMemory]](list)
    most = material_limit(Operation.JUDGE, JUDGED_TOKENS)
    for indexes, known in _questions(extracted, comparisons, most=most):
        blocks = statement_blocks(known, [extracted[index].content for index in indexes], language=actor.agent.language)
        try:
            data = complete_json(actor, Operation.JUDGE, "judge_facts", blocks, JUDGING_SCHEMA)
        except ProviderError as error:
            if not error.permanent and (retries_bad_answers or not isinstance(error, BadAnswer)):
                raise
            log.warning("no model judged contradictions, near duplicates decide", extra={"code": error.code})
            data = None
        relations_of = relations(data, known=len(known), new=len(indexes))
        compared = compared_places(data, new=len(indexes))
        for position, index in enumerate(indexes):
            named_relations = {known[other]: relation for other, relation in relations_of.get(position, {}).items()}
            related[index] = related.get(index, {}) | named_relations
            if position not in compared:
                uncompared[index] += [
                    statement
                    for statement in known
                    if statement in comparisons[index] and statement.state in REJECTING_STATES
                ]
    return {
        index: resolve(
            relations_of_new,
            said_at=extracted[index].said_at,
            is_trusted=extracted[index].is_trusted,
            near=[known for known, is_near in comparisons[index].items() if is_near],
            uncompared=uncompared[index],
        )
        for index, relations_of_new in related.items()
    }


def _questions(
    extracted: Sequence[ExtractedMemory], comparisons: Mapping[int, Collection[KnownMemory]], *, most: int
) -> Iterator[tuple[list[int], list[KnownMemory]]]:
    """Yield indexes of new statements with the known ones to compare them with, a prompt of `most` tokens for each.

    Untrusted texts have prompts of their own, since they may hold instructions to the model; those that a person
    rejected are compared with trusted statements in a further prompt.
    """
    count = counter_in_use(Operation.JUDGE).count
    for new_is_trusted, known_is_trusted in ((True, True), (True, False), (False, None)):
        indexes, known, tokens = list[int](), dict[KnownMemory, None](), 0
        for index in (key for key in comparisons if extracted[key].is_trusted is new_is_trusted):
            added = {
                statement: None for statement in comparisons[index] if known_is_trusted in (None, statement.is_trusted)
            }
            size = sum(map(count, [extracted[index].content, *(each.text for each in added if each not in known)]))
            if indexes and (len(known | added) > MAX_KNOWN or tokens + size > most):
                yield indexes, list(known)
                indexes, known, tokens = [], {}, 0
            if added:
                indexes.append(index)
                known |= added
                tokens += size
        if indexes:
            yield indexes, list(known)


def known_memories(
    actor: Actor, new: ExtractedMemory, space: EmbeddingSpace, *, now: datetime
) -> dict[KnownMemory, bool]:
    """Return the nearest known memories: rejected, corrected, and those of the agent's project, valid or ended.

    True for those that a person decided against and the new one resembles, in words or meaning. Memories of another
    project are neither reinforced nor ended from here.
    """
    kinds = MERGED_KINDS if new.kind in MERGED_KINDS else (new.kind,)
    names = {"agent_id": actor.agent_id, "user_id": actor.user_id}
    namespaces = [expand_namespace(default_namespace(kind), **names) for kind in kinds]
    own = Q(actor_id=actor.id, namespace__in=namespaces)
    vector = embed_query(space, new.content, payer=payer(actor))
    query = build_query(QueryText.of(new.content), vector, space=space)
    rejected = own & Q(status=Status.REJECTED)
    visible = own & Q(status__in=[Status.ACTIVE] if new.is_trusted else [Status.ACTIVE, Status.PENDING])
    if project := actor.agent.current_project:
        visible &= ~(Q(scope_level=ScopeLevel.PROJECT) & ~Q(scope_project__in=["", project]))
    # Without a threshold, as texts in another language share no words.
    near = nearest_memories(rejected, query, limit=MAX_NEAREST_REJECTED) + nearest_memories(
        visible, query, limit=MAX_NEAREST
    )
    nearest = [memory for memory, _relevance in near]
    last_said, similar = _last_said_at(nearest, now), _similar_rejected(rejected, query)
    known = {
        corrected: resembles(new.content, corrected.text)
        for corrected in _corrected_texts(actor, namespaces, new.content)
    }
    for memory in nearest:
        known_memory = _known_memory(memory, last_said.get(memory.pk) or memory.created_at, now)
        is_rejected = known_memory.state is KnownState.REJECTED
        known[known_memory] = is_rejected and (memory.pk in similar or resembles(new.content, memory.content))
    return known


def _known_memory(memory: Memory, said_at: datetime, now: datetime) -> KnownMemory:
    has_ended = memory.valid_to is not None and memory.valid_to <= now
    by_status = {Status.REJECTED: KnownState.REJECTED, Status.PENDING: KnownState.PENDING}
    state = by_status.get(Status(memory.status), KnownState.ENDED if has_ended else KnownState.CURRENT)
    return KnownMemory(
        memory.pk,
        memory.content,
        state,
        max(filter(None, [memory.valid_from, said_at])),
        memory.valid_to,
        memory.updated_at if state is KnownState.REJECTED else None,
        is_trusted=memory.trust == Trust.TRUSTED,
    )


def _similar_rejected(rejected: Q, query: SearchQuery) -> set[UUID]:
    """Return the rejected memories with vectors near the query's."""
    bounds = query.bounds
    near = candidates(
        MemoryIndex, rejected, query, similarity_threshold=0.0, word_floor=0.0, limit=MAX_NEAREST_REJECTED
    ).best
    return {
        candidate.owner_id
        for candidate in near
        if candidate.similarity_raw is not None
        and bounds.vector_weight * scaled_similarity(candidate.similarity_raw, bounds) >= SIMILARITY_FLOOR
    }


def _last_said_at(memories: Sequence[Memory], now: datetime) -> dict[UUID, datetime]:
    """Return the time of each memory's latest source message.

    For active memories only trusted messages count: others must not prevent its end. A message's time is set
    by its client, so it is capped at the time when it became a source, and at now.
    """
    is_active = {memory.pk: memory.status == Status.ACTIVE for memory in memories}
    actors = list({memory.actor_id for memory in memories})
    sources = MemorySource.objects.filter(actor_id__in=actors, memory__in=list(is_active))
    sources_used = [source for source in sources if source.trust == Trust.TRUSTED or not is_active[source.memory_id]]
    messages = Message.objects.of(actors).filter(pk__in=[source.message_id for source in sources_used])
    times = dict(messages.values_list("pk", "created_at"))
    last_said: dict[UUID, datetime] = {}
    for source in sources_used:
        if (created_at := times.get(source.message_id)) is not None:
            at = min(created_at, source.created_at, now)
            last_said[source.memory_id] = max(at, last_said.get(source.memory_id, at))
    return last_said


def _corrected_texts(actor: Actor, namespaces: Sequence[str], text: str) -> list[KnownMemory]:
    """Return texts that people corrected, nearest first: tombstones hold no texts, but revisions do."""
    tombstones = Tombstone.objects.filter(actor_id=actor.id, decision=TombstoneReason.EDITED, memory_id__isnull=False)
    edited = list(tombstones.values_list("memory_id", "digest")[:MAX_CORRECTIONS])
    digests = {bytes(digest) for _, digest in edited}
    revisions = MemoryRevision.objects.filter(
        actor_id=actor.id,
        memory__in=[memory_id for memory_id, _ in edited],
        memory__namespace__in=namespaces,
        verb__in=["edit", "restore"],
        changed_before__has_key="content",
    )
    corrected = [
        KnownMemory(memory_id, str(before["content"]), KnownState.CORRECTED, created_at, decided_at=created_at)
        for memory_id, before, created_at in revisions.values_list("memory_id", "changed_before", "created_at")
        if fingerprint(str(before["content"])).digest in digests
    ]
    terms = set(term_ids(analyse(text)))
    corrected.sort(key=lambda memory: -len(terms.intersection(term_ids(analyse(memory.text)))))
    return corrected[:MAX_NEAREST_REJECTED]


Outcome = Literal["new", "known", "blocked", "refused"]
"""Outcome of an extracted memory: written, a duplicate, blocked by a tombstone, or invalid."""


def write_extracted(
    *,
    actor: Actor,
    extracted: Sequence[ExtractedMemory],
    resolutions: Mapping[int, Resolution],
    channel: str,
    by: Principal,
    now: datetime,
) -> Counter[Outcome]:
    """Write extracted memories as resolved, those that can be; inside the caller's transaction."""
    outcomes: Counter[Outcome] = Counter()
    if not extracted:
        return outcomes
    lock_shared(actor.id)
    # Lock known memories, then their numbers, in the order of keys, as all writers do.
    if keys := {known.memory_id for resolution in resolutions.values() for known in resolution.about}:
        Memory.objects.of([actor.id]).locked(keys)
        lock_numbers(actor.id, keys)
    for index, new in enumerate(extracted):
        try:
            with atomic_but_for_tombstones():
                resolution = resolutions.get(index, Resolution(Action.WRITE))
                outcome = _write(actor, new, resolution, channel, by, now)
        except BlockedByTombstone:
            outcome = "blocked"
        except MemoryRefused:
            outcome = "refused"
        outcomes[outcome] += 1
    return outcomes


def _write(
    actor: Actor, extracted: ExtractedMemory, resolution: Resolution, channel: str, by: Principal, now: datetime
) -> Outcome:
    """Write, repeat or supersede; of contradicted memories those that a person pinned or edited stay until review."""
    doubted = resolution.about[:1] if resolution.action is Action.BLOCK else filter(None, [resolution.resembles])
    for known in doubted:
        count_blocked_statement(actor_id=actor.id, text=known.text, now=now)
    if resolution.action is Action.BLOCK:
        return "blocked"
    keys = [known.memory_id for known in resolution.about]
    new = NewMemory(
        content=extracted.content,
        kind=extracted.kind,
        namespace=extracted.namespace,
        source=Source.EXTRACTION,
        source_message_ids=extracted.message_ids,
        channel=channel,
        confidence=extracted.confidence,
        tags=extracted.tags,
        doubt=extracted.doubt,
        cues=extracted.cues,
    )
    rows = Memory.objects.of([actor.id]).select_related("actor__agent").in_bulk(keys)
    contradicted = [rows[key] for key in keys if key in rows]
    if resolution.action is Action.REINFORCE:
        if not contradicted:  # deleted during the call, which is a decision against this text too
            count_blocked_statement(actor_id=actor.id, text=resolution.about[0].text, now=now)
            return "blocked"
        repeat_memory(memory=contradicted[0], new=new, by=by, now=now)
        return "known"
    new = replace(new, contradicted_ids=frozenset(keys), is_uncompared=resolution.is_uncompared)
    if resolution.resembles is not None:
        new = replace(new, resembles=_resembled_decision(resolution.resembles, actor, now))
    if resolution.action is Action.WRITE_AS_PAST:
        new = replace(new, valid_from=extracted.said_at, valid_to=resolution.about[0].said_at)
    if resolution.action is Action.SUPERSEDE and extracted.is_trusted and contradicted:
        new = replace(new, needs_approval=any(old.pinned or old.locked for old in contradicted))
        if _supersede(new, contradicted, min(extracted.said_at, now), by, now):
            return "new"
    _memory, is_new = write_memory(actor=actor, new=new, by=by, now=now)
    return "new" if is_new else "known"


def _supersede(new: NewMemory, contradicted: Sequence[Memory], at: datetime, by: Principal, now: datetime) -> bool:
    """Write a memory in place of the contradicted ones; False where all of them changed since the model was asked."""
    for old in sorted(contradicted, key=lambda memory: memory.kind != new.kind):
        others = [memory for memory in contradicted if memory.pk != old.pk]
        with suppress(WrongState, UnknownRow, Forbidden, MemoryRefused):
            supersede_memory(memory=old, new=new, at=at, by=by, reason=CONTRADICTION_REASON, now=now, also_ended=others)
            return True
    return False


def compare_pending(*, actor: Actor, by: Principal, now: datetime, step: Step) -> None:
    """Compare pending memories with rejected ones by a model, and activate those that resemble none.

    Network. Without an answer they wait for the next extraction.
    """
    revisions = MemoryRevision.objects.filter(
        actor_id=actor.id, memory__status=Status.PENDING, number=F("memory__version"), beside__has_key=UNCOMPARED
    )
    pending = list(revisions.select_related("memory").order_by("created_at", "pk")[:MAX_UNCOMPARED])
    if not pending:
        return
    extracted = [_as_extracted(revision.memory) for revision in pending]
    space, comparisons = active_space(), dict[int, dict[KnownMemory, bool]]()
    for index, new in enumerate(extracted):
        known = known_memories(actor, new, space, now=now)
        comparisons[index] = {
            statement: near for statement, near in known.items() if statement.state in REJECTING_STATES
        }
    try:
        resolved = _resolve_by_model(actor, extracted, comparisons, retries_bad_answers=False)
    except ProviderError as error:
        log.warning("no model compared pending memories", extra={"code": error.code})
        return
    with step():
        lock_shared(actor.id)
        for index, revision in enumerate(pending):
            resolution = resolved.get(index, Resolution(Action.WRITE))
            if not resolution.is_uncompared:
                _apply_comparison(actor, revision, resolution, by=by, now=now)


def _as_extracted(memory: Memory) -> ExtractedMemory:
    is_trusted = memory.trust == Trust.TRUSTED
    return ExtractedMemory(memory.content, Kind(memory.kind), memory.namespace, 1.0, (), memory.created_at, is_trusted)


def _apply_comparison(
    actor: Actor, revision: MemoryRevision, resolution: Resolution, *, by: Principal, now: datetime
) -> None:
    """Activate a compared memory without other reasons to wait; a similar one waits for a person."""
    memory = Memory.objects.of([actor.id]).locked([revision.memory_id]).get(revision.memory_id)
    if memory is None or memory.version != revision.number or memory.status != Status.PENDING:
        return
    only_uncompared = revision.beside.pop(UNCOMPARED)["alone"]
    revision.beside.pop(RESEMBLES, None)  # set by likeness, before a model compared the memory
    similar_decision = resolution.about[0] if resolution.action is Action.BLOCK else resolution.resembles
    if similar_decision is not None:
        revision.beside[RESEMBLES] = resembled_values(*_resembled_decision(similar_decision, actor, now))
    revision.save(update_fields=["beside"])
    floor = effective_policy(TrustPolicy, actor.agent, actor).confidence_floor
    is_confident = memory.confidence is None or memory.confidence >= floor
    if similar_decision is None and only_uncompared and is_confident and memory.trust == Trust.TRUSTED:
        confirm_pending(memory, by=by, reason=COMPARISON_REASON, now=now)


def _resembled_decision(decided: KnownMemory, actor: Actor, now: datetime) -> tuple[TombstoneReason, date, UUID]:
    day = local_day(decided.decided_at or now, zone_of(actor.agent, actor))
    return REJECTING_STATES[decided.state], day, decided.memory_id
