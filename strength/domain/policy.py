"""Policies of search, strength and extraction: defaults and ranges (SPEC L2, M4, M5, S1)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

from memoryhub.errors import Message, _, format_lazy
from memoryhub.tenancy.policy import Check, Input, Policy, number, one_of, switch, whole

LEVELS: Final = 6
REVIEW: Final = "review"
SHARED: Final = "shared"
ALL_WAITING: Final = "all"
MIN_ARCHIVED: Final = 20
"""Memories that a sleep may always archive, whatever share they are."""

WEIGHTS: Final = {"similarity": _("Relevance"), "strength": _("Strength"), "recency": _("Recency")}
LEVEL_NAMES: Final = {str(level): format_lazy(_("Level {level}"), level=level) for level in range(LEVELS)}


def _weights_hold(value: Any) -> bool:
    if not isinstance(value, Mapping) or set(value) != set(WEIGHTS):
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

    TITLE = _("Search")
    CHECKS = {
        "similarity_threshold": number(0, 1).described(
            _("Lowest similarity"), _("a cosine from which a memory is a candidate")
        ),
        "word_floor": number(0, 1).described(
            _("Lowest word score"), _("a word score from which a memory is a candidate")
        ),
        "candidate_limit": whole(1, 1000).described(
            _("Candidates"), _("the most candidates that are ranked"), _("memories")
        ),
        "top_k_results": whole(1, 200).described(_("Results"), _("the most results of a search"), _("memories")),
        "score_weights": Check(
            _weights_hold,
            _("numbers from 0 to 1 for similarity, strength and recency that sum to 1"),
            Input.PARTS,
            parts=WEIGHTS,
        ).described(_("Weights of the ranking"), _("what relevance, strength and recency count in the ranking")),
        "recency_half_life_days": number(0, 36500, above=True).described(
            _("Half-life of recency"), _("days without use after which recency has halved"), _("days")
        ),
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
    max_archived_share: float = 0.2

    TITLE = _("Strength")
    CHECKS = {
        "initial_strength": number(0, 1000).described(_("Initial strength"), _("a new memory's strength")),
        "initial_strength_education": number(0, 1000).described(
            _("Initial strength of teaching material"), _("the same for the source `education`")
        ),
        "strength_increment_on_use": number(0, 1000).described(
            _("Gain by a use"), _("what a use adds; so does writing the same text again")
        ),
        "perspective_strength_increment": number(0, 1000).described(
            _("Gain in a perspective"), _("what a use adds in its perspective")
        ),
        "archive_threshold": number(0, 1000).described(
            _("Archive threshold"), _("strength at or below which sleep archives")
        ),
        "reactivation_strength": number(0, 1000).described(
            _("Strength after reactivation"), _("strength of a memory that was reactivated")
        ),
        "expected_tasks_per_day": whole(1, 100_000).described(
            _("Expected tasks"),
            _("turns the daily targets into a rate per task, for `decay_clock` `task`"),
            _("tasks a day"),
        ),
        "consolidation_thresholds": Check(
            _thresholds_hold,
            _("six whole numbers, ascending, the first of them 0"),
            Input.PARTS,
            parts=LEVEL_NAMES,
            is_list=True,
        ).described(_("Uses until each level"), _("uses from which a memory has level 0, 1, … 5"), _("uses")),
        "daily_decay_targets": Check(
            _targets_hold, _("a number above 0 to 1 for each of the levels 0 to 5"), Input.PARTS, parts=LEVEL_NAMES
        ).described(_("What a day leaves"), _("what is left of a strength after a day, by level")),
        "decay_clock": one_of({"elapsed": _("the time that passed"), "task": _("completed tasks")}).described(
            _("Clock of decay"), _("decay by the time that passed, or by the tasks that were completed")
        ),
        "sleeps_nightly": switch().described(_("Nightly sleep"), _("whether the nightly schedule includes the memory")),
        "near_duplicates": one_of(
            {"propose": _("propose a merge"), "merge": _("merge"), "off": _("do not detect")}
        ).described(
            _("Near-duplicates"),
            _(
                "what sleep does with near-duplicates: propose to merge them, merge those without a person's decision, "
                "or ignore them"
            ),
        ),
        "archived_repeats": one_of({REVIEW: _("pending"), "reactivate": _("active again")}).described(
            _("Archived texts that are written again"),
            _("when a text that a person archived is written again: it is pending, or active again"),
        ),
        "use_detection": one_of(
            {"keywords": _("by words"), "embedding": _("by meaning"), "llm": _("by a language model")}
        ).described(_("Detection of use"), _("how a task's result is searched for the memories that it used")),
        "archived_use": one_of({"reactivate": _("active again"), "refuse": _("refused")}).described(
            _("Use of archived memories"),
            _(
                "whether a report of use reactivates memories that a sleep archived; those that a person archived, or "
                "that have ended, stay archived (409)"
            ),
        ),
        "impact_user_positive": number(0, 1000).described(_("Impact of praise"), _("impact of a user's praise")),
        "impact_task_success": number(0, 1000).described(
            _("Impact of a success"), _("impact of a task that succeeded")
        ),
        "impact_prevented_error": number(0, 1000).described(
            _("Impact of a prevented error"), _("impact of an error that was prevented")
        ),
        "impact_to_strength_ratio": number(0, 1000).described(
            _("Strength per impact"), _("what an impact of 1 adds to the strength")
        ),
        "max_active_memories": whole(1, 10_000_000).described(
            _("Most active memories"),
            _("the most active memories of an actor, enforced by sleep, weakest first; pinned ones count and stay"),
            _("memories"),
        ),
        "max_archived_share": number(0, 1, above=True).described(
            _("Most archived in a night"),
            _(
                "the largest share of an actor's active memories that sleep archives within a day, if more than 20; "
                "the others wait for a person or the next night; 1: no limit"
            ),
        ),
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
        "max_archived_share": (0.05, 0.5),
    }

    def most_archived(self, *, active: int, lately: int) -> int | None:
        """Return how many of the `active` memories a sleep may archive after `lately` within a day; None: all."""
        if self.max_archived_share >= 1:
            return None
        return max(0, max(MIN_ARCHIVED, math.floor(self.max_archived_share * (active + lately))) - lately)

    @property
    def decay_targets(self) -> tuple[float, ...]:
        """Return the share of strength left after a day, by level."""
        if not self.daily_decay_targets:
            return (0.95, 0.97, 0.98, 0.99, 0.995, 0.998)
        by_name = {str(level): target for level, target in self.daily_decay_targets.items()}
        return tuple(by_name[str(level)] for level in range(LEVELS))

    @cached_property
    def rates(self) -> tuple[float, ...]:
        """The logarithm of the share of strength left after a day, or after a task by that clock (SPEC S4)."""
        unit = self.expected_tasks_per_day if self.decay_clock == "task" else 1
        return tuple(math.log(target) / unit for target in self.decay_targets)

    def values(self) -> dict[str, Any]:
        targets = {str(level): target for level, target in enumerate(self.decay_targets)}
        return {**super().values(), "daily_decay_targets": targets}


@dataclass(frozen=True)
class ReviewPolicy(Policy):
    """Decisions about memories that wait (ADR 67)."""

    second_reviewer: str = "off"

    TITLE = _("Review")
    CHECKS = {
        "second_reviewer": one_of(
            {"off": _("one person"), SHARED: _("two for what other agents read"), ALL_WAITING: _("two people")}
        ).described(
            _("Second reviewer"),
            _(
                "`all`: a memory that waits becomes active when two people have approved it. `shared`: only one that "
                "other agents read. No effect while fewer than two people may review"
            ),
        )
    }
    OPERATOR_ONLY = frozenset(CHECKS)


@dataclass(frozen=True)
class ExtractionPolicy(Policy):
    """Limits of extraction and reflection (SPEC L2, L3)."""

    extraction_max_tokens: int = 4000
    reflection_after_episodes: int = 5
    write_cues: bool = False

    TITLE = _("Long-term strategies")
    CHECKS = {
        "extraction_max_tokens": whole(500, 100_000).described(
            _("Size of a call"),
            _("how much of a conversation one call reads; a quarter of it is preceding messages"),
            _("tokens"),
        ),
        "reflection_after_episodes": whole(1, 20).described(
            _("Episodes until a reflection"),
            _("new episodes from which lessons are drawn, without waiting for a session to end"),
            _("episodes"),
        ),
        "write_cues": switch().described(
            _("Cues by a model"),
            _(
                "whether a language model reads new memories that have no cues, and writes other words by which "
                "searches find them; what is extracted has cues without it"
            ),
        ),
    }


@dataclass(frozen=True)
class ProfilePolicy(Policy):
    """Configure the profile that a model writes of a user's preferences and facts (ADR 39)."""

    write_profile: bool = False
    write_profile_after: int = 5

    TITLE = _("Written profiles")
    CHECKS = {
        "write_profile": switch().described(
            _("Written by a model"),
            _(
                "whether a language model shortens the profile to a text; if not, contexts contain the memories "
                "themselves"
            ),
        ),
        "write_profile_after": whole(1, 200).described(
            _("Changes until it is rewritten"),
            _("how many of the profile's memories must be new, changed or removed before a model rewrites it"),
            _("memories"),
        ),
    }
