"""Contexts of stored receipts, assembled again: as the data is, and as a change would leave it (SPEC X13).

The change is made by its own action in a transaction that is rolled back, and both contexts by the function that
answers clients, in a dry run. Nothing is estimated, so that what is said is what happens; no language model is asked.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from conversations.actions.context import ContextRequest, assemble_context
from conversations.domain.assembly import InvalidContext
from conversations.domain.budget import ContextTooLarge
from conversations.domain.differences import Difference, Outcome
from conversations.domain.messages import Role
from conversations.domain.routing import AUTO, UNNAMED
from conversations.models import Message, Receipt, Session
from memoryhub.auth.access import Tenant
from memoryhub.auth.principals import Principal
from memoryhub.db.rehearsal import rehearsal
from memoryhub.embeddings.spaces import query_vectors_kept
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import PolicyError

MAX_CONTEXTS: Final = 40
READ_AHEAD: Final = 3
"""Receipts that are looked at for each that is wanted: some are trials, or their text was deleted."""

Call = tuple[Tenant, ContextRequest]

REFUSALS: Final = (ContextTooLarge, InvalidContext, PolicyError)


@dataclass(frozen=True)
class Comparison:
    """A receipt's context as the data is, and after the change; None where it is refused."""

    receipt: Receipt
    before: Outcome | None
    after: Outcome | None
    difference: Difference


def latest_receipts(actor_ids: Sequence[UUID], *, limit: int = MAX_CONTEXTS) -> list[Receipt]:
    """Return the latest receipts of some actors that can be assembled again.

    Left out are trials, contexts without memory, and those without their message.
    """
    latest = Receipt.objects.filter(actor_id__in=actor_ids).order_by("-created_at", "-id")
    keys = list(latest.values_list("actor_id", "pk")[: READ_AHEAD * limit])
    rows = Receipt.objects.filter(actor_id__in={actor for actor, _key in keys}, pk__in=[key for _actor, key in keys])
    rows = rows.exclude(query="").select_related("actor").defer("items", "source_ids")
    return [row for row in rows.order_by("-created_at", "-id") if _is_repeatable(row.metadata)][:limit]


def _is_repeatable(metadata: Mapping[str, Any]) -> bool:
    return not metadata.get("is_trial") and metadata.get("asked", {}).get("remembers", True)


def compare_contexts(
    *, receipts: Sequence[Receipt], change: Callable[[], object], by: Principal, now: datetime
) -> list[Comparison]:
    """Return each receipt's context without and with the change, in the order given. Raises what the change raises.

    The contexts before are assembled first, without a transaction: a remote embedder is asked then and only then.
    """
    with query_vectors_kept():
        before = assemble_again(receipts, by=by, now=now)
        with rehearsal():
            change()
            after = assemble_again(receipts, by=by, now=now)
    return [
        Comparison(receipt, was, would_be, Difference.between(was, would_be))
        for receipt, was, would_be in zip(receipts, before, after, strict=True)
    ]


def assemble_again(receipts: Sequence[Receipt], *, by: Principal, now: datetime) -> list[Outcome | None]:
    """Return the context of each receipt's call as it would be now; None where it is refused, or its actor erased."""
    calls = calls_of(receipts)
    return [_outcome(calls.get(receipt.pk), by=by, now=now) for receipt in receipts]


def _outcome(call: Call | None, *, by: Principal, now: datetime) -> Outcome | None:
    if call is None:
        return None
    tenant, request = call
    try:
        return Outcome.of(assemble_context(tenant=tenant, request=request, by=by, now=now, dry_run=True).assembly)
    except REFUSALS:
        return None


def calls_of(receipts: Sequence[Receipt]) -> dict[UUID, Call]:
    """Return the call of each receipt, by the receipt's key, with its actor and policies as they are now.

    Messages of the session after the receipt's are not in the context where the message is stored.
    """
    actor_ids = {receipt.actor_id for receipt in receipts}
    actors = Actor.objects.select_related("agent").in_bulk(actor_ids)
    session_ids = {receipt.session_id for receipt in receipts if receipt.session_id}
    sessions = Session.objects.filter(actor_id__in=actor_ids, pk__in=session_ids).in_bulk()
    questions = _questions(receipts)
    return {
        receipt.pk: (
            Tenant(actor.agent_id, actor.user_id, actor.agent, actor),
            _request(receipt, actor, sessions.get(receipt.session_id), questions.get(receipt.pk)),
        )
        for receipt in receipts
        if (actor := actors.get(receipt.actor_id)) is not None
    }


def _request(receipt: Receipt, actor: Actor, session: Session | None, question: Message | None) -> ContextRequest:
    asked = receipt.metadata.get("asked", {})
    return ContextRequest(
        message=receipt.query,
        author=asked.get("author", ""),
        session=session,
        stored_message=question,
        project=_project(receipt, actor),
        perspective=asked.get("perspective"),
        format=asked.get("format", "anthropic"),
        nonce=receipt.pk.hex[-16:],
        options=asked.get("options", {}),
    )


def _project(receipt: Receipt, actor: Actor) -> str | None:
    """Return the project that was named, else the one that was routed to then, as routing may ask a model."""
    named = receipt.metadata.get("asked", {}).get("project", UNNAMED)
    if named not in (UNNAMED, AUTO):
        return named  # type: ignore[no-any-return]
    return receipt.metadata.get("project") or (actor.agent.current_project if named == UNNAMED else None) or None


def _questions(receipts: Sequence[Receipt]) -> dict[UUID, Message]:
    """Return the stored messages of receipts by the receipt's key; of equal ones, the nearest in time."""
    of_sessions = [receipt for receipt in receipts if receipt.session_id]
    rows = Message.objects.of(list({receipt.actor_id for receipt in of_sessions})).filter(
        session_id__in={receipt.session_id for receipt in of_sessions},
        content__in={receipt.query for receipt in of_sessions},
        role=Role.USER,
    )
    by_text = defaultdict[tuple[UUID, str], list[Message]](list)
    for row in rows if of_sessions else ():
        by_text[row.session_id, row.content].append(row)

    return {
        receipt.pk: min(same, key=lambda row: abs(row.created_at - receipt.created_at))
        for receipt in of_sessions
        if receipt.session_id and (same := by_text.get((receipt.session_id, receipt.query)))
    }
