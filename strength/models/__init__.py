"""The models of `strength`."""

from strength.models.expectation import Expectation, ExpectationState
from strength.models.memory import (
    Facets,
    Memory,
    MemoryIndex,
    MemoryNumbers,
    MemoryQuerySet,
    MemorySource,
    PerspectiveStrength,
)
from strength.models.plan import ReviewComment, ReviewPlan
from strength.models.profile import Profile, ProfileVersion
from strength.models.revision import (
    MemoryChange,
    MemoryRevision,
    Merge,
    NewsPlace,
    ReviewHold,
    ReviewInstructions,
    SavedView,
    Tombstone,
)
from strength.models.rule import ReviewRule
from strength.models.sleep import SleepRun, SleepState
from strength.models.task import ReflectionCursor, StrategyCursor, StrengthPoint, Task, UseReport

__all__ = [
    "Expectation",
    "ExpectationState",
    "Facets",
    "Memory",
    "MemoryChange",
    "MemoryIndex",
    "MemoryNumbers",
    "MemoryQuerySet",
    "MemoryRevision",
    "MemorySource",
    "Merge",
    "NewsPlace",
    "PerspectiveStrength",
    "Profile",
    "ProfileVersion",
    "ReflectionCursor",
    "ReviewComment",
    "ReviewHold",
    "ReviewInstructions",
    "ReviewPlan",
    "ReviewRule",
    "SavedView",
    "SleepRun",
    "SleepState",
    "StrategyCursor",
    "StrengthPoint",
    "Task",
    "Tombstone",
    "UseReport",
]
