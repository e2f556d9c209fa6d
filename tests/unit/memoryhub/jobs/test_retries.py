"""States of a job, and when a schedule is due: tables and properties."""

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.jobs.retries import (
    MAX_EXCUSED_FOR,
    MAX_PAUSE_SECONDS,
    Attempts,
    Daily,
    Every,
    State,
    after_breakdown,
    after_excuse,
    next_firing,
    pause_seconds,
    recurrence,
)

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
YOUNG = timedelta(minutes=1)
moments = st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))
rhythms = st.one_of(st.integers(1, 100_000).map(Every), st.times().map(lambda at: Daily(at.replace(tzinfo=None))))


@pytest.mark.parametrize(
    ("begun", "excused", "state", "pause"),
    [
        (1, 0, State.QUEUED, 2),
        (2, 0, State.QUEUED, 4),
        (3, 0, State.DEAD, 0),
        (9, 7, State.QUEUED, 4),
        (10, 7, State.DEAD, 0),
    ],
)
def test_third_broken_attempt_ends_a_job(begun: int, excused: int, state: State, pause: float) -> None:
    verdict = after_breakdown(Attempts(begun, excused, YOUNG))

    assert (verdict.state, verdict.pause_seconds, verdict.is_excused) == (state, pause, False)


def test_excuse_waits_as_long_as_it_was_asked_to_and_does_not_count() -> None:
    verdict = after_excuse(Attempts(1, 0, YOUNG), at_least_seconds=3600)

    assert (verdict.state, verdict.pause_seconds, verdict.is_excused) == (State.QUEUED, 3600, True)


def test_excuse_never_waits_less_than_its_own_pause() -> None:
    assert after_excuse(Attempts(5, 4, YOUNG), at_least_seconds=1).pause_seconds == pause_seconds(5) == 32


def test_what_did_a_part_goes_on_at_once_and_not_for_ever() -> None:
    verdict = after_excuse(Attempts(9, 8, YOUNG), did_a_part=True)

    assert (verdict.state, verdict.pause_seconds, verdict.is_excused) == (State.QUEUED, 0, True)
    old = Attempts(9, 8, MAX_EXCUSED_FOR + YOUNG)
    assert after_excuse(old, did_a_part=True).state is State.DEAD


def test_a_provider_that_asks_for_no_pause_gets_one() -> None:
    assert after_excuse(Attempts(1, 0, YOUNG), at_least_seconds=0).pause_seconds == pause_seconds(1) == 2


def test_patience_ends() -> None:
    assert after_excuse(Attempts(100, 99, MAX_EXCUSED_FOR + YOUNG)).state is State.DEAD
    assert after_excuse(Attempts(100, 99, MAX_EXCUSED_FOR - YOUNG)).state is State.QUEUED


@given(st.integers(0, 10**9))
def test_pauses_grow_and_are_bounded(attempts: int) -> None:
    assert 2 <= pause_seconds(attempts) <= pause_seconds(attempts + 1) <= MAX_PAUSE_SECONDS


# Schedules


@given(rhythms, moments)
def test_following_is_later_by_no_more_than_a_gap(schedule: Every | Daily, moment: datetime) -> None:
    following = schedule.following(moment)

    assert moment < following <= moment + schedule.longest_gap
    assert schedule.following(following) > following


def test_daily_is_the_same_hour_in_every_zone() -> None:
    tokyo = datetime.fromisoformat("2026-03-02T11:30:00+09:00")

    assert Daily(time(3, 15)).following(tokyo) == datetime(2026, 3, 2, 3, 15, tzinfo=UTC)


@given(rhythms, moments, st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=400)))
def test_what_was_missed_is_done_once(schedule: Every | Daily, due: datetime, away: timedelta) -> None:
    now = due + away
    first = next_firing(schedule, next_at=due, now=now)
    second = next_firing(schedule, next_at=first.next_at, now=now)

    assert first.is_due
    assert first.next_at > now
    assert not second.is_due
    assert second.next_at == first.next_at


@given(rhythms, moments, st.timedeltas(min_value=timedelta(days=2), max_value=timedelta(days=4000)))
def test_clock_that_was_set_back_does_nothing_and_loses_no_schedule(
    schedule: Every | Daily, next_at: datetime, back: timedelta
) -> None:
    now = next_at - back
    firing = next_firing(schedule, next_at=next_at, now=now)

    assert not firing.is_due
    assert now < firing.next_at <= now + schedule.longest_gap


def test_before_its_time_nothing_changes() -> None:
    next_at = NOON + timedelta(seconds=30)

    assert next_firing(Every(60), next_at=next_at, now=NOON) == next_firing(
        Every(60), next_at=next_at, now=NOON - YOUNG / 2
    )
    assert next_firing(Every(60), next_at=next_at, now=NOON).next_at == next_at


def test_recurrence_reads_both_spellings() -> None:
    assert recurrence(every_seconds=60) == Every(60)
    assert recurrence(daily_at="03:30") == Daily(time(3, 30))


@pytest.mark.parametrize("line", [{}, {"every_seconds": 0}, {"daily_at": "25:00"}, {"daily_at": "soon"}])
def test_recurrence_refuses_what_is_none(line: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        recurrence(**line)
