"""The rows of `strength`, by what they are about."""

from strength.models.curation import MemoryRevision, Merge, Tombstone
from strength.models.memories import (
    CurrentNumbers,
    Facets,
    Memory,
    MemoryIndex,
    MemoryNumbers,
    MemoryQuerySet,
    MemorySource,
    NumbersOfMemory,
    PerspectiveStrength,
)
from strength.models.sleep import Rhythm, SleepRun
from strength.models.strategies import ReflectionCursor, StrategyCursor
from strength.models.use import StrengthPoint, Task, UseReport

__all__ = [
    "CurrentNumbers",
    "Facets",
    "Memory",
    "MemoryIndex",
    "MemoryNumbers",
    "MemoryQuerySet",
    "MemoryRevision",
    "MemorySource",
    "Merge",
    "NumbersOfMemory",
    "PerspectiveStrength",
    "ReflectionCursor",
    "Rhythm",
    "SleepRun",
    "StrategyCursor",
    "StrengthPoint",
    "Task",
    "Tombstone",
    "UseReport",
]
