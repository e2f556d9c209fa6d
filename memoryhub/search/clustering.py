"""Lay each actor's index rows together on disk, while the server runs (ADR 44).

Rows lie in the order in which they came, those of one actor among everybody's: a search that reads 5,000 of them
touches 5,000 pages instead of 800. So what came is written anew, a slice of time at a time, actor by actor: a slice's
rows fill its pages alone, which are therefore empty afterwards, and the next ones go there.

A batch deletes and inserts its rows in one transaction, under a lock of the table that lets readers pass: a writer
that waited for a row which then moves would change nothing. The lock is asked for without waiting, held for
HELD_SECONDS or so, and left alone as long again.
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

SLICE_OWNERS: Final = 100_000
"""Texts of a slice: the table grows by their rows until the first slice's pages are free."""
SLICE_OWNERS_OF_ACTOR: Final = 50
"""Of each actor, where there are so many actors that a slice would hold less: eight or nine full pages."""
WORTHWHILE: Final = 10
"""Texts of each actor, on average, from which on a slice is worth its writing: they then lie four to a page."""

HELD_SECONDS: Final = 0.03
"""About as long as a batch holds the table; its size follows."""
FIRST_BATCH, SMALLEST_BATCH, LARGEST_BATCH = 200, 50, 2_000
BUSY_SECONDS = 300.0
"""As long a table may be in use without a gap, by an import or a vacuum, before it is given up for now."""
RETRY_SECONDS: Final = 0.05


class TableBusy(Exception):
    """Somebody uses the table and does not let go of it."""


# The owners that came since, by time, with the number of their actors.
PENDING: Final = """
WITH pending AS (
    SELECT id, actor_id FROM {owners} WHERE id > %(since)s AND id <= %(now)s ORDER BY id LIMIT %(most)s
)
SELECT count(*), count(DISTINCT actor_id), (SELECT id FROM pending ORDER BY id DESC LIMIT 1) FROM pending
"""

# The lookups of each actor stop as soon as there are enough.
NEXT_ROWS: Final = """
SELECT found.place
FROM (SELECT id FROM {actors} WHERE id >= %(after_actor)s ORDER BY id) AS actor
CROSS JOIN LATERAL (
    SELECT ctid AS place, {owner} AS owner FROM {table}
    WHERE actor_id = actor.id AND space_id = %(space)s AND {owner} <= %(until)s
        AND {owner} > CASE WHEN actor.id = %(after_actor)s THEN greatest(%(after_owner)s, %(since)s) ELSE %(since)s END
    ORDER BY {owner} LIMIT %(most)s
) AS found
ORDER BY actor.id, found.owner LIMIT %(most)s
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
    """Writes what came to one table anew by actor. `step` is the transaction of a batch.

    `longest_seconds` is how long writers waited at most for a batch. A run that is stopped or killed loses the batch
    that it was at, and the next one goes on from there.
    """

    model: Any
    step: Step = transaction.atomic
    moved: int = 0
    longest_seconds: float = 0.0

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
        self.batch = FIRST_BATCH

    def run(self, *, now: datetime) -> Iterator[int]:
        """Yield how many rows each batch moved; who stops asking stops it. Raises TableBusy."""
        while state := self._slice(now):
            while count := self._move(state):
                self.moved += count
                yield count
            with connection.cursor() as cursor:
                cursor.execute(f"VACUUM {self.names['table']}")
            done = self._states().filter(since=state.since, until=state.until)
            done.update(since=state.until, until=None, after_actor=NIL, after_owner=NIL)

    def forget(self) -> None:
        """Let the next run begin with the oldest texts."""
        self._states().delete()

    def _states(self) -> models.QuerySet[ClusteringState]:
        return ClusteringState.objects.filter(table=self.model._meta.db_table)

    def _slice(self, now: datetime) -> ClusteringState | None:
        """Return the slice that was begun, or begin the next one; None where too little came."""
        state, _ = ClusteringState.objects.get_or_create(table=self.model._meta.db_table)
        if state.until is not None:
            return state
        most = max(SLICE_OWNERS, SLICE_OWNERS_OF_ACTOR * self.actors.objects.count())
        values = {"since": state.since, "now": first_id_of(now), "most": most}
        with connection.cursor() as cursor:
            cursor.execute(PENDING.format(**self.names), values)
            owners, actors, until = cursor.fetchone()
        if actors < 2 or owners < WORTHWHILE * actors:
            return None
        self._states().filter(since=state.since, until=None).update(until=until)
        return self._states().get()

    def _move(self, state: ClusteringState) -> int:
        """Move the slice's next rows; return how many. Waits for nobody, but asks again until BUSY_SECONDS passed."""
        gives_up_at = time.monotonic() + BUSY_SECONDS
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
                if time.monotonic() > gives_up_at:
                    table = self.model._meta.db_table
                    raise TableBusy(f"{table} has been in use for {BUSY_SECONDS:.0f} s.") from error
                time.sleep(RETRY_SECONDS)
                continue
            self._pace(time.monotonic() - locked_at)
            return count

    def _values(self, state: ClusteringState) -> dict[str, Any]:
        space = EmbeddingSpace.objects.filter(state=EmbeddingSpace.State.ACTIVE).values_list("pk", flat=True)
        return {
            "space": space.first(),
            "since": state.since,
            "until": state.until,
            "after_actor": state.after_actor,
            "after_owner": state.after_owner,
            "most": self.batch,
        }

    def _read_next(self, state: ClusteringState) -> None:
        """Fetch the next rows' pages, so that nobody waits for the disk while the table is locked."""
        current = self._states().get()
        if current.until == state.until:
            with connection.cursor() as cursor:
                cursor.execute(READ_NEXT.format(next_rows=self.next_rows, **self.names), self._values(current))

    def _lock(self) -> None:
        with connection.cursor() as cursor:
            # A foreign key may wait for a row of whoever waits for this table; a lost commit is a batch done again.
            cursor.execute(
                "SELECT set_config('lock_timeout', '50ms', true), set_config('synchronous_commit', 'off', true)"
            )
            cursor.execute(f"LOCK TABLE {self.names['table']} IN EXCLUSIVE MODE NOWAIT")

    def _move_locked(self, state: ClusteringState) -> int:
        current = self._states().get()
        if (current.since, current.until) != (state.since, state.until):
            return 0  # another run has ended the slice
        with connection.cursor() as cursor:
            cursor.execute(self.move, self._values(current))
            last = cursor.fetchone()
        if last is None:
            return 0
        self._states().update(after_actor=last[0], after_owner=last[1])
        return int(last[2])

    def _pace(self, held: float) -> None:
        """Leave the table to others as long as it was held, and fit the next batch to HELD_SECONDS."""
        self.longest_seconds = max(self.longest_seconds, held)
        fitting = int(self.batch * min(2.0, HELD_SECONDS / held))
        self.batch = max(SMALLEST_BATCH, min(LARGEST_BATCH, fitting))
        time.sleep(held)


def first_id_of(moment: datetime) -> UUID:
    """Return the least UUIDv7 of a moment."""
    return UUID(int=int(moment.timestamp() * 1000) << 80)


# A page that holds rows of seven actors is read seven times, once for each.
TOUCHED_PAGES: Final = """
SELECT count(DISTINCT (actor_id, page)), count(DISTINCT page)
FROM (SELECT actor_id, (ctid::text::point)[0] AS page FROM {table}) AS placed
"""


def scatter(model: Any) -> float:
    """Return how many pages searches of all actors would touch, in sizes of the table: 1 is perfect."""
    table = connection.ops.quote_name(model._meta.db_table)
    with connection.cursor() as cursor:
        cursor.execute(TOUCHED_PAGES.format(table=table))
        touched, pages = cursor.fetchone()
    return float(touched / pages) if pages else 1.0
