"""Give callers turns, release connections during network calls, and run work in threads and on a background loop."""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import cache, partial
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any, Final, Generic, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection, connections

from memoryhub.db.turns import Turns

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Piece = TypeVar("Piece")

WAITING_PER_TURN: Final = 32
"""Requests of a caller that wait in a process, for each that may run."""


def return_connection() -> None:
    """Return this thread's connection to the pool, unless a transaction is open; the next query takes one again.

    The web process has a pool of few connections, and a call of a model may take a minute. Code that waits for
    a network must hold no session-level lock, which would go back into the pool with the connection.
    """
    if not connection.in_atomic_block:
        connection.close()


def leave_server() -> None:
    """End this thread's connection, which takes no writes: in the pool, it would fail others for up to an hour.

    The server may have become a standby, or a name still led to one; a new connection looks for the primary. With
    MEMORYHUB_READ_ONLY no connection takes writes, and a new one would be no better.
    """
    if settings.ENVIRONMENT.read_only:
        return
    if connection.connection is not None and not connection.in_atomic_block:
        connection.connection.close()
        connection.close()


@contextmanager
def own_connection() -> Iterator[None]:
    """Use a connection outside the pool in this thread, for readiness and metrics, which must not queue."""
    pooled = connections[DEFAULT_DB_ALIAS]
    if not pooled.settings_dict["OPTIONS"].get("pool"):
        yield
        return
    own = pooled.copy()
    own.settings_dict["OPTIONS"].pop("pool")
    connections[DEFAULT_DB_ALIAS] = own
    try:
        yield
    finally:
        own.close()
        connections[DEFAULT_DB_ALIAS] = pooled


@contextmanager
def process_lock(name: str, *, seconds: float, max_waiting: int) -> Iterator[bool]:
    """Hold a lock by name within this process; wait without a database connection.

    Yields whether the lock was acquired in time; at once, where `max_waiting` wait for it already. Other processes do
    not share it.
    """
    is_acquired = _acquire(name, seconds, max_waiting)
    try:
        yield is_acquired
    finally:
        if is_acquired:
            with _released:
                _busy.discard(name)
                _released.notify_all()


def _acquire(name: str, seconds: float, max_waiting: int) -> bool:
    with _released:
        if name not in _busy:
            _busy.add(name)
            return True
        if _waiting[name] >= max_waiting:
            return False
        _waiting[name] += 1
    with release_connection(), _released:  # in this order: no turn is waited for while `_released` is held
        is_acquired = _released.wait_for(lambda: name not in _busy, seconds)
        _waiting[name] -= 1
        if not _waiting[name]:
            del _waiting[name]
        if is_acquired:
            _busy.add(name)
    return is_acquired


_busy: set[str] = set()
_waiting = Counter[str]()
_released = threading.Condition()


@cache
def turns() -> Turns:
    """Return the turns of the process's callers; a connection is left to streams and to what follows an answer."""
    environment = settings.ENVIRONMENT
    each = environment.requests_per_key
    return Turns(places=environment.pool_share - 1, each=each, waiting=WAITING_PER_TURN * each)


@contextmanager
def turn(caller: str) -> Iterator[None]:
    """Run the body in a turn of the caller; wait for it without a database connection. Raises TooManyRequests."""
    _thread_state.turn = caller, turns().take(caller)
    try:
        yield
    finally:
        _caller, since = _thread_state.turn
        _thread_state.turn = None
        return_connection()
        turns().give_back(caller, since)


@contextmanager
def release_connection() -> Iterator[None]:
    """Release this thread's connection and turn while it waits for a network, a lock or another request.

    Within a transaction neither can be given up.
    """
    return_connection()
    held: tuple[str, float] | None = getattr(_thread_state, "turn", None)
    if connection.in_atomic_block or held is None:
        yield
        return
    _thread_state.turn = None
    turns().give_back(*held)
    try:
        yield
    finally:
        return_connection()  # a query within the block, such as a ledger entry's, may have taken one
        _thread_state.turn = held[0], turns().take(held[0], again=True)


_thread_state = threading.local()


def after_answer(act: Callable[[], None]) -> None:
    """Run `act` after this thread's response is sent; at once outside a request.

    It is lost if the process ends in between.
    """
    acts: list[Callable[[], None]] | None = getattr(_thread_state, "after_answer", None)
    if acts is None:
        act()
    else:
        acts.append(partial(copy_context().run, act))  # it has the limits of the request


@contextmanager
def answering() -> Iterator[list[Callable[[], None]]]:
    """Collect this thread's `after_answer` calls, in order; the caller runs them once the response is sent."""
    acts: list[Callable[[], None]] = []
    _thread_state.after_answer = acts
    try:
        yield acts
    finally:
        _thread_state.after_answer = None


async def run_in_thread(act: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """Run database work off the event loop, in any free thread, and give its connection back."""

    def run() -> Result:
        try:
            return act(*args, **kwargs)
        finally:
            return_connection()

    return await sync_to_async(run, thread_sensitive=False)()


def run_in_background(work: Coroutine[Any, Any, None]) -> Future[None]:
    return asyncio.run_coroutine_threadsafe(work, _loop())


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="background-loop", daemon=True).start()
    return loop


class Stream(Generic[Piece]):
    """Channel from one event loop to one listener in another, which may start late, or never."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces: deque[Piece | Exception] = deque()
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def put(self, piece: Piece | Exception) -> None:
        """Send an item; an Exception is raised at the receiver."""
        with self._lock:
            self._pieces.append(piece)
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            loop, event = waiting
            with suppress(RuntimeError):  # the listener's loop has ended
                loop.call_soon_threadsafe(event.set)

    async def next(self) -> Piece:
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


Item = TypeVar("Item")

Act = Callable[[Item, Callable[[], bool]], Result]
"""Function of an item and of a callback that returns whether it may continue."""


def run_parallel(act: Act[Item, Result], items: Sequence[Item], *, at_once: int) -> Iterator[Result]:
    """Yield the results of `act` for each item, in order of completion; in this thread if `at_once` or items are 1.

    After the iterator is closed or an item has failed, no further item starts; running ones are waited for. Raises the
    error of `act`.
    """
    if min(at_once, len(items)) <= 1:
        for item in items:
            yield act(item, lambda: True)
        return
    stopped, queue, results = Event(), SimpleQueue[Item](), SimpleQueue[Future[Result] | None]()
    for item in items:
        queue.put(item)
    with ThreadPoolExecutor(at_once, "side-by-side") as threads:
        try:
            for _ in range(at_once):
                threads.submit(copy_context().run, _work, act, queue, results, stopped)
            for _ in range(at_once):
                while (future := results.get()) is not None:
                    yield future.result()
        finally:
            stopped.set()


def _work(act: Act[Any, Any], queue: SimpleQueue[Any], results: SimpleQueue[Any], stopped: Event) -> None:
    """Process items until the queue is empty; put None at the end of the thread."""
    try:
        while not stopped.is_set():
            item, future = queue.get_nowait(), Future[Any]()
            try:
                future.set_result(act(item, lambda: not stopped.is_set()))
            except BaseException as error:
                future.set_exception(error)
                stopped.set()
            results.put(future)
    except Empty:
        pass
    finally:
        try:
            connection.close()
        finally:
            results.put(None)
