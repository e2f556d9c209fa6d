"""Ports for servers that are yet to start."""

import random
import socket
from contextlib import suppress


def free_port() -> int:
    """Return a port of loopback that nobody uses.

    Not one of those that the system hands out (from 32,768 on Linux): a connection of somebody else's might get it
    before the server does.
    """
    while True:
        port = random.randrange(10_000, 20_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
