"""Turns of callers in one process: how many requests of a caller run at once, and which waiting request is next.

Each running request needs about one database connection and a share of the interpreter. Without turns, a caller with
many or slow requests would take both from all others. While several callers are active, fewer requests of each run: a
short one has to wait for the interpreter behind all that compute.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

ACTIVE_SECONDS: Final = 1.0
"""A caller counts as active for so long after its last request began or ended."""


class TooManyRequests(Exception):
    """As many requests of a caller wait as may."""


class Turns:
    """Places for running requests, given to waiting callers by turns.

    `places` requests run at once, `each` of one caller; several active ones divide them. `waiting` more may wait.
    """

    def __init__(self, *, places: int, each: int, waiting: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.each, self.waiting = each, waiting
        self._clock = clock
        self._active: dict[str, float] = {}  # when each was last seen, the latest last
        self._free = max(places, each)
        self._lock = threading.Lock()
        self._running = Counter[str]()
        self._queues: dict[str, deque[threading.Event]] = {}  # first the caller that has waited longest for a turn

    def take(self, caller: str, *, again: bool = False) -> None:
        """Wait for a place. Raises TooManyRequests, except for a request that gave its place back and goes on."""
        place = threading.Event()
        with self._lock:
            self._note(caller)
            queue = self._queues.setdefault(caller, deque())
            queue.append(place)
            self._fill()
            if len(queue) > self.waiting and not again:
                queue.pop()
                raise TooManyRequests
        place.wait()

    def give_back(self, caller: str) -> None:
        with self._lock:
            self._free += 1
            self._running[caller] -= 1
            self._running += Counter()  # drops zeros
            self._note(caller)
            self._fill()

    def _note(self, caller: str) -> None:
        """Note that a caller is active, and forget who was long ago."""
        now = self._clock()
        self._active.pop(caller, None)
        self._active[caller] = now
        while self._active[first := next(iter(self._active))] < now - ACTIVE_SECONDS:
            del self._active[first]

    def _share(self) -> int:
        return max(1, self.each // len(self._active.keys() | self._running.keys()))

    def _fill(self) -> None:
        """Give free places to callers below their limit, first to the one of which fewest requests run."""
        share = self._share()
        while self._free:
            waiting = [caller for caller in self._queues if self._running[caller] < share]
            if not waiting:
                return
            caller = min(waiting, key=self._running.__getitem__)
            queue = self._queues.pop(caller)
            queue.popleft().set()
            if queue:
                self._queues[caller] = queue  # behind the others
            self._free -= 1
            self._running[caller] += 1
