"""Try a remote call a few times inside one deadline; the vendors' own retries are switched off.

The SDKs would wait 600 s an attempt, twice, and obey any `Retry-After`. Here the whole call has one deadline,
and whoever asks us to wait longer than is left gets no second attempt: the caller learns the wait instead.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from memoryhub.llm.errors import BadAnswer, ProviderError, ProviderTimeout

Answer = TypeVar("Answer")

OnFailed = Callable[[ProviderError, float], None]
"""Called after a failed attempt that another one follows: with its error, and the seconds until that one begins."""


def ignore_failure(error: ProviderError, pause_seconds: float) -> None: ...


FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 10.0
"""Longest `Retry-After` that is waited for in place; a job can wait longer, a thread should not."""
MAX_BAD_ANSWERS = 2
"""An answer that cannot be used was paid for; asking a third time seldom brings a better one."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Time limits of one call."""

    deadline_seconds: float
    attempt_timeout_seconds: float
    attempts: int = 3


@dataclass(frozen=True, slots=True)
class Clock:
    """Monotonic time and sleeping, replaceable in tests."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    sleep_in_loop: Callable[[float], Awaitable[None]] = asyncio.sleep


def call_within(
    budget: Budget, attempt: Callable[[float], Answer], clock: Clock, on_failed: OnFailed = ignore_failure
) -> Answer:
    """Return what `attempt(timeout_seconds)` returns, repeating it while that may help.

    Repeated are errors that are not permanent, a bad answer only once. Raises the last ProviderError.
    """
    ends_at = clock.now() + budget.deadline_seconds
    for number in range(budget.attempts):
        remaining = ends_at - clock.now()
        if remaining <= 0:
            break
        try:
            return attempt(min(budget.attempt_timeout_seconds, remaining))
        except ProviderError as error:
            pause = pause_after(error, number=number, budget=budget, seconds_left=ends_at - clock.now())
            if pause is None:
                raise
            on_failed(error, pause)
        clock.sleep(pause)
    raise deadline_passed()


def pause_after(error: ProviderError, *, number: int, budget: Budget, seconds_left: float) -> float | None:
    """Return how long to wait after attempt `number` (from 0) failed; None where no other attempt may follow."""
    attempts = min(budget.attempts, MAX_BAD_ANSWERS) if isinstance(error, BadAnswer) else budget.attempts
    pause = error.retry_after_seconds
    if pause is None:
        pause = FIRST_PAUSE_SECONDS * float(2**number)
    if error.permanent or number + 1 >= attempts or pause > min(MAX_PAUSE_SECONDS, seconds_left):
        return None
    return pause


def deadline_passed() -> ProviderTimeout:
    return ProviderTimeout("The provider did not answer before the deadline.", code="timeout")
