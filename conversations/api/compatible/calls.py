"""Answer a conversation that the client shows in a vendor's form: the rules that all forms share (SPEC B5, B6, B7)."""

import logging
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeVar

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http.response import HttpResponseBase
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.actions.answers import ChatFailed
from conversations.actions.client_history import Store, place_question
from conversations.actions.context import with_instructions
from conversations.actions.questions import Question
from conversations.actions.unstored_chat import answer_unstored, prepare_unstored, stream_unstored
from conversations.api.chat import ChatView, problem_of, turn_as_json
from conversations.domain.client_talk import ClientTalk, is_task, talk_of
from conversations.domain.messages import NewMessage, Role
from conversations.domain.policy import ChatPolicy
from conversations.models import ChatTurn
from memoryhub.api.errors import llm_problem
from memoryhub.api.events import with_keep_alive
from memoryhub.api.fields import UserIdField
from memoryhub.api.problems import Problem, unavailable
from memoryhub.api.views import ApiView
from memoryhub.auth.authentication import RECENT_KEYS, sent_key
from memoryhub.db.limits import DatabaseAway, OutOfTime, time_limit
from memoryhub.db.pool import Stream
from memoryhub.llm.errors import ProviderError, ProviderRejected
from memoryhub.llm.types import Constraints, Delta, Tool
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import actor_id

log = logging.getLogger(__name__)

USER_HEADERS: Final = ("X-User-Id", "X-OpenWebUI-User-Id")
SESSION_HEADERS: Final = ("X-Session-Id", "X-Conversation-Id", "X-OpenWebUI-Chat-Id")
TASK_HEADER: Final = "X-Memoryhub-Task"
"""Names requests by the program itself, such as a title; empty for a person's messages."""

STORE_HEADER: Final = "X-Memoryhub-Store"
MODE_HEADER: Final = "X-Memoryhub-Mode"
CREATE_HEADER: Final = "X-Memoryhub-Create-Agent"
DEGRADED_HEADER: Final = "X-Memoryhub-Degraded"
RETRY_HEADER: Final = "X-Stainless-Retry-Count"
"""Sent by the SDKs of OpenAI and Anthropic; 0 with the first attempt."""

TEMPORARY: Final = "temporary:"
"""The beginning of the name of a conversation that is not to be kept, as Open WebUI names them."""

MAX_MODELS: Final = 1_000
MAX_NAMED: Final = 20
"""Agents that an error names."""


class Mode(StrEnum):
    """Select what a call does with memory: read and store, read alone, or neither."""

    FULL = "full"
    READ = "read"
    OFF = "off"


Choice = TypeVar("Choice", Mode, Store)


@dataclass(frozen=True, kw_only=True)
class ClientCall:
    """A vendor's request in neutral form; `messages` are without the system's, which are the `instructions`."""

    model: str
    messages: Sequence[NewMessage] = field(repr=False)
    instructions: str = field(default="", repr=False)
    tools: tuple[Tool, ...] = ()
    constraints: Constraints = field(default_factory=Constraints)
    max_output_tokens: int | None = None
    user: str | None = None
    session: str | None = None
    is_task: bool = False
    """Whether the client says that it is its own call, such as a title."""
    stream: bool = False
    body: str = field(default="", repr=False)


def failed(error: ProviderError, **members: Any) -> APIException:
    """Return a vendor's own refusals under their status, with its reason; the others as everywhere."""
    wait = None if error.retry_after_seconds is None else int(error.retry_after_seconds)
    if isinstance(error, ProviderRejected) and error.reason:
        return Problem(400, "refused_by_vendor", error.reason, reason=error.code, retryable=False, **members)
    if error.code == "rate_limited":
        return Problem(429, "rate_limited_by_vendor", str(error), wait_seconds=wait, **members)
    return llm_problem(error, wait_seconds=wait, **members)


def _reason(error: Exception) -> str:
    return "memory_slow" if isinstance(error, OutOfTime) else "database_unavailable"


def _turn_failed(error: ChatFailed) -> APIException:
    turn = error.turn
    return failed(error.error, session_id=str(turn.public_session_id), message_id=str(turn.question_id))


class ClientCallView(ChatView):
    """Base of views that take a vendor's request: subclasses read it, and write answers and errors in its form."""

    problems = {**ChatView.problems, ChatFailed: _turn_failed, ProviderError: failed}
    channel: ClassVar[str]
    user_field: ClassVar[str] = "user"
    """Where the vendor's form names the user, for errors."""
    takes_any_query = True

    def error_body(self, problem: dict[str, Any]) -> dict[str, Any]:
        """Return a problem document with the vendor's form of an error in it."""
        raise NotImplementedError

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Admit a key that was used lately while the database is away: its call goes on to the vendor untouched."""
        self.memory_ends_at = time.monotonic() + settings.ENVIRONMENT.memory_ms / 1000
        self.degraded = ""
        try:
            with time_limit(self.memory_ends_at):
                super().initial(request, *args, **kwargs)
        except (DatabaseAway, OutOfTime) as error:
            key = RECENT_KEYS.get(sent_key(request) or "")
            if key is None:
                raise unavailable("database_unavailable", "The database is away.") from error
            self.degraded = _reason(error)
            request.user = key.principal()  # type: ignore[assignment]
            self.check_permissions(request)
            self.check_throttles(request)

    def handle_exception(self, exc: Exception) -> Response:
        response = super().handle_exception(exc)
        response.data = self.error_body(response.data)
        # The provider layer has retried already; how long to wait for a busy vendor is the client's decision.
        if isinstance(exc, ChatFailed | ProviderError) and response.status_code != 429:
            response["x-should-retry"] = "false"
        return response

    def problem_of(self, error: Exception) -> dict[str, Any]:
        """Return an error in a stream, which has begun with status 200."""
        return self.error_body(problem_of(error, self.problems))

    def answer_call(self, call: ClientCall, key: str | None) -> HttpResponseBase:
        """Answer the last message of a conversation that the client keeps; store what is new of it.

        Where memory takes longer than `MEMORYHUB_MEMORY_MS`, or the database is away, the model gets what the client
        shows, and the header says so. In a known or named conversation both are stored with the next question, which
        shows them; the first question of another one is not.
        """
        self.model = call.model
        if not self.degraded:
            try:
                return self._answer_with_memory(call, key)
            except (DatabaseAway, OutOfTime, OperationalError, InterfaceError) as error:
                self.degraded = _reason(error)
        self.principal.check_agent(call.model)
        log.warning("answered without memory", extra={"reason": self.degraded})
        agent = Agent(agent_id=call.model)
        actor = Actor(id=actor_id(call.model, ""), agent=agent)
        question = replace(self._question(call, None, key), with_memory=False)
        response = self._answer_unstored(question, actor, call)
        response.headers[DEGRADED_HEADER] = self.degraded
        return response

    def _answer_with_memory(self, call: ClientCall, key: str | None) -> HttpResponseBase:
        with time_limit(self.memory_ends_at):
            self.check_cap()
            question, actor, is_stored = self._placed(call, key)
        if not is_stored:
            return self._answer_unstored(question, actor, call)
        return self.answer(question, actor, stream=call.stream)

    def _placed(self, call: ClientCall, key: str | None) -> tuple[Question, Actor, bool]:
        """Return a call as a question with its actor, and whether it is to be stored."""
        self.check_model(creates=True)
        actor = self.writing({"agent_id": call.model, "user_id": self._user(call.user)})
        self.check_user_cap(actor)
        policy = effective_policy(ChatPolicy, actor.agent, actor)
        talk = talk_of(call.messages, policy.unstored)
        question = self._question(call, talk, key)
        name, mode = self._session(call.session), self._choice(MODE_HEADER, Mode, Mode.FULL)
        store = self._choice(STORE_HEADER, Store, Store.NEW)
        is_named_task = call.is_task or self._header((TASK_HEADER,)) is not None
        if is_named_task or (talk and is_task(talk.asked, policy.task_openings)):
            return replace(question, with_memory=False), actor, False
        if (name or "").startswith(TEMPORARY) or mode == Mode.OFF or talk is None:
            instructions = with_instructions(actor.agent.system_prompt, question.instructions)
            return replace(question, instructions=instructions, with_memory=False), actor, False
        if mode == Mode.READ or store == Store.NONE:
            return question, actor, False
        question = place_question(
            actor=actor, question=question, talk=talk, name=name, store=store, now=self.now,
            sends_whole_history=TASK_HEADER in self.request.headers,
        )  # fmt: skip
        return question, actor, True

    def _question(self, call: ClientCall, talk: ClientTalk | None, key: str | None) -> Question:
        asked = talk.asked if talk else NewMessage(role=Role.USER, content="")
        is_result = asked.role == Role.TOOL
        retries = self.request.headers.get(RETRY_HEADER, "0")
        return Question(
            message=asked.content,
            blocks=None if is_result or asked.blocks is None else tuple(asked.blocks),
            tool_results=tuple(asked.blocks or ()) if is_result else (),
            tools=call.tools, author=asked.author, channel=self.channel, instructions=call.instructions,
            max_output_tokens=call.max_output_tokens, constraints=call.constraints, keeps_truncated=True,
            key=key, body=call.body, memory_ends_at=self.memory_ends_at,
            is_retry=retries.isdecimal() and bool(retries.strip("0")),
        )  # fmt: skip

    def _answer_unstored(self, question: Question, actor: Actor, call: ClientCall) -> HttpResponseBase:
        prepared = prepare_unstored(actor=actor, question=question, said=call.messages, by=self.principal, now=self.now)
        if call.stream:
            return self.streamed(prepared.turn, stream_unstored(prepared))
        return Response(self.response_body(answer_unstored(prepared)))

    def check_model(self, *, creates: bool) -> None:
        """Raise Problem where the agent does not exist, unless the call `creates` it where the client wants that."""
        agents = Agent.objects.among(self.principal.agent_ids).order_by("agent_id")
        if agents.filter(agent_id=self.model).exists() or (creates and self._header((CREATE_HEADER,))):
            return
        known = ", ".join(agents.values_list("agent_id", flat=True)[:MAX_NAMED]) or "none yet"
        how = f" To create it, send {CREATE_HEADER}: yes." if self.principal.agent_ids is None else ""
        raise Problem(404, "model_not_found", f"There is no agent {self.model}. Known to this key: {known}.{how}")

    def _choice(self, header: str, choices: type[Choice], default: Choice) -> Choice:
        value = self._header((header,))
        if value is None:
            return default
        if value not in list(choices):
            raise ValidationError({header: [f"must be one of {', '.join(choices)}."]})
        return choices(value)

    def _header(self, names: tuple[str, ...]) -> str | None:
        return next(filter(None, (self.request.headers.get(name, "").strip() for name in names)), None)

    def _user(self, named: str | None) -> str | None:
        """Return the user id; None where the key or the agent determines it. Raises ValidationError."""
        user = named or self._header(USER_HEADERS)
        if user is not None:
            try:
                return str(UserIdField().run_validation(user))
            except ValidationError as error:
                raise ValidationError({self.user_field: error.detail}) from None
        own = Agent.objects.filter(agent_id=self.model).exclude(fixed_user_id="")
        if self.principal.user_id is None and not own.exists():
            names = " or ".join(f"`{name}`" for name in USER_HEADERS)
            about = f"Say whose memory it is: send `{self.user_field}`, or the header {names}."
            raise ValidationError({self.user_field: [about]})
        return None

    def _session(self, named: object) -> str | None:
        named = named or self._header(SESSION_HEADERS)
        return None if named is None else str(named)

    def headers_of(self, turn: ChatTurn) -> dict[str, str]:
        headers = {"X-Memoryhub-Session-Id": str(turn.public_session_id)}
        if turn.receipt_id:
            headers["X-Memoryhub-Receipt-Id"] = str(turn.receipt_id)
        if trimmed := (turn.context_metadata or {}).get("trimmed_messages"):
            headers["X-Memoryhub-Trimmed-Messages"] = str(trimmed)
        return headers


def agents_of(view: ApiView) -> list[Agent]:
    return list(Agent.objects.among(view.principal.agent_ids).order_by("agent_id")[:MAX_MODELS])


async def pieces_of(turn: ChatTurn, stream: Stream[Delta | ChatTurn] | None) -> AsyncIterator[Delta | ChatTurn | None]:
    """Yield an answer's pieces and its turn, None for a while without one; a stored answer comes in one piece."""
    if stream is not None:
        async for piece in with_keep_alive(stream, last=ChatTurn):
            yield piece
        return
    yield Delta(turn_as_json(turn)["text"])
    yield turn
