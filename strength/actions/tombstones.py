"""What people decided against, kept so that nobody writes it again (SPEC M9).

A tombstone knows a text again, word for word or in near words, and does not hold it.
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
"""Tombstones that share a word with a text and are compared with it, the newest first."""


class BlockedByTombstone(DomainError):
    """A person deleted or rejected this, and a program wrote it again; it was not stored."""

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
    """Do all or nothing, in a transaction that DecidedAgainst alone does not undo: that it was held back is kept.

    For what writes nothing before it asks `write_memory`.
    """
    decided: BlockedByTombstone | None = None
    with transaction.atomic():
        try:
            yield
        except BlockedByTombstone as error:
            decided = error
    if decided is not None:
        raise decided


def leave_tombstone(
    *,
    memory: Memory,
    text: str,
    decision: TombstoneReason,
    stands_in: UUID | None,
    by: Principal,
    now: datetime,
) -> None:
    """Remember that a person decided against a text; `stands_in` is what they put in its place."""
    if by.kind is PrincipalKind.JOB:
        return
    known = fingerprint(text)
    tombstone = Tombstone(
        actor_id=memory.actor_id, decision=decision, digest=known.digest, terms=sorted(known.terms),
        marks=sorted(known.marks), order=list(known.order), memory_id=stands_in, kind=memory.kind,
        message_ids=_drawn_from(memory), who_kind=by.kind, who_name=by.name[:150], created_at=now,
    )  # fmt: skip
    Tombstone.objects.bulk_create(
        [tombstone],
        update_conflicts=True,
        unique_fields=["actor", "digest"],
        update_fields=["decision", "memory_id", "kind", "message_ids", "who_kind", "who_name", "created_at"],
    )


def _drawn_from(memory: Memory) -> list[UUID]:
    sources = MemorySource.objects.filter(actor_id=memory.actor_id, memory=memory)
    return sorted(sources.values_list("message_id", flat=True))


def lift_tombstones(*, actor_id: UUID, text: str) -> None:
    """Forget a decision against exactly these words: a person has brought them back."""
    standing = Tombstone.objects.filter(actor_id=actor_id)
    if standing.exists():
        standing.filter(digest=fingerprint(text).digest).delete()


RESTORED_FIELDS: Final = (
    "decision", "memory_id", "kind", "message_ids", "who_kind", "who_name", "held_back", "last_held_back_at",
    "created_at",
)  # fmt: skip
"""What a decision knows besides the text that it is about."""


def tombstone_values(*, actor_id: UUID, text: str) -> dict[str, Any] | None:
    """Return the decision against exactly these words as JSON types, so that it can be brought back; None for none."""
    standing = Tombstone.objects.filter(actor_id=actor_id, digest=fingerprint(text).digest)
    values: dict[str, Any] | None = standing.values(*RESTORED_FIELDS).first()
    return None if values is None else json.loads(json.dumps(values, cls=DjangoJSONEncoder))


def restore_tombstone(
    *, actor_id: UUID, text: str, kept: Mapping[str, Any] | None, left_at: datetime
) -> None:
    """Let stand against exactly these words what stood before `left_at`, in place of what was left then.

    What a person has decided since stands. Belongs to a change that leaves its own audit entry.
    """
    known = fingerprint(text)
    standing = Tombstone.objects.filter(actor_id=actor_id, digest=known.digest)
    standing.filter(created_at=left_at).delete()
    if kept is None or standing.exists():
        return
    moments = {
        name: kept[name] and parse_datetime(kept[name]) for name in ("created_at", "last_held_back_at")
    }
    Tombstone.objects.create(
        **{**kept, **moments}, actor_id=actor_id, digest=known.digest, terms=sorted(known.terms),
        marks=sorted(known.marks), order=list(known.order),
    )  # fmt: skip


@transaction.atomic
def lift_tombstone(*, tombstone: Tombstone, by: Principal, reason: str, now: datetime) -> None:
    """Forget a decision, so that what it was about may be written again. Raises UnknownRow, Forbidden."""
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not lift what a person decided; a curator can."))
    lock_shared(tombstone.actor_id)
    if not Tombstone.objects.filter(pk=tombstone.pk, actor_id=tombstone.actor_id).delete()[0]:
        raise UnknownRow(format_lazy(_("No decision {id}."), id=tombstone.pk))
    audit.record(
        by=by, verb="lift", object_kind="tombstone", object_id=tombstone.pk, actor=tombstone.actor, reason=reason,
        now=now,
    )  # fmt: skip


def find_tombstone(*, actor_id: UUID, text: str) -> Tombstone | None:
    """Return the decision against what says the same as a text, the nearest; None where there is none."""
    standing = Tombstone.objects.filter(actor_id=actor_id)
    if not standing.exists():
        return None
    written = fingerprint(text)
    same = standing.filter(digest=written.digest).first()
    if same is not None:
        return same
    alike = list(standing.filter(terms__overlap=sorted(written.terms))[:MOST_COMPARED])
    return _nearest(written, alike)


def find_deletion(*, actor_id: UUID, kind: str, message_ids: Sequence[UUID]) -> Tombstone | None:
    """Return the decision to delete what was drawn from these messages before, whatever its words were.

    The messages of the one are all among those of the other; a message that told other things as well tells them still,
    in memories that nobody deleted.
    """
    if not message_ids:
        return None
    ids = list(message_ids)
    deleted = Tombstone.objects.filter(actor_id=actor_id, decision=TombstoneReason.DELETED, kind=kind)
    return (
        deleted.exclude(message_ids=[])
        .filter(Q(message_ids__contains=ids) | Q(message_ids__contained_by=ids))
        .first()
    )


def are_near_duplicates(one: str, other: str) -> bool:
    """Say whether two texts are near: a decision against one would meet the other as well."""
    first, second = fingerprint(one), fingerprint(other)
    return likeness(first, second, idf(first.terms | second.terms)) >= NEAR


def count_held_back(tombstone: Tombstone, *, now: datetime) -> None:
    """Count that a decision kept something from being written, so that people can see what it does."""
    Tombstone.objects.filter(pk=tombstone.pk, actor_id=tombstone.actor_id).update(
        held_back=F("held_back") + 1, last_held_back_at=now
    )


def _nearest(written: Fingerprint, alike: list[Tombstone]) -> Tombstone | None:
    prints = [
        Fingerprint(bytes(each.digest), frozenset(each.terms), frozenset(each.marks), tuple(each.order))
        for each in alike
    ]
    weights = idf(written.terms.union(*(each.terms for each in prints)))
    scored = [(likeness(written, each, weights), place) for place, each in enumerate(prints)]
    near = [(score, -place) for score, place in scored if score >= NEAR]
    return alike[-max(near)[1]] if near else None
