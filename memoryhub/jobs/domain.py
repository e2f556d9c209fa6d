"""Rules of attempts, retries and schedules: pure, without Django or a clock.

A job's attempts are counted when it is claimed, before any work. Afterwards an attempt may be excused, where it
ended in words that say a retry helps (a provider that was busy, a worker that was told to stop). What is left are
attempts that broke, or that nobody survived to explain; MAX_ATTEMPTS of those end the job.
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

    `seconds=0` is for whoever has kept a part of the work and would go on: the next attempt begins at once. A job that
    has got nowhere waits for some seconds, or it would be begun without end.
    """

    def __init__(self, reason: str, *, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


@dataclass(frozen=True)
class Attempts:
    """Number of attempts, how many were excused, and for how long excuses have followed each other."""

    begun: int
    excused: int
    excused_for: timedelta

    @property
    def broken(self) -> int:
        return self.begun - self.excused


@dataclass(frozen=True)
class Outcome:
    """Next state of a job whose attempt failed; `pause_seconds` until it may be tried again."""

    state: State
    pause_seconds: float = 0.0
    is_excused: bool = False


def pause_seconds(attempts: int) -> float:
    """Return 2 s after the first attempt, twice as long after each further one, ten minutes at most."""
    return min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(max(0, attempts - 1), 20))


def after_excuse(attempts: Attempts, *, at_least_seconds: float | None = None, did_a_part: bool = False) -> Outcome:
    """Judge an error that says a retry helps; `at_least_seconds` is how long the other side asked us to wait.

    Where the attempt `did_a_part` of its work, the next goes on at once.
    """
    if attempts.excused_for > MAX_EXCUSED_FOR:
        return Outcome(State.DEAD)
    pause = 0.0 if did_a_part else max(at_least_seconds or 0.0, pause_seconds(attempts.begun))
    return Outcome(State.QUEUED, pause, is_excused=True)


def after_stop(attempts: Attempts) -> Outcome:
    """Judge an attempt that a stopping worker returned: retried at once."""
    return Outcome(State.QUEUED, is_excused=True)


def after_breakdown(attempts: Attempts) -> Outcome:
    if attempts.broken >= MAX_ATTEMPTS:
        return Outcome(State.DEAD)
    return Outcome(State.QUEUED, pause_seconds(attempts.broken))


@dataclass(frozen=True)
class Every:
    """A schedule by the clock: each `seconds` since 1970, wherever a process was started."""

    seconds: int

    def following(self, moment: datetime) -> datetime:
        passed = math.floor(moment.timestamp() / self.seconds)
        return datetime.fromtimestamp((passed + 1) * self.seconds, UTC)

    @property
    def longest_gap(self) -> timedelta:
        return timedelta(seconds=self.seconds)


@dataclass(frozen=True)
class Daily:
    """A schedule by the day: at one time in UTC, which knows no summer."""

    at: time

    def following(self, moment: datetime) -> datetime:
        today = datetime.combine(moment.astimezone(UTC).date(), self.at, UTC)
        return today if today > moment else today + timedelta(days=1)

    @property
    def longest_gap(self) -> timedelta:
        return timedelta(days=1)


Recurrence = Every | Daily


def recurrence(*, every_seconds: int | None = None, daily_at: str | None = None) -> Recurrence:
    """Return when a schedule is due. Raises ValueError where neither argument says so."""
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
    """Decide whether a schedule is due. What was missed is done once, not once for each time it was missed.

    A clock that was set back leaves `next_at` further away than any two times of the schedule lie apart; then
    nothing is done, and the next time is found anew.
    """
    is_due = next_at <= now
    is_lost = next_at - now > schedule.longest_gap
    return Firing(is_due, schedule.following(now) if is_due or is_lost else next_at)
