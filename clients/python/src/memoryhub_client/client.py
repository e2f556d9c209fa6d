"""The two clients, synchronous and asynchronous: the same operations, sent in their own way."""

import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any, Literal, Self, TypedDict, TypeVar, Unpack, cast, overload

import anyio
import httpx2

from memoryhub_client import types as t
from memoryhub_client.methods import operation
from memoryhub_client.operations import Operations
from memoryhub_client.transport import (
    USER_AGENT,
    Attempts,
    Call,
    ExportLines,
    Prepared,
    Result,
    RetryPolicy,
    StreamedAnswer,
    path,
    result_of,
)

Row = TypeVar("Row")
ChatEvent = tuple[str, dict[str, Any]]
"""`session` (`session_id`, `message_id`), `delta` (`text`) for each piece, then `done` with the whole `Chat`."""

DEFAULT_TIMEOUT = httpx2.Timeout(60.0, connect=5.0)
CHAT_TIMEOUT = httpx2.Timeout(600.0, connect=5.0)


class Settings(TypedDict, total=False):
    """Settings of a client. `agent_id` and `user_id` are used wherever a call names none."""

    agent_id: str
    user_id: str
    timeout: float | httpx2.Timeout
    retries: RetryPolicy


class _Client(Operations):
    """Settings that both clients share."""

    def __init__(self, **settings: Unpack[Settings]) -> None:
        self.agent_id = settings.get("agent_id")
        self.user_id = settings.get("user_id")
        self.retries = settings.get("retries", RetryPolicy())

    @operation
    def actor_erase(self, *, user_id: str, agent_id: str | None = None, vacuum: bool = False) -> Call[t.Erased]:
        """Erase a user everywhere; return how many rows of each table went, and how many stay without the user."""
        query = {"user_id": user_id, "agent_id": agent_id, "vacuum": vacuum or None}
        return Call("DELETE", path("actors"), query, tenant="query")

    def _prepared(self, call: Call[Any]) -> Prepared:
        return call.prepared(agent_id=self.agent_id, user_id=self.user_id)

    def _chat_call(self, fields: Any, *, is_streamed: bool) -> Prepared:
        body = {**fields, "stream": True} if is_streamed else fields
        return self._prepared(Call("POST", path("chat"), body=body, tenant="body"))

    def _export_call(self, whose: Any) -> Prepared:
        return self._prepared(Call("GET", path("actors", "export"), whose, tenant="query"))


def _connection(base_url: str, api_key: str, settings: Settings) -> dict[str, Any]:
    """Return the arguments of the HTTP client. Raises ValueError for what no server or key can be."""
    if not base_url.startswith(("http://", "https://")):
        raise ValueError(f"The address {base_url!r} must begin with http:// or https://.")
    if not api_key or not api_key.isascii() or any(letter <= " " for letter in api_key):
        raise ValueError("The API key must be the text that begins with mh_, without spaces. It is shown once.")
    return {
        "base_url": base_url.rstrip("/").removesuffix("/api/v1"),
        "headers": {"Authorization": f"Bearer {api_key}", "User-Agent": USER_AGENT},
        "timeout": settings.get("timeout", DEFAULT_TIMEOUT),
    }


class Memoryhub(_Client):
    """Client of one memoryhub server; thread-safe. Close it, or use it as a context manager."""

    def __init__(self, base_url: str, api_key: str, **settings: Unpack[Settings]) -> None:
        super().__init__(**settings)
        self._http = httpx2.Client(**_connection(base_url, api_key, settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _send(self, call: Call[Result]) -> Result:
        return cast(Result, result_of(self._answer(self._prepared(call))))

    def _answer(self, call: Prepared, **options: Any) -> httpx2.Response:
        attempts = Attempts(call, self.retries)
        while True:
            try:
                response = self._http.request(**call.arguments(), **options)
            except httpx2.TransportError as failure:
                wait: float | None = attempts.wait_after_failure(failure)
            else:
                wait = attempts.wait_after_answer(response)
            if wait is None:
                return response
            time.sleep(wait)

    def _pages(self, call: Call[Row]) -> Iterator[Row]:
        prepared: Prepared | None = self._prepared(call)
        while prepared is not None:
            page = result_of(self._answer(prepared))
            yield from page["results"]
            prepared = prepared.next_page(page)

    @overload
    def chat(self, *, stream: Literal[True], **fields: Unpack[t.ChatIn]) -> Iterator[ChatEvent]: ...
    @overload
    def chat(self, *, stream: Literal[False] = False, **fields: Unpack[t.ChatIn]) -> t.Chat: ...
    def chat(self, *, stream: bool = False, **fields: Any) -> Any:
        """Store a message, have a model answer it with what is remembered, and store the answer.

        With `stream` the answer comes as events while it is written. A stream that breaks is taken up again: the server
        goes on with the answer, and a repeat gets its text.
        """
        call = self._chat_call(fields, is_streamed=stream)
        return self._events(call) if stream else result_of(self._answer(call, timeout=CHAT_TIMEOUT))

    def _events(self, call: Prepared) -> Iterator[ChatEvent]:
        attempts, answer = Attempts(call, self.retries), StreamedAnswer()
        while not answer.is_over:
            try:
                with self._http.stream(**call.arguments(), timeout=CHAT_TIMEOUT) as response:
                    if not response.is_success:
                        response.read()
                    if (wait := attempts.wait_after_answer(response)) is None:
                        answer.begin()
                        for event in httpx2.EventSource(response, max_event_size=None):
                            yield from answer.taken(event.event, event.json())
                        answer.check_over()
                        return
            except httpx2.TransportError as failure:
                wait = attempts.wait_after_failure(failure)
            time.sleep(wait)

    def actor_export(self, **whose: Unpack[t.Whose]) -> Iterator[dict[str, Any]]:
        """Return everything of a user, line by line. Raises AnswerLost at the end where it broke off."""
        call, lines = self._export_call(whose), ExportLines()
        attempts = Attempts(call, RetryPolicy(attempts=1))
        try:
            with self._http.stream(**call.arguments()) as response:
                if not response.is_success:
                    response.read()
                attempts.wait_after_answer(response)
                yield from map(lines.parsed, response.iter_lines())
                lines.check_over()
        except httpx2.TransportError as failure:
            attempts.wait_after_failure(failure)


class AsyncMemoryhub(_Client):
    """Client of one memoryhub server for asyncio and trio. Close it, or use it as a context manager."""

    def __init__(self, base_url: str, api_key: str, **settings: Unpack[Settings]) -> None:
        super().__init__(**settings)
        self._http = httpx2.AsyncClient(**_connection(base_url, api_key, settings))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def _send(self, call: Call[Result]) -> Result:
        return cast(Result, result_of(await self._answer(self._prepared(call))))

    async def _answer(self, call: Prepared, **options: Any) -> httpx2.Response:
        attempts = Attempts(call, self.retries)
        while True:
            try:
                response = await self._http.request(**call.arguments(), **options)
            except httpx2.TransportError as failure:
                wait: float | None = attempts.wait_after_failure(failure)
            else:
                wait = attempts.wait_after_answer(response)
            if wait is None:
                return response
            await anyio.sleep(wait)

    async def _pages(self, call: Call[Row]) -> AsyncIterator[Row]:
        prepared: Prepared | None = self._prepared(call)
        while prepared is not None:
            page = result_of(await self._answer(prepared))
            for row in page["results"]:
                yield row
            prepared = prepared.next_page(page)

    @overload
    def chat(self, *, stream: Literal[True], **fields: Unpack[t.ChatIn]) -> AsyncIterator[ChatEvent]: ...
    @overload
    def chat(self, *, stream: Literal[False] = False, **fields: Unpack[t.ChatIn]) -> Awaitable[t.Chat]: ...
    def chat(self, *, stream: bool = False, **fields: Any) -> Any:
        """Like `Memoryhub.chat`; with `stream` an asynchronous iterator of events, without one an awaitable."""
        call = self._chat_call(fields, is_streamed=stream)
        return self._events(call) if stream else self._chat(call)

    async def _chat(self, call: Prepared) -> Any:
        return result_of(await self._answer(call, timeout=CHAT_TIMEOUT))

    async def _events(self, call: Prepared) -> AsyncIterator[ChatEvent]:
        attempts, answer = Attempts(call, self.retries), StreamedAnswer()
        while not answer.is_over:
            try:
                async with self._http.stream(**call.arguments(), timeout=CHAT_TIMEOUT) as response:
                    if not response.is_success:
                        await response.aread()
                    if (wait := attempts.wait_after_answer(response)) is None:
                        answer.begin()
                        async for event in httpx2.EventSource(response, max_event_size=None):
                            for each in answer.taken(event.event, event.json()):
                                yield each
                        answer.check_over()
                        return
            except httpx2.TransportError as failure:
                wait = attempts.wait_after_failure(failure)
            await anyio.sleep(wait)

    async def actor_export(self, **whose: Unpack[t.Whose]) -> AsyncIterator[dict[str, Any]]:
        """Return everything of a user, line by line. Raises AnswerLost at the end where it broke off."""
        call, lines = self._export_call(whose), ExportLines()
        attempts = Attempts(call, RetryPolicy(attempts=1))
        try:
            async with self._http.stream(**call.arguments()) as response:
                if not response.is_success:
                    await response.aread()
                attempts.wait_after_answer(response)
                async for line in response.aiter_lines():
                    yield lines.parsed(line)
                lines.check_over()
        except httpx2.TransportError as failure:
            attempts.wait_after_failure(failure)
