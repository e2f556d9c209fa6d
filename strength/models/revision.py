"""Records of curation: revisions, change feed, merges, tombstones, saved views, news, review instructions and holds."""

from collections.abc import Mapping
from itertools import product
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Func, JSONField, Prefetch, Q
from django.db.models.functions import Now

from memoryhub.auth.models import NumberedVersion
from memoryhub.auth.principals import PrincipalKind
from memoryhub.ids import new_id
from memoryhub.tenancy.models import Actor, ActorRow, KeyWithinActor
from strength.domain.memories import APPROVER, FIRST_APPROVAL_VERB, FeedChange, TombstoneReason
from strength.domain.sleep import MergeState
from strength.models.memory import RELATED_ROWS, Memory
from strength.models.sleep import SleepRun, choices

MAX_VIEW_NAME_LENGTH = 60
MAX_VIEW_QUERY_LENGTH = 2_000
MAX_INSTRUCTIONS_LENGTH = 4_000


class MemoryRevision(NumberedVersion):
    """One curated change of a memory: who, when, before, after, and why (SPEC M9).

    `after` holds all curated values, so that any single revision can be restored. The other values that the change
    replaced are kept for undo.
    """

    memory = KeyWithinActor(Memory, on_delete=models.CASCADE, related_name="revisions")
    verb = models.CharField(max_length=20)
    changed_before = models.JSONField(default=dict)
    changed_after = models.JSONField(default=dict)
    after = models.JSONField()
    beside = models.JSONField(
        default=dict,
        db_default={},
        help_text="What stood beside these values before: taking the change back brings it back.",
    )
    batch = models.UUIDField(null=True, editable=False, help_text="Shared by what was changed at once.")

    class Meta(NumberedVersion.Meta):
        constraints = [models.UniqueConstraint(name="revision_number_once", fields=["actor", "memory", "number"])]
        indexes = [
            # Finds the revisions of a sleep, by its time.
            models.Index(fields=["actor", "created_at"], name="revision_of_sleep", condition=Q(verb="sleep")),
            models.Index(fields=["batch"], name="revision_of_batch", condition=Q(batch__isnull=False)),
            models.Index(
                fields=["actor", "memory", "number"],
                name="revision_first_approval",
                condition=Q(verb=FIRST_APPROVAL_VERB),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verb} #{self.number}"

    @classmethod
    def export_columns(cls) -> Mapping[str, Any]:
        """Return the undo data without who approved first: another installation has other people with the same ids."""
        return {"beside": Func(F("beside"), template=f"(%(expressions)s - '{APPROVER}')", output_field=JSONField())}


class MemoryChange(models.Model):
    """A committed change of a memory, in the feed of changes; written by triggers (migrations 0007 and 0009).

    The triggers run when a transaction commits, under a lock that readers wait for: a reader of a key
    has seen all below it. `memory_id` is a plain id: the feed includes deleted memories. Where a user is erased
    the rows lose the actor, and each memory gets an `erased` one of its agent.
    """

    id = models.BigAutoField(primary_key=True)
    agent_id = models.CharField(max_length=255)
    actor = models.ForeignKey(Actor, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False)
    memory_id = models.UUIDField()
    change = models.CharField(max_length=10, choices=choices(FeedChange))
    version = models.PositiveIntegerField()
    at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["actor", "id"], name="change_of_actor"),
            models.Index(fields=["agent_id", "id"], name="change_of_agent"),
            # Finds the agent of an erased memory.
            models.Index(fields=["memory_id"], name="change_of_nobody", condition=Q(actor=None)),
            # For finding due profiles by time alone.
            BrinIndex(fields=["at"], name="change_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.change} #{self.pk}"


class MergeQuerySet(models.QuerySet["Merge"]):
    def with_memories(self) -> "MergeQuerySet":
        sides, loaded = ("kept", "absorbed"), ("numbers", "actor__sleep_state")
        rows = self.select_related("actor", *(f"{side}__{rest}" for side in sides for rest in loaded))
        related = product(sides, RELATED_ROWS.items())
        return rows.prefetch_related(*(Prefetch(f"{side}__{name}", to_attr=rows) for side, (name, rows) in related))


class Merge(ActorRow):
    """Two memories with the same content: proposed, merged, or dismissed (SPEC S5).

    Bound to the wording of the compared versions: edited memories are compared again. `undo` holds what an undo
    subtracts from the kept memory.
    """

    run = KeyWithinActor(SleepRun, on_delete=models.SET_NULL, null=True, related_name="merges")
    kept = KeyWithinActor(Memory, on_delete=models.CASCADE, related_name="+")
    kept_version = models.PositiveIntegerField()
    absorbed = KeyWithinActor(Memory, on_delete=models.CASCADE, related_name="+")
    absorbed_version = models.PositiveIntegerField()
    likeness = models.FloatField()
    state = models.CharField(max_length=10, choices=choices(MergeState), default=MergeState.PROPOSED)
    undo = models.JSONField(default=dict)
    decided_by = models.CharField(max_length=150, blank=True)
    reason = models.TextField(blank=True)
    created_at = models.DateTimeField(db_default=Now())
    decided_at = models.DateTimeField(null=True)
    batch = models.UUIDField(null=True, editable=False, help_text="Shared by decisions made at once.")

    objects: ClassVar[MergeQuerySet] = MergeQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name = "merge proposal"
        verbose_name_plural = "merge proposals"
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(name="merge_of_pair_once", fields=["actor", "kept", "absorbed"]),
            models.CheckConstraint(name="merge_of_two", condition=~Q(kept=F("absorbed"))),
            models.CheckConstraint(name="merge_likeness_is_share", condition=Q(likeness__gte=0, likeness__lte=1)),
        ]
        indexes = [
            models.Index(fields=["actor", "-created_at"], name="merge_open", condition=Q(state="proposed")),
            models.Index(fields=["created_at", "id"], name="merge_waiting", condition=Q(state="proposed")),
            models.Index(fields=["batch"], name="merge_of_batch", condition=Q(batch__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.get_state_display()} {str(self.id)[:13]}"


class StandingTombstones(models.Manager["Tombstone"]):
    def get_queryset(self) -> "models.QuerySet[Tombstone]":
        return super().get_queryset().filter(lifted_at=None)


class Tombstone(ActorRow):
    """The fingerprint of a text that a person deleted, rejected or replaced, without the text (SPEC M9).

    `terms`, `marks`, `order`: see `strength.domain.duplicates`. `memory_id` is the memory in its place, if any; a plain
    id, for that may be deleted. `kind` and `message_ids` are the memory's: what is extracted again from the same
    messages is the same in whatever words. A lifted one blocks nothing; it is kept for a day, for undo.
    """

    decision = models.CharField(max_length=10, choices=choices(TombstoneReason))
    digest = models.BinaryField(max_length=32)
    terms = ArrayField(models.IntegerField())
    marks = ArrayField(models.IntegerField())
    order = ArrayField(models.IntegerField(), default=list)
    memory_id = models.UUIDField(null=True)
    kind = models.CharField(max_length=12, blank=True)
    message_ids = ArrayField(models.UUIDField(), default=list)
    who_kind = models.CharField(max_length=10, choices=choices(PrincipalKind))
    who_name = models.CharField(max_length=150)
    held_back = models.PositiveIntegerField(default=0)
    last_held_back_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    lifted_at = models.DateTimeField(null=True, editable=False)

    objects: ClassVar[StandingTombstones] = StandingTombstones()
    with_lifted: ClassVar[models.Manager["Tombstone"]] = models.Manager()

    class Meta:
        verbose_name = "decision"
        verbose_name_plural = "decisions"
        ordering = ["-created_at", "-id"]
        constraints = [models.UniqueConstraint(name="tombstone_once", fields=["actor", "digest"])]

    def __str__(self) -> str:
        return f"{self.get_decision_display()} {str(self.id)[:13]}"


class SavedView(models.Model):
    """A person's named filters of the list of memories, as a query string."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=MAX_VIEW_NAME_LENGTH)
    query = models.CharField(max_length=MAX_VIEW_QUERY_LENGTH)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(name="saved_view_name_once", fields=["person", "name"])]

    def __str__(self) -> str:
        return self.name


class NewsPlace(models.Model):
    """The place in the feed of changes up to which a person has read the news; and whether the counts come by mail."""

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+"
    )
    place = models.BigIntegerField(null=True)
    read_at = models.DateTimeField(null=True)
    wants_mail = models.BooleanField(db_default=False, default=False)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"place {self.place}"


class ReviewInstructions(models.Model):
    """The team's instructions, shown above the queue; one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    text = models.TextField(max_length=MAX_INSTRUCTIONS_LENGTH, blank=True)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "review instructions"

    def __str__(self) -> str:
        return "review instructions"


class ReviewHold(models.Model):
    """An item of the queue that a curator has open: others are shown the next one until it ends."""

    key = models.UUIDField(primary_key=True)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    ends_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.key)
