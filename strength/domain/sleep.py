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
    """State of a sleep. One that was killed is still running; the next trigger continues it."""

    RUNNING = "running"
    DONE = "done"
    UNDONE = "undone"


class ChangeKind(StrEnum):
    DECAY = "decay"
    LEVEL = "level"
    ARCHIVE = "archive"
    MERGE = "merge"
    PROPOSE_MERGE = "propose_merge"


CHANGE_ORDER = (ChangeKind.ARCHIVE, ChangeKind.MERGE, ChangeKind.PROPOSE_MERGE, ChangeKind.LEVEL, ChangeKind.DECAY)
"""The kinds of changes, the weightiest first."""


class Why(StrEnum):
    """Reasons of changes, as previews and revisions name them."""

    FADED = "faded"
    USED_ENOUGH = "uses_reach_another_level"
    WEAK = "at_or_below_archive_threshold"
    CROWDED = "above_max_active_memories"
    EXPIRED = "no_longer_valid"
    SAME = "says_the_same"


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
    """Return a sort key: a merge keeps the first; edited before pinned, stronger and older ones."""
    return not locked, not pinned, -strength, created_at, str(key)


def joined(kept: Numbers, absorbed: Numbers, policy: StrengthPolicy) -> Numbers:
    """Return the kept memory's numbers after a merge: the greater strength, and the uses and impacts of both."""
    uses = kept.access_count + absorbed.access_count
    return replace(
        kept,
        strength=max(kept.strength, absorbed.strength),
        access_count=uses,
        impact_score=kept.impact_score + absorbed.impact_score,
        consolidation_level=consolidation_level(uses, policy.consolidation_thresholds),
    )
