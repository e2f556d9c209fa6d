"""Call language models (SPEC A6) for all apps: spend cap checked before, usage recorded after.

One policy for calls that fail and for answers that cannot be used (`BadAnswer`: not JSON, another schema, empty):

1. *At once*, inside the call and its deadline (`memoryhub.llm.remote`): a provider that is unreachable, slow or busy is
   tried three times, a bad answer asked for once more. A truncated answer, a refusal and a configuration error are
   permanent: the same request would end the same way.
2. *The job's next attempt*: whatever `complete`, `complete_json` or `complete_in_halves` raises ends the attempt. The
   queue tries again after a pause, or fails the job where the error is `permanent`. `count_bad_attempts` counts
   attempts that ended in a bad answer; `MAX_BAD_ATTEMPTS` of them are made with the whole batch.
3. *A smaller batch*: after that, after a deadline, and for a truncated answer or a refusal, `complete_in_halves` asks
   for half of the batch, down to one item. A single item is skipped where its content is to blame, so that the others
   are processed. A request that is refused for its form fails: a setting is to blame, and nothing is skipped.

A caller with a fallback (words instead of a model) catches `ProviderError` where it calls.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from typing import Any, ClassVar, Final, NoReturn, TypeVar, cast

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _

from memoryhub.db.pool import after_answer, release_connection, run_in_thread
from memoryhub.jobs.context import JobContext
from memoryhub.llm.config import LLM_PROVIDERS, LLMConfig
from memoryhub.llm.errors import (
    BadAnswer,
    PromptTooLong,
    ProviderError,
    ProviderRejected,
    ProviderTimeout,
    ProviderUnavailable,
)
from memoryhub.llm.prompts import fenced, prompt
from memoryhub.llm.tokens import Script, TokenCounter, counter_for, raw_counts
from memoryhub.llm.types import (
    IMAGE_TOKENS,
    ChatMessage,
    Completion,
    CompletionRequest,
    Delta,
    LLMProvider,
    OnFailed,
    Operation,
    ignore_failure,
    is_image,
)
from memoryhub.llm.usage.calibration import calibrated, prior_of
from memoryhub.llm.usage.caps import NOBODY, Size
from memoryhub.llm.usage.recording import Meter, payer
from memoryhub.llm.usage.spending import check_cap
from memoryhub.tenancy.models import Actor

INTERACTIVE: Final = frozenset({Operation.CHAT, Operation.ROUTE})
"""Operations that a daily cap never stops; all others can wait for the next day."""

MAX_BAD_ATTEMPTS: Final = 3
"""Attempts of a job with the whole batch, each with a bad answer, before the batch is halved."""

A_TIMEOUT: Final = 1_000
"""What an attempt that ended by a deadline counts among the bad ones, whose number it exceeds."""
MAX_HALVINGS: Final = 20

CONTENT_REFUSED: Final = "refused"
"""Code of a refusal for a text's content; any other code is about the request's form."""

WINDOW_SHARE: Final = 4
"""Part of a small context window that is kept for the answer, and that the material of a background call may have.

The other half is for instructions and the schema: about 1,500 tokens of an extraction.
"""

RECORDED_WITHIN: Final = 1.0
"""Seconds that an answer waits for its entry in the ledger."""

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

    def model_for(self, operation: Operation) -> str:
        return ""

    def complete(self, request: CompletionRequest, *, on_failed: OnFailed = ignore_failure) -> NoReturn:
        self.probe()

    async def stream(
        self, request: CompletionRequest, *, on_failed: OnFailed = ignore_failure
    ) -> AsyncIterator[Delta | Completion]:
        if self.name:  # a generator, whichever provider
            self.probe()
        yield Delta("")

    def probe(self) -> NoReturn:
        raise ProviderUnavailable(str(NOT_CONFIGURED), code="not_configured", permanent=True)


@cache
def llm_provider() -> LLMProvider:
    """Return the process's provider, built from `settings.LLM`; NoneProvider without a vendor."""
    config: LLMConfig = settings.LLM
    if config.provider == "none":
        return NoneProvider()
    return cast(LLMProvider, import_string(LLM_PROVIDERS[config.provider])(config))


def complete(request: CompletionRequest, *, actor: Actor | None, records_later: bool = False) -> Completion:
    """Return a model's finished answer, at the cost of the actor's agent; network, so outside any transaction.

    Without an actor it is a call of the operator's own.

    No database connection is held during the call. With `records_later` the ledger is written after the response, which
    then does not wait for the database. Raises ProviderError; SpendCapReached, before anything is sent, if
    the agent has reached a daily cap and the call is in the background.
    """
    provider = llm_provider()
    if provider.name == "none":
        return provider.complete(request)
    if actor is not None and request.operation not in INTERACTIVE:
        check_cap(actor, now=timezone.now())
    request = _within_window(provider, request)
    meter, error = _meter(provider, request, actor), None
    with release_connection():
        meter.start()
        try:
            meter.answer = provider.complete(request, on_failed=meter.failed)
        except BaseException as failed:
            error = failed
            raise
        finally:
            stop = partial(meter.stop, error)
            after_answer(stop) if records_later else stop()
    return meter.answer


async def stream(request: CompletionRequest, *, actor: Actor) -> AsyncIterator[Delta | Completion]:
    """Yield a model's answer as it is written, and the finished answer last. Raises ProviderError, as `complete` does.

    The ledger is written off the event loop, before the final answer is yielded: the consumer may disconnect then. An
    answer waits for RECORDED_WITHIN only, and the entry is written when the database can be reached.
    """
    provider = llm_provider()
    if provider.name == "none":
        provider.probe()
    if request.operation not in INTERACTIVE:
        await run_in_thread(check_cap, actor, now=timezone.now())
    if not provider.knows_window(request.operation) or provider.context_window(request.operation) is not None:
        request = await run_in_thread(_within_window, provider, request)
    meter, is_over = _meter(provider, request, actor), False
    meter.start()
    pieces = provider.stream(request, on_failed=meter.failed)
    try:
        async for piece in pieces:
            if isinstance(piece, Completion):
                meter.answer = piece
                is_over = True
                await asyncio.wait([asyncio.ensure_future(run_in_thread(meter.stop, None))], timeout=RECORDED_WITHIN)
            yield piece
    except BaseException as error:  # also when the caller disconnects and the generator is closed
        if not is_over:
            await run_in_thread(meter.stop, error)
        raise
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


def call_seconds(operation: Operation, usual: float) -> float:
    """Return the deadline of a background call, which settings may extend for a slow server."""
    return usual if operation in INTERACTIVE else settings.LLM.seconds_for(operation, usual)


def context_window(operation: Operation) -> int | None:
    """Return the context window of the model that answers an operation; None where it is unknown. Network."""
    return _window(llm_provider(), operation)


def _window(provider: LLMProvider, operation: Operation) -> int | None:
    with nullcontext() if provider.knows_window(operation) else release_connection():
        return provider.context_window(operation)


def material_limit(operation: Operation, usual: int) -> int:
    """Return how many tokens of texts a background prompt may hold, so that it fits the context window. Network."""
    window = context_window(operation)
    return usual if window is None else min(usual, window // WINDOW_SHARE)


def prompt_room(request: CompletionRequest) -> int | None:
    """Return the tokens that the context window leaves for more texts of a request; None where it is unknown."""
    provider = llm_provider()
    window = _window(provider, request.operation)
    return None if window is None else _room(provider, request, window)


def _room(provider: LLMProvider, request: CompletionRequest, window: int) -> int:
    # Images cost a small model far less than the upper bound that is counted for them.
    images = IMAGE_TOKENS * sum(map(is_image, request.blocks))
    size = size_of(request, counter_of(provider, request.operation)).estimated_tokens - images
    return window - size - min(request.max_output_tokens, window // WINDOW_SHARE)


def _within_window(provider: LLMProvider, request: CompletionRequest) -> CompletionRequest:
    """Return a request whose answer is as long as the context window allows. Raises PromptTooLong. Network."""
    window = _window(provider, request.operation)
    if window is None:
        return request
    reserved = min(request.max_output_tokens, window // WINDOW_SHARE)
    room = _room(provider, request, window)
    if room < 0:
        setting = f"MEMORYHUB_LLM_CONTEXT_WINDOW_{request.operation.name}"
        raise PromptTooLong(size=window - room - reserved, window=window, setting=setting)
    return replace(request, max_output_tokens=min(request.max_output_tokens, room + reserved))


def complete_json(
    actor: Actor,
    operation: Operation,
    name: str,
    blocks: Mapping[str, str],
    schema: Mapping[str, Any],
    *,
    max_output_tokens: int = JSON_OUTPUT_TOKENS,
    deadline_seconds: float = JSON_DEADLINE_SECONDS,
    language: str = "",
    **values: object,
) -> Any:
    """Return the parsed answer, valid under `schema`, to the prompt template `name` in a language, or the agent's.

    `blocks` are untrusted texts by heading; each is fenced in the user message. `values` fill the template. Network,
    so outside any transaction. Raises ProviderError.
    """
    fence = secrets.token_hex(FENCE_BYTES)
    request = CompletionRequest(
        operation=operation,
        messages=(ChatMessage("user", fenced(blocks, fence)),),
        max_output_tokens=max_output_tokens,
        deadline_seconds=call_seconds(operation, deadline_seconds),
        system=prompt(name, language or actor.agent.language, **values),
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
    `bad_attempts` is what `count_bad_attempts` gave; each attempt that ended by a deadline halves the items. `control`
    asks about something harmless before an item is skipped for a bad answer, so that a model that answers nothing
    usable at all fails the attempt. Raises ProviderError where the job's next attempt may do better, or where a setting
    is to blame (see the module's policy).
    """
    items = items[: max(1, len(items) >> min(bad_attempts // A_TIMEOUT, MAX_HALVINGS))]
    while True:
        try:
            return items, ask(items), None
        except (ProviderRejected, BadAnswer) as error:
            is_bad, is_single = isinstance(error, BadAnswer) and not error.permanent, len(items) <= 1
            is_request_refused = isinstance(error, ProviderRejected) and error.code != CONTENT_REFUSED
            if (is_bad and may_retry(bad_attempts)) or (is_request_refused and is_single):
                raise
            if is_single:
                if is_bad:
                    control()
                return items, None, error
            items = items[: len(items) // 2]


def may_retry(bad_attempts: int) -> bool:
    return bad_attempts % A_TIMEOUT + 1 < MAX_BAD_ATTEMPTS


@contextmanager
def count_bad_attempts(job: JobContext) -> Iterator[int]:
    """Yield how many attempts of a job ended in a bad answer, and count this one where it does.

    One that ended by a deadline counts as A_TIMEOUT: the same request would take as long again. The job's cursor holds
    the number; `job.attempt` also counts attempts for which the provider was busy.
    """
    bad_attempts = job.cursor if isinstance(job.cursor, int) else 0
    try:
        yield bad_attempts
    except (BadAnswer, ProviderTimeout) as error:
        count = A_TIMEOUT if isinstance(error, ProviderTimeout) else 1
        with job.step(cursor=bad_attempts + count):
            pass
        raise


def size_of(request: CompletionRequest, counter: TokenCounter) -> Size:
    """Return how large a request is by our own count; a schema counts as its JSON."""
    by_script: Counter[Script] = Counter()
    messages = len(request.messages)
    estimated = counter.factors.per_request + messages * counter.factors.per_message
    for text in request.texts():
        raw = raw_counts(text)  # once, as counts of long texts are not cached
        estimated += counter.scaled(raw)
        by_script.update(raw.by_script)
    estimated += IMAGE_TOKENS * sum(map(is_image, request.blocks))
    # Only such requests calibrate: without images, tools or schema, the provider counts text alone, as we do.
    is_asked_plainly = request.json_schema is None and not request.tools
    is_plain = is_asked_plainly and all(block.get("type") == "text" for block in request.blocks)
    return Size(estimated, by_script, messages, is_plain)


def _meter(provider: LLMProvider, request: CompletionRequest, actor: Actor | None) -> Meter:
    operation, model = request.operation, provider.model_for(request.operation)
    return Meter(
        replace(payer(actor) if actor else NOBODY, key_id=request.key_id), operation, provider.name, model,
        size=lambda: size_of(request, counter_of(provider, operation)), most_output=request.max_output_tokens,
    )  # fmt: skip


def counter_in_use(operation: Operation = Operation.CHAT) -> TokenCounter:
    """Return the counter for the model that answers an operation; no network, and a statement a minute at most."""
    try:
        return counter_of(llm_provider(), operation)
    except ProviderError:  # the provider cannot be built, but its model's factors are known
        return counter_for(settings.LLM.counted_as(operation))


def counter_of(provider: LLMProvider, operation: Operation) -> TokenCounter:
    model = provider.model_for(operation)
    return TokenCounter(calibrated.of(provider.name, model) or prior_of(model))
