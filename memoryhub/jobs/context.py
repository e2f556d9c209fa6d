"""The context of a running job, which its function is called with.

Nothing that a function writes counts unless the job is still its own: writes go through `finish` or `step`, which
hold the job's row under the fencing token until they are committed.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from django.db import DatabaseError, connection, transaction

from memoryhub.jobs import sql

Writes = Callable[[], object]


class LeaseLost(Exception):
    """The job is somebody else's by now, or was erased; what was worked out must not be written."""


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
    def step(
        self, *, cursor: Any = None, done: int | None = None, total: int | None = None
    ) -> Iterator[None]:
        """Write a part of long work: its effects, where to go on after a break, and how far it has come, or nothing.

        Renews the lease. Raises LeaseLost, before the effects and so without them.
        """
        with transaction.atomic():
            self._hold()
            yield
            values = {
                "id": self.id,
                "cursor": None if cursor is None else json.dumps(cursor),
                "done": done,
                "total": total,
                "lease_seconds": self.lease_seconds,
            }
            _execute(sql.NOTE_STEP, values)
        self.cursor = cursor

    def finish(self, writes: Writes | None) -> None:
        """Write the work's effects and that it is done, as one. Raises LeaseLost, and nothing is written."""
        if writes is not None:
            with transaction.atomic():
                self._hold()
                writes()
                _execute(sql.FINISH_HELD, self.fence)
        elif not _execute(sql.FINISH, self.fence):
            raise LeaseLost(f"{self.id} is not this worker's any more.")

    def renew(self) -> bool:
        """Say that somebody still works on it; False where it is lost."""
        return bool(_execute(sql.RENEW, {**self.fence, "lease_seconds": self.lease_seconds}))

    def _hold(self) -> None:
        if self.actor_id is not None:
            _execute(sql.HOLD_ACTOR, {"actor": self.actor_id})
        if not _execute(sql.FENCE, self.fence):
            raise LeaseLost(f"{self.id} is not this worker's any more.")


class LeaseRenewal:
    """Renews a job's lease from a thread of its own while the work goes on, until the attempt's deadline.

    A process that is stopped or stuck in the kernel renews nothing, which is the point of a lease.
    """

    def __init__(self, job: JobContext) -> None:
        self._job = job
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="renewal", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _renew(self) -> None:
        try:
            while not self._over.wait(self._job.lease_seconds / 3) and self._job.seconds_left:
                if not self._renewed():
                    return
        finally:
            connection.close()

    def _renewed(self) -> bool:
        try:
            return self._job.renew()
        except DatabaseError:
            connection.close()
            return True  # the next one may get through; if none does, the lease runs out


def _execute(statement: str, values: dict[str, Any]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return int(cursor.rowcount)
