"""Call language models, the one way from the apps: spend cap checked before, usage recorded after."""

import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, cast

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from memoryhub.db_pool import release_connection, run_in_thread
from memoryhub.jobs.context import JobContext
from memoryhub.llm.budget import check_cap
from memoryhub.llm.config import LLMConfig
from memoryhub.llm.errors import BadAnswer, ProviderError
from memoryhub.llm.tokens.counter import TokenCounter, counter_for, raw_counts
from memoryhub.llm.tokens.factors import Script
from memoryhub.llm.types import Completion, CompletionRequest, Content, Delta, LLMProvider, Operation
from memoryhub.llm.usage.calibration import calibrated, prior_of
from memoryhub.llm.usage.domain import Size
from memoryhub.llm.usage.recording import Meter, Usage, payer
from memoryhub.tenancy.models import Actor

SOMEBODY_WAITS: Final = frozenset({Operation.CHAT, Operation.ROUTE})
"""What a cap never stops; all else can wait for the next day."""


def ask(request: CompletionRequest, *, actor: Actor) -> Completion:
    """Return a model's finished answer to a question of this actor; network, so outside any transaction.

    No connection is held meanwhile. Raises ProviderError; SpendCapReached, before anything is sent, where the agent
    has used up its day and nobody waits for the answer.
    """
    provider = llm_provider()
    if not _is_there(provider):
        return provider.complete(request)
    _check(request.operation, actor)
    with release_connection(), _meter(provider, request, actor) as meter:
        completion = provider.complete(request, on_failed=meter.failed)
        meter.answered(_usage(completion))
    return completion


async def ask_streaming(request: CompletionRequest, *, actor: Actor) -> AsyncIterator[Delta | Completion]:
    """Yield a model's answer as it is written, and the finished answer last. Raises ProviderError, as `ask` does.

    The ledger is written off the event loop, before the finished answer is given on: whoever has that may go away.
    """
    provider = llm_provider()
    if not _is_there(provider):
        async for piece in provider.stream(request):
            yield piece
        return
    if request.operation not in SOMEBODY_WAITS:
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
    """Whether calls leave this process: without a model there is nothing to note."""
    return provider.name != "none"


def _check(operation: Operation, actor: Actor) -> None:
    if operation not in SOMEBODY_WAITS:
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
    """Whether the provider counted nothing but texts, as we did: no image, no tool, no schema."""
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


PATIENT_ATTEMPTS: Final = 3
"""As many attempts are made whole; after that what spoils the answers gives way to the rest."""


def is_patient(spoilt: int) -> bool:
    """Say whether another whole attempt follows the one after `spoilt` that brought nothing to use."""
    return spoilt + 1 < PATIENT_ATTEMPTS


def spoilt_answers(job: JobContext) -> int:
    """Return how many of a job's attempts ended in answers that could not be used."""
    return job.cursor if isinstance(job.cursor, int) else 0


@contextmanager
def counting_spoilt(job: JobContext) -> Iterator[None]:
    """Note with the job where an attempt ends in an answer that cannot be used."""
    spoilt = spoilt_answers(job)
    try:
        yield
    except BadAnswer:
        with job.step(cursor=spoilt + 1):
            pass
        raise


LLM_PROVIDERS = {
    "none": "memoryhub.llm.none.NoneProvider",
    "anthropic": "memoryhub.llm.anthropic.AnthropicProvider",
    "openai": "memoryhub.llm.openai.OpenAIProvider",
}


@cache
def llm_provider() -> LLMProvider:
    """Return the process's provider, built from `settings.LLM`; without a vendor, one that says what is missing."""
    config: LLMConfig = settings.LLM
    return cast(LLMProvider, import_string(LLM_PROVIDERS[config.provider]).from_config(config))
