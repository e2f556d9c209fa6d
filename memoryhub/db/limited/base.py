"""The module in which Django looks for the connections of a backend."""

from memoryhub.db.reach import ReachWrapper as DatabaseWrapper

__all__ = ["DatabaseWrapper"]
