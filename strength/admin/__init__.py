"""Admin screens of memories, merges, profiles, sleep runs, tasks and tombstones."""

from strength.admin.memories import MemoryAdmin
from strength.admin.merges import MergeAdmin
from strength.admin.panels import tiles
from strength.admin.profiles import ProfileAdmin
from strength.admin.sleep import SleepRunAdmin
from strength.admin.tasks import TaskAdmin
from strength.admin.tombstones import TombstoneAdmin

__all__ = [
    "MemoryAdmin",
    "MergeAdmin",
    "ProfileAdmin",
    "SleepRunAdmin",
    "TaskAdmin",
    "TombstoneAdmin",
    "tiles",
]
