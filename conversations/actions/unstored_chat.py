"""Answer messages that are nobody's to remember: a program's own tasks, and temporary conversations (ADR 51).

The model gets the messages alone. Nothing is read from memory, and nothing stored but the ledger entry.
"""

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import cast

from conversations.actions.chat import TurnSuperseded
from conversations.actions.questions import Question
from conversations.domain.content import Language, blocks_of
from conversations.domain.formats import FORMATS
from conversations.domain.messages import NewMessage, Role
from conversations.domain.policy import ChatPolicy
from conversations.domain.prompt import Prompt, Turn
from conversations.models import ChatTurn, Message
from memoryhub.db.pool import Stream, run_in_background
from memoryhub.llm.answers import TruncatedAnswer
from memoryhub.llm.client import complete, llm_provider, stream
from memoryhub.llm.types import ChatMessage, Completion, CompletionRequest, Delta, Operation
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy


def answer_unstored(*, actor: Actor, question: Question, said: Sequence[NewMessage], now: datetime) -> ChatTurn:
    """Return the answer to the last message as an unsaved turn. Raises ProviderError."""
    turn = ChatTurn(actor=actor, created_at=now)
    try:
        return _filled(turn, complete(_request(actor, question, said), actor=actor))
    except TruncatedAnswer as error:
        return _filled(turn, error.partial, truncated=True)


def stream_unstored(
    *, actor: Actor, question: Question, said: Sequence[NewMessage], now: datetime
) -> tuple[ChatTurn, Stream[Delta | ChatTurn]]:
    """Start answering the last message; return an unsaved turn and its stream, which ends with that turn.

    The stream may raise ProviderError.
    """
    turn, pieces = ChatTurn(actor=actor, created_at=now), Stream[Delta | ChatTurn]()
    run_in_background(_answer(turn, _request(actor, question, said), pieces))
    return turn, pieces


async def _answer(turn: ChatTurn, request: CompletionRequest, pieces: Stream[Delta | ChatTurn]) -> None:
    try:
        async for piece in stream(request, actor=turn.actor):
            pieces.put(piece if isinstance(piece, Delta) else _filled(turn, piece))
    except TruncatedAnswer as error:
        pieces.put(_filled(turn, error.partial, truncated=True))
    except Exception as error:  # the reader of the stream must get any error instead of waiting for ever
        pieces.put(error)
    except BaseException:
        pieces.put(TurnSuperseded("The server was stopped."))
        raise


def _request(actor: Actor, question: Question, said: Sequence[NewMessage]) -> CompletionRequest:
    policy = effective_policy(ChatPolicy, actor.agent, actor)
    turns = [
        Turn(
            Role.USER if message.role == Role.TOOL else message.role,
            tuple(message.blocks or blocks_of(message.content)),
        )
        for message in said
    ]
    prompt = Prompt(question.instructions, tuple(turn for turn in turns if turn.blocks))
    _system, formatted = FORMATS[llm_provider().form](prompt, cast("Language", actor.agent.language))
    return CompletionRequest(
        operation=Operation.CHAT,
        messages=tuple(ChatMessage.of(message) for message in formatted if message["role"] != Role.SYSTEM),
        max_output_tokens=min(policy.chat_max_output_tokens, question.max_output_tokens or sys.maxsize),
        deadline_seconds=policy.chat_deadline_seconds,
        system=question.instructions,
        tools=question.tools,
        constraints=question.constraints,
    )


def _filled(turn: ChatTurn, completion: Completion, *, truncated: bool = False) -> ChatTurn:
    metadata = {"truncated": True} if truncated else {}
    turn.answer = Message(id=None, content=completion.text, blocks=completion.blocks or None, metadata=metadata)
    turn.model = completion.model[:255]
    turn.usage = {"input_tokens": completion.input_tokens, "output_tokens": completion.output_tokens}
    return turn
