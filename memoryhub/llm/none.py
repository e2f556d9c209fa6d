"""The provider of an installation that talks to no model: real, and plain about what is missing."""

from collections.abc import AsyncIterator
from typing import ClassVar, NoReturn, Self

from django.utils.translation import gettext_lazy as _

from memoryhub.llm.config import LLMConfig
from memoryhub.llm.errors import ProviderUnavailable
from memoryhub.llm.retry import OnFailed, unheard
from memoryhub.llm.types import Completion, CompletionRequest, Delta, LLMProvider, Operation

NOT_CONFIGURED = _(
    "No language model is configured. Set ANTHROPIC_API_KEY or OPENAI_API_KEY, "
    "or MEMORYHUB_LLM_PROVIDER with MEMORYHUB_LLM_API_KEY or MEMORYHUB_LLM_BASE_URL."
)


class NoneProvider(LLMProvider):
    """Refuses every request with a reason that an operator can act on."""

    name: ClassVar[str] = "none"

    @classmethod
    def from_config(cls, config: LLMConfig) -> Self:
        """Build the provider; there is nothing to configure."""
        return cls()

    def model_for(self, operation: Operation) -> str:
        """Return "": no model answers."""
        return ""

    def complete(self, request: CompletionRequest, *, on_failed: OnFailed = unheard) -> NoReturn:
        """Raise ProviderUnavailable, permanently."""
        raise ProviderUnavailable(str(NOT_CONFIGURED), code="not_configured", permanent=True)

    async def stream(
        self, request: CompletionRequest, *, on_failed: OnFailed = unheard
    ) -> AsyncIterator[Delta | Completion]:
        """Raise ProviderUnavailable, permanently, when the first piece is asked for."""
        if self.name:  # a generator, whatever it does
            self.complete(request)
        yield Delta("")

    def probe(self) -> None:
        """Raise ProviderUnavailable, permanently."""
        raise ProviderUnavailable(str(NOT_CONFIGURED), code="not_configured", permanent=True)
