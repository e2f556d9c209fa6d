"""Embedding in the background: what a remote provider must be asked for, or a local one could not do at once."""

import logging
from collections.abc import Sequence
from typing import Any, Final

from memoryhub.jobs.domain import Postponed
from memoryhub.jobs.kinds import Writes
from memoryhub.jobs.running import RunningJob
from memoryhub.providers.errors import ProviderError, ProviderRejected
from memoryhub.providers.spaces import (
    embed_all_later,
    store_vectors,
    vectors_of,
    without_vector,
    writing_spaces,
)
from memoryhub.search.models import EmbeddingSpace
from memoryhub.search.reindexing import in_batches, index_models

log = logging.getLogger(__name__)

BATCH: Final = 100
WAIT_FOR_OPERATOR_SECONDS: Final = 600.0
ABOUT_ONE_TEXT: Final = frozenset({"rejected", "not_finite", "zero_vector"})
"""Errors that one text of a batch can cause by itself."""


def embed(job: RunningJob) -> None:
    """Embed an actor's texts that have no vector yet, in every space that is written to.

    Each batch is stored when it comes, so that a break costs one batch. A text that the provider refuses costs no
    other its vector. Raises ProviderError, Postponed where an operator has to act first.
    """
    try:
        refused = sum(_embed_in(job, space) for space in writing_spaces())
    except ProviderError as error:
        if (
            error.permanent
        ):  # a key, an address, a quota: the texts still want vectors once somebody has seen to it
            raise Postponed(str(error), seconds=WAIT_FOR_OPERATOR_SECONDS) from error
        raise
    if refused:
        raise ProviderRejected(
            f"The provider refused {refused} texts; they are found by words alone.", code="texts_refused"
        )


def _embed_in(job: RunningJob, space: EmbeddingSpace) -> int:
    refused = 0
    for model in index_models():
        waiting = without_vector(model, space).filter(actor_id=job.actor_id)
        for rows in in_batches(waiting, BATCH):
            refused += _embed_rows(job, model, rows, space)
    return refused


def _embed_rows(job: RunningJob, model: Any, rows: Sequence[Any], space: EmbeddingSpace) -> int:
    """Embed and store rows, by halves where the provider refuses; return how many it refused by themselves."""
    try:
        vectors = vectors_of(model, rows, space)
    except ProviderError as error:
        if error.code not in ABOUT_ONE_TEXT:
            raise
        if len(rows) == 1:
            return 1
        middle = len(rows) // 2
        return sum(_embed_rows(job, model, part, space) for part in (rows[:middle], rows[middle:]))
    with job.step():
        store_vectors(model, rows, space, vectors)
    return 0


def embed_missing(job: RunningJob) -> Writes | None:
    """Enqueue an embedding for every actor with texts that have no vector, whatever kept them from one."""
    try:
        spaces = writing_spaces()
    except ProviderError as error:
        log.warning("embedder away", extra={"code": error.code})
        return None
    waiting = {
        actor_id
        for space in spaces
        for model in index_models()
        for actor_id in without_vector(model, space).values_list("actor_id", flat=True).distinct()
    }
    return lambda: embed_all_later(sorted(waiting))
