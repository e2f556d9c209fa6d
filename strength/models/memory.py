"""Memories with their numbers, index rows and sources."""

import math
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, ClassVar, Final
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db import connection, models, transaction
from django.db.models import F, Q, Value
from django.db.models.functions import Greatest, Ln, Now
from django.utils import timezone
from django.utils.functional import cached_property

from memoryhub.auth.access import UnknownRow
from memoryhub.db.prepared import PreparedQuery
from memoryhub.ids import new_id
from memoryhub.search.models import SearchIndexRow
from memoryhub.tenancy.models import Actor, ActorRow, Agent, KeyWithinActor, OneToOneWithinActor, OwnedRow
from memoryhub.tenancy.namespaces import MAX_NAMESPACE_LENGTH
from memoryhub.tenancy.policy import Trust
from strength.domain.duplicates import wording_digest
from strength.domain.memories import Kind, ScopeLevel, Source, Status, content_digest
from strength.domain.strength import MIN_STRENGTH, NO_DECAY, Numbers, strength_now
from strength.models.locks import lock_shared, update_fading
from strength.models.sleep import SleepState, choices, recompute_marks
from strength.sql import FACETS, QUERIES, StrengthNow, run_query

RELATED_ROWS: Final = {"perspectives": "perspective_rows", "sources": "source_rows"}
"""Related rows that the API and the admin show, and the attributes that hold them as lists."""


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

    def locked_of(self, actor: Actor, memory_ids: Iterable[UUID]) -> "dict[UUID, Memory]":
        """Lock rows of one actor as `locked` does; they share the loaded actor, which is cheaper for many."""
        rows = self.of([actor.pk]).select_for_update().filter(pk__in=list(memory_ids)).order_by("id")
        memories = {memory.pk: memory for memory in rows}
        for memory in memories.values():
            memory.actor = actor
        return memories

    def with_numbers(self) -> "MemoryQuerySet":
        """Load the related rows that the API and the admin show."""
        # Into lists: Django builds a query for each memory and relation that it fills otherwise.
        related = (models.Prefetch(name, to_attr=rows) for name, rows in RELATED_ROWS.items())
        return self.joined_with_numbers().prefetch_related(*related)

    def joined_with_numbers(self) -> "MemoryQuerySet":
        return self.select_related("numbers", "actor__sleep_state").annotate(strength=STRENGTH_OF_MEMORY)


class WordingDigestField(models.BinaryField):
    """Digest of the wording, which finds repeated texts; derived from the content."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "max_length": 32, "null": True, "editable": False})

    def pre_save(self, model_instance: Any, add: bool) -> bytes:
        return wording_digest(model_instance.content)


class Facets(models.Model):
    """The fields that searches filter by. Index rows repeat them, so that a scan reads one table."""

    kind = models.CharField(max_length=12, choices=choices(Kind), default=Kind.NOTE)
    namespace = models.CharField(max_length=MAX_NAMESPACE_LENGTH)
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


class Memory(Facets, OwnedRow):
    """A memory: its text, namespace, scope, state and curation (SPEC M1); `version` counts curated changes.

    `said_on` is the speaker's day of the latest source message. The numbers that change with every use are in
    MemoryNumbers.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    content = models.TextField()
    content_digest = models.BinaryField(max_length=32, editable=False)
    wording_digest = WordingDigestField()
    locked = models.BooleanField(default=False, help_text="A person edited it; nothing rewrites it automatically.")
    source = models.CharField(max_length=12, choices=choices(Source), default=Source.MANUAL)
    channel = models.CharField(max_length=100, blank=True)
    trust = models.CharField(max_length=10, choices=choices(Trust), default=Trust.TRUSTED)
    confidence = models.FloatField(null=True, blank=True)
    learnings = models.JSONField(default=dict, blank=True, help_text="What was learnt, by perspective.")
    metadata = models.JSONField(default=dict, db_default={}, blank=True, help_text="Metadata of the client, by key.")
    cues = models.TextField(blank=True, default="", db_default="", help_text="Other words by which searches find it.")
    said_on = models.DateField(null=True, blank=True, editable=False)
    superseded_by = KeyWithinActor(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    supersedes = ArrayField(
        models.UUIDField(), null=True, editable=False, help_text="Memories that approval ends, by id."
    )
    version = models.PositiveIntegerField(default=1)
    updated_at = models.DateTimeField(db_default=Now())
    not_exported: ClassVar = frozenset({"wording_digest"})
    derived_from_texts: ClassVar = ("content_digest", "wording_digest")
    untrusted_import_values: ClassVar[Mapping[str, Any]] = {
        "trust": Trust.UNTRUSTED,
        "status": Status.PENDING,
        "pinned": False,
        "supersedes": None,
        "cues": "",
    }

    objects: ClassVar[MemoryQuerySet] = MemoryQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ["-created_at", "-id"]
        verbose_name_plural = "memories"
        constraints = [
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
            models.Index(fields=["actor", "wording_digest"], name="memory_by_wording"),
            # For duplicate detection by sleeps: memories changed since the last.
            models.Index(
                fields=["actor", "updated_at", "id"], name="memory_last_changed", condition=Q(status=Status.ACTIVE)
            ),
            # Partial index: most memories have no successor, and archiving saves an index write.
            models.Index(fields=["superseded_by"], name="memory_successor", condition=Q(superseded_by__isnull=False)),
            # Few memories are pinned; without this index, finding them reads all memories of every agent.
            models.Index(fields=["actor"], name="memory_pinned", condition=Q(pinned=True)),
            # For the review queue: pending memories of all actors, oldest first.
            models.Index(fields=["created_at", "id"], name="memory_waiting", condition=Q(status=Status.PENDING)),
            # The newest memories of a profile.
            models.Index(
                fields=["actor", "kind", "-created_at", "-id"],
                name="memory_standing",
                condition=Q(status=Status.ACTIVE, pinned=False),
            ),
            models.Index(fields=["actor", "namespace"], name="memory_by_namespace", opclasses=["", "text_pattern_ops"]),
            # Partial indexes for validity that begins or ends; few memories have either.
            models.Index(fields=["actor", "valid_to"], name="memory_ends", condition=Q(valid_to__isnull=False)),
            models.Index(fields=["actor", "valid_from"], name="memory_begins", condition=Q(valid_from__isnull=False)),
        ]

    def before_screened_save(self, former: Mapping[str, Any]) -> None:
        """Renew the digest; memories that differed in their secrets alone get numbers, as a text is stored once."""
        screened, number = self.content, 1
        same = Memory.objects.of([self.actor_id]).filter(namespace=self.namespace).exclude(pk=self.pk)
        while same.filter(content_digest=content_digest(self.content)).exists():
            number += 1
            self.content = f"{screened} ({number})"
        self.content_digest = content_digest(self.content)

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {str(self.id)[:13]}"

    @property
    def agent(self) -> Agent:
        return self.actor.agent

    @property
    def state(self) -> SleepState | None:
        """Return the state of the actor's sleeps, with the clock; None where nothing was ever remembered."""
        return getattr(self.actor, "sleep_state", None)

    @cached_property
    def strength(self) -> float:
        """Return the strength now; `with_numbers` computes it in the database."""
        return self.numbers.now(self.state)

    @cached_property
    def perspective_rows(self) -> "list[PerspectiveStrength]":
        return list(self.perspectives.all())

    @cached_property
    def source_rows(self) -> "list[MemorySource]":
        return list(self.sources.all())


class NumbersQuerySet(models.QuerySet["MemoryNumbers"]):
    def with_strength(self) -> "NumbersQuerySet":
        return self.annotate(strength_now=STRENGTH_OF_NUMBERS)


class MemoryNumbers(OwnedRow):
    """Strength and counters of a memory, changed by every use, in a narrow row.

    `strength` was right when the actor's clock (`SleepState`) was at `mark`; what the clock has moved since, by the
    level, has decayed. No clock reaches the mark of a memory that does not fade. `due` orders the memories of a level
    by their strength: a night finds the weak by it. `taken` is what the sleep `slept_in` (a number of the actor's)
    took before the row was changed, for undo.

    A low fill factor (set in the migration) keeps updates of counters in their page (HOT).
    """

    not_exported: ClassVar = frozenset({"mark", "slept_in", "taken"})

    memory = OneToOneWithinActor(Memory, on_delete=models.CASCADE, primary_key=True, related_name="numbers")
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    strength = models.FloatField()
    mark = models.FloatField(default=NO_DECAY, db_default=NO_DECAY)
    due = models.GeneratedField(
        expression=Ln(Greatest("strength", Value(MIN_STRENGTH))) - F("mark"),
        output_field=models.FloatField(),
        db_persist=True,
    )
    access_count = models.PositiveIntegerField(default=0)
    candidate_count = models.PositiveIntegerField(default=0)
    last_accessed_at = models.DateTimeField(null=True)
    impact_score = models.FloatField(default=0.0)
    consolidation_level = models.PositiveSmallIntegerField(default=0)
    began_at = models.DateTimeField(db_default=Now(), help_text="When it began to fade; or was written.")
    began_task = models.IntegerField(db_default=0)
    slept_in = models.IntegerField(null=True)
    taken = models.FloatField(db_default=0.0)

    untrusted_import_values: ClassVar[Mapping[str, Any]] = {"strength": 1.0}

    objects: ClassVar[NumbersQuerySet] = NumbersQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name_plural = "memory numbers"
        constraints = [
            models.UniqueConstraint(name="numbers_of_actor", fields=["actor", "memory"]),
            models.CheckConstraint(name="numbers_strength_not_negative", condition=Q(strength__gte=0)),
            models.CheckConstraint(
                name="numbers_level_0_to_5", condition=Q(consolidation_level__gte=0, consolidation_level__lte=5)
            ),
        ]
        indexes = [
            # Partial index: memories that do not decay never fall due, and archiving saves an index write.
            models.Index(
                fields=["actor", "consolidation_level", "due"],
                name="numbers_due",
                include=["mark"],
                condition=Q(due__lt=math.inf),
            )
        ]

    def __str__(self) -> str:
        return str(self.memory_id)

    @property
    def fades(self) -> bool:
        return self.mark > NO_DECAY

    def now(self, state: SleepState | None) -> float:
        return self._left(self.strength, self.mark, state)

    def of_perspective(self, perspective: "PerspectiveStrength", state: SleepState | None) -> float:
        return self._left(perspective.strength, perspective.mark, state)

    def _left(self, strength: float, mark: float, state: SleepState | None) -> float:
        if state is None:
            return strength
        return strength_now(strength, mark=mark, clock=state.clock[self.consolidation_level])

    def as_numbers(self, state: SleepState | None) -> Numbers:
        return Numbers(self.now(state), self.access_count, self.impact_score, self.consolidation_level)

    def decayed_until(self, state: SleepState | None) -> datetime:
        at = state.clock_at if state is not None and self.fades else None
        return max(self.began_at, at or self.began_at)

    @classmethod
    def export_columns(cls) -> Mapping[str, Any]:
        """Return what exports hold instead of a column, as the clock of another installation differs."""
        return {"strength": STRENGTH_OF_NUMBERS}

    @classmethod
    def after_import(cls, actor_id: UUID, rows: Collection["MemoryNumbers"], now: datetime) -> None:
        recompute_marks(actor_id, [row.memory_id for row in rows], now=now)


STRENGTH_OF_NUMBERS: Final = StrengthNow("strength", "mark", "consolidation_level", "actor__sleep_state__clock")
STRENGTH_OF_MEMORY: Final = StrengthNow(
    "numbers__strength", "numbers__mark", "numbers__consolidation_level", "actor__sleep_state__clock"
)
STRENGTH_OF_PERSPECTIVE: Final = StrengthNow(
    "strength", "mark", "memory__numbers__consolidation_level", "actor__sleep_state__clock"
)


class PerspectiveStrength(OwnedRow):
    """A memory's strength from one perspective; without a row it is 0."""

    not_exported: ClassVar = frozenset({"mark"})

    pk = models.CompositePrimaryKey("actor_id", "memory_id", "perspective")
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    memory = KeyWithinActor(Memory, on_delete=models.CASCADE, related_name="perspectives")
    perspective = models.CharField(max_length=100)
    strength = models.FloatField(help_text="As of its mark.")
    mark = models.FloatField(
        default=NO_DECAY, db_default=NO_DECAY, help_text="Where the clock of the memory's level stood then."
    )
    as_of = models.DateTimeField(help_text="When it was last used.")

    class Meta:
        constraints = [models.CheckConstraint(name="perspective_strength_not_negative", condition=Q(strength__gte=0))]

    def __str__(self) -> str:
        return str(self.memory_id)

    @classmethod
    def export_columns(cls) -> Mapping[str, Any]:
        return {"strength": STRENGTH_OF_PERSPECTIVE}

    @classmethod
    def after_import(cls, actor_id: UUID, rows: Collection["PerspectiveStrength"], now: datetime) -> None:
        recompute_marks(actor_id, [row.memory_id for row in rows], now=now)


class MemoryIndex(Facets, SearchIndexRow):
    """A memory's index row in one embedding space; `strength.actions.search` keeps its facets equal."""

    owner_field = "memory"

    pk = models.CompositePrimaryKey("actor_id", "space_id", "memory_id")
    memory = KeyWithinActor(Memory, on_delete=models.CASCADE, related_name="+")

    class Meta(SearchIndexRow.Meta):
        indexes = [
            *SearchIndexRow.Meta.indexes,
            # Few memories are shared; without this index, finding them reads all index rows of every agent.
            models.Index(
                fields=["actor", "space"],
                name="memory_index_shared",
                condition=Q(scope_level__in=[ScopeLevel.DOMAIN, ScopeLevel.UNIVERSAL]),
            ),
        ]

    def __str__(self) -> str:
        return str(self.memory_id)

    @classmethod
    def counted(cls) -> Q:
        return Q(status=Status.ACTIVE)

    @property
    def is_counted(self) -> bool:
        return self.status == Status.ACTIVE

    @classmethod
    def cues(cls, owner: Memory) -> str:
        return owner.cues

    @classmethod
    def copied_fields(cls, owner: Memory) -> dict[str, Any]:
        return {name: getattr(owner, name) for name in FACETS}

    @classmethod
    def repair(cls) -> int:
        """Correct what index rows and numbers repeat of memories; return the number of rows that were wrong."""
        repaired = 0
        for actor_id, memory_ids in run_query(QUERIES["stale_memories"]):
            keys = {"actor_ids": [actor_id], "memory_ids": memory_ids}
            # UnknownRow: the actor was erased concurrently.
            with suppress(UnknownRow), transaction.atomic(), connection.cursor() as cursor:
                lock_shared(actor_id)
                cursor.execute(QUERIES["lock_memories"], keys)
                cursor.execute(QUERIES["sync_index"], keys)
                rows = cursor.rowcount
                repaired += int(rows) + update_fading(actor_id, memory_ids, now=timezone.now())
        return repaired


class MemorySource(ActorRow):
    """The message of a memory (SPEC M3), by a plain id: `strength` does not depend on its table."""

    memory = KeyWithinActor(Memory, on_delete=models.CASCADE, related_name="sources")
    message_id = models.UUIDField()
    session_id = models.UUIDField()
    channel = models.CharField(max_length=100, blank=True)
    trust = models.CharField(max_length=10, choices=choices(Trust))
    created_at = models.DateTimeField(db_default=Now())

    untrusted_import_values: ClassVar[Mapping[str, Any]] = {"trust": Trust.UNTRUSTED}

    class Meta:
        ordering = ["created_at", "id"]
        constraints = [models.UniqueConstraint(name="memory_source_once", fields=["actor", "memory", "message_id"])]

    def __str__(self) -> str:
        return str(self.message_id)


MEMORIES: Final = PreparedQuery(lambda: Memory.objects.order_by())
WITH_NUMBERS: Final = PreparedQuery(lambda: Memory.objects.order_by().joined_with_numbers())
PERSPECTIVES: Final = PreparedQuery(lambda: PerspectiveStrength.objects.order_by())
SOURCES: Final = PreparedQuery(lambda: MemorySource.objects.all())


def load_memories(actor_ids: Collection[UUID], memory_ids: Collection[UUID], *, details: bool) -> dict[UUID, Memory]:
    """Return memories by id; with `details` as `MemoryQuerySet.with_numbers` loads them."""
    rows = WITH_NUMBERS if details else MEMORIES
    memories = {each.pk: each for each in rows.rows(Q(actor_id__in=actor_ids, id__in=memory_ids))}
    if details:
        where = Q(actor_id__in=actor_ids, memory_id__in=memory_ids)
        for name, related in (("perspective_rows", PERSPECTIVES), ("source_rows", SOURCES)):
            by_memory: dict[UUID, list[Any]] = {key: [] for key in memories}
            for row in related.rows(where):
                by_memory[row.memory_id].append(row)
            for key, memory in memories.items():
                memory.__dict__[name] = by_memory[key]
    return memories
