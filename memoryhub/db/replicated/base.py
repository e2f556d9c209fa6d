"""The primary's connection: statements that only read are sent to the replica of the request, if it has one (ADR 65).

All statements pass here, those of the ORM, of `connection.cursor()` and of `prepared_cursor()`. Transactions are on the
primary with all that they read, and so is what is read piece by piece, which could not begin again elsewhere.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import Error, connections
from psycopg.errors import QueryCanceled

from memoryhub.db import replicas
from memoryhub.db.cursors import open_prepared
from memoryhub.db.reach import ReachWrapper
from memoryhub.db.statements import changes_rows, only_reads


class DatabaseWrapper(ReachWrapper):
    """A connection to the primary, by way of which a thread also reads from its replica."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.running: psycopg.Connection[Any] | None = None
        """The replica's connection while it runs a statement, which another thread may cancel."""
        self._has_changes = self._has_committed = self._is_async = False

    def _cursor(self, name: str | None = None) -> Any:
        return super()._cursor(name) if name else self._routed(prepared=False)  # type: ignore[misc]

    def prepared_cursor(self) -> Any:
        return self._routed(prepared=True)

    def _routed(self, *, prepared: bool) -> Any:
        self.close_if_health_check_failed()
        self.ensure_connection()  # as Django's does: some of its code asks for a cursor only to be connected
        return self._prepare_cursor(RoutedCursor(self, prepared=prepared))  # type: ignore[attr-defined]

    def open(self, *, prepared: bool) -> Any:
        """Return a cursor of the primary."""
        return open_prepared(self) if prepared else super()._cursor()  # type: ignore[misc]

    def close(self) -> None:
        super().close()
        replicas.close_connections()

    def commit(self) -> None:
        super().commit()
        self._has_changes, self._has_committed = False, self._has_changes

    def rollback(self) -> None:
        super().rollback()
        self._has_changes = False

    def set_autocommit(self, *args: Any, **options: Any) -> None:
        super().set_autocommit(*args, **options)
        if self._has_committed and self.autocommit:
            self._has_committed = False
            self._note()

    def sent(self, statement: Any) -> None:
        """Note what a statement did to the primary."""
        self._is_async = self._is_async or "synchronous_commit" in str(statement)
        if changes_rows(statement):
            self.changed()

    def changed(self) -> None:
        """Note that rows were changed."""
        if self.autocommit:
            self._note()
        else:
            self._has_changes = True

    def _note(self) -> None:
        is_async, self._is_async = self._is_async, False
        replicas.note_write(self, is_async=is_async)


class RoutedCursor:
    """A cursor of the replica or of the primary, as each statement demands."""

    def __init__(self, wrapper: DatabaseWrapper, *, prepared: bool) -> None:
        self._wrapper, self._prepared = wrapper, prepared
        self._open: Any = None

    def execute(self, statement: Any, *args: Any, **options: Any) -> "RoutedCursor":
        if not self._read(statement, *args, **options):
            self._on_primary().execute(statement, *args, **options)
            self._wrapper.sent(statement)
        return self

    def executemany(self, statement: Any, *args: Any, **options: Any) -> None:
        self._on_primary().executemany(statement, *args, **options)
        self._wrapper.changed()

    @contextmanager
    def copy(self, *args: Any, **options: Any) -> Iterator[Any]:
        with self._on_primary().copy(*args, **options) as copying:
            yield copying
        self._wrapper.changed()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._open if self._open is not None else self._on_primary(), name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._open or ())

    def _on_primary(self) -> Any:
        self.close()
        self._open = self._wrapper.open(prepared=self._prepared).cursor
        return self._open

    def _read(self, statement: Any, *args: Any, **options: Any) -> bool:
        """Execute the statement on the request's replica; return False where the primary must."""
        alias = replicas.replica()
        if alias is None or self._wrapper.in_atomic_block or not only_reads(statement):
            return False
        connection: Any = connections[alias]
        try:
            self.close()
            self._open = (open_prepared(connection) if self._prepared else connection.cursor()).cursor
            self._wrapper.running = self._open.connection
            self._open.execute(statement, *args, **options)
        except QueryCanceled:  # it took too long, and would take as long there
            raise
        except (psycopg.Error, Error) as error:
            self._open = None
            replicas.fail(alias, error)
            return False
        finally:
            self._wrapper.running = None
        return True
