"""Calls of each key in the last minute, counted by seconds, for one process of the web server or all of them.

It knows nothing of Django.
"""

import fcntl
import os
from array import array
from collections import defaultdict
from pathlib import Path
from threading import Lock
from typing import Final

SECONDS: Final = 60
BYTES: Final = 8 * (SECONDS + 1)
"""Of a window: a count for each second, and which second the latest is."""

MOST_AHEAD: Final = 3_600
"""Seconds. A clock that was further ahead would keep a key out until that time has come, be it years."""


class Window:
    """Calls by second: those of the latest second with any, and of the 59 before it."""

    def __init__(self, numbers: bytes = b"") -> None:
        """Make a window of the `numbers` of another; an empty one where they are not whole."""
        self._numbers = array("q", numbers if len(numbers) == BYTES else bytes(BYTES))

    def __bytes__(self) -> bytes:
        return self._numbers.tobytes()

    def count(self, now: float, most: int) -> float:
        """Count a call and return 0; where there were `most` in the last minute, return the seconds to wait instead."""
        *calls, latest = self._numbers
        if latest > now + MOST_AHEAD:
            calls, latest = [0] * SECONDS, 0
        second = max(int(now), latest)  # a clock that was set back forgets nothing
        for passed in range(max(latest + 1, second - SECONDS + 1), second + 1):
            calls[passed % SECONDS] = 0
        wait = 0.0
        if sum(calls) < most:
            calls[second % SECONDS] += 1
        else:
            oldest = next(each for each in range(second - SECONDS + 1, second + 1) if calls[each % SECONDS])
            wait = max(oldest + SECONDS - now, 0.001)
        self._numbers = array("q", [*calls, second])
        return wait


class CallCounter:
    """Windows of several callers; processes with the same `folder` share them."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._lock = folder, Lock()
        self._windows = defaultdict[str, Window](Window)
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def count(self, caller: str, *, now: float, most: int) -> float:
        """As `Window.count`. `caller` is the name of a file where there is a folder."""
        if self._folder is None:
            with self._lock:
                return self._windows[caller].count(now, most)
        descriptor = os.open(self._folder / caller, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            window = Window(os.read(descriptor, BYTES))
            wait = window.count(now, most)
            os.pwrite(descriptor, bytes(window), 0)
        finally:
            os.close(descriptor)
        return wait
