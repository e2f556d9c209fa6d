"""How far the long-term strategies have read."""

from django.db import models
from django.db.models import F, Q

from memoryhub.tenancy.models import Actor
from strength.domain.extraction import FROM_MESSAGES, Strategy
from strength.models.memories import choices

READERS = (*FROM_MESSAGES, Strategy.SUMMARY)


class StrategyCursor(models.Model):
    """How far a strategy has looked at a session: up to the message `read_until`; no row means not at all.

    Between `passed_after` and `passed_until` it passed messages over, because it was switched off when it looked or no
    model would read them; a backfill goes back there. The session is a plain id, for `strength` must stay able to live
    apart. Of the strategy `summary`, `memory_id` is the memory that stands for the session's summary: where that is
    gone, a person has deleted it.
    """

    pk = models.CompositePrimaryKey("actor_id", "session_id", "strategy")
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    strategy = models.CharField(max_length=20, choices=choices(READERS))
    session_id = models.UUIDField()
    read_until = models.PositiveIntegerField(default=0)
    passed_until = models.PositiveIntegerField(default=0)
    passed_after = models.PositiveIntegerField(db_default=0)
    memory_id = models.UUIDField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="cursor_passed_is_read", condition=Q(passed_until__lte=F("read_until"))
            ),
            models.CheckConstraint(
                name="cursor_passed_in_order", condition=Q(passed_after__lte=F("passed_until"))
            ),
        ]

    def __str__(self) -> str:
        return f"{self.strategy} {self.read_until}"


class ReflectionCursor(models.Model):
    """Which of an actor's episodes lessons were drawn from: those changed before `until`, or just then up to `after`.

    An episode that a person approves or edits changes by that, and is reflected on once more. `has_passed` says that
    episodes were passed over because the strategy was off.
    """

    actor = models.OneToOneField(Actor, on_delete=models.CASCADE, primary_key=True, related_name="+")
    until = models.DateTimeField()
    after = models.UUIDField(null=True)
    has_passed = models.BooleanField(default=False)

    def __str__(self) -> str:
        return str(self.actor_id)
