"""Background jobs of webhooks."""

from datetime import timedelta
from typing import Final

from django.utils import timezone

from memoryhub.jobs.context import JobContext, Writes
from memoryhub.jobs.registry import job
from memoryhub.maintenance_jobs import delete_in_steps
from memoryhub.webhooks.actions.delivery import DELIVER_KIND, SEND_KIND, SLOW_KIND, deliver, send_once
from memoryhub.webhooks.models import Delivery, Event

KEPT: Final = timedelta(days=30)


@job(DELIVER_KIND)
def deliver_webhook(job: JobContext) -> Writes | None:
    """Deliver what one endpoint has not had."""
    return deliver(job)


@job(SLOW_KIND, at_once=1)
def deliver_slow_webhook(job: JobContext) -> Writes | None:
    """Deliver what an endpoint that fails or is slow has not had."""
    return deliver(job)


@job(SEND_KIND, ordered_by="trusted", permissions={"": "webhooks.change_endpoint"})
def send_webhook(job: JobContext) -> Writes | None:
    """Send a test, or an event again."""
    return send_once(job)


@job("forget_old_deliveries", at_once=1, daily_at="03:45")
def forget_old_deliveries(job: JobContext) -> None:
    """Delete deliveries and noted events of more than 30 days ago."""
    before = timezone.now() - KEPT
    delete_in_steps(job, Delivery.objects.filter(at__lt=before).order_by("at"))
    delete_in_steps(job, Event.objects.filter(at__lt=before))
