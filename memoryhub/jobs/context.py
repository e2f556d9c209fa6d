"""The context that a job's function is called with, and the SQL statements of the queue.

Writes are committed only while the worker still has the lease: they go through `finish` or `step`, which lock the job's
row under the fencing token.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.db import DatabaseError, connection, transaction

from memoryhub.db.prepared import prepared_cursor
from memoryhub.db.queries import load_queries

QUERIES: Final = load_queries(Path(__file__).with_name("queries.sql"))
Writes = Callable[[], object]


def query(name: str, /, *, server_prepared: bool = False, **values: Any) -> list[tuple[Any, ...]]:
    """Execute a statement of `queries.sql` and return its rows; none where it returns none.

    `server_prepared` as in `PreparedQuery`.
    """
    with prepared_cursor() if server_prepared else connection.cursor() as cursor:
        cursor.execute(QUERIES[name], values)
        return list(cursor.fetchall()) if cursor.description else []


KEY_ID: Final[ContextVar[UUID | None]] = ContextVar("key_id", default=None)
"""The API key that causes what is done now, by its request or by a job that it ordered."""


@contextmanager
def caused_by(key_id: UUID | None) -> Iterator[None]:
    """Count calls of models within the block for a key."""
    token = KEY_ID.set(key_id)
    try:
        yield
    finally:
        KEY_ID.reset(token)


class LeaseLost(Exception):
    """The job was taken over or erased; its results must not be written."""


@dataclass
class JobContext:
    """One claimed job. `worker` and `attempt` are its fencing token; `cursor` is that of the last `step`."""

    id: UUID
    kind: str
    worker: UUID
    actor_id: UUID | None
    key: str
    payload: Mapping[str, Any]
    order: Mapping[str, Any] | None
    attempt: int
    cursor: Any
    lease_seconds: int
    ends_at: float = field(repr=False)
    traceparent: str | None = None

    @property
    def fence(self) -> dict[str, Any]:
        return {"id": self.id, "attempt": self.attempt, "worker": self.worker}

    @property
    def key_id(self) -> UUID | None:
        """Return the API key that ordered the job; None if none did."""
        return UUID(self.order["id"]) if self.order and self.order["kind"] == "key" else None

    @property
    def seconds_left(self) -> float:
        """Seconds until this attempt's deadline, by which calls to providers must have ended."""
        return max(0.0, self.ends_at - time.monotonic())

    @contextmanager
    def step(
        self, *, cursor: Any = None, done: int | None = None, total: int | None = None, alone: bool = False
    ) -> Iterator[None]:
        """Commit a part of the work together with the cursor to continue from and the progress.

        Renews the lease. With `alone` no other writer of the actor runs beside it, which the body must not ask for
        later: two that hold the shared lock would wait for each other. Raises LeaseLost before the body runs.
        """
        with transaction.atomic():
            self._lock(alone=alone)
            yield
            query(
                "store_step",
                id=self.id,
                cursor=None if cursor is None else json.dumps(cursor),
                done=done,
                total=total,
                lease_seconds=self.lease_seconds,
            )
        self.cursor = cursor

    def finish(self, writes: Writes | None) -> None:
        """Commit the results and mark the job as done, atomically. Raises LeaseLost without writing anything."""
        if writes is not None:
            with transaction.atomic():
                self._lock()
                writes()
                query("finish_locked", id=self.id)
        elif not query("finish", **self.fence):
            raise LeaseLost(f"{self.id} is not this worker's any more.")

    def renew(self) -> bool:
        return bool(query("renew", **self.fence, lease_seconds=self.lease_seconds))

    def _lock(self, *, alone: bool = False) -> None:
        if self.actor_id is not None:
            query("lock_actor_alone" if alone else "lock_actor", actor=self.actor_id)
        if not query("fence", **self.fence):
            raise LeaseLost(f"{self.id} is not this worker's any more.")


@contextmanager
def renew_lease(job: JobContext) -> Iterator[None]:
    """Renew a job's lease in a background thread, until the attempt's deadline.

    A process that is stopped or stuck in the kernel does not renew it, so that the lease expires.
    """
    finished = threading.Event()

    def renew() -> None:
        try:
            while not finished.wait(job.lease_seconds / 3) and job.seconds_left:
                try:
                    if not job.renew():
                        return
                except DatabaseError:  # the next renewal may succeed; otherwise the lease expires
                    connection.close()
        finally:
            connection.close()

    thread = threading.Thread(target=renew, name="renewal", daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
