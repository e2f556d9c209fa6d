"""A proxy on loopback that breaks calls on purpose, before or after the server behind it has seen them."""

import http.client
import random
import socket
import struct
import threading
from collections import Counter, deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

FAULTS = ("refused", "throttled", "unavailable", "lost", "cut", "reset", "gateway")
"""The first three before the server sees the call, the others after it has answered."""


class FaultyProxy(ThreadingHTTPServer):
    """Context manager around the proxy. Of the calls, `share` fail, in an order that `seed` decides."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, upstream: str, *, share: float, seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urlsplit(upstream)
        self.share = share
        self.faults: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._first: deque[str | None] = deque()
        self._lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, name="proxy").start()
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()

    def then(self, *faults: str | None) -> None:
        """Do these to the next calls, in order, before chance decides."""
        self._first.extend(faults)

    def next_fault(self) -> tuple[str | None, float]:
        """Return what happens to a call (None: nothing), and after which part of the answer it is cut."""
        with self._lock:
            fault = self._random.choice(FAULTS) if self._random.random() < self.share else None
            fault = self._first.popleft() if self._first else fault
            if fault:
                self.faults[fault] += 1
            return fault, self._random.random()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # connections that were broken on purpose


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: FaultyProxy

    def log_message(self, *args: object) -> None:
        pass

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault, part = self.server.next_fault()
        match fault:
            case "refused":
                return self.drop()
            case "throttled":
                return self.refuse(429, "throttled")
            case "unavailable":
                return self.refuse(503, "database_unavailable")
        status, headers, answer = self.forwarded(body)
        match fault:
            case "lost":
                return self.drop()
            case "reset":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return self.drop()
            case "gateway":
                return self.send(502, {"Content-Type": "text/html"}, b"<h1>Bad Gateway</h1>")
            case "cut":
                return self.send(status, headers, answer, cut_at=int(len(answer) * part))
        return self.send(status, headers, answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    def forwarded(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        upstream = http.client.HTTPConnection(self.server.upstream.hostname or "", self.server.upstream.port)
        try:
            upstream.request(self.command, self.path, body, dict(self.headers))
            answer = upstream.getresponse()
            hop = ("connection", "transfer-encoding", "content-length", "keep-alive")
            headers = {name: value for name, value in answer.getheaders() if name.lower() not in hop}
            return answer.status, headers, answer.read()
        finally:
            upstream.close()

    def drop(self) -> None:
        self.close_connection = True
        self.connection.close()

    def refuse(self, status: int, code: str) -> None:
        body = f'{{"status": {status}, "code": "{code}", "detail": "On purpose."}}'.encode()
        self.send(status, {"Content-Type": "application/problem+json", "Retry-After": "0"}, body)

    def send(self, status: int, headers: dict[str, str], body: bytes, *, cut_at: int | None = None) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:cut_at])
        if cut_at is not None:
            self.drop()
