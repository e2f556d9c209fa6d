#!/usr/bin/env python
"""Crowd the web server, and count who is still served.

.venv/bin/python bench/overload.py                   220 connections of each hostile kind, then the clients of load.py
.venv/bin/python bench/overload.py --seconds 20 --clients 10
"""

import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import harness
from bench.harness import Client
from bench.load import load

HEAD = b"POST /api/v1/memories HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
DRIPS: dict[str, tuple[bytes, Callable[[int], bytes]]] = {
    "idle": (b"", lambda number: b""),
    "slow_header": (b"GET /healthz HTTP/1.1\r\n", lambda number: b"X-%d: a\r\n" % number),
    "slow_body": (HEAD, lambda number: b"a"),
}
DRIP_SECONDS = 1.0
CROWD_SECONDS = 15.0
NAMES = {"agent_id": "bench", "user_id": "crowd"}


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


def main() -> int:
    parser = harness.parser_of(__doc__)
    parser.add_argument("--crowd", type=harness.positive, default=220)
    parser.add_argument("--clients", type=harness.positive, default=50)
    parser.add_argument("--seconds", type=harness.positive, default=60)
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    with harness.installation():
        key = harness.everything_key()
        with harness.web_server() as port:
            Client(port, key).ask(
                "POST", "/api/v1/memories", {**NAMES, "content": "The ferry leaves at noon."}
            )
            for kind in DRIPS:
                figures[kind] = beside_a_crowd(port, key, kind, options.crowd)
            figures["mixed"] = load(port, key, options.clients, options.seconds)
    harness.tell(figures, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
