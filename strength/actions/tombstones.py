"""Tombstones: keep deleted, rejected and replaced texts from being written again (SPEC M9).

A tombstone recognises a text and its near duplicates without storing it. The module also finds where such a text is
still stored: in revisions of its memory, and in messages.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce
from django.utils.dateparse import parse_datetime
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.actions.recall import search_messages
from conversations.models import Message
from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Forbidden, Principal, PrincipalKind
from memoryhub.embeddings.spaces import active_space
from memoryhub.errors import DomainError
from memoryhub.search.analysis import analyse
from memoryhub.search.index import idf
from memoryhub.search.query import build_query
from memoryhub.search.query_text import QueryText
from strength.domain.duplicates import DUPLICATE_THRESHOLD, Fingerprint, fingerprint, likeness, normalised_digest
from strength.domain.memories import Status, TombstoneReason
from strength.models import Memory, MemoryRevision, MemorySource, Tombstone
from strength.models.locks import lock_shared

MAX_COMPARED = 500
"""The most tombstones that a text is compared with, of those that share a word with it, the newest first."""


class BlockedByTombstone(DomainError):
    """An automatic write matches a tombstone and was not stored."""

    code = "decided_against"

    def __init__(self, decision: TombstoneReason) -> None:
        self.decision = decision
        super().__init__(
            format_lazy(
                _(
                    "A person {decided} a memory with this statement, so it is blocked. A person can write it again "
                    "in the admin, or a client with source `manual`: it is then pending."
                ),
                decided=_(decision.value),
            )
        )


@contextmanager
def atomic_but_for_tombstones() -> Iterator[None]:
    """Run in a transaction that BlockedByTombstone does not roll back, so that the blocked write is counted.

    For code that writes nothing before it calls `write_memory`.
    """
    blocked: BlockedByTombstone | None = None
    with transaction.atomic():
        try:
            yield
        except BlockedByTombstone as error:
            blocked = error
    if blocked is not None:
        raise blocked


def leave_tombstone(
    *,
    memory: Memory,
    text: str,
    decision: TombstoneReason,
    by: Principal,
    now: datetime,
    replacement_id: UUID | None = None,
) -> None:
    _leave([(memory, text)], decision, by, now, replacement_id)


def leave_tombstones(*, memories: Sequence[Memory], decision: TombstoneReason, by: Principal, now: datetime) -> None:
    """Leave tombstones of the texts of one actor's memories."""
    _leave([(memory, memory.content) for memory in memories], decision, by, now, None)


def _leave(
    texts: Sequence[tuple[Memory, str]],
    decision: TombstoneReason,
    by: Principal,
    now: datetime,
    replacement_id: UUID | None,
) -> None:
    if by.kind is PrincipalKind.JOB or not texts:
        return
    sources: dict[UUID, list[UUID]] = defaultdict(list)
    actor_id = texts[0][0].actor_id
    rows = MemorySource.objects.filter(actor_id=actor_id, memory__in=[memory.pk for memory, _text in texts])
    for memory_id, message_id in rows.values_list("memory_id", "message_id"):
        sources[memory_id].append(message_id)
    tombstones = [
        Tombstone(
            actor_id=actor_id,
            **_fingerprint_columns(fingerprint(text)),
            decision=decision,
            memory_id=replacement_id,
            kind=memory.kind,
            message_ids=sorted(sources[memory.pk]),
            who_kind=by.kind,
            who_name=by.name[:150],
            created_at=now,
        )
        for memory, text in texts
    ]
    Tombstone.objects.bulk_create(
        {tombstone.digest: tombstone for tombstone in tombstones}.values(),
        update_conflicts=True,
        unique_fields=["actor", "digest"],
        update_fields=[
            "decision", "memory_id", "kind", "message_ids", "who_kind", "who_name", "created_at", "lifted_at",
        ],
    )  # fmt: skip


def _fingerprint_columns(text_print: Fingerprint) -> dict[str, Any]:
    return {
        "digest": text_print.digest,
        "terms": sorted(text_print.terms),
        "marks": sorted(text_print.marks),
        "order": list(text_print.order),
    }


def lift_tombstones(*, actor_id: UUID, text: str) -> None:
    rows = Tombstone.with_lifted.filter(actor_id=actor_id)
    if rows.exists():
        rows.filter(digest=fingerprint(text).digest).delete()


RESTORED_FIELDS: Final = (
    "decision", "memory_id", "kind", "message_ids", "who_kind", "who_name", "held_back", "last_held_back_at",
    "created_at",
)  # fmt: skip
"""Columns that are not derived from the text."""


def tombstone_values(*, actor_id: UUID, text: str) -> dict[str, Any] | None:
    """Return the values of exactly this text's tombstone as JSON types, for `restore_tombstone`; None without one."""
    rows = Tombstone.objects.filter(actor_id=actor_id, digest=fingerprint(text).digest)
    values: dict[str, Any] | None = rows.values(*RESTORED_FIELDS).first()
    return None if values is None else json.loads(json.dumps(values, cls=DjangoJSONEncoder))


def with_exact_tombstones(*, actor_id: UUID, memory_ids: Sequence[UUID]) -> set[UUID]:
    """Return those of an actor's memories of which exactly the text has a tombstone."""
    rows = Tombstone.objects.filter(actor_id=actor_id)
    if not rows.exists():
        return set()
    texts = Memory.objects.of([actor_id]).filter(pk__in=memory_ids).values_list("pk", "content")
    digests = {key: normalised_digest(text) for key, text in texts}
    found = {bytes(digest) for digest in rows.filter(digest__in=digests.values()).values_list("digest", flat=True)}
    return {key for key, digest in digests.items() if digest in found}


def restore_tombstone(*, actor_id: UUID, text: str, former: Mapping[str, Any] | None, created_at: datetime) -> None:
    """Replace the tombstone left of exactly this text at `created_at` by the former, if any; a newer one stays."""
    text_print = fingerprint(text)
    rows = Tombstone.with_lifted.filter(actor_id=actor_id, digest=text_print.digest)
    rows.filter(Q(created_at=created_at) | Q(lifted_at__isnull=False)).delete()
    if former is None or rows.exists():
        return
    times = {name: former[name] and parse_datetime(former[name]) for name in ("created_at", "last_held_back_at")}
    Tombstone.objects.create(actor_id=actor_id, **{**former, **times}, **_fingerprint_columns(text_print))


def lift_tombstone(*, tombstone: Tombstone, by: Principal, reason: str, now: datetime) -> None:
    """Let its text be written again; `block_again` undoes it for a day. Raises UnknownRow, Forbidden."""
    _set_lifted(tombstone, Tombstone.objects.all(), now, verb="lift", by=by, reason=reason, now=now)


def block_again(*, tombstone: Tombstone, by: Principal, reason: str, now: datetime) -> None:
    """Undo `lift_tombstone`. Raises UnknownRow where the text was written again or the day is over, Forbidden."""
    lifted = Tombstone.with_lifted.exclude(lifted_at=None)
    _set_lifted(tombstone, lifted, None, verb="undo", by=by, reason=reason, now=now)


@transaction.atomic
def _set_lifted(
    tombstone: Tombstone, rows: QuerySet[Tombstone], lifted_at: datetime | None, *, verb: str, by: Principal,
    reason: str, now: datetime,
) -> None:  # fmt: skip
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not lift a person's decision; a curator can."))
    lock_shared(tombstone.actor_id)
    if not rows.filter(pk=tombstone.pk, actor_id=tombstone.actor_id).update(lifted_at=lifted_at):
        raise UnknownRow(format_lazy(_("No decision {id}."), id=tombstone.pk))
    audit.record(by=by, verb=verb, row=tombstone, reason=reason, now=now)


def find_tombstone(*, actor_id: UUID, text: str) -> Tombstone | None:
    """Return the tombstone of a text or of its nearest duplicate; None where there is none."""
    rows = Tombstone.objects.filter(actor_id=actor_id)
    if not rows.exists():
        return None
    searched = fingerprint(text)
    same = rows.filter(digest=searched.digest).first()
    if same is not None:
        return same
    near = list(rows.filter(terms__overlap=sorted(searched.terms))[:MAX_COMPARED])
    prints = [
        Fingerprint(bytes(row.digest), frozenset(row.terms), frozenset(row.marks), tuple(row.order)) for row in near
    ]
    weights = idf(searched.terms.union(*(text_print.terms for text_print in prints)))
    scores = [likeness(searched, text_print, weights) for text_print in prints]
    best = max(range(len(scores)), key=lambda index: scores[index], default=None)
    return near[best] if best is not None and scores[best] >= DUPLICATE_THRESHOLD else None


def find_deletion(*, actor_id: UUID, kind: str, message_ids: Sequence[UUID]) -> Tombstone | None:
    """Return the tombstone of a deleted or rejected memory extracted from the same messages, whatever its text.

    The source messages of one must be a subset of the other's. Other memories of the same messages are not affected.
    """
    if not message_ids:
        return None
    ids = list(message_ids)
    decisions = (TombstoneReason.DELETED, TombstoneReason.REJECTED)
    deleted = Tombstone.objects.filter(actor_id=actor_id, decision__in=decisions, kind=kind)
    return (
        deleted.exclude(message_ids=[]).filter(Q(message_ids__contains=ids) | Q(message_ids__contained_by=ids)).first()
    )


def count_blocked_write(tombstone: Tombstone, *, now: datetime) -> None:
    """Count a write that a decision held back: it was dropped, replaced, or left to a person."""
    _count(Tombstone.objects.filter(pk=tombstone.pk, actor_id=tombstone.actor_id), now)


def count_blocked_statement(*, actor_id: UUID, text: str, now: datetime) -> None:
    """Count a statement that, as judged by a model, has the content of a text that a person decided against."""
    _count(Tombstone.objects.filter(actor_id=actor_id, digest=fingerprint(text).digest), now)


def _count(rows: QuerySet[Tombstone], now: datetime) -> None:
    rows.update(held_back=F("held_back") + 1, last_held_back_at=now)


def with_words(rows: QuerySet[Tombstone], words: str) -> QuerySet[Tombstone]:
    """Filter to tombstones of texts that have all of these words, in any inflection; none for words without a term."""
    terms = sorted(fingerprint(words).terms)
    return rows.filter(terms__contains=terms) if terms else rows.none()


def decision_about(*, actor_id: UUID, memory_id: UUID, decision: TombstoneReason) -> Tombstone | None:
    """Return the latest decision of this kind against the text of a memory, or against a former one."""
    text = Memory.objects.of([actor_id]).filter(pk=memory_id).values_list("content", flat=True).first()
    if text is None:
        return None
    of_memory = Q(memory_id=memory_id) | Q(digest=fingerprint(text).digest)
    return Tombstone.objects.filter(of_memory, actor_id=actor_id, decision=decision).first()


MIN_SHARED_WEIGHT: Final = 0.6
"""Minimum weighted share of a text's words in a message that contains it; 1 for quotes."""

MAX_SEARCHED: Final = 50


def messages_with_text(*, actor_id: UUID, text: str, replacement: str = "") -> list[Message]:
    """Return an actor's messages that contexts may recall and that hold most of the text's words, the best first.

    With the text's `replacement`, they also hold most of the words that it lacks; where it lacks none, none match.
    """
    query = build_query(QueryText.of(text), None, space=active_space())
    weights = query.weights_by_term()
    distinctive = {term: weight for term, weight in weights.items() if term not in analyse(replacement)}
    if not distinctive:
        return []
    hits = search_messages(actor_id=actor_id, query=query, limit=MAX_SEARCHED)
    candidates = [(hit.message, analyse(hit.message.content)) for hit in hits]
    return [
        message
        for message, terms in candidates
        if _shared_weight(weights, terms) >= MIN_SHARED_WEIGHT
        and _shared_weight(distinctive, terms) >= MIN_SHARED_WEIGHT
    ]


def _shared_weight(weights: Mapping[str, float], terms: Counter[str]) -> float:
    return sum(weight for term, weight in weights.items() if term in terms) / sum(weights.values())


@dataclass(frozen=True)
class BlockedText:
    """Text that a tombstone blocks, and the memory that holds it, or held it before an edit."""

    memory_id: UUID
    text: str
    reason: str


def blocked_texts(tombstones: Iterable[Tombstone]) -> dict[UUID, BlockedText]:
    """Return the texts of tombstones by their ids, as far as revisions of their memories still hold them.

    Tombstones store no text (ADR 25); that of a deleted memory, or of an erased user, is deleted with its revisions.
    """
    rows = list(tombstones)
    edited = [tombstone.memory_id for tombstone in rows if tombstone.decision == TombstoneReason.EDITED]
    is_rejection = Q(memory__status=Status.REJECTED, changed_after__status=Status.REJECTED)
    revisions = MemoryRevision.objects.filter(
        Q(memory_id__in=edited, changed_before__has_key="content") | is_rejection,
        actor_id__in={tombstone.actor_id for tombstone in rows},
        memory__actor_id__in={tombstone.actor_id for tombstone in rows},
        created_at__in={tombstone.created_at for tombstone in rows},
    )
    former = Coalesce(KT("changed_before__content"), KT("after__content"))
    revised_texts = revisions.order_by("number").values_list("actor_id", "memory_id", "reason", former)
    texts_by_digest = {
        (actor, fingerprint(text).digest): BlockedText(memory, text, reason)
        for actor, memory, reason, text in revised_texts
    }
    texts = {tombstone.pk: texts_by_digest.get((tombstone.actor_id, bytes(tombstone.digest))) for tombstone in rows}
    return {key: text for key, text in texts.items() if text is not None}
