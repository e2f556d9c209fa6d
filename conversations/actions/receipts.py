"""Store receipts of contexts, and remove deleted texts from them (SPEC X9)."""

from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from conversations.domain.assembly import Assembly
from conversations.models import Receipt, Session
from memoryhub.auth.tenancy import hold
from memoryhub.tenancy.models import Actor

# Empties the excerpts of one source in every receipt that has it as a candidate; the item itself stays.
FORGET_SOURCE = """
UPDATE conversations_receipt SET items = (
    SELECT coalesce(jsonb_agg(
        CASE WHEN item ->> 'source_id' = %(source_id)s::text THEN item || '{"excerpt": ""}' ELSE item END
        ORDER BY place
    ), '[]')
    FROM jsonb_array_elements(items) WITH ORDINALITY AS entry (item, place)
)
WHERE source_ids @> ARRAY[%(source_id)s::uuid]
"""


@transaction.atomic
def keep_receipt(
    *,
    actor: Actor,
    session: Session | None,
    query: str,
    assembly: Assembly,
    metadata: dict[str, Any],
    now: datetime,
) -> Receipt:
    """Store the receipt of a context. Raises UnknownRow where the actor was erased meanwhile."""
    hold(actor.id)
    items = [asdict(item) for item in assembly.items]
    return Receipt.objects.create(
        actor=actor,
        session=session,
        created_at=now,
        query=query,
        token_limit=assembly.metadata.token_limit,
        total_tokens=assembly.metadata.total_tokens,
        metadata=metadata,
        items=items,
        source_ids=sorted({item["source_id"] for item in items if item["source_id"]}),
    )


def forget_source(*, source_id: UUID) -> None:
    """Remove the text of a deleted memory or message from every receipt.

    Not filtered by actor: a `universal` memory is in the receipts of other actors as well.
    """
    with connection.cursor() as cursor:
        cursor.execute(FORGET_SOURCE, {"source_id": str(source_id)})
