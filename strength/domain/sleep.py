"""The words of a sleep: what begins it, how far it is, and what it does to a memory (SPEC S5–S7)."""

from enum import StrEnum


class Trigger(StrEnum):
    """What began a sleep."""

    API = "api"
    TASK = "task"
    SCHEDULE = "schedule"
    COMMAND = "command"
    CURATOR = "curator"


class RunState(StrEnum):
    """Where a sleep stands. One that was killed is still running, and the next trigger goes on with it."""

    RUNNING = "running"
    DONE = "done"
    UNDONE = "undone"


class Phase(StrEnum):
    """How far a sleep has come: it fades and archives the weak, then what is too much, then compares what is new."""

    FADE = "fade"
    CROWD = "crowd"
    COMPARE = "compare"


class ChangeKind(StrEnum):
    """What a sleep does to a memory."""

    DECAY = "decay"
    LEVEL = "level"
    ARCHIVE = "archive"
    MERGE = "merge"
    PROPOSE_MERGE = "propose_merge"


class Why(StrEnum):
    """Why a sleep did it, in the words that a preview shows."""

    FADED = "faded"
    USED_ENOUGH = "uses_reach_another_level"
    WEAK = "at_or_below_archive_threshold"
    CROWDED = "above_max_active_memories"
    SAME = "says_the_same"
