"""Strength and the final score (SPEC S1, S2, M5)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.tenancy.policy import PolicyError
from strength.domain.memories import Source
from strength.domain.policy import SearchPolicy, StrengthPolicy
from strength.domain.ranking import recency, score, strength_normalized
from strength.domain.strength import consolidation_level, initial_strength

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(("days", "expected"), [(0, 1.0), (30, 0.5), (60, 0.25), (15, 0.7071), (-5, 1.0)])
def test_recency_halves_every_half_life(days: int, expected: float) -> None:
    value = recency(NOW - timedelta(days=days), now=NOW, half_life_days=30)
    assert value == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("strength", "expected"), [(0, 0), (1, 0.5), (2, 1), (9, 1), (-1, 0)])
def test_strength_is_normalised_to_two(strength: float, expected: float) -> None:
    assert strength_normalized(strength) == expected


def test_score_is_the_weighted_sum_of_its_parts() -> None:
    parts = score(
        similarity=0.75,
        word_score=0.4,
        relevance=0.75,
        strength=1.2,
        last_used_at=NOW - timedelta(days=30),
        now=NOW,
        policy=SearchPolicy(),
    ).as_dict()
    assert parts == pytest.approx(
        {
            "similarity_raw": 0.75, "word_raw": 0.4, "relevance": 0.75, "similarity_weighted": 0.375,
            "strength_raw": 1.2, "strength_normalized": 0.6, "strength_weighted": 0.18,
            "recency_raw": 0.5, "recency_weighted": 0.1, "total": 0.655,
        }
    )  # fmt: skip


@given(st.floats(0, 1), st.floats(0, 10), st.floats(0, 4000))
def test_score_lies_between_zero_and_one(relevance: float, strength: float, days: float) -> None:
    breakdown = score(
        similarity=None,
        word_score=0.0,
        relevance=relevance,
        strength=strength,
        last_used_at=NOW - timedelta(days=days),
        now=NOW,
        policy=SearchPolicy(),
    )
    assert 0 <= breakdown.total <= 1 + 1e-9
    weighted = breakdown.similarity_weighted + breakdown.strength_weighted + breakdown.recency_weighted
    assert breakdown.total == pytest.approx(weighted)


@pytest.mark.parametrize(
    ("uses", "level"),
    [(0, 0), (4, 0), (5, 1), (14, 1), (15, 2), (29, 2), (30, 3), (59, 3), (60, 4), (99, 4), (100, 5), (10**6, 5)],
)
def test_level_follows_the_thresholds(uses: int, level: int) -> None:
    assert consolidation_level(uses, StrengthPolicy().consolidation_thresholds) == level


@pytest.mark.parametrize(
    ("source", "stated", "expected"),
    [(Source.MANUAL, None, 1.0), (Source.EDUCATION, None, 0.5), (Source.EDUCATION, 1.3, 1.3), (Source.TASK, 0.0, 0.0)],
)
def test_new_memory_is_as_strong_as_stated_else_by_source(
    source: Source, stated: float | None, expected: float
) -> None:
    assert initial_strength(StrengthPolicy(), source=source, stated=stated) == expected


def test_defaults_are_as_specified() -> None:
    assert StrengthPolicy().values() == {
        "initial_strength": 1.0, "initial_strength_education": 0.5, "strength_increment_on_use": 0.1,
        "perspective_strength_increment": 0.15, "archive_threshold": 0.1, "reactivation_strength": 0.5,
        "expected_tasks_per_day": 10, "consolidation_thresholds": [0, 5, 15, 30, 60, 100],
        "daily_decay_targets": {"0": 0.95, "1": 0.97, "2": 0.98, "3": 0.99, "4": 0.995, "5": 0.998},
        "decay_clock": "elapsed", "sleeps_nightly": True, "near_duplicates": "propose", "archived_repeats": "review",
        "use_detection": "keywords", "archived_use": "reactivate", "impact_user_positive": 2.0, "impact_task_success": 1.5,
        "impact_prevented_error": 2.0, "impact_to_strength_ratio": 0.2, "max_active_memories": 5000,
        "max_archived_share": 0.2,
    }  # fmt: skip
    search = SearchPolicy().values()
    assert search["score_weights"] == {"similarity": 0.5, "strength": 0.3, "recency": 0.2}
    assert (search["similarity_threshold"], search["candidate_limit"], search["top_k_results"]) == (0.3, 50, 10)
    assert (SearchPolicy().unusual(), StrengthPolicy().unusual()) == ({}, {})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("score_weights", {"similarity": 0.5, "strength": 0.3, "recency": 0.3}),
        ("score_weights", {"similarity": 1.0}),
        ("score_weights", {"similarity": 1.5, "strength": -0.5, "recency": 0}),
        ("score_weights", [0.5, 0.3, 0.2]),
        ("similarity_threshold", -0.1),
        ("recency_half_life_days", 0),
    ],
)
def test_search_values_out_of_range_are_refused(key: str, value: Any) -> None:
    with pytest.raises(PolicyError) as caught:
        SearchPolicy.from_overrides({key: value})
    assert set(caught.value.errors) == {key}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("initial_strength", -1),
        ("consolidation_thresholds", [0, 5, 5, 30, 60, 100]),
        ("consolidation_thresholds", [1, 5, 15, 30, 60, 100]),
        ("consolidation_thresholds", [0, 5]),
        ("consolidation_thresholds", [0, 5, 15, 30, 60, "x"]),
        ("consolidation_thresholds", 5),
        ("daily_decay_targets", {"0": 0.95}),
        ("daily_decay_targets", {str(level): 0 for level in range(6)}),
        ("daily_decay_targets", {str(level): 1.1 for level in range(6)}),
        ("daily_decay_targets", 0.9),
        ("decay_clock", "moon"),
    ],
)
def test_strength_values_out_of_range_are_refused(key: str, value: Any) -> None:
    with pytest.raises(PolicyError) as caught:
        StrengthPolicy.from_overrides({key: value})
    assert set(caught.value.errors) == {key}


def test_values_outside_recommendation_are_named() -> None:
    weights = {"similarity": 0.9, "strength": 0.05, "recency": 0.05}
    assert set(SearchPolicy.from_overrides({"score_weights": weights, "top_k_results": 50}).unusual()) == {
        "top_k_results",
        "score_weights.similarity",
        "score_weights.strength",
        "score_weights.recency",
    }
    targets = {str(level): 1.0 for level in range(6)}
    policy = StrengthPolicy.from_overrides({"daily_decay_targets": targets, "initial_strength": 3})
    assert policy.decay_targets == (1.0,) * 6
    assert set(policy.unusual()) == {"initial_strength"}
