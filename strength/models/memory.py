"""Memories with their numbers, index rows and sources."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db import connection, models, transaction
from django.db.models import Prefetch, Q
from django.db.models.functions import Now

from memoryhub.auth.tenancy import UnknownRow
from memoryhub.ids import new_id
from memoryhub.search.models import SearchIndexRow
from memoryhub.tenancy.domain import Trust
from memoryhub.tenancy.models import Actor, ActorRow, Agent
from memoryhub.tenancy.namespaces import LONGEST_NAMESPACE
from strength.domain.memories import Kind, ScopeLevel, Source, Status
from strength.domain.strength import Numbers, perspective_strength
from strength.models.locks import lock_shared
from strength.sql import FACETS, QUERIES, run_query


def choices(words: Iterable[str]) -> list[tuple[str, str]]:
    return [(str(word), str(word)) for word in words]


class MemoryQuerySet(models.QuerySet["Memory"]):
    def of(self, actor_ids: Iterable[UUID]) -> "MemoryQuerySet":
        """Filter by actors, as the first filter on every path."""
        return self.filter(actor_id__in=list(actor_ids))

    def active(self) -> "MemoryQuerySet":
        return self.filter(status=Status.ACTIVE)

    def locked(self, memory_ids: Iterable[UUID]) -> "dict[UUID, Memory]":
        """Lock rows until the transaction ends, in the order of keys; return them with their agents, by id."""
        rows = self.select_for_update(of=["self"]).select_related("actor__agent")
        return {memory.pk: memory for memory in rows.filter(pk__in=list(memory_ids)).order_by("id")}

    def with_numbers(self, actor_ids: Iterable[UUID] | None = None) -> "MemoryQuerySet":
        """Load what the API and the admin show; with `actor_ids` every query filters by actor."""
        whose = {} if actor_ids is None else {"actor_id__in": list(actor_ids)}
        return self.select_related("numbers", "actor").prefetch_related(
            Prefetch("perspectives", queryset=PerspectiveStrength.objects.filter(**whose)),
            Prefetch("sources", queryset=MemorySource.objects.filter(**whose)),
        )


class Facets(models.Model):
    """The fields that searches filter by. Index rows repeat them, so that a scan reads one table."""

    kind = models.CharField(max_length=12, choices=choices(Kind), default=Kind.NOTE)
    namespace = models.CharField(max_length=LONGEST_NAMESPACE)
    tags = ArrayField(models.CharField(max_length=100), default=list, blank=True)
    scope_level = models.CharField(max_length=10, choices=choices(ScopeLevel), default=ScopeLevel.PROJECT)
    scope_domain = models.CharField(max_length=255, blank=True)
    scope_project = models.CharField(max_length=255, blank=True)
    status = models.CharField(max_length=10, choices=choices(Status), default=Status.ACTIVE)
    pinned = models.BooleanField(default=False)
    valid_from = models.DateTimeField(null=True, blank=True)
    valid_to = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        abstract = True


class Memory(Facets):
    """A memory: its text, namespace, scope, state and curation (SPEC M1); `version` counts curated changes.

    `said_on` is the speaker's day of the latest source message. The numbers that change with every use are in
    MemoryNumbers.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    content = models.TextField()
    content_digest = models.BinaryField(max_length=32, editable=False)
    locked = models.BooleanField(
        default=False, help_text="A person edited it; nothing rewrites it automatically."
    )
    source = models.CharField(max_length=12, choices=choices(Source), default=Source.MANUAL)
    channel = models.CharField(max_length=100, blank=True)
    trust = models.CharField(max_length=10, choices=choices(Trust), default=Trust.TRUSTED)
    confidence = models.FloatField(null=True, blank=True)
    learnings = models.JSONField(default=dict, blank=True, help_text="What was learnt, by perspective.")
    said_on = models.DateField(null=True, blank=True, editable=False)
    superseded_by = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    supersedes = ArrayField(
        models.UUIDField(), null=True, editable=False,
        help_text="What no longer holds once it is approved, by id.",
    )  # fmt: skip
    version = models.PositiveIntegerField(default=1)
    updated_at = models.DateTimeField(db_default=Now())

    objects: ClassVar[MemoryQuerySet] = MemoryQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ["-created_at", "-id"]
        verbose_name_plural = "memories"
        constraints = [
            models.UniqueConstraint(name="memory_of_actor", fields=["actor", "id"]),
            models.UniqueConstraint(
                name="memory_text_once",
                fields=["actor", "namespace", "content_digest"],
                condition=Q(status__in=[Status.ACTIVE, Status.PENDING], superseded_by=None, valid_to=None),
            ),
            models.CheckConstraint(
                name="memory_confidence_is_share",
                condition=Q(confidence=None) | Q(confidence__gte=0, confidence__lte=1),
            ),
            models.CheckConstraint(
                name="memory_active_is_trusted", condition=~Q(status=Status.ACTIVE) | Q(trust=Trust.TRUSTED)
            ),
            models.CheckConstraint(
                name="memory_valid_in_order",
                condition=Q(valid_from=None) | Q(valid_to=None) | Q(valid_from__lte=models.F("valid_to")),
            ),
        ]
        indexes = [
            models.Index(fields=["actor", "status", "-created_at", "-id"], name="memory_newest_first"),
            # What a sleep compares: what has changed since the last.
            models.Index(fields=["actor", "updated_at", "id"], name="memory_last_changed"),
            # Few memories are pinned; without this, looking for them reads every agent's memories.
            models.Index(fields=["actor"], name="memory_pinned", condition=Q(pinned=True)),
            # Nor do many wait for a person, who goes through those of all actors, the oldest first.
            models.Index(
                fields=["created_at", "id"], name="memory_waiting", condition=Q(status=Status.PENDING)
            ),
            models.Index(
                fields=["actor", "namespace"], name="memory_by_namespace", opclasses=["", "text_pattern_ops"]
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {str(self.id)[:13]}"

    @property
    def agent(self) -> Agent:
        return self.actor.agent


class NumbersOfMemory(models.Model):
    """Strength and counters of a memory, changed by every use and every sleep.

    `faded` is ln of what all decays together left of a strength: perspectives share it, and are not touched.
    `before_*` is the row before the sleep `slept_in` (a number of the actor's), for undo; uses since then are added
    there too. `status`, `pinned` and validity repeat the memory's, because they decide whether it decays:
    `strength.actions.search` keeps them so.
    """

    strength = models.FloatField()
    access_count = models.PositiveIntegerField(default=0)
    candidate_count = models.PositiveIntegerField(default=0)
    last_accessed_at = models.DateTimeField(null=True)
    impact_score = models.FloatField(default=0.0)
    consolidation_level = models.PositiveSmallIntegerField(default=0)
    last_decay_at = models.DateTimeField(
        db_default=Now(),
        help_text="Up to when its decay is reckoned; when it was made, where it never decayed.",
    )
    before_decay_at = models.DateTimeField(null=True)
    before_faded = models.FloatField(null=True)
    before_strength = models.FloatField(null=True)
    faded = models.FloatField(db_default=0.0)
    before_task = models.IntegerField(null=True)
    decayed_at_task = models.IntegerField(db_default=0)
    slept_in = models.IntegerField(null=True)
    before_level = models.SmallIntegerField(null=True)
    pinned = models.BooleanField(db_default=False)
    status = models.CharField(max_length=10, choices=choices(Status), db_default=Status.ACTIVE)
    valid_from = models.DateTimeField(null=True)
    valid_to = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    def as_numbers(self) -> Numbers:
        return Numbers(
            self.strength, self.access_count, self.impact_score, self.consolidation_level, self.faded
        )


class CurrentNumbers(NumbersOfMemory):
    """A memory's numbers as they are now: a view, MemoryNumbers as its actor's clock has left them. Read only."""

    memory = models.OneToOneField(
        Memory, on_delete=models.DO_NOTHING, primary_key=True, related_name="numbers", db_constraint=False
    )
    actor = models.ForeignKey(Actor, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False)

    class Meta:
        managed = False
        default_permissions = ()
        verbose_name_plural = "current numbers"

    def __str__(self) -> str:
        return str(self.memory_id)


class MemoryNumbers(NumbersOfMemory):
    """A memory's numbers as they are stored: as of when somebody last wrote them, in a narrow row of their own.

    A row with a `clock_then` is on its actor's clock (`SleepState`): it has faded since by what the clock has advanced
    for its level, and no night writes it again. So these numbers are read through CurrentNumbers, and every write
    settles the row first (`strength.models.locks.settle_numbers`), which leaves it as if each night had written it.

    No index but the key, and a low fill factor (set in the migration): every update then stays in its
    page (HOT). What the database alone writes is not checked row by row.
    """

    clustered_by = "numbers_of_actor"
    read_through = CurrentNumbers
    """What exports hold, for the clock of another installation stands elsewhere."""

    memory = models.OneToOneField(Memory, on_delete=models.CASCADE, primary_key=True, related_name="+")
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    clock_then = models.FloatField(
        null=True,
        help_text="Where the clock of its level stood when it was put on it; null beside the clock.",
    )

    class Meta:
        verbose_name_plural = "memory numbers"
        constraints = [
            models.UniqueConstraint(name="numbers_of_actor", fields=["actor", "memory"]),
            models.CheckConstraint(name="numbers_strength_not_negative", condition=Q(strength__gte=0)),
            models.CheckConstraint(
                name="numbers_level_0_to_5",
                condition=Q(consolidation_level__gte=0, consolidation_level__lte=5),
            ),
        ]

    def __str__(self) -> str:
        return str(self.memory_id)


class PerspectiveStrength(models.Model):
    """A memory's strength from one perspective; without a row it is 0."""

    pk = models.CompositePrimaryKey("actor_id", "memory_id", "perspective")
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    memory = models.ForeignKey(Memory, on_delete=models.CASCADE, related_name="perspectives")
    perspective = models.CharField(max_length=100)
    strength = models.FloatField(help_text="As of its last use.")
    faded = models.FloatField(
        db_default=0.0, help_text="How far the memory had faded then; the rest is computed when read."
    )
    as_of = models.DateTimeField(help_text="When it was last used.")

    class Meta:
        constraints = [
            models.CheckConstraint(name="perspective_strength_not_negative", condition=Q(strength__gte=0))
        ]

    def __str__(self) -> str:
        return str(self.memory_id)

    def now(self, numbers: NumbersOfMemory) -> float:
        return perspective_strength(self.strength, faded_then=self.faded, faded_now=numbers.faded)


class MemoryIndex(Facets, SearchIndexRow):
    """A memory's index row in one embedding space; `strength.actions.search` keeps its facets equal."""

    owner_field = "memory"

    pk = models.CompositePrimaryKey("actor_id", "space_id", "memory_id")
    memory = models.ForeignKey(Memory, on_delete=models.CASCADE, related_name="+")

    class Meta(SearchIndexRow.Meta):
        indexes = [
            *SearchIndexRow.Meta.indexes,
            # Few memories are shared; without it, looking for them reads every agent's index rows.
            models.Index(
                fields=["actor", "space"],
                name="memory_index_shared",
                condition=Q(scope_level__in=[ScopeLevel.DOMAIN, ScopeLevel.UNIVERSAL]),
            ),
        ]

    def __str__(self) -> str:
        return str(self.memory_id)

    @classmethod
    def repeated(cls, owner: Memory) -> dict[str, Any]:
        return {name: getattr(owner, name) for name in FACETS}

    @classmethod
    def mend(cls) -> int:
        """Correct what index rows and numbers repeat of memories; return the number of rows that were wrong."""
        mended = 0
        for actor_id, memory_ids in run_query(QUERIES["stale_memories"]):
            keys = {"actor_ids": [actor_id], "memory_ids": memory_ids}
            # While they are locked; an actor erased meanwhile has none.
            with suppress(UnknownRow), transaction.atomic(), connection.cursor() as cursor:
                lock_shared(actor_id)
                cursor.execute(QUERIES["lock_memories"], keys)
                cursor.execute(QUERIES["sync_index"], keys)
                rows = cursor.rowcount
                cursor.execute(QUERIES["take_off_clock"], keys)
                cursor.execute(QUERIES["sync_numbers"], keys)
                mended += int(rows + cursor.rowcount)
        return mended


class MemorySource(ActorRow):
    """The message of a memory (SPEC M3), by a plain id: `strength` does not depend on its table."""

    memory = models.ForeignKey(Memory, on_delete=models.CASCADE, related_name="sources")
    message_id = models.UUIDField()
    session_id = models.UUIDField()
    channel = models.CharField(max_length=100, blank=True)
    trust = models.CharField(max_length=10, choices=choices(Trust))
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["created_at", "id"]
        constraints = [
            models.UniqueConstraint(name="memory_source_once", fields=["actor", "memory", "message_id"])
        ]

    def __str__(self) -> str:
        return str(self.message_id)
