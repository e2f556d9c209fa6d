"""The agents of which a context may see and change rows; PostgreSQL hides and refuses all others (ADR 70).

A limited context works with a role of the database that owns no table, so its row-level security applies. Each time a
cursor is opened, role and agents of the connection are compared with those of the context, whichever connection it is:
of the pool, of a replica, or a new one. So a connection that comes from another request is never used as it was.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from django.db.backends.postgresql import base
from psycopg.pq import TransactionStatus

SETTING: Final = "memoryhub.agents"
"""Setting of a connection that the policies read: an array of ids."""

ROLE: Final = """
SELECT left(pg_get_userbyid(relowner), 50) || '_limited' FROM pg_class WHERE oid = 'memoryhub_agent'::regclass
"""
"""One role for each owner, as roles are shared by all databases of a server, and an owner reads all of its own."""

APPLY: Final = f"SELECT set_config('{SETTING}', %s::text[]::text, FALSE), set_config('role', ({ROLE}), FALSE)"
CLEAR: Final = f"SELECT set_config('role', %s, FALSE), set_config('{SETTING}', '', FALSE)"

_UNKNOWN: Final = object()
"""State of a connection after a rollback, which may have taken back its role."""

_agents: ContextVar[frozenset[str] | None] = ContextVar("agents", default=None)


def agents() -> frozenset[str] | None:
    """Return the agents that the context is limited to; None: all."""
    return _agents.get()


def limit(agent_ids: frozenset[str]) -> None:
    """Limit the rest of a `limited_to` block further on, once it is known for whom it runs."""
    _agents.set(agent_ids)


@contextmanager
def limited_to(agent_ids: frozenset[str] | None) -> Iterator[None]:
    """Limit the block, and the threads and tasks that it starts with a copy of its context, to some agents."""
    token = _agents.set(agent_ids)
    try:
        yield
    finally:
        _agents.reset(token)


class LimitedPieces:
    """The pieces of an answer that is sent after its request, each made in the limits of the request."""

    def __init__(self, pieces: Iterator[Any]) -> None:
        self._pieces, self._agents = iter(pieces), agents()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with limited_to(self._agents):
            return next(self._pieces)


class LimitedAsyncPieces:
    """The same for an asynchronous answer."""

    def __init__(self, pieces: AsyncIterator[Any]) -> None:
        self._pieces, self._agents = aiter(pieces), agents()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        with limited_to(self._agents):
            return await anext(self._pieces)


class ReachWrapper(base.DatabaseWrapper):
    """Django's connection, which has the role and the agents of the context that uses it."""

    def ensure_connection(self) -> None:
        super().ensure_connection()
        wanted = _agents.get()
        if getattr(self.connection, "reach", None) != wanted:
            self._apply(wanted)

    def _apply(self, wanted: frozenset[str] | None) -> None:
        connection: Any = self.connection
        status = connection.info.transaction_status
        if status == TransactionStatus.INERROR:
            return  # it takes nothing but a rollback, which makes the state unknown
        connection.reach = _UNKNOWN
        with self.wrap_database_errors:
            if wanted is None:
                connection.execute(CLEAR, [self.settings_dict["OPTIONS"].get("assume_role") or "none"])
            else:
                connection.execute(APPLY, [sorted(wanted)])
        if not connection.autocommit and status == TransactionStatus.IDLE:
            connection.commit()  # the transaction that begins now is not to take it back
        connection.reach = wanted

    def rollback(self) -> None:
        super().rollback()
        self._forget_reach()

    def savepoint_rollback(self, sid: str) -> None:
        super().savepoint_rollback(sid)
        self._forget_reach()

    def close(self) -> None:
        self._forget_reach()  # the pool rolls back what is open
        super().close()

    def _forget_reach(self) -> None:
        if hasattr(self.connection, "reach"):
            self.connection.reach = _UNKNOWN
