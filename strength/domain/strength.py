"""Formulas of strength: initial value, growth by use, decay, the decay clock, and its history (SPEC S1-S4, M9). Pure.

`strength.sql` renders the same formulas for the database; one parity test feeds both the same cases.
`docs/algorithm.md` explains each with an example.

A strength is stored with the clock's reading at that time, its mark; it decays by what the actor's clock has advanced
since, at the memory's level. A sleep advances the clock and writes no memory. A memory that begins to fade between two
sleeps is marked ahead of the clock, and does not decay until the clock is there; one that does not fade has a mark that
no clock reaches.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Final

from strength.domain.memories import Source
from strength.domain.policy import LEVELS, StrengthPolicy

SECONDS_PER_DAY: Final = 86_400.0

MAX_LOG_DECAY: Final = 200.0
"""Greatest decay of one step, as a logarithm; e^-200 is practically 0."""

MIN_STRENGTH: Final = 1e-200
"""Less is 0. Both bounds keep products within the range of floats, outside which PostgreSQL raises errors."""

MAX_FORECAST_DAYS: Final = 36_500.0

NO_DECAY: Final = -math.inf
"""Mark of a memory that does not fade."""


class Impact(StrEnum):
    USER_POSITIVE = "user_positive"
    TASK_SUCCESS = "task_success"
    PREVENTED_ERROR = "prevented_error"


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a memory that use and sleep change."""

    strength: float
    access_count: int = 0
    impact_score: float = 0.0
    consolidation_level: int = 0


def initial_strength(policy: StrengthPolicy, *, source: Source, stated: float | None) -> float:
    if stated is not None:
        return stated
    return policy.initial_strength_education if source is Source.EDUCATION else policy.initial_strength


def consolidation_level(access_count: int, thresholds: Sequence[int]) -> int:
    """Return the level 0–5: how many thresholds above the first the uses have reached."""
    return bisect_right(thresholds, access_count) - 1


def used(numbers: Numbers, policy: StrengthPolicy) -> Numbers:
    uses = numbers.access_count + 1
    level = consolidation_level(uses, policy.consolidation_thresholds)
    strength = numbers.strength + policy.strength_increment_on_use
    return replace(numbers, strength=strength, access_count=uses, consolidation_level=level)


def impacted(numbers: Numbers, policy: StrengthPolicy, impact: Impact) -> Numbers:
    """Return the numbers after an impact: the score grows by its value, the strength by a share of it (SPEC S3)."""
    value = impact_value(policy, impact)
    strength = numbers.strength + value * policy.impact_to_strength_ratio
    return replace(numbers, strength=strength, impact_score=numbers.impact_score + value)


def impact_value(policy: StrengthPolicy, impact: Impact) -> float:
    return {
        Impact.USER_POSITIVE: policy.impact_user_positive,
        Impact.TASK_SUCCESS: policy.impact_task_success,
        Impact.PREVENTED_ERROR: policy.impact_prevented_error,
    }[impact]


def strength_now(strength: float, *, mark: float, clock: float) -> float:
    """Return a strength stored with a mark, decayed to the reading `clock` of its level."""
    if strength < MIN_STRENGTH:
        return 0.0
    return strength * math.exp(max(-MAX_LOG_DECAY, min(0.0, clock - mark)))


def threshold_time(threshold: float, *, strength: float, mark: float, level: int, clock: "Clock") -> datetime | None:
    """Return the time at which a strength stored with a mark will have decayed to a threshold.

    None if it never will, or if the clock counts tasks, which have no date.
    """
    rate = clock.rates[level]
    if clock.by_task or clock.at is None or rate >= 0 or mark == NO_DECAY or threshold < MIN_STRENGTH:
        return None
    if strength <= threshold:
        return clock.at
    days = (mark + math.log(threshold / strength) - clock.log_factors[level]) / rate
    return clock.at + timedelta(days=min(max(0.0, days), MAX_FORECAST_DAYS))


def new_clock() -> list[float]:
    return [0.0] * LEVELS


@dataclass(frozen=True, slots=True)
class Clock:
    """A decay clock: by level the logarithm of the cumulative decay factor, at a time and a count of tasks.

    `rates` is its change per day or, `by_task`, per task. The interval between two sleeps has the rates of the sleep
    that ends it: if they differ, marks ahead of the clock are recomputed.
    """

    log_factors: tuple[float, ...] = (0.0,) * LEVELS
    at: datetime | None = None
    tasks: int = 0
    rates: tuple[float, ...] = (0.0,) * LEVELS
    by_task: bool = False

    def mark(self, level: int, *, at: datetime, tasks: int) -> float:
        """Return a level's reading at a time and count of tasks; a clock never goes back."""
        return self.log_factors[level] + self.rates[level] * self._elapsed(at, tasks)

    def _elapsed(self, at: datetime, tasks: int) -> float:
        if self.by_task:
            return float(max(0, tasks - self.tasks))
        return max(0.0, (at - (self.at or at)).total_seconds()) / SECONDS_PER_DAY

    def advanced(self, *, at: datetime, tasks: int) -> "Clock":
        elapsed = self._elapsed(at, tasks)
        log_factors = tuple(each + rate * elapsed for each, rate in zip(self.log_factors, self.rates, strict=True))
        return replace(self, log_factors=log_factors, at=max(self.at or at, at), tasks=tasks)

    def with_rates(self, policy: StrengthPolicy) -> "Clock":
        return replace(self, rates=policy.rates, by_task=policy.decay_clock == "task")


class PointKind(StrEnum):
    """Kinds of events; `created`, `slept` and `now` are computed, the others stored."""

    CREATED = "created"
    USED = "used"
    IMPACT = "impact"
    SET = "set"
    SLEPT = "slept"
    NOW = "now"


@dataclass(frozen=True, slots=True)
class Point:
    """A memory's strength after an event, and before the first event of the same kind on that day.

    `mark` is None if the memory does not fade afterwards, or if that is unknown.
    """

    at: datetime
    kind: PointKind
    strength: float
    before: float
    mark: float | None
    level: int
    times: int = 1


def curve(
    stored: Iterable[Point], *, created: Point, now: Point, nights: Sequence[tuple[datetime, Sequence[float]]]
) -> list[Point]:
    """Return a memory's points from its creation until now; `nights` are times and clock readings of sleeps."""
    points = []
    for earlier, later in pairwise([created, *sorted(stored, key=lambda point: point.at), now]):
        points.append(earlier)
        mark = NO_DECAY if earlier.mark is None else earlier.mark
        for night, clock in nights:
            if earlier.at < night <= later.at and clock[earlier.level] < mark:
                strength = strength_now(earlier.strength, mark=mark, clock=clock[earlier.level])
                point = replace(earlier, at=night, kind=PointKind.SLEPT, strength=strength, before=strength, times=1)
                points.append(point)
    return [*points, now]
