"""Believing single entries of a document, and taking that back (SPEC M10): what a curator saw is what is decided."""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db import transaction

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import hold
from memoryhub.tenancy.domain import Trust
from summaries.actions.projects import check_trusted
from summaries.models import Document, DocumentEntry

VERBS = {Trust.TRUSTED: "believe", Trust.UNTRUSTED: "doubt"}


@transaction.atomic
def set_trust(
    *,
    document: Document,
    entry_ids: Collection[UUID],
    trust: Trust,
    by: Principal,
    reason: str = "",
    now: datetime,
) -> list[UUID]:
    """Believe these entries of a document, or doubt them again; return those that were thought of otherwise before.

    Raises Forbidden for an untrusted key, UnknownRow where the actor was erased meanwhile.
    """
    check_trusted(by)
    hold(document.actor_id)
    rows = DocumentEntry.objects.select_for_update().filter(actor_id=document.actor_id, document=document)
    others = list(rows.filter(pk__in=entry_ids).exclude(trust=trust).values_list("pk", flat=True))
    if others:
        DocumentEntry.objects.filter(actor_id=document.actor_id, pk__in=others).update(trust=trust)
        audit.record(
            by=by, verb=VERBS[trust], object_kind="document", object_id=document.pk, actor=document.project.actor,
            reason=reason, details={"entries": len(others)}, now=now,
        )  # fmt: skip
    return others
