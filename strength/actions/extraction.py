"""Long-term strategies: extract memories from messages, and lessons from episodes, in the background (SPEC L2–L4).

A strategy's cursor in a session moves in the transaction that writes what was extracted up to it: an interrupted
attempt has written nothing, and is repeated from the same message. The model is asked before, outside any transaction.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import transaction

from conversations.actions.forgetting import is_unchanged
from conversations.actions.messages import message_texts
from conversations.actions.writing import language_asked_for, writing_for
from conversations.domain.messages import Role
from conversations.domain.policy import WritingPolicy
from conversations.models import Message, Session
from memoryhub.auth import audit
from memoryhub.auth.access import lock_actor
from memoryhub.auth.principals import Principal
from memoryhub.doctor import Finding, Level
from memoryhub.jobs.backfill import Piece, Scope
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Order, enqueue
from memoryhub.jobs.retries import State
from memoryhub.llm.client import complete_in_halves, complete_json, counter_in_use, material_limit, may_retry
from memoryhub.llm.errors import ProviderMisconfigured
from memoryhub.llm.prompts import prompt
from memoryhub.llm.types import Operation
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy, zone_of
from memoryhub.tenancy.policy import Trust
from strength.actions.contradictions import (
    ExtractedMemory,
    Outcome,
    Step,
    compare_pending,
    resolve_extracted,
    write_extracted,
)
from strength.actions.distrust import recent_failures
from strength.actions.reflection import enqueue_reflection, move_cursor, unread_episodes
from strength.domain.distrust import distrusted
from strength.domain.extraction import (
    EXTRACT_KIND,
    KINDS,
    MAX_EARLIER_MESSAGES,
    MAX_ITEMS,
    MESSAGE_STRATEGIES,
    Item,
    Line,
    Reading,
    Slice,
    SourceMessage,
    Span,
    Strategy,
    Topics,
    answer_schema,
    earlier_lines,
    enabled_strategies,
    is_enabled,
    items_of,
    message_blocks,
    namespace_of,
    next_slice,
    next_span,
    probe_lines,
)
from strength.domain.memories import Kind
from strength.domain.policy import ExtractionPolicy
from strength.models import Memory, ReflectionCursor, StrategyCursor
from strength.sql import QUERIES, run_query

log = logging.getLogger(__name__)


EXTRACT_KEY: Final = "actor"
MAX_MESSAGES: Final = 200
"""Messages loaded to choose a slice from; tokens nearly always end it sooner."""


@dataclass(frozen=True)
class ExtractionRun:
    """One attempt to extract an actor's messages; `bad_attempts` counts earlier ones that ended in bad answers.

    `instructions` are tried in place of the policy's.
    """

    actor: Actor
    by: Principal
    now: datetime
    bad_attempts: int = 0
    instructions: str | None = None

    @property
    def rules(self) -> str:
        """Return the operator's own instructions."""
        if self.instructions is not None:
            return self.instructions
        return effective_policy(WritingPolicy, self.actor.agent, self.actor).extraction_instructions

    @property
    def max_tokens(self) -> int:
        policy = effective_policy(ExtractionPolicy, self.actor.agent, self.actor)
        return material_limit(Operation.EXTRACT, policy.extraction_max_tokens)


def extract(
    *,
    run: ExtractionRun,
    first: UUID | None = None,
    step: Step = transaction.atomic,
    may_go_on: Callable[[], bool] = lambda: True,
) -> Counter[Outcome]:
    """Extract memories from an actor's unread messages, those of the session `first` before the others.

    Each slice is written in a `step`, a transaction of its own. Once `may_go_on` is false, a job is enqueued for the
    rest. Network. Raises ProviderError.
    """
    actor, total = run.actor, Counter[Outcome]()
    enabled = enabled_strategies(actor.agent.strategies)
    with step():
        # A disabled strategy passes over messages; enabled later, it starts with new ones (SPEC L2).
        disabled = [strategy for strategy in MESSAGE_STRATEGIES if strategy not in enabled]
        run_query(QUERIES["pass_over_unread"], {"actor_id": actor.id, "strategies": disabled})
    unread = {"actor_id": actor.id, "strategies": list(enabled), "first": first}
    while rows := run_query(QUERIES["next_unread_session"], unread):
        session = Session.objects.filter(actor_id=actor.id, pk=rows[0][0]).first()
        if session is None:
            break
        if not may_go_on():
            payload = {"session_id": str(session.pk)}
            with step():
                enqueue(EXTRACT_KIND, actor_id=actor.id, key=EXTRACT_KEY, payload=payload)
            return total
        total += _extract_slice(run, session, enabled, step)
    if may_go_on():
        compare_pending(actor=actor, by=run.by, now=run.now, step=step)
    with step():
        if is_enabled(actor.agent.strategies, Strategy.REFLECTION):
            enqueue_reflection(actor=actor)
        elif unread_episodes(actor).exists():
            # A disabled strategy passes over episodes; enabled later, it starts with new ones.
            move_cursor(actor, until=run.now, after=None, has_passed=True)
    return total


@transaction.atomic
def enqueue_extraction(*, session: Session) -> UUID:
    """Enqueue the extraction of an actor's messages, this session's first; return the job that waits for it."""
    lock_actor(session.actor_id)
    payload = {"session_id": str(session.pk)}
    return enqueue(EXTRACT_KIND, actor_id=session.actor_id, key=EXTRACT_KEY, payload=payload)


@transaction.atomic
def extract_now(*, session: Session, by: Principal, now: datetime) -> None:
    """Let the job that reads an actor's messages begin at once, with this session."""
    job_id = enqueue_extraction(session=session)
    waiting = Job.objects.filter(pk=job_id, actor_id=session.actor_id, state=State.QUEUED)
    waiting.update(due_at=now, payload={"session_id": str(session.pk)})
    audit.record(by=by, verb="order", row=session, details={"job": str(job_id)}, now=now)


def extraction_state(*, session: Session) -> dict[str, Any]:
    """Return how far each strategy has read a session, and the actor's latest extraction job."""
    enabled = enabled_strategies(session.actor.agent.strategies)
    rows = StrategyCursor.objects.filter(actor_id=session.actor_id, session_id=session.pk)
    cursors = {row.strategy: row for row in rows}
    strategies: list[dict[str, Any]] = []
    for strategy in MESSAGE_STRATEGIES:
        cursor = cursors.get(strategy.value)
        names = ("read_until", "passed_after", "passed_until")
        progress = {name: getattr(cursor, name) if cursor else 0 for name in names}
        strategies.append({"strategy": strategy.value, "is_on": strategy in enabled, **progress})
    behind = [row for row in strategies if row["is_on"] and row["read_until"] < session.message_count]
    job = Job.objects.filter(actor_id=session.actor_id, kind=EXTRACT_KIND).order_by("-created_at").first()
    return {
        "session_id": session.pk,
        "message_count": session.message_count,
        "is_complete": not behind,
        "strategies": strategies,
        "job_id": job and job.pk,
        "job_state": job and job.state,
    }


def _move_cursors(actor: Actor, session: Session, span: Span, until: int, skipped: int | None) -> bool:
    """Move the cursors; False where one has moved, or messages were deleted. A backfill returns to `skipped`."""
    if not is_unchanged(session):
        return False
    strategies = [strategy.value for strategy in span.strategies]
    keys = {"actor_id": actor.id, "session_id": session.pk, "strategies": strategies}
    run_query(QUERIES["ensure_cursors"], keys)
    rows = StrategyCursor.objects.filter(actor_id=actor.id, session_id=session.pk, strategy__in=strategies)
    cursors = list(rows.order_by("strategy").select_for_update())
    if any(cursor.read_until != span.after for cursor in cursors):
        return False
    rows.update(read_until=until)
    if skipped is not None:
        run_query(QUERIES["note_passed_message"], {**keys, "seq": skipped})
    return True


def source_messages(rows: Sequence[Message], actor: Actor) -> list[SourceMessage]:
    zone = zone_of(actor.agent, actor)
    texts = message_texts(rows, actor.agent.language)
    return [
        SourceMessage(
            id=row.pk,
            seq=row.seq,
            is_users=row.role == Role.USER,
            author=row.author,
            text=text,
            is_trusted=row.trust == Trust.TRUSTED,
            said_at=row.local_time(zone),
        )
        for row, text in zip(rows, texts, strict=True)
    ]


def _extract_slice(run: ExtractionRun, session: Session, enabled: Sequence[Strategy], step: Step) -> Counter[Outcome]:
    """Extract and write one slice of a session for the strategies that are furthest behind."""
    actor = run.actor
    rows = StrategyCursor.objects.filter(actor_id=actor.id, session_id=session.pk)
    read_until = dict(rows.values_list("strategy", "read_until"))
    span = next_span({strategy: read_until.get(strategy, 0) for strategy in enabled}, end=session.message_count)
    if span is None:
        return Counter()
    extracted, until, skipped = _read_slice(run, session, span)
    resolved = resolve_extracted(
        actor=actor, extracted=extracted, now=run.now, retries_bad_answers=may_retry(run.bad_attempts)
    )
    with step():
        if not _move_cursors(actor, session, span, until, skipped):
            return Counter()
        return write_extracted(
            actor=actor, extracted=extracted, resolutions=resolved, channel=session.channel, by=run.by, now=run.now
        )


def _read_slice(run: ExtractionRun, session: Session, span: Span) -> tuple[list[ExtractedMemory], int, int | None]:
    """Return the memories extracted from a slice, the `seq` up to which it was read, and that of a skipped message."""
    spoken = Message.objects.of([run.actor.id]).spoken().filter(session_id=session.pk)
    rows = spoken.filter(seq__gt=span.after, seq__lte=span.until).with_tools().order_by("seq")
    messages = source_messages(list(rows[:MAX_MESSAGES]), run.actor)
    until = messages[-1].seq if len(messages) == MAX_MESSAGES else span.until
    count = counter_in_use(Operation.EXTRACT).count
    piece = next_slice(messages, max_tokens=run.max_tokens, count=count, until=until)

    def ask(lines: Sequence[Line]) -> list[ExtractedMemory]:
        return extract_items(run, session, span, replace(piece, lines=tuple(lines)))

    lines, extracted, error = complete_in_halves(
        piece.lines, ask, bad_attempts=run.bad_attempts, control=lambda: ask(probe_lines(piece))
    )
    until = lines[-1].message.seq if len(lines) < len(piece.lines) else piece.until
    if error is None:
        return extracted or [], until, None
    seq = lines[0].message.seq
    details = {"session": str(session.pk), "seq": seq, "code": error.code}
    log.warning("a message was skipped: no model would read it", extra=details)
    return [], until, seq


def extract_items(run: ExtractionRun, session: Session, span: Span, piece: Slice) -> list[ExtractedMemory]:
    """Extract items from a slice by a model, with earlier messages as context; for a trusted slice, trusted ones."""
    if not piece.has_user_message:
        return []
    actor, agent = run.actor, run.actor.agent
    wanted = writing_for(actor, [line.text for line in piece.lines if line.message.is_users])
    language = wanted.prompt
    topics = Topics(tuple(agent.topics_include), tuple(agent.topics_exclude))
    rows = Message.objects.of([actor.id]).spoken().filter(session_id=session.pk, seq__lte=span.after)
    if piece.lines[0].message.is_trusted:
        rows = rows.filter(trust=Trust.TRUSTED)
    previous = source_messages(list(rows.with_tools().order_by("-seq")[:MAX_EARLIER_MESSAGES])[::-1], actor)
    count = counter_in_use(Operation.EXTRACT).count
    earlier_texts = earlier_lines(previous, max_tokens=run.max_tokens, count=count)
    data = complete_json(
        actor,
        Operation.EXTRACT,
        "extract",
        message_blocks(piece, earlier_texts, language=language),
        answer_schema(span.strategies, topics),
        language=language,
        most=MAX_ITEMS,
        topics="\n".join(filter(None, [*_rules(piece, topics, language), run.rules])),
        written=wanted.phrase,
    )
    reading = Reading(piece, topics, language, language_asked_for(actor), tuple(previous))
    items = distrusted(items_of(data, reading, strategies=span.strategies), recent_failures(actor))
    return [_extracted(item, session, run.now) for item in items]


def _extracted(item: Item, session: Session, now: datetime) -> ExtractedMemory:
    return ExtractedMemory(
        content=item.text,
        kind=KINDS[item.strategy],
        namespace=namespace_of(item.strategy, session.pk),
        confidence=item.confidence,
        message_ids=tuple(message.id for message in item.sources),
        said_at=min(item.said_at, now),  # a client's clock may be ahead
        is_trusted=all(message.is_trusted for message in item.sources),
        tags=item.authors,
        doubt=item.doubt,
        cues=item.cues,
    )


def _rules(piece: Slice, topics: Topics, language: str) -> list[str]:
    """Return the rules that a prompt has for several speakers, and for topics to extract or to leave out."""
    comma = "、" if language == "ja" else ", "
    named = [("extract_only", topics.include), ("extract_without", topics.exclude)]
    rules = [prompt(name, language, topics=comma.join(names)) for name, names in named if names]
    if len(piece.people) > 1:
        rules.insert(0, prompt("extract_people", language, people=comma.join(piece.people)))
    return rules


def unread_messages(*, actor: Actor | None = None) -> dict[Strategy, int]:
    return _count_by_strategy(QUERIES["unread_messages"], actor)


def skipped_messages(*, actor: Actor | None = None) -> dict[Strategy, int]:
    """Count the messages that each strategy skipped while disabled or refused; `rewind` returns to them."""
    return _count_by_strategy(QUERIES["passed_messages"], actor)


@transaction.atomic
def rewind(*, actor: Actor, strategies: Sequence[Strategy], since: datetime | None = None, again: bool = False) -> int:
    """Move the cursors of enabled strategies back to what they passed over; return the number of unread messages.

    With `since`, back to messages of that time or later; with `again`, also over messages that were read. Idempotent
    without `again`, so that an interrupted backfill may simply be repeated. A job reads the messages, as far as the
    agent's spend cap allows.
    """
    enabled = [
        strategy
        for strategy in strategies
        if strategy in MESSAGE_STRATEGIES and is_enabled(actor.agent.strategies, strategy)
    ]
    values = {"actor_id": actor.id, "strategies": enabled, "since": since, "again": again}
    run_query(QUERIES["rewind_cursors"], values)
    if Strategy.REFLECTION in strategies and is_enabled(actor.agent.strategies, Strategy.REFLECTION):
        cursors = ReflectionCursor.objects.filter(actor_id=actor.id)
        (cursors if again else cursors.filter(has_passed=True)).delete()
    unread = sum(unread_messages(actor=actor).get(strategy, 0) for strategy in enabled)
    if (unread or Strategy.REFLECTION in strategies) and settings.LLM.provider != "none":
        enqueue(EXTRACT_KIND, actor_id=actor.id, key=EXTRACT_KEY)
    return unread


def _count_by_strategy(statement: str, actor: Actor | None) -> dict[Strategy, int]:
    values = {"actor_id": actor.id if actor else None, "strategies": list(MESSAGE_STRATEGIES)}
    return {Strategy(name): int(number) for name, number in run_query(statement, values)}


def backfill_jobs(scope: Scope) -> Iterator[Piece]:
    """Yield a job for each actor with messages or episodes to read. Raises ProviderMisconfigured without a model."""
    actors = Actor.objects.select_related("agent").order_by("id")
    if scope.agent_id is not None:
        actors = actors.filter(agent_id=scope.agent_id)
    if scope.user_id is not None:
        actors = actors.filter(user_id=scope.user_id)
    total = 0
    for actor in actors.iterator(chunk_size=1000):
        switches = actor.agent.strategies
        counts = [*unread_messages(actor=actor).values()]
        counts += [size for strategy, size in skipped_messages(actor=actor).items() if is_enabled(switches, strategy)]
        cursors = ReflectionCursor.objects.filter(actor_id=actor.id, has_passed=True)
        if is_enabled(switches, Strategy.REFLECTION) and cursors.exists():
            counts.append(Memory.objects.of([actor.id]).active().filter(kind=Kind.EPISODE).count())
        if any(counts) and settings.LLM.provider != "none":
            go_back = partial(rewind, actor=actor, strategies=list(Strategy), since=scope.since)
            yield Piece(actor.id, Order(EXTRACT_KIND, EXTRACT_KEY), max(counts), go_back)
        else:
            total += max(counts, default=0)
    if total and settings.LLM.provider == "none":
        message = f"No language model is configured (MEMORYHUB_LLM_PROVIDER); {total} messages wait."
        raise ProviderMisconfigured(message, code="no_model")


MAX_UNREAD: Final = 1_000
"""Unread messages of a strategy from which on `doctor` warns."""


def diagnose() -> Iterator[Finding]:
    """Yield for `manage.py doctor` whether extraction keeps up with new messages."""
    unread = unread_messages()
    counts = ", ".join(f"{number} for {strategy}" for strategy, number in sorted(unread.items()))
    level, text = Level.WARNING, f"messages wait: {counts}"
    if unread and settings.LLM.provider == "none":
        advice = "set ANTHROPIC_API_KEY or OPENAI_API_KEY for the server, then run `manage.py backfill --extraction`"
        text = f"messages wait for a language model: {counts}; {advice}"
    elif max(unread.values(), default=0) >= MAX_UNREAD:
        advice = "see whether jobs of the kind `extract` end, and whether a cap is reached"
        text = f"many messages wait: {counts}; {advice}"
    else:
        level = Level.FINE
    yield Finding(level, "extraction", text if counts else "every message was read")
