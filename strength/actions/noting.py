"""Noting which memories a chat's answer used: of those in its context, the ones found in its words (SPEC B1, S2)."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from conversations.domain.chat import TurnState
from conversations.domain.layers import PINNED, SEMANTIC
from conversations.models import ChatTurn, Receipt
from memoryhub.auth.domain import Principal
from memoryhub.tenancy.domain import Trust
from memoryhub.tenancy.policies import effective_policy
from strength.actions.detection import detect_use
from strength.actions.use import use_memories
from strength.domain.policy import StrengthPolicy
from strength.models import Memory

OF_MEMORIES = frozenset({PINNED, SEMANTIC})


def turns_to_note(*, actor_id: UUID, session_id: UUID) -> Sequence[ChatTurn]:
    """Return a session's answered questions whose memories were not looked through yet, oldest first."""
    turns = ChatTurn.objects.filter(
        actor_id=actor_id, session_id=session_id, state=TurnState.ANSWERED, use_noted_at=None
    )
    return list(turns.select_related("actor__agent", "question", "answer", "receipt").order_by("id"))


def used_in(*, turn: ChatTurn) -> list[Memory]:
    """Return the memories of a turn's context that its answer used; may ask a provider, so outside transactions.

    None of them where the question came from somebody who is not trusted: they may not strengthen what is believed.
    """
    if turn.answer is None or turn.receipt is None or turn.question.trust != Trust.TRUSTED:
        return []
    memories = list(
        Memory.objects.active().filter(pk__in=_entered(turn.receipt)).select_related("actor__agent")
    )
    policy = effective_policy(StrengthPolicy, turn.actor.agent, turn.actor)
    found = detect_use(
        how=policy.use_detection, result=turn.answer.content, query=turn.question.content, memories=memories,
        actor=turn.actor, language=turn.actor.agent.language,
    )  # fmt: skip
    return [memory for memory in memories if memory.pk in set(found.memory_ids)]


def note_use(*, turn: ChatTurn, memories: Sequence[Memory], by: Principal, now: datetime) -> int:
    """Strengthen what a turn used, once however often this is done, and return how many; in a transaction."""
    used = use_memories(memories=memories, perspective=None, task=f"chat:{turn.pk}", by=by, now=now)
    ChatTurn.objects.filter(actor_id=turn.actor_id, pk=turn.pk).update(use_noted_at=now)
    return used


def _entered(receipt: Receipt) -> list[UUID]:
    return [
        UUID(item["source_id"])
        for item in receipt.items
        if item["included"] and item["layer"] in OF_MEMORIES and item["source_id"]
    ]
