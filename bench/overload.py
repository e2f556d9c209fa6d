#!/usr/bin/env python
"""Crowd the web server, and count who is still served.

.venv/bin/python bench/overload.py                   220 connections of each hostile kind, then 50 clients for 60 s
.venv/bin/python bench/overload.py --seconds 20 --clients 10
"""

import json
import random
import socket
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import harness

HEAD = b"POST /api/v1/memories HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
DRIPS: dict[str, tuple[bytes, Callable[[int], bytes]]] = {
    "idle": (b"", lambda number: b""),
    "slow_header": (b"GET /healthz HTTP/1.1\r\n", lambda number: b"X-%d: a\r\n" % number),
    "slow_body": (HEAD, lambda number: b"a"),
}
DRIP_SECONDS = 1.0
CROWD_SECONDS = 15.0
NAMES = {"agent_id": "bench", "user_id": "crowd"}
TEXTS = (
    "The ferry leaves at noon.",
    "Hana grows basil on the balcony.",
    "明日は雨が降ります。",
    "The tax form is due in May.",
)


class Client:
    """A keep-alive connection that opens itself anew where the server closed it."""

    def __init__(self, port: int, key: str = "") -> None:
        self.port, self.key = port, key
        self.connection = HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, float]:
        """Return status (0 where there was none) and milliseconds."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}", **headers}
        began = time.perf_counter()
        for _ in range(2):  # a kept connection may be closed just as it is used
            try:
                self.connection.request(method, path, json.dumps(body) if body else None, headers)
                response = self.connection.getresponse()
                response.read()
                return response.status, (time.perf_counter() - began) * 1000
            except (OSError, HTTPException):
                self.connection.close()
        return 0, (time.perf_counter() - began) * 1000


@contextmanager
def crowd(port: int, kind: str, size: int) -> Iterator[None]:
    """Hold so many connections of one kind; those that are closed are opened anew, as an attacker would."""
    first, drip = DRIPS[kind]
    over = threading.Event()

    def connect() -> socket.socket:
        client = socket.create_connection(("127.0.0.1", port))
        client.setblocking(False)
        client.send(first) if first else None
        return client

    def press() -> None:
        clients = [connect() for _ in range(size)]
        for number in count():
            if over.wait(DRIP_SECONDS):
                break
            for at, client in enumerate(clients):
                try:
                    client.send(drip(number))
                    closed = client.recv(4096) is not None  # an end, or a refusal and then the end
                except BlockingIOError:
                    closed = False
                except OSError:
                    closed = True
                if closed:
                    client.close()
                    with suppress(OSError):
                        clients[at] = connect()
        for client in clients:
            client.close()

    thread = threading.Thread(target=press)
    thread.start()
    time.sleep(1)
    try:
        yield
    finally:
        over.set()
        thread.join()


def beside_a_crowd(port: int, key: str, kind: str, size: int) -> dict[str, Any]:
    """Ask for health and for memories while a crowd holds its connections; each on a new connection."""
    health, others, statuses = [], [], Counter[str]()
    with crowd(port, kind, size):
        ends_at = time.monotonic() + CROWD_SECONDS
        while time.monotonic() < ends_at:
            status, took = Client(port).ask("GET", "/healthz")
            health.append(took)
            statuses[f"healthz {status}"] += 1
            status, took = Client(port, key).ask("GET", "/api/v1/memories?agent_id=bench&user_id=crowd")
            others.append(took)
            statuses[f"memories {status}"] += 1
            time.sleep(0.05)
    return {
        "health_ms": harness.percentiles(health),
        "others_ms": harness.percentiles(others),
        "statuses": statuses,
    }


class Mixed(threading.Thread):
    """One client that writes, searches and assembles contexts, as fast as it is answered."""

    def __init__(self, port: int, key: str, number: int, ends_at: float) -> None:
        super().__init__()
        self.client, self.ends_at, self.random = Client(port, key), ends_at, random.Random(number)
        self.session = str(uuid.uuid4())
        self.names = {**NAMES, "user_id": f"user-{number % 10}"}
        self.statuses: Counter[str] = Counter()
        self.milliseconds: list[float] = []
        self.acknowledged: list[str] = []

    def run(self) -> None:
        while self._ask("POST", "sessions", {**self.names, "session_id": self.session}) not in (200, 201):
            time.sleep(0.5)
        while time.monotonic() < self.ends_at:
            self._one()

    def _one(self) -> None:
        about = f"{self.random.choice(TEXTS)} {self.random.randrange(10_000)}"
        match self.random.choices(("message", "context", "search", "memory", "list"), (40, 20, 20, 10, 10))[
            0
        ]:
            case "message":
                self._write(about)
            case "context":
                self._ask("POST", "context", {**self.names, "session_id": self.session, "message": about})
            case "search":
                self._ask("POST", "memories/search", {**self.names, "query": about})
            case "memory":
                self._ask("POST", "memories", {**self.names, "content": about})
            case _:
                self._ask("GET", f"memories?agent_id=bench&user_id={self.names['user_id']}")

    def _write(self, text: str) -> None:
        own = uuid.uuid4().hex
        message = {"role": "user", "content": text, "client_message_id": own}
        path = f"sessions/{self.session}/messages"
        while True:
            status = self._ask("POST", path, {"messages": [message]}, **{"Idempotency-Key": own})
            if status in (200, 201):
                self.acknowledged.append(own)
                return
            if time.monotonic() > self.ends_at:
                return

    def _ask(self, method: str, path: str, body: Any = None, **headers: str) -> int:
        status, took = self.client.ask(method, f"/api/v1/{path}", body, **headers)
        self.statuses[str(status)] += 1
        self.milliseconds.append(took)
        if status == 503:
            time.sleep(2)  # as Retry-After says
        return status


def mixed_load(port: int, key: str, clients: int, seconds: float) -> dict[str, Any]:
    from conversations.models import Message

    threads = [Mixed(port, key, number, time.monotonic() + seconds) for number in range(clients)]
    health, ready, began = [], [], time.monotonic()
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        health.append(Client(port).ask("GET", "/healthz")[1])
        status, took = Client(port).ask("GET", "/readyz")
        ready.append(took if status == 200 else 60_000.0)
        time.sleep(0.5)
    spent = time.monotonic() - began
    statuses = sum((thread.statuses for thread in threads), Counter[str]())
    acknowledged = [own for thread in threads for own in thread.acknowledged]
    stored = Counter(
        Message.objects.exclude(client_message_id=None).values_list("client_message_id", flat=True)
    )
    return {
        "clients": clients,
        "requests_per_second": round(statuses.total() / spent, 1),
        "statuses": statuses,
        "share_of_503": round(statuses["503"] / statuses.total(), 4),
        "ms": harness.percentiles([took for thread in threads for took in thread.milliseconds]),
        "health_ms": harness.percentiles(health),
        "ready_ms": harness.percentiles(ready),
        "acknowledged": len(acknowledged),
        "lost": sum(own not in stored for own in acknowledged),
        "doubled": sum(number - 1 for number in stored.values()),
    }


def main() -> int:
    parser = harness.parser_of(__doc__)
    harness.common_arguments(parser)
    parser.add_argument("--crowd", type=harness.positive, default=220)
    parser.add_argument("--clients", type=harness.positive, default=50)
    parser.add_argument("--seconds", type=harness.positive, default=60)
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    with harness.installation(database_url=options.database_url, keep=options.keep):
        key = harness.everything_key()
        with harness.web_server() as port:
            Client(port, key).ask(
                "POST", "/api/v1/memories", {**NAMES, "content": "The ferry leaves at noon."}
            )
            for kind in DRIPS:
                figures[kind] = beside_a_crowd(port, key, kind, options.crowd)
            figures["mixed"] = mixed_load(port, key, options.clients, options.seconds)
    harness.tell(figures, options, lambda found, console: console.print(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
