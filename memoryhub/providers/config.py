"""Read what is needed to reach the providers from the environment, once and loudly.

No Django here: `settings.py` calls `EmbeddingConfig.from_env(os.environ)` and
`LLMConfig.from_env(os.environ)`, and keeps the results as `settings.EMBEDDING` and `settings.LLM`.
Keys are left out of every repr.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Self
from urllib.parse import parse_qs, unquote, urlsplit

from memoryhub.llm.base import Operation
from memoryhub.providers.errors import ConfigurationError

EMBEDDING_PROVIDERS = ("hashing", "openai", "azure", "sentence-transformers", "fastembed")
LLM_PROVIDERS = ("anthropic", "openai", "none")

MAX_DIMENSION = 16_000
"""What pgvector's `halfvec` can hold."""
DEFAULT_AZURE_API_VERSION = "2024-10-21"
"""Azure OpenAI's latest stable data-plane version that serves embeddings of all current models."""

AZURE_ADDRESSES = ("MEMORYHUB_EMBEDDING_BASE_URL", "AZURE_OPENAI_ENDPOINT", "OpenAIEmbeddingURI")
AZURE_KEYS = ("MEMORYHUB_EMBEDDING_API_KEY", "AZURE_OPENAI_API_KEY", "OpenAIEmbeddingKey")
AZURE_DEPLOYMENT = "AZURE_OPENAI_EMBEDDING_DEPLOYMENT"

_DEPLOYMENT_IN_PATH = re.compile(r"^(?P<root>.*?)/openai/deployments/(?P<deployment>[^/]+)(/.*)?$")


@dataclass(frozen=True, slots=True)
class EmbeddingConfig:
    """How texts become vectors. None means: the provider's own default, or ask the provider."""

    provider: str = "hashing"
    model: str | None = None
    dimension: int | None = None
    base_url: str | None = None
    """An OpenAI-compatible server, or the Azure resource's address."""
    api_key: str | None = field(default=None, repr=False)
    azure_deployment: str | None = None
    azure_api_version: str = DEFAULT_AZURE_API_VERSION
    attempt_timeout_seconds: float = 20.0
    """Longest wait for one HTTP exchange."""
    deadline_seconds: float = 60.0
    """Longest wait for one request with its retries."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> "EmbeddingConfig":
        """Read the configuration. Raises ConfigurationError naming the variable that is wrong."""
        provider = _choice(environ, "MEMORYHUB_EMBEDDING_PROVIDER", EMBEDDING_PROVIDERS, default="hashing")
        model = _value(environ, "MEMORYHUB_EMBEDDING_MODEL")
        dimension = _dimension(environ, "MEMORYHUB_EMBEDDING_DIMENSION")
        config = cls(provider, model, dimension)
        if provider == "openai":
            return _with_openai(config, environ)
        if provider == "azure":
            return _with_azure(config, environ)
        if provider == "hashing" and model:
            raise ConfigurationError(
                "MEMORYHUB_EMBEDDING_MODEL is set, but the provider 'hashing' has no models. "
                "Remove it, or set MEMORYHUB_EMBEDDING_PROVIDER to the provider of that model."
            )
        return config


def _with_openai(config: EmbeddingConfig, environ: Mapping[str, str]) -> EmbeddingConfig:
    base_url = _url(environ, "MEMORYHUB_EMBEDDING_BASE_URL")
    api_key = _key(environ, "MEMORYHUB_EMBEDDING_API_KEY", "OPENAI_API_KEY")
    if not base_url and not api_key:
        raise ConfigurationError(
            "The embedding provider 'openai' needs MEMORYHUB_EMBEDDING_API_KEY or OPENAI_API_KEY, "
            "or MEMORYHUB_EMBEDDING_BASE_URL for a server of your own that asks for no key."
        )
    return replace(config, base_url=base_url, api_key=api_key)


def _with_azure(config: EmbeddingConfig, environ: Mapping[str, str]) -> EmbeddingConfig:
    endpoint, deployment, version = azure_address_parts(_url(environ, *AZURE_ADDRESSES) or "")
    version = _value(environ, "AZURE_OPENAI_API_VERSION") or version
    found = {
        "AZURE_OPENAI_ENDPOINT (or OpenAIEmbeddingURI)": endpoint,
        "AZURE_OPENAI_API_KEY (or OpenAIEmbeddingKey)": _key(environ, *AZURE_KEYS),
        AZURE_DEPLOYMENT: _value(environ, AZURE_DEPLOYMENT) or deployment,
    }
    missing = [name for name, value in found.items() if not value]
    if missing:
        raise ConfigurationError(f"The embedding provider 'azure' needs {', '.join(missing)}.")
    base_url, api_key, deployment = found.values()
    return replace(
        config,
        base_url=base_url,
        api_key=api_key,
        azure_deployment=deployment,
        azure_api_version=version or DEFAULT_AZURE_API_VERSION,
    )


def azure_address_parts(address: str) -> tuple[str, str | None, str | None]:
    """Return (endpoint, deployment, api version) of an Azure address.

    The portal hands out the endpoint and, as "target URI", the full
    `…/openai/deployments/NAME/embeddings?api-version=…`; both are accepted.
    """
    parts = urlsplit(address)
    version = parse_qs(parts.query).get("api-version", [None])[0]
    match = _DEPLOYMENT_IN_PATH.match(parts.path)
    path = match["root"] if match else parts.path.rstrip("/").removesuffix("/openai")
    endpoint = parts._replace(path=path, query="", fragment="").geturl()
    return endpoint, unquote(match["deployment"]) if match else None, version


@dataclass(frozen=True, slots=True)
class LLMConfig:
    """Which language model answers what."""

    provider: str = "none"
    model: str | None = None
    models: Mapping[Operation, str] = field(default_factory=lambda: MappingProxyType({}))
    """Models of single operations, which go before `model`."""
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    attempt_timeout_seconds: float = 120.0
    """Longest wait for one answer, and in a stream for its next piece; each request has a deadline besides."""

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read the configuration. Raises ConfigurationError naming the variable that is wrong."""
        provider = _llm_provider(environ)
        base_url = _url(environ, "MEMORYHUB_LLM_BASE_URL")
        api_key = _llm_key(environ, provider, base_url)
        models = {op: _value(environ, f"MEMORYHUB_LLM_MODEL_{op.name}") for op in Operation}
        chosen = MappingProxyType({op: model for op, model in models.items() if model})
        return cls(provider, _value(environ, "MEMORYHUB_LLM_MODEL"), chosen, base_url, api_key)

    def model_for(self, operation: Operation) -> str | None:
        """Return the configured model of an operation; None leaves it to the provider's default."""
        return self.models.get(operation) or self.model

    def counted_as(self, operation: Operation = Operation.CHAT) -> str | None:
        """Return the name for `memoryhub.tokens.counter_for`: the model, else the family of the vendor's own."""
        families = {} if self.base_url else {"anthropic": "claude", "openai": "gpt-5"}
        return self.model_for(operation) or families.get(self.provider)

    def known_as(self, model: str) -> str | None:
        """Return the name that says how a model counts; None where it says nothing.

        A server of others may answer a vendor's default name with whatever it has; a name that somebody chose is meant.
        """
        is_chosen = model == self.model or model in self.models.values()
        return model if is_chosen or not self.base_url else None


def _llm_provider(environ: Mapping[str, str]) -> str:
    if _value(environ, "MEMORYHUB_LLM_PROVIDER"):
        return _choice(environ, "MEMORYHUB_LLM_PROVIDER", LLM_PROVIDERS, default="none")
    if _value(environ, "ANTHROPIC_API_KEY"):
        return "anthropic"
    if _value(environ, "OPENAI_API_KEY"):
        return "openai"
    for name in ("MEMORYHUB_LLM_BASE_URL", "MEMORYHUB_LLM_API_KEY"):
        if _value(environ, name):
            raise ConfigurationError(f"{name} is set, but not for whom. Set MEMORYHUB_LLM_PROVIDER as well.")
    return "none"


def _llm_key(environ: Mapping[str, str], provider: str, base_url: str | None) -> str | None:
    if provider == "none":
        return None
    vendor_key = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}[provider]
    key = _key(environ, "MEMORYHUB_LLM_API_KEY", vendor_key)
    if not key and not base_url:
        raise ConfigurationError(
            f"MEMORYHUB_LLM_PROVIDER is {provider!r}, but there is no key. Set MEMORYHUB_LLM_API_KEY or "
            f"{vendor_key}, or MEMORYHUB_LLM_BASE_URL for a server of your own that asks for no key."
        )
    return key


def _value(environ: Mapping[str, str], *names: str) -> str | None:
    """Return the first of these variables that is set and not blank."""
    return next((value for name in names if (value := environ.get(name, "").strip())), None)


def _name_of(environ: Mapping[str, str], *names: str) -> str:
    return next((name for name in names if environ.get(name, "").strip()), names[0])


def _choice(environ: Mapping[str, str], name: str, choices: tuple[str, ...], *, default: str) -> str:
    value = (_value(environ, name) or default).lower()
    if value not in choices:
        raise ConfigurationError(f"{name} is {value!r}; it must be one of {', '.join(choices)}.")
    return value


def _dimension(environ: Mapping[str, str], name: str) -> int | None:
    value = _value(environ, name)
    if value is None:
        return None
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= MAX_DIMENSION:
        raise ConfigurationError(f"{name} is {value!r}; it must be a whole number from 1 to {MAX_DIMENSION}.")
    return int(value)


def _key(environ: Mapping[str, str], *names: str) -> str | None:
    value = _value(environ, *names)
    if value and not (value.isascii() and value.isprintable() and " " not in value):
        name = _name_of(environ, *names)
        raise ConfigurationError(f"{name} holds blanks or other characters that no key has. Copy it again.")
    return value


def _url(environ: Mapping[str, str], *names: str) -> str | None:
    value = _value(environ, *names)
    if value is None:
        return None
    if not _is_http_url(value):
        name = _name_of(environ, *names)
        raise ConfigurationError(f"{name} is not an address such as http://127.0.0.1:11434/v1.")
    return value.rstrip("/")


def _is_http_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
        has_port = parts.port != 0
    except ValueError:  # a port that is no number, a bracket that never closes
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and has_port and " " not in value
