"""Background jobs and backfill that embed texts which have no vector yet."""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError
from django.db.models import Count
from django.utils import timezone

from memoryhub.embeddings.spaces import (
    EMBED_KEY,
    EMBED_KIND,
    calibrate_when_due,
    embed_later,
    provider_of,
    store_vectors,
    vectors_of,
    without_vector,
    writing_spaces,
)
from memoryhub.errors import stored_text
from memoryhub.jobs.backfill import Piece, Scope
from memoryhub.jobs.context import JobContext, Writes
from memoryhub.jobs.queue import Order
from memoryhub.jobs.registry import job
from memoryhub.jobs.retries import Postponed
from memoryhub.llm.errors import ProviderError, ProviderRejected
from memoryhub.llm.usage.recording import payer
from memoryhub.llm.usage.spending import check_cap
from memoryhub.search.maintenance import batches_by_key
from memoryhub.search.models import EmbeddingSpace, index_models
from memoryhub.tenancy.models import Actor

log = logging.getLogger(__name__)

BATCH: Final = 100
SLICE_SECONDS: Final = 60.0
"""Time slice of one job; the actor's other texts are then enqueued behind other jobs."""

WAIT_FOR_OPERATOR_SECONDS: Final = 600.0
SINGLE_TEXT_ERRORS: Final = frozenset({"rejected", "not_finite", "zero_vector"})
"""Errors that one text of a batch can cause by itself."""


@job("embed", deadline_seconds=900)
def embed(job: JobContext) -> Writes | None:
    """Embed an actor's texts that have no vector yet, in every space that is written to: the one searches read first.

    Each batch is stored when it comes, so that a break costs one batch. A text that the provider refuses costs no
    other its vector, and is not sent again until it is edited. Raises ProviderError (SpendCapReached where the agent
    has used up its day), Postponed where an operator has to act first.
    """
    try:
        embedding = _Embedding(job)
        active, *filling = writing_spaces()
        is_whole = embedding.fill(active) and all(embedding.fill_as_far(space) for space in filling)
        calibrate_when_due(active)
    except ProviderError as error:
        # A wrong key, address or quota: retry after an operator has corrected it.
        if error.permanent:
            raise Postponed(str(error), seconds=WAIT_FOR_OPERATOR_SECONDS) from error
        raise
    if not is_whole:
        assert job.actor_id is not None
        actor_id = job.actor_id
        return lambda: embed_later(actor_id)
    if embedding.refused:
        raise ProviderRejected(
            stored_text(
                "The provider refused {count} texts; they are found by words alone until they are edited.",
                count=embedding.refused,
            ),
            code="texts_refused",
        )
    return None


class _Embedding:
    """State of one embedding job: texts refused by the provider, and the end of its time slice."""

    def __init__(self, job: JobContext) -> None:
        self.job = job
        assert job.actor_id is not None
        self.refused = 0
        self.actor = Actor.objects.select_related("agent").get(pk=job.actor_id)
        self.ends_at = time.monotonic() + min(SLICE_SECONDS, job.seconds_left / 2)

    def fill(self, space: EmbeddingSpace) -> bool:
        """Embed the actor's texts in one space; return whether all were looked at."""
        for model in index_models():
            waiting = without_vector(model, space).filter(actor_id=self.job.actor_id)
            for rows in batches_by_key(waiting, BATCH):
                if time.monotonic() > self.ends_at:
                    return False
                self._embed(model, rows, space)
        return True

    def fill_as_far(self, space: EmbeddingSpace) -> bool:
        """Do the same in a space that no search reads yet: where its provider is away, `reembed` does the rest."""
        try:
            return self.fill(space)
        except ProviderError as error:
            log.warning("a space is not filled", extra={"provider": space.provider, "code": error.code})
            return True

    def _embed(self, model: Any, rows: Sequence[Any], space: EmbeddingSpace) -> None:
        if not provider_of(space).is_local:
            check_cap(self.actor, now=timezone.now())
        try:
            vectors = vectors_of(model, rows, space, payer=payer(self.actor))
        except ProviderError as error:
            if error.code not in SINGLE_TEXT_ERRORS:
                raise
            if len(rows) == 1:
                self.refused += 1
                with self.job.step():
                    model.objects.filter(pk=rows[0].pk, vector=None).update(is_refused=True)
                return
            middle = len(rows) // 2
            self._embed(model, rows[:middle], space)
            self._embed(model, rows[middle:], space)
            return
        with self.job.step():
            store_vectors(model, rows, space, vectors)


@job("embed_missing", at_once=1, every_seconds=3600, schedule="embed what has no vector")
def embed_missing(job: JobContext) -> None:
    """Enqueue an embedding for every actor with texts that have no vector.

    Before, measure the spaces that were never measured or have grown much.
    """
    try:
        spaces = writing_spaces()
    except ProviderError as error:
        log.warning("embedder away", extra={"code": error.code})
        return
    for space in spaces:
        calibrate_when_due(space, again=True)
    waiting = {
        actor_id
        for space in spaces
        for model in index_models()
        for actor_id in without_vector(model, space).values_list("actor_id", flat=True).distinct()
    }
    for actor_id in sorted(waiting):
        # A transaction each: no lock is held across actors, and a concurrently erased one affects no other.
        with suppress(IntegrityError):
            embed_later(actor_id)


def backfill_pieces(scope: Scope) -> Iterator[Piece]:
    """Yield a job for each actor with texts that wait for a vector (`manage.py backfill`)."""
    waiting: Counter[UUID] = Counter()
    for space in writing_spaces():
        for model in index_models():
            rows = without_vector(model, space).order_by().select_related(None)
            if scope.agent_id is not None:
                rows = rows.filter(actor__agent_id=scope.agent_id)
            if scope.user_id is not None:
                rows = rows.filter(actor__user_id=scope.user_id)
            if scope.since is not None:
                rows = rows.filter(**{f"{model.owner_field}__created_at__gte": scope.since})
            waiting.update(dict(rows.values_list("actor_id").annotate(Count("pk"))))
    for actor_id, size in sorted(waiting.items()):
        yield Piece(actor_id, Order(EMBED_KIND, EMBED_KEY), size)
