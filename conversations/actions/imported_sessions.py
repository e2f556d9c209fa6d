"""Import conversations as sessions: insert new ones in bulk, append to known ones; undo an import."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID, uuid5

from django.db import IntegrityError, transaction
from django.db.models import Max, Q

from conversations.actions.client_history import ids_of_name
from conversations.actions.deleted import deleted_ids
from conversations.actions.messages import add_messages, insert_messages, message_index_entries, message_values
from conversations.actions.receipts import forget_sources
from conversations.actions.screening import screen_message
from conversations.domain.messages import NewMessage, Numbered, Role
from conversations.models import Message, Session
from memoryhub.auth import audit
from memoryhub.auth.access import lock_actor
from memoryhub.auth.principals import Principal
from memoryhub.auth.screening import Screening
from memoryhub.embeddings.spaces import writing_spaces
from memoryhub.errors import gettext_noop
from memoryhub.ids import new_id
from memoryhub.importexport.foreign.imports import ImportContext
from memoryhub.importexport.foreign.models import ImportedRow
from memoryhub.importexport.foreign.records import MESSAGES, SESSIONS, ImportedMessage, ImportedSession, LocatedRecord
from memoryhub.jobs.queue import enqueue_triggered
from memoryhub.llm.tokens import count_raw
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy, zone_of
from memoryhub.tenancy.policy import TrustPolicy

SESSION_KIND: Final = "session"
BYTES_PER_TOKEN: Final = 4
LIVE_TEXT: Final = gettext_noop("the conversation was stored here while it was held; it is kept as it is.")


@dataclass
class _Conversation:
    """The parts of a session that one batch holds, put together."""

    located: LocatedRecord
    session: ImportedSession
    messages: dict[str, ImportedMessage] = field(default_factory=dict)


def write_sessions(records: Sequence[LocatedRecord], *, context: ImportContext) -> None:
    """Write sessions and messages that are not stored yet; new messages of a known session are appended."""
    by_user: dict[str, list[LocatedRecord]] = {}
    for located in records:
        if isinstance(session := located.record, ImportedSession):
            by_user.setdefault(session.user_id, []).append(located)
    for user_id, sessions in by_user.items():
        _write_sessions(context.actor(user_id), sessions, context)


def _write_sessions(actor: Actor, records: Sequence[LocatedRecord], context: ImportContext) -> None:
    lock_actor(actor.pk)
    conversations: dict[UUID, _Conversation] = {}
    for located in records:
        session = located.record
        if isinstance(session, ImportedSession):
            key = uuid5(actor.pk, f"{context.format} {session.id}")
            conversation = conversations.setdefault(key, _Conversation(located, session))
            for message in session.messages:
                conversation.messages.setdefault(message.id, message)
    _leave_out_deleted(actor, conversations, context)
    _leave_out_live(actor, conversations, context)
    new_keys = conversations.keys() - _extend_known(actor, conversations, context)
    try:
        with transaction.atomic():
            _insert(actor, {key: conversations[key] for key in conversations if key in new_keys}, context)
    except IntegrityError:  # a concurrent import of the same file inserted it first
        _extend_known(actor, conversations, context)


def _leave_out_deleted(actor: Actor, conversations: dict[UUID, _Conversation], context: ImportContext) -> None:
    """Take out what a person has deleted here, and sessions of which nothing else is left."""
    deleted = deleted_ids(actor.pk, {key: each.messages for key, each in conversations.items()})
    for key, conversation in [*conversations.items()]:
        messages = conversation.messages
        kept = {number: each for number, each in messages.items() if (key, number) not in deleted}
        if len(kept) == len(messages):
            continue
        context.report.known[MESSAGES] += len(messages) - len(kept)
        conversation.messages = kept
        if not kept:
            context.add_known(conversation.located)
            del conversations[key]


def _leave_out_live(actor: Actor, conversations: dict[UUID, _Conversation], context: ImportContext) -> None:
    """Take out what was stored while a chat program held it: the program names a chat as its export does."""
    names = {id: key for key, each in conversations.items() for id in ids_of_name(actor, each.session.id)}
    for row in Session.objects.filter(Session.has_id(names), actor_id=actor.pk):
        conversation = conversations.pop(names[row.public_id if row.public_id in names else row.pk])
        context.add_known(conversation.located, LIVE_TEXT)
        context.report.known[MESSAGES] += len(conversation.messages)


def _extend_known(actor: Actor, conversations: Mapping[UUID, _Conversation], context: ImportContext) -> set[UUID]:
    """Add the new messages of known sessions; return the known ones."""
    rows = Session.objects.filter(Session.has_id(conversations), actor_id=actor.pk)
    sessions = {row.public_id if row.public_id in conversations else row.pk: row for row in rows}
    ids = [message_id for key in sessions for message_id in conversations[key].messages]
    messages = Message.objects.of([actor.pk]).filter(session__in=sessions.values(), client_message_id__in=ids)
    known = set(messages.values_list("session_id", "client_message_id")) if sessions else set()
    for key, session in sessions.items():
        conversation = conversations[key]
        new = [message for message in conversation.messages.values() if (session.pk, message.id) not in known]
        context.add_known(conversation.located)
        context.report.known[MESSAGES] += len(conversation.messages) - len(new)
        context.report.made[MESSAGES] += len(new)
        context.report.tokens += _tokens(new)
        if new and not context.dry_run:
            session.actor = actor
            first = session.message_count + 1
            batch = [_new_message(message, session.started_at) for message in new]
            add_messages(session=session, batch=batch, by=context.by, now=context.now)
            context.note_row(actor, SESSION_KIND, session.pk, first_seq=first, last_seq=session.message_count)
    return set(sessions)


def _new_message(message: ImportedMessage, fallback: datetime) -> NewMessage:
    return NewMessage(
        role=Role(message.role),
        content=message.text,
        client_message_id=message.id,
        created_at=message.created_at or fallback,
    )


def _insert(actor: Actor, new: Mapping[UUID, _Conversation], context: ImportContext) -> None:
    if not context.dry_run and new:
        _insert_rows(actor, new, context)
    context.report.made[SESSIONS] += len(new)
    for conversation in new.values():
        context.report.made[MESSAGES] += len(conversation.messages)
        context.report.tokens += _tokens(conversation.messages.values())


def _tokens(messages: Iterable[ImportedMessage]) -> int:
    """Return about how many tokens messages have, which need not be exact: four bytes each, in English and Japanese."""
    return sum(len(message.text.encode(errors="replace")) for message in messages) // BYTES_PER_TOKEN


def _insert_rows(actor: Actor, new: Mapping[UUID, _Conversation], context: ImportContext) -> None:
    """Insert new sessions with their messages, a statement for each table."""
    policy = effective_policy(TrustPolicy, actor.agent, actor)
    trust = policy.trust(channel=context.channel, source_is_trusted=context.by.is_trusted)
    spaces, zone = writing_spaces(), zone_of(actor.agent, actor)
    screening = Screening(actor)
    sessions = [_session(actor, key, conversation, context, screening) for key, conversation in new.items()]
    for taken in Session.objects.filter(pk__in=new).values_list("pk", flat=True):  # by another actor
        session = next(each for each in sessions if each.pk == taken)
        session.pk, session.client_id = new_id(), taken
    Session.objects.bulk_create(sessions)
    numbered_messages = [
        (session, Numbered(seq, screen_message(_new_message(message, session.started_at), screening)))
        for session in sessions
        for seq, message in enumerate(new[session.public_id].messages.values(), 1)
    ]
    values = [
        message_values(session, numbered, count_raw(numbered.message.content), trust, context.now)
        for session, numbered in numbered_messages
    ]
    messages = [numbered.message for _, numbered in numbered_messages]
    entries = message_index_entries(messages, spaces, context.now, zone)
    insert_messages(values, [entries.get(id(message)) for message in messages], spaces)
    keys = [session.pk for session in sessions]
    audit.record_each(by=context.by, verb="open", object_kind="session", object_ids=keys, actor=actor, now=context.now)
    screening.record(by=context.by, row=sessions[0], now=context.now)
    spoken = [session.pk for session in sessions if session.message_count]
    enqueue_triggered("turn", actor_id=actor.pk, session_ids=spoken, lane=context.by.id)
    for session in sessions:
        context.note_row(actor, SESSION_KIND, session.pk, first_seq=1, last_seq=session.message_count)


def _session(
    actor: Actor, key: UUID, conversation: _Conversation, context: ImportContext, screening: Screening
) -> Session:
    session, messages = conversation.session, conversation.messages
    times = [message.created_at for message in messages.values() if message.created_at is not None]
    started_at = min(session.started_at or min(times, default=context.now), context.now)
    latest = min(context.now, max(times, default=started_at))
    return Session(
        id=key,
        actor=actor,
        channel=context.channel,
        **screening.columns(Session, {"title": session.title}),
        metadata={"conversation_id": session.id},
        started_at=started_at,
        last_message_at=latest if messages else None,
        message_count=len(messages),
    )


UNDO_HANDLERS: Final[list[Callable[..., None]]] = []
"""Functions that delete what was derived from messages, called before these are deleted; registered by apps.

They get the sessions by id, each with the first `seq` to delete (1: the whole session), and the messages' ids.
"""


def undo_sessions(rows: Sequence[ImportedRow], *, actor: Actor, by: Principal, reason: str, now: datetime) -> int:
    """Delete imported sessions and messages, unless messages were added since; return the number of rows left."""
    lock_actor(actor.pk)
    owned = Session.objects.filter(actor_id=actor.pk).order_by("pk")
    sessions = {
        session.pk: session for session in owned.select_for_update().filter(pk__in=[row.row_id for row in rows])
    }
    first_seqs: dict[UUID, int] = {}
    unchanged = 0
    for row in rows:
        session = sessions.get(row.row_id)
        if session is None:
            continue
        first, last = row.details["first_seq"], row.details["last_seq"]
        if first_seqs.get(session.pk, session.message_count + 1) - 1 == last:  # a session's rows arrive newest first
            first_seqs[session.pk] = first
        else:
            unchanged += 1
    conditions = Q(session_id__in=[key for key, first in first_seqs.items() if first == 1])
    for key, first in first_seqs.items():
        if first > 1:
            conditions |= Q(session_id=key, seq__gte=first)
    messages = Message.objects.filter(conditions, actor_id=actor.pk)
    message_ids = list(messages.values_list("pk", flat=True))
    for undo in UNDO_HANDLERS:
        undo(actor=actor, sessions=first_seqs, message_ids=message_ids, by=by, reason=reason, now=now)
    forget_sources(message_ids)
    messages.delete()
    deleted_ids = [key for key, first in first_seqs.items() if first == 1]
    owned.filter(pk__in=deleted_ids).delete()
    for key, first in first_seqs.items():
        if first > 1:
            _truncate_session(sessions[key], first)
    audit.record_each(
        by=by, verb="delete", object_kind="session", object_ids=deleted_ids, actor=actor, reason=reason, now=now
    )
    return unchanged


def _truncate_session(session: Session, first_seq: int) -> None:
    messages = Message.objects.filter(actor_id=session.actor_id, session_id=session.pk)
    session.message_count = first_seq - 1
    session.last_message_at = messages.aggregate(last=Max("created_at"))["last"]
    session.save(update_fields=["message_count", "last_message_at"])
