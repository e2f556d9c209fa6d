"""Maintenance of the search index: rebuild words after a change of the analysis, and count frequent terms of actors.

Index rows hold the version of the analysis, by which an interrupted rebuild continues. Searches still work; texts
not yet rebuilt match by fewer terms or lower weights.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Final
from uuid import UUID

from django.db import connection, models, transaction

from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import WORDS_VERSION, frequent_terms, text_length
from memoryhub.search.index import passage_vectors, record, vectors_text, word_vector
from memoryhub.search.models import EmbeddingSpace, FrequentTerms, TermStatistic, index_models

Progress = Callable[[int], None]
ACTIVE = EmbeddingSpace.State.ACTIVE
COUNT_KIND: Final = "count_terms"
MIN_TEXTS = 100
"""With fewer texts of an actor, no term is frequent enough to change a search."""
SAMPLE_SIZE = 1_000
"""Texts of an actor in the random sample, enough for terms in one of a hundred."""
RECOUNT_RATIO = 1.1
"""Ratio by which the number of an actor's texts must change for a recount."""

# Rows written during the run have the current version.
STORE_WORDS = """
UPDATE {table} AS found SET words = analysed.words::sparsevec, passages = analysed.passages::sparsevec[],
    length = analysed.length, words_version = %(version)s
FROM unnest(%(spaces)s::int[], %(owners)s::uuid[], %(words)s::text[], %(passages)s::text[], %(lengths)s::int[])
    AS analysed (space, owner, words, passages, length)
WHERE found.actor_id = ANY(%(actors)s) AND found.space_id = analysed.space AND found.{owner} = analysed.owner
    AND found.words_version < %(version)s
"""


def outdated(model: Any) -> models.QuerySet[Any]:
    """Return the rows with an older version of the analysis."""
    rows: models.QuerySet[Any] = model.objects.filter(words_version__lt=WORDS_VERSION)
    return rows


def count_outdated() -> int:
    return sum(outdated(model).count() for model in index_models())


def reindex(*, batch_size: int, progress: Progress) -> int:
    """Rebuild the words of outdated rows; return their number."""
    if not any(model.objects.filter(words_version=WORDS_VERSION).exists() for model in index_models()):
        TermStatistic.objects.all().delete()  # its terms no longer occur in queries
        FrequentTerms.objects.all().delete()
    return sum(_reindex(model, batch_size, progress) for model in index_models())


def batches_by_key(rows: models.QuerySet[Any], batch_size: int) -> Iterator[list[Any]]:
    """Yield index rows in batches, by keyset pagination.

    Querying the first outdated rows each time would scan all that are done: hours for 1,000,000 rows.
    """
    batch = list(rows.order_by("pk")[:batch_size])
    while batch:
        yield batch
        batch = list(rows.filter(pk__gt=batch[-1].pk).order_by("pk")[:batch_size])


def _reindex(model: Any, batch_size: int, progress: Progress) -> int:
    done = 0
    rows_to_rebuild = outdated(model).select_related(f"{model.owner_field}__actor__agent", "space")
    for rows in batches_by_key(rows_to_rebuild, batch_size):
        with transaction.atomic():
            owners = _lock_changed_owners(model, rows)
            terms = _store_words(model, rows)
            _copy_fields(model, rows, owners)
            texts = defaultdict[UUID, list[Counter[str]]](list)
            for row, each in zip(rows, terms, strict=True):
                if row.space.state == ACTIVE and row.is_counted:
                    texts[row.actor_id].append(each)
            for actor_id, counted in texts.items():
                record(counted, actor_id)
        done += len(rows)
        progress(len(rows))
    model.repair()  # for owners that changed after their batch was read
    return done


def _store_words(model: Any, rows: Sequence[Any]) -> list[Counter[str]]:
    """Store the rows' words and return their terms; rows that were written since keep theirs."""
    owners = [getattr(row, model.owner_field) for row in rows]
    texts = [model.indexed_text(owner) for owner in owners]
    terms = [analyse(text) for text in texts]
    shares = [model.passage_share(owner) for owner in owners]
    statement = STORE_WORDS.format(
        table=connection.ops.quote_name(model._meta.db_table),
        owner=connection.ops.quote_name(f"{model.owner_field}_id"),
    )
    values: dict[str, Any] = {
        "actors": list({row.actor_id for row in rows}),
        "spaces": [row.space_id for row in rows],
        "owners": [owner.pk for owner in owners],
        "words": [
            word_vector(each, cues=analyse(model.cues(owner))).to_text()
            for each, owner in zip(terms, owners, strict=True)
        ],
        "passages": [vectors_text(passage_vectors(*each)) for each in zip(texts, shares, strict=True)],
        "lengths": [round(text_length(each)) for each in terms],
        "version": WORDS_VERSION,
    }
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
    return terms


def _lock_changed_owners(model: Any, rows: Sequence[Any]) -> dict[Any, Any]:
    """Lock and reload the owners with fields that differ from those of their rows; return them by key.

    Locked before index rows and in the order of keys, like every change of an owner: against deadlocks, and against
    overwriting later values.
    """
    wrong = [row for row in rows if _differs(model, row, getattr(row, model.owner_field))]
    owners = model._meta.get_field(model.owner_field).related_model._default_manager
    locked = owners.select_for_update(no_key=True).filter(
        actor_id__in={row.actor_id for row in wrong}, pk__in={getattr(row, f"{model.owner_field}_id") for row in wrong}
    )
    return {owner.pk: owner for owner in locked.order_by("pk")} if wrong else {}


def _differs(model: Any, row: Any, owner: Any) -> bool:
    return any(getattr(row, name) != value for name, value in model.copied_fields(owner).items())


def _copy_fields(model: Any, rows: Sequence[Any], owners: Mapping[Any, Any]) -> None:
    for row in rows:
        owner = owners.get(getattr(row, f"{model.owner_field}_id"))
        if owner is not None:
            model.objects.filter(pk=row.pk).update(**model.copied_fields(owner))


def actors_to_count(actor_id: UUID | None = None) -> dict[UUID, int]:
    """Return the actors, or the one, whose frequent terms are missing or outdated, with their numbers of texts."""
    texts: Counter[UUID] = Counter()
    where = models.Q() if actor_id is None else models.Q(actor_id=actor_id)
    for model in index_models():
        rows = model.objects.filter(where, space__in=_active_spaces()).order_by()
        texts.update(dict(rows.values_list("actor_id").annotate(models.Count("pk"))))
    known = dict(FrequentTerms.objects.values_list("actor_id", "counts__0"))
    return {
        actor: count
        for actor, count in texts.items()
        if count >= MIN_TEXTS and not count / RECOUNT_RATIO <= known.get(actor, 0) <= count * RECOUNT_RATIO
    }


def count_terms(actor_id: UUID, texts: int) -> None:
    """Estimate and store the frequent terms of an actor's `texts` from a random sample."""
    sampled = [terms for model in index_models() for terms in _sample(model, actor_id, SAMPLE_SIZE / texts)]
    if not sampled:
        return  # erased concurrently
    counts = sorted({TermStatistic.CORPUS: texts, **frequent_terms(sampled, documents=texts)}.items())
    terms, numbers = map(list, zip(*counts, strict=True))
    FrequentTerms.objects.update_or_create(actor_id=actor_id, defaults={"terms": terms, "counts": numbers})


def _sample(model: Any, actor_id: UUID, share: float) -> Iterator[list[int]]:
    rows = model.objects.filter(model.counted(), actor_id=actor_id, space__in=_active_spaces())
    size = ceil(min(1.0, share) * rows.count())
    for words in rows.order_by("?").values_list("words", flat=True)[:size]:
        yield words.indices()


def _active_spaces() -> list[int]:
    return list(EmbeddingSpace.objects.filter(state=ACTIVE).values_list("pk", flat=True))
