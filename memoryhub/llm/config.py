"""Configuration of the language models from the environment, and the default models of each vendor.

No Django here: `settings.py` keeps the result of `LLMConfig.from_env(os.environ)` as `settings.LLM`. Keys are left out
of every repr.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final, Self
from urllib.parse import urlsplit

from memoryhub.env import (
    EnvironmentProblem,
    read_choice,
    read_key,
    read_number,
    read_seconds,
    read_url,
    read_value,
    set_names,
)
from memoryhub.llm.types import Operation

LLM_PROVIDERS = {
    "anthropic": "memoryhub.llm.anthropic.AnthropicProvider",
    "openai": "memoryhub.llm.openai.OpenAIProvider",
}
"""The classes of the providers, loaded when they are configured; there may be none."""

BACKGROUND: Final[tuple[Operation, ...]] = tuple(op for op in Operation if op not in (Operation.CHAT, Operation.ROUTE))
"""Operations in the background."""

SELF_HOSTED_SECONDS: Final = 600.0
"""Longest background call to a self-hosted server: a model of 7 billion parameters takes minutes on processors."""

CALL_SECONDS: Final = 60.0
"""Longest usual background call to a vendor; deadlines of jobs are made for it."""

MIN_WINDOW: Final = 1_024
MAX_WINDOW: Final = 10_000_000
MAX_PARALLEL: Final = 64

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
    seconds: Mapping[Operation, float] = field(default_factory=lambda: MappingProxyType({}))
    """Longest background calls of single operations, where they are set or the server is self-hosted."""
    attempt_timeout_seconds: float = 120.0
    """Longest wait for one answer, and in a stream for its next piece; each request has a deadline besides."""
    windows: Mapping[Operation, int] = field(default_factory=lambda: MappingProxyType({}))
    """Context windows in tokens, where they are set."""
    parallel: int | None = None
    """Background jobs that may ask the model at the same time; None: any number."""

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
        usual = read_seconds(environ, "MEMORYHUB_LLM_SECONDS") or (SELF_HOSTED_SECONDS if base_url else None)
        own = {op: read_seconds(environ, f"MEMORYHUB_LLM_SECONDS_{op.name}") or usual for op in BACKGROUND}
        seconds = MappingProxyType({op: value for op, value in own.items() if value})
        return cls(
            provider,
            read_value(environ, "MEMORYHUB_LLM_MODEL"),
            chosen,
            base_url,
            api_key,
            seconds,
            windows=_windows(environ),
            parallel=_parallel(environ, base_url),
        )

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

    def seconds_for(self, operation: Operation, usual: float) -> float:
        """Return the deadline of a call: the `usual` one, or that of the operation where a longer one is set."""
        return max(usual, self.seconds.get(operation, 0.0))

    @property
    def extra_seconds(self) -> float:
        """Seconds by which the slowest background call may exceed the usual one."""
        return max(0.0, *(self.seconds_for(op, CALL_SECONDS) for op in BACKGROUND)) - CALL_SECONDS

    def model_for(self, operation: Operation) -> str | None:
        return self.models.get(operation) or self.model

    def counted_as(self, operation: Operation = Operation.CHAT) -> str | None:
        """Return the name for `memoryhub.llm.tokens.counter_for`: the model, else the family of the vendor's own."""
        families = {} if self.base_url else {"anthropic": "claude", "openai": "gpt-5"}
        return self.model_for(operation) or families.get(self.provider)

    def known_as(self, model: str) -> str | None:
        """Return the name that determines how a model counts tokens; None if it does not.

        A server of others may answer a vendor's default name with whatever it has; a chosen name is meant.
        """
        is_chosen = model == self.model or model in self.models.values()
        return model if is_chosen or not self.base_url else None


def _windows(environ: Mapping[str, str]) -> Mapping[Operation, int]:
    name = "MEMORYHUB_LLM_CONTEXT_WINDOW"
    limits = {"low": MIN_WINDOW, "high": MAX_WINDOW}
    usual = read_number(environ, name, **limits)
    own = {op: read_number(environ, f"{name}_{op.name}", **limits) or usual for op in Operation}
    return MappingProxyType({op: size for op, size in own.items() if size})


def _parallel(environ: Mapping[str, str], base_url: str | None) -> int | None:
    """Return how many jobs may ask at once; 0 sets no limit, and a server on a private address has one of 1."""
    chosen = read_number(environ, "MEMORYHUB_LLM_PARALLEL", low=0, high=MAX_PARALLEL)
    if chosen is None:
        return 1 if base_url and is_local(base_url) else None
    return chosen or None


def is_local(url: str) -> bool:
    """Return whether an address is of this machine or a private network, as far as it shows without a look-up."""
    host = urlsplit(url).hostname or ""
    with suppress(ValueError):
        return ip_address(host).is_private
    return "." not in host or host.endswith((".local", ".internal", ".lan", ".localhost"))


def ineffective_llm_settings(environ: Mapping[str, str]) -> list[str]:
    """Return a sentence about the variables that are set and name a model that is never used, if any.

    Without a provider a model's name still determines how tokens are counted, which is all that `none` needs.
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
