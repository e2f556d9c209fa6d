"""Waiting for a network without keeping a database connection from others."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import connection

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def let_go_of_database() -> None:
    """Give this thread's connection back, where no transaction is open; the next query gets one by itself.

    The web process has a pool of few connections; whoever waits for a model for a minute must hold none. Not for calls
    under an advisory lock of the session (`memoryhub.api.idempotency`), which would stay with the connection.
    """
    if not connection.in_atomic_block:
        connection.close()


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
