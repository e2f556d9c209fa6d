"""Answer messages that are not to be remembered: a program's own tasks, temporary conversations, and calls that only
read memory (ADR 51).

Nothing is stored but the ledger entry.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, cast

from conversations.actions.answers import TurnSuperseded, unstored
from conversations.actions.context import AssembledContext, ContextRequest, assemble_context
from conversations.actions.questions import Question, options_within_window, request_of
from conversations.domain.content import Language, blocks_of, parts_in, references_in
from conversations.domain.formats import FORMATS
from conversations.domain.messages import NewMessage, Role, ShownMessage
from conversations.domain.policy import ChatPolicy
from conversations.domain.prompt import Prompt, Turn
from conversations.models import ChatTurn, Message, Session
from memoryhub.auth.access import Tenant
from memoryhub.auth.principals import Principal
from memoryhub.db.pool import Stream, run_in_background
from memoryhub.llm.answers import TruncatedAnswer
from memoryhub.llm.client import complete, llm_provider, stream
from memoryhub.llm.types import ChatMessage, CompletionRequest, Delta
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import Trust

MAX_SHOWN: Final = 100
"""Latest messages of a session that the model reads where nothing is stored."""


@dataclass(frozen=True)
class UnstoredTurn:
    """An unsaved turn, the request for the model, and its context, a dry run; None where nothing is remembered.

    With `records_later` nothing waits for the database.
    """

    turn: ChatTurn
    request: CompletionRequest = field(repr=False)
    context: AssembledContext | None = field(repr=False)
    records_later: bool


def said_in(session: Session, *, by: Principal) -> list[NewMessage]:
    """Return the latest messages of a session, oldest first; to a trusted caller the trusted ones."""
    rows = Message.objects.of([session.actor_id]).filter(session_id=session.pk).spoken().order_by("-seq")
    if by.is_trusted:
        rows = rows.filter(trust=Trust.TRUSTED)
    latest = list(rows[:MAX_SHOWN])[::-1]
    return [
        NewMessage(role=Role(row.role), content=row.content, blocks=row.blocks, author=row.author) for row in latest
    ]


def prepare_unstored(
    *, actor: Actor, question: Question, said: Sequence[NewMessage], by: Principal, now: datetime
) -> UnstoredTurn:
    """Return the request for an answer to the last message. Raises ContextTooLarge."""
    turn = ChatTurn(actor=actor, created_at=now)
    request = request_of(question, effective_policy(ChatPolicy, actor.agent, actor), by)
    context = None
    if question.with_memory and any(each.role == Role.USER for each in said):
        context = _context(turn, said, question, request, by, now)
        turn.context_metadata = context.metadata
    system, messages = context.assembly.prompt_and_turns if context else _alone(turn, said, question)
    request = replace(request, messages=tuple(map(ChatMessage.of, messages)), system=system)
    # Without memory, as while the database is away, nothing waits for it.
    return UnstoredTurn(turn, request, context, records_later=not question.with_memory)


def answer_unstored(prepared: UnstoredTurn) -> ChatTurn:
    """Return the turn with its answer. Raises ProviderError."""
    turn = prepared.turn
    try:
        return unstored(turn, complete(prepared.request, actor=turn.actor, records_later=prepared.records_later))
    except TruncatedAnswer as error:
        return unstored(turn, error.partial, truncated=True)


def stream_unstored(prepared: UnstoredTurn) -> Stream[Delta | ChatTurn]:
    """Start answering, and return the stream, which ends with the turn. The stream may raise ProviderError."""
    pieces = Stream[Delta | ChatTurn]()
    run_in_background(_answer(prepared.turn, prepared.request, pieces))
    return pieces


async def _answer(turn: ChatTurn, request: CompletionRequest, pieces: Stream[Delta | ChatTurn]) -> None:
    try:
        async for piece in stream(request, actor=turn.actor):
            pieces.put(piece if isinstance(piece, Delta) else unstored(turn, piece))
    except TruncatedAnswer as error:
        pieces.put(unstored(turn, error.partial, truncated=True))
    except Exception as error:  # the reader of the stream must get any error instead of waiting for ever
        pieces.put(error)
    except BaseException:
        pieces.put(TurnSuperseded("The server was stopped."))
        raise


def _context(
    turn: ChatTurn,
    said: Sequence[NewMessage],
    question: Question,
    empty: CompletionRequest,
    by: Principal,
    now: datetime,
) -> AssembledContext:
    """Assemble the context of the messages, as a dry run."""
    agent = turn.actor.agent
    place = max(place for place, each in enumerate(said) if each.role == Role.USER)
    asked, shown = said[place], [ShownMessage(each, is_current=n > place) for n, each in enumerate(said) if n != place]
    request = ContextRequest(
        message=asked.content, attachments=references_in(asked.blocks), parts=parts_in(asked.blocks),
        author=asked.author, shown=tuple(shown),
        project=question.project, perspective=question.perspective,
        format=llm_provider().form, instructions=question.instructions,
        options=options_within_window(turn.actor, question, empty),
    )  # fmt: skip
    tenant = Tenant(agent.agent_id, turn.actor.user_id, agent, turn.actor)
    return assemble_context(tenant=tenant, request=request, by=by, now=now, dry_run=True)


Written = tuple[Any, Sequence[Mapping[str, Any]]]


def _alone(turn: ChatTurn, said: Sequence[NewMessage], question: Question) -> Written:
    turns = [
        Turn(
            Role.USER if message.role == Role.TOOL else message.role,
            tuple(message.blocks or blocks_of(message.content)),
        )
        for message in said
    ]
    prompt = Prompt(question.instructions, tuple(turn for turn in turns if turn.blocks))
    _system, formatted = FORMATS[llm_provider().form](prompt, cast("Language", turn.actor.agent.language))
    return question.instructions, [message for message in formatted if message["role"] != Role.SYSTEM]
