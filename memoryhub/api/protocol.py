"""Time-outs and connection limits of the web server.

uvicorn 0.54 times out only connections that it has answered before, and its `--limit-concurrency` counts idle
connections, too, so that 200 of them block everybody. Here heads, bodies and reads of responses have deadlines, and
over the limit of connections, the one that has kept the server waiting longest is closed for the new one.
"""

import json
import resource
from asyncio import Transport
from collections import Counter
from typing import Any, Final

import h11
from asgiref.typing import ASGIReceiveCallable, ASGISendCallable, Scope
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from memoryhub.api.problems import PROBLEM_JSON, problem, send_problem

HEALTH_PATH: Final = "/healthz"
RESERVED_FILES: Final = 200
"""Descriptors that are left to the database, static files and spooled bodies."""

WANTED_FILES: Final = 4_096
RETRY_AFTER_SECONDS: Final = 2


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 with deadlines for heads, bodies and reading answers, and limits on connections and requests.

    Only connections that wait for their client are closed for others, never one whose request is being processed.
    """

    head_seconds = 10.0
    body_seconds = 20.0
    body_bytes_per_second = 16_384
    """Each so many bytes of a body give it another second."""
    unread_seconds = 60.0
    max_connections = 1_000
    max_per_address = 500
    max_requests = 500

    _timer: Any = None
    _unread_timer: Any = None
    _owed: Any = None
    waiting_since = _owed_since = 0.0
    _received = 0
    _is_surplus = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.waiting_since = self.loop.time()
        self._make_room()
        self._expect(h11.IDLE)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._expect(None)
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        self._received = len(data) + (self._received if self._owed is h11.SEND_BODY else 0)
        super().data_received(data)

    def handle_events(self) -> None:
        """Process received data and start the deadline of the next event. Also called for pipelined requests."""
        is_full = self._is_surplus or len(self.tasks) >= self.max_requests
        self.app = self._answer_busy if is_full else self.config.loaded_app
        super().handle_events()
        owed = self.conn.their_state
        if self.transport.is_closing() or owed not in (h11.IDLE, h11.SEND_BODY):
            self._expect(None)
        elif owed is not self._owed:
            self._expect(owed)

    def on_response_complete(self) -> None:
        self.waiting_since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_timer = self.loop.call_later(self.unread_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread_timer is not None:
            self._unread_timer.cancel()

    def send_400_response(self, msg: str) -> None:
        self._end_with(400, "bad_request", "This is not HTTP/1.1.")

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def is_waiting(self) -> bool:
        """True while the next bytes are due from the client."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing()

    def _make_room(self) -> None:
        """Over the limits, close the connection waiting longest for its client; without one, mark this as surplus."""
        connections = [connection for connection in self.connections if isinstance(connection, LimitedProtocol)]
        candidates = [connection for connection in connections if connection.address == self.address]
        if len(candidates) <= self.max_per_address:
            if len(connections) <= max_connections_for_files(self.max_connections):
                return
            [(busiest_address, _)] = Counter(connection.address for connection in connections).most_common(1)
            candidates = [connection for connection in connections if connection.address == busiest_address]
        waiting = [connection for connection in candidates if connection is not self and connection.is_waiting]
        if waiting:
            min(waiting, key=lambda connection: connection.waiting_since).hang_up()
        else:
            self._is_surplus = True

    def _expect(self, owed: Any) -> None:
        """Start the clock for a head (`IDLE`) or a body (`SEND_BODY`); None stops it."""
        if self._timer is not None:
            self._timer.cancel()
        self._owed, self._owed_since, self._timer = owed, self.loop.time(), None
        if owed is not None:
            self._timer = self.loop.call_later(self._seconds_left(), self._check_deadline)

    def _seconds_left(self) -> float:
        allowed = self.head_seconds
        if self._owed is h11.SEND_BODY:
            allowed = self.body_seconds + self._received / self.body_bytes_per_second
        return allowed - (self.loop.time() - self._owed_since)

    def _check_deadline(self) -> None:
        remaining = 1.0 if self.flow.read_paused else self._seconds_left()  # paused by the server, not by the client
        if remaining > 0:
            self._timer = self.loop.call_later(remaining, self._check_deadline)
        elif self._owed is h11.IDLE and not self.conn.trailing_data[0]:
            self.hang_up()
        else:
            self._end_with(408, "request_timeout", "The request did not arrive in time.")

    def _end_with(self, status: int, code: str, detail: str) -> None:
        """Send a problem, bypassing the application, unless its response has begun; then close."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if not (is_answering and self.cycle.response_started):
            body = json.dumps(problem(status_code=status, code=code, detail=detail)).encode()
            head = f"content-type: {PROBLEM_JSON}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            line = b"HTTP/1.1 %d %s\r\n" % (status, STATUS_PHRASES[status])
            self.transport.write(line + head.encode() + body)
        self.hang_up()

    def hang_up(self) -> None:
        """Close the connection, and wake an application that waits for the body."""
        self._expect(None)
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    async def _answer_busy(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] == "http" and scope["path"] == HEALTH_PATH:
            await self.config.loaded_app(scope, receive, send)
            return
        detail = "Too many requests are being worked on; try again shortly."
        headers = (b"retry-after", str(RETRY_AFTER_SECONDS).encode()), (b"connection", b"close")
        await send_problem(send, 503, "overloaded", detail, *headers)


def max_connections_for_files(limit: int) -> int:
    """Return how many connections fit into the process's limit of open files, `limit` at most."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit if files == resource.RLIM_INFINITY else min(limit, max(50, files - RESERVED_FILES))


def raise_file_limit() -> None:
    """Raise the soft limit of open files, which is 256 or 1024 on most systems; each connection takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
