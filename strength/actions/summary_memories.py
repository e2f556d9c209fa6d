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
from memoryhub.auth.principals import Principal
from memoryhub.errors import stored_text
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import Trust
from strength.actions.curation import apply_transition, delete_memory, edit_memory
from strength.actions.drafts import NewMemory
from strength.actions.memories import write_memory
from strength.actions.revisions import last_verb
from strength.actions.tombstones import BlockedByTombstone
from strength.domain.extraction import Strategy, namespace_of
from strength.domain.memories import SLEEP_VERB, Kind, LockedByPerson, Source, Status
from strength.models import Memory, StrategyCursor
from strength.models.locks import lock_shared

REWRITE_REASON = stored_text("The session's summary was rewritten.")
DELETE_REASON = stored_text("The session's summary was deleted.")


@transaction.atomic
def write_summary_memory(*, actor: Actor, session_id: UUID, by: Principal, now: datetime) -> Memory | None:
    """Write a session's summary as its memory; None where there is none, or a person decided otherwise."""
    lock_shared(actor.id)
    session = Session.objects.filter(actor_id=actor.id, pk=session_id).first()
    summary = session_summary(actor_id=actor.id, session_id=session_id)
    if summary is None:
        _delete(actor, session_id, by, now)
    if session is None or summary is None or not summary.text.strip():
        return None
    cursor = _cursor(actor, session_id)
    if cursor.memory_id is None:
        memory = _write_new(actor, session, summary, by, now)
    else:
        memory = _rewrite(actor, cursor.memory_id, summary, by, now)
    StrategyCursor.objects.filter(pk=cursor.pk).update(
        read_until=summary.message_count, memory_id=memory.pk if memory else cursor.memory_id
    )
    return memory


def _delete(actor: Actor, session_id: UUID, by: Principal, now: datetime) -> None:
    """Delete the memory unless a person edited it; without a tombstone, for a later summary may say the same."""
    cursors = StrategyCursor.objects.filter(actor_id=actor.id, session_id=session_id, strategy=Strategy.SUMMARY)
    cursor = cursors.exclude(memory_id=None).select_for_update().first()
    if cursor is None or cursor.memory_id is None:
        return
    memory = Memory.objects.of([actor.id]).select_related("actor__agent").filter(pk=cursor.memory_id).first()
    if memory is not None and not memory.locked:
        delete_memory(memory=memory, expected_version=None, by=by, reason=DELETE_REASON, now=now)
        cursors.update(memory_id=None, read_until=0)


def _cursor(actor: Actor, session_id: UUID) -> StrategyCursor:
    """Return the session's cursor, locked, so that jobs of one session run one after the other."""
    names = {"actor_id": actor.id, "session_id": session_id, "strategy": Strategy.SUMMARY}
    StrategyCursor.objects.bulk_create([StrategyCursor(**names)], ignore_conflicts=True)
    return StrategyCursor.objects.select_for_update().get(**names)


def _write_new(actor: Actor, session: Session, summary: SessionSummary, by: Principal, now: datetime) -> Memory | None:
    new = NewMemory(
        content=summary.text.strip(),
        kind=Kind.SUMMARY,
        namespace=namespace_of(Strategy.SUMMARY, session.pk),
        source=Source.EXTRACTION,
        channel=session.channel,
    )
    as_trusted = replace(by, is_trusted=by.is_trusted and summary.trust == Trust.TRUSTED)
    with suppress(BlockedByTombstone):
        memory, _ = write_memory(actor=actor, new=new, by=as_trusted, now=now)
        return memory
    return None


def _rewrite(actor: Actor, memory_id: UUID, summary: SessionSummary, by: Principal, now: datetime) -> Memory | None:
    memory = Memory.objects.of([actor.id]).select_related("actor__agent").filter(pk=memory_id).first()
    if memory is None or memory.locked or memory.status == Status.REJECTED:
        return None
    if memory.status == Status.ARCHIVED and last_verb(memory) != SLEEP_VERB:
        return None
    if summary.trust != Trust.TRUSTED and memory.status != Status.PENDING:
        return None
    with suppress(LockedByPerson, BlockedByTombstone):
        values = {"content": summary.text.strip()}
        memory = edit_memory(memory=memory, values=values, expected_version=None, by=by, reason=REWRITE_REASON, now=now)
        if memory.status == Status.ARCHIVED:
            memory = apply_transition(memory=memory, verb="reactivate", by=by, reason=REWRITE_REASON, now=now)
        return memory
    return None
