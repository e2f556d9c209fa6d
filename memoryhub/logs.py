"""Log formatters that write ids and places, never texts (SPEC O4).

An exception's message may quote users' texts: PostgreSQL's contains `Failing row contains (…)`. So a
traceback is logged with its frames and the names of its exceptions; a message only where the exception
is one of ours, with messages that may be logged.
"""

import logging
import traceback
from contextvars import ContextVar
from datetime import datetime
from types import TracebackType
from typing import Final

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

LINE: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"
PACKAGES = ("memoryhub.", "conversations.", "summaries.", "strength.")
REQUEST_ID: Final[ContextVar[str]] = ContextVar("request_id", default="")
"""The id of the request that is answered; empty outside of one."""
TRACE_ID: Final[ContextVar[str]] = ContextVar("trace_id", default="")
"""The id of the trace of a request or a job; empty where traces are not sent."""

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def safe_traceback(error: BaseException) -> str:
    """Return the frames and the exceptions' names, causes first, without messages that are not ours."""
    parts: list[str] = []
    current: BaseException | None = error
    while current is not None:
        frames = "".join(traceback.format_tb(current.__traceback__))
        parts.append(f"Traceback (most recent call last):\n{frames}{_headline(current)}")
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "\ncaused:\n".join(reversed(parts))


def _headline(error: BaseException) -> str:
    kind = type(error)
    name = f"{kind.__module__}.{kind.__qualname__}"
    constraint = getattr(getattr(error, "diag", None), "constraint_name", None)
    if name.startswith(PACKAGES):
        return f"{name}: {error}"
    return f"{name} (constraint {constraint})" if constraint else name


def has_traceback(record: logging.LogRecord) -> bool:
    """Filter: pass what an exception caused. Django's other lines repeat the request log, with the path as it came."""
    return bool(record.exc_info)


def without_traceback(record: logging.LogRecord) -> bool:
    """Filter: pass all, as a warning without a traceback: any scanner can cause these lines, as often as it likes."""
    record.exc_info, record.levelno, record.levelname = None, logging.WARNING, "WARNING"
    return True


def with_request_id(record: logging.LogRecord) -> bool:
    """Filter: pass all, with the ids of the request and of its trace."""
    if request_id := REQUEST_ID.get():
        record.request_id = request_id
    if trace_id := TRACE_ID.get():
        record.trace_id = trace_id
    return True


class SafeFormatter(logging.Formatter):
    """A formatter for people that keeps messages of foreign exceptions to itself."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802  logging's name
        """Return the time in ISO 8601 with its offset: a local time alone is ambiguous among other programs' logs."""
        return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")

    def formatException(self, ei: ExcInfo) -> str:  # noqa: N802  logging's name
        return safe_traceback(ei[1]) if ei[1] is not None else ""


class PlainFormatter(SafeFormatter):
    """A line for people, with the record's fields as `name=value`."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's name
        hidden = {*RESERVED_ATTRS, "request"}  # Django's request object: its URL has users' ids and search texts
        fields = [f"{name}={value}" for name, value in vars(record).items() if name not in hidden]
        return " ".join([super().formatMessage(record), *fields])


class SafeJsonFormatter(SafeFormatter, JsonFormatter):
    """The same as JSON, one object a line."""
