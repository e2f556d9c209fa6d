"""Fitting factors to the ledger's samples, and giving the fitted ones to those who count (SPEC A7)."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db import Error, connection

from memoryhub.jobs.queue import enqueue
from memoryhub.llm.tokens.calibration import Fit, Sample, fit
from memoryhub.llm.tokens.factors import Factors, factors_for
from memoryhub.llm.usage.models import LedgerEntry, TokenFactors

log = logging.getLogger(__name__)

KIND: Final = "calibrate_tokens"
FEWEST_SAMPLES: Final = 20
"""As many as a first fit needs, and as many new ones as ask for another."""
MOST_SAMPLES: Final = 400
"""The newest so many: a model that counts otherwise by now is followed."""
LONGEST_KEY: Final = 255
KEPT_SECONDS: Final = 60.0


def calibrate_when_due(provider: str, model: str) -> None:
    """Enqueue a fit where enough samples have come since the last; one waits at a time."""
    values: dict[str, Any] = {"provider": provider, "model": model, "enough": FEWEST_SAMPLES}
    with connection.cursor() as cursor:
        cursor.execute(SAMPLES_WAIT, values)
        (is_due,) = cursor.fetchone()
    if is_due:
        enqueue(KIND, key=f"{provider}/{model}"[:LONGEST_KEY], payload={"provider": provider, "model": model})


def calibrate(provider: str, model: str, *, now: datetime) -> TokenFactors | None:
    """Fit a model's factors to its newest samples and store them; None where there are too few."""
    samples = _samples(provider, model)
    if len(samples) < FEWEST_SAMPLES:
        return None
    found = fit(samples, prior=prior_of(model))
    fitted, _ = TokenFactors.objects.update_or_create(
        provider=provider, model=model, defaults={**_columns(found), "fitted_at": now}
    )
    calibrated.forget()
    return fitted


def prior_of(model: str) -> Factors:
    return factors_for(settings.LLM.known_as(model))


def calibrate_all(*, now: datetime) -> int:
    """Fit every model with enough samples anew; return how many."""
    models = LedgerEntry.objects.filter(is_sample=True).order_by().values_list("provider", "model").distinct()
    return sum(calibrate(provider, model, now=now) is not None for provider, model in models)


def _samples(provider: str, model: str) -> list[Sample]:
    columns = ("raw_latin", "raw_japanese", "raw_code", "raw_other", "messages", "input_tokens")
    newest = LedgerEntry.objects.filter(is_sample=True, provider=provider, model=model).order_by(
        "-created_at"
    )
    return [
        Sample({"latin": latin, "japanese": japanese, "code": code, "other": other}, messages, reported or 0)
        for latin, japanese, code, other, messages, reported in newest.values_list(*columns)[:MOST_SAMPLES]
    ]


def _columns(found: Fit) -> dict[str, float]:
    factors = found.factors
    return {
        "latin": factors.latin, "japanese": factors.japanese, "code": factors.code, "other": factors.other,
        "per_message": factors.per_message, "per_request": factors.per_request, "samples": found.samples,
        "error_before_median": found.before.median, "error_before_p95": found.before.p95,
        "error_after_median": found.after.median, "error_after_p95": found.after.p95,
    }  # fmt: skip


class CalibratedFactors:
    """All fitted factors as read from the table, at most `KEPT_SECONDS` ago: hot paths count without a statement."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: Mapping[tuple[str, str], Factors] = {}
        self._expires = float("-inf")

    def of(self, provider: str, model: str) -> Factors | None:
        """Return a model's fitted factors; None where there were never enough answers."""
        with self._lock:
            is_due = self._clock() >= self._expires
            if is_due:  # the others go on with what is known while one reads
                self._expires = self._clock() + KEPT_SECONDS
        if is_due:
            self._read()
        return self._known.get((provider, model))

    def _read(self) -> None:
        """Read the table; where the database is away, what was known holds: nobody's answer is lost for a count."""
        try:
            self._known = {(row.provider, row.model): row.factors for row in TokenFactors.objects.all()}
        except Error as error:  # also where the connection is broken, which is no DatabaseError
            log.warning("token factors were not read", extra={"error": type(error).__name__})

    def forget(self) -> None:
        """Read anew at the next look."""
        with self._lock:
            self._expires = float("-inf")


calibrated: Final = CalibratedFactors()

# Whether so many samples of a model have come since its last fit; reads no more index rows than it asks about.
SAMPLES_WAIT: Final = """
SELECT count(*) >= %(enough)s FROM (
    SELECT 1 FROM memoryhub_ledgerentry
    WHERE is_sample AND provider = %(provider)s AND model = %(model)s AND created_at > COALESCE(
        (SELECT fitted_at FROM memoryhub_tokenfactors WHERE provider = %(provider)s AND model = %(model)s), '-infinity')
    LIMIT %(enough)s
) AS waiting
"""
