"""Policies of search, strength and extraction: defaults and ranges (SPEC L2, M4, M5, S1)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from memoryhub.errors import Message
from memoryhub.tenancy.domain import Check, Policy, number, one_of, switch, whole

LEVELS: Final = 6
REVIEW: Final = "review"
WEIGHT_NAMES: Final = ("similarity", "strength", "recency")


def _weights_hold(value: Any) -> bool:
    if not isinstance(value, Mapping) or set(value) != set(WEIGHT_NAMES):
        return False
    if not all(number(0, 1).holds(weight) for weight in value.values()):
        return False
    return math.isclose(math.fsum(value.values()), 1.0, abs_tol=1e-9)


def _thresholds_hold(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == LEVELS
        and all(whole(0, 10**9).holds(item) for item in value)
        and value[0] == 0
        and all(low < high for low, high in pairwise(value))
    )


def _targets_hold(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and {str(key) for key in value} == {str(level) for level in range(LEVELS)}
        and len(value) == LEVELS
        and all(number(0, 1, above=True).holds(target) for target in value.values())
    )


@dataclass(frozen=True)
class SearchPolicy(Policy):
    """Search and ranking of memories. `score_weights` sum to 1."""

    similarity_threshold: float = 0.3
    word_floor: float = 0.05
    candidate_limit: int = 50
    top_k_results: int = 10
    score_weights: Mapping[str, float] | None = None
    recency_half_life_days: float = 30.0

    CHECKS = {
        "similarity_threshold": number(0, 1),
        "word_floor": number(0, 1),
        "candidate_limit": whole(1, 1000),
        "top_k_results": whole(1, 200),
        "score_weights": Check(
            _weights_hold, "numbers from 0 to 1 for similarity, strength and recency that sum to 1"
        ),
        "recency_half_life_days": number(0, 36500, above=True),
    }

    RECOMMENDED = {"similarity_threshold": (0.2, 0.5), "candidate_limit": (20, 100), "top_k_results": (5, 20)}
    RECOMMENDED_WEIGHTS = {"similarity": (0.3, 0.7), "strength": (0.2, 0.4), "recency": (0.1, 0.3)}

    def unusual(self) -> dict[str, Message]:
        weights = {
            f"score_weights.{name}": f"is {self.weights[name]:g}; {low:g} to {high:g} is recommended"
            for name, (low, high) in self.RECOMMENDED_WEIGHTS.items()
            if not low <= self.weights[name] <= high
        }
        return {**super().unusual(), **weights}

    @property
    def weights(self) -> Mapping[str, float]:
        return self.score_weights or {"similarity": 0.50, "strength": 0.30, "recency": 0.20}

    def values(self) -> dict[str, Any]:
        return {**super().values(), "score_weights": dict(self.weights)}


@dataclass(frozen=True)
class StrengthPolicy(Policy):
    """Reinforcement and decay (SPEC S1). `daily_decay_targets` has one target per level, keyed by its number."""

    initial_strength: float = 1.0
    initial_strength_education: float = 0.5
    strength_increment_on_use: float = 0.1
    perspective_strength_increment: float = 0.15
    archive_threshold: float = 0.1
    reactivation_strength: float = 0.5
    expected_tasks_per_day: int = 10
    consolidation_thresholds: tuple[int, ...] = (0, 5, 15, 30, 60, 100)
    daily_decay_targets: Mapping[str, float] | None = None
    decay_clock: str = "elapsed"
    sleeps_nightly: bool = True
    near_duplicates: str = "propose"
    archived_repeats: str = REVIEW
    use_detection: str = "keywords"
    archived_use: str = "reactivate"
    impact_user_positive: float = 2.0
    impact_task_success: float = 1.5
    impact_prevented_error: float = 2.0
    impact_to_strength_ratio: float = 0.2
    max_active_memories: int = 5000

    CHECKS = {
        "initial_strength": number(0, 1000),
        "initial_strength_education": number(0, 1000),
        "strength_increment_on_use": number(0, 1000),
        "perspective_strength_increment": number(0, 1000),
        "archive_threshold": number(0, 1000),
        "reactivation_strength": number(0, 1000),
        "expected_tasks_per_day": whole(1, 100_000),
        "consolidation_thresholds": Check(
            _thresholds_hold, "six whole numbers, ascending, the first of them 0"
        ),
        "daily_decay_targets": Check(_targets_hold, "a number above 0 to 1 for each of the levels 0 to 5"),
        "decay_clock": one_of("elapsed", "task"),
        "sleeps_nightly": switch(),
        "near_duplicates": one_of("propose", "merge", "off"),
        "archived_repeats": one_of(REVIEW, "reactivate"),
        "use_detection": one_of("keywords", "embedding", "llm"),
        "archived_use": one_of("reactivate", "refuse"),
        "impact_user_positive": number(0, 1000),
        "impact_task_success": number(0, 1000),
        "impact_prevented_error": number(0, 1000),
        "impact_to_strength_ratio": number(0, 1000),
        "max_active_memories": whole(1, 10_000_000),
    }

    RECOMMENDED = {
        "initial_strength": (0.5, 1.5),
        "initial_strength_education": (0.3, 0.8),
        "strength_increment_on_use": (0.05, 0.2),
        "perspective_strength_increment": (0.1, 0.25),
        "archive_threshold": (0.05, 0.2),
        "reactivation_strength": (0.3, 0.7),
        "expected_tasks_per_day": (5, 50),
        "impact_user_positive": (1, 3),
        "impact_task_success": (1, 2),
        "impact_prevented_error": (1, 3),
        "impact_to_strength_ratio": (0.1, 0.3),
        "max_active_memories": (1000, 10000),
    }

    @property
    def decay_targets(self) -> tuple[float, ...]:
        """Return the share of strength left after a day, by level."""
        if not self.daily_decay_targets:
            return (0.95, 0.97, 0.98, 0.99, 0.995, 0.998)
        by_name = {str(level): target for level, target in self.daily_decay_targets.items()}
        return tuple(by_name[str(level)] for level in range(LEVELS))

    def values(self) -> dict[str, Any]:
        targets = {str(level): target for level, target in enumerate(self.decay_targets)}
        return {**super().values(), "daily_decay_targets": targets}


@dataclass(frozen=True)
class ExtractionPolicy(Policy):
    """Limits of extraction and reflection (SPEC L2, L3)."""

    extraction_max_tokens: int = 4000
    reflection_after_episodes: int = 5

    CHECKS = {"extraction_max_tokens": whole(500, 100_000), "reflection_after_episodes": whole(1, 20)}
