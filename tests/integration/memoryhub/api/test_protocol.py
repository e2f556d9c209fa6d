"""The web server against clients that connect and say nothing, or little, or do not listen."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Event
from urllib.parse import urlsplit

import pytest

from memoryhub.api.protocol import LimitedProtocol
from tests.serving import Web, serving

HEAD = b"POST /api/v1/memories HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


class Hasty(LimitedProtocol):
    """Deadlines that pass soon, and leave a client on a busy machine time to say what a test has it say."""

    head_seconds = 5.0
    body_seconds = 0.3
    body_bytes_per_second = 100
    unread_seconds = 0.2


class Dropping(Hasty):
    """Says when a connection has ended."""

    ended = Event()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.ended.set()


class Crowded(LimitedProtocol):
    max_per_address = 4


class Overfull(LimitedProtocol):
    max_connections = 4


class Overworked(LimitedProtocol):
    max_requests = 0


@contextmanager
def connected(web: Web, *, buffer: int | None = None) -> Iterator[socket.socket]:
    with socket.socket() as client:
        if buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        client.settimeout(60)
        client.connect(("127.0.0.1", urlsplit(web.url).port))
        yield client


def heard(client: socket.socket) -> bytes:
    """Return all that comes until the server hangs up."""
    pieces = []
    while piece := client.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def asked(web: Web, path: str = "/healthz") -> bytes:
    with connected(web) as client:
        client.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % path.encode())
        return heard(client)


def test_a_silent_connection_is_closed_and_a_slow_head_is_a_408() -> None:
    with serving(Hasty) as web, connected(web) as silent, connected(web) as slow:
        slow.sendall(b"GET /healthz HTT")
        assert heard(silent) == b""
        head, _, body = heard(slow).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/problem+json")
    assert json.loads(body)["code"] == "request_timeout"


def test_a_connection_that_was_answered_gets_a_new_deadline_for_its_next_head() -> None:
    with serving(Hasty) as web, connected(web) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /hea")
        assert client.recv(4096).startswith(b"HTTP/1.1 200")
        client.sendall(b"l")
        assert b"HTTP/1.1 408" in heard(client)


def test_a_slow_body_is_a_408_and_one_that_keeps_up_is_read() -> None:
    with serving(Hasty) as web, connected(web) as stalled, connected(web) as steady:
        stalled.sendall(HEAD + b"Content-Length: 6000\r\n\r\n{")
        steady.sendall(HEAD + b"Content-Length: 6000\r\nConnection: close\r\n\r\n" + b"{" * 3000)
        assert heard(stalled).startswith(b"HTTP/1.1 408")
        time.sleep(0.8)
        steady.sendall(b"}" * 3000)
        assert heard(steady).startswith(b"HTTP/1.1 401"), "it was read, and had no key"


def test_a_body_that_came_ahead_of_its_turn_has_a_deadline_too() -> None:
    with serving(Hasty) as web, connected(web) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + HEAD + b"Content-Length: 9\r\n\r\n{")
        answers = heard(client)
    assert answers.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408" in answers


def test_answers_that_nobody_reads_are_dropped() -> None:
    path = b"/static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js"
    size = len(asked_of_new_server(path.decode()))
    with serving(Dropping) as web, connected(web, buffer=4096) as client:
        client.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path * 12)  # more than buffers take
        assert Dropping.ended.wait(60)
        received = 0
        with suppress(ConnectionResetError):
            while piece := client.recv(1 << 20):
                received += len(piece)
    assert size > 1_000_000
    assert 0 < received < 10 * size


def asked_of_new_server(path: str) -> bytes:
    with serving() as web:
        return asked(web, path)


@pytest.mark.parametrize("protocol", [Crowded, Overfull])
def test_the_connection_that_waited_longest_makes_room(protocol: type[LimitedProtocol]) -> None:
    with serving(protocol) as web, ExitStack() as stack:
        idle = [stack.enter_context(connected(web)) for _ in range(4)]
        assert asked(web).startswith(b"HTTP/1.1 200")
        assert heard(idle[0]) == b""
        idle[1].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert heard(idle[1]).startswith(b"HTTP/1.1 200"), "one gave way, and only one"


def test_too_many_requests_are_refused_with_a_problem_and_health_is_answered() -> None:
    with serving(Overworked) as web:
        head, _, body = asked(web, "/api/v1/agents").partition(b"\r\n\r\n")
        assert asked(web).startswith(b"HTTP/1.1 200")
    assert head.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 2" in head
    assert b"application/problem+json" in head
    assert json.loads(body)["code"] == "overloaded"


def test_what_is_no_http_is_a_problem() -> None:
    with serving() as web, connected(web) as client:
        client.sendall(b"\x16\x03\x01\r\n\r\n")
        head, _, body = heard(client).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["code"] == "bad_request"
