"""Cluster the index tables by actor, online (ADR 44).

Rows are stored in the order of insertion, with those of all actors mixed: a search that reads 5,000 rows of an actor
touches 5,000 pages instead of 800. New rows are rewritten in slices of time, ordered by actor. The old pages of a slice
are then empty, and the next slice is written there.

A batch deletes and inserts its rows in one transaction, under a table lock that admits readers only: an UPDATE that
waited for a moved row would change nothing. The lock is requested without waiting, held for about
TARGET_LOCK_SECONDS, and released for as long.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import OperationalError, connection, models, transaction
from psycopg.errors import LockNotAvailable

from memoryhub.search.models import NIL, ClusteringState, EmbeddingSpace

SLICE_SIZE: Final = 100_000
"""Texts of a slice; the table grows by their rows until the first slice's pages are free."""
SLICE_SIZE_PER_ACTOR: Final = 50
"""Minimum size of a slice as texts per actor: eight or nine full pages of each."""
MIN_TEXTS_PER_ACTOR: Final = 10
"""Minimum average per actor for a slice to be rewritten: its rows are then four to a page."""

TARGET_LOCK_SECONDS: Final = 0.03
"""The batch size is adjusted to it."""
INITIAL_BATCH_SIZE, MIN_BATCH_SIZE, MAX_BATCH_SIZE = 200, 50, 2_000
MAX_BUSY_SECONDS = 300.0
"""Time of failed attempts to lock a table, during an import or a vacuum, before giving up."""
RETRY_SECONDS: Final = 0.05


class TableBusy(Exception):
    """The table could not be locked within MAX_BUSY_SECONDS."""


# Owners since a time, with the number of their actors.
PENDING: Final = """
WITH pending AS (
    SELECT id, actor_id FROM {owners} WHERE id > %(since)s AND id <= %(now)s ORDER BY id LIMIT %(limit)s
)
SELECT count(*), count(DISTINCT actor_id), (SELECT id FROM pending ORDER BY id DESC LIMIT 1) FROM pending
"""

# Reads no more actors than needed for the limit.
NEXT_ROWS: Final = """
SELECT found.place
FROM (SELECT id FROM {actors} WHERE id >= %(after_actor)s ORDER BY id) AS actor
CROSS JOIN LATERAL (
    SELECT ctid AS place, {owner} AS owner FROM {table}
    WHERE actor_id = actor.id AND space_id = %(space)s AND {owner} <= %(until)s
        AND {owner} > CASE WHEN actor.id = %(after_actor)s THEN greatest(%(after_owner)s, %(since)s) ELSE %(since)s END
    ORDER BY {owner} LIMIT %(limit)s
) AS found
ORDER BY actor.id, found.owner LIMIT %(limit)s
"""

MOVE: Final = """
WITH moved AS (
    DELETE FROM {table} WHERE ctid = ANY(ARRAY({next_rows})) RETURNING *
), placed AS (
    INSERT INTO {table} SELECT * FROM moved ORDER BY actor_id, {owner} RETURNING actor_id, {owner} AS owner
)
SELECT actor_id, owner, count(*) OVER () FROM placed ORDER BY actor_id DESC, owner DESC LIMIT 1
"""

READ_NEXT: Final = """
SELECT count(owned.id) FROM ({next_rows}) AS next
JOIN {table} AS row ON row.ctid = next.place LEFT JOIN {owners} AS owned ON owned.id = row.{owner}
"""

Step = Callable[[], AbstractContextManager[None]]


@dataclass
class Clustering:
    """Clusters one table; each batch is written in a `step`, a transaction.

    `max_lock_seconds` is the longest time of a lock. An interrupted run loses its current batch; the next one
    continues.
    """

    model: Any
    step: Step = transaction.atomic
    moved: int = 0
    max_lock_seconds: float = 0.0

    def __post_init__(self) -> None:
        quote, owner_field = connection.ops.quote_name, self.model._meta.get_field(self.model.owner_field)
        self.actors = self.model._meta.get_field("actor").related_model
        self.names = {
            "table": quote(self.model._meta.db_table),
            "owner": quote(owner_field.column),
            "owners": quote(owner_field.related_model._meta.db_table),
            "actors": quote(self.actors._meta.db_table),
        }
        self.next_rows = NEXT_ROWS.format(**self.names)
        self.move = MOVE.format(next_rows=self.next_rows, **self.names)
        self.batch_size = INITIAL_BATCH_SIZE

    def run(self, *, now: datetime) -> Iterator[int]:
        """Yield the number of rows moved by each batch. Raises TableBusy."""
        while state := self._slice(now):
            while count := self._move(state):
                self.moved += count
                yield count
            with connection.cursor() as cursor:
                cursor.execute(f"VACUUM {self.names['table']}")
            done = self._states().filter(since=state.since, until=state.until)
            done.update(since=state.until, until=None, after_actor=NIL, after_owner=NIL)

    def reset(self) -> None:
        """Begin again with the oldest texts at the next run."""
        self._states().delete()

    def _states(self) -> models.QuerySet[ClusteringState]:
        return ClusteringState.objects.filter(table=self.model._meta.db_table)

    def _slice(self, now: datetime) -> ClusteringState | None:
        """Return the current slice, or begin the next one; None if there are too few new texts."""
        state, _ = ClusteringState.objects.get_or_create(table=self.model._meta.db_table)
        if state.until is not None:
            return state
        limit = max(SLICE_SIZE, SLICE_SIZE_PER_ACTOR * self.actors.objects.count())
        values = {"since": state.since, "now": first_id_of(now), "limit": limit}
        with connection.cursor() as cursor:
            cursor.execute(PENDING.format(**self.names), values)
            owners, actors, until = cursor.fetchone()
        if actors < 2 or owners < MIN_TEXTS_PER_ACTOR * actors:
            return None
        self._states().filter(since=state.since, until=None).update(until=until)
        return self._states().get()

    def _move(self, state: ClusteringState) -> int:
        """Move the slice's next rows and return their number; retries to lock the table for MAX_BUSY_SECONDS."""
        deadline = time.monotonic() + MAX_BUSY_SECONDS
        self._read_next(state)
        while True:
            try:
                with self.step():
                    self._lock()
                    locked_at = time.monotonic()
                    count = self._move_locked(state)
            except OperationalError as error:
                if not isinstance(error.__cause__, LockNotAvailable):
                    raise
                if time.monotonic() > deadline:
                    table = self.model._meta.db_table
                    raise TableBusy(f"{table} has been in use for {MAX_BUSY_SECONDS:.0f} s.") from error
                time.sleep(RETRY_SECONDS)
                continue
            self._adjust_batch_size(time.monotonic() - locked_at)
            return count

    def _values(self, state: ClusteringState) -> dict[str, Any]:
        space = EmbeddingSpace.objects.filter(state=EmbeddingSpace.State.ACTIVE).values_list("pk", flat=True)
        return {
            "space": space.first(),
            "since": state.since,
            "until": state.until,
            "after_actor": state.after_actor,
            "after_owner": state.after_owner,
            "limit": self.batch_size,
        }

    def _read_next(self, state: ClusteringState) -> None:
        """Read the next rows' pages into the cache before the table is locked."""
        current = self._states().get()
        if current.until == state.until:
            with connection.cursor() as cursor:
                cursor.execute(READ_NEXT.format(next_rows=self.next_rows, **self.names), self._values(current))

    def _lock(self) -> None:
        with connection.cursor() as cursor:
            # A short lock_timeout avoids deadlocks with foreign-key checks. A commit lost in a crash is repeated.
            cursor.execute(
                "SELECT set_config('lock_timeout', '50ms', true), set_config('synchronous_commit', 'off', true)"
            )
            cursor.execute(f"LOCK TABLE {self.names['table']} IN EXCLUSIVE MODE NOWAIT")

    def _move_locked(self, state: ClusteringState) -> int:
        current = self._states().get()
        if (current.since, current.until) != (state.since, state.until):
            return 0  # another run has completed this slice
        with connection.cursor() as cursor:
            cursor.execute(self.move, self._values(current))
            last = cursor.fetchone()
        if last is None:
            return 0
        self._states().update(after_actor=last[0], after_owner=last[1])
        return int(last[2])

    def _adjust_batch_size(self, lock_seconds: float) -> None:
        """Adjust the batch size to TARGET_LOCK_SECONDS, and pause as long as the table was locked."""
        self.max_lock_seconds = max(self.max_lock_seconds, lock_seconds)
        size = int(self.batch_size * min(2.0, TARGET_LOCK_SECONDS / lock_seconds))
        self.batch_size = max(MIN_BATCH_SIZE, min(MAX_BATCH_SIZE, size))
        time.sleep(lock_seconds)


def first_id_of(moment: datetime) -> UUID:
    """Return the smallest UUIDv7 of a time."""
    return UUID(int=int(moment.timestamp() * 1000) << 80)


# A page counts once for each actor with rows in it.
PAGE_COUNTS: Final = """
SELECT count(DISTINCT (actor_id, page)), count(DISTINCT page)
FROM (SELECT actor_id, (ctid::text::point)[0] AS page FROM {table}) AS placed
"""


def page_fragmentation(model: Any) -> float:
    """Return the pages that one search by each actor touches, relative to the table's size; the optimum is 1."""
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(PAGE_COUNTS.format(table=table))
        touched, pages = cursor.fetchone()
    return float(touched / pages) if pages else 1.0
