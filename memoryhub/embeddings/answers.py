"""Read the body of an answer from `/v1/embeddings`, trusting nothing in it."""

import base64
import binascii
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memoryhub.embeddings.base import Vectors, refuse_not_finite
from memoryhub.providers.errors import BadAnswer


def vectors_in(body: bytes, *, count: int) -> Vectors:
    """Return the vectors in the order of the texts, shape (count, dimension), all finite.

    Raises BadAnswer: `not_json`, `wrong_count`, `bad_vector`, `wrong_dimension` (ragged) or `not_finite`.
    """
    rows = [_vector(item.get("embedding")) for item in _ordered(_items(body), count)]
    if len({len(row) for row in rows}) != 1:
        raise BadAnswer("The provider returned vectors of different lengths.", code="wrong_dimension")
    matrix = np.stack(rows)
    refuse_not_finite(matrix)
    return matrix


def _items(body: bytes) -> list[dict[str, Any]]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise BadAnswer("The provider's answer is not JSON.", code="not_json") from None
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise BadAnswer("The provider's answer holds no list of embeddings.", code="not_embeddings")
    return items


def _ordered(items: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    """Sort by `index`, which servers may use instead of order; all of 0 … count-1 must be there once."""
    indexes = [item.get("index", position) for position, item in enumerate(items)]
    if any(type(index) is not int for index in indexes) or sorted(indexes) != list(range(count)):
        message = f"The provider returned {len(items)} vectors for {count} texts, or numbered them wrongly."
        raise BadAnswer(message, code="wrong_count")
    return [item for _, item in sorted(zip(indexes, items, strict=True), key=lambda pair: pair[0])]


def _vector(value: object) -> NDArray[np.float32]:
    """Return a vector given as a list of numbers, or as base64 of little-endian float32."""
    try:
        vector = _from_base64(value) if isinstance(value, str) else _from_numbers(value)
    except (ValueError, TypeError, OverflowError, binascii.Error):
        raise BadAnswer("The provider returned a vector that cannot be read.", code="bad_vector") from None
    if not vector.size:
        raise BadAnswer("The provider returned an empty vector.", code="bad_vector")
    return vector


def _from_base64(value: str) -> NDArray[np.float32]:
    return np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4").astype(np.float32)


def _from_numbers(values: object) -> NDArray[np.float32]:
    if not isinstance(values, list) or not all(type(value) in (int, float) for value in values):
        raise TypeError("not a list of numbers")
    with np.errstate(over="ignore"):  # 1e39 becomes infinity here and is refused as not finite
        return np.asarray(values, dtype=np.float64).astype(np.float32)
