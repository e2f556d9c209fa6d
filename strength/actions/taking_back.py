"""Taking back what a person has just done to a memory, or to many at once: their former revision (SPEC M9)."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import transaction

from memoryhub.access.domain import Principal
from memoryhub.refusals import Refusal, told
from strength.actions.curate import WrongState, restore_revision
from strength.actions.decisions import lift_tombstones
from strength.actions.rest import hold_awake
from strength.domain.memories import Status
from strength.models import Memory, MemoryRevision

TAKEN_BACK: Final = frozenset(
    {"pin", "unpin", "archive", "reactivate", "approve", "reject", "edit", "restore", "supersede"}
)
"""A merge is undone by itself, for two memories took part in it; nothing stood before the first revision."""

ENDED: Final = "supersede"


class ChangedSince(WrongState):
    """The memory has been changed since; its revisions tell how, and bring back what is wanted."""


@dataclass
class TakenBack:
    """How many memories are as they were, and why the others are not: the reasons, with how often."""

    done: int = 0
    left: Counter[str] = field(default_factory=Counter)
    refusals: dict[str, Refusal] = field(default_factory=dict)


@transaction.atomic
def take_back(*, revision: MemoryRevision, by: Principal, reason: str, now: datetime) -> Memory:
    """Bring back how a memory stood before its latest revision; what an approval ended holds again.

    That is a revision too. Raises ChangedSince where something came after it, WrongState for what is undone
    otherwise, and what `restore_revision` raises.
    """
    if revision.verb not in TAKEN_BACK:
        raise WrongState(told("This change is not one that can be taken back here."))
    hold_awake(revision.actor_id)
    memory = _as_left(revision)
    former = MemoryRevision(
        memory_id=memory.pk, after={**revision.after, **revision.changed_before}, number=revision.number - 1
    )
    undone = memory.content
    memory = restore_revision(
        memory=memory, revision=former, expected_version=revision.number, by=by, reason=reason, now=now
    )
    _forget_decisions(memory, revision, undone)
    if revision.verb == ENDED:
        Memory.objects.of([memory.actor_id]).filter(pk=memory.pk).update(superseded_by=None)
    if revision.verb == "approve":
        _hold_again(memory, revision, by, reason, now)
    return memory


def take_back_batch(*, batch: UUID, by: Principal, reason: str, now: datetime) -> TakenBack:
    """Take back what was done to many memories at once; those changed since stay, and are told."""
    came_of = TakenBack()
    with transaction.atomic():
        for revision in MemoryRevision.objects.filter(batch=batch).order_by("actor_id", "memory_id"):
            try:
                take_back(revision=revision, by=by, reason=reason, now=now)
            except Refusal as error:
                came_of.left[str(error)] += 1
                came_of.refusals[str(error)] = error
            else:
                came_of.done += 1
    return came_of


def _as_left(revision: MemoryRevision) -> Memory:
    """Return the memory as the revision left it. Raises ChangedSince."""
    rows = Memory.objects.of([revision.actor_id]).select_related("actor__agent")
    memory = rows.filter(pk=revision.memory_id).first()
    if memory is None or memory.version != revision.number:
        raise ChangedSince(told("It was changed since; its revisions bring back what is wanted."))
    return memory


def _forget_decisions(memory: Memory, revision: MemoryRevision, undone: str) -> None:
    """Lift the decisions that the change left, and the one that taking it back has just left."""
    texts = {memory.content} if revision.verb == "reject" else set()
    if undone != memory.content:
        texts |= {memory.content, undone}
    for text in texts:
        lift_tombstones(actor_id=memory.actor_id, text=text)


def _hold_again(memory: Memory, revision: MemoryRevision, by: Principal, reason: str, now: datetime) -> None:
    """Let what the approval ended hold again, but for what was changed since; the memory waits to end it."""
    of_actor = MemoryRevision.objects.filter(actor_id=memory.actor_id, verb=ENDED)
    ended = of_actor.filter(memory__superseded_by=memory.pk, created_at=revision.created_at)
    held = []
    for each in ended.order_by("memory_id"):
        with transaction.atomic():
            if _is_as_left(each):
                held.append(take_back(revision=each, by=by, reason=reason, now=now).pk)
    if held and memory.status == Status.PENDING:
        Memory.objects.of([memory.actor_id]).filter(pk=memory.pk).update(supersedes=held)


def _is_as_left(revision: MemoryRevision) -> bool:
    rows = Memory.objects.of([revision.actor_id])
    return rows.filter(pk=revision.memory_id, version=revision.number).exists()
