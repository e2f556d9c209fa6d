"""The schema of the database against the migrations of this release, and the turn of a host to change it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

OUR_APPS: Final = frozenset({"memoryhub", "webhooks", "conversations", "summaries", "strength"})
LOCK: Final = "memoryhub_schema"
POLL_SECONDS: Final = 0.5


def waiting_migrations() -> list[str]:
    """Return the names of migrations that this release has and the database lacks."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


def newer_migrations() -> list[str]:
    """Return the names of our migrations that the database has and this release does not know."""
    loader = MigrationExecutor(connection).loader
    unknown = loader.applied_migrations.keys() - loader.graph.nodes.keys()
    return sorted(f"{app}.{name}" for app, name in unknown if app in OUR_APPS)


def newer_problem() -> str:
    """Return what to do where a newer release has migrated the database; empty where none has."""
    if not (names := newer_migrations()):
        return ""
    return f"a newer release has written this database ({', '.join(names)}); run that release, or restore a backup"


@contextmanager
def schema_turn(say: Callable[[str], object]) -> Iterator[None]:
    """Hold the lock of the schema, of which there is one in a database. `say` reports a wait for another host.

    The lock is asked for again and again: a statement that waits would end at the connection's time limit.
    """
    if not _call("pg_try_advisory_lock"):
        say("Another host changes the database; waiting for it.")
        while not _call("pg_try_advisory_lock"):
            time.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        _call("pg_advisory_unlock")


def _call(function: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {function}(hashtextextended(%s, 0))", [LOCK])
        return bool(cursor.fetchone()[0])
