"""Represent a text that is longer than a model reads by several pieces, and fold their vectors into one.

Models cut silently or refuse what is too long. Here the text is halved at blanks until each piece fits,
at most `MAX_PIECES` of them are embedded, and their unit vectors are averaged, weighted by tokens, as
OpenAI's cookbook does ("Embedding texts that are longer than the model's maximum context length").
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from memoryhub.embeddings.base import Vectors, unit_vectors
from memoryhub.providers.errors import BadAnswer
from memoryhub.tokens import TokenCounter

MAX_PIECES = 32
"""What lies beyond is left out of the vector; a mean of more pieces says nothing about any of them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request to a model may carry."""

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
    texts: Sequence[str],
    embed_batch: Callable[[list[str]], Vectors],
    *,
    limits: Limits,
    counter: TokenCounter,
) -> Vectors:
    """Return one vector for each text: cut, embed batch by batch, fold.

    Raises BadAnswer when the batches come back with different dimensions.
    """
    pieces = cut(texts, max_tokens=limits.tokens_per_text, counter=counter)
    groups = batches(pieces, max_texts=limits.texts_per_request, max_tokens=limits.tokens_per_request)
    vectors = [embed_batch([piece.text for piece in group]) for group in groups]
    if len({batch.shape[1] for batch in vectors}) > 1:
        raise BadAnswer("The provider changed the dimension between two requests.", code="wrong_dimension")
    return folded(pieces, np.vstack(vectors), count=len(texts))


def cut(texts: Sequence[str], *, max_tokens: int, counter: TokenCounter) -> list[Piece]:
    """Return the texts in pieces of at most `max_tokens`, in order, at least one for each non-blank text."""
    return [
        Piece(owner, part, tokens)
        for owner, text in enumerate(texts)
        for part, tokens in islice(_halves(text, max_tokens, counter), MAX_PIECES)
    ]


def _halves(text: str, max_tokens: int, counter: TokenCounter) -> Iterator[tuple[str, int]]:
    """Yield the non-blank parts; a single character is never cut, whatever it counts."""
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
    """Group pieces, in order, so that no group has more texts or tokens than one request may carry."""
    batch: list[Piece] = []
    for piece in pieces:
        tokens = sum(each.tokens for each in batch) + piece.tokens
        if batch and (len(batch) == max_texts or tokens > max_tokens):
            yield batch
            batch = []
        batch.append(piece)
    if batch:
        yield batch


def folded(pieces: Sequence[Piece], vectors: Vectors, *, count: int) -> Vectors:
    """Return one vector for each of `count` texts: the token-weighted mean of its pieces' unit vectors."""
    units = unit_vectors(vectors, count=len(pieces))
    if len(pieces) == count:
        return units
    weights = np.array([max(1, piece.tokens) for piece in pieces], dtype=np.float32)[:, np.newaxis]
    sums = np.zeros((count, units.shape[1]), dtype=np.float32)
    np.add.at(sums, [piece.owner for piece in pieces], units * weights)
    return sums
