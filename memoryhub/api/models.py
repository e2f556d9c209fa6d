"""Recorded answers of calls with an `Idempotency-Key`."""

from django.db import models

from memoryhub.auth.models import ApiKey
from memoryhub.ids import new_id
from memoryhub.tenancy.models import Actor


class IdempotencyRecord(models.Model):
    """The answer to one call, repeated for a day to the same key on the same route."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, null=True, related_name="+")
    api_key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="+")
    route = models.CharField(max_length=200)
    key = models.CharField(max_length=255)
    body_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    headers = models.JSONField(default=dict)
    body = models.JSONField(null=True)
    is_read = models.BooleanField(
        default=False, help_text="A search or a context: it may hold others' texts."
    )
    created_at = models.DateTimeField()

    class Meta:
        app_label = "memoryhub"
        indexes = [models.Index(fields=["created_at"], name="idempotency_by_age")]
        constraints = [models.UniqueConstraint(name="idempotency_once", fields=["api_key", "route", "key"])]

    def __str__(self) -> str:
        return f"{self.route} {self.status}"
