"""Tasks with memory: search, run, detect the memories that the result used, record a learning (SPEC S8, S9)."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from conversations.actions.project_routing import route_to_project
from conversations.domain.routing import AUTO, UNNAMED, Routing
from conversations.domain.statements.grounding import Doubt
from memoryhub.auth.access import Tenant, lock_actor, resolve_many
from memoryhub.auth.principals import Principal
from memoryhub.auth.screening import Screening
from memoryhub.embeddings.spaces import text_query
from memoryhub.jobs.queue import enqueue
from memoryhub.llm.errors import ProviderError
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import Trust
from memoryhub.validators import check_storable, storable_text
from strength.actions.curation import report_use
from strength.actions.drafts import NewMemory
from strength.actions.memories import write_memory
from strength.actions.search import FoundMemory, MemorySearch, search_memories
from strength.actions.tombstones import BlockedByTombstone
from strength.actions.usage import LEARNABLE, apply_impact, detect_use, generate_learning
from strength.domain.memories import Kind, MemoryRefused, Source, Status
from strength.domain.ranking import ScoreBreakdown
from strength.domain.sleep import Trigger
from strength.domain.strength import Impact
from strength.domain.usage_detection import result_text
from strength.models import Memory, Task
from strength.models.locks import lock_shared
from strength.models.task import TaskState
from strength.sql import SLEEP_QUERIES, run_query

SLEEP_KIND: Final = "sleep"
SLEEP_KEY: Final = "sleep"
DEFAULT_PERSPECTIVE: Final = "general"
"""Perspective of learnings without one."""


@dataclass(frozen=True, kw_only=True)
class Completion:
    """The result of a task, and what to do with it. `used_memory_ids` takes precedence over use detection."""

    result: Any = None
    used_memory_ids: Sequence[UUID] | None = None
    perspective: str | None = None
    learning_content: str | None = None
    learning_text: str | None = None
    extract_learning: bool = False
    impact: Impact | None = None
    run_sleep_phase: bool = False


@dataclass
class _Findings:
    used: list[UUID] = field(default_factory=list)
    content: str | None = None
    learning: str = ""
    doubt: Doubt | None = None
    errors: list[str] = field(default_factory=list)


def execute_task(
    *,
    tenant: Tenant,
    actor: Actor,
    query: str,
    run: Callable[[list[FoundMemory]], Any],
    by: Principal,
    clock: Callable[[], datetime],
    perspective: str | None = None,
    project: str | None = None,
    completion: Completion | None = None,
) -> Task:
    """Search, call `run` with the memories, reinforce those that its result used, and record a learning.

    The result of `run` replaces that of `completion`, as text where it is no JSON. A function that raises reinforces
    nothing and is reported in the task's errors.
    """
    begun = begin_task(
        tenant=tenant, actor=actor, query=query, perspective=perspective, project=project, by=by, now=clock()
    )
    try:
        result = run(begun.found)
        try:
            document = json.loads(json.dumps(result, allow_nan=False))
            check_storable(document)
        except (TypeError, ValueError, RecursionError):
            document = storable_text(result if isinstance(result, str) else result_text(result))
    except Exception as error:
        reason = f"The task's function raised {type(error).__name__}: {error}"
        return fail_task(task=begun.task, reason=reason, now=clock())
    completion = replace(completion or Completion(), result=document)
    return complete_task(task=begun.task, completion=completion, by=by, now=clock())


@dataclass(frozen=True)
class BegunTask:
    task: Task
    found: list[FoundMemory]
    routing: Routing | None


def begin_task(
    *,
    tenant: Tenant,
    actor: Actor,
    query: str,
    perspective: str | None,
    project: str | None = UNNAMED,
    by: Principal,
    now: datetime,
) -> BegunTask:
    """Create a task with the memories that its query finds; `project` "auto" routes it first (SPEC P3). Network."""
    routing = route_to_project(tenant=tenant, message=query, project=project, session=None, by=by, now=now)
    name = routing.project if routing else None if project in (AUTO, UNNAMED) else project
    search = MemorySearch(query=text_query(query, payer=tenant.payer), perspective=perspective, project=name)
    hits = search_memories(tenant=tenant, search=search, by=by, mark=True, now=now).found
    offered = [{"id": str(hit.memory.pk), "scores": hit.breakdown.as_dict()} for hit in hits]
    with transaction.atomic():
        lock_actor(actor.id)
        task = Task.objects.create(
            actor=actor, query=Screening(actor).text(query), perspective=perspective, offered=offered, created_at=now,
            trust=Trust.TRUSTED if by.is_trusted else Trust.UNTRUSTED,
        )  # fmt: skip
    return BegunTask(task, hits, routing)


def complete_task(*, task: Task, completion: Completion, by: Principal, now: datetime) -> Task:
    """Reinforce what a task used, record a learning; idempotent, with failures in `errors`. Raises UnknownRow.

    A task that an untrusted key began is completed as by one: its query and perspective are part of what is learnt.
    """
    if task.state != TaskState.BEGUN:
        return task
    by = replace(by, is_trusted=by.is_trusted and task.trust == Trust.TRUSTED)
    findings = _findings(task, completion, by)
    _record(task, findings, completion, by, now)
    with transaction.atomic():
        # Excludes sleeps, which lock the rows below in another order.
        lock_shared(task.actor_id)
        task = (
            Task.objects.select_for_update(of=["self"])
            .select_related("actor__agent")
            .get(pk=task.pk, actor_id=task.actor_id)
        )
        if task.state == TaskState.BEGUN:
            _complete(task, completion, findings, by, now)
    return task


@transaction.atomic
def fail_task(*, task: Task, reason: str, now: datetime) -> Task:
    """Mark a task as failed, unless it was completed concurrently; nothing is reinforced."""
    reason = storable_text(reason)
    lock_actor(task.actor_id)
    rows = Task.objects.filter(pk=task.pk, actor_id=task.actor_id)
    rows.filter(state=TaskState.BEGUN).update(state=TaskState.FAILED, errors=[reason], completed_at=now)
    return rows.get()


def found_memories(task: Task, *, by: Principal) -> list[FoundMemory]:
    """Return the memories that were found for a task as they are now, with the scores that they had."""
    scores = {UUID(entry["id"]): ScoreBreakdown(**entry["scores"]) for entry in task.offered}
    memories = {memory.pk: memory for memory in offered_memories(task, by)}
    return [FoundMemory(memories[key], scored) for key, scored in scores.items() if key in memories]


def offered_memories(task: Task, by: Principal, *, details: bool = True) -> list[Memory]:
    rows = Memory.objects.with_numbers() if details else Memory.objects.all()
    # A key of one user was also offered the agent's and shared memories.
    reader = replace(by, user_id=None)
    return resolve_many(rows, reader, [UUID(entry["id"]) for entry in task.offered])


def _findings(task: Task, completion: Completion, by: Principal) -> _Findings:
    text, findings = result_text(completion.result), _Findings()
    if completion.used_memory_ids is not None:
        findings.used = list(dict.fromkeys(completion.used_memory_ids))
    else:
        memories = offered_memories(task, by, details=False)
        findings.used, findings.errors = detect_use(actor=task.actor, result=text, query=task.query, memories=memories)
    findings.content, findings.learning = completion.learning_content, completion.learning_text or ""
    if completion.extract_learning and findings.content is None:
        try:
            findings.content, findings.learning, findings.doubt = generate_learning(
                actor=task.actor, query=task.query, result=text, now=task.created_at
            )
        except ProviderError as error:
            findings.errors = [*findings.errors, f"No learning was drawn from the result: {error}"]
    return findings


def _complete(task: Task, completion: Completion, findings: _Findings, by: Principal, now: datetime) -> None:
    perspective = completion.perspective if completion.perspective is not None else task.perspective
    used: list[Memory] = []
    if by.is_trusted:
        visible = [*offered_memories(task, by, details=False), *resolve_many(Memory.objects.all(), by, findings.used)]
        memories = {memory.pk: memory for memory in visible}
        for key in findings.used:
            if key not in memories:
                findings.errors.append(f"There is no memory {key}.")
            elif Status(memories[key].status) not in LEARNABLE:
                findings.errors.append(f"The memory {key} is {memories[key].status}; it was not strengthened.")
            else:
                used.append(memories[key])
    elif findings.used or completion.run_sleep_phase:
        findings.errors.append(
            "The key, or the one that began the task, is not trusted: nothing was strengthened, and no sleep was begun."
        )
    reinforced, _count = report_use(memories=used, perspective=perspective, task=str(task.pk), by=by, now=now)
    not_reinforced = {memory.pk for memory in used} - {memory.pk for memory in reinforced}
    findings.errors += [f"The memory {key} is archived; it was not strengthened." for key in sorted(not_reinforced)]
    used = [memory for memory in used if memory.pk not in not_reinforced]
    if completion.impact is not None:
        apply_impact(memories=used, impact=completion.impact, by=by, now=now)
    task.state, task.completed_at = TaskState.COMPLETED, now
    task.result = Screening(task.actor).json(completion.result)
    task.used_memory_ids, task.errors = [memory.pk for memory in used], findings.errors
    task.trust = Trust.TRUSTED if by.is_trusted else Trust.UNTRUSTED
    task.save()
    if not by.is_trusted:  # tasks advance a decay clock
        return
    run_query(SLEEP_QUERIES["count_task"], {"actor_id": task.actor_id})
    if completion.run_sleep_phase:
        enqueue(SLEEP_KIND, actor_id=task.actor_id, key=SLEEP_KEY, payload={"trigger": Trigger.TASK})


def _record(task: Task, findings: _Findings, completion: Completion, by: Principal, now: datetime) -> None:
    """Write the learning in a transaction of its own: it may lock the memories that others report as used."""
    perspective = completion.perspective if completion.perspective is not None else task.perspective
    with transaction.atomic():
        lock_shared(task.actor_id)
        fresh = Task.objects.select_for_update(of=["self"]).get(pk=task.pk, actor_id=task.actor_id)
        is_recorded = fresh.state != TaskState.BEGUN or fresh.recorded_memory_id is not None
        if is_recorded or not findings.content or not findings.content.strip():
            return
        learnings = {perspective or DEFAULT_PERSPECTIVE: findings.learning} if findings.learning else {}
        new = NewMemory(
            content=findings.content, kind=Kind.LEARNING, source=Source.TASK, learnings=learnings, doubt=findings.doubt
        )
        try:
            memory, _is_new = write_memory(actor=task.actor, new=new, by=by, now=now)
        except (BlockedByTombstone, MemoryRefused) as error:
            findings.errors.append(f"The learning was not recorded: {error}")
            return
        fresh.recorded_memory_id = memory.pk
        fresh.save(update_fields=["recorded_memory_id"])
