"""Signs of life that the processes of one worker give each other, in memory they share since their fork.

Times are of the monotonic clock. Nothing here has a lock: a process that is killed while it holds one would take
the others with it, which is just what these values are there to notice.
"""

import time
from multiprocessing.sharedctypes import RawValue
from typing import Final
from uuid import UUID

from memoryhub.ids import new_id


class Heartbeats:
    """When each of a worker's processes last showed itself, and how many tasks went in and came out."""

    def __init__(self) -> None:
        self.worker_id: UUID = new_id()
        self.fetched = RawValue("d", 0.0)
        self.worked = RawValue("d", 0.0)
        self.answered = RawValue("d", 0.0)
        self.taken = RawValue("L", 0)
        self.finished = RawValue("L", 0)
        self.stopping = RawValue("B", 0)

    @property
    def in_hand(self) -> int:
        """How many jobs were taken out of the queue and are not finished."""
        return int(self.taken.value - self.finished.value)


_current: Final = [Heartbeats()]


def begin() -> Heartbeats:
    """Start a worker in this process, before it forks its others."""
    _current[0] = Heartbeats()
    return _current[0]


def heartbeats() -> Heartbeats:
    """Return the signs of life of this process's worker."""
    return _current[0]


def worker_id() -> UUID:
    """Return the id of this process's worker."""
    return _current[0].worker_id


def beat(value: object) -> None:
    """Note that a process is at work now."""
    value.value = time.monotonic()  # type: ignore[attr-defined]
