"""Write imported conversations as sessions: new ones many at a time, known ones where they have grown; undo both."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID, uuid5

from django.db import IntegrityError, transaction
from django.db.models import Max, Q

from conversations.actions.context import forget_sources
from conversations.actions.messages import add_messages, insert_messages, message_index_entries, message_values
from conversations.domain.messages import NewMessage, Numbered, Role
from conversations.models import Message, Session
from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import lock_actor
from memoryhub.embeddings.spaces import writing_spaces
from memoryhub.importexport.imports import ImportContext
from memoryhub.importexport.models import ImportedRow
from memoryhub.importexport.records import MESSAGES, SESSIONS, ImportedMessage, ImportedSession, LocatedRecord
from memoryhub.jobs.queue import enqueue_triggered_by_each
from memoryhub.llm.tokens import count_raw
from memoryhub.tenancy.domain import TrustPolicy
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy, zone_of

SESSION_KIND: Final = "session"


@dataclass
class _Conversation:
    """The parts of a session that one batch holds, put together."""

    located: LocatedRecord
    session: ImportedSession
    messages: dict[str, ImportedMessage] = field(default_factory=dict)


def write_sessions(records: Sequence[LocatedRecord], *, context: ImportContext) -> None:
    """Write sessions and messages that are not here yet; a known session gets what it has grown by."""
    actor = context.actor("")
    lock_actor(actor.pk)
    wanted: dict[UUID, _Conversation] = {}
    for located in records:
        session = located.record
        if isinstance(session, ImportedSession):
            key = uuid5(actor.pk, f"{context.format} {session.id}")
            conversation = wanted.setdefault(key, _Conversation(located, session))
            for message in session.messages:
                conversation.messages.setdefault(message.id, message)
    fresh = wanted.keys() - _extend_known(actor, wanted, context)
    try:
        with transaction.atomic():
            _insert(actor, {key: wanted[key] for key in wanted if key in fresh}, context)
    except IntegrityError:  # another import of the same file was quicker
        _extend_known(actor, wanted, context)


def _extend_known(actor: Actor, wanted: Mapping[UUID, _Conversation], context: ImportContext) -> set[UUID]:
    """Add the new messages of known sessions; return the known ones."""
    sessions = Session.objects.filter(actor_id=actor.pk).in_bulk(list(wanted))
    ids = [message_id for key in sessions for message_id in wanted[key].messages]
    rows = Message.objects.filter(actor_id=actor.pk, session_id__in=sessions, client_message_id__in=ids)
    known = set(rows.values_list("session_id", "client_message_id")) if sessions else set()
    for key, session in sessions.items():
        conversation = wanted[key]
        new = [each for each in conversation.messages.values() if (key, each.id) not in known]
        context.add_known(conversation.located)
        context.report.known[MESSAGES] += len(conversation.messages) - len(new)
        context.report.made[MESSAGES] += len(new)
        if new and not context.dry_run:
            session.actor = actor
            first = session.message_count + 1
            batch = [_new_message(each, session.started_at) for each in new]
            add_messages(session=session, batch=batch, by=context.by, now=context.now)
            context.note_row(actor, SESSION_KIND, key, first_seq=first, last_seq=session.message_count)
    return set(sessions)


def _new_message(message: ImportedMessage, fallback: datetime) -> NewMessage:
    return NewMessage(
        role=Role(message.role),
        content=message.text,
        client_message_id=message.id,
        created_at=message.created_at or fallback,
    )


def _insert(actor: Actor, fresh: Mapping[UUID, _Conversation], context: ImportContext) -> None:
    if not context.dry_run and fresh:
        _insert_rows(actor, fresh, context)
    context.report.made[SESSIONS] += len(fresh)
    context.report.made[MESSAGES] += sum(len(each.messages) for each in fresh.values())


def _insert_rows(actor: Actor, fresh: Mapping[UUID, _Conversation], context: ImportContext) -> None:
    """Insert new sessions with their messages, a statement for each table."""
    policy = effective_policy(TrustPolicy, actor.agent, actor)
    trust = policy.trust(channel=context.channel, source_is_trusted=context.by.is_trusted)
    spaces, zone = writing_spaces(), zone_of(actor.agent, actor)
    sessions = [_session(actor, key, each, context) for key, each in fresh.items()]
    Session.objects.bulk_create(sessions)
    said = [
        (session, Numbered(seq, _new_message(message, session.started_at)))
        for session in sessions
        for seq, message in enumerate(fresh[session.pk].messages.values(), 1)
    ]
    values = [
        message_values(session, numbered, count_raw(numbered.message.content), trust, context.now)
        for session, numbered in said
    ]
    messages = [numbered.message for _, numbered in said]
    entries = message_index_entries(messages, spaces, context.now, zone)
    insert_messages(values, [entries.get(id(message)) for message in messages], spaces)
    keys = [session.pk for session in sessions]
    audit.record_each(by=context.by, verb="open", object_kind="session", object_ids=keys, actor=actor, now=context.now)
    spoken = [session.pk for session in sessions if session.message_count]
    enqueue_triggered_by_each("turn", actor_id=actor.pk, session_ids=spoken)
    for session in sessions:
        context.note_row(actor, SESSION_KIND, session.pk, first_seq=1, last_seq=session.message_count)


def _session(actor: Actor, key: UUID, conversation: _Conversation, context: ImportContext) -> Session:
    session, messages = conversation.session, conversation.messages
    times = [each.created_at for each in messages.values() if each.created_at is not None]
    started_at = min(session.started_at or min(times, default=context.now), context.now)
    latest = min(context.now, max(times, default=started_at))
    return Session(
        id=key,
        actor=actor,
        channel=context.channel,
        title=session.title,
        metadata={"conversation_id": session.id},
        started_at=started_at,
        last_message_at=latest if messages else None,
        message_count=len(messages),
    )


UNDO_HANDLERS: Final[list[Callable[..., None]]] = []
"""Functions that remove what was made of messages, before these go; registered by apps.

They get the sessions by id, each with the `seq` from which on messages go (1: the session goes), and the messages' ids.
"""


def undo_sessions(rows: Sequence[ImportedRow], *, actor: Actor, by: Principal, reason: str, now: datetime) -> int:
    """Delete imported sessions and messages that nothing was added to since; return how many rows stay."""
    lock_actor(actor.pk)
    own = Session.objects.filter(actor_id=actor.pk).order_by("pk")
    sessions = {each.pk: each for each in own.select_for_update().filter(pk__in=[row.row_id for row in rows])}
    cut: dict[UUID, int] = {}
    kept = 0
    for row in rows:
        session = sessions.get(row.row_id)
        if session is None:
            continue
        first, last = row.details["first_seq"], row.details["last_seq"]
        if cut.get(session.pk, session.message_count + 1) - 1 == last:  # the rows of a session come latest first
            cut[session.pk] = first
        else:
            kept += 1
    going = Q(session_id__in=[key for key, first in cut.items() if first == 1])
    for key, first in cut.items():
        if first > 1:
            going |= Q(session_id=key, seq__gte=first)
    gone = Message.objects.filter(going, actor_id=actor.pk)
    message_ids = list(gone.values_list("pk", flat=True))
    for undo in UNDO_HANDLERS:
        undo(actor=actor, sessions=cut, message_ids=message_ids, by=by, reason=reason, now=now)
    forget_sources(message_ids)
    gone.delete()
    whole = [key for key, first in cut.items() if first == 1]
    own.filter(pk__in=whole).delete()
    for key, first in cut.items():
        if first > 1:
            _truncate_session(sessions[key], first)
    audit.record_each(
        by=by, verb="delete", object_kind="session", object_ids=whole, actor=actor, reason=reason, now=now
    )
    return kept


def _truncate_session(session: Session, first_seq: int) -> None:
    messages = Message.objects.filter(actor_id=session.actor_id, session_id=session.pk)
    session.message_count = first_seq - 1
    session.last_message_at = messages.aggregate(last=Max("created_at"))["last"]
    session.save(update_fields=["message_count", "last_message_at"])
