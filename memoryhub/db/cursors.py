"""Open cursors with statements that PostgreSQL keeps prepared."""

from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from psycopg import Connection, Cursor
from psycopg.errors import FeatureNotSupported
from psycopg.pq import TransactionStatus
from psycopg.types.datetime import TimestamptzLoader


class _PreparingCursor(Cursor[Any]):
    """A psycopg cursor that prepares every statement, and parses timestamps in C.

    Not a threshold of the connection: psycopg would then keep the last hundred statements of Django's cursors as
    well, which hold their values. Django's loader of moments is a class in Python, which takes 3.5 µs for each, 0.2 in
    C; both give them in the connection's time zone, which is Django's.
    """

    def __init__(self, connection: Connection[Any]) -> None:
        super().__init__(connection)
        self.adapters.register_loader("timestamptz", TimestamptzLoader)

    def execute(self, *args: Any, **options: Any) -> "_PreparingCursor":
        former, self.connection.prepare_threshold = self.connection.prepare_threshold, 0
        try:
            try:
                super().execute(*args, **options)
            except FeatureNotSupported:
                # A migration changed a column's type ("cached plan must not change result type"). The end of a
                # transaction clears prepared statements; outside of one, the statement would keep failing.
                if self.connection.info.transaction_status != TransactionStatus.IDLE:
                    raise
                self.connection._prepared.clear()
                super().execute(*args, **{**options, "prepare": False})  # drops the old statements afterwards
        finally:
            self.connection.prepare_threshold = former
        return self


def prepared_cursor(using: str = DEFAULT_DB_ALIAS) -> Any:
    """Return a cursor like `connection.cursor()`; PostgreSQL parses and plans its statements once per connection.

    For statements that find rows by keys, or the first in the order of an index: a generic plan must be good for all
    values. A statement that fails at first stays prepared until the connection ends.
    With `prepare_threshold=none` in DATABASE_URL it is an ordinary cursor.
    """
    connection: Any = connections[using]
    routed = getattr(connection, "prepared_cursor", None)
    return routed() if routed else open_prepared(connection)


def open_prepared(connection: Any) -> Any:
    """Return such a cursor of this very connection."""
    if connection.settings_dict["OPTIONS"].get("prepare_threshold", 0) is None:
        return connection.cursor()
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    return connection._prepare_cursor(_PreparingCursor(connection.connection))
