"""Admin screens of memories, merges, profiles, rules, sleep runs, tasks and tombstones."""

from strength.admin import memories, merges, profiles, rules, sleep, tasks, tombstones  # noqa: F401
