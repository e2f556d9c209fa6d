"""Call language models, the one way from the apps: spend cap checked before, usage recorded after.

One policy for calls that fail and for answers that cannot be used (`BadAnswer`: not JSON, another schema, empty):

1. *At once*, inside the call and its deadline (`memoryhub.llm.retry`): a provider that is unreachable, slow or busy is
   tried three times, a bad answer asked for once more. A truncated answer, a refusal and a configuration error are
   permanent: the same request would end the same way.
2. *The job's next attempt*: whatever `complete`, `complete_json` or `complete_in_halves` raises ends the attempt. The
   queue tries again after a pause, or fails the job where the error is `permanent`. `count_bad_attempts` counts
   attempts that ended in a bad answer; `MAX_BAD_ATTEMPTS` of them are made with the whole batch.
3. *A smaller batch*: after that, and for a truncated answer or a refusal, `complete_in_halves` asks for half of the
   batch, down to one item. A single item is skipped where its content is to blame, so that the others are processed.
   A request that is refused for its form fails: a setting is to blame, and nothing is skipped.

A caller with a fallback of its own (words instead of a model) catches `ProviderError` where it calls.
"""

import json
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar, Final, NoReturn, Self, TypeVar, cast

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _

from memoryhub.db_pool import release_connection, run_in_thread
from memoryhub.jobs.context import JobContext
from memoryhub.llm.config import LLMConfig
from memoryhub.llm.errors import BadAnswer, ProviderError, ProviderRejected, ProviderUnavailable
from memoryhub.llm.prompts import fenced, prompt
from memoryhub.llm.retry import OnFailed, unheard
from memoryhub.llm.tokens import Script, TokenCounter, counter_for, raw_counts
from memoryhub.llm.types import (
    ChatMessage,
    Completion,
    CompletionRequest,
    Content,
    Delta,
    LLMProvider,
    Operation,
)
from memoryhub.llm.usage.calibration import calibrated, prior_of
from memoryhub.llm.usage.domain import Size
from memoryhub.llm.usage.recording import Meter, Usage, payer
from memoryhub.llm.usage.spending import check_cap
from memoryhub.tenancy.models import Actor

LLM_PROVIDERS = {
    "none": "memoryhub.llm.client.NoneProvider",
    "anthropic": "memoryhub.llm.anthropic.AnthropicProvider",
    "openai": "memoryhub.llm.openai.OpenAIProvider",
}

INTERACTIVE: Final = frozenset({Operation.CHAT, Operation.ROUTE})
"""Operations that a daily cap never stops; all others can wait for the next day."""

MAX_BAD_ATTEMPTS: Final = 3
"""Attempts of a job with the whole batch, each with a bad answer, before the batch is halved."""

CONTENT_REFUSED: Final = "refused"
"""Code of a refusal for what a text says; any other code is about the request's form."""

JSON_DEADLINE_SECONDS: Final = 60.0
JSON_OUTPUT_TOKENS: Final = 4_000
FENCE_BYTES: Final = 16

Item = TypeVar("Item")
Answer = TypeVar("Answer")


NOT_CONFIGURED = _(
    "No language model is configured. Set ANTHROPIC_API_KEY or OPENAI_API_KEY, "
    "or MEMORYHUB_LLM_PROVIDER with MEMORYHUB_LLM_API_KEY or MEMORYHUB_LLM_BASE_URL."
)


class NoneProvider(LLMProvider):
    """Refuses every request with a reason that an operator can act on."""

    name: ClassVar[str] = "none"

    @classmethod
    def from_config(cls, config: LLMConfig) -> Self:
        """Build the provider; there is nothing to configure."""
        return cls()

    def model_for(self, operation: Operation) -> str:
        """Return "": no model answers."""
        return ""

    def complete(self, request: CompletionRequest, *, on_failed: OnFailed = unheard) -> NoReturn:
        """Raise ProviderUnavailable, permanently."""
        raise ProviderUnavailable(str(NOT_CONFIGURED), code="not_configured", permanent=True)

    async def stream(
        self, request: CompletionRequest, *, on_failed: OnFailed = unheard
    ) -> AsyncIterator[Delta | Completion]:
        """Raise ProviderUnavailable, permanently, when the first piece is asked for."""
        if self.name:  # a generator, whatever it does
            self.complete(request)
        yield Delta("")

    def probe(self) -> None:
        """Raise ProviderUnavailable, permanently."""
        raise ProviderUnavailable(str(NOT_CONFIGURED), code="not_configured", permanent=True)


@cache
def llm_provider() -> LLMProvider:
    """Return the process's provider, built from `settings.LLM`; without a vendor, one that says what is missing."""
    config: LLMConfig = settings.LLM
    return cast(LLMProvider, import_string(LLM_PROVIDERS[config.provider]).from_config(config))


def complete(request: CompletionRequest, *, actor: Actor) -> Completion:
    """Return a model's finished answer, at the cost of the actor's agent; network, so outside any transaction.

    No database connection is held meanwhile. Raises ProviderError; SpendCapReached, before anything is sent, where the
    agent has reached a daily cap and nobody waits for the answer.
    """
    provider = llm_provider()
    if not _is_there(provider):
        return provider.complete(request)
    _check(request.operation, actor)
    with release_connection(), _meter(provider, request, actor) as meter:
        completion = provider.complete(request, on_failed=meter.failed)
        meter.answered(_usage(completion))
    return completion


async def stream(request: CompletionRequest, *, actor: Actor) -> AsyncIterator[Delta | Completion]:
    """Yield a model's answer as it is written, and the finished answer last. Raises ProviderError, as `complete` does.

    The ledger is written off the event loop, before the finished answer is given on: whoever has that may go away.
    """
    provider = llm_provider()
    if not _is_there(provider):
        async for piece in provider.stream(request):
            yield piece
        return
    if request.operation not in INTERACTIVE:
        await run_in_thread(_check, request.operation, actor)
    meter, is_over = _meter(provider, request, actor), False
    meter.start()
    pieces = provider.stream(request, on_failed=meter.failed)
    try:
        async for piece in pieces:
            if isinstance(piece, Completion):
                meter.answered(_usage(piece))
                is_over = True
                await run_in_thread(meter.stop, None)
            yield piece
    except BaseException as error:  # also where the caller goes away: the generator is closed
        if not is_over:
            await run_in_thread(meter.stop, error)
        raise
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


def complete_json(
    actor: Actor,
    operation: Operation,
    name: str,
    blocks: Mapping[str, str],
    schema: Mapping[str, Any],
    *,
    max_output_tokens: int = JSON_OUTPUT_TOKENS,
    deadline_seconds: float = JSON_DEADLINE_SECONDS,
    **values: object,
) -> Any:
    """Return the parsed answer, valid under `schema`, to the prompt template `name` in the agent's language.

    `blocks` are untrusted texts by heading; each is fenced in the user message. `values` fill the template. Network,
    so outside any transaction. Raises ProviderError.
    """
    fence = secrets.token_hex(FENCE_BYTES)
    request = CompletionRequest(
        operation=operation,
        messages=(ChatMessage("user", fenced(blocks, fence)),),
        max_output_tokens=max_output_tokens,
        deadline_seconds=deadline_seconds,
        system=prompt(name, actor.agent.language, fence=fence, **values),
        json_schema=schema,
    )
    return complete(request, actor=actor).data


def complete_in_halves(
    items: Sequence[Item],
    ask: Callable[[Sequence[Item]], Answer],
    *,
    bad_attempts: int,
    control: Callable[[], object] = lambda: None,
) -> tuple[Sequence[Item], Answer | None, ProviderRejected | BadAnswer | None]:
    """Ask about items, or about the first half, quarter … of them; the caller comes back for the rest.

    Returns the items asked about with the answer, or one item with None and the error for which it is skipped.
    `bad_attempts` is what `count_bad_attempts` gave. `control` asks about something harmless before an item is skipped
    for a bad answer, so that a model that answers nothing usable at all fails the attempt. Raises ProviderError where
    the job's next attempt may do better, or where a setting is to blame (see the module's policy).
    """
    while True:
        try:
            return items, ask(items), None
        except (ProviderRejected, BadAnswer) as error:
            if _ends_attempt(error, bad_attempts=bad_attempts, is_single=len(items) <= 1):
                raise
            if len(items) <= 1:
                if isinstance(error, BadAnswer) and not error.permanent:
                    control()
                return items, None, error
            items = items[: len(items) // 2]


def _ends_attempt(error: ProviderRejected | BadAnswer, *, bad_attempts: int, is_single: bool) -> bool:
    if isinstance(error, BadAnswer):
        return not error.permanent and may_retry(bad_attempts)
    return is_single and error.code != CONTENT_REFUSED


def may_retry(bad_attempts: int) -> bool:
    return bad_attempts + 1 < MAX_BAD_ATTEMPTS


@contextmanager
def count_bad_attempts(job: JobContext) -> Iterator[int]:
    """Yield how many attempts of a job ended in a bad answer, and count this one where it does.

    The job's cursor holds the number; `job.attempt` also counts attempts for which the provider was busy.
    """
    bad_attempts = job.cursor if isinstance(job.cursor, int) else 0
    try:
        yield bad_attempts
    except BadAnswer:
        with job.step(cursor=bad_attempts + 1):
            pass
        raise


def size_of(request: CompletionRequest, counter: TokenCounter) -> Size:
    """Return how large a request is by our own count; a schema counts as its JSON."""
    by_script: Counter[Script] = Counter()
    messages = len(request.messages)
    estimated = counter.request_overhead + messages * counter.message_overhead
    for text in _texts(request):
        raw = raw_counts(text)  # once, for a long text is not kept
        estimated += counter.scaled(raw)
        by_script.update(raw.by_script)
    return Size(estimated, by_script, messages, _is_plain(request))


def _is_there(provider: LLMProvider) -> bool:
    return provider.name != "none"


def _check(operation: Operation, actor: Actor) -> None:
    if operation not in INTERACTIVE:
        check_cap(actor, now=timezone.now())


def _meter(provider: LLMProvider, request: CompletionRequest, actor: Actor) -> Meter:
    operation = request.operation

    def size() -> Size:
        return size_of(request, counter_of(provider, operation))

    model = provider.model_for(operation)
    return Meter(payer(actor), operation, provider.name, model, size, most_output=request.max_output_tokens)


def _usage(completion: Completion) -> Usage:
    return Usage(
        completion.input_tokens, completion.output_tokens, completion.cache_read_tokens,
        completion.cache_write_tokens, is_told=not completion.usage_is_estimated,
    )  # fmt: skip


def _texts(request: CompletionRequest) -> Iterator[str]:
    for content in _contents(request):
        if isinstance(content, str):
            yield content
        else:
            yield from (_text_of(block) for block in content)
    if request.json_schema is not None:
        yield json.dumps(request.json_schema, ensure_ascii=False)


def _text_of(block: Mapping[str, Any]) -> str:
    """Return a block's text; of any other block its JSON, which is what tools and their answers come to."""
    text = block.get("text")
    return text if isinstance(text, str) else json.dumps(block, ensure_ascii=False, default=str)


def _contents(request: CompletionRequest) -> Iterator[Content]:
    yield request.system
    yield from (message.content for message in request.messages)


def _is_plain(request: CompletionRequest) -> bool:
    """Return whether the provider counted text only, as we did: no image, no tool, no schema."""
    blocks = (block for content in _contents(request) if not isinstance(content, str) for block in content)
    return request.json_schema is None and all(block.get("type") == "text" for block in blocks)


def counter_in_use(operation: Operation = Operation.CHAT) -> TokenCounter:
    """Return the counter for the model that answers an operation; no network, and a statement a minute at most."""
    try:
        return counter_of(llm_provider(), operation)
    except ProviderError:  # it cannot be built; what its model counts like is known all the same
        return counter_for(settings.LLM.counted_as(operation))


def counter_of(provider: LLMProvider, operation: Operation) -> TokenCounter:
    """Return the counter for the model of a provider that answers an operation."""
    model = provider.model_for(operation)
    return TokenCounter(calibrated.of(provider.name, model) or prior_of(model))
