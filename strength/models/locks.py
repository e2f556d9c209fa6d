"""Keeping sleeps and those who change memories apart.

A sleep locks numbers and then memories, in one scan of a table made for it; whoever changes a memory locks it the other
way round. So both take a lock of the actor's first: changes and uses share it, a sleep has it alone, for a slice at a
time. Who shares it knows where the actor's clock stands (`strength.actions.sleep`).
"""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db import connection
from django.utils.translation import gettext_lazy as _

from memoryhub.auth.tenancy import UnknownRow
from strength.sql import QUERIES

# In one statement: the subquery is not pulled up, for its function has effects, and rows are locked after the join.
HOLD = """
SELECT 1 FROM (SELECT {lock}(%(about)s, %(whose)s)) AS held, memoryhub_actor AS actor
WHERE actor.id = %(actor_id)s FOR KEY SHARE OF actor
"""

# Both forms of the lock take two numbers: the first says what it is about, the second whose it is.
_ABOUT = 0x51EE9


def _whose(actor_id: UUID) -> int:
    return int.from_bytes(actor_id.bytes[:4], "big", signed=True)


def lock_shared(actor_id: UUID) -> None:
    """Keep an actor from being erased, and its sleep from going on, until the transaction ends.

    Every change of a memory, or of its strength, takes this first. Raises UnknownRow where the actor is gone.
    """
    _hold(actor_id, HOLD.format(lock="pg_advisory_xact_lock_shared"))


def lock_exclusive(actor_id: UUID) -> None:
    """Keep everybody else from changing an actor's memories until the transaction ends. Raises UnknownRow."""
    _hold(actor_id, HOLD.format(lock="pg_advisory_xact_lock"))


def _hold(actor_id: UUID, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, {"about": _ABOUT, "whose": _whose(actor_id), "actor_id": actor_id})
        if cursor.fetchone() is None:
            raise UnknownRow(_("The user was erased meanwhile."))


def settle_numbers(actor_id: UUID, memory_ids: Collection[UUID]) -> None:
    """Store these memories' numbers as they are now, held until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(QUERIES["take_off_clock"], {"actor_ids": [actor_id], "memory_ids": list(memory_ids)})


def write_numbers(
    statement: str, values: dict[str, Any], *, actor_id: UUID, memory_ids: Collection[UUID]
) -> int:
    """Execute a statement that writes these memories' numbers, off the clock; return how many rows it says."""
    keys = {"actor_ids": [actor_id], "memory_ids": list(memory_ids)}
    with connection.cursor() as cursor:
        cursor.execute(QUERIES["take_off_clock"] + statement, {"actor_id": actor_id, **keys, **values})
        cursor.nextset()
        return int(cursor.rowcount)
