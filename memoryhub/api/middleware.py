"""Request limits, request log, language selection, and one thread hop per ASGI request."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from contextvars import copy_context
from functools import partial
from typing import IO, Any, Final

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.signals import request_started
from django.db import InternalError, OperationalError, close_old_connections
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.middleware.locale import LocaleMiddleware
from django.urls import set_script_prefix
from django.utils import timezone, translation

from memoryhub.api.problems import READ_ONLY, payload_too_large, plain_problem, send_problem, too_many_requests
from memoryhub.api.protocol import HEALTH_PATH, RETRY_AFTER_SECONDS, LimitedProtocol
from memoryhub.auth.principals import Principal, key_digest
from memoryhub.db.limits import is_read_only
from memoryhub.db.pool import answering, leave_server, turn, turns
from memoryhub.db.replicas import noting
from memoryhub.db.turns import TooManyRequests
from memoryhub.telemetry.spans import name_request
from memoryhub.validators import text_problem
from memoryhub.zones import DisplayZone, is_zone

log = logging.getLogger("memoryhub.requests")
Handler = Callable[[HttpRequest], HttpResponse]
API = "/api/"


class RequestLimits:
    """Reject oversized bodies and unstorable URLs; log ids and durations, never texts."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        try:
            response = self._refusal(request) or self.get_response(request)
        except OperationalError:
            # Django handles exceptions of views; this one comes from another middleware (sessions).
            response = plain_problem(503, "database_unavailable", "The database is away.", retry_after_seconds=2)
        except InternalError as error:
            refusal = self.process_exception(request, error)  # raised where a session is saved
            if refusal is None:
                raise
            response = refusal
        if response.status_code == 304 and "Content-Length" in response:
            # Django's is 0; it must be that of the whole answer, or absent (RFC 9110, section 8.6).
            del response["Content-Length"]
        elapsed_ms = (time.perf_counter() - started) * 1000
        response["Server-Timing"] = f"app;dur={elapsed_ms:.1f}"
        if request.path.startswith(API) or (request.resolver_match and request.path not in WITHOUT_TURN):
            values = {
                "method": request.method,
                "route": getattr(request.resolver_match, "route", "") if request.resolver_match else "",
                "status": response.status_code,
                "ms": round(elapsed_ms, 1),
                "client": request.META.get("REMOTE_ADDR", ""),
            }
            log.info("request", extra=values | _caller(request, response))
            name_request(str(request.method), values["route"])
        return response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Answer a page that writes while the database takes no writes; None for other errors."""
        if not is_read_only(error):
            return None
        leave_server()
        return plain_problem(503, "database_read_only", READ_ONLY, retry_after_seconds=RETRY_AFTER_SECONDS)

    def _refusal(self, request: HttpRequest) -> HttpResponse | None:
        if "Transfer-Encoding" in request.headers and "Content-Length" not in request.headers:
            # REST framework treats a body without a length as empty.
            request.META["CONTENT_LENGTH"] = str(len(request.body))
        try:
            length = int(request.headers.get("Content-Length") or 0)
        except ValueError:
            return plain_problem(400, "bad_request", "Content-Length is not a number.")
        if length > settings.MAX_BODY_BYTES:
            return plain_problem(413, "payload_too_large", f"A body may have {settings.MAX_BODY_BYTES} bytes.")
        query = [("query", word) for key, values in request.GET.lists() for word in (key, *values)]
        for part, text in (("path", request.path), *query):
            if problem := text_problem(text):
                return plain_problem(400, "bad_request", f"{part}: {problem}")
        return None


def _caller(request: HttpRequest, response: HttpResponse) -> dict[str, str]:
    """Return the key of an API call, or the account of a page; neither where there is none or it was not loaded."""
    user: object = getattr(request, "user", None)
    if isinstance(user, Principal):
        return {"key": user.id}
    session = getattr(request, "session", None)
    if session is None or response.status_code >= 500 or not session.accessed:
        return {}
    account = session.get(SESSION_KEY)
    return {"account": str(account)} if account else {}


WITHOUT_TURN: Final = frozenset({HEALTH_PATH, "/readyz", "/metrics"})
"""What watches the server is answered at once, outside the pool of connections, and not logged."""


TIME_ZONE_COOKIE: Final = "memoryhub_time_zone"
"""The zone that a person chose."""

BROWSER_ZONE_COOKIE: Final = "memoryhub_browser_zone"
"""The zone of the browser's clock, which a script of every page sets."""


def browser_zone(request: HttpRequest) -> str:
    """Return the zone of the browser's clock, the installation's where it is not known."""
    zone = request.COOKIES.get(BROWSER_ZONE_COOKIE, "")
    return zone if is_zone(zone) else settings.TIME_ZONE


class LocaleAndZoneMiddleware(LocaleMiddleware):
    """Use the browser's language and time zone, or those chosen, for pages; English and the installation's for the API.

    DRF's validation messages would otherwise differ in language from our own.
    """

    def process_request(self, request: HttpRequest) -> None:
        if not request.path.startswith(API):
            chosen = request.COOKIES.get(TIME_ZONE_COOKIE, "")
            timezone.activate(DisplayZone(chosen if is_zone(chosen) else browser_zone(request)))
            super().process_request(request)
            return
        timezone.activate(DisplayZone(settings.TIME_ZONE))
        translation.activate("en")
        request.LANGUAGE_CODE = translation.get_language()

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not request.path.startswith(API):
            return super().process_response(request, response)
        response.headers.setdefault("Content-Language", "en")
        return response


Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Any, Any], Awaitable[None]]


class BodyLimit:
    """ASGI middleware: answers 413 as soon as a body has grown past the limit."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            # After a disconnect, Django discards the body that it has read, and sends no response.
            return message if received <= settings.MAX_BODY_BYTES else {"type": "http.disconnect"}

        await self.application(scope, counted, send)
        if received > settings.MAX_BODY_BYTES:
            error = payload_too_large()
            code, detail = str(error.get_codes()), str(error.detail)
            await send_problem(send, error.status_code, code, detail, (b"connection", b"close"))


def caller_of(scope: Message) -> str:
    """Return the name of a request's caller for its turns: of its key, else of its session, else of its address."""
    headers = dict(reversed(scope["headers"]))  # the first of a name
    words = headers.get(b"authorization", b"").split() or headers.get(b"x-api-key", b"").split()
    if words:
        return key_digest(words[-1].decode("latin-1"))  # alike however `Bearer` is spelled
    return headers.get(b"cookie", b"").decode("latin-1") or (scope.get("client") or ("",))[0]


LARGE_BODY: Final = 100_000
READ_SECONDS_PER_BYTE: Final = 4e-9
"""Processor time of the server's loop for reading a body: 4 ms a megabyte."""


def _declared_size(scope: Message) -> int:
    """Return the bytes of the body that a request announces; LARGE_BODY where it has one of unknown length."""
    headers = dict(scope["headers"])
    size = headers.get(b"content-length", b"")
    return int(size) if size.isdigit() else LARGE_BODY if b"transfer-encoding" in headers else 0


class CompressPages(GZipMiddleware):
    """Compress HTML pages: a list of 50 rows takes a twentieth.

    Answers of the API are small, and streams would be held back. Against attacks by size (BREACH) Django adds random
    bytes, and pages mask their tokens anew each time.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if response.streaming or not response.get("Content-Type", "").startswith("text/html"):
            return response
        return super().process_response(request, response)


class OneHopHandler(ASGIHandler):
    """Runs all of a request in one thread of a pool, as a WSGI server would; answers that stream are sent by the loop.

    Our views and most middleware are synchronous. Django's own handler makes a thread for each request, and hops into
    it and back for the signals at both ends, the view and each asynchronous middleware: 1.2 ms of every request.
    """

    def __init__(self) -> None:
        super().__init__()
        self._threads = ThreadPoolExecutor(LimitedProtocol.max_requests, "request")

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        caller = caller_of(scope)
        try:
            body = await self._read(scope, receive, caller)
        except RequestAborted:
            return
        with closing(body):
            # In a copy of the task's context, which has the request's id; a thread's own would stay from before.
            run: Any = copy_context().run
            in_thread = partial(asyncio.get_running_loop().run_in_executor, self._threads, run)
            response, acts = await in_thread(self._respond_first, scope, body, caller)
            if not response.streaming:
                await self.send_response(response, send)
            else:
                async with ThreadSensitiveContext():
                    await self._stream(response, receive, send)
            if acts:
                await in_thread(self._do, acts)

    async def _read(self, scope: Message, receive: Receive, caller: str) -> IO[bytes]:
        """Return the body; wait for a large one and charge for it, as reading it takes the processor from all others.

        Raises RequestAborted where the client disconnects.
        """
        declared, read = _declared_size(scope), 0
        if declared < LARGE_BODY:
            return await self.read_body(receive)

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            return message

        while pause := turns().pause(caller):
            await asyncio.sleep(pause)
        turns().charge(caller, READ_SECONDS_PER_BYTE * min(declared, settings.MAX_BODY_BYTES))
        try:
            return await self.read_body(counted)
        finally:
            turns().charge(caller, READ_SECONDS_PER_BYTE * max(0, read - declared))

    def _respond_first(self, scope: Any, body: IO[bytes], caller: str) -> tuple[Any, list[Callable[[], None]]]:
        """Return the response, and the functions to call after it is sent."""
        with answering() as acts:
            if scope["path"] in WITHOUT_TURN:
                return self._respond(scope, body), acts
            try:
                with turn(caller):
                    return self._respond(scope, body), acts
            except TooManyRequests:
                log.info("request", extra={"method": scope["method"], "route": "", "status": 429, "ms": 0.0})
                return plain_problem(429, *too_many_requests(), retry_after_seconds=RETRY_AFTER_SECONDS), acts

    def _do(self, acts: list[Callable[[], None]]) -> None:
        for act in acts:
            try:
                with noting():  # the answer did not promise it
                    act()
            except Exception as error:
                log.error("work after an answer failed", extra={"error": type(error).__name__})
        close_old_connections()

    def _respond(self, scope: Any, body: IO[bytes]) -> Any:
        """Return the response; unless it streams, end the request and return its connection."""
        set_script_prefix(get_script_prefix(scope))
        request_started.send(sender=type(self), scope=scope)
        request, refusal = self.create_request(scope, body)
        response: Any = refusal if request is None else self.get_response(request)
        if not response.streaming:
            response.close()
            # Request, view and response refer to each other; with its rows they would wait for the garbage collector,
            # which stops all requests for as long as it takes them.
            response.data = None
        close_old_connections()  # explicitly, as signal handlers may be absent: the thread is reused
        return response

    async def _stream(self, response: HttpResponseBase, receive: Receive, send: Any) -> None:
        """Send a streaming response until it ends or the client disconnects."""
        sending = asyncio.create_task(self.send_response(response, send))
        disconnect = asyncio.create_task(self.listen_for_disconnect(receive))
        await asyncio.wait((sending, disconnect), return_when=asyncio.FIRST_COMPLETED)
        sending.cancel()
        disconnect.cancel()
        outcome, _disconnect = await asyncio.gather(sending, disconnect, return_exceptions=True)
        await sync_to_async(response.close)()
        if isinstance(outcome, Exception):
            raise outcome
