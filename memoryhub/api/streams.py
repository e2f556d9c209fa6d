"""A limit on bodies that come in pieces, without a Content-Length.

Django collects such a body on disk, however long it is, before it looks at any limit of its own.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings

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
        """Pass the request on, counting what is received."""
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
