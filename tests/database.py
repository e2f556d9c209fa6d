"""Databases of a test run: one is migrated, every other is a copy of it (`CREATE DATABASE … TEMPLATE`).

Each xdist worker has a copy of its own. After a test that commits, only the tables that it wrote to are emptied.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from django.core.management import call_command
from django.db import connection, connections, transaction

from memoryhub.runtime.processes import FileLock

MIGRATION_SECONDS: Final = 600
SEEDED: Final = ("auth_group", "auth_group_permissions", "auth_permission", "django_content_type")
"""Tables with rows that migrations write."""


def run_folder() -> Path:
    """Return the throw-away folder of this run, which its workers share."""
    return Path(os.environ["MEMORYHUB_DATA_DIR"]).parent


def migrated() -> str:
    """Return the name of this run's migrated database."""
    return template(
        "migrated", lambda: call_command("migrate", verbosity=0, interactive=False), base="template1"
    )


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
    _execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


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


class Emptying:
    """Empty the tables that a test wrote to; Django's `flush` truncates all of them and takes half a second."""

    def __init__(self) -> None:
        self.seeds = self._seeds()

    def __call__(self) -> None:
        """Bring the database back to what its migrations have left."""
        written = self._written()
        with transaction.atomic(), connection.cursor() as cursor:
            # Foreign keys are checked at the end of the transaction, so the order does not matter.
            for table in written:
                cursor.execute(f'DELETE FROM "{table}"')
        if self._seeds() != self.seeds:
            call_command("flush", verbosity=0, interactive=False)
            self.seeds = self._seeds()

    def _written(self) -> list[str]:
        tables = [
            name
            for name in connection.introspection.django_table_names(include_views=False)
            if name not in SEEDED
        ]
        with connection.cursor() as cursor:
            cursor.execute(
                " UNION ALL ".join(
                    f"""SELECT '{name}' WHERE EXISTS (SELECT FROM "{name}")""" for name in tables
                )
            )
            return [name for (name,) in cursor]

    def _seeds(self) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute(
                " UNION ALL ".join(
                    f"""SELECT md5(string_agg(row::text, '' ORDER BY row::text)) FROM "{name}" row"""
                    for name in SEEDED
                )
            )
            return [digest for (digest,) in cursor]


def _execute(statement: str) -> None:
    with connection._nodb_cursor() as cursor:
        cursor.execute(statement)
