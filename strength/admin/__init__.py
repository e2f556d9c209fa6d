"""Screens of memories, for the people who curate them."""

from strength.admin.memories import MemoryAdmin, tiles

__all__ = ["MemoryAdmin", "tiles"]
