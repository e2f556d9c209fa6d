"""Rules of people that decide new memories like those that they decided (SPEC W15)."""

from datetime import timedelta
from enum import StrEnum
from typing import ClassVar, Final

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from memoryhub.tenancy.models import ActorRow
from strength.domain.memories import Kind, Source
from strength.models.sleep import choices

MAX_A_DAY: Final = 100
"""Memories that one rule decides in RULE_DAY; more wait for a person."""
RULE_DAY: Final = timedelta(days=1)


class RuleVerb(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"


class ReviewRuleQuerySet(models.QuerySet["ReviewRule"]):
    def in_force(self) -> "ReviewRuleQuerySet":
        """Filter to rules that were not taken back, of open accounts."""
        return self.filter(revoked_at=None, person__is_active=True)


class ReviewRule(ActorRow):
    """A person's decision about all new memories of an actor that have the values and the wording of an example.

    `digest` is of these values (`strength.actions.review_alike.shape_of`), `reasons` are those for which the example
    waited. No text is stored: `memory_id` is the example, a plain id, for that may be deleted. The revisions of the
    decided memories have the rule's id as their batch.
    """

    verb = models.CharField(max_length=10, choices=choices(RuleVerb))
    digest = models.BinaryField(max_length=32)
    reasons = ArrayField(models.CharField(max_length=20))
    memory_id = models.UUIDField()
    kind = models.CharField(max_length=12, choices=choices(Kind))
    source = models.CharField(max_length=12, choices=choices(Source))
    channel = models.CharField(max_length=100, blank=True)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    who_name = models.CharField("made by", max_length=150)
    decided_count = models.PositiveIntegerField("decided", default=0)
    last_decided_at = models.DateTimeField("last one", null=True)
    created_at = models.DateTimeField(db_default=Now())
    revoked_at = models.DateTimeField(null=True)
    revoked_by = models.CharField(max_length=150, blank=True)

    objects: ClassVar[ReviewRuleQuerySet] = ReviewRuleQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name = "rule"
        verbose_name_plural = "rules"
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(name="review_rule_once", fields=["actor", "digest"], condition=Q(revoked_at=None))
        ]
        indexes = [models.Index(fields=["actor", "-created_at", "-id"], name="review_rule_newest_first")]

    def __str__(self) -> str:
        return f"{self.get_verb_display()} {str(self.id)[:13]}"
