"""Base of HTTP providers: deadlines, retries, size limits of answers, streaming, translation of SDK errors.

The SDKs build the requests; the answers are read and validated here. All exchanges are asynchronous, because only there
a deadline holds whatever the network does; a synchronous caller runs an event loop of its own. Each exchange opens a
new connection: a pooled one is bound to an event loop, and a client costs 0.2 ms once the certificates are loaded.

Retries share one deadline; those of the SDKs (600 s an attempt, any `Retry-After`) are off. A `Retry-After` beyond the
deadline is not waited for, but passed on to the caller in the error.

Error messages never include the vendor's, which may quote the request.
"""

import asyncio
import re
import ssl
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import Any, ClassVar, Protocol, TypeVar, cast

import httpx2

from memoryhub.errors import stored_text
from memoryhub.llm.answers import Draft, Event, EventDecoder, completion, parse_object, value_at
from memoryhub.llm.config import LLMConfig, default_model
from memoryhub.llm.errors import (
    BadAnswer,
    ProviderError,
    ProviderMisconfigured,
    ProviderRejected,
    ProviderTimeout,
    ProviderUnavailable,
)
from memoryhub.llm.tokens import count_raw
from memoryhub.llm.types import (
    Completion,
    CompletionRequest,
    Delta,
    LLMProvider,
    OnFailed,
    Operation,
    ignore_failure,
    is_image,
)

Result = TypeVar("Result")

MAX_RETRY_AFTER_SECONDS = 3600.0
"""A longer wait is cut to this; a server cannot switch a job off for a year."""

QUOTA_ERRORS = frozenset({"billing_error", "insufficient_quota"})
"""Error codes of Anthropic and OpenAI for an exhausted account."""

MAX_REASON_LENGTH = 500

WAIT_FOR_QUOTA_SECONDS = 600.0
"""Retry pause for an exhausted account, which an operator has to refill."""


@contextmanager
def translate_sdk_errors(sdk: Any) -> Iterator[None]:
    """Translate errors of a vendor's SDK and of the transport to ProviderError; both SDKs use the same names."""
    try:
        yield
    except sdk.APIStatusError as error:
        raise from_status(error) from None
    except (sdk.APITimeoutError, httpx2.TimeoutException):
        raise ProviderTimeout("The provider did not answer in time.", code="timeout") from None
    except (sdk.APIConnectionError, httpx2.TransportError):
        raise ProviderUnavailable("The connection to the provider failed.", code="connection") from None
    # Any other error of the SDK is caught by its base class, which each vendor names differently.
    except (sdk.APIError.__base__, httpx2.HTTPError, httpx2.InvalidURL) as error:
        kind = type(error).__name__
        raise ProviderUnavailable(
            stored_text("The call to the provider failed with {kind}.", kind=kind), code="sdk_error"
        ) from None


def from_status(error: Any) -> ProviderError:
    status = error.status_code
    wait = retry_after_seconds(error.response.headers)
    if status == 402 or QUOTA_ERRORS & {str(error.type), str(getattr(error, "code", None))}:
        return no_quota()
    if status == 429:
        return rate_limited(wait)
    if status in (401, 403):
        message = stored_text("The provider refuses our key ({status}).", status=status)
        return ProviderMisconfigured(message, code="unauthorized")
    if status in (404, 405, 410) or status < 400:
        message = stored_text("The provider has no such address, model or deployment ({status}).", status=status)
        return ProviderMisconfigured(message, code="not_found")
    if status in (408, 409, 425) or status >= 500:
        return overloaded(status, wait)
    about = _refused_field(error.body)
    message = stored_text(
        "The provider refuses the request ({status}).", status=f"{status}{about and f', about {about}'}"
    )
    return ProviderRejected(message, code="rejected", reason=_reason(error.body))


def _reason(body: object) -> str:
    """Return the vendor's message about a request that it refuses."""
    message = value_at(body, "error", "message") or value_at(body, "message")
    return message[:MAX_REASON_LENGTH] if isinstance(message, str) else ""


def _refused_field(body: object) -> str:
    """Return the name of the field that a vendor refuses, "" where it names none."""
    name = value_at(body, "error", "param") or value_at(body, "param")
    return name if isinstance(name, str) and re.fullmatch(r"[\w.\[\]-]{1,100}", name) else ""


def from_event(error: object) -> ProviderError:
    """Return the exception of an error object in a stream."""
    names = {str(value_at(error, "type")), str(value_at(error, "code"))}
    if names & QUOTA_ERRORS:
        return no_quota()
    if names & {"rate_limit_error", "rate_limit_exceeded", "429"}:
        return rate_limited()
    if names & {"authentication_error", "permission_error"}:
        return ProviderMisconfigured("The provider refuses our key.", code="unauthorized")
    if "not_found_error" in names:
        return ProviderMisconfigured("The provider has no such address or model.", code="not_found")
    if "content_filter" in names:
        return ProviderRejected("The provider refuses to answer.", code="refused")
    if names & {"invalid_request_error", "request_too_large", "context_length_exceeded", "invalid_prompt", "400"}:
        return ProviderRejected("The provider refuses the request.", code="rejected")
    return overloaded()


def no_quota() -> ProviderError:
    message = stored_text("The account at the provider has no quota left.")
    return ProviderUnavailable(message, code="quota", retry_after_seconds=WAIT_FOR_QUOTA_SECONDS)


def rate_limited(wait_seconds: float | None = None) -> ProviderError:
    message = stored_text("The provider limits our rate (429).")
    return ProviderUnavailable(message, code="rate_limited", retry_after_seconds=wait_seconds)


def overloaded(status: int | None = None, wait_seconds: float | None = None) -> ProviderError:
    message = stored_text("The provider is overloaded or failing in the middle of its answer.")
    if status is not None:
        message = stored_text("The provider is overloaded or failing ({status}).", status=status)
    return ProviderUnavailable(message, code="overloaded", retry_after_seconds=wait_seconds)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return how long the answer asks us to wait: `retry-after-ms`, seconds, or a date; None when unclear."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return min(seconds, MAX_RETRY_AFTER_SECONDS)
    try:  # relative to the response's own `Date`, so that our clock does not matter
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        sent_at = parsedate_to_datetime(headers.get("date", ""))
        seconds = (until - sent_at).total_seconds()
    except (TypeError, ValueError):  # not dates, or only one of them has a zone
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)


FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 10.0
"""Longest `Retry-After` that is waited for in place; a job can wait longer, a thread should not."""
MAX_BAD_ANSWERS = 2
"""An answer that cannot be used was paid for; asking a third time seldom brings a better one."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Time limits of one call."""

    deadline_seconds: float
    attempt_timeout_seconds: float
    attempts: int = 3


@dataclass(frozen=True, slots=True)
class Clock:
    """Monotonic time and sleeping, replaceable in tests."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    sleep_in_loop: Callable[[float], Awaitable[None]] = asyncio.sleep


def call_with_retries(
    budget: Budget, attempt: Callable[[float], Result], clock: Clock, on_failed: OnFailed = ignore_failure
) -> Result:
    """Return what `attempt(timeout_seconds)` returns, repeating it while that may help.

    Repeated are errors that are not permanent, a bad answer only once. Raises the last ProviderError.
    """
    ends_at = clock.now() + budget.deadline_seconds
    for number in range(budget.attempts):
        remaining = ends_at - clock.now()
        if remaining <= 0:
            break
        try:
            return attempt(min(budget.attempt_timeout_seconds, remaining))
        except ProviderError as error:
            pause = pause_after(error, number=number, budget=budget, seconds_left=ends_at - clock.now())
            if pause is None:
                raise
            on_failed(error, pause)
        clock.sleep(pause)
    raise deadline_passed()


def pause_after(error: ProviderError, *, number: int, budget: Budget, seconds_left: float) -> float | None:
    """Return how long to wait after attempt `number` (from 0) failed; None where no other attempt may follow."""
    attempts = min(budget.attempts, MAX_BAD_ANSWERS) if isinstance(error, BadAnswer) else budget.attempts
    pause = error.retry_after_seconds
    if pause is None:
        pause = FIRST_PAUSE_SECONDS * float(2**number)
    if error.permanent or number + 1 >= attempts or pause > min(MAX_PAUSE_SECONDS, seconds_left):
        return None
    return pause


def deadline_passed() -> ProviderTimeout:
    return ProviderTimeout("The provider did not answer before the deadline.", code="timeout")


MIN_CUT_TOKENS = 2_000
MIN_SHARE_READ = 0.5
"""Share of our own count, which can be off by a third, that a server reports to have read at least."""

PROBE_SECONDS = 5.0
MAX_ANSWER_BYTES = 64 * 1024 * 1024


class Body(Protocol):
    """The part of both SDKs' responses that is used here."""

    def iter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]: ...


Exchange = AbstractAsyncContextManager[Body]


class RemoteProvider(LLMProvider):
    """Asks a server; the vendors differ in what they send and in how they write their answers."""

    sdk: ClassVar[ModuleType]
    requires_final_event: ClassVar[bool]
    """A stream that lacks the vendor's final event counts as cut, even after a reason to stop."""

    def __init__(self, config: LLMConfig, *, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or Clock()
        self._certificates: ssl.SSLContext = httpx2.create_ssl_context()

    def model_for(self, operation: Operation) -> str:
        return self._config.model_for(operation) or default_model(self.name, operation)

    def context_window(self, operation: Operation) -> int | None:
        return self._config.windows.get(operation)

    def complete(self, request: CompletionRequest, *, on_failed: OnFailed = ignore_failure) -> Completion:
        def attempt(seconds: float) -> Completion:
            content = run(self._body(self._open(request, seconds, stream=False), seconds))
            draft = self._read(parse_object(content))
            self._check_reading(request, draft)
            return completion(draft, request, model=self.model_for(request.operation))

        return call_with_retries(self._budget(request), attempt, self._clock, on_failed)

    async def stream(
        self, request: CompletionRequest, *, on_failed: OnFailed = ignore_failure
    ) -> AsyncIterator[Delta | Completion]:
        budget = self._budget(request)
        ends_at = self._clock.now() + budget.deadline_seconds
        for number in range(budget.attempts):
            has_begun = False
            try:
                async with aclosing(self._streamed(request, ends_at)) as pieces:
                    async for piece in pieces:
                        has_begun = True
                        yield piece
                return
            except ProviderError as error:
                remaining = ends_at - self._clock.now()
                pause = pause_after(error, number=number, budget=budget, seconds_left=remaining)
                if has_begun or pause is None:
                    raise
                on_failed(error, pause)
            await self._clock.sleep_in_loop(pause)
        raise deadline_passed()

    def _check_reading(self, request: CompletionRequest, draft: Draft) -> None:
        """Raise ProviderMisconfigured where a self-hosted server reports that it read only a part of the request.

        Ollama cuts the beginning, which has the instructions, and answers what is left.
        """
        if not self._config.base_url or draft.input_tokens is None or any(map(is_image, request.blocks)):
            return
        # Tools and schemas are left out, which not every server counts.
        sent = sum(count_raw(text) for block in request.blocks if isinstance(text := block.get("text"), str))
        read = draft.input_tokens
        if sent > MIN_CUT_TOKENS and read < MIN_SHARE_READ * sent:
            raise ProviderMisconfigured(
                stored_text(
                    "The server read {read} of about {sent} tokens, and cut the beginning. Give the model a larger "
                    "context window (Ollama: OLLAMA_CONTEXT_LENGTH; llama.cpp: --ctx-size; LM Studio: context length).",
                    read=f"{read:,}",
                    sent=f"{sent:,}",
                ),
                code="cut_request",
            )

    def probe(self) -> None:
        """Ask for the list of models, which costs nothing. Raises ProviderError."""
        seconds = PROBE_SECONDS
        listed = parse_object(run(self._body(self._models(seconds), seconds)))
        if not isinstance(listed.get("data"), list):
            raise BadAnswer("The provider answered with something that is no list of models.", code="not_models")

    @abstractmethod
    def _client(self) -> Any:
        """Return a new client of the vendor's SDK."""

    @abstractmethod
    def _open(self, request: CompletionRequest, seconds: float, *, stream: bool) -> Exchange:
        """Send a request; its answer is read while the exchange is open."""

    @abstractmethod
    def _models(self, seconds: float) -> Exchange:
        """Open the exchange that lists the models."""

    @abstractmethod
    def _read(self, message: Any) -> Draft:
        """Return the parts of a whole answer, whatever shape it has."""

    @abstractmethod
    def _take(self, draft: Draft, event: Event) -> str:
        """Add an event of a stream to the draft and return the text in it. Raises ProviderError."""

    @asynccontextmanager
    async def _exchange(self, call: Callable[[Any], Exchange]) -> AsyncIterator[Body]:
        """Open a call of a client that lives as long as the call."""
        async with self._client() as client, call(client) as body:
            yield body

    def _budget(self, request: CompletionRequest) -> Budget:
        """Return the time limits of a call. A background call to a slow server gets all of its time for one answer.

        Asked again after a timeout, the server would write two answers at once.
        """
        slowest = self._config.seconds_for(request.operation, 0.0)
        return Budget(request.deadline_seconds, max(slowest, self._config.attempt_timeout_seconds))

    async def _body(self, exchange: Exchange, seconds: float) -> bytes:
        with translate_sdk_errors(self.sdk):
            return await _in_time(seconds, _whole(exchange))

    async def _streamed(self, request: CompletionRequest, ends_at: float) -> AsyncGenerator[Delta | Completion, None]:
        draft = Draft()
        now, stall_seconds = self._clock.now, self._budget(request).attempt_timeout_seconds
        exchange = self._open(request, min(stall_seconds, ends_at - now()), stream=True)
        with translate_sdk_errors(self.sdk):
            async with aclosing(_events(exchange, now, stall_seconds, ends_at)) as events:
                async for event in events:
                    draft.has_begun = True
                    if piece := self._take(draft, event):
                        yield Delta(piece)
                    if draft.has_ended:
                        break
        if not draft.has_begun:
            raise BadAnswer("The provider answered with something that is no stream.", code="not_a_stream")
        if not draft.has_ended and (self.requires_final_event or draft.stop is None):
            raise BadAnswer("The provider's answer ended before its end.", code="cut_stream")
        yield completion(draft, request, model=self.model_for(request.operation))


async def _events(
    exchange: Exchange, now: Callable[[], float], stall_seconds: float, ends_at: float
) -> AsyncGenerator[Event, None]:
    """Yield the events of a stream. Raises ProviderTimeout where none comes in time; a ping is none."""
    decoder, size, stalls_at = EventDecoder(), 0, now() + stall_seconds

    def seconds_left() -> float:
        return min(stalls_at, ends_at) - now()

    async with AsyncExitStack() as stack:
        body = await _in_time(seconds_left(), stack.enter_async_context(exchange))
        chunks = await stack.enter_async_context(aclosing(_chunks(body)))
        while chunk := await _in_time(seconds_left(), anext(chunks, b"")):
            size = _checked(size + len(chunk))
            for event in decoder.feed(chunk):
                if event.name != "ping":
                    yield event
                    stalls_at = now() + stall_seconds  # after the yield: a slow reader is not the provider's fault


async def _whole(exchange: Exchange) -> bytes:
    content = bytearray()
    async with exchange as body, aclosing(_chunks(body)) as chunks:
        async for chunk in chunks:
            content += chunk
            _checked(len(content))
    return bytes(content)


def _chunks(body: Body) -> AsyncGenerator[bytes, None]:
    return cast("AsyncGenerator[bytes, None]", body.iter_bytes())


def _checked(size: int) -> int:
    if size > MAX_ANSWER_BYTES:
        raise BadAnswer("The provider's answer is too large.", code="too_large", permanent=True)
    return size


async def _in_time(seconds: float, awaited: Awaitable[Result]) -> Result:
    """Return what is awaited. Raises ProviderTimeout when the seconds are over."""
    try:
        async with asyncio.timeout(max(seconds, 0.0)):
            return await awaited
    except TimeoutError:
        raise ProviderTimeout("The provider did not answer in time.", code="timeout") from None


def run(answer: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in this thread, in a new loop.

    Not `asyncio.run`: at its end that waits for the resolver's thread, however long a name takes to be found.
    """
    loop = asyncio.new_event_loop()
    task = loop.create_task(answer)
    try:
        return loop.run_until_complete(task)
    finally:
        if task.cancel():  # the wait ended otherwise, such as by a signal
            loop.run_until_complete(asyncio.wait({task}))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
