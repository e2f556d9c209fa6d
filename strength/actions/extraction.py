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
from memoryhub.llm.client import complete_in_halves, complete_json, counter_in_use, may_retry
from memoryhub.llm.errors import ProviderMisconfigured
from memoryhub.llm.prompts import prompt
from memoryhub.llm.types import Operation
from memoryhub.tenancy.domain import Trust
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from strength.actions.contradictions import ExtractedMemory, ExtractionResult, resolutions, write_extracted
from strength.actions.reflection import enqueue_reflection, pass_episodes_over
from strength.domain.extraction import (
    EARLIER_MESSAGES,
    EXTRACT_KIND,
    FROM_MESSAGES,
    KINDS,
    MOST_ITEMS,
    Item,
    Line,
    Slice,
    SourceMessage,
    Span,
    Strategy,
    Topics,
    answer_schema,
    earlier_lines,
    harmless_lines,
    is_on,
    items_of,
    message_blocks,
    namespace_of,
    next_slice,
    next_span,
    switched_on,
)
from strength.domain.memories import Kind
from strength.domain.policy import ExtractionPolicy
from strength.models import Memory, ReflectionCursor, StrategyCursor
from strength.sql import QUERIES

EXTRACT_KEY: Final = "actor"
MOST_MESSAGES: Final = 200
"""Messages loaded to choose a slice from; tokens nearly always end it sooner."""

Step = Callable[[], AbstractContextManager[None]]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExtractionRun:
    """One attempt to extract an actor's messages; `bad_attempts` counts earlier ones that ended in bad answers."""

    actor: Actor
    by: Principal
    now: datetime
    bad_attempts: int = 0

    @property
    def topics(self) -> Topics:
        agent = self.actor.agent
        return Topics(tuple(agent.topics_include), tuple(agent.topics_exclude))

    @property
    def most_tokens(self) -> int:
        return effective_policy(ExtractionPolicy, self.actor.agent, self.actor).extraction_max_tokens


def extract(
    *,
    run: ExtractionRun,
    first: UUID | None = None,
    step: Step = transaction.atomic,
    may_go_on: Callable[[], bool] = lambda: True,
) -> ExtractionResult:
    """Extract memories from an actor's unread messages, those of the session `first` before the others.

    Each slice is written in a `step`, a transaction of its own. Where `may_go_on` says no, a job is enqueued for the
    rest. Network. Raises ProviderError.
    """
    actor, total = run.actor, ExtractionResult()
    on = switched_on(actor.agent.strategies)
    with step():
        # Disabled strategies: enabled later, they begin with what is said then (SPEC L2).
        off = [strategy for strategy in FROM_MESSAGES if strategy not in on]
        _execute(QUERIES["pass_over_unread"], actor_id=actor.id, strategies=off)
    while (session := _next_session(actor, on, first)) is not None:
        if not may_go_on():
            with step():
                enqueue(
                    EXTRACT_KIND, actor_id=actor.id, key=EXTRACT_KEY, payload={"session_id": str(session.pk)}
                )
            return total
        total += _read_slice(run, session, on, step)
    with step():
        if is_on(actor.agent.strategies, Strategy.REFLECTION):
            enqueue_reflection(actor=actor)
        else:
            pass_episodes_over(actor=actor, now=run.now)
    return total


def _next_session(actor: Actor, on: Sequence[Strategy], first: UUID | None) -> Session | None:
    values: dict[str, Any] = {"actor_id": actor.id, "strategies": list(on), "first": first}
    with connection.cursor() as cursor:
        cursor.execute(QUERIES["next_unread_session"], values)
        row = cursor.fetchone()
    return Session.objects.filter(actor_id=actor.id, pk=row[0]).first() if row else None


def _read_slice(run: ExtractionRun, session: Session, on: Sequence[Strategy], step: Step) -> ExtractionResult:
    """Read one slice of a session for the strategies that are furthest behind, and write what it yields."""
    span = next_span(_places(run.actor, session, on), end=session.message_count)
    if span is None:
        return ExtractionResult()
    extracted, piece, skipped = _extract_slice(run, session, span, _slice(run, session, span))
    resolved = resolutions(
        actor=run.actor, extracted=extracted, now=run.now, is_patient=may_retry(run.bad_attempts)
    )
    with step():
        if not _move_cursors(run.actor, session, span, piece.until, skipped):
            return ExtractionResult()
        return write_extracted(
            actor=run.actor, extracted=extracted, resolutions=resolved, channel=session.channel, by=run.by,
            now=run.now,
        )  # fmt: skip


def _places(actor: Actor, session: Session, on: Sequence[Strategy]) -> dict[Strategy, int]:
    rows = StrategyCursor.objects.filter(actor_id=actor.id, session_id=session.pk)
    known = dict(rows.values_list("strategy", "read_until"))
    return {strategy: known.get(strategy, 0) for strategy in on}


def _move_cursors(actor: Actor, session: Session, span: Span, until: int, skipped: int | None) -> bool:
    """Move the cursors of the strategies that read together; False where one has moved meanwhile: then write nothing.

    `skipped` is the message that no model would read, if any: a backfill goes back for it.
    """
    strategies = [strategy.value for strategy in span.strategies]
    names = {"actor_id": actor.id, "session_id": session.pk, "strategies": strategies}
    _execute(QUERIES["ensure_cursors"], **names)
    rows = StrategyCursor.objects.filter(actor_id=actor.id, session_id=session.pk, strategy__in=strategies)
    held = list(rows.order_by("strategy").select_for_update())
    if any(each.read_until != span.after for each in held):
        return False
    rows.update(read_until=until)
    if skipped is not None:
        _execute(QUERIES["note_passed_message"], **names, seq=skipped)
    return True


def _slice(run: ExtractionRun, session: Session, span: Span) -> Slice:
    spoken = Message.objects.of([run.actor.id]).spoken().filter(session_id=session.pk)
    rows = spoken.filter(seq__gt=span.after, seq__lte=span.until).order_by("seq")[:MOST_MESSAGES]
    messages = [_said(row) for row in rows]
    until = messages[-1].seq if len(messages) == MOST_MESSAGES else span.until
    count = counter_in_use(Operation.EXTRACT).count
    return next_slice(messages, most_tokens=run.most_tokens, count=count, until=until)


def _said(row: Message) -> SourceMessage:
    return SourceMessage(
        id=row.pk, seq=row.seq, is_users=row.role == Role.USER, author=row.author, text=row.content,
        is_trusted=row.trust == Trust.TRUSTED, said_at=row.created_at,
    )  # fmt: skip


def _extract_slice(
    run: ExtractionRun, session: Session, span: Span, piece: Slice
) -> tuple[list[ExtractedMemory], Slice, int | None]:
    """Return what a slice yields, the part of it that was read, and the message that was skipped, if one was."""

    def ask(lines: Sequence[Line]) -> list[ExtractedMemory]:
        return _ask(run, session, span, replace(piece, lines=tuple(lines)))

    lines, extracted, error = complete_in_halves(
        piece.lines, ask, bad_attempts=run.bad_attempts, control=lambda: ask(harmless_lines(piece))
    )
    if len(lines) < len(piece.lines):
        piece = Slice(tuple(lines), lines[-1].said.seq)
    if error is None:
        return extracted or [], piece, None
    seq = lines[0].said.seq
    about = {"session": str(session.pk), "seq": seq, "code": error.code}
    log.warning("a message was skipped: no model would read it", extra=about)
    return [], piece, seq


def _ask(run: ExtractionRun, session: Session, span: Span, piece: Slice) -> list[ExtractedMemory]:
    if not piece.has_user_message:
        return []
    actor, topics = run.actor, run.topics
    language = actor.agent.language
    earlier = _earlier(run, session, span, piece)
    data = complete_json(
        actor, Operation.EXTRACT, "extract", message_blocks(piece, earlier, language=language),
        answer_schema(span.strategies, topics), most=MOST_ITEMS, topics=_about_topics(topics, language),
    )  # fmt: skip
    items = items_of(data, piece, strategies=span.strategies, topics=topics, language=language)
    return [_extracted(item, session, run.now) for item in items]


def _earlier(run: ExtractionRun, session: Session, span: Span, piece: Slice) -> list[str]:
    """Return the messages just before a slice; with a trusted slice only trusted ones."""
    rows = Message.objects.of([run.actor.id]).spoken().filter(session_id=session.pk, seq__lte=span.after)
    if piece.lines[0].said.is_trusted:
        rows = rows.filter(trust=Trust.TRUSTED)
    messages = [_said(row) for row in rows.order_by("-seq")[:EARLIER_MESSAGES]]
    count = counter_in_use(Operation.EXTRACT).count
    return earlier_lines(messages[::-1], most_tokens=run.most_tokens, count=count)


def _about_topics(topics: Topics, language: str) -> str:
    comma = "、" if language == "ja" else ", "
    lines = [("extract_only", topics.include), ("extract_without", topics.exclude)]
    return "\n".join(prompt(name, language, topics=comma.join(named)) for name, named in lines if named)


def _extracted(item: Item, session: Session, now: datetime) -> ExtractedMemory:
    return ExtractedMemory(
        content=item.text,
        kind=KINDS[item.strategy],
        namespace=namespace_of(item.strategy, session.pk),
        confidence=item.confidence,
        message_ids=tuple(said.id for said in item.sources),
        said_at=min(item.said_at, now),  # a client's clock may be ahead
        is_trusted=all(said.is_trusted for said in item.sources),
    )


def unread_messages(*, actor: Actor | None = None) -> dict[Strategy, int]:
    return _counted(QUERIES["unread_messages"], actor)


def passed_messages(*, actor: Actor | None = None) -> dict[Strategy, int]:
    """Count the messages that each strategy passed over, disabled or refused: `rewind` goes back for them."""
    return _counted(QUERIES["passed_messages"], actor)


@transaction.atomic
def rewind(
    *, actor: Actor, strategies: Sequence[Strategy], since: datetime | None = None, again: bool = False
) -> int:
    """Move the cursors of enabled strategies back to what they passed over; return the number of unread messages.

    With `since`, back to messages of that time or later; with `again`, also over messages that were read. Idempotent
    without `again`, so that an interrupted backfill may simply be repeated. A job reads the messages, as far as the
    agent's spend cap allows.
    """
    on = [each for each in strategies if each in FROM_MESSAGES and is_on(actor.agent.strategies, each)]
    _execute(QUERIES["rewind_cursors"], actor_id=actor.id, strategies=on, since=since, again=again)
    if Strategy.REFLECTION in strategies and is_on(actor.agent.strategies, Strategy.REFLECTION):
        passed = ReflectionCursor.objects.filter(actor_id=actor.id)
        (passed if again else passed.filter(has_passed=True)).delete()
    waiting = sum(unread_messages(actor=actor).get(strategy, 0) for strategy in on)
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


def backfill_pieces(scope: Scope) -> Iterator[Piece]:
    """Yield a job for each actor with unread messages (`manage.py backfill`).

    Raises ProviderMisconfigured where there are some and no model is configured.
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
        left = [*unread_messages(actor=actor).values(), *_passed_over(actor)]
        if any(left):
            back = partial(rewind, actor=actor, strategies=list(Strategy), since=scope.since)
            yield Piece(actor.id, Order(EXTRACT_KIND, EXTRACT_KEY), max(left), back)


def _passed_over(actor: Actor) -> Iterator[int]:
    """Yield how many messages and episodes each enabled strategy passed over."""
    switches = actor.agent.strategies
    yield from (many for each, many in passed_messages(actor=actor).items() if is_on(switches, each))
    passed = ReflectionCursor.objects.filter(actor_id=actor.id, has_passed=True)
    if is_on(switches, Strategy.REFLECTION) and passed.exists():
        yield Memory.objects.of([actor.id]).active().filter(kind=Kind.EPISODE).count()
