"""Process identification, file locks, listening sockets, and signals with a deadline.

A pid in a file may be stale or reused, so a process is identified by its working directory, and a running instance by
the lock it holds. Knows neither Django nor PostgreSQL.
"""

import ctypes
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from multiprocessing import connection
from pathlib import Path
from types import FrameType
from typing import Any, Self

POLL_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1  # prctl(2)


class LockHeld(Exception):
    """The lock is held by another process, beyond the timeout."""


class FileLock:
    """An advisory lock on a file; the kernel drops it when the holder dies, however it dies.

    The file itself is never removed: whoever unlinks a lock file lets two processes hold "the" lock.
    """

    def __init__(self, path: Path, *, timeout_seconds: float = 0.0) -> None:
        self.path = path
        self.timeout_seconds = timeout_seconds
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock; raises `LockHeld` when it is not free within the timeout."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

        def is_mine() -> bool:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        if not wait_until(is_mine, timeout_seconds=self.timeout_seconds):
            os.close(descriptor)
            raise LockHeld(str(self.path))
        self._descriptor = descriptor

    def note(self, text: str) -> None:
        """Write who holds the lock into its file, for those who find it held."""
        assert self._descriptor is not None, "note() needs the lock"
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text.encode(), 0)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


def is_locked(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        with FileLock(path):
            return False
    except LockHeld:
        return True


def wait_until(condition: Callable[[], bool], *, timeout_seconds: float) -> bool:
    """Poll until the condition holds; False when the deadline passes first."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def runs_in(pid: int, folder: Path) -> bool:
    """Return whether the process is alive and its working directory is the folder.

    A zombie has no working directory any more, so it does not count. Where there is no /proc (macOS) the
    folder is looked for in the command line instead.
    """
    if not Path("/proc/self/cwd").exists():
        result = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True)
        return str(folder) in result.stdout
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == folder.resolve()
    except OSError:
        return False


def pids_in(folder: Path) -> set[int]:
    pids = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    return {pid for pid in pids if runs_in(pid, folder)}


def kill_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def die_with_parent(parent: int) -> Callable[[], None]:
    """Return what a child calls so that the kernel kills it when its parent dies, even by SIGKILL (Linux only).

    The parent may already be gone between fork and prctl, hence the second look at its pid.
    """
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None

    def arrange() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return arrange


def listen(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen on every address of the host. Raises OSError."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    with ExitStack() as opened:
        listening = []
        for family, kind, protocol, _, address in dict.fromkeys(addresses):
            # asyncio sends at once (TCP_NODELAY) only where a socket names its protocol; else a long answer waits 40 ms
            # for the client's ACK.
            sock = opened.enter_context(socket.socket(family, kind, protocol))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
            sock.listen()
            listening.append(sock)
        opened.pop_all()
    return listening


class Wakeups:
    """Turns signals into something that can be waited for with a deadline; installed as a context."""

    STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.stops = 0
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        for end in (self._reader, self._writer):
            end.setblocking(False)
        self._previous_descriptor = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in (*self.STOP, signal.SIGCHLD):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # started with nohup: outlive the terminal
            self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._previous_descriptor)
        for end in (self._reader, self._writer):
            end.close()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.stops += number in self.STOP

    def wait(self, timeout_seconds: float, *readers: Any) -> None:
        if self._reader in connection.wait([self._reader, *readers], max(0.0, timeout_seconds)):
            with suppress(BlockingIOError):
                self._reader.recv(4096)
