"""Answers from OpenAI's chat completions, or from any server that speaks them (Ollama, vLLM, LM Studio, …)."""

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, ClassVar

import openai

from memoryhub.llm.base import CompletionRequest, Form, Operation
from memoryhub.llm.drafts import Draft, Stop, amount, parsed, within
from memoryhub.llm.events import Event
from memoryhub.llm.remote import Body, RemoteProvider
from memoryhub.llm.schemas import is_strict, shape_of
from memoryhub.providers import openai_errors

DEFAULT_BASE_URL = "https://api.openai.com/v1"

STOPS = {"stop": Stop.FINISHED, "length": Stop.TRUNCATED, "content_filter": Stop.REFUSED}

REASONING_FAMILIES = ("gpt-5", "gpt-6", "o1", "o3", "o4")
"""Models that think before they answer, out of the same budget; background work asks them to think little."""


class OpenAIProvider(RemoteProvider):
    """Asks an OpenAI-compatible server."""

    name: ClassVar[str] = "openai"
    form: ClassVar[Form] = "openai"
    last_word: ClassVar[bool] = False  # servers of others forget it

    def _translated(self) -> AbstractContextManager[None]:
        return openai_errors.translated()

    def _client(self) -> openai.AsyncOpenAI:
        http = openai.DefaultAsyncHttpxClient(verify=self._certificates, follow_redirects=False)
        return openai.AsyncOpenAI(
            api_key=self._config.api_key or "none",  # the SDK insists on one; servers without keys ignore it
            base_url=self._config.base_url or DEFAULT_BASE_URL,
            max_retries=0,
            http_client=http,
        )

    @asynccontextmanager
    async def _asked(
        self, request: CompletionRequest, seconds: float, *, stream: bool
    ) -> AsyncIterator[Body]:
        question = self._question(request)
        if stream:
            question["stream_options"] = {"include_usage": True}
        async with self._client() as client:
            create: Any = client.chat.completions.with_streaming_response.create
            async with create(**question, stream=stream, timeout=seconds) as body:
                yield body

    @asynccontextmanager
    async def _models(self, seconds: float) -> AsyncIterator[Body]:
        async with (
            self._client() as client,
            client.models.with_streaming_response.list(timeout=seconds) as body,
        ):
            yield body

    def _question(self, request: CompletionRequest) -> dict[str, Any]:
        model = self.model_for(request.operation)
        messages = [{"role": each.role, "content": each.content} for each in request.messages]
        if request.system:
            messages.insert(0, {"role": "system", "content": request.system})
        question: dict[str, Any] = {"model": model, "messages": messages}
        # Servers of others know the old name only; OpenAI's reasoning models refuse it.
        size = "max_tokens" if self._config.base_url else "max_completion_tokens"
        question[size] = request.max_output_tokens
        if request.operation is not Operation.CHAT and self._reasons(model):
            question["reasoning_effort"] = "low"
        if request.json_schema is not None:
            question["response_format"] = _response_format(request)
        return question

    def _reasons(self, model: str) -> bool:
        return not self._config.base_url and model.startswith(REASONING_FAMILIES) and "chat" not in model

    def _read(self, message: Any) -> Draft:
        choice = within(message, "choices", 0)
        draft = Draft(model=message.get("model"), stop=_stop(choice), has_ended=True)
        draft.add(within(choice, "message", "content"))
        _take_refusal(draft, within(choice, "message", "refusal"))
        _take_usage(draft, message.get("usage"))
        return draft

    def _take(self, draft: Draft, event: Event) -> str:
        if event.data.strip() == "[DONE]":
            draft.has_ended = draft.stop is not None
            return ""
        content = parsed(event.data)
        if error := content.get("error"):
            raise openai_errors.from_event(error if isinstance(error, dict) else {})
        draft.model = content.get("model") or draft.model
        choice = within(content, "choices", 0)
        draft.stop = _stop(choice) or draft.stop
        _take_refusal(draft, within(choice, "delta", "refusal"))
        _take_usage(draft, content.get("usage"))
        return draft.add(within(choice, "delta", "content"))


def _response_format(request: CompletionRequest) -> dict[str, Any]:
    assert request.json_schema is not None
    shape = shape_of(request.json_schema)
    schema = {"name": request.operation.value, "strict": is_strict(shape), "schema": shape}
    return {"type": "json_schema", "json_schema": schema}


def _stop(choice: Any) -> Stop | None:
    reason = within(choice, "finish_reason")
    return STOPS.get(reason, Stop.OTHER) if isinstance(reason, str) else None


def _take_refusal(draft: Draft, refusal: Any) -> None:
    """Note a refusal, which comes beside the text and with an ordinary finish reason; its words are not kept."""
    if refusal:
        draft.refused = True


def _take_usage(draft: Draft, usage: Any) -> None:
    if usage is not None:
        draft.input_tokens = amount(within(usage, "prompt_tokens"))
        draft.output_tokens = amount(within(usage, "completion_tokens"))
        cached = amount(within(usage, "prompt_tokens_details", "cached_tokens")) or 0
        draft.cache_read_tokens = min(cached, draft.input_tokens or 0)
