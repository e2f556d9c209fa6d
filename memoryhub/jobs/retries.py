"""Rules of attempts, retries and schedules: pure, without Django or a clock.

Attempts are counted when a job is claimed, before any work. An attempt is excused afterwards if its error means that a
retry helps (a busy provider, a stopping worker). The others, by bugs, deadlines and lost workers, count: MAX_ATTEMPTS
of them end the job.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from typing import Final

MAX_ATTEMPTS: Final = 3
"""Attempts that may break (an error of ours, a deadline, a lost worker) before a job is dead."""

MAX_EXCUSED_FOR: Final = timedelta(days=3)
"""Longest time for which attempts are excused: longer than a provider's outage over a weekend."""

FIRST_PAUSE_SECONDS: Final = 2.0
MAX_PAUSE_SECONDS: Final = 600.0


class State(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    DEAD = "dead"


OPEN: Final = (State.QUEUED, State.RUNNING)
ENDED_BADLY: Final = (State.FAILED, State.DEAD)


class Postponed(Exception):
    """Raised by a job that must wait, without counting an attempt; the reason holds no user text.

    `seconds=0` is for a job that has made progress: the next attempt begins at once. Without progress a job must wait
    for some seconds, or it would be retried in a busy loop.
    """

    def __init__(self, reason: str, *, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


@dataclass(frozen=True)
class Attempts:
    """Number of attempts, of excused ones, and the time since the first of the latest excused ones in a row."""

    begun: int
    excused: int
    excused_for: timedelta

    @property
    def broken(self) -> int:
        return self.begun - self.excused


@dataclass(frozen=True)
class Outcome:
    """Next state of a job after a failed attempt; `pause_seconds` until it may be tried again."""

    state: State
    pause_seconds: float = 0.0
    is_excused: bool = False


def pause_seconds(attempts: int) -> float:
    """Return 2 s after the first attempt, twice as long after each further one, ten minutes at most."""
    return min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(max(0, attempts - 1), 20))


def after_excuse(attempts: Attempts, *, at_least_seconds: float | None = None, did_a_part: bool = False) -> Outcome:
    """Return the outcome of an error that a retry may solve; `at_least_seconds` is the provider's `Retry-After`.

    If the attempt `did_a_part` of its work, the next begins at once.
    """
    if attempts.excused_for > MAX_EXCUSED_FOR:
        return Outcome(State.DEAD)
    pause = 0.0 if did_a_part else max(at_least_seconds or 0.0, pause_seconds(attempts.begun))
    return Outcome(State.QUEUED, pause, is_excused=True)


def after_stop(attempts: Attempts) -> Outcome:
    """Return the outcome of an attempt that a stopping worker gave back: retried at once."""
    return Outcome(State.QUEUED, is_excused=True)


def after_breakdown(attempts: Attempts) -> Outcome:
    if attempts.broken >= MAX_ATTEMPTS:
        return Outcome(State.DEAD)
    return Outcome(State.QUEUED, pause_seconds(attempts.broken))


@dataclass(frozen=True)
class Every:
    """A schedule at multiples of `seconds` since 1970, independent of process starts."""

    seconds: int

    def following(self, moment: datetime) -> datetime:
        passed = math.floor(moment.timestamp() / self.seconds)
        return datetime.fromtimestamp((passed + 1) * self.seconds, UTC)

    @property
    def longest_gap(self) -> timedelta:
        return timedelta(seconds=self.seconds)


@dataclass(frozen=True)
class Daily:
    """A daily schedule at a time in UTC, which has no daylight saving."""

    at: time

    def following(self, moment: datetime) -> datetime:
        today = datetime.combine(moment.astimezone(UTC).date(), self.at, UTC)
        return today if today > moment else today + timedelta(days=1)

    @property
    def longest_gap(self) -> timedelta:
        return timedelta(days=1)


Recurrence = Every | Daily


def recurrence(*, every_seconds: int | None = None, daily_at: str | None = None) -> Recurrence:
    """Return the recurrence of a schedule. Raises ValueError without a valid argument."""
    if every_seconds is not None and every_seconds > 0:
        return Every(every_seconds)
    if daily_at is not None and (at := time.fromisoformat(daily_at)).tzinfo is None:
        return Daily(at)
    raise ValueError("A schedule says `every_seconds` (above 0) or `daily_at` (as 03:30, in UTC).")


@dataclass(frozen=True)
class Firing:
    is_due: bool
    next_at: datetime


def next_firing(schedule: Recurrence, *, next_at: datetime, now: datetime) -> Firing:
    """Decide whether a schedule is due. Missed times are made up for once, not once each.

    After the clock was set back, `next_at` may be further away than the schedule's longest gap; it is computed again
    then, and nothing is due.
    """
    is_due = next_at <= now
    is_lost = next_at - now > schedule.longest_gap
    return Firing(is_due, schedule.following(now) if is_due or is_lost else next_at)
