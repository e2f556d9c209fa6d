"""OpenAI's chat completions over the chat bridge, for programs that know nothing of memoryhub (ADR 51).

A thin edge: what OpenAI's form says is brought to the bridge's question, and its answer back to OpenAI's form. It is
described by OpenAI's own reference, and left out of our schema: our clients would offer a second way to chat.
"""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.api.chat import turn_as_json
from conversations.api.compatible.calls import ClientCall, ClientCallView, agents_of, pieces_of
from conversations.api.compatible.openai_in import CompletionIn
from conversations.models import ChatTurn
from memoryhub.api.events import KEEP_ALIVE
from memoryhub.api.views import ApiView, operation
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Scope
from memoryhub.db.pool import Stream
from memoryhub.llm.types import Delta
from memoryhub.tenancy.models import Agent

ERROR_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
FINISH_REASONS: Final = {"ok": "stop", "tool_use": "tool_calls", "truncated": "length"}


def with_error(problem: dict[str, Any]) -> dict[str, Any]:
    """Return a problem document with OpenAI's `error` as one more member."""
    status = problem["status"]
    kind = ERROR_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    param = problem["errors"][0]["field"] if problem["errors"] else None
    error = {"message": problem["detail"], "type": kind, "param": param, "code": problem["code"]}
    return {**problem, "error": error}


class OpenAIView(ApiView):
    """Base: errors are problems as everywhere, in OpenAI's form as well."""

    def handle_exception(self, exc: Exception) -> Response:
        response = super().handle_exception(exc)
        response.data = with_error(response.data)
        return response


class Models(OpenAIView):
    @operation("openai_models", Scope.READ, exclude=True)
    def get(self, request: Request) -> Response:
        """List the agents that the key may touch, as models."""
        return Response({"object": "list", "data": list(map(_model, agents_of(self)))})


class OneModel(OpenAIView):
    @operation("openai_model", Scope.READ, exclude=True)
    def get(self, request: Request, model: str) -> Response:
        """Return an agent as a model."""
        agent = Agent.objects.among(self.principal.agent_ids).filter(agent_id=model).first()
        if agent is None:
            raise UnknownRow("There is no such model; GET models lists them.")
        return Response(_model(agent))


def _model(agent: Agent) -> dict[str, Any]:
    created = int(agent.created_at.timestamp())
    return {"id": agent.agent_id, "created": created, "object": "model", "owned_by": "memoryhub"}


def call_of(values: Mapping[str, Any], *, body: str) -> ClientCall:
    """Return a validated `CompletionIn` as a call."""
    return ClientCall(
        model=values["model"],
        messages=values["messages"],
        instructions=values["instructions"],
        tools=values["tools"],
        constraints=values["constraints"],
        max_output_tokens=values["max_completion_tokens"] or values["max_tokens"],
        user=values["user"],
        session=(values["metadata"] or {}).get("session_id"),
        stream=bool(values["stream"]),
        body=body,
    )


class Completions(ClientCallView):
    channel = "openai"

    @operation("openai_chat_completions", Scope.WRITE, exclude=True)
    def post(self, request: Request) -> HttpResponseBase:
        """Answer the last message of a conversation that the client keeps; store what is new of it."""
        key, values = self.keyed(CompletionIn)
        self.includes_usage = bool((values["stream_options"] or {}).get("include_usage"))
        return self.answer_call(call_of(values, body=json.dumps(request.data, sort_keys=True)), key)

    def error_body(self, problem: dict[str, Any]) -> dict[str, Any]:
        return with_error(problem)

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
            async for piece in pieces_of(turn, stream):
                if isinstance(piece, ChatTurn):
                    turn = piece
                else:
                    yield KEEP_ALIVE if piece is None else self._chunk(turn, {"content": piece.text})
        except Exception as error:
            yield _data({"error": self.problem_of(error)["error"]})
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
