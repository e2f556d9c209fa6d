"""What happens to memories' numbers when they are returned, used, or had an impact (SPEC S2, S3).

Added in the database, so that no use is lost; one statement for all memories of an actor, in the order of their keys.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from memoryhub.auth import audit
from memoryhub.auth.domain import Forbidden, Principal, PrincipalKind
from memoryhub.errors import DomainError, told
from memoryhub.tenancy.domain import Trust
from memoryhub.tenancy.policies import effective_policy
from strength.actions.clock import write_numbers
from strength.domain.history import PointKind
from strength.domain.memories import Status
from strength.domain.policy import StrengthPolicy
from strength.domain.strength import Impact, impact_value
from strength.expressions import policy_values
from strength.models import Memory
from strength.models.rest import hold_awake
from strength.sql import IMPACT_MEMORIES, MARK_CANDIDATES, SET_STRENGTHS, USE_MEMORIES

LEARNABLE = frozenset({Status.ACTIVE, Status.ARCHIVED})
"""The states in which a memory grows: what waits for a curator or was refused does not."""


class NotUsable(DomainError):
    """The memory waits for a curator, or was refused: nobody can have used it."""


def mark_candidates(*, memories: Sequence[Memory]) -> None:
    """Count that a search returned these memories; their strength stays as it is."""
    if memories:
        keys = {
            "actor_ids": list({memory.actor_id for memory in memories}),
            "memory_ids": list({memory.pk for memory in memories}),
        }
        with connection.cursor() as cursor:
            cursor.execute(MARK_CANDIDATES, keys)


@transaction.atomic
def use_memories(
    *, memories: Sequence[Memory], perspective: str | None, task: str | None, by: Principal, now: datetime
) -> int:
    """Strengthen memories that were used; return how many.

    With a `task`, each counts once however often it is reported for that task; its name is kept as a hash. Those
    that wait for a curator or were rejected are left out. Raises Forbidden where an untrusted key would strengthen
    what is believed.
    """
    _check_trust(memories, by)
    known_as = None if task is None else hashlib.sha256(task.encode()).hexdigest()
    given = {"perspective": perspective, "task": known_as, "kind": PointKind.USED}
    return sum(
        _execute(USE_MEMORIES, group, now, **_use(policy), **given) for policy, group in _by_actor(memories)
    )


@transaction.atomic
def use_memory(
    *, memory: Memory, perspective: str | None, task: str | None, by: Principal, now: datetime
) -> None:
    """Strengthen one memory that was used, once per task. Raises NotUsable, Forbidden."""
    _check_usable(memory)
    if use_memories(memories=[memory], perspective=perspective, task=task, by=by, now=now):
        _note_of_person(memory, "use", by, now)


def _note_of_person(memory: Memory, verb: str, by: Principal, now: datetime, **details: str) -> None:
    """Write down what a person said of a memory; what clients report all day stands in its history alone."""
    if by.kind is PrincipalKind.CURATOR:
        audit.record(
            by=by, verb=verb, object_kind="memory", object_id=memory.pk, actor=memory.actor, details=details, now=now
        )  # fmt: skip


@transaction.atomic
def apply_impact(*, memories: Sequence[Memory], impact: Impact, by: Principal, now: datetime) -> int:
    """Add an impact to memories, and a share of it to their strength; return how many (SPEC S3). Raises Forbidden."""
    _check_trust(memories, by)
    done = 0
    for policy, group in _by_actor(memories):
        value = impact_value(policy, impact)
        grown = {"value": value, "increment": value * policy.impact_to_strength_ratio}
        done += _execute(IMPACT_MEMORIES, group, now, **grown, kind=PointKind.IMPACT)
    return done


@transaction.atomic
def impact_memory(*, memory: Memory, impact: Impact, by: Principal, now: datetime) -> None:
    """Add an impact to one memory. Raises NotUsable, Forbidden."""
    _check_usable(memory)
    if apply_impact(memories=[memory], impact=impact, by=by, now=now):
        _note_of_person(memory, "impact", by, now, impact=impact.value)


@transaction.atomic
def set_strengths(
    *, memories: Sequence[Memory], strengths: Mapping[UUID, float], by: Principal, now: datetime
) -> int:
    """Set how strong memories are from now on, by their ids; return how many. Raises Forbidden."""
    _check_trust(memories, by)
    done = 0
    for _, group in _by_actor(memories):
        stated = [strengths[memory.pk] for memory in group]
        done += _execute(SET_STRENGTHS, group, now, strengths=stated, kind=PointKind.SET)
    return done


def reinforce(*, memory: Memory, now: datetime) -> None:
    """Strengthen a memory that was said again; inside the caller's transaction, which holds it."""
    policy = effective_policy(StrengthPolicy, memory.agent, memory.actor)
    _execute(USE_MEMORIES, [memory], now, **_use(policy), perspective=None, task=None, kind=PointKind.USED)


def _use(policy: StrengthPolicy) -> dict[str, Any]:
    return {
        **policy_values(policy),
        "increment": policy.strength_increment_on_use,
        "perspective_increment": policy.perspective_strength_increment,
    }


def _by_actor(memories: Iterable[Memory]) -> Iterable[tuple[StrengthPolicy, list[Memory]]]:
    """Yield each actor's policy and memories, in the order in which rows are locked."""
    groups: dict[UUID, dict[UUID, Memory]] = defaultdict(dict)
    for memory in memories:
        groups[memory.actor_id][memory.pk] = memory
    for actor_id in sorted(groups):
        hold_awake(actor_id)
        group = list(groups[actor_id].values())
        yield effective_policy(StrengthPolicy, group[0].agent, group[0].actor), group


def _execute(statement: str, group: Sequence[Memory], now: datetime, **values: Any) -> int:
    ids = [memory.pk for memory in group]
    return write_numbers(statement, {"now": now, **values}, actor_id=group[0].actor_id, memory_ids=ids)


def _check_trust(memories: Iterable[Memory], by: Principal) -> None:
    if not by.is_trusted and any(memory.trust == Trust.TRUSTED for memory in memories):
        raise Forbidden(told("An untrusted key may not change how strong what is believed is."))


def _check_usable(memory: Memory) -> None:
    if Status(memory.status) not in LEARNABLE:
        raise NotUsable(
            told("A memory that is %(status)s cannot have been used.", status=told(memory.status))
        )
