"""Factors fitted to what providers report: close, from above, and never out of bounds."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryhub.llm.tokens import CLAUDE, O200K, SCRIPTS, UNKNOWN_MODEL, Factors, Script
from memoryhub.llm.usage.calibration import MAX_RATIO, MIN_FACTOR, Sample, fit

Counts = Mapping[Script, int]


def reported(counts: Counts, factors: Counts | Mapping[Script, float], *, overhead: int = 0) -> int:
    return max(1, round(sum(counts.get(script, 0) * factors[script] for script in SCRIPTS)) + overhead)


def estimated(counts: Counts, messages: int, factors: Factors) -> float:
    scripts = sum(counts.get(script, 0) * factors.of(script) for script in SCRIPTS)
    return scripts + messages * factors.per_message + factors.per_request


def samples_of(texts: Sequence[Counts], truth: Mapping[Script, float], *, overhead: int = 0) -> list[Sample]:
    return [Sample(counts, 1, reported(counts, truth, overhead=overhead)) for counts in texts]


TRUTH: Mapping[Script, float] = {"latin": 1.1, "japanese": 1.37, "code": 1.2, "other": 1.0}
ENGLISH: list[Counts] = [{"latin": 40 + 17 * number} for number in range(20)]
JAPANESE: list[Counts] = [{"japanese": 40 + 13 * number, "latin": number % 3} for number in range(20)]
MIXED: list[Counts] = [{"latin": 30 + 9 * number, "japanese": 350 - 11 * number} for number in range(20)]


@pytest.mark.parametrize("prior", [CLAUDE, UNKNOWN_MODEL, O200K], ids=["claude", "unknown", "o200k"])
@pytest.mark.parametrize("texts", [ENGLISH, JAPANESE, MIXED, ENGLISH + JAPANESE + MIXED])
def test_a_steady_provider_is_met_within_ten_percent_from_above(texts: list[Counts], prior: Factors) -> None:
    samples = samples_of(texts, TRUTH, overhead=9)
    found = fit(samples, prior=prior)
    for sample in samples:
        away = estimated(sample.by_script, 1, found.factors) / sample.input_tokens - 1
        assert -0.001 <= away <= 0.10
    assert found.error_after_p95 <= 0.10 and found.samples == len(samples)


def test_each_script_is_learnt_from_mixed_texts() -> None:
    found = fit(samples_of(ENGLISH + JAPANESE + MIXED, TRUTH), prior=CLAUDE).factors
    assert found.latin == pytest.approx(1.1, rel=0.06)
    assert found.japanese == pytest.approx(1.37, rel=0.06)


def test_what_was_never_seen_keeps_its_prior_or_rises() -> None:
    found = fit(samples_of(ENGLISH, TRUTH), prior=CLAUDE).factors
    assert CLAUDE.japanese <= found.japanese <= CLAUDE.japanese * 1.1
    assert CLAUDE.other <= found.other <= CLAUDE.other * 1.1


def test_a_prior_that_was_too_low_is_raised() -> None:
    found = fit(samples_of(JAPANESE, TRUTH), prior=O200K)
    assert found.factors.japanese == pytest.approx(1.37, rel=0.06)
    assert found.error_before_median > 0.2 > found.error_after_p95


def test_a_few_odd_answers_do_not_bend_the_fit() -> None:
    samples = samples_of(ENGLISH * 3, TRUTH)
    odd = [Sample(samples[0].by_script, 1, 20_000), Sample(samples[5].by_script, 1, 1)]
    clean, dirty = (fit(each, prior=CLAUDE).factors for each in (samples, samples + odd))
    assert dirty.latin == pytest.approx(clean.latin, rel=0.05)


def test_noise_is_covered_from_above() -> None:
    noisy = [
        Sample(sample.by_script, 1, round(sample.input_tokens * (0.95 + 0.01 * (number % 11))))
        for number, sample in enumerate(samples_of(ENGLISH * 2, TRUTH))
    ]
    found = fit(noisy, prior=CLAUDE)
    under = [each for each in noisy if estimated(each.by_script, 1, found.factors) < each.input_tokens]
    assert len(under) <= len(noisy) * 0.05
    assert found.error_after_p95 <= 0.20


def test_nothing_to_fit_to_is_refused() -> None:
    for samples in ([], [Sample({"latin": 3}, 1, 0)]):
        with pytest.raises(ValueError, match="nothing"):
            fit(samples, prior=CLAUDE)


COUNTS = st.fixed_dictionaries({script: st.integers(0, 100_000) for script in SCRIPTS})


@settings(deadline=None)
@given(
    st.lists(st.builds(Sample, COUNTS, st.integers(0, 1000), st.integers(1, 10**7)), min_size=1, max_size=30),
    st.sampled_from([CLAUDE, O200K, UNKNOWN_MODEL]),
)
def test_whatever_is_reported_factors_stay_in_bounds(samples: list[Sample], prior: Factors) -> None:
    found = fit(samples, prior=prior).factors
    for script in SCRIPTS:
        assert MIN_FACTOR <= found.of(script) <= prior.of(script) * MAX_RATIO + 0.001
    assert 0 <= found.per_message <= 50 and 0 <= found.per_request <= 500
