"""Turns of callers in one process: how many requests of a caller run at once, and which waiting request is next.

Each running request needs about one database connection and a share of the interpreter. Without turns, a caller with
many or slow requests would take both from all others. While several callers are active, fewer requests of each run, and
a caller that took much of the processor pauses: a short request has to wait for the interpreter behind all that
compute.
"""

import mmap
import threading
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

ACTIVE_SECONDS: Final = 1.0
"""A caller counts as active for so long after its key was accepted: a stranger must not slow those who have one."""

PACE: Final = 0.25
"""Seconds of the processor that a caller's requests may take in each second, in the long run, while others are active.
"""

BURST: Final = 0.25
"""Seconds that they may take at once beyond that."""

MAX_DEBT: Final = 0.5
"""So that a caller that was alone before pauses for a second at most."""

SLOTS: Final = 256
BYTES_OF_TIME: Final = 8


class Activity:
    """Note when callers were last seen, in memory that the processes forked from this one share.

    Callers share SLOTS by their names, so that of very many active ones fewer are counted.
    """

    def __init__(self) -> None:
        self._times = memoryview(mmap.mmap(-1, SLOTS * BYTES_OF_TIME)).cast("d")

    def note(self, caller: str, now: float) -> None:
        self._times[zlib.crc32(caller.encode()) % SLOTS] = now

    def count(self, now: float) -> int:
        return sum(at > now - ACTIVE_SECONDS for at in self._times)


OF_SERVER: Final = Activity()


class TooManyRequests(Exception):
    """As many requests of a caller wait as may."""


class Turns:
    """Places for running requests, given to waiting callers by turns.

    `places` requests run at once, `each` of one caller; several active ones divide them. `waiting` more may wait. The
    debt of a caller is the processor time of its requests, less PACE of the time that has passed.
    """

    def __init__(
        self, *, places: int, each: int, waiting: int,
        clock: Callable[[], float] = time.monotonic, worked: Callable[[], float] = time.thread_time,
        activity: Activity = OF_SERVER,
    ) -> None:  # fmt: skip
        self.each, self.waiting, self.activity = each, waiting, activity
        self._clock, self._worked = clock, worked
        self._debts: dict[str, tuple[float, float]] = {}  # seconds, and when they were counted, the latest last
        self._free = max(places, each)
        self._lock = threading.Lock()
        self._running = Counter[str]()
        self._queues: dict[str, deque[threading.Event]] = {}  # first the caller that has waited longest for a turn
        self._timer: threading.Timer | None = None

    def take(self, caller: str, *, again: bool = False) -> float:
        """Wait for a place; return the thread's processor time at which it was taken.

        Raises TooManyRequests, except for a request that gave its place back and goes on.
        """
        place = threading.Event()
        with self._lock:
            queue = self._queues.setdefault(caller, deque())
            queue.append(place)
            self._fill()
            if len(queue) > self.waiting and not again:
                queue.pop()
                raise TooManyRequests
        place.wait()
        return self._worked()

    def give_back(self, caller: str, since: float) -> None:
        """Give back a place that this thread took at `since`."""
        with self._lock:
            self._owe(caller, self._worked() - since)
            self._free += 1
            self._running[caller] -= 1
            self._running += Counter()  # drops zeros
            self._fill()

    def note(self, caller: str) -> None:
        """Count a caller as active for ACTIVE_SECONDS; called once its key is accepted."""
        self.activity.note(caller, self._clock())

    def pause(self, caller: str) -> float:
        """Return the seconds for which a caller is to send no large body; 0 where no other caller is active."""
        with self._lock:
            return self._pause(caller) if self._callers() > 1 else 0.0

    def charge(self, caller: str, seconds: float) -> None:
        """Add to a caller's debt what its request costs outside its turn."""
        with self._lock:
            self._owe(caller, seconds)

    def _owe(self, caller: str, seconds: float) -> None:
        """Add to a caller's debt, and forget debts that are paid."""
        now = self._clock()
        debt = min(self._debt(caller, now) + seconds, MAX_DEBT)
        self._debts.pop(caller, None)
        self._debts[caller] = debt, now
        while self._debts[first := next(iter(self._debts))][1] < now - MAX_DEBT / PACE:
            del self._debts[first]

    def _callers(self) -> int:
        """Return how many callers are active; those with a running request are, however long it takes."""
        return max(self.activity.count(self._clock()), len(self._running), 1)

    def _debt(self, caller: str, now: float) -> float:
        seconds, at = self._debts.get(caller, (0.0, now))
        return max(0.0, seconds - PACE * (now - at))

    def _pause(self, caller: str) -> float:
        """Return the seconds until a caller has run little enough for its next request."""
        return max(0.0, self._debt(caller, self._clock()) - BURST) / PACE

    def _fill(self) -> None:
        """Give free places to callers below their limit, first to the one of which fewest requests run."""
        callers = self._callers()
        share = max(1, self.each // callers)
        while self._free:
            below = [caller for caller in self._queues if self._running[caller] < share]
            pauses = {caller: self._pause(caller) if callers > 1 else 0.0 for caller in below}
            waiting = [caller for caller in below if not pauses[caller]]
            if not waiting:
                self._look_again(min(pauses.values(), default=0.0))
                return
            caller = min(waiting, key=self._running.__getitem__)
            queue = self._queues.pop(caller)
            queue.popleft().set()
            if queue:
                self._queues[caller] = queue  # behind the others
            self._free -= 1
            self._running[caller] += 1

    def _look_again(self, seconds: float) -> None:
        if seconds and self._timer is None:
            self._timer = threading.Timer(seconds, self._fill_later)
            self._timer.daemon = True
            self._timer.start()

    def _fill_later(self) -> None:
        with self._lock:
            self._timer = None
            self._fill()
