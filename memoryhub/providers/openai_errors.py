"""What the `openai` SDK raises, and the errors that its servers tell in the middle of a stream."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import openai

from memoryhub.providers.errors import ProviderError, ProviderRejected
from memoryhub.providers.vendor_errors import Dialect, no_quota, overloaded, rate_limited, translated_from

DIALECT = Dialect(
    status=openai.APIStatusError,
    timeout=openai.APITimeoutError,
    connection=openai.APIConnectionError,
    anything=openai.OpenAIError,
    is_out_of_quota=lambda error: error.status_code == 402 or error.code == "insufficient_quota",
)


def translated() -> AbstractContextManager[None]:
    """Raise a ProviderError for whatever the SDK or the transport raises inside."""
    return translated_from(DIALECT)


def from_event(error: Mapping[str, Any]) -> ProviderError:
    """Return the error that an error object inside a stream stands for."""
    named = {str(error.get("type")), str(error.get("code"))}
    if "insufficient_quota" in named:
        return no_quota()
    if named & {"rate_limit_exceeded", "rate_limit_error", "429"}:
        return rate_limited()
    if "content_filter" in named:
        return ProviderRejected("The provider refuses to answer.", code="refused")
    if named & {"invalid_request_error", "context_length_exceeded", "invalid_prompt", "400"}:
        return ProviderRejected("The provider refuses the request.", code="rejected")
    return overloaded()
