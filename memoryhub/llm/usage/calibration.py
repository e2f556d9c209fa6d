"""Fit a model's factors to what its provider counted (SPEC A7), and give the fitted ones to those who count.

A sample is a request of plain texts: its o200k_base tokens by script class, its messages, and the input tokens that
the provider reported. The model of it is linear:

    reported ≈ Σ over scripts (factor × raw count) + per message × messages + per request

A ridge regression with Huber weights (iteratively reweighted least squares) of the six figures, as ratios to their
priors. Rows are divided by the reported tokens, so residuals are relative errors. The ridge shrinks figures without
evidence to the prior, which is high.

The result is scaled to the 95th percentile of the samples, by 2 % at least, so that estimates err upwards, and clipped.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from math import ceil
from typing import Final

import numpy as np
from django.conf import settings
from django.db import Error
from django.db.models import Subquery
from django.db.models.functions import Coalesce
from numpy.typing import NDArray

from memoryhub.jobs.queue import enqueue
from memoryhub.llm.tokens import SCRIPTS, Factors, Script, factors_for
from memoryhub.llm.usage.models import LedgerEntry, TokenFactors

log = logging.getLogger(__name__)

KIND: Final = "calibrate_tokens"
MIN_SAMPLES: Final = 20
"""As many as a first fit needs, and as many new ones as ask for another."""
MAX_SAMPLES: Final = 400
"""The newest so many: a model that counts otherwise by now is followed."""
MAX_KEY_LENGTH: Final = 255
CACHE_SECONDS: Final = 60.0

RIDGE: Final = 0.1
"""Weight of a factor's prior, in samples of that script alone."""
RIDGE_OF_OVERHEADS: Final = 0.001
"""The same of a request's fixed costs, which even in a short request are a few per cent."""
ROUNDS: Final = 12
STEADY_SPREAD: Final = 0.02
"""Relative errors up to this are never counted as odd."""
HUBER: Final = 1.5
MIN_MARGIN: Final = 1.02
COVERED: Final = 0.95

MIN_FACTOR: Final = 0.5
MAX_RATIO: Final = 2.0
"""A factor may rise to twice its prior: beyond that, the model is not the named one."""
MAX_PER_MESSAGE: Final = 50
MAX_PER_REQUEST: Final = 500

Figures = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sample:
    by_script: Mapping[Script, int]
    messages: int
    input_tokens: int


@dataclass(frozen=True, slots=True)
class Fit:
    """Factors, and the distance of estimates by the former and by these from what was reported, as shares of it."""

    factors: Factors
    samples: int
    error_before_median: float
    error_before_p95: float
    error_after_median: float
    error_after_p95: float


def fit(samples: Sequence[Sample], *, prior: Factors) -> Fit:
    """Return the factors that explain the samples and err upwards; raises ValueError without samples."""
    usable = [sample for sample in samples if sample.input_tokens > 0]
    if not usable:
        raise ValueError("There is nothing to fit to.")
    rows = [[*(sample.by_script.get(script, 0) for script in SCRIPTS), sample.messages, 1] for sample in usable]
    counts = np.array(rows, dtype=np.float64)
    reported = np.array([sample.input_tokens for sample in usable], dtype=np.float64)
    start = _figures(prior)
    solved = _solved(counts, reported, start)
    missing = float(np.quantile(reported / np.maximum(counts @ solved, 1.0), COVERED))
    raised = _bounded(solved * max(MIN_MARGIN, missing), start)
    latin, japanese, code, other, per_message, per_request = (ceil(factor * 10_000) / 10_000 for factor in raised)
    fitted = Factors(latin, japanese, code, other, ceil(per_message), ceil(per_request))
    return Fit(fitted, len(usable), *_errors(counts, reported, prior), *_errors(counts, reported, fitted))


def _figures(factors: Factors) -> Figures:
    scripts = [factors.of(script) for script in SCRIPTS]
    return np.array([*scripts, factors.per_message, factors.per_request], dtype=np.float64)


def _solved(counts: Figures, reported: Figures, prior: Figures) -> Figures:
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


def _bounded(figures: Figures, prior: Figures) -> Figures:
    scripts = len(SCRIPTS)
    low = np.array([MIN_FACTOR] * scripts + [0.0, 0.0])
    high = np.array([*(prior[:scripts] * MAX_RATIO), MAX_PER_MESSAGE, MAX_PER_REQUEST])
    return np.clip(figures, low, high)


def _errors(counts: Figures, reported: Figures, factors: Factors) -> tuple[float, float]:
    away = np.abs(counts @ _figures(factors) - reported) / reported
    return float(np.median(away)), float(np.quantile(away, COVERED))


def calibrate_when_due(provider: str, model: str) -> None:
    """Enqueue a fit where enough samples have come since the last; one waits at a time."""
    fitted = TokenFactors.objects.filter(provider=provider, model=model).values("fitted_at")
    samples = LedgerEntry.objects.filter(is_sample=True, provider=provider, model=model)
    since_fit = samples.filter(created_at__gt=Coalesce(Subquery(fitted), datetime.min.replace(tzinfo=UTC)))
    if since_fit.order_by()[:MIN_SAMPLES].count() == MIN_SAMPLES:
        enqueue(KIND, key=f"{provider}/{model}"[:MAX_KEY_LENGTH], payload={"provider": provider, "model": model})


def calibrate(provider: str, model: str, *, now: datetime) -> TokenFactors | None:
    """Fit a model's factors to its newest samples and store them; None where there are too few."""
    columns = ("raw_latin", "raw_japanese", "raw_code", "raw_other", "messages", "input_tokens")
    rows = LedgerEntry.objects.filter(is_sample=True, provider=provider, model=model)
    samples = [
        Sample(dict(zip(SCRIPTS, raw, strict=True)), messages, reported)
        for *raw, messages, reported in rows.order_by("-created_at").values_list(*columns)[:MAX_SAMPLES]
    ]
    if len(samples) < MIN_SAMPLES:
        return None
    fit_values = asdict(fit(samples, prior=prior_of(model)))
    values = {**fit_values.pop("factors"), **fit_values, "fitted_at": now}
    fitted, _ = TokenFactors.objects.update_or_create(provider=provider, model=model, defaults=values)
    calibrated.forget()
    return fitted


def prior_of(model: str) -> Factors:
    return factors_for(settings.LLM.known_as(model))


def calibrate_all(*, now: datetime) -> int:
    models = LedgerEntry.objects.filter(is_sample=True).order_by().values_list("provider", "model").distinct()
    return sum(calibrate(provider, model, now=now) is not None for provider, model in models)


class CalibratedFactors:
    """All fitted factors as read from the table, at most `CACHE_SECONDS` ago: hot paths count without a statement."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: Mapping[tuple[str, str], Factors] = {}
        self._expires = float("-inf")

    def of(self, provider: str, model: str) -> Factors | None:
        with self._lock:
            is_due = self._clock() >= self._expires
            if is_due:  # other threads use the known factors while one reads
                self._expires = self._clock() + CACHE_SECONDS
        if is_due:
            try:
                self._known = {(row.provider, row.model): row.factors for row in TokenFactors.objects.all()}
            except Error as error:  # includes broken connections, which are not DatabaseErrors; known factors are kept
                log.warning("token factors were not read", extra={"error": type(error).__name__})
        return self._known.get((provider, model))

    def forget(self) -> None:
        """Read the table again at the next look-up."""
        with self._lock:
            self._expires = float("-inf")


calibrated: Final = CalibratedFactors()
