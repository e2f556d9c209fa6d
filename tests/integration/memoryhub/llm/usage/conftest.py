"""The fakes that these tests talk to, an actor who asks, and prices."""

from datetime import UTC, datetime
from typing import Any

import pytest

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import command
from memoryhub.prices import PriceList
from memoryhub.tenancy.models import Actor, Agent
from tests.fakes.plugin import embeddings_server, llm, llm_server

__all__ = ["embeddings_server", "llm", "llm_server"]


@pytest.fixture
def actor(db: None) -> Actor:
    """Return a user of an agent."""
    return actor_for_writing(command("test"), "kana", "hiroki", now=datetime(2026, 3, 1, tzinfo=UTC))


@pytest.fixture
def prices(settings: Any) -> None:
    """Set prices: 10 US dollars for a million tokens read, 50 written; embeddings at 1."""
    settings.PRICES = PriceList.from_json(
        '{"claude": {"input": 10, "output": 50}, "text-embedding": {"input": 1, "output": 0}}'
    )


def cap(actor: Actor, **caps: Any) -> Actor:
    """Give the actor's agent caps, and return the actor as read anew."""
    Agent.objects.filter(pk=actor.agent_id).update(policy=caps)
    return Actor.objects.select_related("agent").get(pk=actor.pk)
