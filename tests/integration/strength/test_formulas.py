"""The formulas of the domain and their renderings in SQL give the same for the same cases."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from strength.domain.policy import LEVELS, StrengthPolicy
from strength.domain.strength import (
    Clock,
    Numbers,
    consolidation_level,
    days_of_decay,
    decayed,
    faded_by,
    impact_value,
    perspective_strength,
    used,
)
from strength.sql import A_DAY, BY_CLOCK, DAYS, DECAY, DECAYED, LEVEL, OF_PERSPECTIVE, policy_values

CASES = 2_000
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

_PIECES = {
    "a_day": A_DAY.format(level="level"),
    "days": DAYS.format(decayed_at_task="at_task", since="since"),
}
STATEMENT = f"""
SELECT {LEVEL.format(uses="uses")}, {DECAYED.format(strength="strength", **_PIECES)},
    faded + {DECAY.format(**_PIECES)},
    {OF_PERSPECTIVE.format(strength="strength", faded_now="faded", faded_then="faded_then")}
FROM (VALUES (%(strength)s::float8, %(uses)s::int, %(level)s::int, %(faded)s::float8, %(faded_then)s::float8,
    %(since)s::timestamptz, %(at_task)s::int)) AS row (strength, uses, level, faded, faded_then, since, at_task)
"""


def a_policy(draw: random.Random) -> StrengthPolicy:
    """Return a policy that is allowed, with every value drawn."""
    thresholds = [0, *sorted(draw.sample(range(1, 500), LEVELS - 1))]
    return StrengthPolicy.from_overrides(
        {
            "consolidation_thresholds": thresholds,
            "daily_decay_targets": {str(level): draw.uniform(1e-6, 1) for level in range(LEVELS)},
            "decay_clock": draw.choice(["elapsed", "task"]),
            "expected_tasks_per_day": draw.randint(1, 200),
        }
    )


@pytest.mark.django_db
def test_domain_and_sql_are_equal_in_two_thousand_random_cases() -> None:
    draw = random.Random(20260301)
    with connection.cursor() as cursor:
        for _ in range(CASES):
            policy = a_policy(draw)
            case: dict[str, Any] = {
                "strength": draw.choice([0.0, draw.uniform(0, 3), draw.uniform(0, 1e6)]),
                "uses": draw.randint(0, 600),
                "level": draw.randrange(LEVELS),
                "faded": -draw.uniform(0, 20),
                "faded_then": -draw.uniform(0, 20),
                "since": NOW - timedelta(seconds=draw.uniform(-5e5, 4e7)),
                "at_task": draw.randint(0, 1000),
            }
            now = {"now": NOW, "tasks": draw.randint(0, 1000)}
            cursor.execute(STATEMENT, {**case, **now, **policy_values(policy)})
            level, strength, faded, seen = cursor.fetchone()

            before = Numbers(case["strength"], case["uses"], 0.0, case["level"], case["faded"])
            elapsed = (NOW - case["since"]).total_seconds()
            days = days_of_decay(policy, elapsed_seconds=elapsed, tasks=now["tasks"] - case["at_task"])
            after = decayed(before, policy, days=days)
            assert level == after.consolidation_level
            assert strength == pytest.approx(after.strength, rel=1e-9, abs=1e-12)
            assert faded == pytest.approx(after.faded, rel=1e-9, abs=1e-9)
            expected = perspective_strength(
                case["strength"], faded_then=case["faded_then"], faded_now=case["faded"]
            )
            assert seen == pytest.approx(expected, rel=1e-9)


@pytest.mark.django_db
def test_nights_by_the_clock_are_nights_one_by_one_in_two_thousand_random_cases() -> None:
    """A memory that is put on the clock some night fades by it as if every night since had been reckoned for it."""
    draw = random.Random(20261123)
    statement = f"SELECT {BY_CLOCK.format(clock='%(clock)s::float8[]', row='row')} FROM (VALUES (%(level)s, %(then)s::float8)) AS row (consolidation_level, clock_then)"
    with connection.cursor() as cursor:
        for _ in range(CASES):
            level, on_since = draw.randrange(LEVELS), draw.randint(0, 6)
            clock, now, tasks, then, memory = Clock([0.0] * LEVELS), NOW, 0, 0.0, Numbers(1.0)
            for night in range(draw.randint(on_since, 12) + 1):
                policy, before = a_policy(draw), clock
                elapsed, done = draw.uniform(-1e4, 1e6), draw.randint(0, 50)
                now, tasks = now + timedelta(seconds=elapsed), tasks + done
                clock = clock.moved(policy, now=now, tasks=tasks)
                if night == on_since:
                    then = clock.left[level]
                if night > on_since:
                    span = (clock.at - before.at).total_seconds() if clock.at and before.at else 0.0
                    days = days_of_decay(policy, elapsed_seconds=span, tasks=done)
                    memory = decayed(Numbers(1.0, 0, 0.0, level, memory.faded), policy, days=days)
            cursor.execute(statement, {"clock": list(clock.left), "level": level, "then": then})
            assert faded_by(clock.left, level=level, then=then) == pytest.approx(
                memory.faded, rel=1e-9, abs=1e-9
            )
            assert cursor.fetchone()[0] == pytest.approx(memory.faded, rel=1e-9, abs=1e-9)
        cursor.execute(statement, {"clock": [-1.0] * LEVELS, "level": 0, "then": None})
        assert cursor.fetchone() == (0.0,), "a row beside the clock"


@pytest.mark.django_db
def test_use_and_impact_in_sql_are_those_of_the_domain(actor: Any, write: Any) -> None:
    from strength.actions.usage import apply_impact, use_memories
    from strength.domain.strength import Impact, impacted
    from strength.models import CurrentNumbers
    from tests.integration.strength.conftest import BY

    draw = random.Random(7)
    for number in range(25):
        policy = a_policy(draw)
        actor.agent.policy = {
            "consolidation_thresholds": list(policy.consolidation_thresholds),
            "strength_increment_on_use": draw.uniform(0, 2),
            "impact_to_strength_ratio": draw.uniform(0, 2),
            "impact_user_positive": draw.uniform(0, 5),
        }
        actor.agent.save()
        policy = StrengthPolicy.from_overrides(actor.agent.policy)
        memory = write(f"memory {number}")
        memory.actor = actor
        expected = Numbers(1.0)
        for _ in range(draw.randint(1, 12)):
            if draw.random() < 0.7:
                expected = used(expected, policy)
                use_memories(memories=[memory], perspective=None, task=None, by=BY, now=NOW)
            else:
                impact = draw.choice(list(Impact))
                expected = impacted(expected, policy, impact)
                apply_impact(memories=[memory], impact=impact, by=BY, now=NOW)
        row = CurrentNumbers.objects.get(memory=memory)
        assert row.strength == pytest.approx(expected.strength, rel=1e-9)
        assert row.impact_score == pytest.approx(expected.impact_score, rel=1e-9)
        assert (row.access_count, row.consolidation_level) == (
            expected.access_count,
            expected.consolidation_level,
        )
        assert row.consolidation_level == consolidation_level(
            row.access_count, policy.consolidation_thresholds
        )
        assert impact_value(policy, Impact.USER_POSITIVE) == actor.agent.policy["impact_user_positive"]
