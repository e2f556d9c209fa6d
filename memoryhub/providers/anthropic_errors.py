"""What the `anthropic` SDK raises, and the errors that its servers tell in the middle of a stream."""

from contextlib import AbstractContextManager

import anthropic

from memoryhub.providers.errors import ProviderError, ProviderMisconfigured, ProviderRejected
from memoryhub.providers.vendor_errors import Dialect, no_quota, overloaded, rate_limited, translated_from

DIALECT = Dialect(
    status=anthropic.APIStatusError,
    timeout=anthropic.APITimeoutError,
    connection=anthropic.APIConnectionError,
    anything=anthropic.AnthropicError,
    is_out_of_quota=lambda error: error.status_code == 402 or error.type == "billing_error",
)


def translated() -> AbstractContextManager[None]:
    """Raise a ProviderError for whatever the SDK or the transport raises inside."""
    return translated_from(DIALECT)


def from_event(kind: object) -> ProviderError:
    """Return the error that the type of an `error` event inside a stream stands for."""
    if kind == "billing_error":
        return no_quota()
    if kind == "rate_limit_error":
        return rate_limited()
    if kind in ("authentication_error", "permission_error"):
        return ProviderMisconfigured("The provider refuses our key.", code="unauthorized")
    if kind == "not_found_error":
        return ProviderMisconfigured("The provider has no such address or model.", code="not_found")
    if kind in ("invalid_request_error", "request_too_large"):
        return ProviderRejected("The provider refuses the request.", code="rejected")
    return overloaded()
