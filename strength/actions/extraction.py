"""Extraction of facts, preferences and episodes from messages, in the background (SPEC L2–L4).

A strategy's cursor in a session moves in the transaction that writes what was extracted up to it: an interrupted
attempt has written nothing, and is repeated from the same message. The model is asked before, outside any transaction.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction

from conversations.domain.messages import Role
from conversations.models import Message, Session
from memoryhub.auth.domain import Principal
from memoryhub.jobs.backfill import Piece, Scope
from memoryhub.jobs.queue import Order, enqueue
from memoryhub.llm.client import counter_in_use, is_patient
from memoryhub.llm.errors import BadAnswer, ProviderMisconfigured, ProviderRejected
from memoryhub.llm.prompts import prompt
from memoryhub.llm.types import Operation
from memoryhub.tenancy.domain import Trust
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from strength.actions.contradictions import Extracted, Filed, ask_about, file_extracted, must_fail, rulings
from strength.actions.reflection import enqueue_reflection, pass_episodes_over
from strength.domain.extraction import (
    EARLIER_MESSAGES,
    EXTRACT_KIND,
    FROM_MESSAGES,
    KINDS,
    MOST_ITEMS,
    Item,
    Said,
    Slice,
    Strategy,
    Stretch,
    Topics,
    answer_schema,
    earlier_lines,
    half_of,
    harmless,
    is_on,
    items_of,
    message_blocks,
    namespace_of,
    next_slice,
    next_stretch,
    switched_on,
)
from strength.domain.memories import Kind
from strength.domain.policy import ExtractionPolicy
from strength.models import Memory, ReflectionCursor, StrategyCursor
from strength.sql import QUERIES

EXTRACT_KEY: Final = "actor"
MOST_MESSAGES: Final = 200
"""Messages that one slice is chosen from; tokens nearly always end it sooner."""

Step = Callable[[], AbstractContextManager[None]]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reading:
    """Who reads for whom, for which moment, and after how many attempts whose answers could not be used."""

    actor: Actor
    by: Principal
    now: datetime
    spoilt: int = 0

    @property
    def topics(self) -> Topics:
        """Return what the agent wants remembered, and what not."""
        agent = self.actor.agent
        return Topics(tuple(agent.topics_include), tuple(agent.topics_exclude))

    @property
    def most_tokens(self) -> int:
        """Return how much one call may read."""
        return effective_policy(ExtractionPolicy, self.actor.agent, self.actor).extraction_max_tokens


def extract(
    *,
    reading: Reading,
    first: UUID | None = None,
    step: Step = transaction.atomic,
    may_go_on: Callable[[], bool] = lambda: True,
) -> Filed:
    """Read what was not read of an actor's sessions, that of `first` before the others, and write what it tells.

    Strategies that are off go along and draw nothing. Where `may_go_on` says no, a job is enqueued for the rest. Each
    slice is written in a `step`, a transaction of its own. Network. Raises ProviderError.
    """
    actor, total = reading.actor, Filed()
    on = switched_on(actor.agent.strategies)
    with step():
        _pass_over(reading, [strategy for strategy in FROM_MESSAGES if strategy not in on])
    while (session := _behind(actor, on, first)) is not None:
        if not may_go_on():
            with step():
                enqueue(
                    EXTRACT_KIND, actor_id=actor.id, key=EXTRACT_KEY, payload={"session_id": str(session.pk)}
                )
            return total
        total = _together(total, _read_on(reading, session, on, step))
    with step():
        _after_reading(reading)
    return total


def _pass_over(reading: Reading, off: Sequence[Strategy]) -> None:
    """Let strategies that are off go along: turned on later, they begin with what is said then (SPEC L2)."""
    if off:
        _execute(QUERIES["pass_over_unread"], actor_id=reading.actor.id, strategies=list(off))


def _after_reading(reading: Reading) -> None:
    if is_on(reading.actor.agent.strategies, Strategy.REFLECTION):
        enqueue_reflection(actor=reading.actor)
    else:
        pass_episodes_over(actor=reading.actor, now=reading.now)


def _behind(actor: Actor, on: Sequence[Strategy], first: UUID | None) -> Session | None:
    values: dict[str, Any] = {"actor_id": actor.id, "strategies": list(on), "first": first}
    with connection.cursor() as cursor:
        cursor.execute(QUERIES["next_unread_session"], values)
        row = cursor.fetchone()
    return Session.objects.filter(actor_id=actor.id, pk=row[0]).first() if row else None


def _read_on(reading: Reading, session: Session, on: Sequence[Strategy], step: Step) -> Filed:
    """Read one slice of a session for the strategies that are furthest behind, and write what it tells."""
    stretch = next_stretch(_places(reading.actor, session, on), end=session.message_count)
    if stretch is None:
        return Filed()
    drawn, piece, passed = _drawn_in_halves(reading, session, stretch, _slice(reading, session, stretch))
    patient = is_patient(reading.spoilt)
    ruled = rulings(actor=reading.actor, extracted=drawn, now=reading.now, is_patient=patient)
    with step():
        if not _move(reading.actor, session, stretch, piece.until, passed):
            return Filed()
        return file_extracted(
            actor=reading.actor, extracted=drawn, rulings=ruled, channel=session.channel, by=reading.by,
            now=reading.now,
        )  # fmt: skip


def _places(actor: Actor, session: Session, on: Sequence[Strategy]) -> dict[Strategy, int]:
    rows = StrategyCursor.objects.filter(actor_id=actor.id, session_id=session.pk)
    known = dict(rows.values_list("strategy", "read_until"))
    return {strategy: known.get(strategy, 0) for strategy in on}


def _move(actor: Actor, session: Session, stretch: Stretch, until: int, passed: int | None) -> bool:
    """Move the strategies that read together; False where one is elsewhere by now, and nothing may be written.

    `passed` is the message that was passed by, if one was: a backfill goes back for it.
    """
    strategies = [strategy.value for strategy in stretch.strategies]
    names = {"actor_id": actor.id, "session_id": session.pk, "strategies": strategies}
    _execute(QUERIES["ensure_cursors"], **names)
    rows = StrategyCursor.objects.filter(actor_id=actor.id, session_id=session.pk, strategy__in=strategies)
    held = list(rows.order_by("strategy").select_for_update())
    if any(each.read_until != stretch.after for each in held):
        return False
    rows.update(read_until=until)
    if passed is not None:
        _execute(QUERIES["note_passed_message"], **names, seq=passed)
    return True


def _slice(reading: Reading, session: Session, stretch: Stretch) -> Slice:
    spoken = Message.objects.of([reading.actor.id]).spoken().filter(session_id=session.pk)
    rows = spoken.filter(seq__gt=stretch.after, seq__lte=stretch.until).order_by("seq")[:MOST_MESSAGES]
    messages = [_said(row) for row in rows]
    until = messages[-1].seq if len(messages) == MOST_MESSAGES else stretch.until
    count = counter_in_use(Operation.EXTRACT).count
    return next_slice(messages, most_tokens=reading.most_tokens, count=count, until=until)


def _said(row: Message) -> Said:
    return Said(
        id=row.pk, seq=row.seq, is_users=row.role == Role.USER, author=row.author, text=row.content,
        is_trusted=row.trust == Trust.TRUSTED, said_at=row.created_at,
    )  # fmt: skip


def _drawn_in_halves(
    reading: Reading, session: Session, stretch: Stretch, piece: Slice
) -> tuple[list[Extracted], Slice, int | None]:
    """Return what a slice tells, or its first half where a model cannot deal with the whole.

    One message that no model will read must not keep the others from being read: it is passed by, and named. Not where
    the model answers nothing that can be used, whatever it is asked: then it is no message's fault.
    """
    while True:
        try:
            return _drawn(reading, session, stretch, piece), piece, None
        except (ProviderRejected, BadAnswer) as error:
            is_one = len(piece.lines) == 1
            if must_fail(error, spoilt=reading.spoilt, is_one=is_one):
                raise
            if is_one:
                if isinstance(error, BadAnswer) and not error.permanent:
                    _drawn(reading, session, stretch, harmless(piece))
                seq = piece.lines[0].said.seq
                about = {"session": str(session.pk), "seq": seq, "code": error.code}
                log.warning("a message was passed by, no model would read it", extra=about)
                return [], piece, seq
            piece = half_of(piece)


def _drawn(reading: Reading, session: Session, stretch: Stretch, piece: Slice) -> list[Extracted]:
    if not piece.tells_something:
        return []
    actor, topics = reading.actor, reading.topics
    language = actor.agent.language
    earlier = _earlier(reading, session, stretch, piece)
    data = ask_about(
        actor, Operation.EXTRACT, "extract", message_blocks(piece, earlier, language=language),
        answer_schema(stretch.strategies, topics), most=MOST_ITEMS, topics=_about_topics(topics, language),
    )  # fmt: skip
    items = items_of(data, piece, strategies=stretch.strategies, topics=topics, language=language)
    return [_extracted(item, session, reading.now) for item in items]


def _earlier(reading: Reading, session: Session, stretch: Stretch, piece: Slice) -> list[str]:
    """Return what was said just before; beside what is believed, only what is believed as well."""
    rows = (
        Message.objects.of([reading.actor.id]).spoken().filter(session_id=session.pk, seq__lte=stretch.after)
    )
    if piece.lines[0].said.is_trusted:
        rows = rows.filter(trust=Trust.TRUSTED)
    messages = [_said(row) for row in rows.order_by("-seq")[:EARLIER_MESSAGES]]
    count = counter_in_use(Operation.EXTRACT).count
    return earlier_lines(messages[::-1], most_tokens=reading.most_tokens, count=count)


def _about_topics(topics: Topics, language: str) -> str:
    """Return the prompt's lines about topics; none where the agent names none."""
    comma = "、" if language == "ja" else ", "
    lines = [("extract_only", topics.include), ("extract_without", topics.exclude)]
    return "\n".join(prompt(name, language, topics=comma.join(named)) for name, named in lines if named)


def _extracted(item: Item, session: Session, now: datetime) -> Extracted:
    """Return an item as it is to be filed; nothing was said later than now, whatever a client's clock says."""
    return Extracted(
        content=item.text,
        kind=KINDS[item.strategy],
        namespace=namespace_of(item.strategy, session.pk),
        confidence=item.confidence,
        message_ids=tuple(said.id for said in item.sources),
        said_at=min(item.said_at, now),
        is_believed=all(said.is_trusted for said in item.sources),
    )


def _together(one: Filed, other: Filed) -> Filed:
    return replace(
        one,
        new=one.new + other.new,
        known=one.known + other.known,
        held_back=one.held_back + other.held_back,
        refused=one.refused + other.refused,
    )


# What waits, and going back


def messages_waiting(*, actor: Actor | None = None) -> dict[Strategy, int]:
    """Return how many messages each strategy that is on has not looked at, of one actor or of all."""
    return _counted(QUERIES["unread_messages"], actor)


def messages_passed_over(*, actor: Actor | None = None) -> dict[Strategy, int]:
    """Return how many messages each strategy passed over, off or refused: what `rewind` would go back for."""
    return _counted(QUERIES["passed_messages"], actor)


@transaction.atomic
def rewind(
    *, actor: Actor, strategies: Sequence[Strategy], since: datetime | None = None, again: bool = False
) -> int:
    """Send strategies back to what they passed over, and return how many messages now wait.

    What is off stays where it is. With `since`, back to what was said then or later; with `again`, also over what they
    have read already. Without `again`, doing it twice is as doing it once, so a backfill that was broken off may simply
    be begun anew. A job reads what waits, as far as the agent's caps allow.
    """
    on = [each for each in strategies if each in FROM_MESSAGES and is_on(actor.agent.strategies, each)]
    _execute(QUERIES["rewind_cursors"], actor_id=actor.id, strategies=on, since=since, again=again)
    if Strategy.REFLECTION in strategies and is_on(actor.agent.strategies, Strategy.REFLECTION):
        passed = ReflectionCursor.objects.filter(actor_id=actor.id)
        (passed if again else passed.filter(has_passed=True)).delete()
    waiting = sum(messages_waiting(actor=actor).get(strategy, 0) for strategy in on)
    if (waiting or Strategy.REFLECTION in strategies) and settings.LLM.provider != "none":
        enqueue(EXTRACT_KIND, actor_id=actor.id, key=EXTRACT_KEY)
    return waiting


def _counted(statement: str, actor: Actor | None) -> dict[Strategy, int]:
    values = {"actor_id": actor.id if actor else None, "strategies": list(FROM_MESSAGES)}
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return {Strategy(name): int(number) for name, number in cursor.fetchall()}


def _execute(statement: str, **values: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def pieces(scope: Scope) -> Iterator[Piece]:
    """Yield a job for each actor whose messages were not all read (`manage.py backfill`).

    Raises ProviderMisconfigured where some wait and there is no model that could read them.
    """
    missing = _missing(scope)
    if settings.LLM.provider != "none":
        yield from missing
    elif many := sum(piece.size for piece in missing):
        message = f"No language model is configured (MEMORYHUB_LLM_PROVIDER); {many} messages wait."
        raise ProviderMisconfigured(message, code="no_model")


def _missing(scope: Scope) -> Iterator[Piece]:
    actors = Actor.objects.select_related("agent").order_by("id")
    if scope.agent_id is not None:
        actors = actors.filter(agent_id=scope.agent_id)
    if scope.user_id is not None:
        actors = actors.filter(user_id=scope.user_id)
    for actor in actors.iterator(chunk_size=1000):
        left = [*messages_waiting(actor=actor).values(), *_passed_over(actor)]
        if any(left):
            back = partial(rewind, actor=actor, strategies=list(Strategy), since=scope.since)
            yield Piece(actor.id, Order(EXTRACT_KIND, EXTRACT_KEY), max(left), back)


def _passed_over(actor: Actor) -> Iterator[int]:
    """Yield how much was passed over for each strategy that is on; what is still off is not gone back for."""
    switches = actor.agent.strategies
    yield from (many for each, many in messages_passed_over(actor=actor).items() if is_on(switches, each))
    passed = ReflectionCursor.objects.filter(actor_id=actor.id, has_passed=True)
    if is_on(switches, Strategy.REFLECTION) and passed.exists():
        yield Memory.objects.of([actor.id]).active().filter(kind=Kind.EPISODE).count()
