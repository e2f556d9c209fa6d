"""Throttling by key: calls of the last minute, counted together by all web processes of a host."""

import fcntl
import os
import time
from array import array
from collections import defaultdict
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from memoryhub.auth.principals import Principal
from memoryhub.env import private_folder

if TYPE_CHECKING:
    from rest_framework.views import APIView

WINDOW_SECONDS: Final = 60
WINDOW_BYTES: Final = 8 * (WINDOW_SECONDS + 1)
"""Size of a window: a count for each second, and the number of the latest second."""

MAX_CLOCK_SKEW_SECONDS: Final = 3_600
"""A window further in the future is reset; it would lock a key out until then."""


class Window:
    """Sliding window of calls: counts for the latest second with a call and the 59 before it."""

    def __init__(self, numbers: bytes = b"") -> None:
        """Restore a window from its bytes; an empty one where they are incomplete."""
        self._numbers = array("q", numbers if len(numbers) == WINDOW_BYTES else bytes(WINDOW_BYTES))

    def __bytes__(self) -> bytes:
        return self._numbers.tobytes()

    def count(self, now: float, limit: int) -> float:
        """Count a call and return 0; after `limit` calls in the last minute, return the seconds to wait instead."""
        *calls, latest = self._numbers
        if latest > now + MAX_CLOCK_SKEW_SECONDS:
            calls, latest = [0] * WINDOW_SECONDS, 0
        second = max(int(now), latest)  # a clock that was set back must not reset counts
        for stale_second in range(max(latest + 1, second - WINDOW_SECONDS + 1), second + 1):
            calls[stale_second % WINDOW_SECONDS] = 0
        wait = 0.0
        if sum(calls) < limit:
            calls[second % WINDOW_SECONDS] += 1
        else:
            window = range(second - WINDOW_SECONDS + 1, second + 1)
            oldest = next(counted for counted in window if calls[counted % WINDOW_SECONDS])
            wait = max(oldest + WINDOW_SECONDS - now, 0.001)
        self._numbers = array("q", [*calls, second])
        return wait


class CallCounter:
    """Windows of several callers; processes with the same `folder` share them."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._lock = folder, Lock()
        self._windows = defaultdict[str, Window](Window)
        if folder is not None:
            private_folder(private_folder(folder.parent) / folder.name)

    def count(self, caller: str, *, now: float, limit: int) -> float:
        """As `Window.count`. `caller` is the name of a file where there is a folder."""
        if self._folder is None:
            with self._lock:
                return self._windows[caller].count(now, limit)
        descriptor = os.open(self._folder / caller, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            window = Window(os.read(descriptor, WINDOW_BYTES))
            wait = window.count(now, limit)
            os.pwrite(descriptor, bytes(window), 0)
        finally:
            os.close(descriptor)
        return wait


@cache
def call_counter() -> CallCounter:
    """Return the counter of this process, or of all that serve the web."""
    environment = settings.ENVIRONMENT
    folder = environment.shared_folder if environment.is_web else None
    return CallCounter(folder and folder / "calls")


class KeyRateThrottle(SimpleRateThrottle):
    """Rate limit per key and minute; 429 with `Retry-After` beyond it."""

    scope = "key"

    def allow_request(self, request: Request, view: "APIView | None") -> bool:
        """Count the call. Calls without a key have no limit here, for they are refused anyway."""
        principal: object = request.user
        if not isinstance(principal, Principal):
            return True
        limit, _duration = self.parse_rate(self.rate)
        self._seconds = call_counter().count(str(principal.pk), now=time.monotonic(), limit=limit or 0)
        return not self._seconds

    def wait(self) -> float:
        return self._seconds
