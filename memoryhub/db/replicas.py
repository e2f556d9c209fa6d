"""Reads from replicas that have all that was acknowledged before (ADR 65).

A write's position in PostgreSQL's log is kept in a row for its agent, before the write is acknowledged. A request that
reads gets the position of the agent of its key, or of all agents, and takes a replica that has replayed it; where none
has, it reads on the primary.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error, InterfaceError, OperationalError, ProgrammingError, connections
from prometheus_client import Counter
from psycopg import errors

EVERYTHING: Final = ""
"""Scope of a write that may concern every agent."""

# A commit waits until it is flushed, unless it is asynchronous: then its place is known only to be before the next
# record, which may reach replicas a while later, with much that others write.
NOTE: Final = """
INSERT INTO memoryhub_position AS noted (scope, position)
VALUES (%s, pg_wal_lsn_diff(
    CASE WHEN %s OR current_setting('synchronous_commit') = 'off' THEN pg_current_wal_insert_lsn()
         ELSE pg_current_wal_flush_lsn() END, '0/0')::bigint)
ON CONFLICT (scope) DO UPDATE SET position = greatest(noted.position, excluded.position) RETURNING position
"""

# Null where the position of everything is unknown, as in `positions.OF_KEY`.
OF_ALL: Final = "SELECT CASE WHEN bool_or(scope = '') THEN max(position) END FROM memoryhub_position"

REPLAYED: Final = """
SELECT CASE WHEN pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint END
"""

WRITTEN: Final = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"

DOWN_SECONDS: Final = 5.0
"""A replica that failed is left for so long; then one request tries it."""

WAIT_SECONDS: Final = 0.02
PAUSE_SECONDS: Final = 0.002
"""Time for a replica to replay a write that was made just now, and the pause between two looks."""

LATE_SECONDS: Final = 1.0
"""A replica that took longer is not waited for so long."""

USED: Final = "used"
BEHIND: Final = "behind"
READS: Final = Counter(
    "memoryhub_replica_reads", "Requests that read from a replica, or could not.", ["replica", "outcome"]
)


@dataclass
class Reading:
    """A request that only reads: from the replica `alias` where it has one. What the API's write are notes."""

    of_api: bool
    alias: str | None = None


class _Thread(threading.local):
    reading: Reading | None = None
    writer: str = EVERYTHING
    is_noting: bool = False


_thread = _Thread()
_turns = count()
_down_until: dict[str, float] = {}
_late_until: dict[str, float] = {}


def aliases() -> list[str]:
    return [alias for alias in settings.DATABASES if alias != DEFAULT_DB_ALIAS]


def replica() -> str | None:
    """Return the replica that this thread's request reads from."""
    return None if _thread.reading is None else _thread.reading.alias


@contextmanager
def request() -> Iterator[None]:
    """Run a request of this thread, which begins on the primary, with an unknown caller."""
    try:
        yield
    finally:
        _thread.reading, _thread.writer = None, EVERYTHING
        close_connections()


def expect_read(*, of_api: bool) -> None:
    """Note that this thread's request only reads."""
    _thread.reading = Reading(of_api)


def identify(agent_id: str, position: int | None) -> None:
    """Note that this request's key is of one agent (empty: of more), and choose the replica if it reads."""
    _thread.writer = agent_id
    if _thread.reading is not None:
        _thread.reading.alias = _choose(position)


def read_everything() -> None:
    """Choose the replica of a request that may read the rows of all agents."""
    if _thread.reading is not None:
        with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
            cursor.execute(OF_ALL)
            position = cursor.fetchone()[0]
        _thread.reading.alias = _choose(position)


def leave() -> bool:
    """Read the rest of the request on the primary; return whether it read elsewhere."""
    alias, _thread.reading = replica(), None
    return alias is not None


@contextmanager
def noting() -> Iterator[None]:
    """Let the writes of the body have no position, as reads need not see them."""
    former, _thread.is_noting = _thread.is_noting, True
    try:
        yield
    finally:
        _thread.is_noting = former


def note_write(connection: Any, *, is_async: bool) -> None:
    """Keep the position of a committed write, unless it is a note about a read; an asynchronous one is not flushed."""
    if _thread.is_noting or (_thread.reading is not None and _thread.reading.of_api):
        return
    leave()  # what follows in this request must see it
    try:
        _note(connection, _thread.writer, is_async=is_async)
    except ProgrammingError as error:
        if not isinstance(error.__cause__, errors.UndefinedTable):  # an earlier migration
            raise


def _note(connection: Any, scope: str, *, is_async: bool) -> int:
    with connection.open(prepared=False) as cursor:
        cursor.execute(NOTE, [scope, is_async])
        return int(cursor.fetchone()[0])


def _choose(position: int | None) -> str | None:
    """Return a replica that has replayed the position; None where none has."""
    if not (known := aliases()):
        return None
    if position is None:
        position = _note(connections[DEFAULT_DB_ALIAS], EVERYTHING, is_async=True)
    first = next(_turns) % len(known)
    outcomes: dict[str, str] = {}
    for alias in known[first:] + known[:first]:
        outcomes[alias] = _outcome(alias, position)
        if outcomes[alias] == USED:
            break
    else:
        for alias, outcome in outcomes.items():
            if outcome == BEHIND and _catches_up(alias, position):
                outcomes[alias] = USED
                break
    for alias, outcome in outcomes.items():
        READS.labels(alias, outcome).inc()
    return next((alias for alias, outcome in outcomes.items() if outcome == USED), None)


def _outcome(alias: str, position: int) -> str:
    down_until = _down_until.get(alias)
    if down_until is not None:
        if time.monotonic() < down_until:
            return "down"
        _set_down(alias)  # others do not wait for the answer as well
    replayed = _replayed(alias)
    if replayed is None:  # away, or promoted
        _set_down(alias)
        return "failed"
    _down_until.pop(alias, None)
    return USED if replayed >= position else BEHIND


def _catches_up(alias: str, position: int) -> bool:
    """Wait a moment for the replay, as a replica is mostly some milliseconds late; not if it was later just now."""
    now = time.monotonic()
    if now < _late_until.get(alias, 0.0):
        return False
    while time.monotonic() < now + WAIT_SECONDS:
        time.sleep(PAUSE_SECONDS)
        replayed = _replayed(alias)
        if replayed is None:
            return False
        if replayed >= position:
            return True
    _late_until[alias] = time.monotonic() + LATE_SECONDS
    return False


def _replayed(alias: str) -> int | None:
    """Return up to where a replica has replayed; None where it does not answer, or is none."""
    try:
        with connections[alias].cursor() as cursor:
            cursor.execute(REPLAYED)
            replayed: int | None = cursor.fetchone()[0]
            return replayed
    except Error:
        connections[alias].close()
        return None


def states() -> Iterator[tuple[str, int | None]]:
    """Yield each replica with the bytes of the log that it has to replay; None where it cannot be used."""
    if known := aliases():
        with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
            cursor.execute(WRITTEN)
            written = cursor.fetchone()[0]
        for alias in known:
            replayed = _replayed(alias)
            yield alias, None if replayed is None else written - replayed


def _set_down(alias: str) -> None:
    _down_until[alias] = time.monotonic() + DOWN_SECONDS


def fail(alias: str, error: Exception) -> None:
    """Read the rest of the request on the primary, as a statement failed on the replica."""
    if _thread.reading is not None:
        _thread.reading.alias = None
    READS.labels(alias, "failed").inc()
    cause = error.__cause__ or error
    is_away = isinstance(error, OperationalError | InterfaceError | errors.OperationalError | errors.InterfaceError)
    if is_away and not isinstance(cause, errors.SerializationFailure):  # a conflict with what is replayed
        _set_down(alias)
    connections[alias].close()


def close_connections() -> None:
    """Return this thread's connections to replicas."""
    for connection in connections.all(initialized_only=True):
        if connection.alias != DEFAULT_DB_ALIAS:
            connection.close()
