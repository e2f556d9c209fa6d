"""Expectations: a memory must, or must not, be in the context of a stored call (SPEC X14)."""

from enum import StrEnum

from django.db import models

from conversations.models import Receipt
from memoryhub.tenancy.models import ActorRow, KeyWithinActor
from strength.models.sleep import choices


class ExpectationState(StrEnum):
    KEPT = "kept"
    BROKEN = "broken"


class Expectation(ActorRow):
    """A person's wish about one memory and one receipt's call, with the result of the last check.

    `memory_id` is a plain id: the memory may be the agent's, and an expectation about a deleted one is broken, not
    gone. `basis` is a digest of the data's versions at that check.
    """

    receipt = KeyWithinActor(Receipt, on_delete=models.CASCADE, related_name="+")
    memory_id = models.UUIDField()
    is_wanted = models.BooleanField(help_text="Whether the memory must be in the context; else it must not.")
    state = models.CharField(max_length=6, choices=choices(ExpectationState))
    created_at = models.DateTimeField()
    checked_at = models.DateTimeField()
    kept_at = models.DateTimeField(null=True, help_text="The last check at which it was kept.")
    broken_at = models.DateTimeField(null=True, help_text="The check that found it broken.")
    basis = models.CharField(max_length=64)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [models.UniqueConstraint(name="expectation_once", fields=["actor", "receipt", "memory_id"])]
        indexes = [
            models.Index(fields=["actor", "-created_at", "-id"], name="expectation_newest_first"),
            models.Index(
                fields=["state"], name="expectation_broken", condition=models.Q(state=ExpectationState.BROKEN)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_state_display()} {str(self.id)[:13]}"
