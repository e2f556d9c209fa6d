"""Interface of embedding providers (SPEC A4), and embedding of texts longer than a model reads.

A provider implements `_embed`; the base class refuses blank texts beforehand and any unusable matrix afterwards, so
that no caller ever stores a vector of the wrong length, a NaN or a zero vector.

Long texts: models cut silently or refuse what is too long. Here the text is halved at blanks until each piece fits,
at most `MAX_PIECES` of them are embedded, and their unit vectors are averaged, weighted by tokens, as
OpenAI's cookbook does ("Embedding texts that are longer than the model's maximum context length").
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from memoryhub.embeddings.config import EmbeddingConfig
from memoryhub.errors import stored_text
from memoryhub.llm.errors import BadAnswer, EmptyText, ProviderError
from memoryhub.llm.tokens import TokenCounter
from memoryhub.search.fusion import SpaceBounds

Vectors = NDArray[np.float32]

PROBE_TEXT = "memoryhub"


class EmbeddingProvider(ABC):
    """Turns texts into unit vectors. Instances are shared by all threads of a process."""

    name: ClassVar[str]
    """The provider's name in `MEMORYHUB_EMBEDDING_PROVIDER`, and the first part of an embedding space."""
    is_local: ClassVar[bool]
    """True when no call leaves this process, so that it may run inside a database transaction."""

    model: str
    """Second part of an embedding space; changes whenever the same text would get another vector."""
    bounds: ClassVar[SpaceBounds | None] = None
    """Constants that were tuned on real questions; None: the space is measured (`calibration.py`)."""

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
        """Close connections; the instance is not used afterwards."""

    def probe(self) -> tuple[bool, str]:
        """Return whether the provider works right now, and a sentence for people. Never raises."""
        try:
            dimension = self._probe_dimension()
        except ProviderError as error:
            return False, str(error)
        except Exception as error:  # a probe reports any exception of a vendor's library
            return False, f"{self.name} failed with {type(error).__name__}."
        return True, f"{self.name} with {self.model}, {dimension} dimensions."

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
        message = stored_text("The provider returned numbers that are not finite.")
        raise BadAnswer(message, code="not_finite", permanent=True)


def wrong_dimension(got: int, expected: int) -> BadAnswer:
    return BadAnswer(
        stored_text(
            "The provider returned {got} dimensions instead of {expected}. "
            "Set MEMORYHUB_EMBEDDING_DIMENSION (or the model) to fit.",
            got=got,
            expected=expected,
        ),
        code="wrong_dimension",
        permanent=True,
    )


NATIVE_DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}


MAX_PIECES = 32
"""Further pieces are ignored; a mean of more represents none of them."""


@dataclass(frozen=True, slots=True)
class Limits:
    tokens_per_text: int
    texts_per_request: int
    tokens_per_request: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the text at position `owner`, with its estimated tokens."""

    owner: int
    text: str
    tokens: int


def embed_in_pieces(
    texts: Sequence[str], embed_batch: Callable[[list[str]], Vectors], *, limits: Limits, counter: TokenCounter
) -> Vectors:
    """Return one vector for each text: cut, embed batch by batch, fold.

    Raises BadAnswer when the batches come back with different dimensions.
    """
    pieces = split_texts(texts, max_tokens=limits.tokens_per_text, counter=counter)
    groups = batches(pieces, max_texts=limits.texts_per_request, max_tokens=limits.tokens_per_request)
    vectors = [embed_batch([piece.text for piece in group]) for group in groups]
    if len({batch.shape[1] for batch in vectors}) > 1:
        raise BadAnswer("The provider changed the dimension between two requests.", code="wrong_dimension")
    return combine_pieces(pieces, np.vstack(vectors), count=len(texts))


def split_texts(texts: Sequence[str], *, max_tokens: int, counter: TokenCounter) -> list[Piece]:
    """Return the texts in pieces of at most `max_tokens`, in order, at least one for each non-blank text."""
    return [
        Piece(owner, part, tokens)
        for owner, text in enumerate(texts)
        for part, tokens in islice(_halves(text, max_tokens, counter), MAX_PIECES)
    ]


def _halves(text: str, max_tokens: int, counter: TokenCounter) -> Iterator[tuple[str, int]]:
    """Yield the non-blank parts; a single character is never split."""
    if not text.strip():
        return
    tokens = counter.count(text) if len(text) <= max_tokens * 16 else max_tokens + 1
    if tokens <= max_tokens or len(text) == 1:
        yield text, min(tokens, max_tokens)
        return
    middle = len(text) // 2
    blank = max(text.rfind(" ", 1, middle), text.rfind("\n", 1, middle))
    at = blank if blank > middle // 2 else middle
    yield from _halves(text[:at], max_tokens, counter)
    yield from _halves(text[at:], max_tokens, counter)


def batches(pieces: Sequence[Piece], *, max_texts: int, max_tokens: int) -> Iterator[list[Piece]]:
    """Group pieces, in order, so that no batch exceeds the limits of one request in texts or tokens."""
    batch: list[Piece] = []
    for piece in pieces:
        tokens = sum(member.tokens for member in batch) + piece.tokens
        if batch and (len(batch) == max_texts or tokens > max_tokens):
            yield batch
            batch = []
        batch.append(piece)
    if batch:
        yield batch


def combine_pieces(pieces: Sequence[Piece], vectors: Vectors, *, count: int) -> Vectors:
    """Return one vector for each of `count` texts: the token-weighted mean of its pieces' unit vectors."""
    units = unit_vectors(vectors, count=len(pieces))
    if len(pieces) == count:
        return units
    weights = np.array([max(1, piece.tokens) for piece in pieces], dtype=np.float32)[:, np.newaxis]
    sums = np.zeros((count, units.shape[1]), dtype=np.float32)
    np.add.at(sums, [piece.owner for piece in pieces], units * weights)
    return sums
