"""Growth and decay of memories: the values of SPEC S1, and what must hold whatever the values are."""

import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strength.domain.memories import Source
from strength.domain.policy import LEVELS, StrengthPolicy
from strength.domain.sleep import keep_rank, merged_numbers
from strength.domain.strength import (
    NO_DECAY,
    Clock,
    Impact,
    Numbers,
    Point,
    PointKind,
    consolidation_level,
    curve,
    impact_value,
    impacted,
    initial_strength,
    strength_now,
    threshold_time,
    used,
)

POLICY = StrengthPolicy()
BY_TASK = StrengthPolicy(decay_clock="task")
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def night(days: float) -> datetime:
    return NOW + timedelta(days=days)


@pytest.mark.parametrize(
    ("level", "uses", "daily", "per_task"),
    [
        (0, 0, 0.95, 0.9949),
        (1, 5, 0.97, 0.9969),
        (2, 15, 0.98, 0.9980),
        (3, 30, 0.99, 0.9990),
        (4, 60, 0.995, 0.9995),
        (5, 100, 0.998, 0.9998),
    ],
)
def test_the_table_of_levels(level: int, uses: int, daily: float, per_task: float) -> None:
    assert consolidation_level(uses, POLICY.consolidation_thresholds) == level
    if uses:
        assert consolidation_level(uses - 1, POLICY.consolidation_thresholds) == level - 1
    assert POLICY.decay_targets[level] == daily
    # The table of the source document rounds 0.99488 to 0.9949 and 0.99696 to 0.9969.
    by_task = Clock(at=NOW).with_rates(BY_TASK).advanced(at=NOW, tasks=1)
    by_day = Clock(at=NOW).with_rates(POLICY).advanced(at=night(1), tasks=1)
    assert strength_now(1.0, mark=0.0, clock=by_task.log_factors[level]) == pytest.approx(per_task, abs=1e-4)
    assert strength_now(1.0, mark=0.0, clock=by_day.log_factors[level]) == pytest.approx(daily, rel=1e-12)


def test_the_values_of_the_specification() -> None:
    assert initial_strength(POLICY, source=Source.MANUAL, stated=None) == 1.0
    assert initial_strength(POLICY, source=Source.EDUCATION, stated=None) == 0.5
    assert initial_strength(POLICY, source=Source.EDUCATION, stated=0.7) == 0.7
    assert (POLICY.strength_increment_on_use, POLICY.perspective_strength_increment) == (0.1, 0.15)
    assert (POLICY.archive_threshold, POLICY.reactivation_strength, POLICY.max_active_memories) == (0.1, 0.5, 5000)
    assert POLICY.expected_tasks_per_day == 10
    assert [impact_value(POLICY, impact) for impact in Impact] == [2.0, 1.5, 2.0]
    assert POLICY.impact_to_strength_ratio == 0.2


def test_a_use_and_an_impact() -> None:
    numbers = used(Numbers(1.0, access_count=4), POLICY)
    assert (numbers.strength, numbers.access_count, numbers.consolidation_level) == (1.1, 5, 1)
    numbers = impacted(numbers, POLICY, Impact.TASK_SUCCESS)
    assert (numbers.strength, numbers.impact_score) == (pytest.approx(1.4), 1.5)


def test_both_clocks_go_forward_alone() -> None:
    by_day, by_task = Clock(at=NOW, tasks=7).with_rates(POLICY), Clock(at=NOW, tasks=7).with_rates(BY_TASK)
    a_day = math.log(0.95)
    assert by_day.mark(0, at=night(0.5), tasks=99) == a_day / 2
    assert by_task.mark(0, at=night(100), tasks=22) == pytest.approx(1.5 * a_day)
    assert (
        by_day.advanced(at=night(-1), tasks=7).log_factors
        == by_task.advanced(at=night(9), tasks=3).log_factors
        == (0.0,) * LEVELS
    )
    assert by_day.advanced(at=night(-1), tasks=7).at == NOW
    begun = Clock().with_rates(POLICY).advanced(at=NOW, tasks=3)
    assert (begun.log_factors, begun.at, begun.tasks) == ((0.0,) * LEVELS, NOW, 3)


targets = st.floats(1e-6, 1.0)
strengths = st.floats(0.0, 1e6)
spans = st.lists(st.floats(0.0, 400.0), min_size=1, max_size=5)


@given(strength=strengths, target=targets, spans=spans, level=st.integers(0, LEVELS - 1))
def test_fading_often_is_fading_once_and_never_rises(
    strength: float, target: float, spans: list[float], level: int
) -> None:
    policy = StrengthPolicy(daily_decay_targets={str(each): target for each in range(LEVELS)})
    clock, path = Clock(at=NOW).with_rates(policy), [strength]
    for days in spans:
        clock = clock.advanced(at=(clock.at or NOW) + timedelta(days=days), tasks=0)
        path.append(strength_now(strength, mark=0.0, clock=clock.log_factors[level]))
    total = (clock.at or NOW) - NOW
    once = strength_now(strength, mark=0.0, clock=math.log(target) * (total / timedelta(days=1)))
    assert path[-1] == pytest.approx(once, rel=1e-9, abs=1e-9)
    assert all(later <= earlier for earlier, later in pairwise(path))


@given(stored=strengths, mark=st.floats(-50, 0), clock=st.floats(-100, 0))
def test_what_is_marked_ahead_of_the_clock_or_never_stands_still(stored: float, mark: float, clock: float) -> None:
    now = strength_now(stored, mark=mark, clock=clock)
    assert now == (strength_now(stored, mark=0.0, clock=min(0.0, clock - mark)))
    assert strength_now(stored, mark=NO_DECAY, clock=clock) == strength_now(stored, mark=0.0, clock=0.0)


def test_nothing_leaves_the_range_of_floats() -> None:
    assert strength_now(1e-300, mark=0.0, clock=0.0) == 0.0
    assert 0 < strength_now(1e-199, mark=0.0, clock=-1e9) < 1e-280
    assert strength_now(1.0, mark=0.0, clock=1e9) == 1.0


# Merging


def side(key: str, **values: object) -> dict[str, Any]:
    return {"key": key, "locked": False, "pinned": False, "strength": 1.0, "created_at": NOW, **values}


@pytest.mark.parametrize(
    ("stays", "goes"),
    [
        (side("a", locked=True), side("b", pinned=True, strength=9.0)),
        (side("a", pinned=True), side("b", strength=9.0)),
        (side("a", strength=2.0), side("b")),
        (side("b"), side("a", created_at=NOW + timedelta(days=1))),
        (side("a"), side("b")),
    ],
)
def test_which_of_two_stays(stays: dict[str, Any], goes: dict[str, Any]) -> None:
    assert keep_rank(**stays) < keep_rank(**goes)


def test_a_merge_has_the_uses_of_both() -> None:
    merged = merged_numbers(Numbers(0.5, 3, 1.0, 0), Numbers(0.9, 4, 0.5, 0), POLICY)
    assert merged == Numbers(0.9, 7, 1.5, 1)


# History


def point(days: float, kind: PointKind, strength: float, mark: float | None = None) -> Point:
    return Point(night(days), kind, strength, strength, mark, 0)


NIGHTS = [(night(day), [math.log(0.95) * day] * LEVELS) for day in (1, 2)]


def test_a_history_without_events_is_its_nights() -> None:
    created, now = point(0, PointKind.CREATED, 1.0, 0.0), point(3, PointKind.NOW, 0.9025)
    points = curve([], created=created, now=now, nights=NIGHTS)
    assert [each.kind for each in points] == ["created", "slept", "slept", "now"]
    assert [round(each.strength, 4) for each in points] == [1.0, 0.95, 0.9025, 0.9025]


def test_a_history_that_does_not_fade_has_no_nights() -> None:
    for mark in (None, math.log(0.95) * 5):  # never, or not yet
        created, now = point(0, PointKind.CREATED, 2.0, mark), point(3, PointKind.NOW, 2.0)
        assert curve([], created=created, now=now, nights=NIGHTS) == [created, now]


def test_a_history_goes_through_every_event() -> None:
    event = point(1.5, PointKind.USED, 1.05, NIGHTS[0][1][0])
    created, now = point(0, PointKind.CREATED, 1.0, 0.0), point(4, PointKind.NOW, 1.05 * 0.95)
    points = curve([event], created=created, now=now, nights=NIGHTS)
    assert [each.kind for each in points] == ["created", "slept", "used", "slept", "now"]
    assert [round(each.strength, 4) for each in points] == [1.0, 0.95, 1.05, 0.9975, 0.9975]
    assert points[2] is event


@pytest.mark.parametrize(
    ("strength", "rate", "by_task", "days"),
    [
        (1.0, -0.1, False, 10 * math.log(10)),  # e to the power of -0.1 a day, down to a tenth
        (0.05, -0.1, False, 0),
        (1.0, 0.0, False, None),
        (1.0, -0.1, True, None),
    ],
)
def test_fades_to_is_the_day_on_which_the_clock_has_taken_the_rest(
    strength: float, rate: float, by_task: bool, days: float | None
) -> None:
    clock = Clock(at=NOW, rates=(rate,) * LEVELS, by_task=by_task)
    found = threshold_time(0.1, strength=strength, mark=0.0, level=0, clock=clock)
    assert found == (None if days is None else night(days))
    if found is not None and strength > 0.1:
        left = clock.advanced(at=found, tasks=0).log_factors[0]
        assert strength_now(strength, mark=0.0, clock=left) == pytest.approx(0.1)
