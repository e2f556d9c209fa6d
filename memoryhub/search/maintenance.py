"""Maintenance of the search index: rebuild words after the tokenizer changed, and count what each actor often says.

Each index row says which analysis its words are of, so a rebuild that was stopped goes on where it stopped, while
searches go on: until it has passed, a text is still found, by fewer words or by lighter ones.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any
from uuid import UUID

from django.db import connection, models, transaction

from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import WORDS_VERSION, frequent_terms, text_length
from memoryhub.search.index import record, word_vector
from memoryhub.search.models import EmbeddingSpace, FrequentTerms, TermStatistic, index_models

Progress = Callable[[int], None]
ACTIVE = EmbeddingSpace.State.ACTIVE
FEWEST_TEXTS = 100
"""Of an actor with fewer, no word is so frequent that it changes a search."""
SAMPLE = 1_000
"""As many of an actor's texts, drawn by chance, tell which terms stand in one of a hundred."""
GROWTH = 1.1
"""How much an actor's texts grow or shrink before they are counted anew."""

# Whoever wrote a row meanwhile wrote it in this version.
STORE_WORDS = """
UPDATE {table} AS found SET words = analysed.words::sparsevec, length = analysed.length, words_version = %(version)s
FROM unnest(%(spaces)s::int[], %(owners)s::uuid[], %(words)s::text[], %(lengths)s::int[])
    AS analysed (space, owner, words, length)
WHERE found.actor_id = ANY(%(actors)s) AND found.space_id = analysed.space AND found.{owner} = analysed.owner
    AND found.words_version < %(version)s
"""


def outdated(model: Any) -> models.QuerySet[Any]:
    """Return the rows whose words are of an older analysis."""
    rows: models.QuerySet[Any] = model.objects.filter(words_version__lt=WORDS_VERSION)
    return rows


def count_outdated() -> int:
    return sum(outdated(model).count() for model in index_models())


def reindex(*, batch_size: int, progress: Progress) -> int:
    """Analyse every text anew whose words are of an older analysis; return how many."""
    if not any(model.objects.filter(words_version=WORDS_VERSION).exists() for model in index_models()):
        TermStatistic.objects.all().delete()  # counts of terms that no query has any more
        FrequentTerms.objects.all().delete()
    return sum(_reindex(model, batch_size, progress) for model in index_models())


def in_batches(rows: models.QuerySet[Any], batch_size: int) -> Iterator[list[Any]]:
    """Yield index rows by key, each batch from where the last one ended.

    Asking each time for the first that still wait would pass by all that are done, again and again: at
    1,000,000 rows for hours.
    """
    batch = list(rows.order_by("pk")[:batch_size])
    while batch:
        yield batch
        batch = list(rows.filter(pk__gt=batch[-1].pk).order_by("pk")[:batch_size])


def _reindex(model: Any, batch_size: int, progress: Progress) -> int:
    done = 0
    waiting = outdated(model).select_related(f"{model.owner_field}__actor__agent", "space")
    for rows in in_batches(waiting, batch_size):
        with transaction.atomic():
            misquoted = _held_owners(model, rows)
            terms = _follow(model, rows)
            _repeat(model, rows, misquoted)
            states = [row.space.state for row in rows]
            record(each for each, state in zip(terms, states, strict=True) if state == ACTIVE)
        done += len(rows)
        progress(len(rows))
    model.mend()  # an owner that changed after its batch was read
    return done


def _follow(model: Any, rows: Sequence[Any]) -> list[Counter[str]]:
    """Write the rows' words; one that somebody wrote meanwhile has its own already."""
    owners = [getattr(row, model.owner_field) for row in rows]
    terms = [analyse(model.words_of(owner)) for owner in owners]
    statement = STORE_WORDS.format(
        table=connection.ops.quote_name(model._meta.db_table),
        owner=connection.ops.quote_name(f"{model.owner_field}_id"),
    )
    values: dict[str, Any] = {
        "actors": list({row.actor_id for row in rows}),
        "spaces": [row.space_id for row in rows],
        "owners": [owner.pk for owner in owners],
        "words": [word_vector(each).to_text() for each in terms],
        "lengths": [round(text_length(each)) for each in terms],
        "version": WORDS_VERSION,
    }
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
    return terms


def _held_owners(model: Any, rows: Sequence[Any]) -> dict[Any, Any]:
    """Hold and read anew the owners of whom an older release did not repeat everything, by their keys.

    As whoever changes an owner does, before its index rows are touched, in the order of keys: so nobody waits
    in a circle, and nothing older is written over what somebody repeats meanwhile.
    """
    wrong = [row for row in rows if _differs(model, row, getattr(row, model.owner_field))]
    owners = model._meta.get_field(model.owner_field).related_model._default_manager
    held = owners.select_for_update(no_key=True).filter(
        actor_id__in={row.actor_id for row in wrong}, pk__in={getattr(row, f"{model.owner_field}_id") for row in wrong}
    )
    return {owner.pk: owner for owner in held.order_by("pk")} if wrong else {}


def _differs(model: Any, row: Any, owner: Any) -> bool:
    return any(getattr(row, name) != value for name, value in model.repeated(owner).items())


def _repeat(model: Any, rows: Sequence[Any], owners: Mapping[Any, Any]) -> None:
    for row in rows:
        owner = owners.get(getattr(row, f"{model.owner_field}_id"))
        if owner is not None:
            model.objects.filter(pk=row.pk).update(**model.repeated(owner))


def actors_to_count() -> dict[UUID, int]:
    """Return the actors whose frequent terms are unknown or of an older time, with the numbers of their texts."""
    texts: Counter[UUID] = Counter()
    for model in index_models():
        rows = model.objects.filter(space__in=_active_spaces()).order_by()
        texts.update(dict(rows.values_list("actor_id").annotate(models.Count("pk"))))
    known = dict(FrequentTerms.objects.values_list("actor_id", "counts__0"))
    return {
        actor: count
        for actor, count in texts.items()
        if count >= FEWEST_TEXTS and not count / GROWTH <= known.get(actor, 0) <= count * GROWTH
    }


def count_terms(actor_id: UUID, texts: int) -> None:
    """Find out by a sample which terms many of so many texts of an actor share."""
    sampled = [terms for model in index_models() for terms in _sample(model, actor_id, SAMPLE / texts)]
    if not sampled:
        return  # erased meanwhile
    counts = sorted({TermStatistic.CORPUS: texts, **frequent_terms(sampled, documents=texts)}.items())
    terms, numbers = map(list, zip(*counts, strict=True))
    FrequentTerms.objects.update_or_create(actor_id=actor_id, defaults={"terms": terms, "counts": numbers})


def _sample(model: Any, actor_id: UUID, share: float) -> Iterator[list[int]]:
    rows = model.objects.filter(actor_id=actor_id, space__in=_active_spaces())
    most = ceil(min(1.0, share) * rows.count())
    for words in rows.order_by("?").values_list("words", flat=True)[:most]:
        yield words.indices()


def _active_spaces() -> list[int]:
    return list(EmbeddingSpace.objects.filter(state=ACTIVE).values_list("pk", flat=True))
