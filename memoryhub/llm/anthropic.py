"""Answers from Anthropic's Messages API, or from any server that speaks it."""

import json
from dataclasses import replace
from types import ModuleType
from typing import Any, ClassVar

import anthropic

from memoryhub.llm.answers import Draft, Event, Stop, parse_object, token_count, value_at, vendor_schema
from memoryhub.llm.errors import BadAnswer, ProviderMisconfigured
from memoryhub.llm.remote import Exchange, RemoteProvider, from_event, run
from memoryhub.llm.types import CompletionRequest, Constraints, Form, Tool

DEFAULT_BASE_URL = "https://api.anthropic.com"

STOPS = {
    "end_turn": Stop.FINISHED,
    "stop_sequence": Stop.FINISHED,
    "max_tokens": Stop.TRUNCATED,
    "model_context_window_exceeded": Stop.TRUNCATED,
    "refusal": Stop.REFUSED,
    "tool_use": Stop.CALLS,
}
EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})
INPUT_PARTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
"""Reported separately, because they are priced separately; a request's size is their sum."""


class AnthropicProvider(RemoteProvider):
    name: ClassVar[str] = "anthropic"
    sdk: ClassVar[ModuleType] = anthropic
    form: ClassVar[Form] = "anthropic"
    requires_final_event: ClassVar[bool] = True

    def count_tokens(self, request: CompletionRequest) -> int | None:
        """Return a request's size as Anthropic counts it; None where the server has no such call."""
        seconds = min(request.deadline_seconds, self._config.attempt_timeout_seconds)
        sent = self._question(request)
        exchange = self._exchange(
            lambda client: client.messages.with_streaming_response.count_tokens(**sent, timeout=seconds)
        )
        try:
            counted = parse_object(run(self._body(exchange, seconds)))
        except ProviderMisconfigured as error:
            if error.code == "not_found":
                return None
            raise
        size = token_count(counted.get("input_tokens"))
        if size is None:
            raise BadAnswer("The provider answered with something that is no count.", code="not_a_count")
        return size

    def unsupported(self, constraints: Constraints) -> tuple[str, ...]:
        """Return what Messages has nothing for: JSON without a schema, and stopping before mere whitespace."""
        form = constraints.response_format
        is_free = form is not None and form["type"] != "json_schema"
        is_blank = not all(map(str.strip, constraints.stop))
        return (*(("response_format",) if is_free else ()), *(("stop",) if is_blank else ()))

    def _client(self) -> anthropic.AsyncAnthropic:
        http = anthropic.DefaultAsyncHttpxClient(verify=self._certificates, follow_redirects=False)
        return anthropic.AsyncAnthropic(
            api_key=self._config.api_key or "none",  # required by the SDK; servers without keys ignore it
            base_url=(self._config.base_url or DEFAULT_BASE_URL).removesuffix("/v1"),  # the SDK adds it
            max_retries=0,
            http_client=http,
        )

    def _open(self, request: CompletionRequest, seconds: float, *, stream: bool) -> Exchange:
        # As `extra_body`, which the SDK does not compare with its types.
        sent = {**self._question(request), "max_tokens": request.max_output_tokens, "stream": stream}
        if request.constraints.stop:
            sent["stop_sequences"] = list(request.constraints.stop)
        return self._exchange(
            lambda client: client.messages.with_streaming_response.create(
                model=sent["model"],
                max_tokens=sent["max_tokens"],
                messages=(),
                stream=stream,
                extra_body=sent,
                timeout=seconds,
            )
        )

    def _models(self, seconds: float) -> Exchange:
        return self._exchange(lambda client: client.models.with_streaming_response.list(limit=1, timeout=seconds))

    def _question(self, request: CompletionRequest) -> dict[str, Any]:
        """Return the parts of a request that are counted: all but the room for the answer."""
        question: dict[str, Any] = {
            "model": self.model_for(request.operation),
            "messages": [each.as_sent() for each in request.messages],
        }
        tools = request.tools or _called_tools(request)
        if tools:
            question["tools"] = [
                {"name": tool.name, "input_schema": dict(tool.parameters)}
                | ({"description": tool.description} if tool.description else {})
                for tool in tools
            ]
        if request.system:
            question["system"] = request.system
        if request.json_schema is not None:
            form = {"type": "json_schema", "schema": vendor_schema(request.json_schema)}
            question["output_config"] = {"format": form}
        constraints = request.constraints if request.tools else replace(request.constraints, tool_choice="none")
        return question | _constraints(constraints, has_tools=bool(tools))

    def _read(self, message: Any) -> Draft:
        draft = Draft(model=message.get("model"), stop=_stop(message.get("stop_reason")), has_ended=True)
        content = message.get("content")
        for number, block in enumerate(content if isinstance(content, list) else ()):
            _take_block(draft, number, block)
        _take_usage(draft, message.get("usage"))
        return draft

    def _take(self, draft: Draft, event: Event) -> str:
        content = parse_object(event.data)
        kind = content.get("type")
        if kind == "error":
            raise from_event(content.get("error"))
        if kind == "message_start":
            draft.model = value_at(content, "message", "model")
            _take_usage(draft, value_at(content, "message", "usage"))
        elif kind == "message_delta":
            draft.stop = _stop(value_at(content, "delta", "stop_reason"))
            _take_usage(draft, content.get("usage"))
        elif kind == "message_stop":
            draft.has_ended = True
        elif kind == "content_block_start":
            return _take_block(draft, content.get("index"), content.get("content_block"))
        elif kind == "content_block_delta":
            return _take_delta(draft, content.get("index"), content.get("delta"))
        return ""


def _called_tools(request: CompletionRequest) -> tuple[Tool, ...]:
    """Return the tools that a conversation calls, without schemas: Anthropic refuses calls of tools not described."""
    blocks = (block for block in request.blocks if block.get("type") == "tool_use")
    return tuple(Tool(name, {"type": "object"}) for name in dict.fromkeys(block["name"] for block in blocks))


def _constraints(constraints: Constraints, *, has_tools: bool) -> dict[str, Any]:
    """Return the constraints that count as input, stop sequences apart.

    Of sampling, Messages has the effort alone; the rest is left out, as in Anthropic's own endpoint in OpenAI's form.
    """
    sent: dict[str, Any] = {}
    output: dict[str, Any] = {}
    if constraints.response_format is not None:
        # OpenAI takes open objects and lengths as well, which Anthropic refuses.
        schema = vendor_schema(constraints.response_format["json_schema"]["schema"])
        output["format"] = {"type": "json_schema", "schema": schema}
    if (effort := constraints.sampling.get("reasoning_effort")) in EFFORTS:
        output["effort"] = effort
    if output:
        sent["output_config"] = output
    if not has_tools:
        return sent
    choice: dict[str, Any] = {"type": "auto"}
    if constraints.tool_choice == "none":
        return {**sent, "tool_choice": {"type": "none"}}
    if constraints.tool_choice == "required":
        choice = {"type": "any"}
    elif constraints.tool_choice != "auto":
        choice = {"type": "tool", "name": constraints.tool_choice}
    if not constraints.parallel_tool_calls:
        choice["disable_parallel_tool_use"] = True
    return sent if choice == {"type": "auto"} else {**sent, "tool_choice": choice}


def _take_block(draft: Draft, number: Any, block: Any) -> str:
    """Take a block, whole or its start, and return its text; thinking is kept with tool calls, but is no answer."""
    kind = value_at(block, "type")
    if kind == "text":
        draft.block(number, kind, text=block.get("text"))
        return draft.add(block.get("text"))
    if kind == "tool_use":
        draft.block(number, kind, id=block.get("id"), name=block.get("name"))
        draft.argue(number, json.dumps(block.get("input")) if block.get("input") else "")
    elif kind == "thinking":
        draft.block(number, kind, thinking=block.get("thinking") or "", signature=block.get("signature"))
    elif kind == "redacted_thinking":
        draft.block(number, kind, data=block.get("data"))
    return ""


def _take_delta(draft: Draft, number: Any, delta: Any) -> str:
    kind = value_at(delta, "type")
    if kind == "text_delta":
        draft.block(number, "text", text=delta.get("text"))
        return draft.add(delta.get("text"))
    if kind == "input_json_delta":
        draft.argue(number, delta.get("partial_json"))
    elif kind == "thinking_delta":
        draft.block(number, "thinking", thinking=delta.get("thinking"))
    elif kind == "signature_delta":
        draft.block(number, "thinking", signature=delta.get("signature"))
    return ""


def _stop(reason: Any) -> Stop | None:
    return STOPS.get(reason, Stop.OTHER) if isinstance(reason, str) else None


def _take_usage(draft: Draft, usage: Any) -> None:
    """Keep the greatest usage reported: a stream reports it at its start, and parts of it again at its end."""
    if token_count(value_at(usage, "input_tokens")) is not None:
        plain, read, put = (token_count(value_at(usage, part)) or 0 for part in INPUT_PARTS)
        if plain + read + put >= (draft.input_tokens or 0):
            draft.input_tokens = plain + read + put
            draft.cache_read_tokens, draft.cache_write_tokens = read, put
    written = token_count(value_at(usage, "output_tokens"))
    draft.output_tokens = draft.output_tokens if written is None else written
