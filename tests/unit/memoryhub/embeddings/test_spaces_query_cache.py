"""Vectors of queries asked before: the same vector without the embedder, and never more than so many."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from uuid import uuid4

import numpy as np
import pytest
from django.core.cache import caches

from memoryhub.embeddings.spaces import Vector, cached_vector
from memoryhub.llm.errors import ProviderUnavailable
from memoryhub.llm.usage.caps import NOBODY, Payer

THREADS = 8


class Embedder:
    """Makes a new vector for each call, and counts them."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, text: str) -> Callable[[], Vector]:
        def embed() -> Vector:
            self.asked.append(text)
            return np.array([len(self.asked)], dtype=np.float32)

        return embed


@pytest.fixture(autouse=True)
def cache() -> Iterator[Any]:
    """The cache, empty before and after."""
    caches["query_vectors"].clear()
    yield caches["query_vectors"]
    caches["query_vectors"].clear()


def ask(embedder: Embedder, *texts: str, space_id: int = 1, payer: Payer = NOBODY) -> list[float]:
    return [float(cached_vector(space_id, text, payer, embedder(text))[0]) for text in texts]


def test_query_asked_again_is_not_embedded_again() -> None:
    embedder = Embedder()

    assert ask(embedder, "tea", "tea") == [1, 1]
    assert embedder.asked == ["tea"]


@pytest.mark.parametrize("other", ["Tea", "tea ", "", "\ud800", "茶"])
def test_other_query_is_embedded(other: str) -> None:
    embedder = Embedder()

    ask(embedder, "tea", other, "tea", other)

    assert embedder.asked == ["tea", other]


def test_other_space_has_a_vector_of_its_own() -> None:
    embedder = Embedder()

    assert [ask(embedder, "tea", space_id=space) for space in (1, 2, 2)] == [[1], [2], [2]]
    assert embedder.asked == ["tea", "tea"]


def test_what_another_asked_is_embedded_again() -> None:
    """Otherwise the time of an answer tells who asked the same words before."""
    embedder = Embedder()
    mika, user = Payer("kana", uuid4()), Payer("kana", uuid4())

    vectors = [ask(embedder, "tea", payer=payer) for payer in (mika, user, Payer("yuno"), Payer(""), mika)]

    assert vectors == [[1], [2], [3], [4], [1]]
    assert len(embedder.asked) == 4


def test_cache_holds_no_more_than_so_many(cache: Any) -> None:
    embedder = Embedder()

    ask(embedder, *map(str, range(2_010)))

    assert len(cache._cache) <= 2_000
    embedder.asked.clear()
    ask(embedder, "2009", "0")
    assert embedder.asked == ["0"], "what was asked last is kept"


def test_error_is_not_kept() -> None:
    embedder = Embedder()

    def fail() -> Vector:
        raise ProviderUnavailable("away", code="overloaded")

    for _ in range(2):
        with pytest.raises(ProviderUnavailable):
            cached_vector(1, "tea", NOBODY, fail)
    ask(embedder, "tea")

    assert embedder.asked == ["tea"]


def test_cache_keeps_no_text(cache: Any) -> None:
    ask(Embedder(), "somebody's secret")

    assert len(cache._cache) == 1
    assert "secret" not in repr(cache._cache)


def test_threads_that_embed_do_not_wait_for_each_other(cache: Any) -> None:
    """All are inside the embedder at once; with a lock held there, the barrier would break."""
    barrier = Barrier(THREADS, timeout=60)

    def embed() -> Vector:
        barrier.wait()
        return np.ones(1, dtype=np.float32)

    with ThreadPoolExecutor(THREADS) as pool:
        vectors = list(pool.map(lambda _: cached_vector(1, "tea", NOBODY, embed), range(THREADS)))

    assert len(vectors) == THREADS
    assert len(cache._cache) == 1
