"""Store receipts of contexts, and remove from them the texts that must not be kept (SPEC X9)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction
from django.utils.translation import gettext_lazy as _
from psycopg.types.json import Jsonb

from conversations.domain.assembly import Assembly
from conversations.models import Receipt, Session
from memoryhub.auth import audit
from memoryhub.auth.access import Tenant, UnknownRow
from memoryhub.auth.principals import Principal
from memoryhub.auth.screening import Screening
from memoryhub.db.prepared import prepared_cursor
from memoryhub.db.rehearsal import is_rehearsal
from memoryhub.jobs.queue import enqueue
from memoryhub.tenancy.models import Actor

# FOR KEY SHARE: waits for an erasure or a deletion of messages, and reads the actor's row again after it. No receipt is
# written for an erased actor, and none that quotes what was deleted since the actor was read.
INSERT_RECEIPT: Final = """
INSERT INTO conversations_receipt
    (id, actor_id, session_id, created_at, query, token_limit, total_tokens, metadata, items, source_ids)
SELECT %s, id, %s, %s, %s, %s, %s, %s, %s, %s::uuid[] FROM memoryhub_actor
WHERE id = %s AND (deletions = %s OR %s) FOR KEY SHARE
"""

# Clears the excerpts of some sources in every receipt that lists them as candidates; the items are kept.
FORGET_SOURCES: Final = """
UPDATE conversations_receipt SET items = (
    SELECT coalesce(jsonb_agg(
        CASE WHEN item ->> 'source_id' = ANY(%(ids)s::text[]) OR item -> 'memory_ids' ?| %(ids)s::text[]
            THEN item || '{"excerpt": ""}' ELSE item END
        ORDER BY place
    ), '[]')
    FROM jsonb_array_elements(items) WITH ORDINALITY AS entry (item, place)
)
WHERE source_ids && %(ids)s::uuid[]
"""

FORGET_BATCH_SIZE: Final = 1_000
"""Ids that one statement searches receipts for."""

FORGET_KIND: Final = "clear_excerpts"
FORGET_AGAIN_SECONDS: Final = 60.0
"""Longer than a context takes to assemble."""


def store_receipt(
    *,
    actor: Actor,
    session: Session | None,
    message: str,
    assembly: Assembly,
    metadata: Mapping[str, Any],
    now: datetime,
) -> Receipt:
    """Store the receipt of a context, in one statement. Raises UnknownRow where the actor no longer exists.

    Where messages were deleted since the actor was read, the receipt has no texts.
    """
    screening = Screening(actor)
    items = _screened([item.as_json() for item in assembly.items], screening)
    receipt = Receipt(
        actor=actor,
        session=session,
        created_at=now,
        query=screening.text(message),
        token_limit=assembly.metadata.token_limit,
        total_tokens=assembly.metadata.total_tokens,
        metadata=screening.json(metadata),
        items=items,
        source_ids=sorted(
            {key for item in assembly.items for key in (item.source_id, *(item.memory_ids or ())) if key}
        ),
    )
    if not _insert(receipt, actor, anyway=False):
        receipt.query, receipt.items = "", [{**item, "excerpt": ""} for item in items]
        receipt.metadata = {name: value for name, value in receipt.metadata.items() if name != "forget_request"}
        if not _insert(receipt, actor, anyway=True):
            raise UnknownRow(_("The user was erased at the same time."))
    receipt._state.adding = False  # inserted by the statement above, so that a later save() updates
    return receipt


def _insert(receipt: Receipt, actor: Actor, *, anyway: bool) -> bool:
    values: list[Any] = [
        receipt.pk, receipt.session_id, receipt.created_at, receipt.query, receipt.token_limit, receipt.total_tokens,
        Jsonb(receipt.metadata), Jsonb(receipt.items), receipt.source_ids, actor.pk, actor.deletions, anyway,
    ]  # fmt: skip
    with prepared_cursor() as cursor:
        cursor.execute(INSERT_RECEIPT, values)
        return bool(cursor.rowcount)


def _screened(items: list[dict[str, Any]], screening: Screening) -> list[dict[str, Any]]:
    """Return items without secrets in their excerpts, which most have not: those of the call itself alone may."""
    texts = "\n".join(item["excerpt"] for item in items)
    if screening.text(texts) == texts:
        return items
    return [{**item, "excerpt": screening.text(item["excerpt"])} for item in items]


@transaction.atomic
def store_preview_receipt(
    *,
    tenant: Tenant,
    session: Session | None,
    message: str,
    assembly: Assembly,
    metadata: Mapping[str, Any],
    by: Principal,
    now: datetime,
) -> Receipt:
    """Store the receipt of a dry run, marked as such. Raises UnknownRow for a user that does not exist."""
    if tenant.actor is None:
        raise UnknownRow(_("This user does not exist, so no receipt can be stored."))
    receipt = store_receipt(
        actor=tenant.actor,
        session=session,
        message=message,
        assembly=assembly,
        metadata={**metadata, "is_trial": True},
        now=now,
    )
    audit.record(by=by, verb="keep", row=receipt, actor=tenant.actor, now=now)
    return receipt


def forget_sources(source_ids: Sequence[UUID]) -> None:
    """Remove the texts of deleted or rejected memories, or of deleted messages, from every receipt.

    Once more a minute later, for contexts that were being assembled meanwhile and had read them. Not filtered by actor:
    a `universal` memory is in the receipts of other actors as well.
    """
    if is_rehearsal():  # receipts enter no context, and a pinned memory is in all of them
        return
    for start in range(0, len(source_ids), FORGET_BATCH_SIZE):
        ids = [str(source_id) for source_id in source_ids[start : start + FORGET_BATCH_SIZE]]
        clear_excerpts(ids)
        enqueue(FORGET_KIND, payload={"ids": ids}, delay_seconds=FORGET_AGAIN_SECONDS)


def clear_excerpts(source_ids: Sequence[str]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(FORGET_SOURCES, {"ids": list(source_ids)})
