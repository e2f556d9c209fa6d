"""Find the session of a conversation that its client keeps, and what of it is not stored yet (SPEC B5, ADR 51).

Such a client sends all of its conversation with each question, or the end of it. Its session is recognised by a name,
by the answers and questions in it (`conversations.domain.client_talk`), its messages by their text. No id of ours
reaches such a client, and answers may come back cut, cleaned or edited.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import takewhile
from typing import Final, cast
from uuid import UUID, uuid5

from django.db.models import F, Q

from conversations.actions.deleted import without_deleted
from conversations.actions.questions import Question
from conversations.actions.screening import screen_message
from conversations.domain.client_talk import ClientTalk, Said, opening_of, session_of, without_additions
from conversations.domain.content import calls_in, results_in
from conversations.domain.messages import NewMessage, Role, TurnState
from conversations.domain.policy import ChatPolicy
from conversations.models import ChatTurn, Message, Opening, OpeningHash, Session
from memoryhub.auth.screening import Screening
from memoryhub.db.prepared import PreparedQuery, prepared_cursor
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy

MAX_SHOWN: Final = 12
"""Latest messages with text that a client shows, by which its conversation is looked for."""

MAX_ALIKE: Final = 200
"""Latest stored messages with one opening among which a conversation is looked for."""

MAX_COMPARED: Final = 500
"""Latest messages of a session among which those that the client shows are looked for."""

MAX_RUN: Final = 8
"""Messages in a row that are compared where several have the same text."""

MAX_TURNS: Final = 20
"""Latest questions of a user among which a repeat is looked for."""

REPEATED_WITHIN: Final = timedelta(minutes=2)
REPEATED_LENGTH: Final = 12
"""Characters from which the same first question within that time is one asked again; many conversations open with a
greeting."""

LAST_QUESTIONS: Final = PreparedQuery(
    lambda: Message.objects.filter(role=Role.USER, client_message_id=None, seq=F("session__message_count")).order_by(
        "-created_at"
    )
)
# One statement for all openings, of which a long chat shows a dozen. The index is by the hash.
ALIKE: Final = """
SELECT said.* FROM unnest(%(openings)s::text[]) AS shown (opening) CROSS JOIN LATERAL (
    SELECT message.session_id, message.seq, message.role, {opening},
        message.seq = session.message_count, message.created_at
    FROM conversations_message AS message
    JOIN conversations_session AS session
        ON session.actor_id = message.actor_id AND session.id = message.session_id
    WHERE message.actor_id = %(actor_id)s AND {hash_of_opening} = {hash_of_shown}
    ORDER BY message.created_at DESC LIMIT %(most)s
) AS said
""".format(  # noqa: S608 - constants
    opening=(_OPENING := Opening.template % {"expressions": "message.content"}),
    hash_of_opening=OpeningHash.template % {"expressions": _OPENING},
    hash_of_shown=OpeningHash.template % {"expressions": "shown.opening"},
)
FIRST_TURNS: Final = PreparedQuery(
    lambda: ChatTurn.objects.filter(question__seq=1).select_related("question").order_by("-created_at", "-id")
)


class Store(StrEnum):
    """Select which unstored messages before a question are stored."""

    NEW = "new"
    """What follows the last known message; nothing of an unknown conversation, unless the client names it."""
    ALL = "all"
    LAST = "last"
    """The question alone."""
    NONE = "none"
    """Nothing, neither question nor answer."""


def place_question(
    *,
    actor: Actor,
    question: Question,
    talk: ClientTalk,
    name: str | None,
    sends_whole_history: bool = False,
    store: Store = Store.NEW,
    now: datetime,
) -> Question:
    """Return a question with its session, with the messages before it that are to be stored, and with its branch.

    `name` is the client's for its conversation. A question that was asked at the same place before is the same one.
    A lone question in a known session restarts it where the client `sends_whole_history`; else it is what is new.
    """
    unstored = effective_policy(ChatPolicy, actor.agent, actor).unstored
    places = [place for place in range(len(talk.history)) if place not in talk.examples]
    # What is compared with stored messages is screened as they were; the model reads what the client shows.
    screening = Screening(actor)
    history = [screen_message(without_additions(talk.history[place], unstored), screening) for place in places]
    asked = screen_message(without_additions(talk.asked, unstored), screening)
    session_id = _session_of(actor, question, asked, history, name, store, now)
    own = Session.objects.filter(Session.has_id([session_id]), actor=actor).first() if session_id else None
    rows = _latest(actor, own.pk) if own else []
    known = _align(rows, history)
    shown = _with_ids(history, known)
    question = _with_history(question, talk, dict(zip(places, shown, strict=True)))
    question = replace(question, session_id=session_id, talk=replace(asked, merge=True))
    if not known and rows and not _is_first_again(rows, asked) and (history or not sends_whole_history):
        return question  # the session's record counts
    last = max(known, default=-1)
    is_stored = store == Store.ALL or (store == Store.NEW and (last >= 0 or name is not None))
    new = [each for each, _key in shown[last + 1 :]] if is_stored else []
    before = _without_deleted(actor, own.public_id if own else session_id, new)
    parents = [each.client_message_id or "" for each in [*(each for each, _key in shown[: last + 1]), *before]]
    after = {_fingerprint(screen_message(each, screening)) for each in talk.after}
    seen = [*known.values(), *(row for row in rows if after and _fingerprint(row) in after)]
    key, shown_rows = _chained_id(parents[-1] if parents else "", asked), frozenset(row.seq for row in seen)
    last_seq = rows[-1].seq if rows else 0
    return replace(question, before=tuple(before), client_message_id=key, shown=shown_rows, last_seq=last_seq)


def _without_deleted(actor: Actor, session_id: UUID | None, new: list[NewMessage]) -> Sequence[NewMessage]:
    return without_deleted(actor.pk, session_id, new) if session_id else new


def _is_first_again(rows: Sequence[Message], asked: NewMessage) -> bool:
    """Return whether a session's only question is asked again, also behind a history of which nothing is stored."""
    return [_fingerprint(row) for row in rows if row.role == Role.USER] == [_fingerprint(asked)]


def _with_history(
    question: Question, talk: ClientTalk, placed: Mapping[int, tuple[NewMessage, UUID | None]]
) -> Question:
    """Return a question with the conversation as it is shown; `placed` are the messages of the session by places."""
    history = tuple(
        (replace(each, client_message_id=placed[place][0].client_message_id), placed[place][1])
        if place in placed
        else (replace(each, author=""), None)
        for place, each in enumerate(talk.history)
    )
    return replace(question, history=history, after=talk.after)


def _with_ids(history: Sequence[NewMessage], known: Mapping[int, Message]) -> list[tuple[NewMessage, UUID | None]]:
    """Return a history with the ids of stored messages; the others get those under which they would be stored."""
    placed, parent = [], ""
    for place, message in enumerate(history):
        row = known.get(place)
        parent = (row.client_message_id or str(row.pk)) if row else _chained_id(parent, message)
        placed.append((replace(message, client_message_id=parent), row.pk if row else None))
    return placed


def _align(rows: Sequence[Message], history: Sequence[NewMessage]) -> dict[int, Message]:
    """Return the stored messages of a history by their places in it; both in the same order.

    Of messages with equal text, the one with the same neighbours is meant; then the earliest, where the client
    shows the conversation from its beginning, else the latest: it shows the end. An answer that a later question
    overtook is stored after that question, and shown before it: what is not found in order is looked for in the rest.
    """
    if not history:
        return {}
    begins = _chained_id("", history[0]) in {row.client_message_id for row in rows}
    stored = list(rows if begins else reversed(rows))
    fingerprints: list[str | None] = [_fingerprint(row) for row in stored]
    places = list(range(len(history)) if begins else reversed(range(len(history))))
    shown = [_fingerprint(history[place]) for place in places]
    known: dict[int, Message] = {}
    start = 0
    for number, place in enumerate(places):
        if (match := _match(fingerprints, shown[number : number + MAX_RUN], start)) is not None:
            start = match + 1
        else:
            match = _match(fingerprints, shown[number : number + MAX_RUN], 0)
        if match is not None:
            known[place], fingerprints[match] = stored[match], None
    return known


def _match(stored: Sequence[str | None], shown: Sequence[str], start: int) -> int | None:
    """Return the index of the stored message, from `start`, that begins the longest run of the shown ones."""
    found = [index for index in range(start, len(stored)) if stored[index] == shown[0]]
    if len(found) < 2:
        return found[0] if found else None
    runs = {index: zip(stored[index : index + len(shown)], shown, strict=False) for index in found}
    return max(found, key=lambda index: (len([*takewhile(lambda pair: pair[0] == pair[1], runs[index])]), -index))


def _session_of(
    actor: Actor,
    question: Question,
    asked: NewMessage,
    history: Sequence[NewMessage],
    name: str | None,
    store: Store,
    now: datetime,
) -> UUID | None:
    """Return the session that the client names, else that in which its conversation is known, else a new one's id.

    None where nothing tells it from another conversation that begins alike.
    """
    own = Session.objects.filter(actor=actor)
    named, *ids = ids_of_name(actor, name) if name else [None]
    if named and (found := own.filter(Session.has_id([named, *ids])).first()):
        return found.pk
    named = ids[0] if ids else named  # of a session that its client opens, such as an adapter after the first answer
    if known := session_of(history, _said(actor, history)):
        return cast("UUID", known)
    if named or not history:
        return named or _session_of_repeat(actor, question, asked, now)
    # Calls with the same examples before different questions are different conversations.
    told = [*history] if store == Store.ALL else [*history, asked]
    return uuid5(actor.pk, "told:" + "".join(map(_fingerprint, told)))


def ids_of_name(actor: Actor, name: str) -> list[UUID]:
    """Return the ids that the session of a client's name may have; the first is that of a new one."""
    return [uuid5(actor.pk, f"session:{name}"), *_parse_id(name)]


def _parse_id(name: str) -> list[UUID]:
    try:
        return [UUID(name)]
    except ValueError:
        return []


def _said(actor: Actor, history: Sequence[NewMessage]) -> list[Said]:
    """Return the actor's stored messages that begin as the last of a history do."""
    openings = dict.fromkeys(opening_of(each.content) for each in history[-MAX_SHOWN:])
    values = {"openings": [each for each in openings if each], "actor_id": actor.pk, "most": MAX_ALIKE}
    if not values["openings"]:
        return []
    with prepared_cursor() as cursor:
        cursor.execute(ALIKE, values)
        return [Said(*row) for row in cursor.fetchall()]


def _session_of_repeat(actor: Actor, question: Question, asked: NewMessage, now: datetime) -> UUID | None:
    """Return the session with this as its latest question: of an adapter, a retry, or for another answer."""
    if asked.role != Role.USER:
        return None
    unanswered = Q(actor_id=actor.pk, content=asked.content, created_at__gt=now - REPEATED_WITHIN)
    if stored := LAST_QUESTIONS.first(unanswered):
        return stored.session_id
    is_distinct = len(asked.content) >= REPEATED_LENGTH
    latest = FIRST_TURNS.rows(Q(actor_id=actor.pk, session__channel=question.channel), limit=MAX_TURNS)
    for place, turn in enumerate(latest):
        has_failed = turn.state == TurnState.FAILED and place == 0
        is_recent = turn.created_at > now - REPEATED_WITHIN and (is_distinct or question.is_retry)
        if turn.question.content == asked.content and (has_failed or is_recent):
            said = Message.objects.of([actor.pk]).filter(session_id=turn.session_id, role=Role.USER)
            return None if said.filter(seq__gt=1).exists() else turn.session_id
    return None


def _latest(actor: Actor, session_id: UUID) -> list[Message]:
    rows = Message.objects.of([actor.pk]).filter(session_id=session_id).with_tools()
    return list(rows.order_by("-seq")[:MAX_COMPARED])[::-1]


def _fingerprint(message: NewMessage | Message) -> str:
    """Return what makes two tellings of a message the same: its role, its words, the ids of its calls and results."""
    blocks = message.blocks if isinstance(message, NewMessage) else message.tools  # type: ignore[attr-defined]
    ids = [call["id"] for call in calls_in(blocks)], [result["tool_use_id"] for result in results_in(blocks)]
    return repr((str(message.role), message.content.strip(), ids))


def _chained_id(parent: str, message: NewMessage) -> str:
    """Return the id of a message by what it follows, so that it is stored once at each place of a conversation."""
    content = repr((parent, str(message.role), message.content, message.blocks))
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
