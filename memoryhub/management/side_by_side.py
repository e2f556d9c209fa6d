"""Doing the same for many, several at a time, each on a connection of its own."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any, TypeVar

from django.db import connection

Item = TypeVar("Item")
Result = TypeVar("Result")

Act = Callable[[Item, Callable[[], bool]], Result]
"""What is done for an item; it is also given what says whether it may go on."""


def side_by_side(act: Act[Item, Result], items: Sequence[Item], *, at_once: int) -> Iterator[Result]:
    """Yield what `act` returns for each item, as it comes; in this thread, where one at a time is enough.

    Once this is broken off, or an item has failed, none may go on: what has begun is waited for, what has not is left.
    Raises what `act` raises.
    """
    if min(at_once, len(items)) <= 1:
        for item in items:
            yield act(item, lambda: True)
        return
    over, waiting, done = Event(), SimpleQueue[Item](), SimpleQueue[Future[Result] | None]()
    for item in items:
        waiting.put(item)
    with ThreadPoolExecutor(at_once, "side-by-side") as threads:
        try:
            for _ in range(at_once):
                threads.submit(_work, act, waiting, done, over)
            for _ in range(at_once):
                while (future := done.get()) is not None:
                    yield future.result()
        finally:
            over.set()


def _work(act: Act[Any, Any], waiting: SimpleQueue[Any], done: SimpleQueue[Any], over: Event) -> None:
    """Do one after the other until none is left; the last word of a thread is that it has ended."""
    try:
        while not over.is_set():
            item, future = waiting.get_nowait(), Future[Any]()
            try:
                future.set_result(act(item, lambda: not over.is_set()))
            except BaseException as error:
                future.set_exception(error)
                over.set()
            done.put(future)
    except Empty:
        pass
    finally:
        try:
            connection.close()
        finally:
            done.put(None)
