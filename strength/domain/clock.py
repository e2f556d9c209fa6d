"""An actor's clock of fading: what nobody touches is not written every night, but read by it; pure (SPEC S4, S5).

Of a memory that was put on the clock at `then`, e to the power of `now - then` is left, by its level. Nights of
different policies add up, for each moves the clock on by what its own policy takes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from strength.domain.policy import LEVELS, StrengthPolicy
from strength.domain.strength import days_of_decay


def standing() -> list[float]:
    """Return a clock that has not moved yet."""
    return [0.0] * LEVELS


@dataclass(frozen=True, slots=True)
class Clock:
    """Where a clock stands: the logarithm of what is left, by level; at which moment, and after how many tasks."""

    left: Sequence[float]
    at: datetime | None = None
    tasks: int = 0

    def moved(self, policy: StrengthPolicy, *, now: datetime, tasks: int) -> "Clock":
        """Return the clock moved on to a moment; one that never moved begins there. It never goes back."""
        since = self.at or now
        days = days_of_decay(policy, elapsed_seconds=(now - since).total_seconds(), tasks=tasks - self.tasks)
        days = 0.0 if self.at is None else days
        left = [
            at + days * math.log(target) for at, target in zip(self.left, policy.decay_targets, strict=True)
        ]
        return Clock(left, max(since, now), tasks)


def faded_by(clock: Sequence[float], *, level: int, then: float) -> float:
    """Return the logarithm of what is left of what was put on the clock at `then`.

    Nothing is lost before the clock gets there: a night puts memories on it before it moves it, slice by slice.
    """
    return min(0.0, clock[level] - then)
