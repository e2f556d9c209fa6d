"""States and changes of sleeps and merges, and the rules by which two memories are merged (SPEC S5-S7)."""

from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from strength.domain.policy import StrengthPolicy
from strength.domain.strength import Numbers, consolidation_level


class Trigger(StrEnum):
    API = "api"
    TASK = "task"
    SCHEDULE = "schedule"
    COMMAND = "command"
    CURATOR = "curator"


class RunState(StrEnum):
    """State of a sleep. An interrupted one is running; the next trigger continues it."""

    RUNNING = "running"
    DONE = "done"
    UNDONE = "undone"


class ChangeKind(StrEnum):
    DECAY = "decay"
    LEVEL = "level"
    ARCHIVE = "archive"
    HOLD = "hold"
    """Due to be archived, and left to a person or the next sleep."""
    MERGE = "merge"
    PROPOSE_MERGE = "propose_merge"


CHANGE_ORDER = (
    ChangeKind.ARCHIVE, ChangeKind.HOLD, ChangeKind.MERGE, ChangeKind.PROPOSE_MERGE, ChangeKind.LEVEL, ChangeKind.DECAY,
)  # fmt: skip
"""Most significant first."""


class ChangeReason(StrEnum):
    """Reasons stored in previews and revisions."""

    FADED = "faded"
    USED_ENOUGH = "uses_reach_another_level"
    WEAK = "at_or_below_archive_threshold"
    OVER_LIMIT = "above_max_active_memories"
    EXPIRED = "no_longer_valid"
    DUPLICATE = "says_the_same"


class MergeState(StrEnum):
    """State of a merge proposal. A dismissed pair is not proposed again."""

    PROPOSED = "proposed"
    MERGED = "merged"
    DISMISSED = "dismissed"
    WITHDRAWN = "withdrawn"
    UNDONE = "undone"


def keep_rank(
    *, locked: bool, pinned: bool, strength: float, created_at: datetime, key: UUID
) -> tuple[bool, bool, float, datetime, str]:
    """Return a sort key of which a merge keeps the least: edited before pinned, stronger and older memories."""
    return not locked, not pinned, -strength, created_at, str(key)


def merged_numbers(kept: Numbers, absorbed: Numbers, policy: StrengthPolicy) -> Numbers:
    """Return the kept memory's numbers after a merge: the greater strength, the sums of uses and impacts."""
    uses = kept.access_count + absorbed.access_count
    return replace(
        kept,
        strength=max(kept.strength, absorbed.strength),
        access_count=uses,
        impact_score=kept.impact_score + absorbed.impact_score,
        consolidation_level=consolidation_level(uses, policy.consolidation_thresholds),
    )
