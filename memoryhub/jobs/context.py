"""The context of a running job, which its function is called with, and the statements that move jobs.

Nothing that a function writes counts unless the job is still its own: writes go through `finish` or `step`, which
hold the job's row under the fencing token until they are committed.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.db import DatabaseError, connection, transaction

from memoryhub.prepared import prepared_cursor
from memoryhub.queries import load_queries

QUERIES: Final = load_queries(Path(__file__).with_name("queries.sql"))
Writes = Callable[[], object]


def query(name: str, /, *, server_prepared: bool = False, **values: Any) -> list[tuple[Any, ...]]:
    """Execute a statement of `queries.sql` and return its rows; none where it returns none.

    `server_prepared` as in `PreparedQuery`.
    """
    with prepared_cursor() if server_prepared else connection.cursor() as cursor:
        cursor.execute(QUERIES[name], values)
        return list(cursor.fetchall()) if cursor.description else []


class LeaseLost(Exception):
    """The job was taken over or erased; its results must not be written."""


@dataclass
class JobContext:
    """One claimed job. `worker` and `attempt` fence it; `cursor` is what the last `step` of any attempt left."""

    id: UUID
    kind: str
    worker: UUID
    actor_id: UUID | None
    key: str
    payload: Mapping[str, Any]
    attempt: int
    cursor: Any
    lease_seconds: int
    ends_at: float = field(repr=False)

    @property
    def fence(self) -> dict[str, Any]:
        return {"id": self.id, "attempt": self.attempt, "worker": self.worker}

    @property
    def seconds_left(self) -> float:
        """Seconds until this attempt's deadline; calls to others must be done by then."""
        return max(0.0, self.ends_at - time.monotonic())

    @contextmanager
    def step(self, *, cursor: Any = None, done: int | None = None, total: int | None = None) -> Iterator[None]:
        """Write a part of long work: its effects, where to go on after a break, and how far it has come, or nothing.

        Renews the lease. Raises LeaseLost, before the effects and so without them.
        """
        with transaction.atomic():
            self._hold()
            yield
            query(
                "note_step",
                id=self.id,
                cursor=None if cursor is None else json.dumps(cursor),
                done=done,
                total=total,
                lease_seconds=self.lease_seconds,
            )
        self.cursor = cursor

    def finish(self, writes: Writes | None) -> None:
        """Write the work's effects and that it is done, as one. Raises LeaseLost, and nothing is written."""
        if writes is not None:
            with transaction.atomic():
                self._hold()
                writes()
                query("finish_held", id=self.id)
        elif not query("finish", **self.fence):
            raise LeaseLost(f"{self.id} is not this worker's any more.")

    def renew(self) -> bool:
        return bool(query("renew", **self.fence, lease_seconds=self.lease_seconds))

    def _hold(self) -> None:
        if self.actor_id is not None:
            query("hold_actor", actor=self.actor_id)
        if not query("fence", **self.fence):
            raise LeaseLost(f"{self.id} is not this worker's any more.")


@contextmanager
def renew_lease(job: JobContext) -> Iterator[None]:
    """Renew a job's lease in a background thread, until the attempt's deadline.

    A process that is stopped or stuck in the kernel renews nothing, which is the point of a lease.
    """
    over = threading.Event()

    def renew() -> None:
        try:
            while not over.wait(job.lease_seconds / 3) and job.seconds_left:
                try:
                    if not job.renew():
                        return
                except DatabaseError:  # the next one may get through; if none does, the lease runs out
                    connection.close()
        finally:
            connection.close()

    thread = threading.Thread(target=renew, name="renewal", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
