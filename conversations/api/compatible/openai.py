"""OpenAI's chat completions over the chat bridge, for programs that know nothing of memoryhub (ADR 51).

A thin edge: what OpenAI's form says is brought to the bridge's question, and its answer back to OpenAI's form. It is
described by OpenAI's own reference, and left out of our schema: our clients would offer a second way to chat.
"""

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, Final

from django.http.response import HttpResponseBase
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.actions.chat import ChatFailed
from conversations.actions.client_history import place_question
from conversations.actions.context import with_instructions
from conversations.actions.questions import Question
from conversations.actions.unstored_chat import answer_unstored, stream_unstored
from conversations.api.chat import KEEP_ALIVE, ChatView, problem_of, turn_as_json, with_keep_alive
from conversations.api.compatible.openai_in import CompletionIn
from conversations.domain.messages import Role
from conversations.models import ChatTurn
from memoryhub.api.errors import llm_problem
from memoryhub.api.fields import UserIdField
from memoryhub.api.views import ApiView, operation
from memoryhub.auth.principals import Scope
from memoryhub.db.pool import Stream
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.types import Delta, Tool
from memoryhub.tenancy.models import Actor, Agent

CHANNEL: Final = "openai"
USER_HEADERS: Final = ("X-User-Id", "X-OpenWebUI-User-Id")
SESSION_HEADERS: Final = ("X-Session-Id", "X-Conversation-Id", "X-OpenWebUI-Chat-Id")
TASK_HEADER: Final = "X-Memoryhub-Task"
"""Names requests by the program itself, such as a title; empty for a person's messages."""

TEMPORARY: Final = "temporary:"
"""The beginning of the name of a conversation that is not to be kept, as Open WebUI names them."""

MAX_MODELS: Final = 1_000

ERROR_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
FINISH_REASONS: Final = {"ok": "stop", "tool_use": "tool_calls", "truncated": "length"}


class OpenAIView(ApiView):
    """Base: errors are problems as everywhere, with OpenAI's `error` as one more member."""

    def handle_exception(self, exc: Exception) -> Response:
        response = super().handle_exception(exc)
        response.data["error"] = error_of(response.data)
        if isinstance(exc, ChatFailed | ProviderError):  # the provider layer has retried already
            response["x-should-retry"] = "false"
        return response


def error_of(problem: Mapping[str, Any]) -> dict[str, Any]:
    status = problem["status"]
    kind = ERROR_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    param = problem["errors"][0]["field"] if problem["errors"] else None
    return {"message": problem["detail"], "type": kind, "param": param, "code": problem["code"]}


class Models(OpenAIView):
    @operation("openai_models", Scope.READ, exclude=True)
    def get(self, request: Request) -> Response:
        """List the agents that the key may touch, as models."""
        agents = Agent.objects.among(self.principal.agent_ids).order_by("agent_id")[:MAX_MODELS]
        rows = ((each.agent_id, int(each.created_at.timestamp())) for each in agents)
        frame = {"object": "model", "owned_by": "memoryhub"}
        models = [{"id": agent_id, "created": created, **frame} for agent_id, created in rows]
        return Response({"object": "list", "data": models})


def _task_failed(error: ProviderError) -> APIException:
    wait = error.retry_after_seconds
    return llm_problem(error, wait_seconds=None if wait is None else int(wait))


class Completions(OpenAIView, ChatView):
    problems = {**ChatView.problems, ProviderError: _task_failed}

    @operation("openai_chat_completions", Scope.WRITE, exclude=True)
    def post(self, request: Request) -> HttpResponseBase:
        """Answer the last message of a conversation that the client keeps; store what is new of it."""
        key, values = self.keyed(CompletionIn)
        self.model, asked = values["model"], values["asked"]
        self.includes_usage = bool((values["stream_options"] or {}).get("include_usage"))
        actor = self.writing({"agent_id": self.model, "user_id": self._user(values)})
        is_result = asked.role == Role.TOOL
        question = Question(
            message=asked.content,
            blocks=None if is_result or asked.blocks is None else tuple(asked.blocks),
            tool_results=tuple(asked.blocks) if is_result else (),
            tools=tuple(
                Tool(each["name"], each["input_schema"], each["description"]) for each in values["tools"] or ()
            ),
            author=asked.author,
            channel=CHANNEL,
            instructions=values["instructions"],
            max_output_tokens=values["max_completion_tokens"] or values["max_tokens"],
            constraints=values["constraints"],
            keeps_truncated=True,
            key=key,
            body=json.dumps(request.data, sort_keys=True),
        )
        name = self._session(values)
        if self._header((TASK_HEADER,)):
            return self._answer_unstored(question, actor, values)
        if (name or "").startswith(TEMPORARY):
            instructions = with_instructions(actor.agent.system_prompt, question.instructions)
            return self._answer_unstored(replace(question, instructions=instructions), actor, values)
        question = place_question(
            actor=actor,
            question=question,
            asked=asked,
            history=values["history"],
            name=name,
            sends_whole_history=TASK_HEADER in self.request.headers,
        )
        return self.answer(question, actor, stream=bool(values["stream"]))

    def _answer_unstored(self, question: Question, actor: Actor, values: dict[str, Any]) -> HttpResponseBase:
        given: Any = {"actor": actor, "question": question, "said": [*values["history"], values["asked"]]}
        if values["stream"]:
            return self.streamed(*stream_unstored(**given, now=self.now))
        return Response(self.response_body(answer_unstored(**given, now=self.now)))

    def _header(self, names: tuple[str, ...]) -> str | None:
        return next(filter(None, (self.request.headers.get(name, "").strip() for name in names)), None)

    def _user(self, values: dict[str, Any]) -> str | None:
        """Return the user id; None where the key or the agent determines it. Raises ValidationError."""
        user = values["user"] or self._header(USER_HEADERS)
        if user is not None:
            return str(UserIdField().run_validation(user))
        own = Agent.objects.filter(agent_id=self.model).exclude(fixed_user_id="")
        if self.principal.user_id is None and not own.exists():
            names = " or ".join(f"`{name}`" for name in USER_HEADERS)
            raise ValidationError({"user": [f"Say whose memory it is: send `user`, or the header {names}."]})
        return None

    def _session(self, values: dict[str, Any]) -> str | None:
        named = (values["metadata"] or {}).get("session_id") or self._header(SESSION_HEADERS)
        return None if named is None else str(named)

    def headers_of(self, turn: ChatTurn) -> dict[str, str]:
        headers = {"X-Memoryhub-Session-Id": str(turn.public_session_id)}
        if turn.receipt_id:
            headers["X-Memoryhub-Receipt-Id"] = str(turn.receipt_id)
        if trimmed := (turn.context_metadata or {}).get("trimmed_messages"):
            headers["X-Memoryhub-Trimmed-Messages"] = str(trimmed)
        return headers

    def response_body(self, turn: ChatTurn) -> dict[str, Any]:
        turn_json = turn_as_json(turn)
        message = {"role": "assistant", "content": turn_json["text"] or None, "refusal": None}
        if calls := _calls(turn_json):
            message["tool_calls"] = calls
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": FINISH_REASONS[turn_json["status"]],
        }
        whole = self._frame(turn, "chat.completion", choices=[choice], usage=_usage(turn_json))
        return {**whole, "memoryhub": _memoryhub_fields(turn_json)}

    def _frame(self, turn: ChatTurn, kind: str, **values: Any) -> dict[str, Any]:
        created = int(turn.created_at.timestamp())
        return {"id": f"chatcmpl-{turn.pk}", "object": kind, "created": created, "model": self.model, **values}

    def _chunk(self, turn: ChatTurn, delta: dict[str, Any], finished: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finished}
        return _data(self._frame(turn, "chat.completion.chunk", choices=[choice], **more))

    async def events(self, turn: ChatTurn, stream: Stream[Delta | ChatTurn] | None) -> AsyncIterator[bytes]:
        yield self._chunk(turn, {"role": "assistant", "content": ""})
        try:
            if stream is None:
                yield self._chunk(turn, {"content": turn_as_json(turn)["text"]})
            else:
                async for piece in with_keep_alive(stream):
                    if isinstance(piece, ChatTurn):
                        turn = piece
                    else:
                        yield KEEP_ALIVE if piece is None else self._chunk(turn, {"content": piece.text})
        except Exception as error:
            yield _data({"error": error_of(problem_of(error))})
            return
        turn_json = turn_as_json(turn)
        if calls := _calls(turn_json):
            yield self._chunk(turn, {"tool_calls": [{"index": n, **each} for n, each in enumerate(calls)]})
        yield self._chunk(turn, {}, FINISH_REASONS[turn_json["status"]], memoryhub=_memoryhub_fields(turn_json))
        if self.includes_usage:
            yield _data(self._frame(turn, "chat.completion.chunk", choices=[], usage=_usage(turn_json)))
        yield b"data: [DONE]\n\n"


def _data(content: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(content, ensure_ascii=False, default=str)}\n\n".encode("utf-8", "replace")


def _calls(turn_json: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "id": call["id"],
            "type": "function",
            "function": {"name": call["name"], "arguments": json.dumps(call["input"], ensure_ascii=False)},
        }
        for call in turn_json["tool_calls"]
    ]


def _usage(turn_json: Mapping[str, Any]) -> dict[str, int]:
    read, written = turn_json["usage"]["input_tokens"], turn_json["usage"]["output_tokens"]
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _memoryhub_fields(turn_json: Mapping[str, Any]) -> dict[str, Any]:
    """Return memoryhub's data about the answer."""
    return {name: turn_json[name] for name in ("session_id", "message_id", "answer_id", "receipt_id", "model")}
