"""How strong a memory is when it is new, and how it grows with use: pure formulas (SPEC S1, S2)."""

from bisect import bisect_right
from collections.abc import Sequence

from strength.domain.memories import Source
from strength.domain.policy import StrengthPolicy


def initial_strength(policy: StrengthPolicy, *, source: Source, stated: float | None) -> float:
    """Return a new memory's strength: what the writer stated, else by where it comes from."""
    if stated is not None:
        return stated
    return policy.initial_strength_education if source is Source.EDUCATION else policy.initial_strength


def consolidation_level(access_count: int, thresholds: Sequence[int]) -> int:
    """Return the level 0–5: how many thresholds above the first the uses have reached."""
    return bisect_right(thresholds, access_count) - 1
