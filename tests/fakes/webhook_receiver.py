"""A real HTTP server on loopback that receives webhooks and verifies them with the library of Standard Webhooks.

with WebhookReceiver() as receiver:
    receiver.answer = lambda got: 500      # from now on; an int, or a function of what came
    … deliveries to receiver.url
    receiver.got[0].body["type"]
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from standardwebhooks import Webhook


@dataclass(frozen=True)
class Got:
    """One request: its path, headers and body, and when it came."""

    path: str
    headers: Mapping[str, str]
    data: bytes
    at: float = field(default_factory=time.time)

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.data)

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def verify(self, secret: str) -> Any:
        """Return the body, if the secret signed it; raises WebhookVerificationError."""
        return Webhook(secret).verify(self.data, dict(self.headers))


class WebhookReceiver:
    """Answers 204 to all, or as `answer` says; `hangs` keeps every request waiting until the receiver is closed."""

    def __init__(self, *, host: str = "127.0.0.1", headers: Mapping[str, str] | None = None) -> None:
        self.got: list[Got] = []
        self.answer: Callable[[Got], int] | int = 204
        self.hangs = False
        self.headers = headers or {}
        self._closed = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                data = self.rfile.read(length)
                if len(data) < length:  # the sender was killed
                    self.close_connection = True
                    return
                got = Got(self.path, {name.lower(): value for name, value in self.headers.items()}, data)
                if receiver.hangs:
                    receiver._closed.wait()
                    self.close_connection = True
                    return
                answer = receiver.answer
                status = answer(got) if callable(answer) else answer
                receiver.got.append(got)
                self.send_response(status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None: ...

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args: Any) -> None: ...

        self._server = Server((host, 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://{host}:{self.port}/hook"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()
