"""Databases of a test run: one is migrated, every other is a copy of it (`CREATE DATABASE … TEMPLATE`).

Each xdist worker has a copy of its own. After a test that commits, only the tables that it wrote to are emptied.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, Final, TypeVar

from django.conf import settings
from django.core.cache import caches
from django.core.management import call_command
from django.db import OperationalError, connection, connections, transaction
from psycopg.errors import ObjectInUse

from memoryhub.db.shared_cache import SharedCache
from memoryhub.llm.usage.calibration import calibrated
from memoryhub.runtime.processes import FileLock

Value = TypeVar("Value")
MIGRATION_SECONDS: Final = 600
CLOSING_SECONDS: Final = 60
SEEDED: Final = ("auth_group", "auth_group_permissions", "auth_permission", "django_content_type")
"""Tables with rows that migrations write."""


def run_folder() -> Path:
    """Return the throw-away folder of this run, which its workers share."""
    return Path(os.environ["MEMORYHUB_DATA_DIR"]).parent


def migrated() -> str:
    """Return the name of this run's migrated database."""
    return template("migrated", lambda: call_command("migrate", verbosity=0, interactive=False), base="template1")


def template(kind: str, fill: Callable[[], Any], *, base: str | None = None) -> str:
    """Return the name of this run's database of a kind; the first worker to ask copies it from `base` and fills it."""
    base = base or migrated()
    name = f"{run_folder().name}-{kind}"
    made = run_folder() / f"{kind}.made"
    with FileLock(run_folder() / f"{kind}.lock", timeout_seconds=MIGRATION_SECONDS):
        if not made.exists():
            copy(base, name)
            with connected_to(name):
                fill()
            made.touch()
    return name


def copy(source: str, name: str) -> None:
    """Make a database that holds what the source holds, in place of an older one of this name."""
    drop(name)
    _execute(f'CREATE DATABASE "{name}" TEMPLATE "{source}"')


def drop(name: str) -> None:
    """Remove a database, whoever is still connected to it."""
    # WITH (FORCE) fails on an autovacuum worker, whose role is not ours; a plain DROP ends that by itself.
    _execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND usename = current_user", [name]
    )
    _execute(f'DROP DATABASE IF EXISTS "{name}"')


@contextmanager
def connected_to(name: str) -> Iterator[None]:
    """Let this process, its threads and its children work with another database."""
    values = connection.settings_dict
    kept = values["NAME"]
    connections.close_all()
    values["NAME"] = name
    try:
        yield
    finally:
        connections.close_all()
        values["NAME"] = kept


def written_tables() -> list[str]:
    """Return the tables that hold rows, apart from those of the migrations."""
    tables = set(connection.introspection.django_table_names(include_views=False)) - set(SEEDED)
    with connection.cursor() as cursor:
        cursor.execute(
            " UNION ALL ".join(f"""SELECT '{name}' WHERE EXISTS (SELECT FROM "{name}")""" for name in sorted(tables))
        )
        return [name for (name,) in cursor]


class Emptying:
    """Empty the tables that a test wrote to; Django's `flush` truncates all of them and takes half a second."""

    def __init__(self) -> None:
        self.seeds = self._seeds()

    def __call__(self) -> None:
        """Bring the database back to what its migrations have left."""
        with transaction.atomic(), connection.cursor() as cursor:
            # Foreign keys are checked at the end of the transaction, so the order does not matter.
            for table in written_tables():
                cursor.execute(f'DELETE FROM "{table}"')
        if self._seeds() != self.seeds:
            call_command("flush", verbosity=0, interactive=False)
            self.seeds = self._seeds()
            _prepared.clear()  # content types have new numbers now, which prepared rows would not know

    def _seeds(self) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute(
                " UNION ALL ".join(
                    f"""SELECT md5(string_agg(row::text, '' ORDER BY row::text)) FROM "{name}" row""" for name in SEEDED
                )
            )
            return [digest for (digest,) in cursor]


def _execute(statement: str, values: list[str] | None = None) -> None:
    """Run a statement about databases; PostgreSQL itself waits five seconds for connections that are closing."""
    until = time.monotonic() + CLOSING_SECONDS
    while True:
        try:
            with connection._nodb_cursor() as cursor:
                cursor.execute(statement, values)
            return
        except OperationalError as error:
            if not isinstance(error.__cause__, ObjectInUse) or time.monotonic() > until:
                raise


_prepared: dict[Any, tuple[Any, dict[str, list[bytes]]]] = {}


def prepared(kind: Any, make: Callable[[], Value]) -> Value:
    """Return what `make` returns, with the rows that it writes; a second call in this process only inserts them.

    For fixtures that go through many actions to write their rows. `make` must not change rows that are there.
    """
    if kind in _prepared:
        value, rows = _prepared[kind]
        # In one transaction: foreign keys are checked at its end.
        with transaction.atomic(), connection.cursor() as cursor:
            for table, lines in rows.items():
                with cursor.copy(f'COPY "{table}" FROM STDIN') as to:
                    to.write(b"".join(lines))
        return deepcopy(value)
    before = {table: set(lines) for table, lines in _contents().items()}
    value = make()
    forget_caches()
    added = {
        table: [line for line in lines if line not in before.get(table, ())] for table, lines in _contents().items()
    }
    _prepared[kind] = deepcopy(value), {table: lines for table, lines in added.items() if lines}
    return value


def forget_caches() -> None:
    """Forget what a process keeps of its database's rows between requests."""
    for each in settings.CACHES:
        if not isinstance(caches[each], SharedCache):  # their rows are of the test's transaction
            caches[each].clear()
    calibrated.forget()


def _contents() -> dict[str, list[bytes]]:
    contents = {}
    with connection.cursor() as cursor:
        for table in written_tables():
            with cursor.copy(f'COPY "{table}" TO STDOUT') as lines:
                contents[table] = [bytes(line) for line in lines]
    return contents


def everywhere(needle: str) -> set[str]:
    """Return the columns of the whole database in which a text occurs, whatever their type."""
    found = set()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns JOIN information_schema.tables"
            " USING (table_schema, table_name) WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
        )
        for table, column, kind in cursor.fetchall():
            text = f'"{column}"::text'
            if kind == "bytea":
                text = f"encode(\"{column}\", 'escape') || encode(\"{column}\", 'hex')"
            cursor.execute(f'SELECT count(*) FROM "{table}" WHERE ({text}) ILIKE %s', [f"%{escaped(needle)}%"])
            if cursor.fetchone()[0]:
                found.add(f"{table}.{column}")
    return found


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def dumped() -> dict[str, bytes]:
    """Return what every table holds, by its name."""
    return {table: b"".join(lines) for table, lines in _contents().items()}
