"""Try a remote call a few times inside one deadline; the vendors' own retries are switched off.

The SDKs would wait 600 s an attempt, twice, and obey any `Retry-After`. Here the whole call has one deadline,
and whoever asks us to wait longer than is left gets no second attempt: the caller learns the wait instead.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from memoryhub.providers.errors import ProviderError, ProviderTimeout

Answer = TypeVar("Answer")

FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 10.0
"""Longest `Retry-After` that is waited for in place; a job can wait longer, a thread should not."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much one call may cost in time."""

    deadline_seconds: float
    attempt_timeout_seconds: float
    attempts: int = 3


@dataclass(frozen=True, slots=True)
class Clock:
    """Monotonic time and sleeping, replaceable in tests."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def call_within(budget: Budget, attempt: Callable[[float], Answer], clock: Clock) -> Answer:
    """Return what `attempt(timeout_seconds)` returns, repeating it while that may help.

    Repeated are errors that are not permanent and not a bad answer's fault. Raises the last ProviderError.
    """
    ends_at = clock.now() + budget.deadline_seconds
    for number in range(budget.attempts):
        remaining = ends_at - clock.now()
        if remaining <= 0:
            break
        try:
            return attempt(min(budget.attempt_timeout_seconds, remaining))
        except ProviderError as error:
            pause = _pause_seconds(error, number)
            is_last = number + 1 == budget.attempts
            if error.permanent or is_last or pause > min(MAX_PAUSE_SECONDS, ends_at - clock.now()):
                raise
        clock.sleep(pause)
    raise ProviderTimeout("The provider did not answer before the deadline.", code="timeout")


def _pause_seconds(error: ProviderError, number: int) -> float:
    if error.retry_after_seconds is not None:
        return error.retry_after_seconds
    return FIRST_PAUSE_SECONDS * float(2**number)
