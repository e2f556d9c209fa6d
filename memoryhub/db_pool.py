"""Waiting for a network: without keeping a database connection from others, and whether or not anybody listens."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Generic, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connection

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Piece = TypeVar("Piece")


def let_go_of_database() -> None:
    """Give this thread's connection back, where no transaction is open; the next query gets one by itself.

    The web process has a pool of few connections; whoever waits for a model for a minute must hold none. So nothing
    that may wait for a network holds a lock of its session, which would go back into the pool with the connection.
    """
    if not connection.in_atomic_block:
        connection.close()


@contextmanager
def alone_here(name: str, *, seconds: float) -> Iterator[bool]:
    """Wait, without a connection, until nobody else in this process is at what has this name.

    Says whether that came true in time. Nothing of it outlives the process, and other processes know nothing of it.
    """
    with _gone:
        if name in _busy:
            let_go_of_database()
        is_mine = _gone.wait_for(lambda: name not in _busy, seconds)
        if is_mine:
            _busy.add(name)
    try:
        yield is_mine
    finally:
        if is_mine:
            with _gone:
                _busy.discard(name)
                _gone.notify_all()


_busy: set[str] = set()
_gone = threading.Condition()


@contextmanager
def few_at_a_time() -> Iterator[None]:
    """Wait, without a connection, until few others do the same: half of the pool at most works on what comes in crowds.

    A pool waits two seconds and then refuses; fifty chats that begin at once wait here instead.
    """
    let_go_of_database()
    with _room():
        _held.room = True
        try:
            yield
        finally:
            _held.room = False
            let_go_of_database()


@contextmanager
def waiting_for_network() -> Iterator[None]:
    """Wait for others without a connection, and let somebody else into the room of `few_at_a_time` meanwhile.

    Within a transaction neither can be given up.
    """
    let_go_of_database()
    if connection.in_atomic_block or not getattr(_held, "room", False):
        yield
        return
    _room().release()
    _held.room = False
    try:
        yield
    finally:
        let_go_of_database()  # what was asked of it meanwhile, such as a row of the ledger, is over
        _room().acquire()
        _held.room = True


_held = threading.local()


@cache
def _room() -> threading.BoundedSemaphore:
    return threading.BoundedSemaphore(max(1, settings.ENVIRONMENT.pool_max // 2))


async def in_thread(
    act: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Run database work off the event loop, in any free thread, and give its connection back."""

    def run() -> Result:
        try:
            return act(*args, **kwargs)
        finally:
            let_go_of_database()

    return await sync_to_async(run, thread_sensitive=False)()


def in_background(work: Coroutine[Any, Any, None]) -> Future[None]:
    """Run something that waits on this process's own event loop, which no request can take along when it goes."""
    return asyncio.run_coroutine_threadsafe(work, _loop())


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="background-loop", daemon=True).start()
    return loop


class Heard(Generic[Piece]):
    """What one loop says to one listener in another, who may come late, or never."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces: deque[Piece | Exception] = deque()
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def put(self, piece: Piece | Exception) -> None:
        """Say something; an Exception is raised where it is heard."""
        with self._lock:
            self._pieces.append(piece)
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            loop, event = waiting
            with suppress(RuntimeError):  # the listener's loop has ended
                loop.call_soon_threadsafe(event.set)

    async def next(self) -> Piece:
        """Return the next piece, once there is one."""
        while True:
            event = asyncio.Event()
            with self._lock:
                if self._pieces:
                    piece = self._pieces.popleft()
                    break
                self._waiting = (asyncio.get_running_loop(), event)
            await event.wait()
        if isinstance(piece, Exception):
            raise piece
        return piece
