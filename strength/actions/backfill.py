"""What extraction has not read yet, or passed over, of the strategies that are on by now (SPEC L2)."""

from collections.abc import Iterator
from functools import partial

from django.conf import settings

from memoryhub.jobs.backfilling import Piece, Scope
from memoryhub.jobs.queue import Order
from memoryhub.providers.errors import ProviderMisconfigured
from memoryhub.tenancy.models import Actor
from strength.actions.extraction import (
    EXTRACT_KEY,
    messages_passed_over,
    messages_waiting,
    rewind,
)
from strength.domain.memories import Kind
from strength.domain.strategies import EXTRACT_KIND, Strategy, is_on
from strength.models import Memory, ReflectionCursor


def pieces(scope: Scope) -> Iterator[Piece]:
    """Yield a job for each actor whose messages were not all read (`manage.py backfill`).

    Raises ProviderMisconfigured where some wait and there is no model that could read them.
    """
    missing = _missing(scope)
    if settings.LLM.provider != "none":
        yield from missing
    elif many := sum(piece.size for piece in missing):
        message = f"No language model is configured (MEMORYHUB_LLM_PROVIDER); {many} messages wait."
        raise ProviderMisconfigured(message, code="no_model")


def _missing(scope: Scope) -> Iterator[Piece]:
    actors = Actor.objects.select_related("agent").order_by("id")
    if scope.agent_id is not None:
        actors = actors.filter(agent_id=scope.agent_id)
    if scope.user_id is not None:
        actors = actors.filter(user_id=scope.user_id)
    for actor in actors.iterator(chunk_size=1000):
        left = [*messages_waiting(actor=actor).values(), *_passed_over(actor)]
        if any(left):
            back = partial(rewind, actor=actor, strategies=list(Strategy), since=scope.since)
            yield Piece(actor.id, Order(EXTRACT_KIND, EXTRACT_KEY), max(left), back)


def _passed_over(actor: Actor) -> Iterator[int]:
    """Yield how much was passed over for each strategy that is on; what is still off is not gone back for."""
    switches = actor.agent.strategies
    yield from (many for each, many in messages_passed_over(actor=actor).items() if is_on(switches, each))
    passed = ReflectionCursor.objects.filter(actor_id=actor.id, has_passed=True)
    if is_on(switches, Strategy.REFLECTION) and passed.exists():
        yield Memory.objects.of([actor.id]).active().filter(kind=Kind.EPISODE).count()
