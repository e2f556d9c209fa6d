"""Which model answers what where none is configured: the one place with vendors' names of models.

A strong model talks, a small and fast one works in the background.
"""

from collections.abc import Mapping
from types import MappingProxyType

from memoryhub.llm.base import Operation

CHAT_MODELS: Mapping[str, str] = MappingProxyType({"anthropic": "claude-sonnet-5-5", "openai": "gpt-5.6-sol"})
BACKGROUND_MODELS: Mapping[str, str] = MappingProxyType(
    {"anthropic": "claude-haiku-5-5", "openai": "gpt-5.6-luna"}
)


def default_model(provider: str, operation: Operation) -> str:
    """Return the name of the model that a provider is asked for when nobody chose one."""
    return (CHAT_MODELS if operation is Operation.CHAT else BACKGROUND_MODELS)[provider]
