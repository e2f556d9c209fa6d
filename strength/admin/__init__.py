"""Admin screens of memories, merges, profiles, sleep runs, tasks and tombstones."""

from strength.admin import memories, merges, profiles, sleep, tasks, tombstones  # noqa: F401
