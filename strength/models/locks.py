"""Locks between sleeps and writers of an actor's memories; start and stop of decay.

A sleep locks numbers before memories; everything else locks memories first. Both first take an advisory lock of the
actor: writers share it, a sleep holds it exclusively, one step at a time. The clock does not advance under a shared
lock.
"""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from memoryhub.auth.access import UnknownRow
from strength.sql import QUERIES, SLEEP_QUERIES, execute_all, run_query

# First key of the two-key advisory lock; the second identifies the actor.
_LOCK_CLASS = 0x51EE9


def lock_shared(actor_id: UUID) -> None:
    """Lock out an actor's erasure and sleep until the transaction ends; before any change. Raises UnknownRow."""
    _lock_actor(actor_id, QUERIES["lock_shared"])


def lock_exclusive(actor_id: UUID) -> None:
    """Lock out all other writers of an actor's memories until the transaction ends. Raises UnknownRow."""
    _lock_actor(actor_id, QUERIES["lock_exclusive"])


def lock_idle(actor_ids: Collection[UUID]) -> list[UUID]:
    """Lock exclusively those actors that are unlocked, without waiting; return them."""
    values = {
        "lock_class": _LOCK_CLASS,
        "actor_ids": list(actor_ids),
        "lock_keys": [_lock_key(actor_id) for actor_id in actor_ids],
    }
    return [actor_id for (actor_id,) in run_query(SLEEP_QUERIES["lock_actors"], values)]


def _lock_key(actor_id: UUID) -> int:
    return int.from_bytes(actor_id.bytes[:4], "big", signed=True)


def _lock_actor(actor_id: UUID, statement: str) -> None:
    values = {"lock_class": _LOCK_CLASS, "lock_key": _lock_key(actor_id), "actor_id": actor_id}
    if not run_query(statement, values, server_prepared=True):
        raise UnknownRow(_("The user was erased at the same time."))


def lock_numbers(actor_id: UUID, memory_ids: Collection[UUID]) -> None:
    """Lock memories' numbers in the order of their keys until the transaction ends."""
    run_query(QUERIES["lock_numbers"], {"actor_ids": [actor_id], "memory_ids": list(memory_ids)})


def update_fading(
    actor_ids: UUID | Collection[UUID], memory_ids: Collection[UUID], *, now: datetime, since: datetime | None = None
) -> int:
    """Start (from `since`) or stop the decay of memories according to their states; return how many changed."""
    keys = [actor_ids] if isinstance(actor_ids, UUID) else list(actor_ids)
    values = {"actor_ids": keys, "memory_ids": list(memory_ids), "now": now, "since": since}
    run_query(QUERIES["lock_numbers"], values)
    return execute_all(QUERIES["update_fading"], values)
