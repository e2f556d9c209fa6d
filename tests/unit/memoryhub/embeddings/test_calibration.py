"""Bounds of a space from its probes: what a model knows, what it does not, and what stored texts add."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.embeddings.base import Vectors, unit_vectors
from memoryhub.embeddings.calibration import COLUMNS, MIN_TEXTS, PROBE_TEXTS, PROBES, measure
from memoryhub.embeddings.hashing import HashingProvider
from memoryhub.search.analysis import is_unspaced
from memoryhub.search.fusion import SpaceBounds
from memoryhub.search.models import ACROSS, BOUNDS, SPACED, UNSPACED

RNG = np.random.default_rng(7)


def drawn(*shape: int) -> Vectors:
    return RNG.normal(size=shape).astype(np.float32)


def model(*, knows: set[str], crowded: float = 0.0, noise: float = 0.6) -> Vectors:
    """Return probes as a model embeds them that knows some scripts; those of the others lie close together."""
    meanings, place = drawn(len(PROBES), 1, 64), drawn(64)
    rows = drawn(len(PROBES), 4, 64)
    for script, columns in COLUMNS.items():
        for column in columns:
            if script in knows:
                rows[:, column] = meanings[:, 0] + noise * rows[:, column]
            else:
                rows[:, column] += 3 * place
    return unit_vectors(rows.reshape(-1, 64) + crowded * place, count=len(PROBE_TEXTS))


def test_probes_are_rows_of_two_languages_without_repetition() -> None:
    assert len(PROBE_TEXTS) == len(set(PROBE_TEXTS)) == 4 * len(PROBES)
    for row in PROBES:
        assert [is_unspaced(sentence) for sentence in row] == [False, False, True, True]


@pytest.mark.parametrize("crowded", [0.0, 2.0])
def test_a_model_that_knows_both_languages_has_weight_in_both(crowded: float) -> None:
    """Wherever its cosines lie: low is above what unrelated sentences reach, high above the usual paraphrase."""
    measures = measure(model(knows={SPACED, UNSPACED}, crowded=crowded))

    for script in (SPACED, UNSPACED):
        assert measures[script]["found"] == 1
        assert measures[script]["vector_weight"] == 0.3
        assert (measures[script]["cosine_low"] > 0.7) == bool(crowded)
    assert measures[ACROSS]["found"] == 1


def test_a_language_that_a_model_does_not_know_has_no_weight() -> None:
    measures = measure(model(knows={SPACED}))

    assert measures[SPACED]["vector_weight"] == 0.3
    assert measures[UNSPACED]["vector_weight"] == 0
    assert measures[UNSPACED]["cosine_low"] > 0.8, "all its texts are alike"
    assert measures[ACROSS]["found"] < 0.1


def test_hashing_finds_no_paraphrases() -> None:
    """Its bounds were tuned on questions instead, which repeat words."""
    measures = measure(HashingProvider().embed(PROBE_TEXTS))

    assert measures[SPACED]["vector_weight"] == measures[UNSPACED]["vector_weight"] == 0
    assert HashingProvider.bounds == SpaceBounds(0.3, 0.8, 0.2)


def test_what_stored_texts_have_in_common_is_noise() -> None:
    probes = model(knows={SPACED, UNSPACED}, noise=0.3)
    alone = measure(probes)
    place = drawn(64)
    like = {SPACED: unit_vectors(drawn(MIN_TEXTS, 64) + place, count=MIN_TEXTS)}
    low, high = alone[SPACED]["cosine_low"], alone[SPACED]["cosine_high"]

    together = measure(probes, like)
    assert low < together[SPACED]["cosine_low"] < (low + high) / 2
    assert together[UNSPACED] == alone[UNSPACED]
    assert measure(probes, {SPACED: like[SPACED][1:]}) == alone, "too few texts say nothing"
    flood = {SPACED: np.repeat(like[SPACED][:1], 100, axis=0)}
    assert measure(probes, flood)[SPACED]["cosine_low"] == pytest.approx((low + high) / 2, abs=0.002)


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.floats(0, 1e6))
def test_bounds_are_valid_whatever_a_model_answers(seed: int, dimension: int, crowded: float) -> None:
    rows = np.random.default_rng(seed).normal(size=(len(PROBE_TEXTS), dimension)) + crowded
    measures = measure(unit_vectors(rows.astype(np.float32), count=len(rows)))

    for script in COLUMNS:
        SpaceBounds(**{name: measures[script][name] for name in BOUNDS})
