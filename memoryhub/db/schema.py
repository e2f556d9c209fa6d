"""The schema of the database against the migrations of this release, and the turn of a host to change it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

Key: TypeAlias = tuple[str, str]
OUR_APPS: Final = frozenset({"memoryhub", "webhooks", "conversations", "summaries", "strength"})
LOCK: Final = "memoryhub_schema"
POLL_SECONDS: Final = 0.5


def waiting_migrations() -> list[str]:
    """Return the names of migrations that this release has and the database lacks."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]


def schema_problem() -> str:
    """Return what to do where this release cannot migrate the database; empty where it can."""
    known, squashed = _known_migrations()
    ours = {key for key in MigrationRecorder(connection).applied_migrations() if key[0] in OUR_APPS}
    if newer := sorted(ours - known):
        return f"a newer release has written this database ({_names(newer)}); run that release, or restore a backup"
    if lacking := sorted(key for replaced in squashed if ours & replaced for key in replaced - ours):
        return (
            f"this database lacks {_names(lacking)}, which this release no longer has; run the release before it once"
        )
    return ""


def _known_migrations() -> tuple[set[Key], list[set[Key]]]:
    """Return the migrations that this release has or has squashed, and those of each that squashes others."""
    loader = MigrationLoader(None)
    squashed = [set(migration.replaces) for migration in loader.replacements.values()]
    return set(loader.disk_migrations).union(*squashed), squashed


def _names(keys: list[Key]) -> str:
    return ", ".join(f"{app}.{name}" for app, name in keys)


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
