"""Screens of memories and their nights, for the people who curate them."""

from strength.admin.decisions import TombstoneAdmin
from strength.admin.figures import tiles
from strength.admin.memories import MemoryAdmin
from strength.admin.merges import MergeAdmin
from strength.admin.sleeps import SleepRunAdmin
from strength.admin.tasks import TaskAdmin

__all__ = ["MemoryAdmin", "MergeAdmin", "SleepRunAdmin", "TaskAdmin", "TombstoneAdmin", "tiles"]
