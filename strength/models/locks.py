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

# The first of the advisory lock's two numbers; the second is of the actor.
_ABOUT = 0x51EE9


def lock_shared(actor_id: UUID) -> None:
    """Hold off an actor's erasure and sleep until the transaction ends, before any change. Raises UnknownRow."""
    _hold(actor_id, QUERIES["lock_shared"])


def lock_exclusive(actor_id: UUID) -> None:
    """Keep everything else from changing an actor's memories until the transaction ends. Raises UnknownRow."""
    _hold(actor_id, QUERIES["lock_exclusive"])


def lock_idle(actor_ids: Collection[UUID]) -> list[UUID]:
    """Lock as `lock_exclusive` those of several actors that nobody holds; return them. Waits for nobody."""
    values = {"about": _ABOUT, "actor_ids": list(actor_ids), "whose": [_whose(each) for each in actor_ids]}
    return [actor_id for (actor_id,) in run_query(SLEEP_QUERIES["lock_actors"], values)]


def _whose(actor_id: UUID) -> int:
    return int.from_bytes(actor_id.bytes[:4], "big", signed=True)


def _hold(actor_id: UUID, statement: str) -> None:
    if not run_query(
        statement, {"about": _ABOUT, "whose": _whose(actor_id), "actor_id": actor_id}, server_prepared=True
    ):
        raise UnknownRow(_("The user was erased meanwhile."))


def lock_numbers(actor_id: UUID, memory_ids: Collection[UUID]) -> None:
    """Lock memories' numbers in the order of their keys until the transaction ends."""
    run_query(QUERIES["lock_numbers"], {"actor_ids": [actor_id], "memory_ids": list(memory_ids)})


def settle(
    actor_ids: UUID | Collection[UUID],
    memory_ids: Collection[UUID],
    *,
    now: datetime,
    since: datetime | None = None,
) -> int:
    """Let memories fade from `since`, or stand still, as their state says now; return how many that changed."""
    whose = [actor_ids] if isinstance(actor_ids, UUID) else list(actor_ids)
    values = {"actor_ids": whose, "memory_ids": list(memory_ids), "now": now, "since": since}
    run_query(QUERIES["lock_numbers"], values)
    return execute_all(QUERIES["settle"], values)
