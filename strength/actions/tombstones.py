"""Tombstones: keep deleted, rejected and replaced texts from being written again (SPEC M9).

A tombstone recognises a text and its near duplicates without storing it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from django.db.models import F, Q
from django.utils.dateparse import parse_datetime
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.domain import Forbidden, Principal, PrincipalKind
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.errors import DomainError
from memoryhub.search.index import idf
from strength.domain.duplicates import NEAR, Fingerprint, fingerprint, likeness
from strength.domain.memories import TombstoneReason
from strength.models import Memory, MemorySource, Tombstone
from strength.models.locks import lock_shared

MOST_COMPARED = 500
"""The most tombstones that a text is compared with, of those that share a word with it, the newest first."""


class BlockedByTombstone(DomainError):
    """An automatic write matches a tombstone and was not stored."""

    code = "decided_against"

    def __init__(self, decision: TombstoneReason) -> None:
        self.decision = decision
        super().__init__(
            format_lazy(
                _(
                    "A person {decided} a memory that says this, and the decision holds. Somebody can write it "
                    "again in the admin, or a client with source `manual`: it then waits for approval."
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
    stands_in: UUID | None = None,
) -> None:
    if by.kind is PrincipalKind.JOB:
        return
    sources = MemorySource.objects.filter(actor_id=memory.actor_id, memory=memory)
    tombstone = Tombstone(
        actor_id=memory.actor_id, **_columns(fingerprint(text)), decision=decision, memory_id=stands_in,
        kind=memory.kind, message_ids=sorted(sources.values_list("message_id", flat=True)), who_kind=by.kind,
        who_name=by.name[:150], created_at=now,
    )  # fmt: skip
    Tombstone.objects.bulk_create(
        [tombstone],
        update_conflicts=True,
        unique_fields=["actor", "digest"],
        update_fields=["decision", "memory_id", "kind", "message_ids", "who_kind", "who_name", "created_at"],
    )


def _columns(known: Fingerprint) -> dict[str, Any]:
    return {
        "digest": known.digest, "terms": sorted(known.terms), "marks": sorted(known.marks), "order": list(known.order)
    }  # fmt: skip


def lift_tombstones(*, actor_id: UUID, text: str) -> None:
    rows = Tombstone.objects.filter(actor_id=actor_id)
    if rows.exists():
        rows.filter(digest=fingerprint(text).digest).delete()


RESTORED_FIELDS: Final = (
    "decision", "memory_id", "kind", "message_ids", "who_kind", "who_name", "held_back", "last_held_back_at",
    "created_at",
)  # fmt: skip
"""The columns that do not follow from the text."""


def tombstone_values(*, actor_id: UUID, text: str) -> dict[str, Any] | None:
    """Return the values of exactly this text's tombstone as JSON types, for `restore_tombstone`; None without one."""
    rows = Tombstone.objects.filter(actor_id=actor_id, digest=fingerprint(text).digest)
    values: dict[str, Any] | None = rows.values(*RESTORED_FIELDS).first()
    return None if values is None else json.loads(json.dumps(values, cls=DjangoJSONEncoder))


def restore_tombstone(
    *, actor_id: UUID, text: str, kept: Mapping[str, Any] | None, left_at: datetime
) -> None:
    """Replace the tombstone left of exactly this text at `left_at` by the former, if any; a newer one stays."""
    known = fingerprint(text)
    rows = Tombstone.objects.filter(actor_id=actor_id, digest=known.digest)
    rows.filter(created_at=left_at).delete()
    if kept is None or rows.exists():
        return
    times = {name: kept[name] and parse_datetime(kept[name]) for name in ("created_at", "last_held_back_at")}
    Tombstone.objects.create(actor_id=actor_id, **{**kept, **times}, **_columns(known))


@transaction.atomic
def lift_tombstone(*, tombstone: Tombstone, by: Principal, reason: str, now: datetime) -> None:
    """Delete a tombstone, so that its text may be written again. Raises UnknownRow, Forbidden."""
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not lift a person's decision; a curator can."))
    lock_shared(tombstone.actor_id)
    if not Tombstone.objects.filter(pk=tombstone.pk, actor_id=tombstone.actor_id).delete()[0]:
        raise UnknownRow(format_lazy(_("No decision {id}."), id=tombstone.pk))
    audit.record(by=by, verb="lift", row=tombstone, reason=reason, now=now)


def find_tombstone(*, actor_id: UUID, text: str) -> Tombstone | None:
    """Return the tombstone of a text or of its nearest duplicate; None where there is none."""
    rows = Tombstone.objects.filter(actor_id=actor_id)
    if not rows.exists():
        return None
    written = fingerprint(text)
    same = rows.filter(digest=written.digest).first()
    if same is not None:
        return same
    near = list(rows.filter(terms__overlap=sorted(written.terms))[:MOST_COMPARED])
    prints = [
        Fingerprint(bytes(each.digest), frozenset(each.terms), frozenset(each.marks), tuple(each.order))
        for each in near
    ]
    weights = idf(written.terms.union(*(each.terms for each in prints)))
    scores = [likeness(written, each, weights) for each in prints]
    best = max(range(len(scores)), key=lambda place: scores[place], default=None)
    return near[best] if best is not None and scores[best] >= NEAR else None


def find_deletion(*, actor_id: UUID, kind: str, message_ids: Sequence[UUID]) -> Tombstone | None:
    """Return the tombstone of a deleted or rejected memory drawn from the same messages, whatever its words were.

    One's messages are all among the other's. A message with other contents as well keeps those, in memories that nobody
    decided against.
    """
    if not message_ids:
        return None
    ids = list(message_ids)
    gone = (TombstoneReason.DELETED, TombstoneReason.REJECTED)
    deleted = Tombstone.objects.filter(actor_id=actor_id, decision__in=gone, kind=kind)
    return (
        deleted.exclude(message_ids=[])
        .filter(Q(message_ids__contains=ids) | Q(message_ids__contained_by=ids))
        .first()
    )


def count_held_back(tombstone: Tombstone, *, now: datetime) -> None:
    Tombstone.objects.filter(pk=tombstone.pk, actor_id=tombstone.actor_id).update(
        held_back=F("held_back") + 1, last_held_back_at=now
    )
