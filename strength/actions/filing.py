"""Writing down what strategies drew: once each, by the rules that hold for everything that is written (SPEC M8–M10)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from memoryhub.auth.domain import Forbidden, Principal
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.tenancy.models import Actor
from strength.actions.clock import take_off_clock
from strength.actions.contradiction import Extracted
from strength.actions.curate import WrongState
from strength.actions.decisions import DecidedAgainst, counting_what_is_held_back
from strength.actions.supersede import supersede_memory
from strength.actions.write import NewMemory, say_again, write_memory
from strength.domain.contradiction import Course, Known, Ruling
from strength.domain.memories import MemoryRefused, Source
from strength.models import Memory
from strength.models.rest import hold_awake

PLAIN = Ruling(Course.WRITE)
REASON = "What was said later contradicts it."


@dataclass(frozen=True)
class Filed:
    """What became of what was drawn: ids of what is new, and how many were known, held back or refused."""

    new: tuple[UUID, ...] = ()
    known: int = 0
    held_back: int = 0
    refused: int = 0


def file_extracted(
    *,
    actor: Actor,
    extracted: Sequence[Extracted],
    rulings: Mapping[int, Ruling],
    channel: str,
    by: Principal,
    now: datetime,
) -> Filed:
    """Write down what was drawn, as it was ruled; inside the caller's transaction, that of the cursor.

    One that cannot be written is left out, and the others are written.
    """
    if not extracted:
        return Filed()
    hold_awake(actor.id)
    _hold_known(actor, rulings)
    new, known, held_back, refused = list[UUID](), 0, 0, 0
    for place, each in enumerate(extracted):
        try:
            with counting_what_is_held_back():
                memory_id, is_new = _file(actor, each, rulings.get(place, PLAIN), channel, by, now)
        except DecidedAgainst:
            held_back += 1
        except MemoryRefused:
            refused += 1
        else:
            held_back += memory_id is None
            known += memory_id is not None and not is_new
            new += [memory_id] if memory_id is not None and is_new else []
    return Filed(tuple(new), known, held_back, refused)


def _hold_known(actor: Actor, rulings: Mapping[int, Ruling]) -> None:
    """Lock what the rulings are about, and its numbers, in the order of keys, as everybody does who locks several."""
    keys = {known.memory_id for ruling in rulings.values() for known in ruling.about}
    if keys:
        list(
            Memory.objects.of([actor.id]).filter(pk__in=keys).select_for_update().order_by("id").values("pk")
        )
        take_off_clock(actor.id, keys)


def _file(
    actor: Actor, extracted: Extracted, ruling: Ruling, channel: str, by: Principal, now: datetime
) -> tuple[UUID | None, bool]:
    """Do as it was ruled; return the memory that now says it, and whether it is new; None for what is held back."""
    if ruling.course is Course.HOLD_BACK:
        return None, False
    new = _new_memory(extracted, channel)
    about = _rows(actor, ruling.about)
    if ruling.course is Course.SAY_AGAIN:
        # Deleted since the model was asked: that is a decision too, and this says the same.
        return (say_again(memory=about[0], new=new, by=by, now=now).pk if about else None), False
    new = replace(new, unlike=frozenset(known.memory_id for known in ruling.about))
    if ruling.course is Course.FILE_AS_PAST:
        new = replace(new, valid_from=extracted.said_at, valid_to=ruling.about[0].said_at)
    if ruling.course is Course.SUPERSEDE and extracted.is_believed and about:
        return _supersede(actor, about, new, extracted, by, now)
    memory, is_new = write_memory(actor=actor, new=new, by=by, now=now)
    return memory.pk, is_new


def _supersede(
    actor: Actor, about: Sequence[Memory], new: NewMemory, extracted: Extracted, by: Principal, now: datetime
) -> tuple[UUID, bool]:
    """End what no longer holds; what a person has pinned or put right holds on, and the new words wait."""
    new = replace(new, waits=any(old.pinned or old.locked for old in about))
    at = min(extracted.said_at, now)
    for old in sorted(about, key=lambda each: each.kind != extracted.kind):
        along = [each for each in about if each.pk != old.pk]
        # It has changed since the model was asked: what is new is written, and nothing ends.
        with suppress(WrongState, UnknownRow, Forbidden, MemoryRefused):
            return supersede_memory(
                memory=old, new=new, at=at, by=by, reason=REASON, now=now, along=along
            ).pk, True
    memory, is_new = write_memory(actor=actor, new=new, by=by, now=now)
    return memory.pk, is_new


def _new_memory(extracted: Extracted, channel: str) -> NewMemory:
    return NewMemory(
        content=extracted.content,
        kind=extracted.kind,
        namespace=extracted.namespace,
        source=Source.EXTRACTION,
        source_message_ids=extracted.message_ids,
        channel=channel,
        confidence=extracted.confidence,
    )


def _rows(actor: Actor, about: Sequence[Known]) -> list[Memory]:
    """Return the memories that a ruling is about, as they are now, in its order."""
    keys = [known.memory_id for known in about]
    rows = Memory.objects.of([actor.id]).select_related("actor__agent").in_bulk(keys)
    return [rows[key] for key in keys if key in rows]
