"""A memory that no longer holds gives way to another, and is kept (SPEC M8)."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.domain import Forbidden, Principal, PrincipalKind
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.errors import told
from memoryhub.tenancy.domain import Trust
from strength.actions.curate import WrongState
from strength.actions.decisions import counting_what_is_held_back
from strength.actions.ending import end_memory, note_what_it_would_end
from strength.actions.write import NewMemory, write_memory
from strength.domain.memories import Kind, MemoryRefused, ScopeLevel, Status
from strength.models import Memory
from strength.models.rest import hold_awake


@counting_what_is_held_back()
def supersede_memory(
    *,
    memory: Memory,
    new: NewMemory,
    at: datetime,
    by: Principal,
    reason: str,
    now: datetime,
    along: Sequence[Memory] = (),
    expected_version: int | None = None,
) -> Memory:
    """Write what holds from `at` on, and end what held until then; return the new memory.

    What is not stated of the new one is as it was of the old. The old one is kept with its end, and found by those who
    ask what held at a time before (`as_of`). Those `along` end with it where they can. Where the new text has to wait
    for a curator, or a job would end what a person has put right, the new one waits and the old ones hold on until it
    is approved. Raises VersionMismatch, WrongState for a memory that is not active or has ended, MemoryRefused for an
    end before its begin, DecidedAgainst and others as `write_memory` does.
    """
    hold_awake(memory.actor_id)
    rows = Memory.objects.of([memory.actor_id]).select_for_update(of=["self"]).select_related("actor__agent")
    held = {
        each.pk: each for each in rows.filter(pk__in=[memory.pk, *(each.pk for each in along)]).order_by("id")
    }
    old = held.pop(memory.pk, None)
    if old is None:
        raise UnknownRow(told("No memory %(id)s.", id=memory.pk))
    if expected_version is not None and old.version != expected_version:
        raise VersionMismatch(old.version)
    _check(old, at, by)
    olds = [old, *_endable(list(held.values()), at, by)]
    waits = new.waits or (by.kind is PrincipalKind.JOB and any(each.locked for each in olds))
    unlike = new.unlike.union(each.pk for each in olds)
    written, is_new = write_memory(
        actor=old.actor, new=_like(old, replace(new, waits=waits, unlike=unlike), at), by=by, now=now
    )
    if written.pk == old.pk:
        raise MemoryRefused("content", told("The new text says what the memory says already."))
    ending = [each for each in olds if each.pk != written.pk]
    if written.status == Status.ACTIVE:
        for each in ending:
            end_memory(each, written, at, by=by, reason=reason, now=now)
    elif written.status == Status.PENDING and by.is_trusted:
        note_what_it_would_end(written, ending, is_new=is_new, now=now)
    return written


def _endable(memories: Sequence[Memory], at: datetime, by: Principal) -> list[Memory]:
    found = []
    for each in memories:
        with suppress(Forbidden, WrongState, MemoryRefused):
            _check(each, at, by)
            found.append(each)
    return found


def _check(old: Memory, at: datetime, by: Principal) -> None:
    if not by.is_trusted and old.trust == Trust.TRUSTED:
        raise Forbidden(told("An untrusted key may not end what is believed; a curator can."))
    if old.status != Status.ACTIVE or old.superseded_by_id or (old.valid_to and old.valid_to <= at):
        raise WrongState(told("Only a memory that is active and still holds can be superseded."))
    # What was said at one moment may replace itself more than once: it then held for no time at all.
    if old.valid_from and at < old.valid_from:
        raise MemoryRefused("valid_from", told("A memory cannot end before it begins."))


def _like(old: Memory, new: NewMemory, at: datetime) -> NewMemory:
    """Return the new memory where and of what sort the old one was, from its time on."""
    return replace(
        new,
        kind=Kind(old.kind),
        namespace=old.namespace,
        tags=new.tags or old.tags,
        scope_level=ScopeLevel(old.scope_level),
        scope_domain=old.scope_domain or None,
        scope_project=old.scope_project,
        valid_from=at,
    )
