"""Find the session of a conversation that its client keeps, and what of it is not stored yet (ADR 51).

Such a client sends all of its conversation with each question, or the end of it. What is stored is recognised by its
words: the session by the last questions, its messages by what they say. No id of ours reaches such a client, and
answers may come back cut, cleaned or edited, but people's own words come back as they were.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID, uuid5

from django.db.models import BooleanField, Exists, ExpressionWrapper, F, OuterRef, Q

from conversations.actions.chat import Question
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
    *, actor: Actor, question: Question, asked: NewMessage, history: Sequence[NewMessage], name: str | None
) -> Question:
    """Return a question with its session, and with the messages before it that are not stored yet.

    `name` is the client's for its conversation. A question that was asked at the same place before is the same one.
    """
    session_id = _session_of(actor, question, asked, history, name)
    question = replace(question, session_id=session_id)
    rows = _latest(actor, session_id) if session_id else []
    known = {_fingerprint(row): row for row in rows}
    fingerprints = [_fingerprint(each) for each in history]
    last = max((place for place, each in enumerate(fingerprints) if each in known), default=None)
    if last is None and rows and (history or _fingerprint(rows[0]) != _fingerprint(asked) or rows[0].seq > 1):
        return question  # what is new alone is shown, or nothing that is known: the session's record counts
    before, parent = [], ""
    if last is not None:
        row = known[fingerprints[last]]
        parent = row.client_message_id or str(row.pk)
    for each in history[0 if last is None else last + 1 :]:
        parent = _chained_id(parent, each)
        before.append(replace(each, client_message_id=parent))
    own_id = _chained_id(parent, asked)
    return replace(
        question, before=tuple(before), client_message_id=own_id, left=_omitted(rows, history, fingerprints, own_id)
    )


def _omitted(
    rows: Sequence[Message], history: Sequence[NewMessage], fingerprints: Sequence[str], own_id: str
) -> frozenset[int]:
    """Return the `seq` of messages that the client does not show, but for those before the first that it shows.

    A client may show the end of a conversation only; its beginning is known by the id that it got.
    """
    wanted, shown = Counter(fingerprints), list[Message]()
    for row in reversed(rows):  # where something was said twice, the latest is meant
        if wanted[_fingerprint(row)] > 0:
            wanted[_fingerprint(row)] -= 1
            shown.append(row)
    begins = not history or _chained_id("", history[0]) in {row.client_message_id for row in shown}
    start = shown[-1].seq if shown and not begins else 0
    left = {row.seq for row in rows if row.seq > start and row.client_message_id != own_id}
    return frozenset(left - {row.seq for row in shown})


def _session_of(
    actor: Actor, question: Question, asked: NewMessage, history: Sequence[NewMessage], name: str | None
) -> UUID | None:
    """Return the session that the client names, else that in which its conversation is known, else a new one's id.

    None where nothing tells it from another conversation that begins alike.
    """
    named = uuid5(actor.pk, f"session:{name}") if name else None
    own = Session.objects.filter(actor=actor)
    if named and (found := own.filter(pk__in=[named, *_parse_id(name or "")]).first()):
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
    # Texts have no index. Most conversations go on from where they just were.
    newest = said.order_by("-created_at", "-id").values("pk")[:MAX_RECENT]
    found = rows.filter(pk__in=newest).first()
    if found is None or not (found.shown or earlier):
        found = rows.first()
    return found.session_id if found else None


def _failed_session(actor: Actor, asked: NewMessage, channel: str) -> UUID | None:
    """Return the session of the actor's latest question where that is the same one, and all that was said in it."""
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
