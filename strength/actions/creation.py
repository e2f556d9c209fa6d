"""Insert the rows beside new memories: numbers, sources, index rows, first revisions; a statement for each table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from conversations.models import Message
from memoryhub.auth.domain import Principal
from memoryhub.embeddings.spaces import IndexEntry
from memoryhub.search.models import EmbeddingSpace
from memoryhub.tenancy.policies import effective_policy
from strength.actions.revisions import MARK, STRENGTH, keep_creations
from strength.actions.search import index_new_memories
from strength.domain.memories import Source
from strength.domain.policy import StrengthPolicy
from strength.domain.strength import NEVER, initial_strength
from strength.models import Memory, MemoryNumbers, MemorySource, PerspectiveStrength
from strength.models.sleep import begin_clock
from strength.sql import QUERIES, run_query


@dataclass(frozen=True)
class NewRow:
    """A memory whose row is inserted, and what the rows beside it are made of."""

    memory: Memory
    entry: IndexEntry
    messages: Sequence[Message]
    reason: str
    strength: float | None
    strength_by_perspective: Mapping[str, float]
    beside: Mapping[str, Any]


def complete_new(
    written: Sequence[NewRow], spaces: Sequence[EmbeddingSpace], *, by: Principal, now: datetime
) -> None:
    """Add numbers, sources, index rows and first revisions of one actor's new memories, a statement for each table."""
    besides = _add_numbers(written, now)
    MemorySource.objects.bulk_create(
        source for each in written for source in sources_of(each.memory, each.messages, now)
    )
    index_new_memories([(each.memory, each.entry) for each in written], spaces)
    keep_creations(
        [(each.memory, each.reason, {**besides[each.memory.pk], **each.beside}) for each in written],
        by=by,
        now=now,
    )


def _add_numbers(written: Sequence[NewRow], now: datetime) -> dict[UUID, dict[str, float | None]]:
    """Add the numbers of new memories; return their strengths and marks, from which their histories begin."""
    actor = written[0].memory.actor
    policy = effective_policy(StrengthPolicy, actor.agent, actor)
    strengths = {
        each.memory.pk: initial_strength(policy, source=Source(each.memory.source), stated=each.strength)
        for each in written
    }
    values = {
        "actor_id": actor.pk, "memory_ids": list(strengths), "strengths": list(strengths.values()), "now": now
    }  # fmt: skip
    rows = run_query(QUERIES["insert_numbers"], values, server_prepared=True)
    marks = {memory_id: mark for memory_id, mark, _is_first in rows}
    PerspectiveStrength.objects.bulk_create(
        PerspectiveStrength(
            actor_id=actor.pk, memory=each.memory, perspective=name, strength=value, mark=marks[each.memory.pk],
            as_of=now,
        )
        for each in written
        for name, value in each.strength_by_perspective.items()
    )  # fmt: skip
    if rows[0][2]:
        begin_clock(actor.pk, policy, now)
    for memory in (each.memory for each in written):
        # The memory's `numbers`, which need not be read: it is new.
        MemoryNumbers(
            memory=memory,
            actor_id=actor.pk,
            strength=strengths[memory.pk],
            mark=marks[memory.pk],
            began_at=now,
        )
    return {
        key: {STRENGTH: strength, MARK: marks[key] if marks[key] > NEVER else None}
        for key, strength in strengths.items()
    }


def sources_of(memory: Memory, messages: Sequence[Message], now: datetime) -> list[MemorySource]:
    return [
        MemorySource(
            actor_id=memory.actor_id, memory=memory, message_id=message.id, session_id=message.session_id,
            channel=message.session.channel, trust=message.trust, created_at=now,
        )
        for message in messages
    ]  # fmt: skip
