"""Configuration of the embedding provider from the environment.

No Django here: `settings.py` keeps the result of `EmbeddingConfig.from_env(os.environ)` as `settings.EMBEDDING`. Keys
are left out of every repr.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qs, unquote, urlsplit

from memoryhub.env import EnvironmentProblem, read_choice, read_key, read_url, read_value, set_names

EMBEDDING_PROVIDERS = {
    "hashing": "memoryhub.embeddings.hashing.HashingProvider",
    "openai": "memoryhub.embeddings.openai.OpenAIProvider",
    "azure": "memoryhub.embeddings.openai.AzureProvider",
    "sentence-transformers": "memoryhub.embeddings.local.SentenceTransformersProvider",
    "fastembed": "memoryhub.embeddings.local.FastEmbedProvider",
    "universal-sentence-encoder": "memoryhub.embeddings.local.UniversalSentenceEncoderProvider",
}
"""The classes of the providers, loaded when they are configured."""
SINGLE_MODEL_PROVIDERS = ("hashing", "universal-sentence-encoder")

MAX_DIMENSION = 16_000
"""Limit of pgvector's `halfvec`."""
DEFAULT_AZURE_API_VERSION = "2024-10-21"
"""Azure OpenAI's latest stable data-plane version that serves embeddings of all current models."""

AZURE_ADDRESSES = ("MEMORYHUB_EMBEDDING_BASE_URL", "AZURE_OPENAI_ENDPOINT", "OpenAIEmbeddingURI")
AZURE_KEYS = ("MEMORYHUB_EMBEDDING_API_KEY", "AZURE_OPENAI_API_KEY", "OpenAIEmbeddingKey")
AZURE_DEPLOYMENT = "AZURE_OPENAI_EMBEDDING_DEPLOYMENT"
REMOTE_SETTINGS = ("MEMORYHUB_EMBEDDING_BASE_URL", "MEMORYHUB_EMBEDDING_API_KEY")
AZURE_SETTINGS = (*AZURE_ADDRESSES[1:], *AZURE_KEYS[1:], AZURE_DEPLOYMENT, "AZURE_OPENAI_API_VERSION")

_DEPLOYMENT_IN_PATH = re.compile(r"^(?P<root>.*?)/openai/deployments/(?P<deployment>[^/]+)(/.*)?$")


@dataclass(frozen=True, slots=True)
class EmbeddingConfig:
    """Configuration of the embedder. None means the provider's own default, or asking the provider."""

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
        provider = read_choice(environ, "MEMORYHUB_EMBEDDING_PROVIDER", EMBEDDING_PROVIDERS, default="hashing")
        if not read_value(environ, "MEMORYHUB_EMBEDDING_PROVIDER") and (names := set_names(environ, REMOTE_SETTINGS)):
            raise EnvironmentProblem(f"{names[0]} is set, but not for whom. Set MEMORYHUB_EMBEDDING_PROVIDER as well.")
        model = read_value(environ, "MEMORYHUB_EMBEDDING_MODEL")
        size = read_value(environ, "MEMORYHUB_EMBEDDING_DIMENSION")
        if size and not (size.isascii() and size.isdigit() and 1 <= int(size) <= MAX_DIMENSION):
            raise EnvironmentProblem(
                f"MEMORYHUB_EMBEDDING_DIMENSION is {size!r}; it must be a whole number from 1 to {MAX_DIMENSION}."
            )
        config = cls(provider, model, int(size) if size else None)
        if provider == "openai":
            base_url = read_url(environ, "MEMORYHUB_EMBEDDING_BASE_URL")
            api_key = read_key(environ, "MEMORYHUB_EMBEDDING_API_KEY", "OPENAI_API_KEY")
            if not base_url and not api_key:
                raise EnvironmentProblem(
                    "The embedding provider 'openai' needs MEMORYHUB_EMBEDDING_API_KEY or OPENAI_API_KEY, "
                    "or MEMORYHUB_EMBEDDING_BASE_URL for a server of your own that asks for no key."
                )
            return replace(config, base_url=base_url, api_key=api_key)
        if provider == "azure":
            return _with_azure(config, environ)
        if provider in SINGLE_MODEL_PROVIDERS and model:
            raise EnvironmentProblem(
                f"MEMORYHUB_EMBEDDING_MODEL is set, but the provider {provider!r} has no models. "
                "Remove it, or set MEMORYHUB_EMBEDDING_PROVIDER to the provider of that model."
            )
        return config


def ineffective_embedding_settings(environ: Mapping[str, str]) -> list[str]:
    """Return a sentence about the variables that are set and that the configured provider does not read, if any."""
    provider = EmbeddingConfig.from_env(environ).provider
    unread = {"azure": (), "openai": AZURE_SETTINGS}.get(provider, (*REMOTE_SETTINGS, *AZURE_SETTINGS))
    names = set_names(environ, unread)
    if not names:
        return []
    advice = "Set MEMORYHUB_EMBEDDING_PROVIDER to the provider that they are for, or remove them."
    return [f"The embedding provider {provider!r} does not read {', '.join(names)}. {advice}"]


def _with_azure(config: EmbeddingConfig, environ: Mapping[str, str]) -> EmbeddingConfig:
    endpoint, deployment, version = azure_address_parts(read_url(environ, *AZURE_ADDRESSES) or "")
    version = read_value(environ, "AZURE_OPENAI_API_VERSION") or version
    values = {
        "AZURE_OPENAI_ENDPOINT (or OpenAIEmbeddingURI)": endpoint,
        "AZURE_OPENAI_API_KEY (or OpenAIEmbeddingKey)": read_key(environ, *AZURE_KEYS),
        AZURE_DEPLOYMENT: read_value(environ, AZURE_DEPLOYMENT) or deployment,
    }
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise EnvironmentProblem(f"The embedding provider 'azure' needs {', '.join(missing)}.")
    base_url, api_key, deployment = values.values()
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
