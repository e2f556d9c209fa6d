"""OpenAI's Responses over the chat bridge: its items are brought to messages of chat completions (ADR 51).

`previous_response_id` continues from what is stored of that answer's conversation.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final
from uuid import UUID

from django.http.response import HttpResponseBase
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

from conversations.api.chat import turn_as_json
from conversations.api.compatible.calls import ClientCallView, pieces_of
from conversations.api.compatible.openai import call_of, with_error
from conversations.api.compatible.openai_in import CompletionIn
from conversations.api.compatible.responses_in import OWN_MEMBERS, ClientTools, completion_body, is_codex_task, mapping
from conversations.domain.messages import NewMessage, Role
from conversations.models import ChatTurn, Message
from memoryhub.api.events import KEEP_ALIVE
from memoryhub.api.views import operation
from memoryhub.auth.access import visible_to
from memoryhub.auth.principals import Scope
from memoryhub.db.pool import Stream
from memoryhub.llm.types import Delta

PREFIX: Final = "resp_"
MESSAGE_PREFIX: Final = "msg_"
CALL_PREFIX: Final = "fc_"
MAX_NAMED: Final = 10
"""Types of tools that a header names."""

MAX_CONTINUED: Final = 500
"""Latest messages of a conversation that an answer continues."""


class Responses(ClientCallView):
    channel = "openai"

    @operation("openai_responses", Scope.WRITE, exclude=True)
    def post(self, request: Request) -> HttpResponseBase:
        """Answer the last item of an input; store what is new of it."""
        data = mapping(request.data)
        self.model, self.user = str(data.get("model")), data.get("user")
        if isinstance(items := data.get("input"), list):
            data = {**data, "input": [self._item(each) for each in items]}
        self.tools = ClientTools()
        key, values = self.keyed(CompletionIn, completion_body(data, self.tools))
        call = replace(call_of(values, body=json.dumps(request.data, sort_keys=True)), is_task=is_codex_task(data))
        self.previous = data.get("previous_response_id")
        conversation = data.get("conversation")
        name = mapping(conversation).get("id") or (conversation if isinstance(conversation, str) else None)
        if isinstance(thread := mapping(data.get("client_metadata")).get("thread_id"), str):  # Codex's
            name = name or thread
        if self.previous is not None:
            name, before = self._continued(self.previous)
            call = replace(call, messages=[*before, *call.messages])
        return self.answer_call(replace(call, session=name or call.session), key)

    def _item(self, item: Any) -> Any:
        """Return an item, in place of a reference the part of the stored answer that it means."""
        if mapping(item).get("type") != "item_reference":
            return item
        name = str(item.get("id"))
        if name.startswith(MESSAGE_PREFIX):
            turn = self._answered(name.removeprefix(MESSAGE_PREFIX), field="input")
            return {"role": Role.ASSISTANT.value, "content": turn_as_json(turn)["text"]}
        key, _, _number = name.removeprefix(CALL_PREFIX).partition("_")
        turn = self._answered(key, field="input")
        calls = {call["id"]: call for call in _call_items(turn, ClientTools())}
        if name not in calls:
            raise _unknown("input")
        return calls[name]

    def _answered(self, turn_id: str, *, field: str) -> ChatTurn:
        """Return a stored turn of the call's agent and user. Raises ValidationError."""
        turns = visible_to(ChatTurn.objects.select_related("session", "answer"), self.principal)
        turns = turns.filter(actor__agent__agent_id=self.model)
        if user := self._user(self.user):
            turns = turns.filter(actor__user_id=user)
        try:
            turn = turns.filter(pk=UUID(turn_id)).exclude(answer=None).first()
        except ValueError:
            turn = None
        if turn is None:
            raise _unknown(field)
        return turn

    def _continued(self, response_id: Any) -> tuple[str, list[NewMessage]]:
        """Return the session of an answer, and what was said up to it. Raises ValidationError."""
        turn = self._answered(str(response_id).removeprefix(PREFIX), field="previous_response_id")
        assert turn.answer is not None
        rows = Message.objects.of([turn.actor_id]).filter(session_id=turn.session_id, seq__lte=turn.answer.seq)
        own = rows.filter(pk__in=[turn.question_id, turn.answer_id]) | rows.current()
        said = list(own.order_by("-seq")[:MAX_CONTINUED])[::-1]
        return str(turn.public_session_id), [
            NewMessage(role=Role(row.role), content=row.content, blocks=row.blocks, author=row.author) for row in said
        ]

    def error_body(self, problem: dict[str, Any]) -> dict[str, Any]:
        body = with_error(problem)
        param = str(body["error"]["param"] or "")
        if param.startswith("messages"):
            body["error"]["param"] = "input" + param.removeprefix("messages")
        return body

    def response_body(self, turn: ChatTurn) -> dict[str, Any]:
        turn_json = turn_as_json(turn)
        output = [self._message(turn, turn_json["text"])] if turn_json["text"] else []
        return self._response(turn, turn_json, [*output, *_call_items(turn, self.tools)])

    def headers_of(self, turn: ChatTurn) -> dict[str, str]:
        headers = super().headers_of(turn)
        if self.tools.left_out:
            headers["X-Memoryhub-Left-Out-Tools"] = ", ".join(sorted(self.tools.left_out)[:MAX_NAMED])
        return headers

    def _message(self, turn: ChatTurn, text: str, status: str = "completed") -> dict[str, Any]:
        content = [] if status == "in_progress" else [_text_part(text)]
        named = {"type": "message", "id": f"{MESSAGE_PREFIX}{turn.pk}", "role": "assistant"}
        return {**named, "status": status, "content": content}

    def _response(
        self, turn: ChatTurn, turn_json: Mapping[str, Any] | None, output: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Return the frame of an answer; without its turn as JSON it is in progress."""
        is_cut = turn_json is not None and turn_json["status"] == "truncated"
        return {
            "id": f"{PREFIX}{turn.pk}",
            "object": "response",
            "created_at": int(turn.created_at.timestamp()),
            "status": "in_progress" if turn_json is None else "incomplete" if is_cut else "completed",
            "model": self.model,
            "output": output,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": True,
            "previous_response_id": self.previous,
            "tool_choice": "auto",
            "tools": [],
            "usage": None if turn_json is None else _usage(turn_json["usage"]),
        }

    async def events(self, turn: ChatTurn, stream: Stream[Delta | ChatTurn] | None) -> AsyncIterator[bytes]:
        event = _writer()
        for kind in ("response.created", "response.in_progress"):
            yield event(kind, response=self._response(turn, None, []))
        has_text = False
        place = {"item_id": f"{MESSAGE_PREFIX}{turn.pk}", "output_index": 0, "content_index": 0}
        try:
            async for piece in pieces_of(turn, stream):
                if piece is None:
                    yield KEEP_ALIVE
                elif isinstance(piece, ChatTurn):
                    turn = piece
                elif piece.text:
                    if not has_text:
                        item = self._message(turn, "", "in_progress")
                        yield event("response.output_item.added", output_index=0, item=item)
                        yield event("response.content_part.added", **place, part=_text_part(""))
                        has_text = True
                    yield event("response.output_text.delta", **place, delta=piece.text, logprobs=[])
        except Exception as error:
            failed = {**self._response(turn, None, []), "status": "failed", "error": self.problem_of(error)["error"]}
            yield event("response.failed", response=failed)
            return
        body = self.response_body(turn)
        if has_text:
            text = turn_as_json(turn)["text"]
            yield event("response.output_text.done", **place, text=text, logprobs=[])
            yield event("response.content_part.done", **place, part=_text_part(text))
            yield event("response.output_item.done", output_index=0, item=self._message(turn, text))
        for written in _call_events(event, body["output"]):
            yield written
        yield event(f"response.{body['status']}", response=body)


def _writer() -> Callable[..., bytes]:
    """Return a function that writes one event after another, numbered."""
    numbers = count()

    def event(kind: str, **values: Any) -> bytes:
        data = json.dumps({"type": kind, "sequence_number": next(numbers), **values}, ensure_ascii=False)
        return f"event: {kind}\ndata: {data}\n\n".encode("utf-8", "replace")

    return event


def _call_events(event: Callable[..., bytes], output: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield the events of the calls among the items of an answer, each in one piece."""
    for number, item in enumerate(output):
        if member := OWN_MEMBERS.get(item["type"]):
            kind = f"response.{item['type']}_{member}"
            at, given = {"output_index": number, "item_id": item["id"]}, item[member]
            started = {**item, member: "", "status": "in_progress"}
            yield event("response.output_item.added", output_index=number, item=started)
            yield event(f"{kind}.delta", **at, delta=given)
            yield event(f"{kind}.done", **at, **{member: given}, name=item["name"])
            yield event("response.output_item.done", output_index=number, item=item)


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _call_items(turn: ChatTurn, tools: ClientTools) -> list[dict[str, Any]]:
    calls = enumerate(turn_as_json(turn)["tool_calls"])
    return [tools.call_item(call, f"{CALL_PREFIX}{turn.pk}_{number}") for number, call in calls]


def _unknown(field: str) -> ValidationError:
    return ValidationError({field: ["There is no such answer, or it was not stored."]})


def _usage(usage: Mapping[str, int]) -> dict[str, Any]:
    read, written = usage["input_tokens"], usage["output_tokens"]
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + written,
    }
