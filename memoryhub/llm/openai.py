"""Answers from OpenAI's chat completions, or from any server that speaks them (Ollama, vLLM, LM Studio, …)."""

import json
from collections.abc import Sequence
from types import ModuleType
from typing import Any, ClassVar

import openai

from memoryhub.llm.answers import Draft, Event, Stop, is_strict, parse_object, token_count, value_at, vendor_schema
from memoryhub.llm.config import LLMConfig
from memoryhub.llm.errors import ProviderRejected
from memoryhub.llm.remote import Clock, Exchange, RemoteProvider, from_event
from memoryhub.llm.types import Completion, CompletionRequest, Constraints, Form, OnFailed, Operation, ignore_failure
from memoryhub.llm.windows import reported_window

DEFAULT_BASE_URL = "https://api.openai.com/v1"

STOPS = {"stop": Stop.FINISHED, "length": Stop.TRUNCATED, "content_filter": Stop.REFUSED, "tool_calls": Stop.CALLS}

REASONING_FAMILIES = ("gpt-5", "gpt-6", "o1", "o3", "o4")
"""Models that think before they answer, out of the same budget; background work asks them to think little."""


JSON_FORMS = ("json_schema", "json_object", "words")
"""Ways to ask for an answer in JSON, the strictest first."""

ABOUT_FORMS = ("response_format", "json_schema", "json_object", "grammar")
"""Words of servers that refuse such a way."""


KNOWN_SECONDS = 600.0
"""Seconds for which a reported context window is taken as unchanged; Ollama loads a model again with another."""


class OpenAIProvider(RemoteProvider):
    name: ClassVar[str] = "openai"
    sdk: ClassVar[ModuleType] = openai
    form: ClassVar[Form] = "openai"
    requires_final_event: ClassVar[bool] = False  # other vendors' servers omit it

    def __init__(self, config: LLMConfig, *, clock: Clock | None = None) -> None:
        super().__init__(config, clock=clock)
        self._forms: Sequence[str] = JSON_FORMS
        self._windows: dict[str, tuple[float, int | None]] = {}

    def _client(self) -> openai.AsyncOpenAI:
        http = openai.DefaultAsyncHttpxClient(verify=self._certificates, follow_redirects=False)
        return openai.AsyncOpenAI(
            api_key=self._config.api_key or "none",  # required by the SDK; servers without keys ignore it
            base_url=self._config.base_url or DEFAULT_BASE_URL,
            max_retries=0,
            http_client=http,
        )

    def knows_window(self, operation: Operation) -> bool:
        if operation in self._config.windows or not self._config.base_url:
            return True
        asked = self._windows.get(self.model_for(operation))
        return asked is not None and self._clock.now() - asked[0] < KNOWN_SECONDS

    def context_window(self, operation: Operation) -> int | None:
        """Return the window that is set, else what a server of another vendor reports, asked every ten minutes."""
        url = self._config.base_url
        if operation in self._config.windows or not url:
            return super().context_window(operation)
        model = self.model_for(operation)
        if not self.knows_window(operation):
            asked_at = self._clock.now()
            self._windows[model] = (asked_at, reported_window(url, model, api_key=self._config.api_key))
        return self._windows[model][1]

    def _open(self, request: CompletionRequest, seconds: float, *, stream: bool) -> Exchange:
        # As `extra_body`: the SDK compares each message with a type for every form, 5 ms for a chat of twenty messages.
        sent = {**self._question(request), "stream": stream}
        if stream:
            sent["stream_options"] = {"include_usage": True}
        return self._exchange(
            lambda client: client.chat.completions.with_streaming_response.create(
                model=sent["model"], messages=(), stream=stream, extra_body=sent, timeout=seconds
            )
        )

    def _models(self, seconds: float) -> Exchange:
        return self._exchange(lambda client: client.models.with_streaming_response.list(timeout=seconds))

    def _question(self, request: CompletionRequest) -> dict[str, Any]:
        model = self.model_for(request.operation)
        messages = [each.as_sent() for each in request.messages]
        if request.system:
            messages.insert(0, {"role": "system", "content": request.system})
        question: dict[str, Any] = {"model": model, "messages": messages}
        if request.tools:
            question["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "parameters": dict(tool.parameters)}
                    | ({"description": tool.description} if tool.description else {}),
                }
                for tool in request.tools
            ]
        # Other vendors' servers know only the old name, which OpenAI's reasoning models refuse.
        size = "max_tokens" if self._config.base_url else "max_completion_tokens"
        question[size] = request.max_output_tokens
        reasons = not self._config.base_url and model.startswith(REASONING_FAMILIES) and "chat" not in model
        if request.operation is not Operation.CHAT and reasons:
            question["reasoning_effort"] = "low"
        if request.json_schema is not None:
            self._ask_for_json(question, request)
        return question | _constraints(request.constraints, has_tools=bool(request.tools))

    def complete(self, request: CompletionRequest, *, on_failed: OnFailed = ignore_failure) -> Completion:
        """Return the answer; a server that refuses a way to ask for JSON is asked in the next one from then on."""
        while True:
            forms = self._forms
            try:
                return super().complete(request, on_failed=on_failed)
            except ProviderRejected as error:
                is_refused = any(word in f"{error} {error.reason}" for word in ABOUT_FORMS)
                if request.json_schema is None or not is_refused or not self._config.base_url or len(forms) == 1:
                    raise
                self._forms = forms[1:]

    def _ask_for_json(self, question: dict[str, Any], request: CompletionRequest) -> None:
        """Ask for an answer in JSON in the best form that the server is known to take; it is validated in any case."""
        assert request.json_schema is not None
        shape, form = vendor_schema(request.json_schema), self._forms[0]
        if form == "json_schema":
            schema = {"name": request.operation.value, "strict": is_strict(shape), "schema": shape}
            question["response_format"] = {"type": form, "json_schema": schema}
            return
        wanted = (
            f"Answer with one JSON document that is valid under this schema, and nothing else:\n{json.dumps(shape)}"
        )
        first, *others = question["messages"]
        if first["role"] == "system" and isinstance(first["content"], str):  # many templates take one system message
            question["messages"] = [{**first, "content": f"{first['content']}\n\n{wanted}"}, *others]
        else:
            question["messages"] = [{"role": "system", "content": wanted}, first, *others]
        if form == "json_object":
            question["response_format"] = {"type": form}

    def _read(self, message: Any) -> Draft:
        choice = value_at(message, "choices", 0)
        draft = Draft(model=message.get("model"), stop=_stop(choice), has_ended=True)
        _take_message(draft, value_at(choice, "message"))
        draft.refused = bool(value_at(choice, "message", "refusal"))
        _take_usage(draft, message.get("usage"))
        return draft

    def _take(self, draft: Draft, event: Event) -> str:
        if event.data.strip() == "[DONE]":
            draft.has_ended = draft.stop is not None
            return ""
        content = parse_object(event.data)
        if error := content.get("error"):
            raise from_event(error)
        draft.model = content.get("model") or draft.model
        choice = value_at(content, "choices", 0)
        draft.stop = _stop(choice) or draft.stop
        # A refusal is a separate field with an ordinary finish reason; its text is not stored.
        draft.refused = draft.refused or bool(value_at(choice, "delta", "refusal"))
        _take_usage(draft, content.get("usage"))
        return _take_message(draft, value_at(choice, "delta"))


def _constraints(constraints: Constraints, *, has_tools: bool) -> dict[str, Any]:
    sent: dict[str, Any] = {**constraints.sampling}
    if constraints.stop:
        sent["stop"] = list(constraints.stop)
    if constraints.response_format is not None:
        sent["response_format"] = dict(constraints.response_format)
    if not has_tools:  # OpenAI refuses a choice among none
        return sent
    if constraints.tool_choice in ("none", "required"):
        sent["tool_choice"] = constraints.tool_choice
    elif constraints.tool_choice != "auto":
        sent["tool_choice"] = {"type": "function", "function": {"name": constraints.tool_choice}}
    return sent if constraints.parallel_tool_calls else {**sent, "parallel_tool_calls": False}


def _take_message(draft: Draft, message: Any) -> str:
    """Take a message or a piece of one, and return its text; calls are numbered behind the text."""
    calls = value_at(message, "tool_calls")
    for place, call in enumerate(calls if isinstance(calls, list) else ()):
        number = value_at(call, "index")
        number = (number if isinstance(number, int) else place) + 1
        draft.block(number, "tool_use", id=value_at(call, "id"), name=value_at(call, "function", "name"))
        draft.argue(number, value_at(call, "function", "arguments"))
    text = draft.add(value_at(message, "content"))
    if text:
        draft.block(0, "text", text=text)
    return text


def _stop(choice: Any) -> Stop | None:
    reason = value_at(choice, "finish_reason")
    return STOPS.get(reason, Stop.OTHER) if isinstance(reason, str) else None


def _take_usage(draft: Draft, usage: Any) -> None:
    if usage is not None:
        draft.input_tokens = token_count(value_at(usage, "prompt_tokens"))
        draft.output_tokens = token_count(value_at(usage, "completion_tokens"))
        cached = token_count(value_at(usage, "prompt_tokens_details", "cached_tokens")) or 0
        draft.cache_read_tokens = min(cached, draft.input_tokens or 0)
