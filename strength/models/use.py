"""How memories were used: tasks, reports that count once, and how strength went over time."""

from enum import StrEnum

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from memoryhub.ids import new_id
from memoryhub.tenancy.models import Actor
from strength.domain.history import PointKind
from strength.models.memories import Memory, choices


class TaskState(StrEnum):
    """A task completes once; one whose function raised has failed, and reinforced nothing."""

    BEGUN = "begun"
    COMPLETED = "completed"
    FAILED = "failed"


class Task(models.Model):
    """A task that was begun with some memories, and what came of it (SPEC S8)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    state = models.CharField(max_length=9, choices=choices(TaskState), default=TaskState.BEGUN)
    query = models.TextField()
    perspective = models.CharField(max_length=100, null=True)
    offered = models.JSONField(default=list, help_text="The memories' ids with their scores, best first.")
    result = models.JSONField(null=True)
    used_memory_ids = ArrayField(models.UUIDField(), default=list)
    recorded_memory_id = models.UUIDField(null=True)
    errors = models.JSONField(default=list)
    created_at = models.DateTimeField(db_default=Now())
    completed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["actor", "-created_at", "-id"], name="task_newest_first"),
            models.Index(fields=["created_at"], name="task_oldest_first"),
        ]

    def __str__(self) -> str:
        return f"{self.get_state_display()} {str(self.id)[:13]}"


class UseReport(models.Model):
    """That a memory was used in a task, so that it counts once however often it is said (SPEC S2).

    The task is a SHA-256 of its client's word for it, of `Task` or not: it may be another actor's.
    """

    pk = models.CompositePrimaryKey("actor_id", "memory_id", "task")
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    memory = models.ForeignKey(Memory, on_delete=models.CASCADE, related_name="+")
    task = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["created_at"], name="use_oldest_first")]

    def __str__(self) -> str:
        return str(self.memory_id)


class StrengthPoint(models.Model):
    """How strong a memory was after what happened to it: one row for each sort of thing and day, the last counts.

    Decay has no rows: between two points it follows from `faded` and the actor's sleeps (`strength.domain.history`).
    """

    pk = models.CompositePrimaryKey("actor_id", "memory_id", "day", "kind")
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    memory = models.ForeignKey(Memory, on_delete=models.CASCADE, related_name="+")
    day = models.DateField()
    kind = models.CharField(max_length=10, choices=choices(PointKind))
    at = models.DateTimeField()
    before = models.FloatField()
    strength = models.FloatField()
    faded = models.FloatField()
    level = models.PositiveSmallIntegerField()
    times = models.PositiveIntegerField(default=1)
    # When the first of them was, and how far the memory had faded by then: the moment of `before`. Rows of long ago
    # do not tell.
    began_at = models.DateTimeField(null=True)
    faded_before = models.FloatField(null=True)

    def __str__(self) -> str:
        return str(self.memory_id)
