"""Write many memories in one transaction: the plain ones by set, the others one by one (SPEC M1)."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final

from django.db import IntegrityError, transaction
from django.db.models import Q

from conversations.models import Message
from memoryhub.auth.domain import Principal
from memoryhub.bulk import copy_models
from memoryhub.embeddings.spaces import IndexEntry, index_entries, writing_spaces
from memoryhub.errors import DomainError
from memoryhub.search.index import idf
from memoryhub.search.models import EmbeddingSpace
from memoryhub.tenancy.models import Actor
from strength.actions.creation import complete_new
from strength.actions.memories import (
    NewMemory,
    entry_of,
    judged_draft,
    new_row,
    source_messages,
    write_memory,
)
from strength.domain.duplicates import NEAR, Fingerprint, fingerprint, wording_digest
from strength.domain.memories import Source
from strength.models import Memory, Tombstone
from strength.models.locks import lock_shared

MOST_AT_ONCE: Final = 1_000
MOST_TOMBSTONES: Final = 2_000
"""Tombstones that a batch is held against by words; an actor with more has each text compared by itself."""


@dataclass
class BatchItem:
    """Result of one item: a memory, new or reinforced, or the error that kept it out."""

    new: NewMemory
    memory: Memory | None = None
    is_new: bool = False
    error: DomainError | None = None


@dataclass(frozen=True)
class _Draft:
    item: BatchItem
    memory: Memory
    messages: Sequence[Message]
    entry: IndexEntry


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
        plain = _plain(actor, drafts)
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
            drafts.append(_Draft(item, memory, messages, entry_of(item.new, entry, spaces)))
        except DomainError as error:
            item.error = error
    return drafts


def _plain(actor: Actor, drafts: Sequence[_Draft]) -> list[_Draft]:
    """Return the drafts that no memory, no tombstone and no earlier draft has anything to do with."""
    contents = [bytes(draft.memory.content_digest) for draft in drafts]
    wordings = [bytes(draft.memory.wording_digest or b"") for draft in drafts]
    same = Memory.objects.of([actor.pk]).filter(
        Q(content_digest__in=contents) | Q(wording_digest__in=wordings)
    )
    known = same.values_list("content_digest", "wording_digest")
    met = {bytes(digest) for pair in known for digest in pair if digest is not None}
    held = _held_against(actor, drafts)
    plain = []
    for draft, *digests in zip(drafts, contents, wordings, strict=True):
        is_alone = draft.item.new.source is not Source.EXTRACTION and met.isdisjoint(digests)
        if is_alone and draft.memory.content not in held:
            plain.append(draft)
        met.update(digests)
    return plain


def _held_against(actor: Actor, drafts: Sequence[_Draft]) -> set[str]:
    """Return the texts that may say what a tombstone says; each is then written by itself, which decides."""
    tombstones = Tombstone.objects.filter(actor_id=actor.pk).values_list("digest", "terms")
    rows = list(tombstones[: MOST_TOMBSTONES + 1])
    texts = {draft.memory.content for draft in drafts}
    if not rows or len(rows) > MOST_TOMBSTONES:
        return texts if rows else set()
    written = {text: fingerprint(text) for text in texts}
    weights = idf(
        chain.from_iterable([*(terms for _, terms in rows), *(each.terms for each in written.values())])
    )
    known_digests = {bytes(digest) for digest, _ in rows}
    sizes = [sum(weights[term] for term in terms) for _, terms in rows]
    with_term = defaultdict[int, list[int]](list)
    for place, (_, terms) in enumerate(rows):
        for term in terms:
            with_term[term].append(place)

    def may_be_near(known: Fingerprint) -> bool:
        shared, size = defaultdict[int, float](float), sum(weights[term] for term in known.terms)
        for term in known.terms:
            for place in with_term.get(term, ()):
                shared[place] += weights[term]
        # Dice's coefficient without what makes `likeness` less.
        return any(2 * both >= NEAR * (size + sizes[place]) for place, both in shared.items())

    return {text for text, known in written.items() if known.digest in known_digests or may_be_near(known)}


def _insert(plain: Sequence[_Draft], spaces: Sequence[EmbeddingSpace], by: Principal, now: datetime) -> None:
    if not plain:
        return
    copy_models([draft.memory for draft in plain])
    rows = [new_row(each.memory, each.item.new, each.entry, each.messages) for each in plain]
    complete_new(rows, spaces, by=by, now=now)
    for draft in plain:
        draft.item.memory, draft.item.is_new = draft.memory, True


def _write_alone(actor: Actor, item: BatchItem, by: Principal, now: datetime) -> None:
    try:
        with transaction.atomic():
            item.memory, item.is_new = write_memory(actor=actor, new=item.new, by=by, now=now)
    except DomainError as error:
        item.error = error
