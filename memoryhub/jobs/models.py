"""Models of jobs, workers and schedules."""

from typing import Any, ClassVar

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from memoryhub.ids import new_id
from memoryhub.jobs.retries import ENDED_BADLY, OPEN, State
from memoryhub.tenancy.models import Actor

STATES = [(state.value, state.value) for state in State]


class JobQuerySet(models.QuerySet["Job"]):
    def open(self) -> "JobQuerySet":
        return self.filter(state__in=OPEN)

    def ended_badly(self) -> "JobQuerySet":
        return self.filter(state__in=ENDED_BADLY)


class Job(models.Model):
    """A background job (SPEC A8). This row is authoritative; django-q2 only passes its id to a worker.

    `attempts` and `worker` are the fencing token: the number rises with every claim, so older tokens are void.
    `payload` and `error` hold ids, numbers and messages of our own, never a text of a user.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    kind = models.CharField(max_length=64)
    key = models.CharField(
        max_length=255, blank=True, help_text="At most one job per key waits and one runs; empty: any number."
    )
    payload = models.JSONField(default=dict, blank=True)
    order = models.JSONField(null=True, blank=True, help_text="The caller that ordered it; empty: the server.")
    traceparent = models.CharField(max_length=55, null=True, blank=True, help_text="The trace of what caused it.")
    lane = models.CharField(max_length=64, db_default="", help_text="Caller or user by whom jobs take turns.")
    turn_at = models.DateTimeField(db_default=Now(), help_text="Its place in the order of the queue.")
    state = models.CharField(max_length=7, choices=STATES, default=State.QUEUED)
    attempts = models.PositiveIntegerField(default=0)
    excused = models.PositiveIntegerField(default=0, help_text="Attempts that do not count against it.")
    excused_since = models.DateTimeField(null=True, blank=True)
    due_at = models.DateTimeField(help_text="When it may next be offered to a worker.")
    lease_until = models.DateTimeField(null=True, blank=True)
    worker = models.UUIDField(null=True, blank=True, help_text="The worker that runs it.")
    error = models.TextField(blank=True)
    cursor = models.JSONField(null=True, blank=True, help_text="Where long work continues after an interruption.")
    progress_done = models.PositiveBigIntegerField(null=True, blank=True)
    progress_total = models.PositiveBigIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[JobQuerySet] = JobQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        app_label = "memoryhub"
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                name="job_waits_once",
                fields=["actor", "kind", "key"],
                nulls_distinct=False,
                condition=Q(state=State.QUEUED, attempts=0) & ~Q(key=""),
            ),
            models.UniqueConstraint(
                name="job_runs_once",
                fields=["actor", "kind", "key"],
                nulls_distinct=False,
                condition=Q(state=State.RUNNING) & ~Q(key=""),
            ),
            models.CheckConstraint(name="job_state_is_known", condition=Q(state__in=[state.value for state in State])),
            models.CheckConstraint(
                name="job_runs_under_a_lease",
                condition=Q(state=State.RUNNING, lease_until__isnull=False)
                | (~Q(state=State.RUNNING) & Q(lease_until=None)),
            ),
        ]
        indexes = [
            models.Index(fields=["turn_at", "due_at"], name="job_due", condition=Q(state=State.QUEUED)),
            models.Index(fields=["lane", "turn_at"], name="job_turns", condition=Q(state__in=OPEN)),
            models.Index(fields=["lease_until"], name="job_leased", condition=Q(state=State.RUNNING)),
            # Excludes done jobs, which are many and are never counted.
            models.Index(fields=["kind", "state"], name="job_by_kind", condition=~Q(state=State.DONE)),
            models.Index(
                fields=["actor", "kind", "key"], name="job_waiting_by_key", condition=Q(state=State.QUEUED) & ~Q(key="")
            ),
            models.Index(fields=["-created_at", "-id"], name="job_newest_first"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {str(self.id)[:8]}"

    @property
    def progress(self) -> dict[str, Any] | None:
        if self.progress_done is None:
            return None
        return {"done": self.progress_done, "total": self.progress_total}


class Worker(models.Model):
    """A worker process; its row is renewed every five seconds."""

    id = models.UUIDField(primary_key=True, editable=False)
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    settings = models.JSONField(db_default={}, help_text="Settings of its host that all hosts must have alike.")
    started_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        app_label = "memoryhub"
        ordering = ["started_at"]

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


class ScheduleState(models.Model):
    name = models.CharField(max_length=64, primary_key=True)
    next_at = models.DateTimeField()
    last_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        app_label = "memoryhub"
        ordering = ["name"]
        verbose_name = "schedule"

    def __str__(self) -> str:
        return self.name
