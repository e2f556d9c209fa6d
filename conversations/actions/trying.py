"""Trying a context: what would be sent, without leaving a trace in anybody's memory (SPEC W3)."""

from dataclasses import replace
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext_lazy as _

from conversations.actions.context import AssembledContext, ContextRequest, assemble_context
from conversations.actions.receipts import keep_receipt
from conversations.models import Receipt
from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import Tenant, UnknownRow


def try_context(*, tenant: Tenant, request: ContextRequest, by: Principal, now: datetime) -> AssembledContext:
    """Return the context that a call would get now: nothing is counted, decided or kept.

    What a remote embedder or a router's model costs is in the ledger all the same. Raises what `assemble_context` does.
    """
    return assemble_context(tenant=tenant, request=replace(request, is_trial=True), by=by, now=now)


@transaction.atomic
def keep_trial(
    *, tenant: Tenant, request: ContextRequest, context: AssembledContext, by: Principal, now: datetime
) -> Receipt:
    """Keep the receipt of a context that was tried, marked as that; raises UnknownRow for a user nobody knows."""
    if tenant.actor is None:
        raise UnknownRow(_("Nobody of this name is known, so there is nothing to keep the receipt with."))
    receipt = keep_receipt(
        actor=tenant.actor,
        session=request.session,
        query=request.message,
        assembly=context.assembly,
        metadata={**context.metadata, "asked": request.as_asked(), "is_trial": True},
        now=now,
    )
    audit.record(by=by, verb="keep", object_kind="receipt", object_id=receipt.pk, actor=tenant.actor, now=now)
    return receipt
