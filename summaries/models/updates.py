"""How far sessions were read for the projects that they belong to."""

from django.db import models

from conversations.models import Session
from memoryhub.ids import new_id
from memoryhub.tenancy.models import Actor


class ProjectCursor(models.Model):
    """Up to which message a session was looked through for what its projects should remember; no row means not at all.

    It moves in the transaction that writes what was found up to there.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    actor = models.ForeignKey(Actor, on_delete=models.CASCADE, related_name="+", db_index=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="+")
    read_until = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(name="project_cursor_once", fields=["actor", "session"])]

    def __str__(self) -> str:
        return f"up to #{self.read_until}"
