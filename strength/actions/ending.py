"""Ending memories that no longer hold, at once or when what contradicts them is approved (SPEC M8, M10)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from memoryhub.auth.domain import Principal, PrincipalKind
from strength.actions.revisions import keep_revision, snapshot
from strength.actions.search import follow_memories
from strength.domain.memories import Status
from strength.models import Memory

APPROVED: Final = "What contradicts it was approved."


def end_memory(old: Memory, new: Memory, at: datetime, *, by: Principal, reason: str, now: datetime) -> None:
    """Let a locked memory have held until `at`, and name what holds since; it is kept, with its revision."""
    before = snapshot(old)
    old.valid_to, old.superseded_by, old.pinned = at, new, False
    old.version, old.updated_at = old.version + 1, now
    old.save(update_fields=["valid_to", "superseded_by", "pinned", "version", "updated_at"])
    follow_memories([old])
    keep_revision(memory=old, verb="supersede", before=before, by=by, reason=reason, now=now)


def note_what_it_would_end(waiting: Memory, olds: Sequence[Memory], *, is_new: bool, now: datetime) -> None:
    """Note with a memory that waits what no longer holds once it is approved.

    One that waited before is another version by that: who read it without what it ends has not approved of it.
    """
    known = list(waiting.supersedes or [])
    more = [old.pk for old in olds if old.pk not in known]
    if not more:
        return
    waiting.supersedes = [*known, *more]
    if not is_new:
        waiting.version, waiting.updated_at = waiting.version + 1, now
    waiting.save(update_fields=["supersedes", "version", "updated_at"])


def end_what_it_supersedes(approved: Memory, *, by: Principal, now: datetime) -> None:
    """End what a memory that was just brought in contradicts, as far as it still holds; in its transaction.

    A person who approves it has decided so; a job ends nothing that a person pinned or put right.
    """
    keys, at = approved.supersedes or [], min(approved.valid_from or now, now)
    rows = Memory.objects.of([approved.actor_id]).active().filter(pk__in=keys, superseded_by=None)
    for old in rows.select_for_update(of=["self"]).select_related("actor__agent").order_by("id"):
        is_kept = by.kind is PrincipalKind.JOB and (old.pinned or old.locked)
        has_ended = old.valid_to is not None and old.valid_to <= at
        begins_later = old.valid_from is not None and old.valid_from > at
        if not (is_kept or has_ended or begins_later):
            end_memory(old, approved, at, by=by, reason=APPROVED, now=now)
    if keys:
        approved.supersedes = None
        approved.save(update_fields=["supersedes"])


def is_brought_in(memory: Memory, was: str) -> bool:
    """Say whether a memory that waited has just become active."""
    return memory.status == Status.ACTIVE and was == Status.PENDING
