"""Find the session of a conversation that its client keeps, and what of it is not stored yet (ADR 51).

Such a client sends all of its conversation with each question, or the end of it. What is stored is recognised by its
words: the session by the last questions, its messages by their text. No id of ours reaches such a client, and
answers may come back cut, cleaned or edited, but people's own words come back as they were.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID, uuid5

from django.db.models import BooleanField, Exists, ExpressionWrapper, F, OuterRef, Q

from conversations.actions.questions import Question
from conversations.domain.content import calls_in, results_in
from conversations.domain.messages import NewMessage, Role, TurnState
from conversations.models import ChatTurn, Message, Session
from memoryhub.tenancy.models import Actor

QUESTIONS_COMPARED: Final = 3
"""Of the latest in a conversation; fewer would take another that began alike for it."""

MAX_RECENT: Final = 2_000
"""Latest messages of a user among which a conversation is looked for before it is among all."""

MAX_COMPARED: Final = 500
"""Latest messages of a session among which those that the client shows are looked for."""


def place_question(
    *,
    actor: Actor,
    question: Question,
    asked: NewMessage,
    history: Sequence[NewMessage],
    name: str | None,
    sends_whole_history: bool = False,
) -> Question:
    """Return a question with its session, with the messages before it that are not stored yet, and with its branch.

    `name` is the client's for its conversation. A question that was asked at the same place before is the same one.
    A lone question in a known session restarts it where the client `sends_whole_history`; else it is what is new.
    """
    session_id = _session_of(actor, question, asked, history, name)
    question = replace(question, session_id=session_id)
    own = Session.objects.filter(Session.has_id([session_id]), actor=actor).first() if session_id else None
    rows = _latest(actor, own.pk) if own else []
    known = _align(rows, history)
    question = replace(question, history=_with_ids(history, known))
    last = max(known, default=None)
    if last is None and rows:
        questions = [_fingerprint(row) for row in rows if row.role == Role.USER]
        if history or not (sends_whole_history or questions == [_fingerprint(asked)]):
            return question  # the session's record counts
    before, parent = [], ""
    if last is not None:
        parent = known[last].client_message_id or str(known[last].pk)
    for each in history[0 if last is None else last + 1 :]:
        parent = _chained_id(parent, each)
        before.append(replace(each, client_message_id=parent))
    own_id = _chained_id(parent, asked)
    shown, last_seq = frozenset(row.seq for row in known.values()), rows[-1].seq if rows else 0
    return replace(question, before=tuple(before), client_message_id=own_id, shown=shown, last_seq=last_seq)


def _with_ids(
    history: Sequence[NewMessage], known: Mapping[int, Message]
) -> tuple[tuple[NewMessage, UUID | None], ...]:
    """Return a history with the ids of stored messages; the others get those under which they would be stored."""
    placed, parent = [], ""
    for place, message in enumerate(history):
        row = known.get(place)
        parent = (row.client_message_id or str(row.pk)) if row else _chained_id(parent, message)
        placed.append((replace(message, client_message_id=parent), row.pk if row else None))
    return tuple(placed)


def _align(rows: Sequence[Message], history: Sequence[NewMessage]) -> dict[int, Message]:
    """Return the stored messages of a history by their places in it; both in the same order.

    Of messages with equal text, the earliest is meant where the client shows the conversation from its beginning,
    else the latest: it shows the end. An answer that a later question overtook is stored after that question, and
    shown before it: what is not found in order is looked for among the rest.
    """
    if not history:
        return {}
    begins = _chained_id("", history[0]) in {row.client_message_id for row in rows}
    stored = list(rows if begins else reversed(rows))
    fingerprints: list[str | None] = [_fingerprint(row) for row in stored]
    known: dict[int, Message] = {}
    start = 0
    for index in range(len(history)) if begins else reversed(range(len(history))):
        fingerprint = _fingerprint(history[index])
        if (match := _index(fingerprints, fingerprint, start)) is not None:
            start = match + 1
        else:
            match = _index(fingerprints, fingerprint, 0)
        if match is not None:
            known[index], fingerprints[match] = stored[match], None
    return known


def _index(values: Sequence[object], value: object, start: int) -> int | None:
    try:
        return values.index(value, start)
    except ValueError:
        return None


def _session_of(
    actor: Actor, question: Question, asked: NewMessage, history: Sequence[NewMessage], name: str | None
) -> UUID | None:
    """Return the session that the client names, else that in which its conversation is known, else a new one's id.

    None where nothing tells it from another conversation that begins alike.
    """
    named = uuid5(actor.pk, f"session:{name}") if name else None
    own = Session.objects.filter(actor=actor)
    if named and (found := own.filter(Session.has_id([named, *_parse_id(name or "")])).first()):
        return found.pk
    if known := _known_session(actor, history, question.channel):
        return known
    if named or not history:
        return named or _failed_session(actor, asked, question.channel)
    has_questions = any(each.role == Role.USER for each in history)
    return uuid5(actor.pk, "told:" + "".join(map(_fingerprint, history))) if has_questions else None


def _parse_id(name: str) -> list[UUID]:
    try:
        return [UUID(name)]
    except ValueError:
        return []


def _known_session(actor: Actor, history: Sequence[NewMessage], channel: str) -> UUID | None:
    """Return the latest session with the last questions in their order.

    Of several, one that has the last message as well, and of these one that ends with it.
    """
    places = [place for place, each in enumerate(history) if each.role == Role.USER and each.content]
    if not places:
        return None
    *earlier, question = [history[place].content for place in places[-QUESTIONS_COMPARED:]]
    last, after = history[-1], len(history) - 1 - places[-1]
    said = Message.objects.of([actor.pk])
    same = said.filter(session_id=OuterRef("session_id"))
    rows = said.filter(role=Role.USER, content=question, session__channel=channel)
    for text in earlier:
        rows = rows.filter(Exists(same.filter(role=Role.USER, content=text, seq__lt=OuterRef("seq"))))
    rows = rows.annotate(
        shown=Exists(same.filter(role=last.role, content=last.content, seq__gte=OuterRef("seq"))),
        ends=ExpressionWrapper(Q(session__message_count=F("seq") + after), BooleanField()),
    ).order_by("-shown", "-ends", "-created_at", "-id")
    # Texts have no index: search the newest rows first, as most conversations continue from there.
    newest = said.order_by("-created_at", "-id").values("pk")[:MAX_RECENT]
    found = rows.filter(pk__in=newest).first()
    if found is None or not (found.shown or earlier):
        found = rows.first()
    return found.session_id if found else None


def _failed_session(actor: Actor, asked: NewMessage, channel: str) -> UUID | None:
    """Return the session of the actor's latest question where that is the same one, and all its messages."""
    turns = ChatTurn.objects.filter(actor=actor, session__channel=channel).select_related("session", "question")
    turn = turns.first()
    if turn is None or turn.state != TurnState.FAILED or turn.session.message_count != 1:
        return None
    return turn.session_id if turn.question.content == asked.content else None


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
