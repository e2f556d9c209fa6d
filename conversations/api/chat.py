"""Chat over REST, as one answer or as server-sent events."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any
from uuid import UUID

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.actions.answers import ChatFailed
from conversations.actions.chat import KeyReused, PreparedTurn, chat, key_is_used, prepare_turn, stream_answer
from conversations.actions.questions import Question
from conversations.actions.unstored_chat import answer_unstored, prepare_unstored, said_in, stream_unstored
from conversations.api.blocks import MAX_BLOCKS, ToolIn, ToolResultIn, text_and_blocks
from conversations.api.serializers import (
    MAX_TOOLS,
    PROJECT_HELP_TEXT,
    AskedField,
    ChannelField,
    ContextMetadataOut,
    OptionsIn,
    RoutingOut,
)
from conversations.api.views import wrong_options
from conversations.domain.content import calls_in
from conversations.domain.messages import NewMessage, Role
from conversations.domain.routing import UNNAMED
from conversations.models import ChatTurn, Session
from memoryhub.api.errors import llm_problem, problem_for
from memoryhub.api.events import MEDIA_TYPE, answer_events, event, event_response
from memoryhub.api.fields import IdField, ItemsField, TenantSerializer, TextField
from memoryhub.api.idempotency import check_key
from memoryhub.api.problems import Problem, problem
from memoryhub.api.views import ApiView, operation
from memoryhub.auth.principals import Scope
from memoryhub.db.pool import Stream
from memoryhub.jobs.executor import error_text
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.types import Delta, Tool
from memoryhub.llm.usage.caps import TokenQuota
from memoryhub.llm.usage.spending import TokenCapReached, check_key_cap, check_user_cap
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import PolicyError


class EventStreamRenderer(JSONRenderer):
    """Accepts clients that want events; errors before the first event are answered as JSON."""

    media_type = MEDIA_TYPE
    format = "events"


log = logging.getLogger(__name__)


class ChatIn(TenantSerializer):
    """A message that a model is to answer."""

    session_id = IdField(required=False, allow_null=True, default=None)
    channel = ChannelField(default="api")
    project = TextField(required=False, allow_null=True, max_length=255, default=UNNAMED, help_text=PROJECT_HELP_TEXT)
    perspective = TextField(required=False, allow_null=True, max_length=100, default=None)
    message = AskedField(required=False)
    author = TextField(required=False, allow_blank=True, max_length=255, default="")
    tools = ItemsField(child=ToolIn(), required=False, max_length=MAX_TOOLS, default=list)
    tool_results = ItemsField(
        child=ToolResultIn(),
        required=False,
        max_length=MAX_BLOCKS,
        default=list,
        help_text="In place of a message: what the tools returned that the last answer called.",
    )
    stream = serializers.BooleanField(default=False)
    memory = serializers.BooleanField(default=True)
    store = serializers.BooleanField(
        default=True, help_text="False: answered with what is remembered, and nothing is stored."
    )
    options = OptionsIn(required=False, default=dict)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        names = [tool["name"] for tool in attrs["tools"]]
        if len(names) > len(set(names)):
            raise ValidationError({"tools": ["Two tools have the same name."]})
        if "message" not in attrs and not attrs["tool_results"]:
            raise ValidationError({"message": ["This field is required."]})
        if "message" in attrs and attrs["tool_results"]:
            raise ValidationError({"message": ["Send a message, or the results of tools."]})
        if attrs["tool_results"] and (attrs["session_id"] is None or not attrs["tools"]):
            raise ValidationError({"tool_results": ["Send the session and the tools as well."]})
        if attrs["tool_results"] and not attrs["store"]:
            raise ValidationError({"store": ["Results of tools belong to a stored call."]})
        return attrs


class UsageOut(serializers.Serializer):
    """Tokens counted by the provider."""

    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()


class CalledOut(serializers.Serializer):
    """A call of a tool; the client sends its result as one of `tool_results`."""

    id = serializers.CharField()
    name = serializers.CharField()
    input = serializers.DictField()


class ChatOut(serializers.Serializer):
    """An answer, whole and stored."""

    status = serializers.CharField(help_text="`ok`, `tool_use` where the model waits for results, or `truncated`.")
    model = serializers.CharField()
    text = serializers.CharField()
    tool_calls = CalledOut(many=True)
    session_id = serializers.UUIDField(allow_null=True, help_text="null, as the ids below, where nothing is stored.")
    message_id = serializers.UUIDField(allow_null=True, help_text="The user's message.")
    answer_id = serializers.UUIDField(allow_null=True, help_text="The stored answer.")
    context_metadata = ContextMetadataOut(allow_null=True, help_text="null where memory is off.")
    routing = RoutingOut(allow_null=True, help_text="null if it was not requested.")
    receipt_id = serializers.UUIDField(allow_null=True)
    usage = UsageOut()


def turn_as_json(turn: ChatTurn) -> dict[str, Any]:
    is_cut = turn.answer is not None and "truncated" in turn.answer.metadata
    calls = calls_in(turn.answer.blocks if turn.answer else ())
    return {
        "status": "truncated" if is_cut else "tool_use" if calls else "ok",
        "model": turn.model,
        "text": turn.answer.content if turn.answer else "",
        "tool_calls": [{"id": call["id"], "name": call["name"], "input": call["input"]} for call in calls],
        "session_id": turn.public_session_id,
        "message_id": turn.question_id,
        "answer_id": turn.answer_id,
        "context_metadata": turn.context_metadata,
        "routing": turn.routing,
        "receipt_id": turn.receipt_id,
        "usage": turn.usage,
    }


def _failed(error: ChatFailed) -> APIException:
    # The user's message stays stored.
    turn, wait = error.turn, error.error.retry_after_seconds
    ids = {"session_id": str(turn.public_session_id), "message_id": str(turn.question_id)}
    return llm_problem(error.error, wait_seconds=None if wait is None else int(wait), **ids)


def _unavailable(error: ProviderError) -> APIException:
    wait = error.retry_after_seconds
    return llm_problem(error, wait_seconds=None if wait is None else int(wait))


def _cap_reached(error: TokenCapReached) -> APIException:
    return Problem(429, error.code, str(error), wait_seconds=error.quota.seconds)


class ChatView(ApiView):
    """Base of views that answer questions; subclasses say how an answer is written."""

    renderer_classes = [JSONRenderer, EventStreamRenderer]
    idempotent_by_itself = True
    problems = {
        ChatFailed: _failed, ProviderError: _unavailable, PolicyError: wrong_options, TokenCapReached: _cap_reached,
    }  # fmt: skip

    def keyed(self, serializer: type[serializers.Serializer], data: Any = None) -> tuple[str | None, dict[str, Any]]:
        """Return the idempotency key and the validated body (or `data`). Raises Problem, KeyReused, ValidationError."""
        key = self.request.headers.get("Idempotency-Key")
        if key is not None:
            check_key(key)
        try:
            return key, self.validated(serializer, data)
        except ValidationError:
            if key is not None and key_is_used(key=key, by=self.principal):
                raise KeyReused("This Idempotency-Key was used with another body.") from None
            raise

    def check_cap(self) -> None:
        """Raise KeyCapReached where the key has used up its day."""
        by = self.principal
        self._note_quota(partial(check_key_cap, by.key_id, by.daily_token_cap, agent_id=by.only_agent_id, now=self.now))

    def check_user_cap(self, actor: Actor) -> None:
        """Raise UserCapReached where the user has used up the day."""
        self._note_quota(partial(check_user_cap, actor, now=self.now))

    def _note_quota(self, check: Callable[[], TokenQuota | None]) -> None:
        """Note for the answer's headers what a check returns, or raises."""
        try:
            quota = check()
        except TokenCapReached as error:
            self.token_quotas.append(error.quota)
            raise
        if quota is not None:
            self.token_quotas.append(quota)

    def answer(self, question: Question, actor: Actor, *, stream: bool) -> HttpResponseBase:
        context: dict[str, Any] = {"actor": actor, "by": self.principal, "now": self.now}
        if stream:
            return self._streamed(prepare_turn(question=question, **context))
        prepared = chat(question=question, **context)
        headers = {**_replay_header(prepared), **self.headers_of(prepared.turn)}
        return Response(self.response_body(prepared.turn), headers=headers)

    def headers_of(self, turn: ChatTurn) -> dict[str, str]:
        return {}

    def response_body(self, turn: ChatTurn) -> dict[str, Any]:
        """Return an answered turn as JSON."""
        return turn_as_json(turn)

    def events(self, turn: ChatTurn, stream: Stream[Delta | ChatTurn] | None) -> AsyncIterator[bytes]:
        """Yield the events of a turn; without a stream it is answered already."""
        return _events(turn, stream)

    def _streamed(self, prepared: PreparedTurn) -> HttpResponseBase:
        headers = {**_replay_header(prepared), **self.headers_of(prepared.turn)}
        # Started here, so that the answer is stored even if the client disconnects before the first event.
        stream = None if prepared.request is None else stream_answer(prepared=prepared, by=self.principal)
        return self.streamed(prepared.turn, stream, **headers)

    def streamed(self, turn: ChatTurn, stream: Stream[Delta | ChatTurn] | None, **headers: str) -> HttpResponseBase:
        return event_response(self.events(turn, stream), **headers)


class Chat(ChatView):
    @operation(
        "chat",
        Scope.WRITE,
        request=ChatIn,
        responses={
            200: ChatOut,
            (200, MEDIA_TYPE): OpenApiResponse(
                str, description="With `stream`: the events `session`, `delta`, `done` and `error`."
            ),
        },
    )
    def post(self, request: Request) -> HttpResponseBase:
        """Store the message, ask the model, store its answer; with `stream` as server-sent events."""
        self.check_cap()
        key, values = self.keyed(ChatIn)
        text, blocks = text_and_blocks(values.get("message", ""))
        question = Question(
            message=text,
            blocks=tuple(blocks) if blocks else None,
            tool_results=tuple(values["tool_results"]),
            tools=tuple(Tool(tool["name"], tool["input_schema"], tool["description"]) for tool in values["tools"]),
            author=values["author"],
            session_id=values["session_id"],
            channel=values["channel"],
            project=values["project"],
            perspective=values["perspective"],
            with_memory=values["memory"],
            options=values["options"],
            key=key,
        )
        actor = self.writing(values)
        self.check_user_cap(actor)
        if values["store"]:
            return self.answer(question, actor, stream=values["stream"])
        said = [
            *self._said(actor, values["session_id"]),
            NewMessage(role=Role.USER, content=text, blocks=blocks, author=values["author"]),
        ]
        prepared = prepare_unstored(actor=actor, question=question, said=said, by=self.principal, now=self.now)
        if values["stream"]:
            return self.streamed(prepared.turn, stream_unstored(prepared))
        return Response(self.response_body(answer_unstored(prepared)))

    def _said(self, actor: Actor, session_id: UUID | None) -> list[NewMessage]:
        """Return the latest messages of a session, which may be None. Raises NotFound."""
        if session_id is None:
            return []
        return said_in(self.owned(Session.objects.filter(actor_id=actor.pk), session_id), by=self.principal)


def _replay_header(prepared: PreparedTurn) -> dict[str, str]:
    return {"Idempotent-Replay": "true"} if prepared.request is None else {}


async def _events(turn: ChatTurn, stream: Stream[Delta | ChatTurn] | None) -> AsyncIterator[bytes]:
    """Yield a chat's events; the last is `done` or `error`. A replayed answer comes in one piece."""
    yield event("session", {"session_id": turn.public_session_id, "message_id": turn.question_id})
    if stream is None:
        yield event("delta", {"text": turn_as_json(turn)["text"]})
        yield event("done", turn_as_json(turn))
        return
    try:
        async for piece in answer_events(stream, last=ChatTurn):
            yield piece if isinstance(piece, bytes) else event("done", turn_as_json(piece))
    except Exception as error:
        yield event("error", problem_of(error, ChatView.problems))


def problem_of(error: Exception, problems: Mapping[type[Exception], Callable[[Any], APIException]]) -> dict[str, Any]:
    """Return the problem document that the plain call would have answered."""
    translate = next((function for kind, function in problems.items() if isinstance(error, kind)), problem_for)
    translated = translate(error)
    if translated is None:
        log.error("chat failed", extra={"error": error_text(error)})
        return problem(status_code=500, code="error", detail="Something went wrong on the server; it has been logged.")
    return problem(
        status_code=translated.status_code,
        code=str(translated.get_codes()),
        detail=str(translated.detail),
        **getattr(translated, "members", {}),
    )
