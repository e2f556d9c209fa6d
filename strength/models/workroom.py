"""Curators' working state: saved views, the instructions for the review, and who has which item open."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from memoryhub.ids import new_id

LONGEST_NAME = 60
LONGEST_QUERY = 2_000
LONGEST_INSTRUCTIONS = 4_000


class SavedView(models.Model):
    """A person's named filters of the list of memories, as a query string."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=LONGEST_NAME)
    query = models.CharField(max_length=LONGEST_QUERY)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(name="saved_view_name_once", fields=["person", "name"])]

    def __str__(self) -> str:
        return self.name


class ReviewInstructions(models.Model):
    """The team's instructions, shown above the queue; one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    text = models.TextField(max_length=LONGEST_INSTRUCTIONS, blank=True)
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "review instructions"

    def __str__(self) -> str:
        return "review instructions"


class ReviewHold(models.Model):
    """An item of the queue that a curator has open: others are shown the next one until it ends."""

    key = models.UUIDField(primary_key=True)
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    ends_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.key)
