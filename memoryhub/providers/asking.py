"""Asking a language model: the one way from the apps to a provider, with a cap before and the ledger after."""

import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from typing import Any, Final

from django.utils import timezone

from memoryhub.db_pool import release_connection, run_in_thread
from memoryhub.llm.base import Completion, CompletionRequest, Content, Delta, LLMProvider, Operation
from memoryhub.llm.usage.domain import Size
from memoryhub.providers.counting import counter_of
from memoryhub.providers.registry import llm_provider
from memoryhub.providers.spending import Meter, Usage, check_cap, payer
from memoryhub.tenancy.models import Actor
from memoryhub.tokens.counter import TokenCounter, raw_counts
from memoryhub.tokens.scripts import Script

SOMEBODY_WAITS: Final = frozenset({Operation.CHAT, Operation.ROUTE})
"""What a cap never stops; all else can wait for the next day."""


def ask(request: CompletionRequest, *, actor: Actor) -> Completion:
    """Return a model's finished answer to a question of this actor; network, so outside any transaction.

    No connection is held meanwhile. Raises ProviderError; SpendCapReached, before anything is sent, where the agent
    has used up its day and nobody waits for the answer.
    """
    provider = llm_provider(request.operation)
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
    provider = llm_provider(request.operation)
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
