"""Plans and comments of a team about items of the review (SPEC W16)."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from memoryhub.tenancy.models import ActorRow, KeyWithinActor
from strength.models.memory import Memory
from strength.models.revision import Merge

MAX_COMMENT_LENGTH = 2_000


class ReviewPlan(ActorRow):
    """The day until which an item of the review is put off, and the person that it is assigned to.

    Of a memory, or of a proposal to merge. `version` is the memory's when it was put off: a changed memory is back in
    the queue.
    """

    memory = KeyWithinActor(Memory, on_delete=models.CASCADE, null=True, related_name="+")
    merge = KeyWithinActor(Merge, on_delete=models.CASCADE, null=True, related_name="+")
    assigned_to = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    snoozed_until = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(null=True)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(name="review_plan_of_memory", fields=["actor", "memory"]),
            models.UniqueConstraint(name="review_plan_of_merge", fields=["actor", "merge"]),
            models.CheckConstraint(
                name="review_plan_of_one",
                condition=Q(memory__isnull=True, merge__isnull=False) | Q(memory__isnull=False, merge__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return f"plan {str(self.id)[:13]}"


class ReviewComment(ActorRow):
    """A short text of a person about a memory or a proposal to merge, for the others who review.

    It enters no context. Of a proposal, `memory` is the one that it would keep.
    """

    memory = KeyWithinActor(Memory, on_delete=models.CASCADE, related_name="+")
    merge = KeyWithinActor(Merge, on_delete=models.CASCADE, null=True, related_name="+")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    author_name = models.CharField(max_length=150)
    text = models.TextField(max_length=MAX_COMMENT_LENGTH)
    created_at = models.DateTimeField(db_default=Now())
    edited_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        ordering = ["created_at", "id"]
        indexes = [models.Index(fields=["actor", "memory", "created_at"], name="review_comment_of_memory")]

    def __str__(self) -> str:
        return f"comment {str(self.id)[:13]}"
