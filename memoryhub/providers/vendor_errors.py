"""Translate what a vendor's SDK and the HTTP library under it raise into our errors; shared by all vendors.

A vendor's message may quote the request, so nothing of it is passed on but the status. What differs between the
vendors (their exceptions' classes, how they say that an account is empty) is given as a `Dialect`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from memoryhub.providers.errors import (
    ProviderError,
    ProviderMisconfigured,
    ProviderRejected,
    ProviderTimeout,
    ProviderUnavailable,
)

MAX_RETRY_AFTER_SECONDS = 3600.0
"""A longer wait is cut to this; a server cannot switch a job off for a year."""

WAIT_FOR_QUOTA_SECONDS = 600.0
"""How long an empty account is left alone: somebody has to fill it, and what was asked is as good then as now."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The classes of one SDK's exceptions, and how it says that nothing is left to spend."""

    status: type[Exception]
    timeout: type[Exception]
    connection: type[Exception]
    anything: type[Exception]
    is_out_of_quota: Callable[[Any], bool]


@contextmanager
def translated_from(dialect: Dialect) -> Iterator[None]:
    """Raise a ProviderError for whatever the SDK or the transport raises inside."""
    try:
        yield
    except dialect.status as error:
        raise from_status(error, dialect) from None
    except (dialect.timeout, httpx2.TimeoutException):
        raise ProviderTimeout("The provider did not answer in time.", code="timeout") from None
    except (dialect.connection, httpx2.TransportError):
        raise ProviderUnavailable("The connection to the provider failed.", code="connection") from None
    except (dialect.anything, httpx2.HTTPError, httpx2.InvalidURL) as error:
        kind = type(error).__name__
        raise ProviderUnavailable(f"The call to the provider failed with {kind}.", code="sdk_error") from None


def from_status(error: Any, dialect: Dialect) -> ProviderError:
    """Return the error that an HTTP status stands for."""
    status = error.status_code
    wait = retry_after_seconds(error.response.headers)
    if dialect.is_out_of_quota(error):
        return no_quota()
    if status == 429:
        return rate_limited(wait)
    if status in (401, 403):
        return ProviderMisconfigured(f"The provider refuses our key ({status}).", code="unauthorized")
    if status in (404, 405, 410) or status < 400:
        message = f"The provider has no such address, model or deployment ({status})."
        return ProviderMisconfigured(message, code="not_found")
    if status in (408, 409, 425) or status >= 500:
        return overloaded(status, wait)
    return ProviderRejected(f"The provider refuses the request ({status}).", code="rejected")


def no_quota() -> ProviderError:
    """Return the error of an account that has nothing left to spend."""
    message = "The account at the provider has no quota left."
    return ProviderUnavailable(message, code="quota", retry_after_seconds=WAIT_FOR_QUOTA_SECONDS)


def rate_limited(wait_seconds: float | None = None) -> ProviderError:
    """Return the error of asking too often."""
    message = "The provider limits our rate (429)."
    return ProviderUnavailable(message, code="rate_limited", retry_after_seconds=wait_seconds)


def overloaded(status: int | None = None, wait_seconds: float | None = None) -> ProviderError:
    """Return the error of a provider that cannot serve us now."""
    message = f"The provider is overloaded or failing ({status or 'in the middle of its answer'})."
    return ProviderUnavailable(message, code="overloaded", retry_after_seconds=wait_seconds)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return how long the answer asks us to wait: `retry-after-ms`, seconds, or a date; None when unclear."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return min(seconds, MAX_RETRY_AFTER_SECONDS)
    return _seconds_until_date(headers)


def _seconds_until_date(headers: Mapping[str, str]) -> float | None:
    """Compare a dated `Retry-After` with the answer's own `Date`, so that our clock need not be right."""
    try:
        until = parsedate_to_datetime(headers.get("retry-after", ""))
        sent_at = parsedate_to_datetime(headers.get("date", ""))
        seconds = (until - sent_at).total_seconds()
    except (TypeError, ValueError):  # not dates, or one with a zone and one without
        return None
    return min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)
