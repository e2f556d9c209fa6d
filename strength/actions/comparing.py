"""What a sleep finds to say the same: pairs of near-duplicates, proposed as one or merged (SPEC S5)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from django.db import connection
from django.db.models import Q

from memoryhub.providers.spaces import active_space
from memoryhub.tenancy.models import Actor
from strength.actions.alike import alike_memories
from strength.actions.merging import CannotMerge, merge
from strength.domain.memories import Status
from strength.domain.merging import MergeState, Side, kept_first
from strength.models import Memory, MemoryIndex, MemoryNumbers, Merge, SleepRun
from strength.sleep_sql import WITHDRAW_STALE

AGAIN: Final = frozenset({MergeState.WITHDRAWN})
"""What may be proposed again: a person has decided about the others."""

ALIKE: Final = ("kind", "scope_level", "scope_domain", "scope_project", "valid_from", "valid_to")
"""What must be the same as well: one that fewer see, or that ends, cannot stand for the other."""


@dataclass(frozen=True)
class Pair:
    """Two memories that say the same: the one that would stay, the one it would absorb, and how alike they are."""

    kept: Memory
    absorbed: Memory
    likeness: float


@dataclass
class Noted:
    """What became of the pairs that a sleep found."""

    proposed: int = 0
    merged: int = 0
    errors: list[str] = field(default_factory=list)


def to_compare(run: SleepRun, most: int) -> list[Memory]:
    """Return the next memories that have changed since the last sleep, in the order of their changes."""
    rows = Memory.objects.of([run.actor_id]).active().filter(Q(valid_to=None) | Q(valid_to__gt=run.now))
    if run.compared_at is not None:
        later = Q(updated_at__gt=run.compared_at)
        if run.after is not None:
            later |= Q(updated_at=run.compared_at, id__gt=run.after)
        rows = rows.filter(later)
    return list(rows.select_related("numbers").order_by("updated_at", "id")[:most])


def pairs_among(actor: Actor, memories: Sequence[Memory], *, now: datetime) -> list[Pair]:
    """Return for each memory the one that says the same, where there is one; reads only, and asks no provider."""
    space = active_space()
    vectors = dict(
        MemoryIndex.objects.filter(actor_id=actor.id, space=space, memory__in=memories).values_list(
            "memory_id", "vector"
        )
    )
    pairs = []
    for memory in memories:
        vector = vectors.get(memory.pk)
        alike = alike_memories(
            actor_id=actor.id, namespace=memory.namespace, text=memory.content, space=space,
            vector=vector, now=now, among=[Status.ACTIVE], besides=[memory.pk],
        )  # fmt: skip
        same = [each for each in alike if _stand_for_each_other(memory, each.memory)]
        pairs += [_pair(memory, each.memory, each.likeness) for each in same[:1]]
    return pairs


def _stand_for_each_other(one: Memory, other: Memory) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in ALIKE)


def _pair(one: Memory, other: Memory, likeness: float) -> Pair:
    memories = {memory.pk: memory for memory in (one, other)}
    first, second = kept_first(side(one), side(other))
    return Pair(memories[first.key], memories[second.key], likeness)


def side(memory: Memory) -> Side:
    """Return what decides which of two memories stays."""
    return Side(memory.pk, memory.locked, memory.pinned, memory.numbers.strength, memory.created_at)


def note_pairs(run: SleepRun, pairs: Sequence[Pair], *, merges_itself: bool) -> Noted:
    """Propose the pairs, or merge those about which nobody has decided anything; inside the caller's transaction."""
    noted = Noted()
    for pair in _as_compared(run, pairs):
        proposal = _propose(run, pair)
        if proposal is None:
            continue
        if merges_itself and not side(pair.absorbed).is_decided:
            _merge(run, proposal, noted)
        else:
            noted.proposed += 1
    return noted


def _as_compared(run: SleepRun, pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs of which both are as they were compared, their rows held in the order of their keys."""
    ids = {memory.pk for pair in pairs for memory in (pair.kept, pair.absorbed)}
    rows = Memory.objects.of([run.actor_id]).active().filter(pk__in=ids).select_for_update().order_by("id")
    versions = dict(rows.values_list("pk", "version"))
    held = MemoryNumbers.objects.filter(actor_id=run.actor_id, memory__in=ids).select_for_update()
    list(held.order_by("memory_id").values_list("pk"))
    return [
        pair
        for pair in pairs
        if all(versions.get(memory.pk) == memory.version for memory in (pair.kept, pair.absorbed))
    ]


def _propose(run: SleepRun, pair: Pair) -> Merge | None:
    """Write the proposal down; None where there is one for this pair, or was and a person has decided."""
    of_pair = Merge.objects.filter(actor_id=run.actor_id).filter(
        Q(kept=pair.kept, absorbed=pair.absorbed) | Q(kept=pair.absorbed, absorbed=pair.kept)
    )
    if any(_stands(each, pair) for each in of_pair):
        return None
    of_pair.delete()
    return Merge.objects.create(
        actor_id=run.actor_id, run=run, kept=pair.kept, kept_version=pair.kept.version, absorbed=pair.absorbed,
        absorbed_version=pair.absorbed.version, likeness=pair.likeness, created_at=run.now,
    )  # fmt: skip


def _stands(known: Merge, pair: Pair) -> bool:
    """Say whether a proposal stands as it is: decided by a person, or open about the two as they are now."""
    if known.state == MergeState.PROPOSED:
        versions = {known.kept_id: known.kept_version, known.absorbed_id: known.absorbed_version}
        return versions == {memory.pk: memory.version for memory in (pair.kept, pair.absorbed)}
    return known.state not in AGAIN


def withdraw_stale(run: SleepRun) -> None:
    """Withdraw open proposals about memories that are not active any more; what was changed is compared anew."""
    with connection.cursor() as cursor:
        cursor.execute(WITHDRAW_STALE, {"actor_id": run.actor_id, "now": run.now})


def _merge(run: SleepRun, proposal: Merge, noted: Noted) -> None:
    try:
        merge(proposal=proposal, by=run.sleeper, reason=f"sleep {run.number}", now=run.now)
    except CannotMerge:  # it was merged with another of this very batch, and is compared anew
        proposal.delete()
    else:
        noted.merged += 1
