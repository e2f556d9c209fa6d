"""Bringing words up to date after a release that analyses texts otherwise, while searches go on.

Each index row says which analysis its words are of, so a run that was stopped goes on where it stopped.
Until it has passed, a text is still found, by fewer words or by lighter ones.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from django.apps import apps
from django.db import models, transaction

from memoryhub.search.analysis import analyse
from memoryhub.search.models import EmbeddingSpace, SearchIndexRow, TermStatistic
from memoryhub.search.statistics import frequencies, record
from memoryhub.search.vectors import word_vector
from memoryhub.search.words import WORDS_VERSION

Progress = Callable[[int], None]


def index_models() -> Iterator[Any]:
    """Yield every app's index of texts, by the app registry."""
    return (model for model in apps.get_models() if issubclass(model, SearchIndexRow))


def outdated(model: Any) -> models.QuerySet[Any]:
    """Return the rows whose words are of an older analysis."""
    rows: models.QuerySet[Any] = model.objects.filter(words_version__lt=WORDS_VERSION)
    return rows


def count_outdated() -> int:
    """Return how many index rows wait for `reindex`."""
    return sum(outdated(model).count() for model in index_models())


def reindex(*, batch_size: int, progress: Progress) -> int:
    """Analyse every text anew whose words are of an older analysis; return how many."""
    if not any(model.objects.filter(words_version=WORDS_VERSION).exists() for model in index_models()):
        TermStatistic.objects.all().delete()  # counts of terms that no query has any more
        frequencies.forget()
    return sum(_reindex(model, batch_size, progress) for model in index_models())


def _reindex(model: Any, batch_size: int, progress: Progress) -> int:
    done = 0
    while rows := list(
        outdated(model).select_related(model.owner_field, "space").order_by("pk")[:batch_size]
    ):
        with transaction.atomic():
            analysed = [(row.space.state, _follow(model, row)) for row in rows]
            record(terms for state, terms in analysed if state == EmbeddingSpace.State.ACTIVE)
        done += len(rows)
        progress(len(rows))
    model.mend()  # an owner that changed after its batch was read
    return done


def _follow(model: Any, row: Any) -> Counter[str]:
    """Write one row's words; one that somebody wrote meanwhile has its own already."""
    owner = getattr(row, model.owner_field)
    terms = analyse(model.words_of(owner))
    outdated(model).filter(pk=row.pk).update(
        words=word_vector(terms), words_version=WORDS_VERSION, **model.repeated(owner)
    )
    return terms
