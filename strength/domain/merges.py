"""Which of two memories that say the same stays, and how strong it is then: pure rules (SPEC S5)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from strength.domain.policy import StrengthPolicy
from strength.domain.strength import Numbers, consolidation_level


class MergeState(StrEnum):
    """What became of a proposal. A dismissed one is a decision: the pair is not proposed again."""

    PROPOSED = "proposed"
    MERGED = "merged"
    DISMISSED = "dismissed"
    WITHDRAWN = "withdrawn"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Side:
    """One of two memories, by what decides which of them stays."""

    key: Any
    locked: bool
    pinned: bool
    strength: float
    created_at: datetime

    @property
    def is_decided(self) -> bool:
        """Whether a person has decided about it: such a memory is never absorbed without being asked."""
        return self.locked or self.pinned


def kept_first(one: Side, other: Side) -> tuple[Side, Side]:
    """Return the two with the one that stays first: what a person put right, pinned, the stronger, the older."""
    ranked = sorted(
        (one, other),
        key=lambda side: (not side.locked, not side.pinned, -side.strength, side.created_at, str(side.key)),
    )
    return ranked[0], ranked[1]


def joined(kept: Numbers, absorbed: Numbers, policy: StrengthPolicy) -> Numbers:
    """Return the numbers of the memory that stays: the greater strength, and the uses and impacts of both."""
    uses = kept.access_count + absorbed.access_count
    return Numbers(
        strength=max(kept.strength, absorbed.strength),
        access_count=uses,
        impact_score=kept.impact_score + absorbed.impact_score,
        consolidation_level=consolidation_level(uses, policy.consolidation_thresholds),
        faded=kept.faded,
    )
