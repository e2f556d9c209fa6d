"""Answer messages that are not to be remembered: a program's own tasks, temporary conversations, and calls that only
read memory (ADR 51).

Nothing is stored but the ledger entry.
"""

import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from conversations.actions.answers import TurnSuperseded, unstored
from conversations.actions.context import ContextRequest, assemble_context
from conversations.actions.questions import Question
from conversations.domain.content import Language, blocks_of, parts_in, references_in
from conversations.domain.formats import FORMATS
from conversations.domain.messages import NewMessage, Role, ShownMessage
from conversations.domain.policy import ChatPolicy
from conversations.domain.prompt import Prompt, Turn
from conversations.models import ChatTurn
from memoryhub.auth.access import Tenant
from memoryhub.auth.principals import Principal
from memoryhub.db.pool import Stream, run_in_background
from memoryhub.llm.answers import TruncatedAnswer
from memoryhub.llm.client import complete, llm_provider, stream
from memoryhub.llm.types import ChatMessage, CompletionRequest, Delta, Operation
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy


def answer_unstored(
    *, actor: Actor, question: Question, said: Sequence[NewMessage], by: Principal, now: datetime
) -> ChatTurn:
    """Return the answer to the last message as an unsaved turn. Raises ProviderError, ContextTooLarge."""
    turn = ChatTurn(actor=actor, created_at=now)
    try:
        # Without memory, as while the database is away, nothing waits for it.
        request = _request(turn, question, said, by, now)
        return unstored(turn, complete(request, actor=actor, records_later=not question.with_memory))
    except TruncatedAnswer as error:
        return unstored(turn, error.partial, truncated=True)


def stream_unstored(
    *, actor: Actor, question: Question, said: Sequence[NewMessage], by: Principal, now: datetime
) -> tuple[ChatTurn, Stream[Delta | ChatTurn]]:
    """Start answering the last message; return an unsaved turn and its stream, which ends with that turn.

    The stream may raise ProviderError. Raises ContextTooLarge.
    """
    turn, pieces = ChatTurn(actor=actor, created_at=now), Stream[Delta | ChatTurn]()
    run_in_background(_answer(turn, _request(turn, question, said, by, now), pieces))
    return turn, pieces


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


def _request(
    turn: ChatTurn, question: Question, said: Sequence[NewMessage], by: Principal, now: datetime
) -> CompletionRequest:
    policy = effective_policy(ChatPolicy, turn.actor.agent, turn.actor)
    remembers = question.with_memory and any(each.role == Role.USER for each in said)
    options = policy.context_options(question.options)
    system, messages = (
        _remembered(turn, said, question, options, by, now) if remembers else _alone(turn, said, question)
    )
    return CompletionRequest(
        operation=Operation.CHAT,
        messages=tuple(map(ChatMessage.of, messages)),
        max_output_tokens=min(policy.chat_max_output_tokens, question.max_output_tokens or sys.maxsize),
        deadline_seconds=policy.chat_deadline_seconds,
        system=system,
        tools=question.tools,
        constraints=question.constraints,
        key_id=by.key_id,
    )


Written = tuple[Any, Sequence[Mapping[str, Any]]]


def _remembered(
    turn: ChatTurn,
    said: Sequence[NewMessage],
    question: Question,
    options: Mapping[str, Any],
    by: Principal,
    now: datetime,
) -> Written:
    """Return the messages with their context, as system prompt and turns; the context is a dry run."""
    agent = turn.actor.agent
    place = max(place for place, each in enumerate(said) if each.role == Role.USER)
    asked, shown = said[place], [ShownMessage(each, is_current=n > place) for n, each in enumerate(said) if n != place]
    request = ContextRequest(
        message=asked.content, attachments=references_in(asked.blocks), parts=parts_in(asked.blocks),
        author=asked.author, shown=tuple(shown),
        project=question.project, perspective=question.perspective,
        format=llm_provider().form, instructions=question.instructions,
        options=options,
    )  # fmt: skip
    tenant = Tenant(agent.agent_id, turn.actor.user_id, agent, turn.actor)
    context = assemble_context(tenant=tenant, request=request, by=by, now=now, dry_run=True)
    turn.context_metadata = context.metadata
    return context.assembly.prompt_and_turns


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
