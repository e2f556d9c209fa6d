"""Spans: what a request or a job did, for how long, and with how many rows; never a text (SPEC O10).

Code describes its work here and does not know who reads it. Without an endpoint for traces every call ends at `NONE`,
and no package of OpenTelemetry is imported. The current span is in a variable of our own, not of OpenTelemetry: the
vendors' SDKs would add their spans to it, and send its id to the vendor.
"""

import os
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from functools import cache, wraps
from types import TracebackType
from typing import Any, Final, ParamSpec, Protocol, Self, TypeVar

from django.conf import settings

from memoryhub.logs import TRACE_ID

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Attributes = Mapping[str, str | int | float | bool | list[float]]


class Recording(Protocol):
    """A span as `memoryhub.telemetry.tracer` makes it."""

    @property
    def is_recorded(self) -> bool:
        """Return whether the sampler chose its trace."""

    @property
    def trace_id(self) -> str: ...

    @property
    def traceparent(self) -> str: ...

    def rename(self, name: str) -> None: ...

    def set(self, attributes: Attributes) -> None: ...

    def fail(self, kind: str) -> None: ...

    def end(self) -> None: ...


class Span:
    """Context manager of a piece of work; the one around it is its parent. Does nothing where nothing is recorded."""

    def __init__(self, recording: Recording | None) -> None:
        self.recording = recording
        self._token: Token[Recording | None] | None = None

    @property
    def is_recorded(self) -> bool:
        return self.recording is not None and self.recording.is_recorded

    def __enter__(self) -> Self:
        if self.recording is not None:
            self._token = _CURRENT.set(self.recording)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._token is not None:
            _CURRENT.reset(self._token)
            self._token = None
        if error is not None:
            self.fail(error)
        self.end()

    def set(self, attributes: Attributes) -> None:
        if self.recording is not None:
            self.recording.set(attributes)

    def fail(self, error: BaseException | str) -> None:
        """Note an error by its class or code: its message may quote a text."""
        if self.recording is not None:
            self.recording.fail(error if isinstance(error, str) else error_type(error))

    def end(self) -> None:
        if self.recording is not None:
            self.recording.end()


LAST_SECONDS: Final = 2.0
NONE: Final = Span(None)

_CURRENT: Final[ContextVar[Recording | None]] = ContextVar("span", default=None)


@cache
def _tracer() -> Any:
    """Return the process's tracer; None where traces are not sent. Built after a fork, as it has a thread."""
    if not is_tracing():
        return None
    from memoryhub.telemetry.tracer import Tracer

    return Tracer(process=settings.ENVIRONMENT.process)


os.register_at_fork(after_in_child=_tracer.cache_clear)


def error_type(error: BaseException) -> str:
    code = getattr(error, "code", None)
    return code if isinstance(code, str) and code else type(error).__qualname__


def is_tracing() -> bool:
    """Return whether this process sends traces."""
    return bool(settings.ENVIRONMENT.traces)


def send_rest() -> None:
    """Send the spans that wait, at the end of a process; give a collector that is away two seconds."""
    if (tracer := _tracer()) is not None:
        sending = threading.Thread(target=tracer.flush, name="last-spans", daemon=True)
        sending.start()
        sending.join(LAST_SECONDS)


def is_recorded() -> bool:
    """Return whether there is a current span, and the sampler chose its trace."""
    recording = _CURRENT.get()
    return recording is not None and recording.is_recorded


def span(name: str, attributes: Attributes | None = None, *, kind: str = "internal") -> Span:
    """Return a span within the current one; `NONE` outside of a trace, and in one that the sampler did not choose."""
    parent = _CURRENT.get()
    if parent is None or not parent.is_recorded:
        return NONE
    return Span(_tracer().start(name, attributes or {}, kind=kind, parent=parent))


class Root(Span):
    """The first span of a process in a trace; log lines within it have the trace's id."""

    def __enter__(self) -> Self:
        super().__enter__()
        self._former = TRACE_ID.set(self.recording.trace_id if self.recording else "")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        TRACE_ID.reset(self._former)
        super().__exit__(kind, error, at)


def root(
    name: str, attributes: Attributes, *, kind: str, traceparent: str | None = None, tracestate: str | None = None
) -> Span:
    """Return a span that continues the trace of a `traceparent`, or begins one."""
    tracer = _tracer()
    if tracer is None:
        return NONE
    return Root(tracer.start_root(name, attributes, kind=kind, traceparent=traceparent, tracestate=tracestate))


def name_request(method: str, route: str) -> None:
    """Name the current span by the route, which is known when the request was answered."""
    recording = _CURRENT.get()
    if recording is not None and route:
        recording.rename(f"{method} /{route}")
        recording.set({"http.route": f"/{route}"})


def traceparent() -> str | None:
    """Return the current span for work that continues its trace elsewhere; None outside of a trace."""
    recording = _CURRENT.get()
    return None if recording is None else recording.traceparent


def memory_operation(
    name: str, numbers: Callable[[Any, Mapping[str, Any]], Attributes]
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Record calls of the decorated action as GenAI memory operations.

    `numbers` returns attributes by the result and the keyword arguments.
    """

    def decorate(act: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @wraps(act)
        def recorded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            with span(name, {"gen_ai.operation.name": name}) as within:
                result = act(*args, **kwargs)
                if within.is_recorded:
                    within.set(numbers(result, kwargs))
                return result

        return recorded

    return decorate
