"""Embedding spaces, term statistics, and the base of all apps' search index rows with their vector columns.

Vectors are stored inline: a scan that fetched them from TOAST took three times as long (22 ms against 8 ms for 5,000
rows of 384 dimensions). STORAGE MAIN keeps them inline while the row fits a page; PLAIN would refuse rows beyond 8,160
bytes.
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, Final
from uuid import UUID

from django.apps import apps
from django.contrib.postgres.fields import ArrayField
from django.db import connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.functions import Now
from pgvector import SparseVector
from pgvector.django import HalfVectorField, SparseVectorField

from memoryhub.search.bm25 import DIMENSION
from memoryhub.search.fusion import SpaceBounds
from memoryhub.search.passages import PASSAGE_SHARE

STORAGE_SINCE: Final = 160_000
"""PostgreSQL takes the storage of a column with its type since version 16; before, `store_inline` sets it."""


class Inline:
    """Stores a column's values in the row, as above."""

    def db_type(self, connection: Any) -> str:
        plain = self.cast_db_type(connection)
        return f"{plain} STORAGE MAIN" if connection.pg_version >= STORAGE_SINCE else plain

    def cast_db_type(self, connection: Any) -> str:
        return str(super().db_type(connection))  # type: ignore[misc]


def store_inline(sender: Any, using: str = "default", **kwargs: Any) -> None:
    """Set the storage of one app's columns where the server could not take it with the type (`post_migrate`)."""
    connection: Any = connections[using]
    if connection.pg_version >= STORAGE_SINCE:
        return
    for model in sender.get_models():
        fields: list[Any] = [field for field in model._meta.local_fields if isinstance(field, Inline)]
        if fields:
            changes = ", ".join(f'ALTER COLUMN "{field.column}" SET STORAGE MAIN' for field in fields)
            with connection.cursor() as cursor:
                cursor.execute(f'ALTER TABLE "{model._meta.db_table}" {changes}')


class InlineHalfVectorField(Inline, HalfVectorField):
    """A half-precision vector; without `dimensions`, each row has its space's."""


class InlineSparseVectorField(Inline, SparseVectorField):
    """A sparse vector, stored inline."""


class SparseVectorsField(Inline, ArrayField):
    """An array of sparse vectors, stored inline like single ones."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "base_field": SparseVectorField(dimensions=DIMENSION)})

    def get_placeholder(self, value: Any, compiler: Any, connection: BaseDatabaseWrapper) -> str:
        return f"%s::{self.cast_db_type(connection)}"

    def _from_db_value(self, value: str | None, *_context: Any) -> list[SparseVector] | None:
        # psycopg does not know the type, so it passes the array as text.
        return None if value is None else [SparseVector.from_text(each) for each in _ELEMENT.findall(value)]


_ELEMENT: Final = re.compile(r'"([^"]*)"')

SPACED, UNSPACED, ACROSS = "spaced", "unspaced", "across"
"""Keys of a space's calibration: scripts with spaces, without, and pairs across both."""
BOUNDS: Final = ("cosine_low", "cosine_high", "vector_weight")


NIL: Final = UUID(int=0)


class EmbeddingSpace(models.Model):
    """Vectors that can be compared with each other: one provider's model at one dimension (SPEC A5)."""

    class State(models.TextChoices):
        """State of a space: being filled, searched, or kept until it is removed."""

        FILLING = "filling"
        ACTIVE = "active"
        RETIRED = "retired"

    id = models.SmallAutoField(primary_key=True)
    provider = models.CharField(max_length=64)
    model = models.CharField(max_length=255)
    dimension = models.PositiveIntegerField()
    state = models.CharField(max_length=8, choices=State.choices, default=State.FILLING)
    cosine_low = models.FloatField(help_text="The cosine of two unrelated texts.")
    cosine_high = models.FloatField(help_text="The cosine of a text and its paraphrase.")
    vector_weight = models.FloatField(help_text="The relevance of a perfect cosine without any shared word, 0 to 1.")
    calibration = models.JSONField(default=dict, blank=True, help_text="Measured cosines, by script; empty: not yet.")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        app_label = "memoryhub"
        constraints = [
            models.UniqueConstraint(name="space_is_unique", fields=["provider", "model", "dimension"]),
            models.UniqueConstraint(name="space_active_is_one", fields=["state"], condition=models.Q(state="active")),
            models.CheckConstraint(
                name="space_state_is_known", condition=models.Q(state__in=["filling", "active", "retired"])
            ),
            models.CheckConstraint(
                name="space_dimension_fits_halfvec", condition=models.Q(dimension__gte=1, dimension__lte=16_000)
            ),
            models.CheckConstraint(
                name="space_bounds_are_ordered",
                condition=models.Q(cosine_low__gte=-1, cosine_low__lt=models.F("cosine_high"), cosine_high__lte=1),
            ),
            models.CheckConstraint(
                name="space_weight_is_a_share", condition=models.Q(vector_weight__gte=0, vector_weight__lte=1)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.provider}:{self.model} ({self.dimension})"

    @property
    def bounds(self) -> SpaceBounds:
        return SpaceBounds(self.cosine_low, self.cosine_high, self.vector_weight)

    def bounds_for(self, *, is_unspaced: bool) -> SpaceBounds:
        """Return the bounds for a text's script; for mixed ones those of Japanese, which fewer models know."""
        measured = self.calibration.get(UNSPACED) if is_unspaced else None
        return SpaceBounds(**{name: measured[name] for name in BOUNDS}) if measured else self.bounds


class TermStatistic(models.Model):
    """Document frequency of a term over all actors' texts; `CORPUS` has the number of texts.

    Written by `index.record` only. Holds hashes instead of words, agents and users.
    """

    CORPUS: ClassVar[int] = -1

    term = models.IntegerField(primary_key=True)
    documents = models.BigIntegerField()
    agents = models.BigIntegerField(db_default=0, help_text="A bit of 64 for each agent that has the term.")
    users = models.BigIntegerField(db_default=0, help_text="A bit of 64 for each user that has the term.")

    class Meta:
        app_label = "memoryhub"

    def __str__(self) -> str:
        return f"{self.term}: {self.documents}"


class FrequentTerms(models.Model):
    """Frequent terms of an actor's texts, ascending, with their counts; written by `maintenance.count_terms`.

    The first is `TermStatistic.CORPUS`, with the number of texts. Holds hashes instead of words.
    """

    actor = models.OneToOneField("memoryhub.Actor", on_delete=models.CASCADE, primary_key=True, related_name="+")
    terms = ArrayField(models.IntegerField())
    counts = ArrayField(models.IntegerField())

    class Meta:
        app_label = "memoryhub"

    def __str__(self) -> str:
        return str(self.actor_id)


class ClusteringState(models.Model):
    """Progress of `cluster_tables` in a table: rows of owners up to `since` are clustered by actor.

    `until` is the end of the current slice, if any; `after_actor` and `after_owner` are the last row done.
    """

    table = models.CharField(max_length=63, primary_key=True)
    since = models.UUIDField(default=NIL)
    until = models.UUIDField(null=True)
    after_actor = models.UUIDField(default=NIL)
    after_owner = models.UUIDField(default=NIL)

    class Meta:
        app_label = "memoryhub"

    def __str__(self) -> str:
        return self.table


class SearchIndexRow(models.Model):
    """Index row of one text in one space: its vector, once embedded, and its terms.

    In tables without texts, which makes scans faster. Each app derives its own with a foreign key to the owner, named
    by `owner_field`, and the primary key (actor, space, owner); its index also finds an actor's rows.
    """

    owner_field: ClassVar[str]

    actor = models.ForeignKey("memoryhub.Actor", on_delete=models.CASCADE, db_index=False, related_name="+")
    space = models.ForeignKey(EmbeddingSpace, on_delete=models.PROTECT, db_index=False, related_name="+")
    vector = InlineHalfVectorField(null=True)
    words = InlineSparseVectorField(dimensions=DIMENSION)
    passages = SparseVectorsField(null=True, help_text="The words of each passage of a long text.")
    length = models.PositiveIntegerField(db_default=0, help_text="In words, as the search counts them.")
    words_version = models.PositiveSmallIntegerField(db_default=1, help_text="Which analysis of text the words are of.")

    is_refused = models.BooleanField(
        db_default=False, help_text="The embedder refuses this text; it is found by words alone."
    )

    class Meta:
        abstract = True
        indexes: ClassVar[list[models.Index]] = [
            models.Index(fields=["space", "actor"], name="%(class)s_unembedded", condition=models.Q(vector=None))
        ]

    @classmethod
    def counted(cls) -> models.Q:
        """Return the condition for texts with counted terms: trusted ones, in force."""
        return models.Q()

    @property
    def is_counted(self) -> bool:
        return True

    @classmethod
    def is_findable(cls, owner: Any) -> bool:
        return True

    @classmethod
    def indexed_text(cls, owner: Any) -> str:
        return str(owner.content)

    @classmethod
    def cues(cls, owner: Any) -> str:
        """Return words by which the text is found as well."""
        return ""

    @classmethod
    def passage_share(cls, owner: Any) -> float:
        """Return the weight of the passages of a long text."""
        return PASSAGE_SHARE

    @classmethod
    def copied_fields(cls, owner: Any) -> dict[str, Any]:
        """Return the columns copied from the owner, so that a scan reads one table."""
        return {}

    @classmethod
    def repair(cls) -> int:
        """Correct columns that differ from the owner's; return the number of rows corrected."""
        return 0


def index_models() -> Iterator[Any]:
    return (model for model in apps.get_models() if issubclass(model, SearchIndexRow))
