"""Locks that keep sleeps and writers of an actor's memories apart; memories that begin or cease to fade.

A sleep locks numbers before memories; everything else locks memories first. So both take an advisory lock of the actor
before: writers share it, a sleep holds it exclusively, one step at a time. Whoever shares it sees a clock that does not
advance.
"""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from memoryhub.auth.tenancy import UnknownRow
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
    values = {"about": _LOCK_CLASS, "actor_ids": list(actor_ids), "whose": [_lock_key(each) for each in actor_ids]}
    return [actor_id for (actor_id,) in run_query(SLEEP_QUERIES["lock_actors"], values)]


def _lock_key(actor_id: UUID) -> int:
    return int.from_bytes(actor_id.bytes[:4], "big", signed=True)


def _lock_actor(actor_id: UUID, statement: str) -> None:
    if not run_query(
        statement, {"about": _LOCK_CLASS, "whose": _lock_key(actor_id), "actor_id": actor_id}, server_prepared=True
    ):
        raise UnknownRow(_("The user was erased meanwhile."))


def lock_numbers(actor_id: UUID, memory_ids: Collection[UUID]) -> None:
    """Lock memories' numbers in the order of their keys until the transaction ends."""
    run_query(QUERIES["lock_numbers"], {"actor_ids": [actor_id], "memory_ids": list(memory_ids)})


def update_fading(
    actor_ids: UUID | Collection[UUID], memory_ids: Collection[UUID], *, now: datetime, since: datetime | None = None
) -> int:
    """Start (from `since`) or stop the decay of memories according to their states; return how many changed."""
    whose = [actor_ids] if isinstance(actor_ids, UUID) else list(actor_ids)
    values = {"actor_ids": whose, "memory_ids": list(memory_ids), "now": now, "since": since}
    run_query(QUERIES["lock_numbers"], values)
    return execute_all(QUERIES["settle"], values)
