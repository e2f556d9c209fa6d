"""The Chromium of this machine, driven from a thread of its own.

Playwright's synchronous interface runs an event loop in the thread of its caller, as long as the browser lives:
Django's ORM refuses to work there, and coverage loses track of greenlets. Here the loop has a thread to itself,
and `Waiting` makes each call of the asynchronous interface wait for its answer, so that tests read the same.
"""

import asyncio
import inspect
import os
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from playwright import async_api

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
MISSING = (
    "no Chromium here: install it (`sh memoryhub/bootstrap.sh browser` does so on Debian and Ubuntu), or name it: "
    "CHROMIUM=/path/to/chromium"
)
FLAGS = [
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Nothing but this machine has an address, whatever a page asks for.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
PATIENCE_MS = 120_000
Answer = TypeVar("Answer")


def find_chromium() -> str | None:
    """Return the program, or None: what CHROMIUM names, else the first of the usual names."""
    named = os.environ.get("CHROMIUM")
    return next(filter(None, map(shutil.which, [named] if named else NAMES)), None)


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="browser")
        self.thread.start()

    def wait(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine there and return its answer."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def close(self) -> None:
        """End the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


class Waiting:
    """One of Playwright's objects, whose calls wait for their answers."""

    def __init__(self, inner: Any, loop: Loop) -> None:
        self.__dict__.update(inner=inner, loop=loop)

    def __getattr__(self, name: str) -> Any:
        return self._shown(getattr(self.inner, name))

    def __repr__(self) -> str:
        return repr(self.inner)

    def _shown(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._shown(each) for each in value]
        if inspect.isroutine(value):
            return partial(self._call, value)
        return Waiting(value, self.loop) if type(value).__module__.startswith("playwright.") else value

    def _call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        async def call() -> Any:
            answer = function(*map(_inner, arguments), **{name: _inner(each) for name, each in options.items()})
            return await answer if inspect.isawaitable(answer) else answer

        return self._shown(self.loop.wait(call()))


def _inner(value: Any) -> Any:
    return value.inner if isinstance(value, Waiting) else value


def expect(subject: Any) -> Any:
    """Return Playwright's assertions about a page or a locator; each waits until it holds, or fails."""
    return Waiting(async_api.expect(subject.inner), subject.loop)


@contextmanager
def chromium(program: str) -> Iterator[Any]:
    """Run a Chromium without a window."""
    loop = Loop()
    try:
        playwright = loop.wait(async_api.async_playwright().start())
        try:
            async_api.expect.set_options(timeout=PATIENCE_MS)
            launch = playwright.chromium.launch(executable_path=program, headless=True, args=FLAGS)
            browser = loop.wait(launch)
            yield Waiting(browser, loop)
            loop.wait(browser.close())
        finally:
            loop.wait(playwright.stop())
    finally:
        loop.close()
