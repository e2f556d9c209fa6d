"""Keeping receipts of contexts, and taking texts out of them again (SPEC X9)."""

from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from conversations.domain.assembly import Assembly, Item
from conversations.models import Receipt, Session
from memoryhub.auth.tenancy import hold
from memoryhub.tenancy.models import Actor


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
    """Store why a context was what it was; raises UnknownRow where the actor was erased meanwhile."""
    hold(actor.id)
    items = [_item(item) for item in assembly.items]
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


def _item(item: Item) -> dict[str, Any]:
    return {**asdict(item), "score_breakdown": dict(item.score_breakdown) if item.score_breakdown else None}


def forget_source(*, source_id: UUID) -> None:
    """Take a deleted memory's or message's text out of every receipt.

    Not narrowed to an actor: a `universal` memory stands in the receipts of others as well.
    """
    with connection.cursor() as cursor:
        cursor.execute(FORGET_SOURCE, {"source_id": str(source_id)})


# Takes one source's excerpts out of every receipt it stands in, leaving that it was there.
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
