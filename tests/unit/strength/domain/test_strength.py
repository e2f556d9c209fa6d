"""How memories grow and fade: the values of SPEC S1, and what must hold whatever the values are."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strength.domain.memories import Source
from strength.domain.policy import LEVELS, StrengthPolicy
from strength.domain.sleep import joined, keep_rank
from strength.domain.strength import (
    Impact,
    Numbers,
    Point,
    PointKind,
    consolidation_level,
    curve,
    days_of_decay,
    decayed,
    impact_value,
    impacted,
    initial_strength,
    left_of,
    perspective_strength,
    used,
)

POLICY = StrengthPolicy()
BY_TASK = StrengthPolicy(decay_clock="task")
DAY = 86_400.0
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("level", "uses", "daily", "per_task"),
    [(0, 0, 0.95, 0.9949), (1, 5, 0.97, 0.9969), (2, 15, 0.98, 0.9980), (3, 30, 0.99, 0.9990),
     (4, 60, 0.995, 0.9995), (5, 100, 0.998, 0.9998)],
)  # fmt: skip
def test_the_table_of_levels(level: int, uses: int, daily: float, per_task: float) -> None:
    assert consolidation_level(uses, POLICY.consolidation_thresholds) == level
    if uses:
        assert consolidation_level(uses - 1, POLICY.consolidation_thresholds) == level - 1
    assert POLICY.decay_targets[level] == daily
    # The table of the source document rounds 0.99488 to 0.9949 and 0.99696 to 0.9969.
    numbers = Numbers(1.0, access_count=uses, consolidation_level=level)
    one_task = 1 / POLICY.expected_tasks_per_day
    assert decayed(numbers, POLICY, days=one_task).strength == pytest.approx(per_task, abs=1e-4)
    assert decayed(numbers, POLICY, days=1.0).strength == pytest.approx(daily, rel=1e-12)


def test_the_values_of_the_specification() -> None:
    assert initial_strength(POLICY, source=Source.MANUAL, stated=None) == 1.0
    assert initial_strength(POLICY, source=Source.EDUCATION, stated=None) == 0.5
    assert initial_strength(POLICY, source=Source.EDUCATION, stated=0.7) == 0.7
    assert (POLICY.strength_increment_on_use, POLICY.perspective_strength_increment) == (0.1, 0.15)
    assert (POLICY.archive_threshold, POLICY.reactivation_strength, POLICY.max_active_memories) == (
        0.1,
        0.5,
        5000,
    )
    assert POLICY.expected_tasks_per_day == 10
    assert [impact_value(POLICY, impact) for impact in Impact] == [2.0, 1.5, 2.0]
    assert POLICY.impact_to_strength_ratio == 0.2


def test_a_use_and_an_impact() -> None:
    numbers = used(Numbers(1.0, access_count=4), POLICY)
    assert (numbers.strength, numbers.access_count, numbers.consolidation_level) == (1.1, 5, 1)
    numbers = impacted(numbers, POLICY, Impact.TASK_SUCCESS)
    assert (numbers.strength, numbers.impact_score) == (pytest.approx(1.4), 1.5)


def test_days_by_both_clocks() -> None:
    assert days_of_decay(POLICY, elapsed_seconds=DAY / 2, tasks=99) == 0.5
    assert days_of_decay(POLICY, elapsed_seconds=-5.0, tasks=0) == 0.0
    assert days_of_decay(BY_TASK, elapsed_seconds=9e9, tasks=15) == 1.5
    assert days_of_decay(BY_TASK, elapsed_seconds=0, tasks=-1) == 0.0


targets = st.floats(1e-6, 1.0)
strengths = st.floats(0.0, 1e6)
spans = st.lists(st.floats(0.0, 400.0), min_size=1, max_size=5)


@given(strength=strengths, target=targets, spans=spans, level=st.integers(0, LEVELS - 1))
def test_fading_often_is_fading_once_and_never_rises(
    strength: float, target: float, spans: list[float], level: int
) -> None:
    policy = StrengthPolicy(daily_decay_targets={str(each): target for each in range(LEVELS)})
    uses = policy.consolidation_thresholds[level]
    numbers = Numbers(strength, access_count=uses, consolidation_level=level)
    path = [numbers]
    for days in spans:
        path.append(decayed(path[-1], policy, days=days))
    once = decayed(numbers, policy, days=sum(spans))
    assert path[-1].strength == pytest.approx(once.strength, rel=1e-9, abs=1e-9)
    assert path[-1].faded == pytest.approx(once.faded, rel=1e-9, abs=1e-9)
    assert all(later.strength <= earlier.strength for earlier, later in pairwise(path))
    assert all(each.consolidation_level == level for each in path)


@given(stored=strengths, then=st.floats(-50, 0), since=st.floats(0, 50))
def test_a_perspective_fades_as_its_memory_does(stored: float, then: float, since: float) -> None:
    now = perspective_strength(stored, faded_then=then, faded_now=then - since)
    assert now == pytest.approx(left_of(stored, -since), rel=1e-9, abs=1e-12)
    assert now <= stored


def test_nothing_leaves_the_range_of_floats() -> None:
    assert left_of(1e-300, 0.0) == 0.0
    assert 0 < left_of(1e-199, -1e9) < 1e-280
    assert left_of(1.0, 1e9) < 1e90


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
    merged = joined(Numbers(0.5, 3, 1.0, 0, -0.2), Numbers(0.9, 4, 0.5, 0, -0.9), POLICY)
    assert merged == Numbers(0.9, 7, 1.5, 1, -0.2)


# History


def night(days: float) -> datetime:
    return NOW + timedelta(days=days)


def test_a_history_without_events_is_its_nights() -> None:
    points = curve(
        [],
        created_at=NOW,
        now=night(3),
        strength=0.95**2,
        faded=-0.1025866,
        level=0,
        nights=[night(1), night(2)],
    )
    assert [point.kind for point in points] == ["created", "slept", "slept", "now"]
    assert [round(point.strength, 4) for point in points] == [1.0, 0.95, 0.9025, 0.9025]


def test_a_history_that_never_faded_has_no_nights() -> None:
    points = curve([], created_at=NOW, now=night(3), strength=2.0, faded=0.0, level=0, nights=[night(1)])
    assert [(point.kind, point.strength) for point in points] == [("created", 2.0), ("now", 2.0)]


def test_a_memory_was_born_as_strong_as_it_was_before_what_began_first() -> None:
    early = Point(night(0.5), PointKind.IMPACT, 1.45, 1.1, 0.0, 0)
    long = Point(
        night(1.5), PointKind.USED, 1.5, 1.0, -0.05, 0, times=2, began_at=night(0.25), faded_before=0.0
    )
    for kept in ([early, long], [long, early]):
        points = curve(kept, created_at=NOW, now=night(2), strength=1.5, faded=-0.05, level=0, nights=[])
        assert (points[0].kind, points[0].strength) == ("created", 1.0)
        assert points[1:3] == [early, long], "drawn where each ended"


def test_a_row_of_long_ago_begins_where_it_ends() -> None:
    faded = Point(night(1), PointKind.USED, 1.05, 0.95, -0.0512933, 0)
    assert (faded.beginning, round(faded.born, 4)) == (night(1), 1.0)


def test_a_history_goes_through_every_event() -> None:
    event = Point(night(1.5), PointKind.USED, 1.05, 0.95, -0.0512933, 0, times=1)
    points = curve(
        [event], created_at=NOW, now=night(4), strength=1.05 * 0.95, faded=-0.1025866, level=0,
        nights=[night(1), night(2)],
    )  # fmt: skip
    assert [point.kind for point in points] == ["created", "slept", "used", "slept", "now"]
    assert [round(point.strength, 4) for point in points] == [1.0, 0.95, 1.05, 0.9975, 0.9975]
    assert points[2] is event
