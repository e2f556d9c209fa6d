"""ASGI layer: one thread hop per request, and a limit on bodies without Content-Length."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from memoryhub.api.problems import PROBLEM_JSON, PayloadTooLarge, problem

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
            # Django deletes what it has collected, and answers nothing, where the client seems to be gone.
            return message if received <= settings.MAX_BODY_BYTES else {"type": "http.disconnect"}

        await self.application(scope, counted, send)
        if received > settings.MAX_BODY_BYTES:
            await _refuse(send)


async def _refuse(send: Send) -> None:
    error = PayloadTooLarge()
    body = problem(status_code=error.status_code, code="payload_too_large", detail=str(error.detail))
    headers = [(b"content-type", PROBLEM_JSON.encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": error.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


class OneHopHandler(ASGIHandler):
    """Runs all of a request in one thread, answers that stream excepted: these are sent by the loop.

    Our views and most middleware are synchronous. Django's own handler takes what middleware it can into the
    loop, and hops into a thread and back for each of its hooks and for the view; that took 2 ms of every request.
    """

    def load_middleware(self, is_async: bool = False) -> None:
        super().load_middleware(is_async=False)

    async def get_response_async(self, request: HttpRequest) -> HttpResponseBase:
        """Return the chain's answer, from a thread of this request's own."""
        response: HttpResponseBase = await sync_to_async(self.get_response, thread_sensitive=True)(request)
        return response
