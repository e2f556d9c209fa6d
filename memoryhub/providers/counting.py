"""The counter of the language model in use: with factors fitted to its own answers, where there were enough."""

from django.conf import settings

from memoryhub.llm.base import LLMProvider, Operation
from memoryhub.llm.usage.calibrating import calibrated, prior_of
from memoryhub.providers.errors import ProviderError
from memoryhub.providers.registry import llm_provider
from memoryhub.tokens import TokenCounter, counter_for


def counter_in_use(operation: Operation = Operation.CHAT) -> TokenCounter:
    """Return the counter for the model that answers an operation; no network, and a statement a minute at most."""
    try:
        return counter_of(llm_provider(operation), operation)
    except ProviderError:  # it cannot be built; what its model counts like is known all the same
        return counter_for(settings.LLM.counted_as(operation))


def counter_of(provider: LLMProvider, operation: Operation) -> TokenCounter:
    """Return the counter for the model of a provider that answers an operation."""
    model = provider.model_for(operation)
    return TokenCounter(calibrated.of(provider.name, model) or prior_of(model))
