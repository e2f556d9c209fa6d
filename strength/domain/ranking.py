"""Ranking: the weighted score of relevance, strength and recency (SPEC M5)."""

from dataclasses import dataclass, fields
from datetime import datetime

from strength.domain.policy import SearchPolicy

FULL_STRENGTH = 2.0
SECONDS_PER_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class ScoreBreakdown:
    """The parts of a score. `similarity_raw` is None without a vector."""

    similarity_raw: float | None
    word_raw: float
    relevance: float
    similarity_weighted: float
    strength_raw: float
    strength_normalized: float
    strength_weighted: float
    recency_raw: float
    recency_weighted: float
    total: float

    def as_dict(self) -> dict[str, float | None]:
        return {name: getattr(self, name) for name in PARTS}


PARTS = tuple(each.name for each in fields(ScoreBreakdown))


def recency(last_used_at: datetime, *, now: datetime, half_life_days: float) -> float:
    """Return 1 for a memory used now, halved every `half_life_days`; a future time counts as now."""
    days = max(0.0, (now - last_used_at).total_seconds()) / SECONDS_PER_DAY
    return float(0.5 ** (days / half_life_days))


def strength_normalized(strength: float) -> float:
    """Return strength / 2, at most 1: ranking rewards no more than strength 2."""
    return min(1.0, max(0.0, strength) / FULL_STRENGTH)


def score(
    *,
    similarity: float | None,
    word_score: float,
    relevance: float,
    strength: float,
    last_used_at: datetime,
    now: datetime,
    policy: SearchPolicy,
) -> ScoreBreakdown:
    """Return `relevance × w1 + normalised strength × w2 + recency × w3` with its parts.

    `strength` is the greater of the overall strength and, where a perspective was asked for, the
    strength in it; `last_used_at` is the last use, else the creation.
    """
    freshness = recency(last_used_at, now=now, half_life_days=policy.recency_half_life_days)
    normalized = strength_normalized(strength)
    weights = policy.weights
    weighted = (relevance * weights["similarity"], normalized * weights["strength"], freshness * weights["recency"])
    return ScoreBreakdown(
        similarity_raw=similarity,
        word_raw=word_score,
        relevance=relevance,
        similarity_weighted=weighted[0],
        strength_raw=strength,
        strength_normalized=normalized,
        strength_weighted=weighted[1],
        recency_raw=freshness,
        recency_weighted=weighted[2],
        total=sum(weighted),
    )
