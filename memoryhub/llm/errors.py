"""Errors of providers, the same for every vendor; each has a flag for whether a retry helps.

Messages are for operators and end up in logs, job rows and API answers: they never hold a key, and never a
text of a user, so they are never copied from a vendor's answer.
"""

from typing import Any

from memoryhub.errors import stored_text


class EmptyText(ValueError):
    """A text to embed is empty or blank."""


class ProviderError(Exception):
    """A provider did not do what was asked of it.

    `permanent` is True when the same call would fail again until something is changed;
    `code` is a short stable slug; `retry_after_seconds` is how long the provider asked us to wait, or None.
    """

    permanent: bool = False

    def __init__(
        self, message: str, *, code: str, permanent: bool | None = None, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retry_after_seconds = retry_after_seconds
        if permanent is not None:
            self.permanent = permanent


class ProviderUnavailable(ProviderError):
    """The provider cannot be reached or is overloaded, or there is none (then permanent)."""


class ProviderTimeout(ProviderUnavailable):
    """The provider did not answer in the time given."""


class ProviderRejected(ProviderError):
    """The provider understood the request and refused it; the same request will be refused again.

    `reason` is the vendor's own message, for the client that sent the request; it may quote texts, so it is not in the
    message of the exception.
    """

    permanent = True

    def __init__(self, message: str, *, code: str, reason: str = "", **options: Any) -> None:
        super().__init__(message, code=code, **options)
        self.reason = reason


class PromptTooLong(ProviderRejected):
    """A request exceeds the model's context window; it was not sent."""

    def __init__(self, *, size: int, window: int, setting: str) -> None:
        super().__init__(
            stored_text(
                "The request of about {size} tokens leaves no room for an answer in the model's context window of "
                "{window}. Give the model a larger window (Ollama: OLLAMA_CONTEXT_LENGTH; llama.cpp: --ctx-size; vLLM: "
                "--max-model-len; LM Studio: context length), or correct {setting} where the server has a larger one.",
                size=f"{size:,}",
                window=f"{window:,}",
                setting=setting,
            ),
            code="context_window",
        )


class ProviderMisconfigured(ProviderError):
    """A key, address, model, dimension or optional package is wrong or missing; an operator must act."""

    permanent = True


class BadAnswer(ProviderError):
    """The provider answered, but with something that must not be stored."""
