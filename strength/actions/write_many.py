"""Write many memories in one transaction: new texts and repetitions by set, the others one by one (SPEC M1)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import Final

from django.db import IntegrityError, transaction
from django.db.models import Q

from memoryhub.auth.principals import Principal
from memoryhub.auth.screening import Screening
from memoryhub.db.copy import copy_models
from memoryhub.embeddings.spaces import index_entries, writing_spaces
from memoryhub.errors import DomainError
from memoryhub.search.index import idf
from memoryhub.search.models import EmbeddingSpace
from memoryhub.telemetry.spans import memory_operation
from memoryhub.tenancy.models import Actor
from strength.actions.drafts import (
    Draft,
    NewMemory,
    build_draft,
    complete_memories,
    index_entry_of,
    screen_memory,
    source_messages,
    sources_of,
)
from strength.actions.duplicates import near_duplicates
from strength.actions.memories import (
    first_with_same_text,
    looks_like_retry,
    memories_with_digests,
    text_digests,
    write_memory,
)
from strength.actions.usage import reinforce
from strength.domain.duplicates import DUPLICATE_THRESHOLD, Fingerprint, fingerprint, wording_digest
from strength.domain.memories import Source, Status
from strength.models import Memory, MemorySource, Tombstone
from strength.models.locks import lock_shared

MAX_BATCH_SIZE: Final = 1_000
COMPARISON_BATCH_SIZE: Final = 50
"""Extracted texts compared with known memories by one statement."""

MAX_TOMBSTONES: Final = 2_000
"""Most tombstones compared in memory; with more, each text is compared separately."""


@dataclass
class BatchItem:
    """Result of one item: a memory, new or reinforced, or the error that kept it out."""

    new: NewMemory
    memory: Memory | None = None
    is_new: bool = False
    error: DomainError | None = None


@dataclass(frozen=True, eq=False)
class _BatchDraft(Draft):
    item: BatchItem

    @cached_property
    def digests(self) -> tuple[bytes, bytes]:
        return text_digests(self.memory)


@memory_operation(
    "upsert_memory",
    lambda items, _arguments: {
        "gen_ai.memory.record.count": len(items),
        "memoryhub.created": sum(item.is_new for item in items),
    },
)
def write_memories(*, actor: Actor, news: Sequence[NewMemory], by: Principal, now: datetime) -> list[BatchItem]:
    """Write memories with the results of successive `write_memory` calls; an invalid one does not affect the others.

    Raises UnknownRow where the actor was erased concurrently.
    """
    spaces, screening = writing_spaces(), Screening(actor)
    items = [BatchItem(screen_memory(new, screening, by)) for new in news]
    drafts = _build_drafts(actor, items, spaces, by, now)
    with transaction.atomic():
        lock_shared(actor.pk)
        _reinforce_repeated(actor, drafts, now)
        plain = _without_conflicts(actor, [draft for draft in drafts if draft.item.memory is None], spaces, now)
        # If another request wrote one of the texts concurrently, write them one by one.
        with suppress(IntegrityError), transaction.atomic():
            _insert(plain, spaces, by, now)
        for draft in drafts:
            if draft.item.memory is None:
                _write_one(actor, draft.item, by, now)
        screening.record(by=by, row=actor, now=now)
    return items


def _build_drafts(
    actor: Actor, items: Sequence[BatchItem], spaces: Sequence[EmbeddingSpace], by: Principal, now: datetime
) -> list[_BatchDraft]:
    known = source_messages(actor, [key for item in items for key in item.new.source_message_ids])
    cues = [item.new.cues for item in items]
    entries = index_entries([item.new.content for item in items], spaces, cues=cues)
    drafts = []
    for item, entry in zip(items, entries, strict=True):
        try:
            memory, messages = build_draft(actor, item.new, by, now, known)
            memory.wording_digest = wording_digest(memory.content)
            entry = index_entry_of(item.new, replace(entry, cues=entry.cues if memory.cues else ()), spaces)
            drafts.append(_BatchDraft(memory, item.new, messages, entry, item))
        except DomainError as error:
            item.error = error
    return drafts


def _reinforce_repeated(actor: Actor, drafts: Sequence[_BatchDraft], now: datetime) -> None:
    """Reinforce the active memories whose texts drafts repeat, as `write_memory` does, in a few statements.

    Repetitions of other drafts or of pending memories are left to be written one by one.
    """
    memories_by_digest = defaultdict[bytes, list[Memory]](list)
    for memory in memories_with_digests(actor.pk, [digest for draft in drafts for digest in draft.digests]):
        for digest in set(text_digests(memory)):
            memories_by_digest[digest].append(memory)
    seen, repeated = set[bytes](), list[tuple[_BatchDraft, Memory]]()
    for draft in drafts:
        matches = {memory.pk: memory for digest in draft.digests for memory in memories_by_digest.get(digest, ())}
        known = first_with_same_text(draft.memory, draft.new.contradicted_ids, matches.values())
        if known is not None and known.status == Status.ACTIVE and seen.isdisjoint(draft.digests):
            repeated.append((draft, known))
        seen.update(draft.digests)
    reinforced = []
    for (draft, memory), is_new_evidence in zip(repeated, _add_sources(actor, repeated, now), strict=True):
        is_intended = draft.new.has_idempotency_key or not looks_like_retry(memory, draft.messages, now)
        if draft.memory.status == Status.ACTIVE and is_new_evidence and is_intended:
            reinforced.append(memory)
        draft.item.memory = memory
    reinforce(reinforced, now=now)


def _add_sources(actor: Actor, repeated: Sequence[tuple[_BatchDraft, Memory]], now: datetime) -> list[bool]:
    """Add the sources of repetitions; return for each whether it is new evidence: has a new source, or none."""
    existing = MemorySource.objects.filter(
        actor_id=actor.pk, memory__in=[memory for draft, memory in repeated if draft.messages]
    )
    existing_pairs = set(existing.values_list("memory_id", "message_id"))
    sources = [source for draft, memory in repeated for source in sources_of(memory, draft.messages, now)]
    MemorySource.objects.bulk_create(sources, ignore_conflicts=True)
    return [
        not draft.messages or any((memory.pk, message.pk) not in existing_pairs for message in draft.messages)
        for draft, memory in repeated
    ]


def _without_conflicts(
    actor: Actor, drafts: Sequence[_BatchDraft], spaces: Sequence[EmbeddingSpace], now: datetime
) -> list[_BatchDraft]:
    """Return the drafts that match no memory, tombstone or earlier draft."""
    digests = [digest for draft in drafts for digest in draft.digests]
    same = Memory.objects.of([actor.pk]).filter(Q(content_digest__in=digests) | Q(wording_digest__in=digests))
    stored = same.values_list("content_digest", "wording_digest")
    seen = {bytes(digest) for pair in stored for digest in pair if digest is not None}
    blocked = _matching_tombstones(actor, drafts)
    duplicates = _near_duplicates(actor, drafts, spaces, now)
    plain = []
    for draft in drafts:
        if seen.isdisjoint(draft.digests) and draft.memory.content not in blocked and draft not in duplicates:
            plain.append(draft)
        seen.update(draft.digests)
    return plain


class _TermIndex:
    """Inverted index of texts by terms, which tells whether any may be a near duplicate of a text."""

    def __init__(self, terms: Iterable[Iterable[int]], weights: Mapping[int, float]) -> None:
        self.weights, self.sizes = weights, list[float]()
        self.with_term = defaultdict[int, list[int]](list)
        for terms_of_text in terms:
            self.add(terms_of_text)

    def add(self, terms: Iterable[int]) -> None:
        for term in terms:
            self.with_term[term].append(len(self.sizes))
        self.sizes.append(sum(self.weights[term] for term in terms))

    def may_have_near_duplicate(self, text: Fingerprint) -> bool:
        shared, size = defaultdict[int, float](float), sum(self.weights[term] for term in text.terms)
        for term in text.terms:
            for index in self.with_term.get(term, ()):
                shared[index] += self.weights[term]
        # Dice's coefficient, an upper bound of `likeness`.
        return any(2 * weight >= DUPLICATE_THRESHOLD * (size + self.sizes[index]) for index, weight in shared.items())


def _matching_tombstones(actor: Actor, drafts: Sequence[_BatchDraft]) -> set[str]:
    """Return the texts that may match a tombstone; these are written one by one, with an exact check."""
    tombstones = Tombstone.objects.filter(actor_id=actor.pk).values_list("digest", "terms", "message_ids")
    rows = list(tombstones[: MAX_TOMBSTONES + 1])
    texts = {draft.memory.content for draft in drafts}
    if not rows or len(rows) > MAX_TOMBSTONES:
        return texts if rows else set()
    prints = {text: fingerprint(text) for text in texts}
    weights = idf(
        chain.from_iterable([*(row[1] for row in rows), *(text_print.terms for text_print in prints.values())])
    )
    digests, index = {bytes(row[0]) for row in rows}, _TermIndex((row[1] for row in rows), weights)
    matching = {
        text
        for text, text_print in prints.items()
        if text_print.digest in digests or index.may_have_near_duplicate(text_print)
    }
    # Texts extracted again from messages of a deleted memory are compared one by one.
    messages = {key for row in rows for key in row[2]}
    return matching | {
        draft.memory.content
        for draft in drafts
        if draft.new.source is Source.EXTRACTION and messages & {message.pk for message in draft.messages}
    }


def _near_duplicates(
    actor: Actor, drafts: Sequence[_BatchDraft], spaces: Sequence[EmbeddingSpace], now: datetime
) -> set[_BatchDraft]:
    """Return the extracted drafts that may be near duplicates of a memory or an earlier draft."""
    extracted = [draft for draft in drafts if draft.new.source is Source.EXTRACTION]
    if not extracted:
        return set()
    duplicates = set[_BatchDraft]()
    for start in range(0, len(extracted), COMPARISON_BATCH_SIZE):
        batch = extracted[start : start + COMPARISON_BATCH_SIZE]
        queries = [draft.duplicate_query(spaces[0]) for draft in batch]
        statuses = [Status.ACTIVE, Status.PENDING, Status.ARCHIVED]
        matches_of_batch = near_duplicates(queries, actor_id=actor.pk, space=spaces[0], now=now, statuses=statuses)
        duplicates.update(draft for draft, matches in zip(batch, matches_of_batch, strict=True) if matches)
    prints = {draft: fingerprint(draft.memory.content) for draft in drafts}
    index = _TermIndex((), idf(chain.from_iterable(text_print.terms for text_print in prints.values())))
    for draft in drafts:
        if draft.new.source is Source.EXTRACTION and index.may_have_near_duplicate(prints[draft]):
            duplicates.add(draft)
        index.add(prints[draft].terms)
    return duplicates


def _insert(plain: Sequence[_BatchDraft], spaces: Sequence[EmbeddingSpace], by: Principal, now: datetime) -> None:
    if not plain:
        return
    copy_models([draft.memory for draft in plain])
    complete_memories(plain, spaces, by=by, now=now)
    for draft in plain:
        draft.item.memory, draft.item.is_new = draft.memory, True


def _write_one(actor: Actor, item: BatchItem, by: Principal, now: datetime) -> None:
    try:
        with transaction.atomic():
            item.memory, item.is_new = write_memory(actor=actor, new=item.new, by=by, now=now)
    except DomainError as error:
        item.error = error
