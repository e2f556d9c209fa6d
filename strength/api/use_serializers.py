"""What goes in and out over REST when memories are used."""

import json
from typing import Any
from uuid import UUID

from rest_framework import serializers

from conversations.actions.routed import UNNAMED
from conversations.api.serializers import RoutingOut
from memoryhub.api.fields import (
    LONGEST_JSON,
    IdField,
    OneOf,
    ReasonSerializer,
    StrictSerializer,
    TenantSerializer,
    TextField,
)
from strength.actions.tasks import Completion
from strength.api.serializers import LONGEST_CONTENT, STRONGEST, FoundMemoryOut
from strength.domain.strength import Impact

MOST_IDS = 500
LONGEST_TASK = 200


class IdsField(serializers.ListField):
    """Ids of memories."""

    child = IdField()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"max_length": MOST_IDS, **kwargs})


class UsedIn(StrictSerializer):
    """That a memory was used: from which perspective, and in which task, so that it counts once."""

    perspective = TextField(required=False, allow_null=True, default=None, max_length=100)
    task_id = TextField(required=False, allow_null=True, default=None, max_length=LONGEST_TASK)


class ManyUsedIn(UsedIn):
    """That several memories were used."""

    ids = IdsField()


class IdsIn(StrictSerializer):
    """Several memories."""

    ids = IdsField()


class ArchiveIn(ReasonSerializer):
    """Several memories, and why."""

    ids = IdsField()


class StrengthIn(StrictSerializer):
    """How strong one memory is to be."""

    id = IdField()
    strength = serializers.FloatField(min_value=0, max_value=STRONGEST)


class StrengthsIn(StrictSerializer):
    """How strong several memories are to be."""

    updates = serializers.ListField(child=StrengthIn(), max_length=MOST_IDS)


class ImpactIn(StrictSerializer):
    """What a memory did beyond being used."""

    impact_type = OneOf(choices=[impact.value for impact in Impact])


class ReinforcedOut(serializers.Serializer):
    """How many memories were strengthened, and which ids name none that the key may see."""

    reinforced = serializers.IntegerField()
    unknown = serializers.ListField(child=serializers.UUIDField())


class UpdatedOut(serializers.Serializer):
    """How many memories were changed, and which ids name none that the key may see."""

    updated = serializers.IntegerField()
    unknown = serializers.ListField(child=serializers.UUIDField())


class PointOut(serializers.Serializer):
    """How strong a memory was after something happened to it."""

    at = serializers.DateTimeField()
    kind = serializers.CharField()
    strength = serializers.FloatField()
    level = serializers.IntegerField()
    times = serializers.IntegerField()


class HistoryOut(serializers.Serializer):
    """A memory's strength over time."""

    results = PointOut(many=True)


class TaskIn(TenantSerializer):
    """A task to begin."""

    query = TextField(max_length=LONGEST_CONTENT)
    perspective = TextField(required=False, allow_null=True, default=None, max_length=100)
    project = TextField(required=False, allow_null=True, default=UNNAMED, max_length=255)


class TaskOut(serializers.Serializer):
    """A task that was begun, with the memories for it."""

    task_id = serializers.UUIDField()
    memories = FoundMemoryOut(many=True)
    routing = RoutingOut(allow_null=True, help_text="null where nobody asked for it.")


class ResultField(serializers.JSONField):
    """A task's result: any JSON value of bounded size."""

    default_error_messages = {"long": f"must have at most {LONGEST_JSON} bytes as JSON."}

    def to_internal_value(self, data: Any) -> Any:
        """Return the value; raises a validation error for a huge one."""
        value = super().to_internal_value(data)
        if len(json.dumps(value, ensure_ascii=False).encode()) > LONGEST_JSON:
            self.fail("long")
        return value


class CompleteIn(StrictSerializer):
    """What came of a task. Ids that are stated win over what is found in the result."""

    result = ResultField(allow_null=True)
    used_memory_ids = serializers.ListField(
        child=IdField(), required=False, allow_null=True, max_length=MOST_IDS
    )
    perspective = TextField(required=False, allow_null=True, max_length=100)
    learning_content = TextField(required=False, allow_null=True, max_length=LONGEST_CONTENT)
    learning_text = TextField(required=False, allow_null=True, allow_blank=True, max_length=10_000)
    extract_learning = serializers.BooleanField(default=False)
    impact_type = OneOf(choices=[impact.value for impact in Impact], required=False, allow_null=True)
    run_sleep_phase = serializers.BooleanField(default=False)

    @staticmethod
    def completion(values: dict[str, Any]) -> Completion:
        """Return validated values as a completion."""
        impact = values.get("impact_type")
        names = ("used_memory_ids", "perspective", "learning_content", "learning_text")
        given: dict[str, Any] = {name: values.get(name) for name in names}
        return Completion(
            result=values["result"],
            extract_learning=values["extract_learning"],
            run_sleep_phase=values["run_sleep_phase"],
            impact=Impact(impact) if impact else None,
            **given,
        )


class OutcomeOut(serializers.Serializer):
    """What came of a task."""

    task_id = serializers.UUIDField()
    task_result = serializers.JSONField(allow_null=True)
    searched_memories = FoundMemoryOut(many=True)
    used_memory_ids = serializers.ListField(child=serializers.UUIDField())
    recorded_memory_id = serializers.UUIDField(allow_null=True)
    executed_at = serializers.DateTimeField(allow_null=True)
    errors = serializers.ListField(child=serializers.CharField())  # type: ignore[assignment]


def unknown(wanted: list[UUID], known: Any) -> list[UUID]:
    """Return the ids that name nothing the key may see, each once, in the order given."""
    return [key for key in dict.fromkeys(wanted) if key not in known]
