"""Translate what the `openai` SDK and the HTTP library under it raise into our errors.

Shared by every provider that speaks OpenAI's wire format. A vendor's message may quote the request, so
nothing of it is passed on but the status and, where it is a plain slug, the error code.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime

import httpx2
import openai

from memoryhub.providers.errors import (
    ProviderError,
    ProviderMisconfigured,
    ProviderRejected,
    ProviderTimeout,
    ProviderUnavailable,
)

MAX_RETRY_AFTER_SECONDS = 3600.0
"""A longer wait is cut to this; a server cannot switch a job off for a year."""


@contextmanager
def translated() -> Iterator[None]:
    """Raise a ProviderError for whatever the SDK or the transport raises inside."""
    try:
        yield
    except openai.APIStatusError as error:
        raise from_status(error) from None
    except (openai.APITimeoutError, httpx2.TimeoutException):
        raise ProviderTimeout("The provider did not answer in time.", code="timeout") from None
    except (openai.APIConnectionError, httpx2.TransportError):
        raise ProviderUnavailable("The connection to the provider failed.", code="connection") from None
    except (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL) as error:
        kind = type(error).__name__
        raise ProviderUnavailable(f"The call to the provider failed with {kind}.", code="sdk_error") from None


def from_status(error: openai.APIStatusError) -> ProviderError:
    """Return the error that an HTTP status stands for."""
    status = error.status_code
    wait = retry_after_seconds(error.response.headers)
    if status == 429 and error.code == "insufficient_quota":
        return ProviderRejected("The account at the provider has no quota left.", code="quota")
    if status == 429:
        message = "The provider limits our rate (429)."
        return ProviderUnavailable(message, code="rate_limited", retry_after_seconds=wait)
    if status in (401, 403):
        return ProviderMisconfigured(f"The provider refuses our key ({status}).", code="unauthorized")
    if status in (404, 405, 410) or status < 400:
        message = f"The provider has no such address, model or deployment ({status})."
        return ProviderMisconfigured(message, code="not_found")
    if status in (408, 409, 425) or status >= 500:
        message = f"The provider is overloaded or failing ({status})."
        return ProviderUnavailable(message, code="overloaded", retry_after_seconds=wait)
    return ProviderRejected(f"The provider refuses the request ({status}).", code="rejected")


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
