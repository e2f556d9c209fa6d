"""An actor whose memory is written, used and put to sleep at moments that the test chooses."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import command
from memoryhub.tenancy.models import Actor
from strength.actions.memories import NewMemory, write_memory
from strength.actions.sleep import SleepRequest, sleep
from strength.domain.sleep import Trigger
from strength.models import Memory, MemoryNumbers, PerspectiveStrength, SleepRun
from tests.fakes.plugin import llm, llm_server  # noqa: F401

BY = command("test")
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def numbers(memory: Any) -> Any:
    """Return a memory's numbers with its strength as it is now."""
    return numbers_of([memory])[memory.pk]


def numbers_of(memories: list[Any]) -> dict[Any, Any]:
    """Return the numbers of memories, by their ids, with their strengths as they are now."""
    rows: Any = MemoryNumbers.objects.with_strength().select_related("actor__sleep_state")
    found = {row.memory_id: row for row in rows.filter(memory__in=memories)}
    for row in found.values():
        state = getattr(row.actor, "sleep_state", None)
        assert row.strength_now == pytest.approx(row.now(state), rel=1e-12)
        row.strength, row.last_decay_at = row.strength_now, row.decayed_until(state)
    return found


def seen(perspective: PerspectiveStrength) -> float:
    """Return a strength in a perspective as it is now."""
    memory = Memory.objects.select_related("numbers", "actor__sleep_state").get(pk=perspective.memory_id)
    return memory.numbers.of_perspective(perspective, memory.state)


Write = Callable[..., Memory]
Sleep = Callable[..., SleepRun]


@pytest.fixture
def actor(db: None) -> Actor:
    """Return a user of an agent."""
    return actor_for_writing(BY, "kana", "hiroki", now=NOW)


@pytest.fixture
def write(actor: Actor) -> Write:
    """Return what writes a memory of the actor."""

    def writing(content: str, *, at: datetime = NOW, by: Any = BY, **values: Any) -> Memory:
        memory, _ = write_memory(actor=actor, new=NewMemory(content=content, **values), by=by, now=at)
        return memory

    return writing


@pytest.fixture
def sleep_at(actor: Actor) -> Sleep:
    """Return what lets the actor sleep."""

    def sleeping(moment: datetime, **options: Any) -> SleepRun:
        actor.refresh_from_db()
        actor.agent.refresh_from_db()
        return sleep(actor=actor, request=SleepRequest(Trigger.COMMAND, BY, moment), **options)

    return sleeping
