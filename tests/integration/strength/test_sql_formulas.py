"""The formulas of the domain and their renderings in SQL give the same for the same cases."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from strength.domain.policy import LEVELS, StrengthPolicy
from strength.domain.strength import (
    NO_DECAY,
    Clock,
    Numbers,
    consolidation_level,
    impact_value,
    impacted,
    strength_now,
    used,
)
from strength.sql import LEVEL, MARK, policy_values
from strength.sql import NOW as STRENGTH_NOW

CASES = 2_000
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

STATEMENT = f"""
SELECT {LEVEL.format(uses="uses")},
    {STRENGTH_NOW.format(strength="strength", mark="mark", clock="state.clock[level + 1]")},
    {MARK.format(level="level", rates="state.rates", by_task="state.by_task", at="at", task="task")}
FROM (VALUES (%(strength)s::float8, %(mark)s::float8, %(uses)s::int, %(level)s::int, %(at)s::timestamptz, %(task)s::int))
    AS row (strength, mark, uses, level, at, task),
(VALUES (%(clock)s::float8[], %(clock_at)s::timestamptz, %(clock_task)s::int, %(rates)s::float8[], %(by_task)s))
    AS state (clock, clock_at, clock_task, rates, by_task)
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
            left = tuple(-draw.uniform(0, 300) for _ in range(LEVELS))
            at = draw.choice([None, NOW - timedelta(seconds=draw.uniform(-5e5, 4e7))])
            clock = Clock(left, at, draw.randint(0, 1000)).with_rates(policy)
            case: dict[str, Any] = {
                "strength": draw.choice([0.0, 1e-250, draw.uniform(0, 3), draw.uniform(0, 1e6)]),
                "uses": draw.randint(0, 600),
                "level": draw.randrange(LEVELS),
                "mark": draw.choice([NO_DECAY, -draw.uniform(0, 300)]),
                "at": NOW,
                "task": draw.randint(0, 1000),
            }
            state = {"clock": list(left), "clock_at": at, "clock_task": clock.tasks}
            cursor.execute(STATEMENT, {**policy_values(policy), **case, **state})
            level, strength, mark = cursor.fetchone()

            assert level == consolidation_level(case["uses"], policy.consolidation_thresholds)
            expected = strength_now(case["strength"], mark=case["mark"], clock=left[case["level"]])
            assert strength == pytest.approx(expected, rel=1e-9)
            expected = clock.mark(case["level"], at=NOW, tasks=case["task"])
            assert mark == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.slow
def test_what_the_clock_leaves_is_what_nights_one_by_one_leave_in_two_thousand_random_cases() -> None:
    """Written in the middle of some interval, under policies that change: it fades as if every night had written it."""
    draw = random.Random(20261123)
    for _ in range(CASES):
        level, begins = draw.randrange(LEVELS), draw.randint(0, 6)
        clock, now, tasks = Clock(at=NOW).with_rates(a_policy(draw)), NOW, 0
        nightly, stored, mark = 1.0, 1.0, NO_DECAY
        for night in range(draw.randint(begins, 12) + 1):
            policy, elapsed, done = a_policy(draw), draw.uniform(0, 1e6), draw.randint(0, 50)
            clock = clock.with_rates(policy)
            share = 1.0
            if night == begins:
                share = draw.random()
                middle = now + timedelta(seconds=elapsed * (1 - share))
                begun = round(done * (1 - share))
                mark = clock.mark(level, at=middle, tasks=tasks + begun)
                left = (done - begun) if clock.by_task else (now + timedelta(seconds=elapsed) - middle).total_seconds()
            else:
                left = done if clock.by_task else timedelta(seconds=elapsed).total_seconds()
            if night >= begins:
                days = left / policy.expected_tasks_per_day if clock.by_task else left / 86_400
                nightly *= policy.decay_targets[level] ** days
            now, tasks = now + timedelta(seconds=elapsed), tasks + done
            clock = clock.advanced(at=now, tasks=tasks)
            if night >= begins:
                if draw.random() < 0.3:  # somebody uses it: its strength is stored anew
                    stored = strength_now(stored, mark=mark, clock=clock.log_factors[level]) + 0.1
                    nightly, mark = nightly + 0.1, clock.log_factors[level]
                read = strength_now(stored, mark=mark, clock=clock.log_factors[level])
                assert read == pytest.approx(nightly, rel=1e-9, abs=1e-80)


@pytest.mark.django_db
def test_use_and_impact_in_sql_are_those_of_the_domain(actor: Any, write: Any) -> None:
    from strength.actions.usage import apply_impact, use_memories
    from strength.domain.strength import Impact
    from tests.integration.strength.conftest import BY, numbers

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
        row = numbers(memory)
        assert row.strength == pytest.approx(expected.strength, rel=1e-9)
        assert row.impact_score == pytest.approx(expected.impact_score, rel=1e-9)
        assert (row.access_count, row.consolidation_level) == (expected.access_count, expected.consolidation_level)
        assert row.consolidation_level == consolidation_level(row.access_count, policy.consolidation_thresholds)
        assert impact_value(policy, Impact.USER_POSITIVE) == actor.agent.policy["impact_user_positive"]
