"""What happens to a memory's numbers when it is returned, used, or brought back (SPEC S2)."""

from collections.abc import Sequence
from datetime import datetime

from django.db import connection
from django.db.models import F, Value
from django.db.models.functions import Coalesce

from memoryhub.tenants.policies import effective_policy
from strength import expressions
from strength.domain.policy import StrengthPolicy
from strength.models import Memory, MemoryNumbers, PerspectiveStrength
from strength.sql import MARK_CANDIDATES


def mark_candidates(*, memories: Sequence[Memory]) -> None:
    """Count that a search returned these memories; their strength stays as it is."""
    if memories:
        keys = {
            "actor_ids": list({memory.actor_id for memory in memories}),
            "memory_ids": list({memory.pk for memory in memories}),
        }
        with connection.cursor() as cursor:
            cursor.execute(MARK_CANDIDATES, keys)


def reinforce(*, memories: Sequence[Memory], perspective: str | None, now: datetime) -> int:
    """Strengthen memories that were used; return how many. Added in the database, so that no use is lost."""
    return sum(_reinforce(memory, perspective, now) for memory in memories)


def _reinforce(memory: Memory, perspective: str | None, now: datetime) -> int:
    policy = effective_policy(StrengthPolicy, memory.agent, memory.actor)
    updated = MemoryNumbers.objects.filter(pk=memory.pk, actor_id=memory.actor_id).update(
        access_count=F("access_count") + 1,
        strength=expressions.grown(policy.strength_increment_on_use),
        last_accessed_at=now,
        consolidation_level=expressions.consolidation_level(policy.consolidation_thresholds, added_uses=1),
    )
    if perspective is not None:
        _reinforce_perspective(memory, perspective, policy.perspective_strength_increment, now)
    return updated


def _reinforce_perspective(memory: Memory, perspective: str, increment: float, now: datetime) -> None:
    PerspectiveStrength.objects.bulk_create(
        [
            PerspectiveStrength(
                actor_id=memory.actor_id, memory=memory, perspective=perspective, strength=0.0, as_of=now
            )
        ],
        ignore_conflicts=True,
    )
    PerspectiveStrength.objects.filter(
        actor_id=memory.actor_id, memory=memory, perspective=perspective
    ).update(strength=Coalesce(F("strength"), Value(0.0)) + Value(increment), as_of=now)
