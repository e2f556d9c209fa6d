"""Deliver events to one endpoint: in order, at least once, with pauses after failures (SPEC O5, ADR 60).

The place advances with the record of a delivery, in one transaction behind the job's lease. A worker that is killed
between answer and record sends that event again, with the same `webhook-id`.
"""

import logging
import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from django.utils import timezone

from memoryhub.api.places import shown_place
from memoryhub.db.pool import release_connection
from memoryhub.jobs.context import JobContext, Writes
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.jobs.retries import State
from memoryhub.webhooks.actions.feed import event_at, events_after, is_behind, text_of
from memoryhub.webhooks.actions.secrets import SecretUnreadable, valid_secrets
from memoryhub.webhooks.actions.sending import Answer, Message, Resolve, Sender, resolve
from memoryhub.webhooks.domain.events import TEST, Event, body_of
from memoryhub.webhooks.domain.retries import after_failure, is_delivered
from memoryhub.webhooks.models import DISABLED, Delivery, Endpoint

DELIVER_KIND: Final = "deliver_webhook"
SLOW_KIND: Final = "deliver_slow_webhook"
"""The job of endpoints that fail or are slow, of which one runs at a time: the other workers are left to the others."""

SEND_KIND: Final = "send_webhook"
TEST_PLACE: Final = 0
BATCH: Final = 50
"""Events that are sent at most before they are recorded, and that a killed worker may send again."""

RECORD_SECONDS: Final = 1.0
SLICE_SECONDS: Final = 3.0
"""Time after which a job leaves its worker to others, and continues as another job."""

SLOW_MS: Final = 1_000

Sent = tuple[Event, Answer, datetime]

log = logging.getLogger(__name__)


def enqueue_due(now: datetime) -> int:
    """Enqueue a job for each endpoint that is behind and not in a pause; return their number."""
    due = [endpoint for endpoint in Endpoint.objects.due(now) if is_behind(endpoint)]
    for endpoint in due:
        enqueue_delivery(endpoint)
    return len(due)


def enqueue_delivery(endpoint: Endpoint) -> UUID:
    kind = SLOW_KIND if endpoint.is_slow or endpoint.failures else DELIVER_KIND
    key = str(endpoint.pk)
    return enqueue(kind, key=key, payload={"endpoint_id": key}, lane=key)


def deliver(job: JobContext, *, resolve: Resolve = resolve) -> Writes | None:
    """Deliver what an endpoint has not had, for some seconds; the result enqueues the rest."""
    endpoint = Endpoint.objects.due(timezone.now()).filter(pk=job.payload["endpoint_id"]).first()
    if endpoint is None or _runs_as_other_kind(job):
        return None
    ends_at = time.monotonic() + SLICE_SECONDS
    with Sender(endpoint.url, resolve=resolve) as sender:
        while events := events_after(endpoint.place, agent_id=endpoint.agent_id, limit=BATCH):
            place, sent = _send_all(sender, endpoint, events)
            recorded = _record(job, endpoint, place, sent)
            if recorded is None:
                return None
            endpoint = recorded
            if time.monotonic() >= ends_at:
                return partial(enqueue_delivery, endpoint)
    return None


def _runs_as_other_kind(job: JobContext) -> bool:
    """Return whether the endpoint's job of the other kind runs; the next round enqueues this one again."""
    kinds = {DELIVER_KIND, SLOW_KIND} - {job.kind}
    return Job.objects.filter(kind__in=kinds, key=job.key, state=State.RUNNING).exists()


def _send_all(sender: Sender, endpoint: Endpoint, events: Sequence[Event]) -> tuple[int, list[Sent]]:
    """Send events until one fails or a second is over; return the place that was reached, and what was sent."""
    now = timezone.now()
    texts = {event.place: text_of(event) for event in events} if endpoint.with_texts else {}
    try:
        secrets = valid_secrets(endpoint, now)
    except SecretUnreadable:
        return endpoint.place, [(events[0], Answer(error="secret unreadable"), now)]
    place, sent, ends_at = endpoint.place, list[Sent](), time.monotonic() + RECORD_SECONDS
    with release_connection():
        for event in events:
            if not endpoint.kinds or event.kind in endpoint.kinds:
                now = timezone.now()
                message = Message(message_id(event), body_of(event, texts.get(event.place)), secrets)
                answer = sender.send(message, now=now)
                sent.append((event, answer, now))
                if not is_delivered(answer.status):
                    break
            place = event.place
            if time.monotonic() >= ends_at:
                break
    return place, sent


def message_id(event: Event) -> str:
    """Return an event's `webhook-id`, the same for every attempt; the place itself would count all tenants' events."""
    return f"test_{event.object_id}" if event.kind == TEST else f"evt_{shown_place(event.place)}"


def _record(job: JobContext, endpoint: Endpoint, place: int, sent: Sequence[Sent]) -> Endpoint | None:
    """Store deliveries and the endpoint's state after them; return the endpoint to continue with, None to stop.

    It is read again: it may have been deleted, or have another secret since.
    """
    has_failed = any(not is_delivered(answer.status) for _event, answer, _at in sent)
    with job.step():
        current = Endpoint.objects.select_for_update().filter(pk=endpoint.pk).first()
        if current is None:
            return None
        Delivery.objects.bulk_create([_delivery(current, *each) for each in sent])
        current.place = max(place, current.place)
        if has_failed:
            _count_failure(current, sent[-1][1], timezone.now())
        elif sent:
            current.failures, current.failing_since, current.retry_at = 0, None, None
            current.is_slow = max(answer.duration_ms for _event, answer, _at in sent) >= SLOW_MS
        current.save(update_fields=["place", "failures", "failing_since", "retry_at", "state", "is_slow"])
    return None if has_failed else current


def _count_failure(endpoint: Endpoint, answer: Answer, now: datetime) -> None:
    after = after_failure(
        failures=endpoint.failures, failing_since=endpoint.failing_since, status=answer.status, now=now
    )
    endpoint.failures, endpoint.failing_since, endpoint.retry_at = after.failures, after.failing_since, after.retry_at
    if after.retry_at is None:
        endpoint.state = DISABLED
        log.warning("webhook disabled", extra={"webhook": str(endpoint.pk), "status": answer.status})


def _delivery(endpoint: Endpoint, event: Event, answer: Answer, at: datetime) -> Delivery:
    return Delivery(
        endpoint=endpoint, place=event.place, kind=event.kind, status=answer.status, error=answer.error,
        duration_ms=answer.duration_ms, at=at,
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
        endpoint.kinds = []  # whatever it chose
        _place, [sent] = _send_all(sender, endpoint, [event])
    return lambda: _delivery(endpoint, *sent).save()
