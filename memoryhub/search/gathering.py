"""Laying each actor's rows together on disk: those that searches scan, and what else says that it wants to be.

Rows lie where there was room when they came, so after months those of one actor are scattered among
everybody's, and a search that reads 5,000 of them touches 5,000 pages instead of 700. PostgreSQL's
CLUSTER writes a table anew in the order of its key. It locks the table meanwhile, 6 s for a million
rows: something for the night.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

from memoryhub.search.reindexing import index_models

SCATTERED = 1.5
"""From here on it is worth the lock: half as many pages again as the rows would fill."""

LOCK_SECONDS = 10
"""As long the table waits for those who use it; whoever comes meanwhile waits behind it."""

# A page that holds rows of seven actors is read seven times, once for each.
TOUCHED_PAGES = """
SELECT count(DISTINCT (actor_id, page)), count(DISTINCT page)
FROM (SELECT actor_id, (ctid::text::point)[0] AS page FROM {table}) AS placed
"""


class TableBusy(Exception):
    """Somebody uses the table and does not let go of it."""


@dataclass(frozen=True)
class Gathered:
    """One table: pages that its actors' searches, or sleeps, touch for each page it has, before and after."""

    table: str
    before: float
    after: float
    seconds: float


def gathered_models() -> Iterator[Any]:
    """Yield every app's index of texts, and the models that name the index they are to lie by (`gathered_by`)."""
    yield from index_models()
    yield from (model for model in apps.get_models() if hasattr(model, "gathered_by"))


def scatter(model: Any) -> float:
    """Return how many pages searches of all actors would touch, in sizes of the table: 1 is perfect."""
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(TOUCHED_PAGES.format(table=table))
        touched, pages = cursor.fetchone()
    return float(touched / pages) if pages else 1.0


def gather(*, from_scatter: float = SCATTERED) -> Iterator[Gathered]:
    """Write anew, in order, each table that is scattered at least so much; yield what was looked at.

    Raises TableBusy where a table cannot be had within LOCK_SECONDS, and DatabaseError where PostgreSQL cannot
    do it, for want of room, say; what was done before stays done.
    """
    for model in gathered_models():
        before = scatter(model)
        started = time.monotonic()
        if before < from_scatter:
            yield Gathered(model._meta.db_table, before, before, 0.0)
            continue
        _cluster(model)
        yield Gathered(model._meta.db_table, before, scatter(model), time.monotonic() - started)


def _cluster(model: Any) -> None:
    table = model._meta.db_table
    with connection.cursor() as cursor:
        try:
            with transaction.atomic():
                cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{LOCK_SECONDS}s"])
                cursor.execute(f"CLUSTER {connection.ops.quote_name(table)} USING {_order(cursor, model)}")
        except OperationalError as error:
            if not isinstance(error.__cause__, LockNotAvailable):
                raise
            raise TableBusy(f"{table} is in use and could not be had within {LOCK_SECONDS} s.") from error
        cursor.execute(f"VACUUM (ANALYZE) {connection.ops.quote_name(table)}")


def _order(cursor: Any, model: Any) -> str:
    if hasattr(model, "gathered_by"):
        return str(connection.ops.quote_name(model.gathered_by))
    cursor.execute(
        "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = %s::regclass AND indisprimary",
        [model._meta.db_table],
    )
    return str(cursor.fetchone()[0])
