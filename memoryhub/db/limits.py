"""Limit the time of a thread's statements, and tell a database that is away or read-only from other errors."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from django.db import InterfaceError, InternalError, OperationalError, connection, transaction
from psycopg.errors import Error, ReadOnlySqlTransaction

from memoryhub.db.replicas import noting

CANCEL_SECONDS = 1.0
"""Time in which a server has to accept the cancellation of a statement."""


class DatabaseAway(Exception):
    """The database cannot be reached, or takes no writes."""


class OutOfTime(Exception):
    """The statements have used up their time."""


def is_read_only(error: BaseException) -> bool:
    """Return whether a statement failed because the database takes no writes: a standby, or a provider's full disk."""
    return isinstance(error.__cause__, ReadOnlySqlTransaction)


@contextmanager
def note_of_a_read() -> Iterator[None]:
    """Run a write that a read can do without; leave it out while the database takes no writes."""
    try:
        # A failed statement ends a transaction around it; without one it fails alone.
        with noting(), transaction.atomic() if connection.in_atomic_block else nullcontext():
            yield
    except InternalError as error:
        if not is_read_only(error):
            raise


@contextmanager
def time_limit(ends_at: float | None) -> Iterator[None]:
    """Cancel this thread's statement at `ends_at` (by `time.monotonic`), and refuse further ones; None: no limit.

    Raises OutOfTime, and DatabaseAway where there is no connection. The time of the process itself is not limited.
    """
    if ends_at is None:
        yield
        return
    limit = _Limit(ends_at)
    timer = threading.Timer(max(0.0, ends_at - time.monotonic()), limit.cancel)
    timer.daemon = True
    timer.start()
    try:
        _check_pool(ends_at)
        with connection.execute_wrapper(limit):
            yield
    except (OperationalError, InterfaceError) as error:
        raise (OutOfTime if limit.is_over else DatabaseAway) from error
    except InternalError as error:
        if not is_read_only(error):
            raise
        raise DatabaseAway from error
    finally:
        timer.cancel()


def _check_pool(ends_at: float) -> None:
    """Wait for a connection of the pool until then, and no longer. Raises OperationalError."""
    pool = connection.pool  # type: ignore[attr-defined]
    if pool is None or connection.connection is not None:
        return
    try:
        pool.open()
        pool.putconn(pool.getconn(timeout=max(0.01, ends_at - time.monotonic())))
    except Error as error:
        raise OperationalError("There is no connection.") from error


class _Limit:
    """Wrapper of a thread's statements, of which another thread cancels the one that runs at the end of the time."""

    def __init__(self, ends_at: float) -> None:
        self.ends_at = ends_at
        self.is_over = False
        self._running: Any = None
        self._lock = threading.Lock()

    def __call__(self, execute: Any, sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
        with self._lock:
            self.is_over = self.is_over or time.monotonic() >= self.ends_at
            if self.is_over:
                raise OutOfTime
            self._running = context["connection"]
        try:
            return execute(sql, params, many, context)
        finally:
            with self._lock:
                self._running = None

    def cancel(self) -> None:
        # Under the lock, or the cancellation might reach the thread's next statement, outside of the limit.
        with self._lock:
            self.is_over = True
            if self._running is not None:
                running = getattr(self._running, "running", None) or self._running.connection
                with suppress(Error):
                    running.cancel_safe(timeout=CANCEL_SECONDS)
