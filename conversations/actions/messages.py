"""Store messages: numbered without gaps, once each, searchable at once (SPEC C2, C4)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Any, Final

from django.db import transaction
from django.db.models import Q
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.actions.screening import screen_message
from conversations.domain.content import calls_in, results_in, text_of_result, texts_with_traces
from conversations.domain.forget_judging import may_ask_to_forget
from conversations.domain.forget_requests import request_to_forget
from conversations.domain.messages import (
    SPOKEN_ROLES,
    NewMessage,
    Numbered,
    Placement,
    Role,
    is_searchable,
    place_batch,
    searchable_text,
)
from conversations.models import Message, MessageIndex, MessageQuerySet, Session
from memoryhub.auth.access import UnknownRow, lock_actor
from memoryhub.auth.principals import Principal
from memoryhub.auth.screening import Screening
from memoryhub.db.copy import copy_rows
from memoryhub.db.prepared import PreparedQuery, prepared_cursor, stored
from memoryhub.embeddings.spaces import IndexEntry, after_indexing, index_entries, writing_spaces
from memoryhub.errors import DomainError
from memoryhub.ids import new_id
from memoryhub.jobs.queue import enqueue_triggered
from memoryhub.jobs.registry import Event
from memoryhub.llm.tokens import count_raw
from memoryhub.search.models import EmbeddingSpace
from memoryhub.tenancy.policies import effective_policy, zone_of
from memoryhub.tenancy.policy import Trust, TrustPolicy
from memoryhub.zones import local_time

MAX_RESULTS = 100
"""Messages after a call among which its results are looked for."""

MAX_MERGED: Final = 500
"""Latest messages of a session among which one that may be there already is looked for."""


class MessageIdReused(DomainError):
    """A `client_message_id` of the session came again with another role or text."""

    code = "client_message_id_reused"


CHANGED_FIELDS = ("message_count", "last_message_at", "ended_at", "authors")


EXTEND_SESSION: Final = """
UPDATE conversations_session SET message_count = %s, last_message_at = %s, ended_at = NULL, authors = %s
WHERE actor_id = %s AND id = %s
"""

LOCKED_SESSIONS: Final = PreparedQuery(lambda: Session.objects.order_by().select_for_update())
MESSAGES: Final = PreparedQuery(lambda: Message.objects.order_by())
LATEST: Final = PreparedQuery(lambda: Message.objects.order_by("-seq"))


@dataclass(frozen=True)
class AddedMessages:
    """The stored messages in the order of the batch, repeats as they were stored first; and how many are new."""

    messages: list[Message]
    new_count: int


def add_messages(
    *,
    session: Session,
    batch: Sequence[NewMessage],
    by: Principal,
    now: datetime,
    channel: str = "",
    triggers: Sequence[Event] = ("turn",),
) -> AddedMessages:
    """Store messages at the end of a session, without secrets; a known `client_message_id` returns the first row.

    Raises MessageIdReused where it came with another role or text, and ends the caller's transaction then. Reopens an
    ended session (SPEC C5). Texts are analysed and embedded locally before the session's row is locked, remotely in the
    background. Of the channels of call and session the more doubtful one decides. `triggers` are the events whose jobs
    are enqueued.
    """
    spaces, screening = writing_spaces(), Screening(session.actor)
    batch = [screen_message(message, screening) for message in batch]
    tokens = {id(message): count_raw(message.content) + _count_tool_tokens(message) for message in batch}
    zone = zone_of(session.actor.agent, session.actor)
    entries = message_index_entries(batch, spaces, now, zone)
    trust = _trust_of(session, channel, by)
    with transaction.atomic(savepoint=False):
        locked = _lock(session)
        batch = _merged(locked, batch, trust)
        stored_repeats = _stored_repeats(locked, batch)
        _check_repeats(batch, stored_repeats)
        placement = place_batch(batch, known=frozenset(stored_repeats), last_seq=locked.message_count)
        new = placement.new
        values = [message_values(locked, each, tokens[id(each.message)], trust, now) for each in new]
        rows = insert_messages(values, [entries.get(id(each.message)) for each in new], spaces)
        _extend(locked, rows, now)
        if rows:
            screening.record(by=by, row=session, now=now)
            enqueue_triggered(
                *triggers, *_forget_events(rows), actor_id=locked.actor_id, session_ids=[locked.pk], lane=by.id
            )
    for name in CHANGED_FIELDS:
        setattr(session, name, getattr(locked, name))
    return AddedMessages(_in_order(placement, rows, stored_repeats), len(rows))


def _trust_of(session: Session, channel: str, by: Principal) -> Trust:
    policy = effective_policy(TrustPolicy, session.actor.agent, session.actor)
    return policy.trust(channel=session.channel, source_is_trusted=by.is_trusted and not policy.doubts(channel))


def _forget_events(rows: Sequence[Message]) -> tuple[Event, ...]:
    """Return the event of a trusted user's request to forget, or of one that a model may find (SPEC C9)."""
    asked = [row.content for row in rows if row.role == Role.USER and row.trust == Trust.TRUSTED]
    if any(map(request_to_forget, asked)):
        return ("forget_request",)
    return ("forget_cue",) if any(map(may_ask_to_forget, asked)) else ()


def show_branch(
    *, session: Session, shown: frozenset[int], last_seq: int, new: Sequence[Message], now: datetime
) -> None:
    """Abandon the messages after the last that the client shows, and restore abandoned ones that it shows (ADR 51).

    `shown` are their `seq`; `new` was just stored after them. Messages between two shown ones are left as they are: a
    client may omit the middle of a conversation. So are those after `last_seq`: another request stored them since.
    Untrusted messages change no trusted one (SPEC M10). Inside the transaction that has locked the session.
    """
    if not last_seq:  # of a new session
        return
    current = shown | {message.seq for message in new}
    rows = Message.objects.of([session.actor_id]).filter(session_id=session.pk)
    if any(message.trust == Trust.UNTRUSTED for message in new):
        rows = rows.filter(trust=Trust.UNTRUSTED)
    _set_abandoned(
        rows.filter(seq__gt=max(shown, default=0), seq__lte=last_seq).exclude(seq__in=current).current(), now
    )
    _set_abandoned(rows.filter(seq__in=current).exclude(abandoned_at=None), None)


def abandon(message: Message, now: datetime) -> None:
    _set_abandoned(Message.objects.of([message.actor_id]).filter(pk=message.pk), now)


def _set_abandoned(rows: MessageQuerySet, at: datetime | None) -> None:
    """Mark messages and their index rows; inside the caller's transaction."""
    changed = list(rows.values_list("actor_id", "pk"))
    if not changed:
        return
    keys = {"actor_id": changed[0][0]}
    ids = [pk for _actor_id, pk in changed]
    Message.objects.filter(pk__in=ids, **keys).update(abandoned_at=at)
    MessageIndex.objects.filter(message__in=ids, **keys).update(is_abandoned=at is not None)


def message_texts(rows: Sequence[Any], language: str) -> list[str]:
    """Return the texts of messages of one session, loaded `with_tools`, with a line for each call of a tool."""
    contents = [(row.content, row.tools) for row in rows]
    with_calls = [row for row in rows if calls_in(row.tools)]
    if with_calls:
        first, last = with_calls[0], with_calls[-1].seq + MAX_RESULTS
        results = Message.objects.of([first.actor_id]).filter(session_id=first.session_id, role=Role.TOOL).current()
        results_in_reach = results.filter(seq__gt=first.seq, seq__lte=last).with_tools()
        contents += [("", row.tools) for row in results_in_reach.only("pk").order_by("seq")]  # type: ignore[attr-defined]
    return texts_with_traces(contents, language)[: len(rows)]


def _count_tool_tokens(message: NewMessage) -> int:
    blocks = [*calls_in(message.blocks), *results_in(message.blocks)]
    texts = [json.dumps(block["input"], ensure_ascii=False) for block in blocks if "input" in block]
    return sum(map(count_raw, [*texts, *map(text_of_result, blocks)]))


def message_index_entries(
    batch: Sequence[NewMessage], spaces: Sequence[EmbeddingSpace], now: datetime, zone: tzinfo
) -> dict[int, IndexEntry]:
    searchable = [
        message for message in batch if is_searchable(message.role, message.content) and not message.needs_review
    ]
    words = [
        searchable_text(
            message.content,
            author=message.author,
            said_at=local_time(message.created_at or now, zone, offset_minutes=message.utc_offset_minutes),
        )
        for message in searchable
    ]
    shares = [MessageIndex.passage_share(message) for message in searchable]
    texts = [message.content for message in searchable]
    entries = index_entries(texts, spaces, words=words, passage_shares=shares)
    return {id(message): entry for message, entry in zip(searchable, entries, strict=True)}


def _lock(session: Session) -> Session:
    lock_actor(session.actor_id)
    locked = LOCKED_SESSIONS.first(Q(id=session.pk, actor_id=session.actor_id))
    if locked is None:  # erased concurrently
        raise UnknownRow(format_lazy(_("No session {id}."), id=session.pk))
    return locked


def _merged(session: Session, batch: Sequence[NewMessage], trust: Trust) -> Sequence[NewMessage]:
    """Return a batch in which a message that the session has by another way in has the id of its row.

    A program may keep its conversation with an adapter, which stores items as metadata, and ask through an endpoint,
    which stores under its own id: the row gets what it lacks (SPEC B8). A question is the same only
    as the session's last message, any other only as one after the last with such metadata. Inside the transaction with
    the lock.
    """
    if not any(message.merge for message in batch):
        return batch
    own = Q(actor_id=session.actor_id, session_id=session.pk, abandoned_at=None)
    if trust == Trust.UNTRUSTED:
        own &= Q(trust=Trust.UNTRUSTED)
    rows = LATEST.rows(own, limit=MAX_MERGED) if session.message_count else []
    last_seqs = {key: row.seq for row in reversed(rows) for key in row.metadata}
    merged = list(batch)
    for place, message in enumerate(batch):
        since = max((last_seqs.get(key, 0) for key in message.metadata), default=session.message_count - 1)
        row = next((row for row in rows if message.merge and row.seq > since and _lacks(row, message)), None)
        if row is None:
            continue
        if row.client_message_id is None:
            is_free = message.client_message_id is not None and not _stored_repeats(session, [message])
            row.client_message_id = message.client_message_id if is_free else str(row.pk)
        row.metadata = {**row.metadata, **message.metadata}
        row.blocks = row.blocks or message.blocks
        row.save(update_fields=["client_message_id", "metadata", "blocks"])
        merged[place] = replace(message, client_message_id=row.client_message_id)
    return merged


def _lacks(row: Message, message: NewMessage) -> bool:
    """Return whether a row has a message's words without the metadata that it brings, or without an id."""
    if not message.content.strip() or (row.role, row.content) != (message.role, message.content):
        return False
    if message.metadata:
        return not row.metadata.keys() & message.metadata.keys()
    return row.client_message_id is None


def _stored_repeats(session: Session, batch: Sequence[NewMessage]) -> dict[str, Message]:
    client_ids = [message.client_message_id for message in batch if message.client_message_id is not None]
    if not client_ids:
        return {}
    conditions = Q(actor_id=session.actor_id, session_id=session.pk, client_message_id__in=client_ids)
    return {str(row.client_message_id): row for row in MESSAGES.rows(conditions)}


def _check_repeats(batch: Sequence[NewMessage], stored_repeats: Mapping[str, Message]) -> None:
    contents = {key: (row.role, row.content) for key, row in stored_repeats.items()}
    for message in batch:
        if (key := message.client_message_id) is None:
            continue
        if contents.setdefault(key, (message.role, message.content)) != (message.role, message.content):
            raise MessageIdReused(
                format_lazy(_("The client_message_id {key} was sent before with another role or text."), key=key)
            )


def message_values(session: Session, numbered: Numbered, tokens: int, trust: Trust, now: datetime) -> dict[str, Any]:
    """Return the columns of a new message."""
    message = numbered.message
    return {
        "id": new_id(),
        "actor_id": session.actor_id,
        "session_id": session.pk,
        "seq": numbered.seq,
        "role": message.role,
        "author": message.author,
        "content": message.content,
        "blocks": list(message.blocks) if message.blocks is not None else None,
        "token_count": tokens,
        "trust": trust,
        "client_message_id": message.client_message_id,
        "created_at": message.created_at or now,
        "utc_offset_minutes": message.utc_offset_minutes,
        "metadata": dict(message.metadata),
        "abandoned_at": None,
    }


def insert_messages(
    values: Sequence[Mapping[str, Any]], entries: Sequence[IndexEntry | None], spaces: Sequence[EmbeddingSpace]
) -> list[Message]:
    """Insert one actor's messages with the index rows of those that have an entry; inside the caller's transaction."""
    copy_rows(Message, values)
    rows = [stored(Message, row_values) for row_values in values]
    indexed = [(row, entry) for row, entry in zip(rows, entries, strict=True) if entry is not None]
    index_rows = (
        {
            "actor_id": row.actor_id,
            "message_id": row.pk,
            **MessageIndex.copied_fields(row),
            **entry.row_values(space.id),
        }
        for row, entry in indexed
        for space in spaces
    )
    copy_rows(MessageIndex, index_rows)
    if indexed:
        counted = [entry for row, entry in indexed if row.trust == Trust.TRUSTED]
        after_indexing([entry for _, entry in indexed], counted, rows[0].actor_id)
    return rows


def _extend(session: Session, rows: Sequence[Message], now: datetime) -> None:
    if not rows:
        return
    session.message_count = rows[-1].seq
    # Capped at now: with a time in the future, the session would never become idle.
    latest = min(now, max(row.created_at for row in rows))
    session.last_message_at = max(filter(None, [session.last_message_at, latest]))
    session.ended_at = None
    # The name of an untrusted author must not decide what other sessions find (SPEC M10).
    trusted = [row for row in rows if row.role in SPOKEN_ROLES and row.trust == Trust.TRUSTED]
    speakers = {row.author for row in trusted if row.author}
    session.authors = [*session.authors, *sorted(speakers - set(session.authors))]
    with prepared_cursor() as cursor:
        cursor.execute(
            EXTEND_SESSION,
            [session.message_count, session.last_message_at, session.authors, session.actor_id, session.pk],
        )


def _in_order(placement: Placement, rows: Sequence[Message], stored_repeats: dict[str, Message]) -> list[Message]:
    by_seq = {row.seq: row for row in rows}
    by_client_id = stored_repeats | {row.client_message_id: row for row in rows if row.client_message_id is not None}
    return [by_seq[key] if isinstance(key, int) else by_client_id[key] for key in placement.order]
