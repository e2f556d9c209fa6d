"""Throttling by key: calls of the last minute, counted together by all web processes of all hosts (ADR 61).

The processes of a host share files. Hosts exchange their sums by the database, once a second for each active key, after
the answer: no request waits for it.
"""

import fcntl
import logging
import math
import os
import socket
import time
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db import Error, connection
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from memoryhub.auth.models import MAX_HOST_LENGTH
from memoryhub.auth.principals import Principal
from memoryhub.db.pool import after_answer
from memoryhub.env import private_folder
from memoryhub.llm.usage.caps import TokenQuota

if TYPE_CHECKING:
    from rest_framework.views import APIView

log = logging.getLogger(__name__)

WINDOW_SECONDS: Final = 60
WINDOW_BYTES: Final = 8 * (WINDOW_SECONDS + 3)
"""Size of a window: a count for each second, the latest second, the sum of other hosts, the second of its exchange."""

MAX_CLOCK_SKEW_SECONDS: Final = 3_600
"""A window further in the future is reset; it would lock a key out until then."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Remaining calls of a caller; after `seconds` the oldest counted call leaves the window."""

    limit: int
    remaining: int
    seconds: float
    is_exceeded: bool = False
    is_exchange_due: bool = False

    @property
    def wait(self) -> float:
        """Return the seconds that a refused call has to wait; 0 for one that was let in."""
        return self.seconds if self.is_exceeded else 0.0

    @property
    def policy(self) -> str:
        """Return the item of the header `RateLimit-Policy`."""
        return f'"key";q={self.limit};w={WINDOW_SECONDS}'

    @property
    def state(self) -> str:
        """Return the item of the header `RateLimit`."""
        return f'"key";r={self.remaining};t={math.ceil(self.seconds)}'


def limit_headers(quotas: Sequence[Quota | TokenQuota]) -> dict[str, str]:
    """Return the fields of draft-ietf-httpapi-ratelimit-headers-10: structured fields (RFC 9651)."""
    if not quotas:
        return {}
    return {
        "RateLimit-Policy": ", ".join(quota.policy for quota in quotas),
        "RateLimit": ", ".join(quota.state for quota in quotas),
    }


class Window:
    """Sliding window of calls: counts for the latest second with a call and the 59 before it."""

    def __init__(self, numbers: bytes = b"") -> None:
        """Restore a window from its bytes; an empty one where they are incomplete."""
        self._numbers = array("q", numbers if len(numbers) == WINDOW_BYTES else bytes(WINDOW_BYTES))

    def __bytes__(self) -> bytes:
        return self._numbers.tobytes()

    def count(self, now: float, limit: int) -> Quota:
        """Count a call, unless there were `limit` calls in the last minute."""
        *calls, latest, others, exchanged = self._numbers
        if latest > now + MAX_CLOCK_SKEW_SECONDS:
            calls, latest, others, exchanged = [0] * WINDOW_SECONDS, 0, 0, 0
        second = max(int(now), latest)  # a clock that was set back must not reset counts
        for stale_second in range(max(latest + 1, second - WINDOW_SECONDS + 1), second + 1):
            calls[stale_second % WINDOW_SECONDS] = 0
        counted = sum(calls) + others
        is_exceeded = counted >= limit
        if not is_exceeded:
            calls[second % WINDOW_SECONDS] += 1
            counted += 1
        self._numbers = array("q", [*calls, second, others, second])
        window = range(second - WINDOW_SECONDS + 1, second + 1)
        oldest = next((each for each in window if calls[each % WINDOW_SECONDS]), second)
        seconds = max(oldest + WINDOW_SECONDS - now, 0.001)
        return Quota(limit, max(0, limit - counted), seconds, is_exceeded, is_exchange_due=exchanged != second)

    def exchange(self, others: int) -> None:
        """Take the sum of other hosts."""
        self._numbers[-2] = others

    @property
    def total(self) -> int:
        return sum(self._numbers[:WINDOW_SECONDS])


class CallCounter:
    """Windows of several callers; processes with the same `folder` share them."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._lock = folder, Lock()
        self._windows = defaultdict[str, Window](Window)
        if folder is not None:
            private_folder(private_folder(folder.parent) / folder.name)

    def count(self, caller: str, *, now: float, limit: int) -> Quota:
        """As `Window.count`. `caller` is the name of a file where there is a folder."""
        with self._window(caller) as window:
            return window.count(now, limit)

    def exchange(self, caller: str, *, host: str) -> None:
        """Store this host's sum for the others, and take theirs; without the database this host's calls count alone."""
        with self._window(caller) as window:
            total = window.total
        try:
            others = calls_of_other_hosts(caller, total, host=host)
        except Error as error:
            log.warning("calls at other hosts are not counted", extra={"error": type(error).__name__})
            others = 0
        with self._window(caller) as window:
            window.exchange(others)

    @contextmanager
    def _window(self, caller: str) -> Iterator[Window]:
        """Give a caller's window to change, alone."""
        if self._folder is None:
            with self._lock:
                yield self._windows[caller]
            return
        descriptor = os.open(self._folder / caller, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            window = Window(os.read(descriptor, WINDOW_BYTES))
            yield window
            os.pwrite(descriptor, bytes(window), 0)
        finally:
            os.close(descriptor)


EXCHANGE: Final = """
WITH own AS (
    INSERT INTO memoryhub_callsum (caller, host, calls, at) VALUES (%(caller)s, %(host)s, %(calls)s, now())
    ON CONFLICT (caller, host) DO UPDATE SET calls = excluded.calls, at = excluded.at
)
SELECT coalesce(sum(calls), 0) FROM memoryhub_callsum
WHERE caller = %(caller)s AND host <> %(host)s AND at > now() - make_interval(secs => %(seconds)s)
"""


def calls_of_other_hosts(caller: str, calls: int, *, host: str) -> int:
    """Store a host's calls of the last minute, and return the sum of those of others."""
    values: dict[str, str | int] = {"caller": caller, "host": host, "calls": calls, "seconds": WINDOW_SECONDS}
    with connection.cursor() as cursor:
        cursor.execute(EXCHANGE, values)
        return int(cursor.fetchone()[0])


def this_host() -> str:
    """Return a name that all web processes of this installation on this host have, and no other host."""
    environment = settings.ENVIRONMENT
    return f"{socket.gethostname()}:{environment.port}:{environment.data_dir}"[-MAX_HOST_LENGTH:]


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
        """Count the call and note `quota` on the request. Calls without a key are refused anyway and have no limit."""
        principal: object = request.user
        if not isinstance(principal, Principal):
            return True
        limit, _duration = self.parse_rate(self.rate)
        caller = str(principal.pk)
        self._quota = call_counter().count(caller, now=time.monotonic(), limit=limit or 0)
        if self._quota.is_exchange_due and settings.ENVIRONMENT.is_web:
            after_answer(partial(call_counter().exchange, caller, host=this_host()))
        request.quota = self._quota  # type: ignore[attr-defined]
        return not self._quota.is_exceeded

    def wait(self) -> float:
        return self._quota.wait
