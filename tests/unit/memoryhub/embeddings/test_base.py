"""Refusals of the base class, whatever a provider hands it."""

from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
import pytest

from memoryhub.embeddings.base import EmbeddingProvider, Vectors
from memoryhub.embeddings.config import EmbeddingConfig
from memoryhub.llm.errors import BadAnswer


class Odd(EmbeddingProvider):
    """A provider of three dimensions that returns whatever the test wants."""

    name = "odd"
    is_local = True
    model = "m"
    dimension = 3

    def __init__(self, answer: Callable[[int], Vectors]) -> None:
        self.answer = answer

    @classmethod
    def from_config(cls, config: EmbeddingConfig) -> Self:
        raise NotImplementedError

    def _embed(self, texts: Sequence[str]) -> Vectors:
        return self.answer(len(texts))


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (lambda count: np.ones((count + 1, 3)), "wrong_count"),
        (lambda count: np.ones(count), "wrong_count"),
        (lambda count: np.ones((count, 4)), "wrong_dimension"),
        (lambda count: np.full((count, 3), np.inf), "not_finite"),
        (lambda count: np.zeros((count, 3)), "zero_vector"),
    ],
)
def test_embed_refuses_what_is_no_matrix_of_vectors(answer: Callable[[int], Vectors], code: str) -> None:
    with pytest.raises(BadAnswer) as caught:
        Odd(answer).embed(["a", "b"])
    assert caught.value.code == code


def test_embed_scales_very_large_vectors() -> None:
    vectors = Odd(lambda count: np.full((count, 3), 1e30, dtype=np.float32)).embed(["a"])

    np.testing.assert_allclose(vectors, [[3**-0.5] * 3], rtol=1e-6)


def test_probe_reports_an_exception_that_nobody_foresaw() -> None:
    def explode(count: int) -> Vectors:
        raise RuntimeError("with a text of a user")

    assert Odd(explode).probe() == (False, "odd failed with RuntimeError.")
