"""Memories in use over REST: reports of use, impacts, strengths, and tasks."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from memoryhub.auth.domain import Scope
from memoryhub.auth.tenancy import UnknownRow, resolve_many
from strength.actions.curate import archive_memories
from strength.actions.history import strength_history
from strength.actions.tasks import begin_task, complete_task, outcome_of
from strength.actions.use import impact_memory, mark_candidates, set_strengths, use_memories, use_memory
from strength.api.serializers import MemoryOut
from strength.api.use_serializers import (
    ArchiveIn,
    CompleteIn,
    HistoryOut,
    IdsIn,
    ImpactIn,
    ManyUsedIn,
    OutcomeOut,
    PointOut,
    ReinforcedOut,
    StrengthsIn,
    TaskIn,
    TaskOut,
    UpdatedOut,
    UsedIn,
    unknown,
)
from strength.api.views import MemoryView
from strength.domain.strength import Impact
from strength.models import Memory, Task


class ManyMemoriesView(MemoryView):
    """What views of several memories share: ids that name nothing the key may see are told, and the rest is done."""

    scopes = {"POST": Scope.WRITE}

    def known(self, wanted: Sequence[UUID]) -> dict[UUID, Memory]:
        """Return the memories with these ids that the key may see; raises UnknownRow where there is none of them."""
        found = {memory.pk: memory for memory in resolve_many(Memory.objects.all(), self.principal, wanted)}
        if wanted and not found:
            raise UnknownRow("None of these ids is of a memory.")
        return found

    @staticmethod
    def told(name: str, count: int, wanted: list[UUID], known: dict[UUID, Memory]) -> Response:
        """Return how many it was done to, and which ids are unknown."""
        return Response({name: count, "unknown": [str(key) for key in unknown(wanted, known)]})


class MemoryUsed(MemoryView):
    """Report that a memory was used."""

    scopes = {"POST": Scope.WRITE}

    @extend_schema(request=UsedIn, responses=MemoryOut)
    def post(self, request: Request, memory_id: UUID) -> Response:
        """Strengthen a memory that was used; with a `task_id`, once for that task."""
        values = self.validated(UsedIn)
        memory = self.memory(memory_id)
        use_memory(
            memory=memory,
            perspective=values["perspective"],
            task=values["task_id"],
            by=self.principal,
            now=self.now,
        )
        return self.answer(memory)


class MemoriesUsed(ManyMemoriesView):
    """Report that several memories were used."""

    @extend_schema(request=ManyUsedIn, responses=ReinforcedOut)
    def post(self, request: Request) -> Response:
        """Strengthen the memories that were used; with a `task_id`, each once for that task."""
        values = self.validated(ManyUsedIn)
        known = self.known(values["ids"])
        count = use_memories(
            memories=list(known.values()), perspective=values["perspective"], task=values["task_id"],
            by=self.principal, now=self.now,
        )  # fmt: skip
        return self.told("reinforced", count, values["ids"], known)


class MemoriesCandidates(ManyMemoriesView):
    """Report that memories were offered, without having been used."""

    @extend_schema(request=IdsIn, responses=UpdatedOut)
    def post(self, request: Request) -> Response:
        """Count the memories as candidates; their strength stays as it is."""
        wanted = self.validated(IdsIn)["ids"]
        known = self.known(wanted)
        mark_candidates(memories=list(known.values()))
        return self.told("updated", len(known), wanted, known)


class MemoriesArchive(ManyMemoriesView):
    """Archive several memories."""

    @extend_schema(request=ArchiveIn, responses=UpdatedOut)
    def post(self, request: Request) -> Response:
        """Archive those of the memories that are active."""
        values = self.validated(ArchiveIn)
        known = self.known(values["ids"])
        count = archive_memories(
            memories=list(known.values()), by=self.principal, reason=values["reason"], now=self.now
        )
        return self.told("updated", count, values["ids"], known)


class MemoriesStrengths(ManyMemoriesView):
    """Set how strong several memories are."""

    @extend_schema(request=StrengthsIn, responses=UpdatedOut)
    def post(self, request: Request) -> Response:
        """Set the strengths; they fade from now on."""
        strengths = {each["id"]: each["strength"] for each in self.validated(StrengthsIn)["updates"]}
        known = self.known(list(strengths))
        count = set_strengths(
            memories=list(known.values()), strengths=strengths, by=self.principal, now=self.now
        )
        return self.told("updated", count, list(strengths), known)


class MemoryImpact(MemoryView):
    """Report what a memory did beyond being used."""

    scopes = {"POST": Scope.WRITE}

    @extend_schema(request=ImpactIn, responses=MemoryOut)
    def post(self, request: Request, memory_id: UUID) -> Response:
        """Add an impact to the memory, and a share of it to its strength."""
        memory = self.memory(memory_id)
        impact = Impact(self.validated(ImpactIn)["impact_type"])
        impact_memory(memory=memory, impact=impact, by=self.principal, now=self.now)
        return self.answer(memory)


class MemoryStrength(MemoryView):
    """A memory's strength over time."""

    scopes = {"GET": Scope.READ}

    @extend_schema(operation_id="memory_strength_history", responses=HistoryOut)
    def get(self, request: Request, memory_id: UUID) -> Response:
        """Return how strong the memory was after each day's uses, impacts and sleeps, until now."""
        points = strength_history(memory=self.memory(memory_id), now=self.now)
        return Response({"results": PointOut(points, many=True).data})


class Tasks(MemoryView):
    """Begin a task."""

    scopes = {"POST": Scope.WRITE}
    idempotent_in_transaction = False

    @extend_schema(request=TaskIn, responses={201: TaskOut})
    def post(self, request: Request) -> Response:
        """Search for what the task needs; the memories count as candidates."""
        values = self.validated(TaskIn)
        actor = self.writing(values)
        begun = begin_task(
            tenant=self.reading(values), actor=actor, query=values["query"], perspective=values["perspective"],
            project=values["project"], by=self.principal, now=self.now,
        )  # fmt: skip
        body = {
            "task_id": begun.task.pk,
            "memories": begun.found,
            "routing": begun.routing.as_json() if begun.routing else None,
        }
        return Response(TaskOut(body).data, status=201)


class TaskComplete(MemoryView):
    """Complete a task."""

    scopes = {"POST": Scope.WRITE}
    idempotent_in_transaction = False

    @extend_schema(request=CompleteIn, responses=OutcomeOut)
    def post(self, request: Request, task_id: UUID) -> Response:
        """Strengthen what the result used, record what was learnt; a second time, the first outcome is returned."""
        task = self.owned(Task.objects.all(), task_id)
        completion = CompleteIn.completion(self.validated(CompleteIn))
        outcome = complete_task(task=task, completion=completion, by=self.principal, now=self.now)
        return Response(OutcomeOut(outcome).data)


class OneTask(MemoryView):
    """Read a task."""

    scopes = {"GET": Scope.READ}

    @extend_schema(responses=OutcomeOut)
    def get(self, request: Request, task_id: UUID) -> Response:
        """Return what came of a task so far."""
        task: Any = self.owned(Task.objects.all(), task_id)
        return Response(OutcomeOut(outcome_of(task, by=self.principal)).data)
