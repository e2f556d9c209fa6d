"""What extraction has not read yet, or passed over while its strategies were off (SPEC L2)."""

from collections.abc import Iterator
from functools import partial

from django.conf import settings

from memoryhub.jobs.backfilling import Piece, Scope
from memoryhub.jobs.queue import Order
from memoryhub.tenants.models import Actor
from strength.actions.extraction import (
    EXTRACT_KEY,
    EXTRACT_KIND,
    messages_passed_over,
    messages_waiting,
    rewind,
)
from strength.domain.strategies import Strategy


def pieces(scope: Scope) -> Iterator[Piece]:
    """Yield a job for each actor whose messages were not all read (`manage.py backfill`); none without a model."""
    if settings.LLM.provider == "none":
        return
    actors = Actor.objects.select_related("agent").order_by("id")
    if scope.agent_id is not None:
        actors = actors.filter(agent_id=scope.agent_id)
    if scope.user_id is not None:
        actors = actors.filter(user_id=scope.user_id)
    for actor in actors.iterator(chunk_size=1000):
        left = [*messages_waiting(actor=actor).values(), *messages_passed_over(actor=actor).values()]
        if any(left):
            back = partial(rewind, actor=actor, strategies=list(Strategy), since=scope.since)
            yield Piece(actor.id, Order(EXTRACT_KIND, EXTRACT_KEY), max(left), back)
