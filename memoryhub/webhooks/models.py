"""Endpoints of webhooks, what was sent to them, and the events that the feed of memories does not hold."""

from datetime import datetime
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from memoryhub.auth.principals import Principal
from memoryhub.ids import new_id
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.webhooks.domain.addresses import MAX_URL_LENGTH

ACTIVE = "active"
DISABLED = "disabled"
STATES = [(ACTIVE, "active"), (DISABLED, "disabled")]
MAX_KIND_LENGTH = 30


class EndpointQuerySet(models.QuerySet["Endpoint"]):
    def visible_to(self, by: Principal) -> "EndpointQuerySet":
        """Filter to those of a key's agents; those of all agents are for keys for all agents."""
        return self if by.agent_ids is None else self.filter(agent_id__in=by.agent_ids)

    def due(self, now: datetime) -> "EndpointQuerySet":
        return self.filter(Q(retry_at=None) | Q(retry_at__lte=now), state=ACTIVE)


class Endpoint(models.Model):
    """An address that gets the events of an agent, or of all agents.

    `place` is that of the last event delivered. `secret` signs; `old_secret` signs as well until `rotating_until`.
    Both are encrypted (`memoryhub.auth.sealed`).
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    agent = models.ForeignKey(
        Agent, null=True, blank=True, on_delete=models.CASCADE, related_name="+", help_text="Empty: all agents."
    )
    url = models.CharField("address", max_length=MAX_URL_LENGTH)
    kinds = ArrayField(
        models.CharField(max_length=MAX_KIND_LENGTH),
        default=list, blank=True, help_text="The events to send; none chosen: all.",
    )  # fmt: skip
    with_texts = models.BooleanField(
        default=False, help_text="Whether events carry the text of the memory, summary or document."
    )
    state = models.CharField(max_length=8, choices=STATES, default=ACTIVE, editable=False)
    place = models.BigIntegerField(default=0, editable=False)
    secret = models.TextField(editable=False)
    old_secret = models.TextField(blank=True, editable=False)
    rotating_until = models.DateTimeField(null=True, editable=False)
    failures = models.PositiveIntegerField(default=0, editable=False, help_text="Failed deliveries in a row.")
    is_slow = models.BooleanField(default=False, editable=False)
    failing_since = models.DateTimeField(null=True, editable=False)
    retry_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects: ClassVar[EndpointQuerySet] = EndpointQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ["-created_at", "-id"]
        verbose_name = "webhook"

    def __str__(self) -> str:
        return f"webhook {str(self.id)[:8]}"


class Event(models.Model):
    """A committed event besides changes of memories; written by triggers (migration 0001).

    Its key is drawn from the sequence of `strength.MemoryChange` under the same lock, so that the keys of both tables
    are one order of commits. Nothing is written while there is no endpoint.
    """

    id = models.BigIntegerField(primary_key=True)
    agent_id = models.CharField(max_length=255)
    actor = models.ForeignKey(Actor, on_delete=models.SET_NULL, null=True, related_name="+")
    kind = models.CharField(max_length=MAX_KIND_LENGTH)
    object_id = models.UUIDField()
    at = models.DateTimeField()

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["agent_id", "id"], name="event_of_agent"),
            BrinIndex(fields=["at"], name="event_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} #{self.pk}"


class Delivery(models.Model):
    """One attempt to deliver an event: the answer's status, or the reason why there was none; no texts.

    `place` is that of the event; 0 for a test.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="deliveries", db_index=False)
    place = models.BigIntegerField()
    kind = models.CharField(max_length=MAX_KIND_LENGTH)
    status = models.PositiveSmallIntegerField(null=True, help_text="The answer's status; empty: no answer.")
    error = models.CharField(max_length=30, blank=True)
    duration_ms = models.PositiveIntegerField(default=0)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-at", "-id"]
        verbose_name = "delivery"
        verbose_name_plural = "deliveries"
        indexes = [
            models.Index(fields=["endpoint", "-at", "-id"], name="delivery_newest_first"),
            models.Index(fields=["at"], name="delivery_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {str(self.id)[:8]}"
