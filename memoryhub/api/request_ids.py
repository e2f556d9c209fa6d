"""ASGI middleware: a request's id, its `X-Request-ID` or a new one, is in all log lines and in the answer."""

import re
from typing import Any, Final

from memoryhub.ids import new_id
from memoryhub.logs import REQUEST_ID

HEADER: Final = b"x-request-id"
USABLE: Final = re.compile(rb"[A-Za-z0-9_.:-]{1,64}")
"""Ids of clients that are taken as they are; others could forge log lines, or fill them."""


class RequestIds:
    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        sent = dict(scope["headers"]).get(HEADER, b"")
        request_id = sent if USABLE.fullmatch(sent) else new_id().hex.encode()
        REQUEST_ID.set(request_id.decode())  # the server runs each request in a task with its own context

        async def send_with_id(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (HEADER, request_id)]}
            await send(message)

        await self.application(scope, receive, send_with_id)
