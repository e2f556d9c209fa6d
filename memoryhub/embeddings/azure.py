"""Embeddings from a deployment on Azure OpenAI: another address and another header, the same answers."""

from typing import ClassVar, Self

import openai

from memoryhub.embeddings.openai import OPENAI_LIMITS, OpenAIProvider
from memoryhub.providers.config import EmbeddingConfig
from memoryhub.providers.errors import ProviderMisconfigured
from memoryhub.providers.retry import Clock


class AzureProvider(OpenAIProvider):
    """Asks a deployment. The space is named after the model where one is configured, else the deployment."""

    name: ClassVar[str] = "azure"

    @classmethod
    def from_config(cls, config: EmbeddingConfig, *, clock: Clock | None = None) -> Self:
        """Build the provider. Raises ProviderMisconfigured without endpoint, key and deployment."""
        if not (config.base_url and config.api_key and config.azure_deployment):
            raise ProviderMisconfigured(
                "Azure needs an endpoint, a key and a deployment.", code="not_configured"
            )
        client = openai.AzureOpenAI(
            azure_endpoint=config.base_url,
            azure_deployment=config.azure_deployment,
            api_version=config.azure_api_version,
            api_key=config.api_key,
            max_retries=0,
            http_client=openai.DefaultHttpxClient(follow_redirects=False),
        )
        return cls(client, config, limits=OPENAI_LIMITS, clock=clock)
