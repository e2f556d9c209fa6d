"""Tasks, reports of use, the history of strengths, and the cursors of extraction strategies."""

from enum import StrEnum

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from memoryhub.tenancy.models import Actor, ActorRow, KeyWithinActor, OwnedRow
from memoryhub.tenancy.policy import Trust
from strength.domain.extraction import MESSAGE_STRATEGIES, Strategy
from strength.domain.strength import PointKind
from strength.models.memory import Memory
from strength.models.sleep import choices


class TaskState(StrEnum):
    """A task completes once; if its function raises, it has failed and reinforces nothing."""

    BEGUN = "begun"
    COMPLETED = "completed"
    FAILED = "failed"


class Task(ActorRow):
    """A task that was begun with some memories, and its result (SPEC S8)."""

    state = models.CharField(max_length=9, choices=choices(TaskState), default=TaskState.BEGUN)
    query = models.TextField()
    perspective = models.CharField(max_length=100, null=True)
    trust = models.CharField(
        max_length=10, choices=choices(Trust), default=Trust.TRUSTED, db_default=Trust.TRUSTED,
        help_text="Of who began and completed it; nothing is learnt from an untrusted query.",
    )  # fmt: skip
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


class UseReport(OwnedRow):
    """A use of a memory in a task, which counts once however often it is reported (SPEC S2).

    The task is the SHA-256 of the client's name for it, which need not be a `Task`, and may be another actor's.
    """

    pk = models.CompositePrimaryKey("actor_id", "memory_id", "task")
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    memory = KeyWithinActor(Memory, on_delete=models.CASCADE, related_name="+")
    task = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["created_at"], name="use_oldest_first")]

    def __str__(self) -> str:
        return str(self.memory_id)


class StrengthPoint(OwnedRow):
    """A memory's strength after an event; one row for each kind and day holds the last.

    Decay has no rows: from a point on it follows from its `mark` and the clocks of the actor's sleeps; null where the
    memory did not fade then, and in rows of former releases.
    """

    pk = models.CompositePrimaryKey("actor_id", "memory_id", "day", "kind")
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    memory = KeyWithinActor(Memory, on_delete=models.CASCADE, related_name="+")
    day = models.DateField()
    kind = models.CharField(max_length=10, choices=choices(PointKind))
    at = models.DateTimeField()
    before = models.FloatField()
    strength = models.FloatField()
    mark = models.FloatField(null=True)
    level = models.PositiveSmallIntegerField()
    times = models.PositiveIntegerField(default=1)

    def __str__(self) -> str:
        return str(self.memory_id)


READERS = (*MESSAGE_STRATEGIES, Strategy.SUMMARY)


class StrategyCursor(OwnedRow):
    """Position of a strategy in a session: read up to the message `read_until`; no row means nothing read.

    Between `passed_after` and `passed_until` messages were skipped, because the strategy was off or no model would
    read them; a backfill returns there. The session is a plain id, because `strength` must be able to live apart.
    For the strategy `summary`, `memory_id` is the memory of the session's summary: without it, a person has
    deleted it.
    """

    pk = models.CompositePrimaryKey("actor_id", "session_id", "strategy")
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    strategy = models.CharField(max_length=20, choices=choices(READERS))
    session_id = models.UUIDField()
    read_until = models.PositiveIntegerField(default=0)
    passed_until = models.PositiveIntegerField(default=0)
    passed_after = models.PositiveIntegerField(db_default=0)
    memory_id = models.UUIDField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(name="cursor_passed_is_read", condition=Q(passed_until__lte=F("read_until"))),
            models.CheckConstraint(name="cursor_passed_in_order", condition=Q(passed_after__lte=F("passed_until"))),
        ]

    def __str__(self) -> str:
        return f"{self.strategy} {self.read_until}"


class ReflectionCursor(OwnedRow):
    """Position of reflection: episodes changed before `until`, or just then up to `after`, were read.

    An episode that a person approves or edits changes, and is read once more. `has_passed` says that episodes were
    skipped because the strategy was off.
    """

    actor = models.OneToOneField(Actor, on_delete=models.CASCADE, primary_key=True, related_name="+")
    until = models.DateTimeField()
    after = models.UUIDField(null=True)
    has_passed = models.BooleanField(default=False)

    def __str__(self) -> str:
        return str(self.actor_id)
