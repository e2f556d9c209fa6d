"""Rules of repeated deliveries: pauses over a day, then the endpoint is disabled."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

PAUSES: Final = tuple(timedelta(seconds=each) for each in (5, 30, 120, 600, 1800, 3600, 7200, 10800))
"""Pauses after failures in a row; the last is repeated."""

GIVE_UP_AFTER: Final = timedelta(days=1)
GONE: Final = 410
"""Status of a receiver that wants no more deliveries (Standard Webhooks)."""


def is_delivered(status: int | None) -> bool:
    """Return whether an answer means that the event was received; a redirect does not."""
    return status is not None and 200 <= status < 300


@dataclass(frozen=True)
class AfterFailure:
    """State of an endpoint after a failed delivery; without `retry_at` it is disabled."""

    failures: int
    failing_since: datetime
    retry_at: datetime | None


def after_failure(*, failures: int, failing_since: datetime | None, status: int | None, now: datetime) -> AfterFailure:
    """Return when to try again after a failure; never, a day after the first one, or after the status 410."""
    since = failing_since or now
    pause = PAUSES[min(failures, len(PAUSES) - 1)]
    ends = status == GONE or now - since >= GIVE_UP_AFTER
    # The last attempt is at the end of the day, and not hours before it.
    retry_at = None if ends else max(now, min(now + pause, since + GIVE_UP_AFTER))
    return AfterFailure(failures + 1, since, retry_at)
