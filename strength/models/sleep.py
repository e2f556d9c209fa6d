"""Sleep state of actors, and sleep runs."""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import ClassVar
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from memoryhub.auth.principals import Principal, PrincipalKind
from memoryhub.tenancy.models import Actor, ActorRow, OwnedRow
from strength.domain.policy import LEVELS, StrengthPolicy
from strength.domain.sleep import RunState, Trigger
from strength.domain.strength import Clock, new_clock
from strength.sql import QUERIES, execute_all, policy_values, run_query


def choices(words: Iterable[str]) -> list[tuple[str, str]]:
    return [(str(word), str(word)) for word in words]


class SleepState(OwnedRow):
    """An actor's count of tasks, decay clock and progress of sleeps; locked to begin or undo a sleep.

    Memories with a later position than (`compared_until`, `compared_after`), by `updated_at` and id, have not been
    compared yet.

    `clock` holds by level the logarithm of the cumulative decay at `clock_at` and `clock_task` tasks; `rates` is its
    change per day or, `by_task`, per task. `clock_before` is its value before the latest sleep, null once that was
    undone. `thresholds` are those of the memories' levels.
    """

    not_exported: ClassVar = frozenset({"clock_before"})

    actor = models.OneToOneField(Actor, on_delete=models.CASCADE, primary_key=True, related_name="sleep_state")
    tasks_completed = models.PositiveIntegerField(default=0)
    runs = models.PositiveIntegerField(default=0)
    clock = ArrayField(models.FloatField(), size=LEVELS, default=new_clock, db_default=new_clock())
    clock_at = models.DateTimeField(null=True)
    clock_task = models.IntegerField(db_default=0)
    rates = ArrayField(models.FloatField(), size=LEVELS, default=new_clock, db_default=new_clock())
    by_task = models.BooleanField(db_default=False)
    thresholds = ArrayField(models.IntegerField(), default=list, db_default=[])
    clock_before = ArrayField(models.FloatField(), size=LEVELS, null=True)
    slept_at = models.DateTimeField(null=True)
    compared_until = models.DateTimeField(null=True)
    compared_after = models.UUIDField(null=True)

    def __str__(self) -> str:
        return str(self.actor_id)

    @classmethod
    def of(cls, actor_id: UUID) -> "SleepState":
        """Return an actor's state, an unsaved one if there is none."""
        return cls.objects.filter(actor_id=actor_id).first() or cls(actor_id=actor_id)

    def as_clock(self) -> Clock:
        return Clock(tuple(self.clock), self.clock_at, self.clock_task, tuple(self.rates), self.by_task)

    def set_clock(self, clock: Clock) -> None:
        self.clock, self.clock_at, self.clock_task = list(clock.log_factors), clock.at, clock.tasks
        self.rates, self.by_task = list(clock.rates), clock.by_task

    @classmethod
    def after_import(cls, actor_id: UUID, rows: Collection["SleepState"], now: datetime) -> None:
        recompute_marks(actor_id, now=now)


def begin_clock(actor_id: UUID, policy: StrengthPolicy, now: datetime) -> None:
    """Start an actor's clock, unless it was started, and mark the memories by it."""
    run_query(QUERIES["begin_clock"], {**policy_values(policy), "actor_id": actor_id, "now": now})
    recompute_marks(actor_id, now=now)


def recompute_marks(
    actor_id: UUID, memory_ids: Collection[UUID] | None = None, *, now: datetime, only_ahead: bool = False
) -> None:
    """Mark memories, or all of the actor, by the current clock; with `only_ahead`, those marked ahead of it."""
    keys = None if memory_ids is None else list(memory_ids)
    values = {"actor_id": actor_id, "memory_ids": keys, "now": now, "only_ahead": only_ahead}
    execute_all(QUERIES["recompute_marks"], values)


class SleepRun(ActorRow):
    """One sleep of an actor, or the preview of one (SPEC S5, S6).

    `now` is its nominal time. Once it `compares`, archiving is done; the actor's state holds how far it has come since
    `compared_since`. `policy` holds overrides of the defaults, `changes` the result of a preview or of an undone sleep,
    without texts, and of a sleep the memories that its `allowance` left; `held_decided_at` is when a person decided
    about these. The runs of one call share a `group`. `clock` is the actor's clock after it, `before` holds the one
    before.
    """

    not_exported: ClassVar = frozenset({"before"})

    number = models.PositiveIntegerField(null=True, help_text="Counted per actor; null for a preview.")
    group = models.UUIDField(null=True)
    trigger = models.CharField(max_length=10, choices=choices(Trigger))
    dry_run = models.BooleanField(default=False)
    state = models.CharField(max_length=8, choices=choices(RunState), default=RunState.RUNNING)
    now = models.DateTimeField()
    compares = models.BooleanField(default=False)
    compared_since = models.DateTimeField(null=True)
    policy = models.JSONField(default=dict)
    tasks_completed = models.PositiveIntegerField(default=0)
    decayed_count = models.PositiveIntegerField(default=0)
    archived_count = models.PositiveIntegerField(default=0)
    consolidated_count = models.PositiveIntegerField(default=0)
    merged_count = models.PositiveIntegerField(default=0)
    proposed_count = models.PositiveIntegerField(default=0)
    allowance = models.PositiveIntegerField(null=True, help_text="Memories that it may still archive; null: all.")
    held_count = models.PositiveIntegerField(default=0, db_default=0)
    held_decided_at = models.DateTimeField(null=True)
    clock = ArrayField(models.FloatField(), size=LEVELS, null=True)
    before = models.JSONField(default=dict)
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
            # For the dashboard and metrics: few sleeps leave something to a person.
            models.Index(
                fields=["actor", "number"],
                name="sleep_held",
                condition=Q(held_count__gt=0, held_decided_at=None, dry_run=False),
            ),
        ]

    @property
    def archives(self) -> bool:
        """Return whether archiving is not done yet."""
        return self.state == RunState.RUNNING and not self.compares

    @property
    def sleeper(self) -> Principal:
        return Principal(kind=PrincipalKind(self.who_kind), id=self.who_id, name=self.who_name)

    def __str__(self) -> str:
        return f"{self.get_trigger_display()} {str(self.id)[:13]}"
