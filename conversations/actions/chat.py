"""The chat bridge: store the question, assemble its context, call the model, store the answer (SPEC B1–B4).

A question is stored before anything can fail, an answer only when it is whole. Between the two no transaction is
open and no connection is held.
"""

import hashlib
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from django.db import DatabaseError, connection, transaction

from conversations.actions.answers import TurnSuperseded, close_turn, store_failure, store_or_later
from conversations.actions.context import ContextRequest, assemble_context, with_instructions
from conversations.actions.messages import add_messages, show_branch
from conversations.actions.questions import NoSuchCall, Question, asked_of, shown_messages
from conversations.actions.sessions import open_session
from conversations.actions.turn_leases import LEASE, renewed
from conversations.domain.content import Block, calls_in, parts_in, references_in
from conversations.domain.messages import NewMessage, Role, TurnState
from conversations.domain.policy import ChatPolicy, ContextPolicy
from conversations.models import ChatTurn, Message, Session
from memoryhub.auth.access import Tenant, lock_actor, visible_to
from memoryhub.auth.principals import Principal
from memoryhub.db.limits import time_limit
from memoryhub.db.pool import Stream, release_connection, run_in_background, run_in_thread
from memoryhub.errors import DomainError
from memoryhub.llm.answers import TruncatedAnswer
from memoryhub.llm.client import complete, llm_provider, stream
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.types import ChatMessage, Completion, CompletionRequest, Delta, Operation
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy

KEY_LIFETIME: Final = timedelta(hours=24)
RETRIED_WITHIN: Final = timedelta(minutes=10)
POLL_SECONDS: Final = 0.1
PREPARATION: Final = timedelta(seconds=60)
"""Time to store a question and to assemble its context, after which another call may take it over."""

UNEXPECTED: Final = "error"


class KeyReused(DomainError):
    """The idempotency key was used for another question."""

    code = "idempotency_key_reused"


class StillAnswering(DomainError):
    """The first call with this key is still running, past its deadline."""

    code = "idempotency_in_progress"


@dataclass(frozen=True)
class PreparedTurn:
    """A stored question and the request for the model; None where the question is answered already.

    With `may_outlive` the answer reaches the client even where it cannot be stored.
    """

    turn: ChatTurn
    request: CompletionRequest | None
    may_outlive: bool = False


def chat(*, actor: Actor, question: Question, by: Principal, now: datetime) -> PreparedTurn:
    """Answer a question and return its answered turn. Raises ChatFailed, and what `prepare_turn` raises."""
    prepared = prepare_turn(actor=actor, question=question, by=by, now=now)
    if prepared.request is None:
        return prepared
    try:
        with renewed(prepared.turn):
            completion, truncated = _complete(prepared.request, actor, keeps_truncated=question.keeps_truncated)
        turn = store_or_later(prepared.turn, completion, by, may_outlive=prepared.may_outlive, truncated=truncated)
    except ProviderError as error:
        raise store_failure(turn=prepared.turn, error=error, now=datetime.now(UTC)) from error
    except Exception:
        close_turn(prepared.turn, TurnState.FAILED, datetime.now(UTC), error=UNEXPECTED)
        raise
    return replace(prepared, turn=turn)


def _complete(request: CompletionRequest, actor: Actor, *, keeps_truncated: bool) -> tuple[Completion, bool]:
    """Return an answer, and whether it was cut at its greatest length."""
    try:
        return complete(request, actor=actor), False
    except TruncatedAnswer as error:
        if not keeps_truncated:
            raise
        return error.partial, True


def stream_answer(*, prepared: PreparedTurn, by: Principal) -> Stream[Delta | ChatTurn]:
    """Start answering a question in the background, and return the stream of its pieces, the stored turn last.

    It runs to its end even without a reader. The stream may raise ChatFailed, TurnSuperseded or UnknownRow
    instead of the turn.
    """
    pieces: Stream[Delta | ChatTurn] = Stream()
    run_in_background(_answer_in_background(prepared, by, pieces))
    return pieces


async def _answer_in_background(prepared: PreparedTurn, by: Principal, pieces: Stream[Delta | ChatTurn]) -> None:
    try:
        with renewed(prepared.turn):
            await _answer(prepared, by, pieces)
    except Exception as error:
        pieces.put(error)
        with suppress(DatabaseError):
            await run_in_thread(close_turn, prepared.turn, TurnState.FAILED, datetime.now(UTC), error=UNEXPECTED)
    except BaseException:
        pieces.put(TurnSuperseded("The server was stopped."))
        raise


async def _answer(prepared: PreparedTurn, by: Principal, pieces: Stream[Delta | ChatTurn]) -> None:
    assert prepared.request is not None
    store = partial(store_or_later, prepared.turn, may_outlive=prepared.may_outlive)
    try:
        async for piece in stream(prepared.request, actor=prepared.turn.actor):
            if isinstance(piece, Delta):
                pieces.put(piece)
            else:
                pieces.put(await run_in_thread(store, piece, by))
    except TruncatedAnswer as error:
        # The user has read the partial answer, so it is stored.
        pieces.put(await run_in_thread(store, error.partial, by, truncated=True))
    except ProviderError as error:
        pieces.put(await run_in_thread(store_failure, turn=prepared.turn, error=error, now=datetime.now(UTC)))


def key_is_used(*, key: str, by: Principal) -> bool:
    return visible_to(ChatTurn.objects.filter(key=key_digest(by.pk, key)), by).exists()


def prepare_turn(*, actor: Actor, question: Question, by: Principal, now: datetime) -> PreparedTurn:
    """Store a question, and return it with the request for the model.

    A question with a known key is not stored again: an answered turn is returned as it is, a running one is waited
    for, and a failed one is taken over. Raises KeyReused, StillAnswering, TurnSuperseded, PolicyError for wrong
    options, ContextTooLarge (the question is kept, and the turn has failed), OutOfTime and DatabaseAway past the
    question's `memory_ends_at`, and what `open_session` raises.
    """
    policy = effective_policy(ChatPolicy, actor.agent, actor)
    effective_policy(ContextPolicy, actor.agent, actor).validated(**question.options)
    with time_limit(question.memory_ends_at):
        turn, is_new = _store_question(actor, question, by, now, now + PREPARATION)
    if not is_new:
        turn = _wait_for(turn)
        if turn.state == TurnState.ANSWERED:
            return PreparedTurn(turn, None)
        now = datetime.now(UTC)
        turn = _take_over(turn, now + PREPARATION)
    try:
        with time_limit(question.memory_ends_at):
            request = _request(turn, question, policy, by, now)
    except Exception:
        close_turn(turn, TurnState.FAILED, now, error="no_context")
        raise
    rows = ChatTurn.objects.filter(pk=turn.pk, actor_id=turn.actor_id, attempt=turn.attempt)
    if not rows.filter(state=TurnState.ANSWERING).update(
        until=datetime.now(UTC) + LEASE,
        context_metadata=turn.context_metadata,
        receipt=turn.receipt,
        routing=turn.routing,
    ):
        raise TurnSuperseded("The question was asked again meanwhile; that answer counts.")
    return PreparedTurn(turn, request, may_outlive=question.memory_ends_at is not None)


@transaction.atomic
def _store_question(
    actor: Actor, question: Question, by: Principal, now: datetime, until: datetime
) -> tuple[ChatTurn, bool]:
    key = None if question.key is None else key_digest(by.pk, question.key)
    lock_actor(actor.id)
    if key is not None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"chat:{actor.id}:{key}"])
        if known := _turn_with_key(actor, key, question, by, now):
            return known, False
    if question.is_retry and (known := _retried_turn(actor, question, now)):
        return known, False
    session, _is_new = open_session(
        actor=actor, session_id=question.session_id, channel=question.channel,
        within_actor=question.talk is not None, by=by, now=now,
    )  # fmt: skip
    if question.tool_results and question.client_message_id is None:
        _check_calls(session, question.tool_results)
    new = question.talk or NewMessage(
        role=Role.TOOL if question.tool_results else Role.USER,
        author=question.author,
        content=question.message,
        blocks=question.tool_results or question.blocks,
    )
    new = replace(new, client_message_id=question.client_message_id)
    stored = add_messages(session=session, batch=[*question.before, new], channel=question.channel, by=by, now=now)
    if question.shown is not None:
        show_branch(session=session, shown=question.shown, last_seq=question.last_seq, new=stored.messages, now=now)
    asked = stored.messages[-1]
    turn = ChatTurn.objects.create(
        actor=actor,
        session=session,
        question=asked,
        key=key,
        body_digest=question.digest,
        state=TurnState.ANSWERING,
        until=until,
        created_at=now,
    )
    # The model reads what was sent, also a secret that is not stored.
    asked.content, asked.blocks = new.content, list(new.blocks) if new.blocks else None
    return turn, True


def _check_calls(session: Session, results: Sequence[Block]) -> None:
    """Raise NoSuchCall unless the results answer calls of the last message that was spoken."""
    spoken = Message.objects.of([session.actor_id]).filter(session_id=session.pk).spoken()
    last = spoken.order_by("-seq").first()
    calls = {call["id"] for call in calls_in(last.blocks if last and last.role == Role.ASSISTANT else ())}
    if unknown := [str(result["tool_use_id"]) for result in results if result["tool_use_id"] not in calls]:
        raise NoSuchCall(f"The last answer of this session calls no tool under the id {unknown[0]}.")


def _turn_with_key(actor: Actor, key: str, question: Question, by: Principal, now: datetime) -> ChatTurn | None:
    """Return the turn with a key, of any actor. Raises KeyReused where it is of another question or actor."""
    turns = visible_to(ChatTurn.objects.filter(key=key), by)
    expired = turns.filter(created_at__lt=now - KEY_LIFETIME)
    ChatTurn.objects.filter(
        pk__in=[turn.pk for turn in expired.exclude(state=TurnState.ANSWERING, until__gt=now)]
    ).update(key=None)
    turn = turns.select_related("actor__agent", "session", "question", "answer").first()
    if turn is not None and (turn.actor_id != actor.id or turn.body_digest != question.digest):
        raise KeyReused("This Idempotency-Key was used with another body.")
    return turn


def _retried_turn(actor: Actor, question: Question, now: datetime) -> ChatTurn | None:
    """Return the turn of the same body that is running or was just answered; the answer did not reach the client."""
    turns = ChatTurn.objects.filter(actor=actor, body_digest=question.digest, created_at__gt=now - RETRIED_WITHIN)
    known = turns.exclude(state=TurnState.FAILED).select_related("actor__agent", "session", "question", "answer")
    return known.order_by("-created_at", "-id").first()


def _wait_for(turn: ChatTurn) -> ChatTurn:
    while turn.state == TurnState.ANSWERING and datetime.now(UTC) < turn.until:
        with release_connection():
            time.sleep(POLL_SECONDS)
        turns = ChatTurn.objects.select_related("actor__agent", "session", "question", "answer")
        turn = turns.get(pk=turn.pk, actor_id=turn.actor_id)
    return turn


def _take_over(turn: ChatTurn, until: datetime) -> ChatTurn:
    """Take over a turn that failed or was broken off; of several concurrent calls one succeeds."""
    rows = ChatTurn.objects.filter(pk=turn.pk, actor_id=turn.actor_id, attempt=turn.attempt)
    if not rows.exclude(state=TurnState.ANSWERED).update(
        state=TurnState.ANSWERING, attempt=turn.attempt + 1, until=until, error="", finished_at=None
    ):
        raise StillAnswering("The first call with this key still runs.")
    turn.state, turn.attempt, turn.until, turn.error = TurnState.ANSWERING, turn.attempt + 1, until, ""
    return turn


def _request(turn: ChatTurn, question: Question, policy: ChatPolicy, by: Principal, now: datetime) -> CompletionRequest:
    agent = turn.actor.agent
    system: str | Sequence[Mapping[str, Any]] = with_instructions(agent.system_prompt, question.instructions)
    turns: Sequence[Mapping[str, Any]] = [{"role": "user", "content": question.message}]
    provider_format = llm_provider().form
    remembers = question.with_memory and policy.chat_memory
    if remembers or question.blocks or question.tool_results or question.history or question.after:
        (message, stored), shown = asked_of(turn, question), shown_messages(turn, question)
        context = assemble_context(
            tenant=Tenant(agent.agent_id, turn.actor.user_id, agent, turn.actor),
            request=ContextRequest(
                message=message.content, attachments=references_in(message.blocks),
                parts=parts_in(message.blocks) if question.talk else (), author=message.author,
                shown=shown, stored_message=stored,
                results=turn.question if question.tool_results else None, session=turn.session,
                project=question.project, perspective=question.perspective, format=provider_format,
                discloses_project=True, has_tools=bool(question.tools or shown), remembers=remembers,
                instructions=question.instructions, options=policy.context_options(question.options),
            ),
            by=by, now=now,
        )  # fmt: skip
        system, turns = context.assembly.prompt_and_turns
        turn.context_metadata, turn.receipt = context.metadata, context.receipt
        turn.routing = context.routing.as_json() if context.routing else None
    return CompletionRequest(
        operation=Operation.CHAT,
        messages=tuple(map(ChatMessage.of, turns)),
        max_output_tokens=min(policy.chat_max_output_tokens, question.max_output_tokens or sys.maxsize),
        deadline_seconds=policy.chat_deadline_seconds,
        system=system,
        tools=question.tools,
        constraints=question.constraints,
        key_id=by.key_id,
    )


def key_digest(principal: str, key: str) -> str:
    return hashlib.sha256(f"{principal}|{key}".encode("utf-8", "surrogatepass")).hexdigest()
