"""Log formatters that write ids and places, never texts (SPEC O4).

An exception's message may quote what somebody said: PostgreSQL's own says `Failing row contains (…)`. So a
traceback is logged with its frames and the names of its exceptions; a message only where the exception
is one of ours, whose messages are written to be logged.
"""

import logging
import traceback
from types import TracebackType

from pythonjsonlogger.json import JsonFormatter

PACKAGES = ("memoryhub.", "conversations.", "summaries.", "strength.")
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


class SafeFormatter(logging.Formatter):
    """A formatter for people that keeps messages of foreign exceptions to itself."""

    def formatException(self, ei: ExcInfo) -> str:  # noqa: N802  logging's name
        return safe_traceback(ei[1]) if ei[1] is not None else ""


class SafeJsonFormatter(SafeFormatter, JsonFormatter):
    """The same as JSON, one object a line."""
