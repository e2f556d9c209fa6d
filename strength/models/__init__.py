"""The models of `strength`."""

from strength.models.memory import (
    Facets,
    Memory,
    MemoryIndex,
    MemoryNumbers,
    MemoryQuerySet,
    MemorySource,
    PerspectiveStrength,
)
from strength.models.profile import Profile, ProfileVersion
from strength.models.revision import (
    MemoryChange,
    MemoryHistory,
    MemoryRevision,
    Merge,
    ReviewHold,
    ReviewInstructions,
    Revision,
    SavedView,
    Tombstone,
)
from strength.models.sleep import SleepRun, SleepState
from strength.models.task import ReflectionCursor, StrategyCursor, StrengthPoint, Task, UseReport

__all__ = [
    "Facets",
    "Memory",
    "MemoryChange",
    "MemoryHistory",
    "MemoryIndex",
    "MemoryNumbers",
    "MemoryQuerySet",
    "MemoryRevision",
    "MemorySource",
    "Merge",
    "PerspectiveStrength",
    "Profile",
    "ProfileVersion",
    "ReflectionCursor",
    "ReviewHold",
    "ReviewInstructions",
    "Revision",
    "SavedView",
    "SleepRun",
    "SleepState",
    "StrategyCursor",
    "StrengthPoint",
    "Task",
    "Tombstone",
    "UseReport",
]
