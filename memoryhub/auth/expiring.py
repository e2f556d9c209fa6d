"""API keys that expire soon: who runs the server learns of it before a program is refused."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from django.db.models import QuerySet
from prometheus_client.core import GaugeMetricFamily

from memoryhub.auth.models import ApiKey
from memoryhub.jobs.status import DatabaseCollector

NOTICE_DAYS: Final = 14


def expires_soon(key: ApiKey, now: datetime) -> bool:
    """Return whether a usable key expires within the days of notice."""
    return key.expires_at is not None and key.expires_at <= now + timedelta(days=NOTICE_DAYS)


def expiring_keys(now: datetime) -> QuerySet[ApiKey]:
    """Return the usable keys that expire soon, without those of connected clients, which a person grants again."""
    until = now + timedelta(days=NOTICE_DAYS)
    return ApiKey.objects.usable(now).filter(expires_at__lte=until, grant=None).order_by("expires_at")


def _families(now: datetime | None) -> Iterator[GaugeMetricFamily]:
    """Yield the number of such keys; without a time, its name alone."""
    expiring = GaugeMetricFamily("memoryhub_keys_expiring", "API keys that expire within 14 days.")
    if now is not None:
        expiring.add_metric([], expiring_keys(now).count())
    yield expiring


EXPIRING: Final = DatabaseCollector(_families)
