"""Asking a language model: the one way from the apps to a provider."""

from collections.abc import AsyncIterator

from memoryhub.providers.llm.base import Completion, CompletionRequest, Delta
from memoryhub.providers.registry import llm_provider
from memoryhub.tenants.models import Actor


def ask(request: CompletionRequest, *, actor: Actor) -> Completion:
    """Return a model's finished answer to a question of this actor; network, so outside any transaction.

    Raises ProviderError.
    """
    return llm_provider(request.operation).complete(request)


async def ask_streaming(request: CompletionRequest, *, actor: Actor) -> AsyncIterator[Delta | Completion]:
    """Yield a model's answer as it is written, and the finished answer last. Raises ProviderError."""
    async for piece in llm_provider(request.operation).stream(request):
        yield piece
