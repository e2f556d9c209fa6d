"""Locks that keep sleeps and writers of an actor's memories apart, and settled numbers.

A sleep locks numbers before memories, in one scan of the narrow table; everything else locks memories first. So both
take an advisory lock of the actor before: writers share it, a sleep holds it exclusively, one slice at a time. Whoever
shares it sees a clock that does not advance.
"""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db import connection
from django.utils.translation import gettext_lazy as _

from memoryhub.auth.tenancy import UnknownRow
from strength.sql import QUERIES, run_query

# The first of the advisory lock's two numbers; the second is of the actor.
_ABOUT = 0x51EE9


def lock_shared(actor_id: UUID) -> None:
    """Hold off an actor's erasure and sleep until the transaction ends, before any change. Raises UnknownRow."""
    _hold(actor_id, QUERIES["lock_shared"])


def lock_exclusive(actor_id: UUID) -> None:
    """Keep everything else from changing an actor's memories until the transaction ends. Raises UnknownRow."""
    _hold(actor_id, QUERIES["lock_exclusive"])


def _hold(actor_id: UUID, statement: str) -> None:
    whose = int.from_bytes(actor_id.bytes[:4], "big", signed=True)
    if not run_query(statement, {"about": _ABOUT, "whose": whose, "actor_id": actor_id}):
        raise UnknownRow(_("The user was erased meanwhile."))


def settle_numbers(actor_id: UUID, memory_ids: Collection[UUID]) -> None:
    """Write current numbers into their rows, off the clock, and lock them until the transaction ends."""
    run_query(QUERIES["take_off_clock"], {"actor_ids": [actor_id], "memory_ids": list(memory_ids)})


def write_numbers(
    statement: str, values: dict[str, Any], *, actor_id: UUID, memory_ids: Collection[UUID]
) -> int:
    """Settle memories' numbers and execute a statement that changes them; return its row count."""
    keys = {"actor_ids": [actor_id], "memory_ids": list(memory_ids)}
    with connection.cursor() as cursor:
        cursor.execute(QUERIES["take_off_clock"] + statement, {"actor_id": actor_id, **keys, **values})
        cursor.nextset()
        return int(cursor.rowcount)
