"""Vectors of queries asked before: the same vector without the embedder, and never more than so many."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from memoryhub.embeddings.spaces import MOST, QueryCache, Vector
from memoryhub.llm.errors import ProviderUnavailable

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


def ask(cache: QueryCache, embedder: Embedder, *texts: str, space_id: int = 1) -> list[Vector]:
    return [cache.vector(space_id, text, embedder(text)) for text in texts]


def test_query_asked_again_is_not_embedded_again() -> None:
    cache, embedder = QueryCache(), Embedder()

    first, again = ask(cache, embedder, "tea", "tea")

    assert again is first
    assert embedder.asked == ["tea"]


@pytest.mark.parametrize("other", ["Tea", "tea ", "", "\ud800", "茶"])
def test_other_query_is_embedded(other: str) -> None:
    cache, embedder = QueryCache(), Embedder()

    ask(cache, embedder, "tea", other, "tea", other)

    assert embedder.asked == ["tea", other]


def test_other_space_has_a_vector_of_its_own() -> None:
    cache, embedder = QueryCache(), Embedder()

    (here,), (there,) = (ask(cache, embedder, "tea", space_id=space) for space in (1, 2))

    assert here is not there
    assert ask(cache, embedder, "tea", space_id=2) == [there]
    assert embedder.asked == ["tea", "tea"]


def test_query_that_was_not_asked_for_longest_goes_first() -> None:
    cache, embedder = QueryCache(2), Embedder()

    ask(cache, embedder, "a", "b", "a", "c")
    embedder.asked.clear()
    ask(cache, embedder, "a", "c")
    assert embedder.asked == []
    ask(cache, embedder, "b")

    assert embedder.asked == ["b"]


def test_cache_holds_no_more_than_so_many() -> None:
    cache, embedder = QueryCache(), Embedder()

    ask(cache, embedder, *map(str, range(MOST + 10)))

    assert len(cache._vectors) == MOST
    embedder.asked.clear()
    ask(cache, embedder, "9", "10")
    assert embedder.asked == ["9"] or embedder.asked == ["9", "10"]


def test_error_is_not_kept() -> None:
    cache, embedder = QueryCache(), Embedder()

    def fail() -> Vector:
        raise ProviderUnavailable("away", code="overloaded")

    for _ in range(2):
        with pytest.raises(ProviderUnavailable):
            cache.vector(1, "tea", fail)
    ask(cache, embedder, "tea")

    assert embedder.asked == ["tea"]


def test_forgotten_queries_are_embedded_again() -> None:
    cache, embedder = QueryCache(), Embedder()

    ask(cache, embedder, "tea")
    cache.forget()
    ask(cache, embedder, "tea")

    assert embedder.asked == ["tea", "tea"]


def test_cache_keeps_no_text() -> None:
    cache, embedder = QueryCache(), Embedder()

    ask(cache, embedder, "somebody's secret")

    assert "secret" not in repr(vars(cache))


def test_threads_that_embed_do_not_wait_for_each_other() -> None:
    """All are inside the embedder at once; with the lock held there, the barrier would break."""
    cache, barrier = QueryCache(), Barrier(THREADS, timeout=10)

    def embed() -> Vector:
        barrier.wait()
        return np.ones(1, dtype=np.float32)

    with ThreadPoolExecutor(THREADS) as pool:
        vectors = list(pool.map(lambda _: cache.vector(1, "tea", embed), range(THREADS)))

    assert len(vectors) == THREADS
    assert len(cache._vectors) == 1


def test_threads_share_a_small_cache() -> None:
    cache = QueryCache(3)

    def own(number: int) -> bool:
        value = float(number % 7)
        vector = cache.vector(1, str(value), lambda: np.array([value], dtype=np.float32))
        return bool(vector[0] == value)

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(own, range(2_000)))
    assert len(cache._vectors) == 3
