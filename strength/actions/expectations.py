"""Expectations: keep that a memory must, or must not, be in a stored call's context, and check it (SPEC X14).

A check assembles the receipt's call again as the data is, by the function that answers clients, in a dry run. No
language model is asked.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Max, QuerySet
from django.utils.translation import gettext_lazy as _
from prometheus_client.core import GaugeMetricFamily

from conversations.actions.context import ContextRequest, assemble_context, receipt_metadata
from conversations.actions.receipts import store_preview_receipt
from conversations.actions.replays import assemble_again
from conversations.models import Receipt
from memoryhub.auth import audit
from memoryhub.auth.access import Tenant, UnknownRow, lock_actor
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import Principal
from memoryhub.embeddings.spaces import active_space, query_vectors_kept
from memoryhub.errors import DomainError
from memoryhub.jobs.status import DatabaseCollector
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import actor_id
from strength.models import Expectation, ExpectationState, Memory, MemoryChange

UNCHANGED_FOR: Final = timedelta(days=1)
"""Strengths decay without a change, so an expectation is checked again after this time in any case."""

AT_ONCE: Final = 50
"""Contexts that are assembled between two commits."""


class NotRepeatable(DomainError):
    """The receipt's message was deleted, or its context was assembled without memory."""

    code = "not_repeatable"


def expect(*, receipt: Receipt, memory_id: UUID, is_wanted: bool, by: Principal, now: datetime) -> Expectation:
    """Keep an expectation about a receipt's call and check it; one about the same memory is replaced.

    Raises UnknownRow for a memory that is neither the actor's nor the agent's nor in the receipt, and NotRepeatable.
    """
    if not receipt.query or not receipt.metadata.get("asked", {}).get("remembers", True):
        raise NotRepeatable(_("This context cannot be assembled again: its message was deleted, or it had no memory."))
    actor = receipt.actor
    own = Memory.objects.of(_owners(actor)).filter(pk=memory_id)
    if memory_id not in receipt.source_ids and not own.exists():
        raise UnknownRow(_("No such memory of this user or agent."))
    values = {"is_wanted": is_wanted, "state": ExpectationState.BROKEN, "checked_at": now, "kept_at": None}
    values |= {"broken_at": None, "basis": ""}  # a check follows
    with transaction.atomic():
        lock_actor(actor.pk)
        if not Receipt.objects.filter(pk=receipt.pk, actor_id=actor.pk).update(is_kept=True):
            raise UnknownRow(_("It no longer exists."))
        expectation, _is_new = Expectation.objects.update_or_create(
            actor=actor, receipt=receipt, memory_id=memory_id, defaults=values,
            create_defaults={**values, "created_at": now},
        )  # fmt: skip
        audit.record(by=by, verb="create", row=expectation, actor=actor, now=now)
    [checked] = check([expectation], by=by, now=now)
    return checked


def expect_of_message(
    *, tenant: Tenant, message: str, memory_id: UUID, is_wanted: bool, by: Principal, now: datetime
) -> Expectation:
    """Keep an expectation about a message outside any session, with the agent's own limits.

    Raises UnknownRow for a user that does not exist, and what `expect` and `assemble_context` raise.
    """
    request = ContextRequest(message=message, options={})
    known = Receipt.objects.filter(actor_id=tenant.actor_id, query=message, session=None, is_kept=True).first()
    if known is None:
        context = assemble_context(tenant=tenant, request=request, by=by, now=now, dry_run=True)
        known = store_preview_receipt(
            tenant=tenant, session=None, message=message, assembly=context.assembly,
            metadata=receipt_metadata(request, context), by=by, now=now,
        )  # fmt: skip
    return expect(receipt=known, memory_id=memory_id, is_wanted=is_wanted, by=by, now=now)


@transaction.atomic
def withdraw(*, expectation: Expectation, by: Principal, reason: str = "", now: datetime) -> None:
    """Delete an expectation; its receipt is subject to retention again. Raises UnknownRow for a deleted one."""
    actor_id, receipt_id = expectation.actor_id, expectation.receipt_id
    lock_actor(actor_id)
    audit.record(by=by, verb="delete", row=expectation, reason=reason, now=now)
    if not Expectation.objects.filter(actor_id=actor_id, pk=expectation.pk).delete()[0]:
        raise UnknownRow(_("It no longer exists."))
    if not Expectation.objects.filter(actor_id=actor_id, receipt_id=receipt_id).exists():
        Receipt.objects.filter(actor_id=actor_id, pk=receipt_id).update(is_kept=False)


def with_calls(rows: QuerySet[Expectation]) -> QuerySet[Expectation]:
    """Return expectations with what a check needs."""
    return rows.select_related("actor__agent", "receipt__actor").defer("receipt__items", "receipt__source_ids")


def broken() -> QuerySet[Expectation]:
    return Expectation.objects.filter(state=ExpectationState.BROKEN)


def _families(now: datetime | None) -> Iterator[GaugeMetricFamily]:
    family = GaugeMetricFamily("memoryhub_expectations_broken", "Expectations that are broken.")
    if now is not None:
        family.add_metric([], broken().count())
    yield family


BROKEN = DatabaseCollector(_families)


def check(
    rows: Sequence[Expectation], *, by: Principal, now: datetime, step: Callable[[], Any] = nullcontext
) -> Iterator[Expectation]:
    """Check expectations (from `with_calls`, ordered by actor) and yield them; each part is stored within a `step`."""
    for _actor_id, group in groupby(rows, key=lambda row: row.actor_id):
        of_actor = list(group)
        basis = _basis(of_actor[0].actor)
        for start in range(0, len(of_actor), AT_ONCE):
            part = of_actor[start : start + AT_ONCE]
            receipts = list({row.receipt_id: row.receipt for row in part}.values())
            with query_vectors_kept():
                contexts = assemble_again(receipts, by=by, now=now)
            outcomes = dict(zip([receipt.pk for receipt in receipts], contexts, strict=True))
            for row in part:
                outcome = outcomes[row.receipt_id]
                holds = outcome is not None and outcome.holds(str(row.memory_id))
                _take(row, holds=holds, basis=basis, now=now)
            with step():
                for row in part:
                    row.save(update_fields=["state", "checked_at", "kept_at", "broken_at", "basis"])
            yield from part


def due(now: datetime) -> Iterator[list[Expectation]]:
    """Yield the expectations of each actor of which the data has changed since their last check, or a day ago."""
    rows = with_calls(Expectation.objects.order_by("actor_id", "pk"))
    for _actor_id, group in groupby(rows.iterator(chunk_size=AT_ONCE), key=lambda row: row.actor_id):
        of_actor = list(group)
        basis = _basis(of_actor[0].actor)
        chosen = [row for row in of_actor if row.basis != basis or row.checked_at < now - UNCHANGED_FOR]
        if chosen:
            yield chosen


def _take(row: Expectation, *, holds: bool, basis: str, now: datetime) -> None:
    row.checked_at, row.basis = now, basis
    if holds == row.is_wanted:
        row.state, row.kept_at, row.broken_at = ExpectationState.KEPT, now, None
    else:
        row.state, row.broken_at = ExpectationState.BROKEN, row.broken_at or now


def _owners(actor: Actor) -> list[UUID]:
    """Return the keys of an actor and of its agent's own actor."""
    return [actor.pk, actor_id(actor.agent_id)]


def _basis(actor: Actor) -> str:
    """Return a digest of what decides the actor's contexts: changes of memories, policies, and the embedder."""
    latest = MemoryChange.objects.filter(actor_id__in=_owners(actor)).aggregate(latest=Max("id"))["latest"]
    parts = (latest, actor.agent.version, actor.version, active_space().pk)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def changes_before(expectation: Expectation) -> QuerySet[AuditEntry]:
    """Return the audit entries between the last check that was fine and the one that found it broken."""
    actor, until = expectation.actor, expectation.broken_at or expectation.checked_at
    since = expectation.kept_at or expectation.created_at
    entries = AuditEntry.objects.filter(agent_id=actor.agent_id, user_id__in=["", actor.user_id])
    return entries.filter(at__gt=since, at__lte=until).exclude(object_kind="expectation").order_by("-at", "-id")
