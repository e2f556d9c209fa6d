"""Writing numbers of memories that an actor's clock has moved on for (`strength.domain.clock`).

Who writes numbers takes them off the clock first: they are then as if every night had written them, and what a sleep
did to them can still be undone. Inside a transaction that keeps the actor's sleep away (`strength.actions.rest`).
"""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db import connection

from strength.sql import OFF_THE_CLOCK


def take_off_clock(actor_id: UUID, memory_ids: Collection[UUID]) -> None:
    """Store these memories' numbers as they are now, held until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(OFF_THE_CLOCK, {"actor_ids": [actor_id], "memory_ids": list(memory_ids)})


def write_numbers(
    statement: str, values: dict[str, Any], *, actor_id: UUID, memory_ids: Collection[UUID]
) -> int:
    """Execute a statement that writes these memories' numbers, off the clock; return how many rows it says."""
    keys = {"actor_ids": [actor_id], "memory_ids": list(memory_ids)}
    with connection.cursor() as cursor:
        cursor.execute(OFF_THE_CLOCK + statement, {"actor_id": actor_id, **keys, **values})
        cursor.nextset()
        return int(cursor.rowcount)
