"""Reports of use, impacts, strengths and tasks over REST."""

import json
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.api.serializers import RoutingOut
from conversations.domain.routing import UNNAMED
from memoryhub.api.fields import (
    MAX_JSON_BYTES,
    IdField,
    ItemsField,
    OneOf,
    ReasonSerializer,
    StrictSerializer,
    TenantSerializer,
    TextField,
)
from memoryhub.api.views import operation
from memoryhub.auth.access import UnknownRow, resolve_many
from memoryhub.auth.principals import Principal, Scope
from strength.actions.curation import archive_memories, report_use
from strength.actions.revisions import strength_history
from strength.actions.tasks import Completion, begin_task, complete_task, found_memories
from strength.actions.usage import NotUsable, impact_memory, mark_candidates, set_strengths
from strength.api.memories import MemoryView
from strength.api.search import FoundMemoryOut
from strength.api.serializers import MAX_STRENGTH, MemoryOut
from strength.domain.memories import MAX_CONTENT_LENGTH
from strength.domain.strength import Impact
from strength.models import Memory, Task

MAX_IDS = 500
MAX_TASK_ID_LENGTH = 200


class IdsField(ItemsField):
    child = IdField()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"max_length": MAX_IDS, **kwargs})


class UsedIn(StrictSerializer):
    """A report of use; with a `task_id` it counts once per task."""

    perspective = TextField(required=False, allow_null=True, default=None, max_length=100)
    task_id = TextField(required=False, allow_null=True, default=None, max_length=MAX_TASK_ID_LENGTH)


class ManyUsedIn(UsedIn):
    """A report of use of several memories."""

    ids = IdsField()


class IdsIn(StrictSerializer):
    ids = IdsField()


class ArchiveIn(ReasonSerializer):
    ids = IdsField()


class StrengthIn(StrictSerializer):
    id = IdField()
    strength = serializers.FloatField(min_value=0, max_value=MAX_STRENGTH)


class StrengthsIn(StrictSerializer):
    updates = ItemsField(child=StrengthIn(), max_length=MAX_IDS)


class ImpactIn(StrictSerializer):
    """An impact of a memory beyond being used."""

    impact_type = OneOf(choices=[impact.value for impact in Impact])


class ReinforcedOut(serializers.Serializer):
    """The number of reinforced memories, and the unknown ids."""

    reinforced = serializers.IntegerField()
    unknown = serializers.ListField(child=serializers.UUIDField())


class UpdatedOut(serializers.Serializer):
    """The number of changed memories, and the unknown ids."""

    updated = serializers.IntegerField()
    unknown = serializers.ListField(child=serializers.UUIDField())


class PointOut(serializers.Serializer):
    """A memory's strength after an event."""

    at = serializers.DateTimeField()
    kind = serializers.CharField()
    strength = serializers.FloatField()
    level = serializers.IntegerField()
    times = serializers.IntegerField()


class HistoryOut(serializers.Serializer):
    results = PointOut(many=True)


class TaskIn(TenantSerializer):
    query = TextField(max_length=MAX_CONTENT_LENGTH)
    perspective = TextField(required=False, allow_null=True, default=None, max_length=100)
    project = TextField(required=False, allow_null=True, default=UNNAMED, max_length=255)


class TaskOut(serializers.Serializer):
    """A new task with the memories found for it."""

    task_id = serializers.UUIDField()
    memories = FoundMemoryOut(many=True)
    routing = RoutingOut(allow_null=True, help_text="null if it was not requested.")


class ResultField(serializers.JSONField):
    """A task's result: any JSON value of bounded size."""

    default_error_messages = {"long": f"must have at most {MAX_JSON_BYTES} bytes as JSON."}

    def to_internal_value(self, data: Any) -> Any:
        value = super().to_internal_value(data)
        if len(json.dumps(value, ensure_ascii=False).encode()) > MAX_JSON_BYTES:
            self.fail("long")
        return value


class CompleteIn(StrictSerializer):
    """The result of a task. `used_memory_ids` takes precedence over use detection."""

    result = ResultField(allow_null=True)
    used_memory_ids = ItemsField(child=IdField(), required=False, allow_null=True, max_length=MAX_IDS)
    perspective = TextField(required=False, allow_null=True, max_length=100)
    learning_content = TextField(required=False, allow_null=True, max_length=MAX_CONTENT_LENGTH)
    learning_text = TextField(required=False, allow_null=True, allow_blank=True, max_length=10_000)
    extract_learning = serializers.BooleanField(default=False)
    impact_type = OneOf(choices=[impact.value for impact in Impact], required=False, allow_null=True)
    run_sleep_phase = serializers.BooleanField(default=False)

    @staticmethod
    def completion(values: dict[str, Any]) -> Completion:
        """Return validated values as a completion."""
        fields = {name: value for name, value in values.items() if name != "impact_type"}
        impact = values.get("impact_type")
        return Completion(impact=Impact(impact) if impact else None, **fields)


class OutcomeOut(serializers.Serializer):
    """The outcome of a task."""

    task_id = serializers.UUIDField(source="pk")
    task_result = serializers.JSONField(source="result", allow_null=True)
    searched_memories = FoundMemoryOut(many=True)
    used_memory_ids = serializers.ListField(child=serializers.UUIDField())
    recorded_memory_id = serializers.UUIDField(allow_null=True)
    executed_at = serializers.DateTimeField(source="completed_at", allow_null=True)
    errors = serializers.ListField(child=serializers.CharField())  # type: ignore[assignment]

    @classmethod
    def of(cls, task: Any, by: Principal) -> Any:
        """Return the answer about a task, with what the key may see of its memories."""
        task.searched_memories = found_memories(task, by=by)
        return cls(task).data


class ManyMemoriesView(MemoryView):
    """Base of bulk views. Unknown ids are reported; the others are processed."""

    scopes = {"POST": Scope.WRITE}

    def respond_count(
        self, name: str, requested_ids: Sequence[UUID], action: Callable[[list[Memory]], int]
    ) -> Response:
        """Run an action on the visible memories; return its count and the unknown ids, each once, in order.

        Raises UnknownRow where it may see none.
        """
        visible = {memory.pk: memory for memory in resolve_many(Memory.objects.all(), self.principal, requested_ids)}
        if requested_ids and not visible:
            raise UnknownRow("None of these ids is of a memory.")
        count = action(list(visible.values()))
        return Response(
            {name: count, "unknown": [str(key) for key in dict.fromkeys(requested_ids) if key not in visible]}
        )


class MemoryUsed(MemoryView):
    @operation("memory_used", Scope.WRITE, request=UsedIn, responses=MemoryOut)
    def post(self, request: Request, memory_id: UUID) -> Response:
        """Strengthen a memory that was used; with a `task_id`, once for that task."""
        values = self.validated(UsedIn)
        memory = self.memory(memory_id)
        report = {"perspective": values["perspective"], "task": values["task_id"], "now": self.now}
        usable, _count = report_use(memories=[memory], by=self.principal, **report)
        if not usable:
            raise NotUsable(f"A memory that is {memory.status} cannot have been used.")
        return self.answer(memory)


class MemoriesUsed(ManyMemoriesView):
    @extend_schema(operation_id="memories_used", request=ManyUsedIn, responses=ReinforcedOut)
    def post(self, request: Request) -> Response:
        """Strengthen the memories that were used; with a `task_id`, each once for that task."""
        values = self.validated(ManyUsedIn)
        report = {"perspective": values["perspective"], "task": values["task_id"], "now": self.now}
        return self.respond_count(
            "reinforced", values["ids"], lambda memories: report_use(memories=memories, by=self.principal, **report)[1]
        )


class MemoriesCandidates(ManyMemoriesView):
    @extend_schema(operation_id="memories_candidates", request=IdsIn, responses=UpdatedOut)
    def post(self, request: Request) -> Response:
        """Count the memories as candidates; their strength stays as it is."""

        def mark(memories: list[Memory]) -> int:
            mark_candidates(memories=memories)
            return len(memories)

        return self.respond_count("updated", self.validated(IdsIn)["ids"], mark)


class MemoriesArchive(ManyMemoriesView):
    @extend_schema(operation_id="memories_archive", request=ArchiveIn, responses=UpdatedOut)
    def post(self, request: Request) -> Response:
        """Archive those of the memories that are active."""
        values = self.validated(ArchiveIn)
        options = {"by": self.principal, "reason": values["reason"], "now": self.now}
        return self.respond_count(
            "updated", values["ids"], lambda memories: archive_memories(memories=memories, **options)
        )


class MemoriesStrengths(ManyMemoriesView):
    @extend_schema(operation_id="memories_set_strengths", request=StrengthsIn, responses=UpdatedOut)
    def post(self, request: Request) -> Response:
        """Set the strengths of several memories; they decay from now on."""
        strengths = {update["id"]: update["strength"] for update in self.validated(StrengthsIn)["updates"]}
        return self.respond_count(
            "updated",
            list(strengths),
            lambda memories: set_strengths(memories=memories, strengths=strengths, by=self.principal, now=self.now),
        )


class MemoryImpact(MemoryView):
    @operation("memory_impact", Scope.WRITE, request=ImpactIn, responses=MemoryOut)
    def post(self, request: Request, memory_id: UUID) -> Response:
        """Add an impact to a memory, and a share of it to its strength."""
        memory = self.memory(memory_id)
        impact = Impact(self.validated(ImpactIn)["impact_type"])
        impact_memory(memory=memory, impact=impact, by=self.principal, now=self.now)
        return self.answer(memory)


class MemoryStrength(MemoryView):
    @operation("memory_strength_history", Scope.READ, responses=HistoryOut)
    def get(self, request: Request, memory_id: UUID) -> Response:
        """Return a memory's strength after each day's uses, impacts and sleeps, until now."""
        points = strength_history(memory=self.memory(memory_id), now=self.now)
        return Response({"results": PointOut(points, many=True).data})


class Tasks(MemoryView):
    idempotent_in_transaction = False

    @operation("tasks_create", Scope.WRITE, request=TaskIn, responses={201: TaskOut})
    def post(self, request: Request) -> Response:
        """Begin a task: search its query; the memories found count as candidates."""
        values = self.validated(TaskIn)
        actor = self.writing(values)
        begun = begin_task(
            tenant=self.reading(values),
            actor=actor,
            query=values["query"],
            perspective=values["perspective"],
            project=values["project"],
            by=self.principal,
            now=self.now,
        )
        body = {
            "task_id": begun.task.pk,
            "memories": begun.found,
            "routing": begun.routing.as_json() if begun.routing else None,
        }
        return Response(TaskOut(body).data, status=201)


class TaskComplete(MemoryView):
    idempotent_in_transaction = False

    @operation("task_complete", Scope.WRITE, request=CompleteIn, responses=OutcomeOut)
    def post(self, request: Request, task_id: UUID) -> Response:
        """Complete a task: reinforce the memories that its result used, and record a learning.

        Repeated, it returns the first outcome.
        """
        task = self.owned(Task.objects.all(), task_id)
        completion = CompleteIn.completion(self.validated(CompleteIn))
        task = complete_task(task=task, completion=completion, by=self.principal, now=self.now)
        return Response(OutcomeOut.of(task, self.principal))


class OneTask(MemoryView):
    @operation("task_get", Scope.READ, responses=OutcomeOut)
    def get(self, request: Request, task_id: UUID) -> Response:
        """Return a task's outcome so far."""
        task: Any = self.owned(Task.objects.all(), task_id)
        return Response(OutcomeOut.of(task, self.principal))
