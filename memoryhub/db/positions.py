"""Positions in PostgreSQL's log up to which writes were acknowledged, for reads from replicas (ADR 65)."""

from typing import Any, Final, TypeVar

from django.conf import settings
from django.db import models
from django.db.models.expressions import RawSQL


class Position(models.Model):
    """The position of an agent's writes, or of those that may concern every agent.

    The table is not logged: it is empty after a crash and on a promoted standby, and counts from then on.
    """

    scope = models.CharField(max_length=255, primary_key=True)
    position = models.BigIntegerField()

    class Meta:
        app_label = "memoryhub"
        default_permissions = ()

    def __str__(self) -> str:
        return f"the position of {self.scope or 'everything'}"


# Null where the position of everything is unknown: after a crash, those of agents are lost with it.
OF_KEY: Final = """(
    SELECT CASE WHEN bool_or(scope = '') THEN max(position) END FROM memoryhub_position
    WHERE scope = '' OR cardinality(agent_ids) IS DISTINCT FROM 1 OR scope = agent_ids[1]
)"""


Keys = TypeVar("Keys", bound="models.QuerySet[Any]")


def with_position(keys: Keys) -> Keys:
    """Add to keys the position that their reads must have, as `position`; nothing where there are no replicas."""
    if not settings.ENVIRONMENT.replica_urls:
        return keys
    position = RawSQL(OF_KEY, (), models.BigIntegerField(null=True))  # noqa: S611 - a constant
    return keys.annotate(position=position)
