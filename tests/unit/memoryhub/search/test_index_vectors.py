"""Vectors that may be stored and compared."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.search.bm25 import DIMENSION, term_id
from memoryhub.search.index import UnusableVector, unit_vector, word_vector


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3))
def test_unit_vector_has_length_1_or_0(numbers: list[float]) -> None:
    length = math.hypot(*unit_vector(numbers, dimension=3))

    assert length == pytest.approx(1 if any(numbers) else 0, abs=1e-6)


@pytest.mark.parametrize(
    "numbers",
    [[1.0, 2.0], [1.0, 2.0, math.nan], [math.inf, 0, 0], [1, 2, "x"], [[1, 2, 3]], [10**400, 0, 0], None, [None] * 3],
    ids=str,
)
def test_unit_vector_refuses_what_cannot_be_compared(numbers: Any) -> None:
    with pytest.raises(UnusableVector):
        unit_vector(numbers, dimension=3)


def test_unit_vector_takes_arrays() -> None:
    assert unit_vector(np.array([3.0, 4.0], dtype=np.float32), dimension=2) == pytest.approx([0.6, 0.8])  # type: ignore[arg-type]


def test_word_vector_holds_the_terms() -> None:
    vector = word_vector(Counter(cat=2))

    assert (vector.dimensions(), vector.indices()) == (DIMENSION, [term_id("cat")])


def test_word_vector_of_nothing_is_empty() -> None:
    assert word_vector(Counter()).to_text() == f"{{}}/{DIMENSION}"
