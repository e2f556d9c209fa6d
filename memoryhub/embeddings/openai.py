"""Embeddings from OpenAI, Azure OpenAI, or any server that speaks `/v1/embeddings` (Ollama, vLLM, LM Studio, TEI).

The SDK builds the request; the answer is read and checked here, because the SDK passes on HTML as a string
and any JSON as an object with missing attributes.
"""

import base64
import binascii
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
import openai
from numpy.typing import NDArray

from memoryhub.embeddings.base import (
    NATIVE_DIMENSIONS,
    PROBE_TEXT,
    EmbeddingProvider,
    Limits,
    Vectors,
    embed_in_pieces,
    refuse_not_finite,
    wrong_dimension,
)
from memoryhub.embeddings.config import EmbeddingConfig
from memoryhub.errors import stored_text
from memoryhub.llm.errors import BadAnswer, ProviderMisconfigured, ProviderTimeout
from memoryhub.llm.remote import Budget, Clock, call_with_retries, translate_sdk_errors
from memoryhub.llm.tokens import CL100K, UNKNOWN_MODEL, TokenCounter


def parse_vectors(body: bytes, *, count: int) -> Vectors:
    """Return the vectors in the order of the texts, shape (count, dimension), all finite.

    Raises BadAnswer: `not_json`, `wrong_count`, `bad_vector`, `wrong_dimension` (ragged) or `not_finite`.
    """
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise BadAnswer("The provider's answer is not JSON.", code="not_json") from None
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise BadAnswer("The provider's answer holds no list of embeddings.", code="not_embeddings")
    # Servers may use `index` instead of order; each of 0 … count-1 must occur once.
    indexes = [item.get("index", position) for position, item in enumerate(items)]
    if any(type(index) is not int for index in indexes) or sorted(indexes) != list(range(count)):
        message = stored_text(
            "The provider returned {got} vectors for {count} texts, or numbered them wrongly.",
            got=len(items),
            count=count,
        )
        raise BadAnswer(message, code="wrong_count")
    rows = [_vector(items[indexes.index(index)].get("embedding")) for index in range(count)]
    if len({len(row) for row in rows}) != 1:
        raise BadAnswer("The provider returned vectors of different lengths.", code="wrong_dimension")
    matrix = np.stack(rows)
    refuse_not_finite(matrix)
    return matrix


def _vector(value: object) -> NDArray[np.float32]:
    try:
        if isinstance(value, str):
            decoded = np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
        elif isinstance(value, list) and all(type(number) in (int, float) for number in value):
            decoded = np.asarray(value, dtype=np.float64)
        else:
            raise TypeError("not a list of numbers")
        with np.errstate(over="ignore"):  # 1e39 becomes infinity here and is refused as not finite
            vector = decoded.astype(np.float32)
    except (ValueError, TypeError, OverflowError, binascii.Error):
        raise BadAnswer("The provider returned a vector that cannot be read.", code="bad_vector") from None
    if not vector.size:
        raise BadAnswer("The provider returned an empty vector.", code="bad_vector")
    return vector


DEFAULT_MODEL = "text-embedding-3-small"
DEFAULT_BASE_URL = "https://api.openai.com/v1"

# OpenAI takes 8,192 tokens a text (cl100k_base), 2,048 texts and 300,000 tokens a request (SDK docstring).
# Other limits are rarely documented: Text Embeddings Inference takes 32 texts, Ollama 2,048 tokens by default.
OPENAI_LIMITS = Limits(tokens_per_text=8000, texts_per_request=256, tokens_per_request=100_000)
OTHER_LIMITS = Limits(tokens_per_text=2000, texts_per_request=32, tokens_per_request=32_000)

PROBE_SECONDS = 5.0
MAX_ANSWER_BYTES = 64 * 1024 * 1024


class OpenAIProvider(EmbeddingProvider):
    name: ClassVar[str] = "openai"
    is_local: ClassVar[bool] = False

    def __init__(
        self, client: openai.OpenAI, config: EmbeddingConfig, *, limits: Limits, clock: Clock | None = None
    ) -> None:
        self.model = config.model or config.azure_deployment or DEFAULT_MODEL
        self._client = client
        self._limits = limits
        self._counter = TokenCounter(CL100K if self.model in NATIVE_DIMENSIONS else UNKNOWN_MODEL)
        self._clock = clock or Clock()
        self._budget = Budget(config.deadline_seconds, config.attempt_timeout_seconds)
        self._dimension = config.dimension or NATIVE_DIMENSIONS.get(self.model)
        self._asked_dimension = config.dimension if self.model.startswith("text-embedding-3") else None
        self._dimension_lock = threading.Lock()

    @classmethod
    def from_config(cls, config: EmbeddingConfig, *, clock: Clock | None = None) -> Self:
        client = openai.OpenAI(
            api_key=config.api_key or "none",  # required by the SDK; servers without keys ignore it
            base_url=config.base_url or DEFAULT_BASE_URL,
            max_retries=0,
            http_client=openai.DefaultHttpxClient(follow_redirects=False),
        )
        limits = OTHER_LIMITS if config.base_url else OPENAI_LIMITS
        return cls(client, config, limits=limits, clock=clock)

    def close(self) -> None:
        self._client.close()

    @property
    def dimension(self) -> int:
        """Length of the vectors: as configured, else as known of the model, else as first answered."""
        if self._dimension is None:
            self._learn(self._embed_batch([PROBE_TEXT], self._budget))
        assert self._dimension is not None
        return self._dimension

    def _embed(self, texts: Sequence[str]) -> Vectors:
        return embed_in_pieces(
            texts, lambda batch: self._embed_batch(batch, self._budget), limits=self._limits, counter=self._counter
        )

    def _probe_dimension(self) -> int:
        budget = replace(self._budget, deadline_seconds=PROBE_SECONDS, attempts=1)
        return int(self._embed_batch([PROBE_TEXT], budget).shape[1])

    def _embed_batch(self, texts: list[str], budget: Budget) -> Vectors:
        """Return one finite vector for each text, of the dimension that all before had."""
        body = call_with_retries(budget, lambda timeout: self._post(texts, timeout), self._clock)
        vectors = parse_vectors(body, count=len(texts))
        self._learn(vectors)
        return vectors

    def _learn(self, vectors: Vectors) -> None:
        """Remember the first answer's dimension; raise BadAnswer for any other later."""
        got = vectors.shape[1]
        with self._dimension_lock:
            if self._dimension is None:
                self._dimension = got
        if got != self._dimension:
            raise wrong_dimension(got, self._dimension)

    def _post(self, texts: list[str], timeout_seconds: float) -> bytes:
        ends_at = self._clock.now() + timeout_seconds
        # `encoding_format` is left to the SDK; its default, base64, works with every server.
        create = self._client.embeddings.with_streaming_response.create
        with (
            translate_sdk_errors(openai),
            create(
                # Lone surrogates cannot be written as JSON in UTF-8.
                input=[text.encode("utf-8", "replace").decode("utf-8") for text in texts],
                model=self.model,
                dimensions=self._asked_dimension or openai.omit,
                timeout=timeout_seconds,
            ) as answer,
        ):
            body = bytearray()
            for chunk in answer.iter_bytes():
                body += chunk
                if self._clock.now() > ends_at:  # the SDK's time-out restarts with every chunk
                    raise ProviderTimeout("The provider answered too slowly.", code="timeout")
                if len(body) > MAX_ANSWER_BYTES:
                    raise BadAnswer("The provider's answer is too large.", code="too_large", permanent=True)
            return bytes(body)


class AzureProvider(OpenAIProvider):
    """Asks a deployment. The space is named after the model where one is configured, else the deployment."""

    name: ClassVar[str] = "azure"

    @classmethod
    def from_config(cls, config: EmbeddingConfig, *, clock: Clock | None = None) -> Self:
        if not (config.base_url and config.api_key and config.azure_deployment):
            raise ProviderMisconfigured("Azure needs an endpoint, a key and a deployment.", code="not_configured")
        client = openai.AzureOpenAI(
            azure_endpoint=config.base_url,
            azure_deployment=config.azure_deployment,
            api_version=config.azure_api_version,
            api_key=config.api_key,
            max_retries=0,
            http_client=openai.DefaultHttpxClient(follow_redirects=False),
        )
        return cls(client, config, limits=OPENAI_LIMITS, clock=clock)
