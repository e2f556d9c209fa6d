"""Configuration of the language models from the environment, and the default models of each vendor.

No Django here: `settings.py` keeps the result of `LLMConfig.from_env(os.environ)` as `settings.LLM`. Keys are left out
of every repr.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Self

from memoryhub.env import EnvironmentProblem, read_choice, read_key, read_url, read_value, set_names
from memoryhub.llm.types import Operation

LLM_PROVIDERS = {
    "anthropic": "memoryhub.llm.anthropic.AnthropicProvider",
    "openai": "memoryhub.llm.openai.OpenAIProvider",
}
"""The classes of the providers, loaded when they are configured; there may be none."""

REMOTE_SETTINGS = ("MEMORYHUB_LLM_BASE_URL", "MEMORYHUB_LLM_API_KEY")
MODEL_SETTINGS = ("MEMORYHUB_LLM_MODEL", *(f"MEMORYHUB_LLM_MODEL_{operation.name}" for operation in Operation))


@dataclass(frozen=True, slots=True)
class LLMConfig:
    provider: str = "none"
    model: str | None = None
    models: Mapping[Operation, str] = field(default_factory=lambda: MappingProxyType({}))
    """Models of single operations, which take precedence over `model`."""
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    attempt_timeout_seconds: float = 120.0
    """Longest wait for one answer, and in a stream for its next piece; each request has a deadline besides."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read the configuration. Raises EnvironmentProblem naming the variable that is wrong."""
        provider = cls._provider(environ)
        base_url = read_url(environ, "MEMORYHUB_LLM_BASE_URL")
        api_key = None
        if provider != "none":
            vendor_key = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}[provider]
            api_key = read_key(environ, "MEMORYHUB_LLM_API_KEY", vendor_key)
            if not api_key and not base_url:
                raise EnvironmentProblem(
                    f"MEMORYHUB_LLM_PROVIDER is {provider!r}, but there is no key. Set MEMORYHUB_LLM_API_KEY or "
                    f"{vendor_key}, or MEMORYHUB_LLM_BASE_URL for a server of your own that asks for no key."
                )
        models = {op: read_value(environ, f"MEMORYHUB_LLM_MODEL_{op.name}") for op in Operation}
        chosen = MappingProxyType({op: model for op, model in models.items() if model})
        return cls(provider, read_value(environ, "MEMORYHUB_LLM_MODEL"), chosen, base_url, api_key)

    @staticmethod
    def _provider(environ: Mapping[str, str]) -> str:
        if read_value(environ, "MEMORYHUB_LLM_PROVIDER"):
            return read_choice(environ, "MEMORYHUB_LLM_PROVIDER", (*LLM_PROVIDERS, "none"), default="none")
        if read_value(environ, "ANTHROPIC_API_KEY"):
            return "anthropic"
        if read_value(environ, "OPENAI_API_KEY"):
            return "openai"
        for name in set_names(environ, REMOTE_SETTINGS):
            raise EnvironmentProblem(f"{name} is set, but not for whom. Set MEMORYHUB_LLM_PROVIDER as well.")
        return "none"

    def model_for(self, operation: Operation) -> str | None:
        return self.models.get(operation) or self.model

    def counted_as(self, operation: Operation = Operation.CHAT) -> str | None:
        """Return the name for `memoryhub.llm.tokens.counter_for`: the model, else the family of the vendor's own."""
        families = {} if self.base_url else {"anthropic": "claude", "openai": "gpt-5"}
        return self.model_for(operation) or families.get(self.provider)

    def known_as(self, model: str) -> str | None:
        """Return the name that determines how a model counts tokens; None if it does not.

        A server of others may answer a vendor's default name with whatever it has; a name that somebody chose is meant.
        """
        is_chosen = model == self.model or model in self.models.values()
        return model if is_chosen or not self.base_url else None


def ineffective_llm_settings(environ: Mapping[str, str]) -> list[str]:
    """Return a sentence about the variables that are set and name a model that is never used, if any.

    Without a provider a model's name still says how tokens are counted, which is all that `none` can want of it.
    """
    if LLMConfig.from_env(environ).provider != "none":
        return []
    is_chosen = bool(read_value(environ, "MEMORYHUB_LLM_PROVIDER"))
    names = set_names(environ, REMOTE_SETTINGS if is_chosen else MODEL_SETTINGS)
    if not names:
        return []
    advice = "Set MEMORYHUB_LLM_PROVIDER to the provider that they are for, or remove them."
    return [f"No language model is configured, so none is asked in spite of {', '.join(names)}. {advice}"]


CHAT_MODELS: Mapping[str, str] = MappingProxyType({"anthropic": "claude-sonnet-5-5", "openai": "gpt-5.6-sol"})
BACKGROUND_MODELS: Mapping[str, str] = MappingProxyType({"anthropic": "claude-haiku-5-5", "openai": "gpt-5.6-luna"})


def default_model(provider: str, operation: Operation) -> str:
    return (CHAT_MODELS if operation is Operation.CHAT else BACKGROUND_MODELS)[provider]
