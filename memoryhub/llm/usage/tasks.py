"""The ledger's work in the background: fitting factors, and forgetting old calls."""

from datetime import timedelta
from typing import Final

from django.utils import timezone

from memoryhub.jobs.context import JobContext
from memoryhub.jobs.registry import job
from memoryhub.llm.usage.calibration import calibrate, calibrate_all
from memoryhub.llm.usage.models import LedgerEntry

KEPT: Final = timedelta(days=400)
"""A year, and a month to look back from."""
AT_ONCE: Final = 5000


@job("calibrate_tokens", at_once=1, every_seconds=604_800)
def calibrate_tokens(job: JobContext) -> None:
    """Fit the model that the job names to its newest samples, or every model where it names none."""
    now = timezone.now()
    if "model" in job.payload:
        calibrate(job.payload["provider"], job.payload["model"], now=now)
    else:
        calibrate_all(now=now)


@job("forget_old_calls", deadline_seconds=600, at_once=1, daily_at="03:30")
def forget_old_calls(job: JobContext) -> None:
    """Delete calls of more than 400 days ago."""
    old = LedgerEntry.objects.filter(created_at__lt=timezone.now() - KEPT)
    deleted = AT_ONCE
    while deleted == AT_ONCE:
        with job.step():
            ids = list(old.order_by("created_at").values_list("pk", flat=True)[:AT_ONCE])
            deleted, _ = LedgerEntry.objects.filter(pk__in=ids).delete()
