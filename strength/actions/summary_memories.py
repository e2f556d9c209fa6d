"""A session's summary as a memory, so that an old conversation is found by its meaning (SPEC L2, U7).

One memory per session, rewritten with every new summary. A memory that a person edited, rejected, archived or deleted
stays as it is, and an untrusted summary never replaces a trusted one.
"""

from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django.db import transaction

from conversations.actions.sessions import SessionSummary, session_summary
from conversations.models import Session
from memoryhub.auth.domain import Principal
from memoryhub.tenancy.domain import Trust
from memoryhub.tenancy.models import Actor
from strength.actions.curation import apply_transition, delete_memory, edit_memory
from strength.actions.memories import NewMemory, write_memory
from strength.actions.tombstones import BlockedByTombstone
from strength.domain.extraction import Strategy, namespace_of
from strength.domain.memories import SLEEP_VERB, Kind, LockedByPerson, Source, Status
from strength.models import Memory, MemoryRevision, StrategyCursor
from strength.models.locks import lock_shared

REASON = "The session's summary was rewritten."
DELETED = "The session's summary was deleted."


@transaction.atomic
def remember_summary(*, actor: Actor, session_id: UUID, by: Principal, now: datetime) -> Memory | None:
    """Write a session's summary into its memory; None where there is none, or a person decided otherwise."""
    lock_shared(actor.id)
    session = Session.objects.filter(actor_id=actor.id, pk=session_id).first()
    told = session_summary(actor_id=actor.id, session_id=session_id)
    if told is None:
        _forget(actor, session_id, by, now)
    if session is None or told is None or not told.text.strip():
        return None
    cursor = _cursor(actor, session_id)
    if cursor.memory_id is None:
        memory = _written(actor, session, told, by, now)
    else:
        memory = _rewritten(actor, cursor.memory_id, told, by, now)
    StrategyCursor.objects.filter(pk=cursor.pk).update(
        read_until=told.message_count, memory_id=memory.pk if memory else cursor.memory_id
    )
    return memory


def _forget(actor: Actor, session_id: UUID, by: Principal, now: datetime) -> None:
    """Delete the memory of a summary that was deleted, unless a person has put it right; a later one is written anew.

    As a job, so without a tombstone: what was decided is that this summary goes, not that nobody may say it again.
    """
    cursors = StrategyCursor.objects.filter(
        actor_id=actor.id, session_id=session_id, strategy=Strategy.SUMMARY
    )
    cursor = cursors.exclude(memory_id=None).select_for_update().first()
    if cursor is None or cursor.memory_id is None:
        return
    memory = Memory.objects.of([actor.id]).select_related("actor__agent").filter(pk=cursor.memory_id).first()
    if memory is not None and not memory.locked:
        delete_memory(memory=memory, expected_version=None, by=by, reason=DELETED, now=now)
        cursors.update(memory_id=None, read_until=0)


def _cursor(actor: Actor, session_id: UUID) -> StrategyCursor:
    """Return the session's row, held: jobs about one session go one after the other."""
    names = {"actor_id": actor.id, "session_id": session_id, "strategy": Strategy.SUMMARY}
    StrategyCursor.objects.bulk_create([StrategyCursor(**names)], ignore_conflicts=True)
    return StrategyCursor.objects.select_for_update().get(**names)


def _written(
    actor: Actor, session: Session, told: SessionSummary, by: Principal, now: datetime
) -> Memory | None:
    new = NewMemory(
        content=told.text.strip(), kind=Kind.SUMMARY, namespace=namespace_of(Strategy.SUMMARY, session.pk),
        source=Source.EXTRACTION, channel=session.channel,
    )  # fmt: skip
    with suppress(BlockedByTombstone):
        memory, _ = write_memory(actor=actor, new=new, by=_as_trusted_as(told, by), now=now)
        return memory
    return None


def _as_trusted_as(told: SessionSummary, by: Principal) -> Principal:
    """Return the job as whom it acts: no more believed than what the summary was made of."""
    return replace(by, is_trusted=by.is_trusted and told.trust == Trust.TRUSTED)


def _rewritten(
    actor: Actor, memory_id: UUID, told: SessionSummary, by: Principal, now: datetime
) -> Memory | None:
    memory = Memory.objects.of([actor.id]).select_related("actor__agent").filter(pk=memory_id).first()
    if memory is None or not _may_be_rewritten(memory, told):
        return None
    with suppress(LockedByPerson, BlockedByTombstone):
        memory = edit_memory(
            memory=memory,
            values={"content": told.text.strip()},
            expected_version=None,
            by=by,
            reason=REASON,
            now=now,
        )
        if memory.status == Status.ARCHIVED:
            memory = apply_transition(memory=memory, verb="reactivate", by=by, reason=REASON, now=now)
        return memory
    return None


def _may_be_rewritten(memory: Memory, told: SessionSummary) -> bool:
    if memory.locked or memory.status == Status.REJECTED:
        return False
    if memory.status == Status.ARCHIVED and _last_verb(memory) != SLEEP_VERB:
        return False
    return told.trust == Trust.TRUSTED or memory.status == Status.PENDING


def _last_verb(memory: Memory) -> str | None:
    revisions = MemoryRevision.objects.filter(actor_id=memory.actor_id, memory=memory).order_by("-number")
    return revisions.values_list("verb", flat=True).first()
