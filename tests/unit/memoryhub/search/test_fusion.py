"""Relevance: absolute, monotone in each arm, the same in every space."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.search.fusion import DEFAULT_POLICY, SpaceBounds, relevance, scaled_words, with_neighbours

SEMANTIC = SpaceBounds(cosine_low=0.1, cosine_high=0.7, vector_weight=0.9)
HASHING = SpaceBounds(cosine_low=0.3, cosine_high=0.6, vector_weight=0.2)

shares = st.floats(0, 1)
cosines = st.one_of(st.none(), st.floats(-1, 1))
spaces = st.sampled_from([SEMANTIC, HASHING])


@pytest.mark.parametrize(
    ("similarity", "words", "space", "low", "high"),
    [
        (0.7, 0.0, SEMANTIC, 0.9, 0.9),
        (0.0, 0.7, SEMANTIC, 0.85, 0.9),
        (0.1, 0.05, SEMANTIC, 0.0, 0.01),
        (0.6, 0.0, HASHING, 0.2, 0.2),
        (0.6, 0.6, HASHING, 0.8, 0.9),
        (-1.0, 0.0, HASHING, 0.0, 0.0),
        (None, 0.37, SEMANTIC, 0.5, 0.5),
        (None, 0.0, SEMANTIC, 0.0, 0.0),
        (0.4, None, SEMANTIC, 0.5, 0.5),
        (0.6, None, HASHING, 1.0, 1.0),
        (None, None, HASHING, 0.0, 0.0),
    ],
)
def test_relevance_of_known_cases(
    similarity: float | None, words: float | None, space: SpaceBounds, low: float, high: float
) -> None:
    assert low - 1e-9 <= relevance(similarity, words, space) <= high + 1e-9


@given(cosines, shares, spaces)
def test_relevance_lies_between_0_and_1(similarity: float | None, words: float, space: SpaceBounds) -> None:
    assert 0 <= relevance(similarity, words, space) <= 1


@given(st.floats(-1, 1), st.floats(-1, 1), shares, shares, spaces)
def test_relevance_grows_with_each_arm(a: float, b: float, c: float, d: float, space: SpaceBounds) -> None:
    (lower, higher), (fewer, more) = sorted((a, b)), sorted((c, d))

    assert relevance(lower, fewer, space) <= relevance(higher, more, space) + 1e-12


@given(shares, spaces)
def test_relevance_without_vector_is_that_of_the_words(words: float, space: SpaceBounds) -> None:
    assert relevance(None, words, space) == pytest.approx(scaled_words(words))


@given(cosines, shares, spaces)
def test_relevance_is_never_less_than_either_arm(
    similarity: float | None, words: float, space: SpaceBounds
) -> None:
    together = relevance(similarity, words, space)

    assert together >= relevance(None, words, space) - 1e-12
    assert together >= relevance(similarity, 0.0, space) - 1e-12


def test_relevance_means_the_same_in_differently_scaled_spaces() -> None:
    high_lying = replace(SEMANTIC, cosine_low=0.7, cosine_high=0.9)

    assert relevance(0.4, 0.2, SEMANTIC) == pytest.approx(relevance(0.8, 0.2, high_lying))


@given(st.floats(0, 0.99), st.floats(0.001, 0.01))
def test_scaled_words_make_no_ties(words: float, more: float) -> None:
    assert scaled_words(words + more) > scaled_words(words)


@pytest.mark.parametrize(
    "bounds", [(0.5, 0.5, 0.5), (0.6, 0.5, 0.5), (-2, 0.5, 0.5), (0, 2, 0.5), (0, 1, 1.5)]
)
def test_bounds_that_make_no_sense_are_refused(bounds: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match=r"Bounds|weight"):
        SpaceBounds(*bounds)


@given(st.lists(shares, max_size=12))
def test_neighbours_only_ever_add(relevances: list[float]) -> None:
    lifted = with_neighbours(relevances)

    assert len(lifted) == len(relevances)
    assert all(own - 1e-12 <= now <= 1 for own, now in zip(relevances, lifted, strict=True))


def test_neighbours_pass_on_half_and_a_quarter() -> None:
    assert with_neighbours([0.0, 0.0, 0.8, 0.0, 0.0, 0.0]) == pytest.approx([0.2, 0.4, 0.8, 0.4, 0.2, 0.0])


def test_neighbours_pass_on_the_better_one_only() -> None:
    assert with_neighbours([0.4, 0.0, 0.8], replace(DEFAULT_POLICY, neighbour_share=0.5))[1] == pytest.approx(
        0.4
    )
