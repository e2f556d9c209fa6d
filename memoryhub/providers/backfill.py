"""Texts that have no vector in a space that is written to."""

from collections import Counter
from collections.abc import Iterator
from uuid import UUID

from django.db.models import Count

from memoryhub.jobs.backfill import Piece, Scope
from memoryhub.jobs.queue import Order
from memoryhub.providers.spaces import EMBED_KEY, EMBED_KIND, without_vector, writing_spaces
from memoryhub.search.reindexing import index_models


def pieces(scope: Scope) -> Iterator[Piece]:
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
