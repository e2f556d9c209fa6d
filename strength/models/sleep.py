"""How an actor's memory works and rests: the tasks it completed, and its sleeps."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from memoryhub.auth.domain import Principal, PrincipalKind
from memoryhub.ids import new_id
from memoryhub.tenancy.models import Actor
from strength.domain.policy import LEVELS
from strength.domain.sleep import Phase, RunState, Trigger
from strength.domain.strength import new_clock
from strength.models.memory import choices


class SleepState(models.Model):
    """An actor's clock of tasks and sleeps; its row is what those who begin a sleep queue for.

    Memories changed after `compared_until` (or just then, behind `compared_after`) have not been looked at for
    near-duplicates.

    `clock` is the logarithm of what is left, by level, of what has been on it from the beginning; each night moves it
    on to its moment `clock_at`, and to the tasks completed by then. What begins with `before_` is where it stood before
    the sleep `clock_of` (a number), which moved it last; where that was undone, both are the same.
    """

    actor = models.OneToOneField(Actor, on_delete=models.CASCADE, primary_key=True, related_name="+")
    tasks_completed = models.PositiveIntegerField(default=0)
    runs = models.PositiveIntegerField(default=0)
    clock = ArrayField(models.FloatField(), size=LEVELS, default=new_clock, db_default=new_clock())
    clock_at = models.DateTimeField(null=True)
    clock_task = models.IntegerField(db_default=0)
    clock_of = models.IntegerField(db_default=0)
    before_clock = ArrayField(models.FloatField(), size=LEVELS, default=new_clock, db_default=new_clock())
    before_clock_at = models.DateTimeField(null=True)
    before_clock_task = models.IntegerField(db_default=0)
    slept_at = models.DateTimeField(null=True)
    compared_until = models.DateTimeField(null=True)
    compared_after = models.UUIDField(null=True)

    class Meta:
        db_table = "strength_rhythm"  # exports call tables by their names: files of before can be read

    def __str__(self) -> str:
        return str(self.actor_id)


class SleepRun(models.Model):
    """One sleep of an actor, or the preview of one (SPEC S5, S6).

    `now` is the moment it reckons for, however long it takes. Where it is: in its `phase`, behind the memory `after`
    (when comparing, behind the last that changed at `compared_at`; it began at `compared_since`). `changes` is what a
    preview found: ids and numbers, no texts. `group` binds those that one call began together.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    number = models.PositiveIntegerField(null=True, help_text="Counted per actor; null for a preview.")
    group = models.UUIDField(null=True)
    trigger = models.CharField(max_length=10, choices=choices(Trigger))
    dry_run = models.BooleanField(default=False)
    state = models.CharField(max_length=8, choices=choices(RunState), default=RunState.RUNNING)
    now = models.DateTimeField()
    phase = models.CharField(max_length=8, choices=choices(Phase), default=Phase.FADE)
    after = models.UUIDField(null=True)
    compared_at = models.DateTimeField(null=True)
    compared_since = models.DateTimeField(null=True)
    policy = models.JSONField(default=dict)
    tasks_completed = models.PositiveIntegerField(default=0)
    slept_count = models.PositiveIntegerField(default=0)
    decayed_count = models.PositiveIntegerField(default=0)
    archived_count = models.PositiveIntegerField(default=0)
    consolidated_count = models.PositiveIntegerField(default=0)
    merged_count = models.PositiveIntegerField(default=0)
    proposed_count = models.PositiveIntegerField(default=0)
    changes = models.JSONField(default=list)
    errors = models.JSONField(default=list)
    who_kind = models.CharField(max_length=10, choices=choices(PrincipalKind))
    who_id = models.CharField(max_length=64)
    who_name = models.CharField(max_length=150)
    started_at = models.DateTimeField(db_default=Now())
    processed_at = models.DateTimeField(null=True)
    undone_at = models.DateTimeField(null=True)
    undone_by = models.CharField(max_length=150, blank=True)

    class Meta:
        verbose_name = "sleep"
        verbose_name_plural = "sleeps"
        ordering = ["-now", "-id"]
        constraints = [
            models.UniqueConstraint(name="sleep_number_once", fields=["actor", "number"]),
            models.UniqueConstraint(
                name="sleep_one_at_a_time", fields=["actor"], condition=Q(state="running", dry_run=False)
            ),
        ]
        indexes = [
            models.Index(fields=["actor", "-now", "-id"], name="sleep_newest_first"),
            models.Index(fields=["group"], name="sleep_group", condition=Q(group__isnull=False)),
        ]

    @property
    def sleeper(self) -> Principal:
        """Return who began it, as whom it acts."""
        return Principal(kind=PrincipalKind(self.who_kind), id=self.who_id, name=self.who_name)

    def __str__(self) -> str:
        return f"{self.get_trigger_display()} {str(self.id)[:13]}"
