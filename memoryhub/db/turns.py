"""Turns of callers in one process: how many requests of a caller run at once, and which waiting request is next.

Each running request needs about one database connection and a share of the interpreter. Without turns, a caller with
many or slow requests would take both from all others.
"""

import threading
from collections import Counter, deque


class TooManyRequests(Exception):
    """As many requests of a caller wait as may."""


class Turns:
    """Places for running requests, given to waiting callers by turns.

    `places` requests run at once, `each` of one caller; `waiting` more of it may wait.
    """

    def __init__(self, *, places: int, each: int, waiting: int) -> None:
        self.each, self.waiting = each, waiting
        self._free = max(places, each)
        self._lock = threading.Lock()
        self._running = Counter[str]()
        self._queues: dict[str, deque[threading.Event]] = {}  # first the caller that has waited longest for a turn

    def take(self, caller: str, *, again: bool = False) -> None:
        """Wait for a place. Raises TooManyRequests, except for a request that gave its place back and goes on."""
        place = threading.Event()
        with self._lock:
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
            self._fill()

    def _fill(self) -> None:
        """Give free places to callers below their limit, first to the one of which fewest requests run."""
        while self._free:
            waiting = [caller for caller in self._queues if self._running[caller] < self.each]
            if not waiting:
                return
            caller = min(waiting, key=self._running.__getitem__)
            queue = self._queues.pop(caller)
            queue.popleft().set()
            if queue:
                self._queues[caller] = queue  # behind the others
            self._free -= 1
            self._running[caller] += 1
