"""What a person decides about a memory that waits, and taking that back as one unit (SPEC M9, M10, W2)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils.dateparse import parse_datetime

from memoryhub.access.domain import Forbidden, Principal
from memoryhub.access.tenancy import UnknownRow
from memoryhub.providers.spaces import index_entries, writing_spaces
from memoryhub.refusals import told
from strength.actions.curate import (
    TEXT_ONCE,
    TRANSITIONS,
    DuplicateMemory,
    WrongState,
    apply_transition,
    approve_memory,
    is_about,
)
from strength.actions.decisions import bring_back_decision, decision_kept
from strength.actions.indexing import follow_memories, index_memory
from strength.actions.rest import hold_awake
from strength.actions.revisions import keep_revision, snapshot
from strength.domain.memories import Status, content_digest
from strength.models import Memory, MemoryRevision

TAKEN_BACK: Final = "undo"
DATES: Final = ("valid_from", "valid_to")

WayBack = dict[str, Any]
"""What a decision leaves nowhere else: ids, states and moments as JSON types, no text of the memory's."""


def decide_memory(
    *,
    memory: Memory,
    verb: str,
    values: Mapping[str, Any],
    expected_version: int,
    by: Principal,
    reason: str,
    now: datetime,
) -> tuple[Memory, WayBack]:
    """Approve a memory that waits, put right by `values` where there are some, or reject it; return also the way back.

    `expected_version` is that of the text which was read. Raises as `approve_memory` and `apply_transition` do.
    """
    if Status(memory.status) not in TRANSITIONS[verb].allowed:
        raise WrongState(told("It does not wait any more: it is %(status)s.", status=told(memory.status)))
    texts = {memory.content, values.get("content", memory.content)}
    way_back: WayBack = {
        "before": memory.version,
        "trust": memory.trust,
        "supersedes": [str(key) for key in memory.supersedes or []],
        "decisions": {_name(text): decision_kept(actor_id=memory.actor_id, text=text) for text in texts},
        "decided_at": now.isoformat(),
    }
    if verb == "approve":
        decided = approve_memory(
            memory=memory, values=values, expected_version=expected_version, by=by, reason=reason, now=now
        )
    else:
        decided = apply_transition(
            memory=memory, verb=verb, expected_version=expected_version, by=by, reason=reason, now=now
        )
    return decided, way_back | {"after": decided.version}


def take_decision_back(
    *, memory: Memory, way_back: WayBack, by: Principal, reason: str, now: datetime
) -> Memory:
    """Let a memory wait again as it did before a decision, and what that ended hold again, and what stood against it.

    Raises WrongState where the memory was changed since, DuplicateMemory where another has its text by now, Forbidden.
    """
    if not by.is_trusted:
        raise Forbidden(told("An untrusted key may not take a decision back; a curator can."))
    values = _values_before(memory, way_back)
    spaces = writing_spaces()
    entry = index_entries([values["content"]], spaces)[0] if "content" in values else None
    try:
        with transaction.atomic():
            locked = _lock(memory, way_back)
            before = snapshot(locked)
            _let_wait(locked, values, way_back, now)
            if entry is not None:
                index_memory(locked, entry, spaces)
            follow_memories([locked])
            _bring_decisions_back(locked, {before["content"], locked.content}, way_back)
            keep_revision(memory=locked, verb=TAKEN_BACK, before=before, by=by, reason=reason, now=now)
            for ended in _ended_by(locked, way_back):
                _let_hold(ended, by=by, reason=reason, now=now)
            return locked
    except IntegrityError as error:
        if not is_about(error, TEXT_ONCE):
            raise
        raise DuplicateMemory(told("Another memory in this namespace has the same text by now.")) from error


def _name(text: str) -> str:
    """Return a name for a text that tells nothing of it but whether another is the same."""
    return content_digest(text).hex()


def _values_before(memory: Memory, way_back: WayBack) -> dict[str, Any]:
    """Return the curated values that the decision changed, as they were."""
    rows = MemoryRevision.objects.filter(
        actor_id=memory.actor_id, memory=memory, number__gt=way_back["before"]
    )
    values: dict[str, Any] = {}
    for changed in rows.order_by("-number").values_list("changed_before", flat=True):
        values.update(changed)
    return values | {name: _moment(values[name]) for name in DATES if name in values}


def _lock(memory: Memory, way_back: WayBack) -> Memory:
    """Hold the memory and what it ended, in the order of keys, as everybody locks who locks more than one."""
    hold_awake(memory.actor_id)
    rows = Memory.objects.of([memory.actor_id]).select_for_update(of=["self"]).select_related("actor__agent")
    held = rows.filter(pk__in=[memory.pk, *map(UUID, way_back["supersedes"])])
    locked = {each.pk: each for each in held.order_by("id")}.get(memory.pk)
    if locked is None:
        raise UnknownRow(told("No memory %(id)s.", id=memory.pk))
    if locked.version != way_back["after"]:
        raise WrongState(told("It was changed since; what was decided stands. Change it on its own page."))
    return locked


def _let_wait(memory: Memory, values: Mapping[str, Any], way_back: WayBack, now: datetime) -> None:
    for name, value in values.items():
        setattr(memory, name, value)
    memory.status, memory.trust = Status.PENDING, way_back["trust"]
    memory.supersedes = [UUID(key) for key in way_back["supersedes"]] or None
    memory.content_digest = content_digest(memory.content)
    memory.version, memory.updated_at = memory.version + 1, now
    memory.save()


def _bring_decisions_back(memory: Memory, texts: set[str], way_back: WayBack) -> None:
    decided_at = datetime.fromisoformat(way_back["decided_at"])
    for text in texts:
        bring_back_decision(
            actor_id=memory.actor_id,
            text=text,
            kept=way_back["decisions"].get(_name(text)),
            left_at=decided_at,
        )


def _ended_by(memory: Memory, way_back: WayBack) -> Sequence[Memory]:
    """Return what the approval ended and nobody has changed since; each was held with the memory."""
    rows = Memory.objects.of([memory.actor_id]).select_related("actor__agent")
    return list(rows.filter(pk__in=way_back["supersedes"], superseded_by=memory).order_by("id"))


def _let_hold(memory: Memory, *, by: Principal, reason: str, now: datetime) -> None:
    """Let an ended memory hold again as its last revision found it; one that was changed since stays as it is."""
    revisions = MemoryRevision.objects.filter(actor_id=memory.actor_id, memory=memory, verb="supersede")
    ended = revisions.filter(number=memory.version).first()
    if ended is None:
        return
    before = snapshot(memory)
    for name, value in ended.changed_before.items():
        setattr(memory, name, _moment(value) if name in DATES else value)
    memory.superseded_by = None
    memory.version, memory.updated_at = memory.version + 1, now
    memory.save()
    follow_memories([memory])
    keep_revision(memory=memory, verb=TAKEN_BACK, before=before, by=by, reason=reason, now=now)


def _moment(text: str | None) -> datetime | None:
    return parse_datetime(text) if text else None
