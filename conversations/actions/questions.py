"""Questions to the chat, and the conversation that a client shows with one."""

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db.models import Q

from conversations.domain.content import Block
from conversations.domain.messages import NewMessage, Role, ShownMessage
from conversations.domain.policy import MIN_TOKENS_LIMIT, ChatPolicy, ContextPolicy
from conversations.domain.routing import UNNAMED
from conversations.models import ChatTurn, Message
from memoryhub.auth.principals import Principal
from memoryhub.errors import DomainError
from memoryhub.llm.client import prompt_room
from memoryhub.llm.types import CompletionRequest, Constraints, Operation, Tool
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy


class NoSuchCall(DomainError):
    """A result answers no call of the assistant's last message."""

    field = "tool_results"


def body_digest(*parts: object) -> str:
    """Return a digest of a question; a repeat under the same idempotency key must have the same."""
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Question:
    """A message to answer, or results of the tools that the last answer called.

    `blocks` are the message's, where it has images. `options` are context policy values for this call alone; `key` is
    the idempotency key.

    For programs that keep the conversation themselves (ADR 51): `history` is the conversation before the message as
    they show it, which the model reads, each with the id of the stored message, if known; `after` are answers behind
    the message, which the model continues; `talk` is what of the message is stored; `before` is what they show and the
    session does not have yet, stored with the question; `shown` are the `seq` of what it shows of the session,
    None where that is not known, and `last_seq` the session's last then; `instructions` are those of a ContextRequest.
    A repeated `client_message_id` is the same question asked again, and with `is_retry` the same body is the same call.
    `body` is what a repeat under the key must equal,
    in place of these fields. Until `memory_ends_at` (by `time.monotonic`) the question must be stored and its context
    assembled; None: there is time. With `keeps_truncated` an answer that was cut at its greatest length is stored,
    as a streamed one is.
    """

    message: str = field(default="", repr=False)
    blocks: tuple[Block, ...] | None = field(default=None, repr=False)
    tool_results: tuple[Block, ...] = field(default=(), repr=False)
    tools: tuple[Tool, ...] = ()
    author: str = field(default="", repr=False)
    session_id: UUID | None = None
    channel: str = "api"
    project: str | None = UNNAMED
    perspective: str | None = None
    with_memory: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None
    history: tuple[tuple[NewMessage, UUID | None], ...] = field(default=(), repr=False)
    after: tuple[NewMessage, ...] = field(default=(), repr=False)
    talk: NewMessage | None = field(default=None, repr=False)
    before: tuple[NewMessage, ...] = field(default=(), repr=False)
    shown: frozenset[int] | None = None
    last_seq: int = 0
    instructions: str = field(default="", repr=False)
    client_message_id: str | None = None
    is_retry: bool = False
    max_output_tokens: int | None = None
    keeps_truncated: bool = False
    constraints: Constraints = field(default_factory=Constraints)
    body: str = field(default="", repr=False)
    memory_ends_at: float | None = None

    @property
    def digest(self) -> str:
        if self.body:
            return body_digest(self.body)
        return body_digest(
            self.message,
            self.session_id,
            self.channel,
            self.project,
            self.perspective,
            self.with_memory,
            sorted(self.options.items()),
            *(value for value in (self.author, self.blocks, self.tool_results, self.tools) if value),
        )


def request_of(question: Question, policy: ChatPolicy, by: Principal) -> CompletionRequest:
    """Return the request for a question's answer, without its texts."""
    return CompletionRequest(
        operation=Operation.CHAT,
        messages=(),
        max_output_tokens=min(policy.chat_max_output_tokens, question.max_output_tokens or sys.maxsize),
        deadline_seconds=policy.chat_deadline_seconds,
        tools=question.tools,
        constraints=question.constraints,
        key_id=by.key_id,
    )


def options_within_window(actor: Actor, question: Question, request: CompletionRequest) -> Mapping[str, Any]:
    """Return the options of a question's context: as the policy has them, within the model's window. Network."""
    options = effective_policy(ChatPolicy, actor.agent, actor).context_options(question.options)
    room, policy = prompt_room(request), effective_policy(ContextPolicy, actor.agent, actor).validated(**options)
    if room is None or policy.token_limit <= room:
        return options
    return {**options, "max_tokens": max(MIN_TOKENS_LIMIT, int(room / policy.token_safety_margin))}


def asked_of(turn: ChatTurn, question: Question) -> tuple[NewMessage, Message | None]:
    """Return the user's message that a turn answers, as the client shows it, and as it is stored, if it is.

    For results of tools it is the last one before them.
    """
    if turn.question.role == Role.USER:
        message = NewMessage(role=Role.USER, content=question.message, blocks=question.blocks, author=question.author)
        return message, turn.question
    if (place := _last_question(question)) >= 0:
        shown, key = question.history[place]
        stored = Message.objects.of([turn.actor_id]).filter(session_id=turn.session_id)
        same = Q(pk=key) if key else Q(client_message_id=shown.client_message_id)
        return shown, stored.filter(same).first()
    rows = Message.objects.of([turn.actor_id]).filter(session_id=turn.session_id, seq__lt=turn.question.seq)
    row = rows.spoken().filter(role=Role.USER).exclude(content="").order_by("-seq").first()
    if row is None:
        raise NoSuchCall("Nobody has asked anything in this session.")
    return NewMessage(role=Role.USER, content=row.content, blocks=row.blocks, author=row.author), row


def shown_messages(turn: ChatTurn, question: Question) -> tuple[ShownMessage, ...] | None:
    """Return the conversation as the client shows it, without the user's message; None where it shows none."""
    if not question.history and not question.after:
        return None
    ids = [message.client_message_id for message, key in question.history if key is None and message.client_message_id]
    rows = Message.objects.of([turn.actor_id]).filter(session_id=turn.session_id, client_message_id__in=ids)
    keys = dict(rows.values_list("client_message_id", "pk")) if ids else {}
    shown, used = [], set[UUID]()
    for message, known in question.history:
        key = known or keys.get(message.client_message_id)
        # Conversations that are alike may lead to one stored message twice; the client shows two all the same.
        shown.append(ShownMessage(message, str(key) if key and key not in used else None))
        used |= {key} if key else set()
    current = [ShownMessage(message) for message in question.after]
    if question.tool_results:
        place = _last_question(question)
        results = NewMessage(role=Role.TOOL, content="", blocks=question.tool_results)
        current = [*shown[place + 1 :], ShownMessage(results, str(turn.question_id)), *current]
        shown = shown[: max(0, place)]
    return (*shown, *(replace(each, is_current=True) for each in current))


def _last_question(question: Question) -> int:
    """Return the place of the user's last message in a history; -1 where there is none."""
    places = [place for place, (each, _key) in enumerate(question.history) if each.role == Role.USER]
    return places[-1] if places else -1
