"""Make what comes as a vector fit to be stored and compared.

Pure. Vectors are kept at unit length: the cosine does not change, and neither huge nor tiny numbers
leave the range of half precision (6e-8 to 65,504).
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pgvector import SparseVector

from memoryhub.search.words import DIMENSION, document_weights


class UnusableVector(ValueError):
    """The vector cannot be compared in its space: another dimension, or not numbers."""


def unit_vector(vector: Sequence[float], *, dimension: int) -> list[float]:
    """Return the vector at length 1; a zero vector stays, and is similar to nothing.

    Raises:
        UnusableVector: where its dimension is not the space's, or a number is not finite.
    """
    numbers = _as_numbers(vector)
    if numbers.shape != (dimension,):
        raise UnusableVector(f"A vector of this space has {dimension} numbers, not {numbers.size}.")
    if not np.isfinite(numbers).all():
        raise UnusableVector("A vector holds finite numbers only.")
    scaled = numbers / (np.abs(numbers).max() or 1.0)  # first, so that no square leaves the range of floats
    unit: list[float] = (scaled / (np.linalg.norm(scaled) or 1.0)).tolist()
    return unit


def _as_numbers(vector: Sequence[float]) -> NDArray[np.float64]:
    try:
        return np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UnusableVector("A vector is a list of numbers.") from error


def word_vector(terms: Counter[str]) -> SparseVector:
    """Return a text's analysed terms as the sparse vector that its index row stores."""
    return SparseVector(document_weights(terms), DIMENSION)
