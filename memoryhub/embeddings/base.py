"""What every embedding provider is and promises.

A provider implements `_embed`; this base refuses blank texts beforehand and whatever is not a usable matrix
afterwards, so that no caller ever stores a vector of the wrong length, a NaN or a zero vector.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from memoryhub.providers.config import EmbeddingConfig
from memoryhub.providers.errors import BadAnswer, EmptyText, ProviderError

Vectors = NDArray[np.float32]

PROBE_TEXT = "memoryhub"


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a provider can be used now, and one sentence for the person who asks."""

    available: bool
    detail: str


class EmbeddingProvider(ABC):
    """Turns texts into unit vectors. Instances are shared by all threads of a process."""

    name: ClassVar[str]
    """The provider's name in `MEMORYHUB_EMBEDDING_PROVIDER`, and the first part of an embedding space."""
    is_local: ClassVar[bool]
    """True when no call leaves this process, so that it may run inside a database transaction."""

    model: str
    """Second part of an embedding space; changes whenever the same text would get another vector."""
    cosine_low: float
    """Raw cosine at and below which a pair counts as unrelated (relevance 0) in this space."""
    cosine_high: float
    """Raw cosine at and above which a pair counts as a clear match (relevance 1) in this space."""
    vector_weight: float
    """Weight in [0, 1] of this space against words when both are fused."""

    @classmethod
    @abstractmethod
    def from_config(cls, config: EmbeddingConfig) -> Self:
        """Build the provider. Raises ProviderMisconfigured when something it needs is missing."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Length of the vectors. May ask the provider once when it is not configured (ProviderError)."""

    @abstractmethod
    def _embed(self, texts: Sequence[str]) -> Vectors:
        """Return one row for each of one or more non-blank texts, of any norm."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return L2-normalised float32 vectors of shape (len(texts), dimension).

        Any number of texts of any length; batching is the provider's business. Raises EmptyText for a blank
        text, ProviderError for everything the provider does wrong.
        """
        refuse_blank(texts)
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        vectors = unit_vectors(self._embed(texts), count=len(texts))
        if vectors.shape[1] != self.dimension:
            raise wrong_dimension(vectors.shape[1], self.dimension)
        return vectors

    def close(self) -> None:  # noqa: B027  most providers hold nothing open
        """Give back connections; the instance is not used afterwards."""

    def probe(self) -> Availability:
        """Say whether the provider works right now. Never raises."""
        try:
            dimension = self._probe_dimension()
        except ProviderError as error:
            return Availability(False, str(error))
        except Exception as error:  # a probe reports, whatever a vendor's library throws
            return Availability(False, f"{self.name} failed with {type(error).__name__}.")
        return Availability(True, f"{self.name} with {self.model}, {dimension} dimensions.")

    def _probe_dimension(self) -> int:
        return int(self.embed([PROBE_TEXT]).shape[1])


def refuse_blank(texts: Sequence[str]) -> None:
    """Raise EmptyText when any text is empty or blank, naming its position, never its content."""
    if isinstance(texts, str):
        raise TypeError("embed() takes a sequence of texts, not one text.")
    for position, text in enumerate(texts):
        if not text.strip():
            raise EmptyText(f"Text {position} is empty; there is nothing to embed.")


def unit_vectors(vectors: Vectors, *, count: int) -> Vectors:
    """Return the rows scaled to length 1. Raises BadAnswer for a wrong shape, NaN, infinity or a zero row."""
    if vectors.ndim != 2 or vectors.shape[0] != count:
        raise BadAnswer("The provider returned another number of vectors than texts.", code="wrong_count")
    rows = vectors.astype(np.float64)  # 1e30 squared overflows in float32
    refuse_not_finite(rows)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if (norms == 0).any():
        raise BadAnswer("The provider returned a vector of zeros.", code="zero_vector", permanent=True)
    unit: Vectors = (rows / norms).astype(np.float32)
    return unit


def refuse_not_finite(vectors: NDArray[np.floating]) -> None:
    """Raise BadAnswer for NaN or infinity; permanent, because the same text would give the same again."""
    if not np.isfinite(vectors).all():
        message = "The provider returned numbers that are not finite."
        raise BadAnswer(message, code="not_finite", permanent=True)


def wrong_dimension(got: int, expected: int) -> BadAnswer:
    """Return the error for vectors of another length than configured."""
    return BadAnswer(
        f"The provider returned {got} dimensions instead of {expected}. "
        "Set MEMORYHUB_EMBEDDING_DIMENSION (or the model) to fit.",
        code="wrong_dimension",
        permanent=True,
    )
