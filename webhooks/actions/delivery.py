"""Deliver events to one endpoint: in order, at least once, with pauses after failures (SPEC O5, ADR 60).

The place advances with the record of a delivery, in one transaction behind the job's lease. A worker that is killed
between answer and record sends that event again, with the same `webhook-id`.
"""

import logging
import time
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from django.utils import timezone

from memoryhub.api.places import shown_place
from memoryhub.db.pool import release_connection
from memoryhub.jobs.context import JobContext, Writes
from memoryhub.jobs.queue import enqueue
from webhooks.actions.feed import event_at, events_after, is_behind, text_of
from webhooks.actions.secrets import SecretUnreadable, valid_secrets
from webhooks.actions.sending import Answer, Message, Resolve, Sender, resolve
from webhooks.domain.events import TEST, Event, body_of
from webhooks.domain.retries import after_failure, is_delivered
from webhooks.models import DISABLED, Delivery, Endpoint

DELIVER_KIND: Final = "deliver_webhook"
SEND_KIND: Final = "send_webhook"
TEST_PLACE: Final = 0
BATCH: Final = 200
SLICE_SECONDS: Final = 3.0
"""Time after which a job leaves its worker to others, and continues as another job."""

log = logging.getLogger(__name__)


def enqueue_due(now: datetime) -> int:
    """Enqueue a job for each endpoint that is behind and not in a pause; return their number."""
    due = [endpoint for endpoint in Endpoint.objects.due(now) if is_behind(endpoint)]
    for endpoint in due:
        enqueue_delivery(endpoint.pk)
    return len(due)


def enqueue_delivery(endpoint_id: UUID) -> UUID:
    key = str(endpoint_id)
    return enqueue(DELIVER_KIND, key=key, payload={"endpoint_id": key}, lane=key)


def deliver(job: JobContext, *, resolve: Resolve = resolve) -> Writes | None:
    """Deliver what an endpoint has not had, for some seconds; the result enqueues the rest."""
    endpoint = Endpoint.objects.due(timezone.now()).filter(pk=job.payload["endpoint_id"]).first()
    if endpoint is None:
        return None
    ends_at = time.monotonic() + SLICE_SECONDS
    with Sender(endpoint.url, resolve=resolve) as sender:
        while events := events_after(endpoint.place, agent_id=endpoint.agent_id, limit=BATCH):
            for event in events:
                if _is_wanted(endpoint, event):
                    recorded = _record(job, endpoint, event, _send(sender, endpoint, event))
                    if recorded is None:
                        return None
                    endpoint = recorded
                else:
                    endpoint.place = event.place
                if time.monotonic() >= ends_at:
                    break
            _store_place(job, endpoint)
            if time.monotonic() >= ends_at:
                return partial(enqueue_delivery, endpoint.pk)
    return None


def _is_wanted(endpoint: Endpoint, event: Event) -> bool:
    return not endpoint.kinds or event.kind in endpoint.kinds


def _send(sender: Sender, endpoint: Endpoint, event: Event) -> Answer:
    now = timezone.now()
    text = text_of(event) if endpoint.with_texts else None
    try:
        message = Message(message_id(event), body_of(event, text), valid_secrets(endpoint, now))
    except SecretUnreadable:
        return Answer(error="secret unreadable")
    with release_connection():
        return sender.send(message, now=now)


def message_id(event: Event) -> str:
    """Return an event's `webhook-id`, the same for every attempt; the place itself would count all tenants' events."""
    return f"test_{event.object_id}" if event.kind == TEST else f"evt_{shown_place(event.place)}"


def _record(job: JobContext, endpoint: Endpoint, event: Event, answer: Answer) -> Endpoint | None:
    """Store a delivery and the endpoint's state after it; return the endpoint to continue with, None to stop.

    It is read again: it may have been deleted, or have another secret since.
    """
    now = timezone.now()
    with job.step():
        current = Endpoint.objects.select_for_update().filter(pk=endpoint.pk).first()
        if current is None:
            return None
        _log_delivery(current, event.place, event.kind, answer, now)
        if is_delivered(answer.status):
            current.place, current.failures, current.failing_since, current.retry_at = event.place, 0, None, None
        else:
            _count_failure(current, answer, now)
        current.save(update_fields=["place", "failures", "failing_since", "retry_at", "state"])
    return current if is_delivered(answer.status) else None


def _count_failure(endpoint: Endpoint, answer: Answer, now: datetime) -> None:
    after = after_failure(
        failures=endpoint.failures, failing_since=endpoint.failing_since, status=answer.status, now=now
    )
    endpoint.failures, endpoint.failing_since, endpoint.retry_at = after.failures, after.failing_since, after.retry_at
    if after.retry_at is None:
        endpoint.state = DISABLED
        log.warning("webhook disabled", extra={"webhook": str(endpoint.pk), "status": answer.status})


def _store_place(job: JobContext, endpoint: Endpoint) -> None:
    with job.step():
        Endpoint.objects.filter(pk=endpoint.pk, place__lt=endpoint.place).update(place=endpoint.place)


def _log_delivery(endpoint: Endpoint, place: int, kind: str, answer: Answer, now: datetime) -> None:
    Delivery.objects.create(
        endpoint=endpoint, place=place, kind=kind, status=answer.status, error=answer.error,
        duration_ms=answer.duration_ms, at=now,
    )  # fmt: skip


def _test_event(endpoint: Endpoint, job: JobContext, now: datetime) -> Event:
    return Event(TEST_PLACE, TEST, endpoint.agent_id or "", None, job.id, now)


def send_once(job: JobContext, *, resolve: Resolve = resolve) -> Writes | None:
    """Send a test, or one event again, out of the order of events; the endpoint's place and state stay as they are."""
    endpoint = Endpoint.objects.filter(pk=job.payload["endpoint_id"]).first()
    if endpoint is None:
        return None
    place, now = int(job.payload["place"]), timezone.now()
    event = _test_event(endpoint, job, now) if place == TEST_PLACE else event_at(place, agent_id=endpoint.agent_id)
    if event is None:
        return None
    with Sender(endpoint.url, resolve=resolve) as sender:
        answer = _send(sender, endpoint, event)
    return lambda: _log_delivery(endpoint, place, event.kind, answer, timezone.now())
