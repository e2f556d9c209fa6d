"""Anthropic's Messages over the chat bridge, so that `ANTHROPIC_BASE_URL` may lead here (ADR 51)."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.api.chat import turn_as_json
from conversations.api.compatible.anthropic_in import CountIn, MessagesIn
from conversations.api.compatible.calls import ClientCall, ClientCallView, agents_of, pieces_of
from conversations.domain.content import THINKING, is_text
from conversations.domain.formats import THINKING_FIELDS, count_context
from conversations.models import ChatTurn
from memoryhub.api.events import KEEP_ALIVE
from memoryhub.api.views import operation
from memoryhub.auth.principals import Scope
from memoryhub.db.pool import Stream
from memoryhub.llm.client import counter_in_use
from memoryhub.llm.types import Delta

ERROR_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}
STOP_REASONS: Final = {"ok": "end_turn", "tool_use": "tool_use", "truncated": "max_tokens"}


class AnthropicView(ClientCallView):
    """Base: errors are problems as everywhere, with the members of Anthropic's errors."""

    channel = "anthropic"
    user_field = "metadata.user_id"

    def error_body(self, problem: dict[str, Any]) -> dict[str, Any]:
        status = problem["status"]
        kind = ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {**problem, "type": "error", "error": {"type": kind, "message": problem["detail"]}}


class Models(AnthropicView):
    @operation("anthropic_models", Scope.READ, exclude=True)
    def get(self, request: Request) -> Response:
        """List the agents that the key may touch, as models."""
        data = [
            {"type": "model", "id": each.agent_id, "display_name": each.agent_id, "created_at": each.created_at}
            for each in agents_of(self)
        ]
        ends = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
        return Response({"data": data, "has_more": False, **ends})


class CountTokens(AnthropicView):
    idempotent_by_itself = False

    @operation("anthropic_count_tokens", Scope.READ, exclude=True)
    def post(self, request: Request) -> Response:
        """Return the tokens of what the client shows, as counted here; memory is not counted."""
        values = self.validated(CountIn)
        self.model = values["model"]
        self.check_model(creates=False)
        written = [{"role": each.role, "content": each.content} for each in values["messages"]]
        blocks = [block for each in values["messages"] for block in each.blocks or () if not is_text(block)]
        more = [
            values["instructions"],
            *(json.dumps(each, ensure_ascii=False) for each in [*blocks, *values["raw_tools"]]),
        ]
        counter = counter_in_use()
        tokens = count_context(None, written, counter.count) + sum(map(counter.count, filter(None, more)))
        return Response({"input_tokens": tokens})


class Messages(AnthropicView):
    @operation("anthropic_messages", Scope.WRITE, exclude=True)
    def post(self, request: Request) -> HttpResponseBase:
        """Answer the last message of a conversation that the client keeps; store what is new of it."""
        key, values = self.keyed(MessagesIn)
        call = ClientCall(
            model=values["model"],
            messages=values["messages"],
            instructions=values["instructions"],
            tools=values["tools"],
            constraints=values["constraints"],
            max_output_tokens=values["max_tokens"],
            user=values["user"],
            session=values["session"],
            stream=bool(values["stream"]),
            body=json.dumps(request.data, sort_keys=True),
        )
        return self.answer_call(call, key)

    def response_body(self, turn: ChatTurn) -> dict[str, Any]:
        turn_json = turn_as_json(turn)
        return {
            **self._frame(turn),
            "content": _content(turn, turn_json),
            "stop_reason": STOP_REASONS[turn_json["status"]],
            "usage": turn_json["usage"],
        }

    def _frame(self, turn: ChatTurn) -> dict[str, Any]:
        frame = {"id": f"msg_{turn.pk}", "type": "message", "role": "assistant", "model": self.model}
        empty: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None}
        return {**frame, **empty, "usage": {"input_tokens": 0, "output_tokens": 0}}

    async def events(self, turn: ChatTurn, stream: Stream[Delta | ChatTurn] | None) -> AsyncIterator[bytes]:
        yield _event("message_start", message=self._frame(turn))
        has_text = False
        try:
            async for piece in pieces_of(turn, stream):
                if piece is None:
                    yield KEEP_ALIVE
                elif isinstance(piece, ChatTurn):
                    turn = piece
                elif piece.text:
                    if not has_text:
                        yield _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
                        has_text = True
                    yield _event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece.text})
        except Exception as error:
            yield _event("error", error=self.problem_of(error)["error"])
            return
        if has_text:
            yield _event("content_block_stop", index=0)
        turn_json = turn_as_json(turn)
        for number, call in enumerate(turn_json["tool_calls"], int(has_text)):
            block = {"type": "tool_use", "id": call["id"], "name": call["name"], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call["input"], ensure_ascii=False)}
            yield _event("content_block_start", index=number, content_block=block)
            yield _event("content_block_delta", index=number, delta=delta)
            yield _event("content_block_stop", index=number)
        ended = {"stop_reason": STOP_REASONS[turn_json["status"]], "stop_sequence": None}
        yield _event("message_delta", delta=ended, usage=turn_json["usage"])
        yield _event("message_stop")


def _content(turn: ChatTurn, turn_json: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the blocks of an answer; thinking is there where the answer calls tools, which needs it later."""
    blocks: Sequence[Mapping[str, Any]] = (turn.answer.blocks if turn.answer else None) or ()
    thoughts = [
        {name: block.get(name, "") for name in THINKING_FIELDS[block["type"]]}
        for block in blocks
        if block["type"] in THINKING
    ]
    text = [{"type": "text", "text": turn_json["text"]}] if turn_json["text"] else []
    return [*thoughts, *text, *({"type": "tool_use", **call} for call in turn_json["tool_calls"])]


def _event(kind: str, **values: Any) -> bytes:
    data = json.dumps({"type": kind, **values}, ensure_ascii=False, default=str)
    return f"event: {kind}\ndata: {data}\n\n".encode("utf-8", "replace")
