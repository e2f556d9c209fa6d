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
from strength.models.revision import MemoryChange, MemoryRevision, Merge, Tombstone
from strength.models.sleep import SleepRun, SleepState
from strength.models.task import ReflectionCursor, StrategyCursor, StrengthPoint, Task, UseReport

__all__ = [
    "Facets",
    "Memory",
    "MemoryChange",
    "MemoryIndex",
    "MemoryNumbers",
    "MemoryQuerySet",
    "MemoryRevision",
    "MemorySource",
    "Merge",
    "PerspectiveStrength",
    "ReflectionCursor",
    "SleepRun",
    "SleepState",
    "StrategyCursor",
    "StrengthPoint",
    "Task",
    "Tombstone",
    "UseReport",
]
