"""Where a task stands (SPEC S8)."""

from enum import StrEnum


class TaskState(StrEnum):
    """A task completes once; one whose function raised has failed, and reinforced nothing."""

    BEGUN = "begun"
    COMPLETED = "completed"
    FAILED = "failed"
