"""Ports for servers that are yet to start."""

import os
import random
import socket
from contextlib import suppress
from typing import Final

WORKERS: Final = 16
"""As many workers of a run as have ports of their own."""

_given: set[int] = set()


def free_port() -> int:
    """Return a port of loopback that nobody uses, and that no worker of this run was given before.

    Not one of those that the system hands out (from 32,768 on Linux): a connection of somebody else's might get it
    before the server does.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    while True:
        port = random.choice(range(10_000 + worker % WORKERS, 20_000, WORKERS))
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port
