"""The real web server over the test's database, for what only a real one does: answers that are streamed."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from django.db import connections

from memoryhub.api.middleware import BodyLimit, OneHopHandler
from memoryhub.api.protocol import LimitedProtocol
from memoryhub.api.request_ids import RequestIds
from memoryhub.mcp.application import McpApplication
from memoryhub.telemetry.requests import traced


@dataclass(frozen=True)
class Web:
    """Where it listens."""

    url: str


@contextmanager
def serving(protocol: type[LimitedProtocol] = LimitedProtocol) -> Iterator[Web]:
    """Serve on a free port of loopback, in a thread of this process; its connections end with their requests."""
    values = connections.settings["default"]
    kept = values["CONN_MAX_AGE"]
    values["CONN_MAX_AGE"] = 0
    application = RequestIds(traced(McpApplication(BodyLimit(OneHopHandler()))))
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            host="127.0.0.1",
            port=0,
            http=protocol,
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
        )
    )
    thread = threading.Thread(target=server.run, name="web")
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Web(f"http://127.0.0.1:{port}")
    finally:
        server.should_exit = True
        thread.join()
        values["CONN_MAX_AGE"] = kept
