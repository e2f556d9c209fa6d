"""ASGI middleware: a span for each request, which continues the caller's trace; its id is in the answer's headers."""

from typing import Any, Final

from memoryhub.logs import REQUEST_ID, TRACE_ID
from memoryhub.telemetry.spans import is_tracing, root, send_rest

HEADER: Final = b"x-trace-id"
UNTRACED: Final = frozenset({"/healthz", "/readyz", "/metrics"})
MCP: Final = "/mcp"


def traced(application: Any) -> Any:
    """Return the application with spans, if traces are sent; else as it is."""
    return TracedRequests(application) if is_tracing() else application


class TracedRequests:
    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await until_the_end(receive, send)
            return
        if scope["type"] != "http" or scope["path"] in UNTRACED:
            await self.application(scope, receive, send)
            return
        headers = dict(scope["headers"])
        method = scope["method"]
        attributes = {"http.request.method": method, "memoryhub.request.id": REQUEST_ID.get()}
        if scope["path"].startswith(MCP):  # Django, which knows the other routes, is not asked
            attributes["http.route"] = MCP
        with root(
            " ".join([method, *([MCP] if "http.route" in attributes else [])]),
            attributes,
            kind="server",
            traceparent=headers.get(b"traceparent", b"").decode("latin-1"),
            tracestate=headers.get(b"tracestate", b"").decode("latin-1"),
        ) as request:
            trace_id = TRACE_ID.get().encode()

            async def send_with_id(message: Any) -> None:
                if message["type"] == "http.response.start":
                    request.set({"http.response.status_code": message["status"]})
                    if message["status"] >= 500:
                        request.fail(str(message["status"]))
                    message = {**message, "headers": [*message["headers"], (HEADER, trace_id)]}
                await send(message)

            await self.application(scope, receive, send_with_id)


async def until_the_end(receive: Any, send: Any) -> None:
    """Answer the server's two events, and send the spans that are left at its end."""
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    send_rest()
    await send({"type": "lifespan.shutdown.complete"})
