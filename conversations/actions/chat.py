"""The chat bridge: keep the question, assemble its context, ask the model, keep the answer (SPEC B1–B4).

A question is stored before anything can go wrong, an answer only when it is whole. Between the two no transaction is
open and no connection is held.
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import DatabaseError, OperationalError, connection, transaction

from conversations.actions.context import ContextRequest, assemble_context
from conversations.actions.messages import add_messages
from conversations.actions.project_routing import UNNAMED
from conversations.actions.sessions import open_session
from conversations.domain.formats import split_system
from conversations.domain.messages import NewMessage, Role, TurnState
from conversations.domain.policy import ChatPolicy, ContextPolicy
from conversations.models import ChatTurn, Session
from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import Tenant, hold, seen_by
from memoryhub.db_pool import Stream, limit_concurrency, return_connection, run_in_background, run_in_thread
from memoryhub.jobs.registry import Event
from memoryhub.llm.client import complete, llm_provider, stream
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.types import ChatMessage, Completion, CompletionRequest, Delta, Operation
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy

KEY_COUNTS_FOR: Final = timedelta(hours=24)
LOOK_AGAIN_SECONDS: Final = 0.1
STORED_IN: Final = 5
STORE_AGAIN_SECONDS: Final = 1.0
BROKE: Final = "error"
FOLLOWED_BY: Final[tuple[Event, ...]] = ("turn", "answer")


class KeyReused(Exception):
    """The idempotency key stands for another question."""


class StillAnswering(Exception):
    """The first call with this key still runs, and took longer than it may."""


class TurnSuperseded(Exception):
    """Somebody else has asked again meanwhile, or the session is gone; this answer is not stored."""


class ChatFailed(Exception):
    """The model gave no answer; the question is kept. `error` says why, and whether asking again may help."""

    def __init__(self, turn: ChatTurn, error: ProviderError) -> None:
        super().__init__(str(error))
        self.turn = turn
        self.error = error


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a client wants answered. `options` are context policy values for this call alone."""

    message: str = field(repr=False)
    session_id: UUID | None = None
    channel: str = "api"
    project: str | None = UNNAMED
    perspective: str | None = None
    with_memory: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None

    @property
    def digest(self) -> str:
        """What a repeat under the same key must agree in."""
        return body_digest(
            self.message, self.session_id, self.channel, self.project, self.perspective, self.with_memory,
            sorted(self.options.items()),
        )  # fmt: skip


@dataclass(frozen=True)
class PreparedTurn:
    """A stored question, and what goes to the model; nothing goes where it is answered already."""

    turn: ChatTurn
    request: CompletionRequest | None
    is_repeat: bool = False


def chat(*, actor: Actor, question: Question, by: Principal, now: datetime) -> PreparedTurn:
    """Answer a question and return its turn, answered.

    Raises ChatFailed where the model gave none, and what `prepare_turn` raises.
    """
    asked = prepare_turn(actor=actor, question=question, by=by, now=now)
    if asked.request is None:
        return asked
    try:
        completion = complete(asked.request, actor=actor)
        turn = _answered_patiently(asked.turn, completion, by)
    except ProviderError as error:
        raise store_failure(turn=asked.turn, error=error, now=datetime.now(UTC)) from error
    except Exception:
        _close(asked.turn, TurnState.FAILED, datetime.now(UTC), error=BROKE)
        raise
    return replace(asked, turn=turn)


def stream_answer(*, asked: PreparedTurn, by: Principal) -> Stream[Delta | ChatTurn]:
    """Have a posed question answered, and return where its pieces come as they are written, the stored turn last.

    Goes on to its end whether or not anybody listens. What comes instead of the turn may be ChatFailed, TurnLost or
    UnknownRow.
    """
    heard: Stream[Delta | ChatTurn] = Stream()
    run_in_background(_write_down(asked, by, heard))
    return heard


async def _write_down(asked: PreparedTurn, by: Principal, heard: Stream[Delta | ChatTurn]) -> None:
    """Whatever happens, whoever listens hears how it ended."""
    try:
        await _written(asked, by, heard)
    except Exception as error:
        heard.put(error)
        with suppress(DatabaseError):
            await run_in_thread(_close, asked.turn, TurnState.FAILED, datetime.now(UTC), error=BROKE)
    except BaseException:
        heard.put(TurnSuperseded("The server was stopped."))
        raise


async def _written(asked: PreparedTurn, by: Principal, heard: Stream[Delta | ChatTurn]) -> None:
    assert asked.request is not None
    try:
        turn = await run_in_thread(_turn_again, asked.turn)
        async for piece in stream(asked.request, actor=turn.actor):
            if isinstance(piece, Delta):
                heard.put(piece)
            else:
                heard.put(await run_in_thread(_answered_patiently, asked.turn, piece, by))
    except ProviderError as error:
        heard.put(await run_in_thread(store_failure, turn=asked.turn, error=error, now=datetime.now(UTC)))


def _turn_again(turn: ChatTurn) -> ChatTurn:
    return ChatTurn.objects.select_related("actor__agent").get(pk=turn.pk, actor_id=turn.actor_id)


def _answered_patiently(turn: ChatTurn, completion: Completion, by: Principal) -> ChatTurn:
    """Store an answer; it was paid for, so a database that is busy or away is asked a few times."""
    for _ in range(STORED_IN):
        try:
            return store_answer(turn=turn, completion=completion, by=by, now=datetime.now(UTC))
        except OperationalError:
            return_connection()
            time.sleep(STORE_AGAIN_SECONDS)
    return store_answer(turn=turn, completion=completion, by=by, now=datetime.now(UTC))


def key_is_used(*, key: str, by: Principal) -> bool:
    """Say whether a question stands behind this idempotency key already."""
    return seen_by(ChatTurn.objects.filter(key=key_digest(by.pk, key)), by).exists()


def prepare_turn(*, actor: Actor, question: Question, by: Principal, now: datetime) -> PreparedTurn:
    """Store a question, and return it with what the model is to be sent.

    A question that is known by its key is not stored again: where it was answered, its turn is returned as it is,
    where it is being answered, that is waited for, and where it failed, it is asked again. Raises KeyReused,
    StillAnswering, PolicyError for wrong options, ContextTooLarge (the question is kept, and the turn has failed), and
    what `open_session` raises.
    """
    policy = effective_policy(ChatPolicy, actor.agent, actor)
    effective_policy(ContextPolicy, actor.agent, actor).validated(**question.options)
    patience = timedelta(seconds=policy.chat_deadline_seconds + GRACE_SECONDS)
    with limit_concurrency():
        turn, is_ours = _stored(actor, question, by, now, now + patience)
    if not is_ours:
        turn = _awaited(turn)
        if turn.state == TurnState.ANSWERED:
            return PreparedTurn(turn, None, is_repeat=True)
        now = datetime.now(UTC)
        turn = _taken_over(turn, now + patience)
    with limit_concurrency():
        try:
            request = _request(turn, question, policy, by, now)
        except Exception:
            _close(turn, TurnState.FAILED, now, error="no_context")
            raise
        _hold_until(turn, datetime.now(UTC) + patience)
    return PreparedTurn(turn, request, is_repeat=not is_ours)


def _hold_until(turn: ChatTurn, until: datetime) -> None:
    """Say what the model is sent, and that its time begins only now. Raises TurnLost."""
    values = {
        "until": until, "context_metadata": turn.context_metadata, "receipt": turn.receipt, "routing": turn.routing
    }  # fmt: skip
    rows = ChatTurn.objects.filter(pk=turn.pk, actor_id=turn.actor_id, attempt=turn.attempt)
    if not rows.filter(state=TurnState.ANSWERING).update(**values):
        raise TurnSuperseded("The question was asked again meanwhile; that answer counts.")


@transaction.atomic
def _stored(
    actor: Actor, question: Question, by: Principal, now: datetime, until: datetime
) -> tuple[ChatTurn, bool]:
    """Return the question's turn and whether it is new."""
    key = None if question.key is None else key_digest(by.pk, question.key)
    hold(actor.id)
    if key is not None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"chat:{actor.id}:{key}"]
            )
        if known := _known(actor, key, question, by, now):
            return known, False
    session, _is_new = open_session(
        actor=actor, session_id=question.session_id, channel=question.channel, by=by, now=now
    )
    stored = add_messages(
        session=session, batch=[NewMessage(role=Role.USER, content=question.message)], by=by, now=now
    )
    turn = ChatTurn.objects.create(
        actor=actor, session=session, question=stored.messages[0], key=key, body_digest=question.digest,
        state=TurnState.ANSWERING, until=until, created_at=now,
    )  # fmt: skip
    return turn, True


def _known(actor: Actor, key: str, question: Question, by: Principal, now: datetime) -> ChatTurn | None:
    """Return the turn behind a key, whoever's it is: a key that stands for another actor's question is reused."""
    turns = seen_by(ChatTurn.objects.filter(key=key), by)
    old = turns.filter(created_at__lt=now - KEY_COUNTS_FOR)
    ChatTurn.objects.filter(
        pk__in=[turn.pk for turn in old.exclude(state=TurnState.ANSWERING, until__gt=now)]
    ).update(key=None)
    turn = turns.select_related("actor__agent", "session", "question", "answer").first()
    if turn is not None and (turn.actor_id != actor.id or turn.body_digest != question.digest):
        raise KeyReused("This Idempotency-Key was used with another body.")
    return turn


def _awaited(turn: ChatTurn) -> ChatTurn:
    """Return the turn once nobody is answering it any more."""
    patience = time.monotonic() + max(0.0, (turn.until - datetime.now(UTC)).total_seconds())
    while turn.state == TurnState.ANSWERING and time.monotonic() < patience:
        return_connection()
        time.sleep(LOOK_AGAIN_SECONDS)
        turn = ChatTurn.objects.select_related("session", "question", "answer").get(
            pk=turn.pk, actor_id=turn.actor_id
        )
    return turn


def _taken_over(turn: ChatTurn, until: datetime) -> ChatTurn:
    """Ask a question again that failed or was broken off; of several who want to, one does."""
    rows = ChatTurn.objects.filter(pk=turn.pk, actor_id=turn.actor_id, attempt=turn.attempt)
    if not rows.exclude(state=TurnState.ANSWERED).update(
        state=TurnState.ANSWERING, attempt=turn.attempt + 1, until=until, error="", finished_at=None
    ):
        raise StillAnswering("The first call with this key still runs.")
    turn.state, turn.attempt, turn.until, turn.error = TurnState.ANSWERING, turn.attempt + 1, until, ""
    return turn


def _request(
    turn: ChatTurn, question: Question, policy: ChatPolicy, by: Principal, now: datetime
) -> CompletionRequest:
    """Return what the model is sent: the message in its context, or by itself where memory is off."""
    agent = turn.actor.agent
    system: str | Sequence[Mapping[str, Any]] = agent.system_prompt
    turns: Sequence[Mapping[str, Any]] = [{"role": "user", "content": question.message}]
    if question.with_memory and policy.chat_memory:
        form = llm_provider().form
        context = assemble_context(
            tenant=Tenant(agent.agent_id, turn.actor.user_id, agent, turn.actor),
            request=ContextRequest(
                message=question.message, stored_message=turn.question, session=turn.session, project=question.project,
                perspective=question.perspective, format=form, discloses_project=True, options=question.options,
            ),
            by=by, now=now,
        )  # fmt: skip
        split = split_system(form, context.assembly.system, context.assembly.messages)
        system, turns = split.system, split.turns
        turn.context_metadata, turn.receipt = context.metadata, context.receipt
        turn.routing = context.routing.as_json() if context.routing else None
    return CompletionRequest(
        operation=Operation.CHAT,
        messages=tuple(ChatMessage(each["role"], each["content"]) for each in turns),
        max_output_tokens=policy.chat_max_output_tokens,
        deadline_seconds=policy.chat_deadline_seconds,
        system=system,
    )


@transaction.atomic
def store_answer(*, turn: ChatTurn, completion: Completion, by: Principal, now: datetime) -> ChatTurn:
    """Store a whole answer at the end of the session, and what it calls for. Raises TurnLost, UnknownRow."""
    session = Session.objects.select_related("actor__agent").filter(
        actor_id=turn.actor_id, pk=turn.session_id
    )
    stored = add_messages(
        session=session.get(),
        batch=[
            NewMessage(role=Role.ASSISTANT, content=completion.text, metadata={"model": completion.model})
        ],
        by=by,
        now=now,
        followed_by=FOLLOWED_BY,
    )
    usage = {"input_tokens": completion.input_tokens, "output_tokens": completion.output_tokens}
    if not _close(
        turn, TurnState.ANSWERED, now, answer=stored.messages[0], model=completion.model[:255], usage=usage
    ):
        raise TurnSuperseded("The question was asked again meanwhile; that answer counts.")
    return turn


def store_failure(*, turn: ChatTurn, error: ProviderError, now: datetime) -> ChatFailed:
    """Note that a question got no answer, and return that as an error to raise."""
    _close(turn, TurnState.FAILED, now, error=error.code[:64])
    return ChatFailed(turn, error)


def _close(turn: ChatTurn, state: TurnState, now: datetime, **values: Any) -> bool:
    """Say what became of a turn, unless somebody else has it by now."""
    values = {"state": state, "finished_at": now, **values}
    rows = ChatTurn.objects.filter(
        pk=turn.pk, actor_id=turn.actor_id, attempt=turn.attempt, state=TurnState.ANSWERING
    )
    if not rows.update(**values):
        return False
    for name, value in values.items():
        setattr(turn, name, value)
    return True


GRACE_SECONDS: Final = 5.0
"""How much longer than its deadline an answer may take before somebody else may ask again."""


def body_digest(*parts: object) -> str:
    """Return what tells one question from another under the same idempotency key."""
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


def key_digest(asked_by: str, key: str) -> str:
    """Return how an idempotency key of one API key, or person, is kept."""
    return hashlib.sha256(f"{asked_by}|{key}".encode("utf-8", "surrogatepass")).hexdigest()
