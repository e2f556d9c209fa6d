"""Write many memories in one transaction: new texts and repetitions by set, the others one by one (SPEC M1)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q

from memoryhub.auth.domain import Principal
from memoryhub.bulk import copy_models
from memoryhub.embeddings.spaces import index_entries, writing_spaces
from memoryhub.errors import DomainError
from memoryhub.search.index import idf
from memoryhub.search.models import EmbeddingSpace
from memoryhub.tenancy.models import Actor
from strength.actions.creation import (
    Draft,
    NewMemory,
    complete_new,
    entry_of,
    judged_draft,
    source_messages,
    sources_of,
)
from strength.actions.duplicates import near_duplicates
from strength.actions.memories import SAME_SORT, WRITTEN_AGAIN, may_be_retry, write_memory
from strength.actions.usage import reinforce
from strength.domain.duplicates import NEAR, Fingerprint, fingerprint, wording_digest
from strength.domain.memories import Source, Status
from strength.models import Memory, MemorySource, Tombstone
from strength.models.locks import lock_shared

MOST_AT_ONCE: Final = 1_000
COMPARED_AT_ONCE: Final = 50
"""Extracted texts whose near-duplicates one statement looks for, as a night does."""

MOST_TOMBSTONES: Final = 2_000
"""Tombstones that a batch is held against by words; an actor with more has each text compared by itself."""


@dataclass
class BatchItem:
    """Result of one item: a memory, new or reinforced, or the error that kept it out."""

    new: NewMemory
    memory: Memory | None = None
    is_new: bool = False
    error: DomainError | None = None


@dataclass(frozen=True, eq=False)
class _Draft(Draft):
    item: BatchItem

    @property
    def digests(self) -> tuple[bytes, bytes]:
        return bytes(self.memory.content_digest), bytes(self.memory.wording_digest or b"")


def write_memories(
    *, actor: Actor, news: Sequence[NewMemory], by: Principal, now: datetime
) -> list[BatchItem]:
    """Write memories as `write_memory` would one after the other; what is wrong with one keeps no other out.

    Raises UnknownRow where the actor was erased meanwhile.
    """
    spaces, items = writing_spaces(), [BatchItem(new) for new in news]
    drafts = _drafts(actor, items, spaces, by, now)
    with transaction.atomic():
        lock_shared(actor.pk)
        _repeat_known(actor, drafts, now)
        plain = _plain(actor, [draft for draft in drafts if draft.item.memory is None], spaces, now)
        # Where another request has written one of the texts meanwhile, each is looked at by itself.
        with suppress(IntegrityError), transaction.atomic():
            _insert(plain, spaces, by, now)
        for draft in drafts:
            if draft.item.memory is None:
                _write_alone(actor, draft.item, by, now)
    return items


def _drafts(
    actor: Actor, items: Sequence[BatchItem], spaces: Sequence[EmbeddingSpace], by: Principal, now: datetime
) -> list[_Draft]:
    known = source_messages(actor, [key for item in items for key in item.new.source_message_ids])
    entries = index_entries([item.new.content for item in items], spaces)
    drafts = []
    for item, entry in zip(items, entries, strict=True):
        try:
            memory, messages = judged_draft(actor, item.new, by, now, known)
            memory.wording_digest = wording_digest(memory.content)
            drafts.append(_Draft(memory, item.new, messages, entry_of(item.new, entry, spaces), item))
        except DomainError as error:
            item.error = error
    return drafts


def _repeat_known(actor: Actor, drafts: Sequence[_Draft], now: datetime) -> None:
    """Let drafts reinforce the active memories whose texts they repeat, as `write_memory` does, in a few statements.

    What repeats another draft too, or a memory that waits, is left to be written by itself.
    """
    rows = Memory.objects.select_for_update(of=["self"]).select_related("actor__agent", "numbers")
    same = defaultdict[bytes, list[Memory]](list)
    for memory in rows.filter(_same_texts(actor, drafts)).filter(WRITTEN_AGAIN).order_by("id"):
        for digest in {bytes(memory.content_digest), bytes(memory.wording_digest or b"")}:
            same[digest].append(memory)
    met, found = set[bytes](), list[tuple[_Draft, Memory]]()
    for draft in drafts:
        among = {each.pk: each for digest in draft.digests for each in same.get(digest, ())}
        known = _first_of_text(draft.memory, draft.new.unlike, among.values())
        if known is not None and known.status == Status.ACTIVE and met.isdisjoint(draft.digests):
            found.append((draft, known))
        met.update(draft.digests)
    used = []
    for (draft, known), is_new_evidence in zip(found, _add_sources(actor, found, now), strict=True):
        is_meant = draft.new.is_told_from_retries or not may_be_retry(known, draft.messages, now)
        if draft.memory.status == Status.ACTIVE and is_new_evidence and is_meant:
            used.append(known)
        draft.item.memory = known
    reinforce(used, now=now)


def _first_of_text(draft: Memory, unlike: Iterable[UUID], among: Iterable[Memory]) -> Memory | None:
    """Return the first of what `of_text` finds."""

    def is_same(memory: Memory) -> bool:
        return bytes(memory.content_digest) == bytes(draft.content_digest)

    def is_alike(memory: Memory) -> bool:
        return (
            not (draft.valid_to or draft.valid_from)
            and memory.pk not in unlike
            and memory.wording_digest is not None
            and bytes(memory.wording_digest) == wording_digest(draft.content)
            and all(getattr(memory, name) == getattr(draft, name) for name in SAME_SORT)
        )

    of_it = [
        each for each in among if each.namespace == draft.namespace and (is_same(each) or is_alike(each))
    ]
    return min(of_it, key=lambda each: (not is_same(each), each.created_at), default=None)


def _add_sources(actor: Actor, repeated: Sequence[tuple[_Draft, Memory]], now: datetime) -> list[bool]:
    """Add the sources of repetitions; return for each whether it is new evidence: has a new source, or none."""
    said = MemorySource.objects.filter(
        actor_id=actor.pk, memory__in=[known for draft, known in repeated if draft.messages]
    )
    before = set(said.values_list("memory_id", "message_id"))
    sources = [each for draft, known in repeated for each in sources_of(known, draft.messages, now)]
    MemorySource.objects.bulk_create(sources, ignore_conflicts=True)
    return [
        not draft.messages or any((known.pk, each.pk) not in before for each in draft.messages)
        for draft, known in repeated
    ]


def _same_texts(actor: Actor, drafts: Sequence[_Draft]) -> Q:
    digests = [digest for draft in drafts for digest in draft.digests]
    return Q(actor_id=actor.pk) & (Q(content_digest__in=digests) | Q(wording_digest__in=digests))


def _plain(
    actor: Actor, drafts: Sequence[_Draft], spaces: Sequence[EmbeddingSpace], now: datetime
) -> list[_Draft]:
    """Return the drafts that no memory, no tombstone and no earlier draft has anything to do with."""
    known = Memory.objects.filter(_same_texts(actor, drafts)).values_list("content_digest", "wording_digest")
    met = {bytes(digest) for pair in known for digest in pair if digest is not None}
    held = _held_against(actor, drafts)
    alike = _near_others(actor, drafts, spaces, now)
    plain = []
    for draft in drafts:
        if met.isdisjoint(draft.digests) and draft.memory.content not in held and draft not in alike:
            plain.append(draft)
        met.update(draft.digests)
    return plain


class _Prints:
    """Texts by their terms, to find in one pass which of many may be near a text."""

    def __init__(self, terms: Iterable[Iterable[int]], weights: Mapping[int, float]) -> None:
        self.weights, self.sizes = weights, list[float]()
        self.with_term = defaultdict[int, list[int]](list)
        for each in terms:
            self.add(each)

    def add(self, terms: Iterable[int]) -> None:
        for term in terms:
            self.with_term[term].append(len(self.sizes))
        self.sizes.append(sum(self.weights[term] for term in terms))

    def may_have_near(self, known: Fingerprint) -> bool:
        shared, size = defaultdict[int, float](float), sum(self.weights[term] for term in known.terms)
        for term in known.terms:
            for place in self.with_term.get(term, ()):
                shared[place] += self.weights[term]
        # Dice's coefficient without what makes `likeness` less.
        return any(2 * both >= NEAR * (size + self.sizes[place]) for place, both in shared.items())


def _held_against(actor: Actor, drafts: Sequence[_Draft]) -> set[str]:
    """Return the texts that may say what a tombstone says; each is then written by itself, which decides."""
    tombstones = Tombstone.objects.filter(actor_id=actor.pk).values_list("digest", "terms", "message_ids")
    rows = list(tombstones[: MOST_TOMBSTONES + 1])
    texts = {draft.memory.content for draft in drafts}
    if not rows or len(rows) > MOST_TOMBSTONES:
        return texts if rows else set()
    written = {text: fingerprint(text) for text in texts}
    weights = idf(
        chain.from_iterable([*(row[1] for row in rows), *(each.terms for each in written.values())])
    )
    digests, prints = {bytes(row[0]) for row in rows}, _Prints((row[1] for row in rows), weights)
    held = {text for text, known in written.items() if known.digest in digests or prints.may_have_near(known)}
    # Of the same messages something was deleted: what is extracted from them again is compared by itself.
    messages = {key for row in rows for key in row[2]}
    return held | {
        draft.memory.content
        for draft in drafts
        if draft.new.source is Source.EXTRACTION and messages & {each.pk for each in draft.messages}
    }


def _near_others(
    actor: Actor, drafts: Sequence[_Draft], spaces: Sequence[EmbeddingSpace], now: datetime
) -> set[_Draft]:
    """Return the extracted drafts that say, or may say, what a memory or an earlier draft says."""
    extracted = [draft for draft in drafts if draft.new.source is Source.EXTRACTION]
    if not extracted:
        return set()
    found = set[_Draft]()
    for place in range(0, len(extracted), COMPARED_AT_ONCE):
        some = extracted[place : place + COMPARED_AT_ONCE]
        sought = [each.sought(spaces[0]) for each in some]
        among = [Status.ACTIVE, Status.PENDING, Status.ARCHIVED]
        near = near_duplicates(sought, actor_id=actor.pk, space=spaces[0], now=now, among=among)
        found.update(draft for draft, alike in zip(some, near, strict=True) if alike)
    written = {draft: fingerprint(draft.memory.content) for draft in drafts}
    prints = _Prints((), idf(chain.from_iterable(each.terms for each in written.values())))
    for draft in drafts:
        if draft.new.source is Source.EXTRACTION and prints.may_have_near(written[draft]):
            found.add(draft)
        prints.add(written[draft].terms)
    return found


def _insert(plain: Sequence[_Draft], spaces: Sequence[EmbeddingSpace], by: Principal, now: datetime) -> None:
    if not plain:
        return
    copy_models([draft.memory for draft in plain])
    complete_new(plain, spaces, by=by, now=now)
    for draft in plain:
        draft.item.memory, draft.item.is_new = draft.memory, True


def _write_alone(actor: Actor, item: BatchItem, by: Principal, now: datetime) -> None:
    try:
        with transaction.atomic():
            item.memory, item.is_new = write_memory(actor=actor, new=item.new, by=by, now=now)
    except DomainError as error:
        item.error = error
