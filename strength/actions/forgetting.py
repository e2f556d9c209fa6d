"""Delete the memories that rest on deleted messages alone; those with other sources wait for review (SPEC C6)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from conversations.actions.forgetting import Forgotten, check_may_forget, forget_messages
from conversations.models import Message, Session
from memoryhub.auth.principals import Principal
from strength.actions.curation import delete_locked, delete_memory, delete_without_tombstones
from strength.actions.revisions import snapshot, store_change
from strength.domain.extraction import Strategy
from strength.domain.memories import LOST_SOURCE_VERB, Status
from strength.models import Memory, MemorySource, StrategyCursor

REASON: Final = "A message that it comes from was deleted."


@transaction.atomic
def delete_with_sources(
    *, memory: Memory, expected_version: int | None, by: Principal, reason: str = "", now: datetime
) -> Counter[str]:
    """Delete a memory and the messages that it comes from, with all that was drawn from them; return counts.

    Raises as `delete_memory` and `forget_messages`, and Forbidden as `check_may_forget`.
    """
    check_may_forget(by)
    message_ids = remaining_sources(memory)
    delete_memory(memory=memory, expected_version=expected_version, by=by, reason=reason, now=now)
    counts = Counter(memories=1)
    of_sources = Message.objects.of([memory.actor_id]).filter(pk__in=message_ids)
    sessions = Session.objects.filter(actor_id=memory.actor_id, pk__in=of_sources.values("session_id"))
    for session in sessions.order_by("pk"):
        deletion = forget_messages(session=session, chosen=Q(pk__in=message_ids), by=by, reason=reason, now=now)
        counts.update(deletion.counts)
    return counts


def remaining_sources(memory: Memory) -> list[UUID]:
    """Return the messages that a memory comes from and that are still stored, oldest first."""
    named = memory.sources.values("message_id")
    rows = Message.objects.of([memory.actor_id]).filter(pk__in=named).order_by("created_at", "pk")
    return list(rows.values_list("pk", flat=True))


def forget_memories(forgotten: Forgotten) -> Counter[str]:
    """Delete or mark what was extracted from deleted messages; return counts.

    Takes no lock of the sleep: the caller holds the actor exclusively, and a sleep that waited for that while it holds
    its own lock would never end.
    """
    sources = MemorySource.objects.filter(actor_id=forgotten.actor.pk)
    lost = sources.filter(message_id__in=forgotten.message_ids)
    if forgotten.keeps_drawn:
        lost.delete()
        return Counter()
    # Deleting one's own words reaches what other agents read as well.
    by = replace(forgotten.by, agent_ids=None)
    summarised = _forget_summary_memory(forgotten, by)
    resting = set(lost.values_list("memory_id", flat=True))
    others = sources.filter(memory_id__in=resting).exclude(message_id__in=forgotten.message_ids)
    kept = set(others.values_list("memory_id", flat=True))
    memories = Memory.objects.of([forgotten.actor.pk]).locked(resting)
    alone = [memory for key, memory in memories.items() if key not in kept]
    delete_locked(alone, actor=forgotten.actor, by=by, reason=forgotten.reason, now=forgotten.now)
    lost.delete()
    waiting = sum(_await_review(memory, forgotten, by) for key, memory in memories.items() if key in kept)
    return Counter(memories=len(alone) + summarised, memories_for_review=waiting)


def _await_review(memory: Memory, forgotten: Forgotten, by: Principal) -> bool:
    """Take a memory out of contexts until a person decides; an archived or ended one was not in them."""
    has_ended = memory.valid_to is not None and memory.valid_to <= forgotten.now
    if memory.status != Status.ACTIVE or has_ended:
        return False
    before = snapshot(memory)
    memory.status, memory.pinned = Status.PENDING, False
    store_change(memory, verb=LOST_SOURCE_VERB, before=before, by=by, reason=REASON, now=forgotten.now)
    return True


def _forget_summary_memory(forgotten: Forgotten, by: Principal) -> int:
    """Delete the memory of a summary that covers deleted messages, without a tombstone: the next may say the same."""
    cursors = StrategyCursor.objects.filter(actor_id=forgotten.actor.pk, session_id=forgotten.session.pk)
    of_summary = cursors.filter(strategy=Strategy.SUMMARY, read_until__gte=forgotten.first_seq)
    keys: Sequence[UUID] = [key for key in of_summary.values_list("memory_id", flat=True) if key is not None]
    memory_ids = list(Memory.objects.of([forgotten.actor.pk]).locked(keys))
    delete_without_tombstones(
        actor=forgotten.actor, memory_ids=memory_ids, by=by, reason=forgotten.reason, now=forgotten.now
    )
    (cursors if forgotten.is_whole else of_summary).delete()
    return len(memory_ids)
