"""Taking back, as one unit, what a person has just done to a memory, or to many at once (SPEC M9, S6, W2)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils.dateparse import parse_datetime

from memoryhub.auth.domain import Forbidden, Principal
from memoryhub.errors import DomainError, told
from memoryhub.providers.spaces import index_entries, writing_spaces
from strength.actions.beside import STRENGTH, SUPERSEDES, TRUST, decided_about
from strength.actions.curate import TEXT_ONCE, DuplicateMemory, WrongState, is_about
from strength.actions.decisions import bring_back_decision
from strength.actions.revisions import keep_revision, snapshot
from strength.actions.search import follow_memories, index_memory
from strength.actions.usage import set_strengths
from strength.domain.memories import content_digest
from strength.models import Memory, MemoryRevision
from strength.models.rest import hold_awake

CAN_BE: Final = frozenset(
    {"pin", "unpin", "archive", "reactivate", "approve", "reject", "edit", "restore", "supersede"}
)
"""A merge is undone by itself, for two memories took part in it; nothing stood before the first revision."""

TAKEN_BACK: Final = "undo"
ENDED: Final = "supersede"
DATES: Final = ("valid_from", "valid_to")


class ChangedSince(WrongState):
    """The memory has been changed since; its revisions tell how, and bring back what is wanted."""


@dataclass
class TakenBack:
    """How many memories are as they were, and why the others are not: the reasons, with how often."""

    done: int = 0
    left: Counter[str] = field(default_factory=Counter)
    refusals: dict[str, DomainError] = field(default_factory=dict)


def take_back(*, revision: MemoryRevision, by: Principal, reason: str, now: datetime) -> Memory:
    """Let a memory be as it was before its latest revision, with all that the change did beside its values.

    What it says and where it stands, its trust, the decisions against its texts, what it would end and what it ended.
    That is a revision too. Raises ChangedSince where something came after it, WrongState for what is undone otherwise,
    DuplicateMemory where another has its text by now, Forbidden.
    """
    if not by.is_trusted:
        raise Forbidden(told("An untrusted key may not take a decision back; a curator can."))
    if revision.verb not in CAN_BE:
        raise WrongState(told("This change is not one that can be taken back here."))
    try:
        with transaction.atomic():
            memory = _lock(revision)
            _let_be_as_before(memory, revision, by=by, reason=reason, now=now)
            for ended in _ended_by(memory, revision):
                _let_be_as_before(memory=ended[0], revision=ended[1], by=by, reason=reason, now=now)
            return memory
    except IntegrityError as error:
        if not is_about(error, TEXT_ONCE):
            raise
        raise DuplicateMemory(told("Another memory in this namespace has the same text by now.")) from error


def take_back_batch(*, batch: UUID, by: Principal, reason: str, now: datetime) -> TakenBack:
    """Take back what was done to many memories at once; those changed since stay, and are told."""
    came_of = TakenBack()
    with transaction.atomic():
        for revision in MemoryRevision.objects.filter(batch=batch).order_by("actor_id", "memory_id"):
            try:
                take_back(revision=revision, by=by, reason=reason, now=now)
            except DomainError as error:
                came_of.left[str(error)] += 1
                came_of.refusals[str(error)] = error
            else:
                came_of.done += 1
    return came_of


def _lock(revision: MemoryRevision) -> Memory:
    """Hold the memory and what it ended, in the order of keys, as everybody locks who locks more than one."""
    hold_awake(revision.actor_id)
    rows = (
        Memory.objects.of([revision.actor_id]).select_for_update(of=["self"]).select_related("actor__agent")
    )
    held = rows.filter(pk__in=[revision.memory_id, *_superseded(revision)])
    memory = {each.pk: each for each in held.order_by("id")}.get(revision.memory_id)
    if memory is None or memory.version != revision.number:
        raise ChangedSince(told("It was changed since; its revisions bring back what is wanted."))
    return memory


def _superseded(revision: MemoryRevision) -> list[UUID]:
    return [UUID(key) for key in revision.beside.get(SUPERSEDES, ())]


def _let_be_as_before(
    memory: Memory, revision: MemoryRevision, *, by: Principal, reason: str, now: datetime
) -> None:
    before = snapshot(memory)
    for name, value in _values_before(revision).items():
        setattr(memory, name, value)
    memory.content_digest = content_digest(memory.content)
    memory.version, memory.updated_at = memory.version + 1, now
    memory.save()
    if memory.content != before["content"]:
        spaces = writing_spaces()
        index_memory(memory, index_entries([memory.content], spaces)[0], spaces)
    follow_memories([memory])
    _bring_decisions_back(memory, revision, {str(before["content"]), memory.content})
    if STRENGTH in revision.beside:
        set_strengths(memories=[memory], strengths={memory.pk: revision.beside[STRENGTH]}, by=by, now=now)
    keep_revision(memory=memory, verb=TAKEN_BACK, before=before, by=by, reason=reason, now=now)


def _values_before(revision: MemoryRevision) -> dict[str, Any]:
    """Return what the change changed, as it was; of a change of before this was kept, the curated values alone."""
    values: dict[str, Any] = dict(revision.changed_before)
    values |= {name: _moment(values[name]) for name in DATES if name in values}
    if TRUST in revision.beside:
        values |= {"trust": revision.beside[TRUST], "supersedes": _superseded(revision) or None}
    if revision.verb == ENDED:
        values["superseded_by"] = None
    return values


def _bring_decisions_back(memory: Memory, revision: MemoryRevision, texts: set[str]) -> None:
    kept: Mapping[str, Any] = decided_about(revision.beside)
    for text in texts:
        bring_back_decision(
            actor_id=memory.actor_id,
            text=text,
            kept=kept.get(content_digest(text).hex()),
            left_at=revision.created_at,
        )


def _ended_by(memory: Memory, revision: MemoryRevision) -> list[tuple[Memory, MemoryRevision]]:
    """Return what the change ended, with how, where nobody has changed it since; each was held with the memory."""
    rows = Memory.objects.of([memory.actor_id]).select_related("actor__agent")
    ended = rows.filter(pk__in=_superseded(revision), superseded_by=memory).order_by("id")
    revisions = MemoryRevision.objects.filter(actor_id=memory.actor_id, memory__in=ended, verb=ENDED)
    latest = {each.memory_id: each for each in revisions.order_by("number")}
    return [
        (each, latest[each.pk])
        for each in ended
        if each.pk in latest and latest[each.pk].number == each.version
    ]


def _moment(text: str | None) -> datetime | None:
    return parse_datetime(text) if text else None
