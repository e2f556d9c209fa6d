"""Formulas of strength: initial value, growth by use, decay, the decay clock, and its history (SPEC S1-S4, M9). Pure.

`strength.sql` renders the same formulas for the database; one parity test feeds both the same cases.
`docs/algorithm.md` explains each with an example.

An actor's clock spares writing every memory each night. A memory that was put on the clock at `then` keeps e to the
power of `now - then`, by its level. Nights under different policies add up: each advances the clock by what its own
policy takes.

The history of a strength stores one row for each kind of event and day. Decay in between is computed: each point holds
the memory's `faded` at the time, and the loss is spread over the nights between two points.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Final

from strength.domain.memories import Source
from strength.domain.policy import LEVELS, StrengthPolicy

SECONDS_PER_DAY: Final = 86_400.0

MOST_LOST: Final = 200.0
"""The greatest decay of one step, as a logarithm: e^-200 is practically nothing."""

NOTHING: Final = 1e-200
"""Weaker is 0. Both bounds keep products within the range of floats, outside which PostgreSQL raises errors."""


class Impact(StrEnum):
    USER_POSITIVE = "user_positive"
    TASK_SUCCESS = "task_success"
    PREVENTED_ERROR = "prevented_error"


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a memory that use and sleep change; `faded` is the logarithm of the product of its decays."""

    strength: float
    access_count: int = 0
    impact_score: float = 0.0
    consolidation_level: int = 0
    faded: float = 0.0


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


def days_of_decay(policy: StrengthPolicy, *, elapsed_seconds: float, tasks: int) -> float:
    """Return the days of decay, by the `task` clock the equivalent of completed tasks; never negative."""
    if policy.decay_clock == "task":
        return max(0, tasks) / policy.expected_tasks_per_day
    return max(0.0, elapsed_seconds) / SECONDS_PER_DAY


def decayed(numbers: Numbers, policy: StrengthPolicy, *, days: float) -> Numbers:
    """Return the numbers after so many days without use: `target ** days` of the strength, and a refreshed level.

    Decays by the level that it had until now. Two decays over half the days equal one over all.
    """
    lost = days * math.log(policy.decay_targets[numbers.consolidation_level])
    level = consolidation_level(numbers.access_count, policy.consolidation_thresholds)
    strength, faded = left_of(numbers.strength, lost), numbers.faded + lost
    return replace(numbers, strength=strength, consolidation_level=level, faded=faded)


def perspective_strength(stored: float, *, faded_then: float, faded_now: float) -> float:
    return left_of(stored, faded_now - faded_then)


def left_of(strength: float, logarithm: float) -> float:
    """Return a strength times e to the power of a logarithm, within the range of floats."""
    if strength < NOTHING:
        return 0.0
    return strength * math.exp(max(-MOST_LOST, min(MOST_LOST, logarithm)))


def new_clock() -> list[float]:
    return [0.0] * LEVELS


@dataclass(frozen=True, slots=True)
class Clock:
    """A decay clock: the logarithm of the share that is left, by level; its moment, and its count of tasks."""

    left: Sequence[float]
    at: datetime | None = None
    tasks: int = 0

    def moved(self, policy: StrengthPolicy, *, now: datetime, tasks: int) -> "Clock":
        """Return the clock advanced to a moment; a new one begins there. It never goes back."""
        since = self.at or now
        days = days_of_decay(policy, elapsed_seconds=(now - since).total_seconds(), tasks=tasks - self.tasks)
        days = 0.0 if self.at is None else days
        left = [
            at + days * math.log(target) for at, target in zip(self.left, policy.decay_targets, strict=True)
        ]
        return Clock(left, max(since, now), tasks)


def faded_by(clock: Sequence[float], *, level: int, then: float) -> float:
    """Return the logarithm of what is left of what was put on the clock at `then`; 0 until the clock reaches it."""
    return min(0.0, clock[level] - then)


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
    """A memory's strength after an event, and before the first event of the same kind on that day."""

    at: datetime
    kind: PointKind
    strength: float
    before: float
    faded: float
    level: int
    times: int = 1
    began_at: datetime | None = None
    """When the first event of the kind was, where that is known; `faded_before` is the memory's `faded` then."""
    faded_before: float | None = None

    @property
    def beginning(self) -> datetime:
        return self.at if self.began_at is None else self.began_at

    @property
    def born(self) -> float:
        """Return the memory's initial strength, if this is its first event."""
        faded = self.faded if self.faded_before is None else self.faded_before
        return left_of(self.before, -faded)


def curve(
    kept: Iterable[Point],
    *,
    created_at: datetime,
    now: datetime,
    strength: float,
    faded: float,
    level: int,
    nights: Sequence[datetime],
) -> list[Point]:
    """Return a memory's points until now, with nights between; `strength`, `faded` and `level` are the current ones."""
    events = sorted(kept, key=lambda point: point.at)
    end = Point(now, PointKind.NOW, strength, strength, faded, level)
    # A repeated event may have begun before one that ended before it.
    born = min(events, key=lambda point: point.beginning, default=end).born
    whole = [Point(created_at, PointKind.CREATED, born, born, 0.0, 0), *events, end]
    points = []
    for earlier, later in pairwise(whole):
        points.append(earlier)
        within = [night for night in nights if earlier.at < night <= later.at]
        lost = later.faded - earlier.faded
        for night in within if lost else []:  # each takes its share of the loss, by its length
            faded = lost * ((night - earlier.at) / (within[-1] - earlier.at))
            left = left_of(earlier.strength, faded)
            points.append(Point(night, PointKind.SLEPT, left, left, earlier.faded + faded, earlier.level))
    return [*points, end]
