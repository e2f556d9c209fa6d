"""Fit a model's factors to what its provider counted (SPEC A7): samples in, factors out; pure.

A sample is a request of plain texts: its o200k_base tokens by script class, its messages, and the input tokens that
the provider reported. The model of it is linear:

    reported ≈ Σ over scripts (factor × raw count) + per message × messages + per request

Unknowns are the six figures, each as a ratio to its prior, so that one ridge fits all. Rows are divided by what was
reported: a short request counts as much as a long one, and the residual is the relative error. Huber weights keep a
few odd answers from bending the fit. The ridge draws what the samples say nothing about to the prior, which is high.

Afterwards everything is raised until no more than one sample in twenty lies above its estimate, and by 2 % at least:
a context may hold a little less than it could, never more than it may. No figure leaves its bounds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memoryhub.llm.tokens.factors import SCRIPTS, Factors, Script

RIDGE: Final = 0.1
"""How much a factor's prior weighs, in samples that consist of that script alone."""
RIDGE_OF_OVERHEADS: Final = 0.001
"""The same of a request's fixed costs, which even in a short request are a few per cent."""
ROUNDS: Final = 12
STEADY_SPREAD: Final = 0.02
"""Relative errors up to this are never counted as odd."""
HUBER: Final = 1.5
LEAST_MARGIN: Final = 1.02
COVERED: Final = 0.95

LOWEST_FACTOR: Final = 0.5
HIGHEST_RATIO: Final = 2.0
"""A factor may rise to twice its prior: beyond that, the model is not the one that its name says."""
MOST_PER_MESSAGE: Final = 50
MOST_PER_REQUEST: Final = 500

Figures = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sample:
    """One answered request."""

    by_script: Mapping[Script, int]
    messages: int
    input_tokens: int


@dataclass(frozen=True, slots=True)
class Error:
    """Relative error of estimates against reported counts."""

    median: float
    p95: float


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted factors, and the error over the samples with the prior's and with these."""

    factors: Factors
    samples: int
    before: Error
    after: Error


def fit(samples: Sequence[Sample], *, prior: Factors) -> Fit:
    """Return the factors that explain the samples and err upwards; raises ValueError without samples."""
    usable = [sample for sample in samples if sample.input_tokens > 0]
    if not usable:
        raise ValueError("There is nothing to fit to.")
    counts = np.array([_row(sample) for sample in usable], dtype=np.float64)
    reported = np.array([sample.input_tokens for sample in usable], dtype=np.float64)
    start = _figures(prior)
    fitted = _as_factors(_raised(_solved(counts, reported, start), counts, reported, start))
    return Fit(fitted, len(usable), *(_error(counts, reported, each) for each in (prior, fitted)))


def _row(sample: Sample) -> list[int]:
    return [*(sample.by_script.get(script, 0) for script in SCRIPTS), sample.messages, 1]


def _figures(factors: Factors) -> Figures:
    scripts = [factors.of(script) for script in SCRIPTS]
    return np.array([*scripts, factors.per_message, factors.per_request], dtype=np.float64)


def _solved(counts: Figures, reported: Figures, prior: Figures) -> Figures:
    """Return the figures by ridge regression with weights that the residuals decide anew in each round."""
    rows = counts * prior / reported[:, None]
    ridge = np.array([RIDGE] * len(SCRIPTS) + [RIDGE_OF_OVERHEADS] * (len(prior) - len(SCRIPTS)))
    ratios, weights = np.ones(len(prior)), _weights(rows.sum(axis=1) / np.median(rows.sum(axis=1)) - 1)
    for _ in range(ROUNDS):
        weighted = rows * weights[:, None]
        ratios = np.linalg.solve(weighted.T @ rows + np.diag(ridge), weighted.sum(axis=0) + ridge)
        weights = _weights(rows @ ratios - 1)
    return _bounded(ratios * prior, prior)


def _weights(residuals: Figures) -> Figures:
    """Return Huber's weights: 1 for the usual, falling for the odd."""
    usual = max(HUBER * 1.4826 * float(np.median(np.abs(residuals))), STEADY_SPREAD)
    return np.minimum(1.0, usual / np.maximum(np.abs(residuals), 1e-9))


def _raised(figures: Figures, counts: Figures, reported: Figures, prior: Figures) -> Figures:
    missing = float(np.quantile(reported / np.maximum(counts @ figures, 1.0), COVERED))
    return _bounded(figures * max(LEAST_MARGIN, missing), prior)


def _bounded(figures: Figures, prior: Figures) -> Figures:
    scripts = len(SCRIPTS)
    low = np.array([LOWEST_FACTOR] * scripts + [0.0, 0.0])
    high = np.array([*(prior[:scripts] * HIGHEST_RATIO), MOST_PER_MESSAGE, MOST_PER_REQUEST])
    return np.clip(figures, low, high)


def _as_factors(figures: Figures) -> Factors:
    latin, japanese, code, other, per_message, per_request = (
        ceil(figure * 10_000) / 10_000 for figure in figures
    )
    return Factors(latin, japanese, code, other, per_message=ceil(per_message), per_request=ceil(per_request))


def _error(counts: Figures, reported: Figures, factors: Factors) -> Error:
    away = np.abs(counts @ _figures(factors) - reported) / reported
    return Error(float(np.median(away)), float(np.quantile(away, COVERED)))
