"""Change the embedding model while searches go on (SPEC A5).

Copy the words of every text into the new space, embed what has no vector there yet, switch, and
look once more for what was written by a process that had not seen the new space. Each step starts
from what is in the database, so that a run that was killed goes on where it stopped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import connection, models, transaction

from memoryhub.embeddings.registry import embedding_provider
from memoryhub.embeddings.spaces import active_space, embed_rows, space_of_provider, without_vector
from memoryhub.search.maintenance import in_batches
from memoryhub.search.models import EmbeddingSpace, index_models
from memoryhub.tenancy.models import Actor

Progress = Callable[[int], None]

# One actor's words, which are the same in every space; the vector comes later. `columns` are a model's own.
COPY_WORDS = """
INSERT INTO {table} ({columns}, space_id)
SELECT {columns}, %(target)s FROM {table} AS source
WHERE source.actor_id = %(actor)s AND source.space_id = %(source)s
ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True)
class Plan:
    """Plan of a model change: source space, target provider, and number of texts to embed."""

    source: EmbeddingSpace
    target: str
    waiting: int


def plan_change() -> Plan:
    """Return what `reembed` would do now, without doing any of it. Raises ProviderError."""
    provider = embedding_provider()
    names = {"provider": provider.name, "model": provider.model, "dimension": provider.dimension}
    source = active_space()
    space = EmbeddingSpace.objects.filter(**names).first()
    indexed: int = sum(model.objects.filter(space=source).count() for model in index_models())
    embedded: int = sum(
        model.objects.filter(space=space, vector__isnull=False).count() for model in index_models()
    )
    return Plan(source, str(EmbeddingSpace(**names)), max(0, indexed - embedded))


def target_space() -> EmbeddingSpace:
    """Return the configured provider's space, made (to be filled) where there is none. Raises ProviderError."""
    return space_of_provider(embedding_provider(), EmbeddingSpace.State.FILLING)


def leftovers() -> models.QuerySet[EmbeddingSpace]:
    """Return the spaces that are half filled, for a provider that is not configured now. Raises ProviderError."""
    provider = embedding_provider()
    filling = EmbeddingSpace.objects.filter(state=EmbeddingSpace.State.FILLING)
    return filling.exclude(provider=provider.name, model=provider.model, dimension=provider.dimension)


def retire_leftovers() -> None:
    leftovers().update(state=EmbeddingSpace.State.RETIRED)


def fill(space: EmbeddingSpace, *, source: EmbeddingSpace, batch_size: int, progress: Progress) -> int:
    """Give every text of `source` a vector in `space`; return how many got one. Raises ProviderError."""
    if space.state == EmbeddingSpace.State.RETIRED:
        EmbeddingSpace.objects.filter(pk=space.pk).update(state=EmbeddingSpace.State.FILLING)
    return sum(_fill(model, space, source, batch_size, progress) for model in index_models())


def switch(space: EmbeddingSpace) -> None:
    """Make searches read this space from now on; the former one is kept, retired."""
    with transaction.atomic():
        states = EmbeddingSpace.State
        EmbeddingSpace.objects.filter(state=states.ACTIVE).update(state=states.RETIRED)
        EmbeddingSpace.objects.filter(pk=space.pk).update(state=states.ACTIVE)


def remove_retired(*, batch_size: int) -> int:
    """Delete the vectors of retired spaces, some at a time; return how many."""
    removed = 0
    for space in EmbeddingSpace.objects.filter(state=EmbeddingSpace.State.RETIRED):
        # The space's own row stays: a writer that still knows it as active must not break on its key.
        for model in index_models():
            while pks := list(model.objects.filter(space=space).values_list("pk", flat=True)[:batch_size]):
                removed += model.objects.filter(pk__in=pks).delete()[0]
    return removed


def _fill(
    model: Any, space: EmbeddingSpace, source: EmbeddingSpace, batch_size: int, progress: Progress
) -> int:
    if source.pk != space.pk:
        own = {field.column for field in model._meta.concrete_fields} - {
            "space_id",
            "vector",
            "is_refused",
            None,
        }
        statement = COPY_WORDS.format(
            table=connection.ops.quote_name(model._meta.db_table),
            columns=", ".join(map(connection.ops.quote_name, sorted(own))),
        )
        for actor_id in Actor.objects.values_list("pk", flat=True).iterator():
            with connection.cursor() as cursor:
                cursor.execute(statement, {"target": space.pk, "source": source.pk, "actor": actor_id})
        model.mend()  # an owner that changed while its row was copied
    done = 0
    for rows in in_batches(without_vector(model, space), batch_size):
        done += embed_rows(model, rows, space)
        progress(len(rows))
    return done
