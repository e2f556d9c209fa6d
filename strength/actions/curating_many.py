"""What people decide about many memories at once: one decision, one reason, one way back (SPEC W1)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import transaction

from memoryhub.auth.domain import Principal
from memoryhub.errors import DomainError, told
from memoryhub.ids import new_id
from strength.actions.curate import TRANSITIONS, WrongState, apply_transition, delete_memory
from strength.domain.memories import Status
from strength.models import Memory


class AlreadySo(WrongState):
    """Nothing would change."""


@dataclass
class Many:
    """What came of it: the memories that were changed; the refusals of the others, and whom, by what they say."""

    batch: UUID
    changed: list[Memory] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    refusals: dict[str, DomainError] = field(default_factory=dict)
    whom: defaultdict[str, list[Memory]] = field(default_factory=lambda: defaultdict(list))

    def leave(self, memory: Memory, error: DomainError) -> None:
        """Note that a memory was left as it was."""
        self.left[str(error)] += 1
        self.refusals[str(error)] = error
        self.whom[str(error)].append(memory)


def expected(memories: Iterable[Memory], verb: str) -> Many:
    """Return what doing this to the memories would change, as they stand now; nothing is done."""
    plan = Many(new_id())
    for memory in memories:
        try:
            check_transition(memory, verb)
        except WrongState as error:
            plan.leave(memory, error)
        else:
            plan.changed.append(memory)
    return plan


def check_transition(memory: Memory, verb: str) -> None:
    """Raise WrongState where the verb does not suit a memory's state, AlreadySo where it changes nothing."""
    transition = TRANSITIONS[verb]
    if all(getattr(memory, name) == value for name, value in transition.sets.items()):
        raise AlreadySo(told("It is so already."))
    if Status(memory.status) not in transition.allowed:
        raise WrongState(told("Its state (%(state)s) does not allow it.", state=told(memory.status)))


def check_was_read(verb: str, version: int | None) -> None:
    """Raise WrongState where an approval does not say which text was read: it is bound to that one (SPEC M10)."""
    if verb == "approve" and version is None:
        raise WrongState(told("The page did not say which text was read. Nothing was decided."))


@transaction.atomic
def curate_many(
    *,
    memories: Sequence[Memory],
    versions: Mapping[str, int],
    verb: str,
    by: Principal,
    reason: str,
    now: datetime,
) -> Many:
    """Do what the verb says to each memory that allows it; the revisions share a batch, to be taken back as one.

    `versions` are those that the person saw, by id. In the order of keys, as everybody locks who locks more than one.
    """
    done = Many(new_id())
    for memory in sorted(memories, key=lambda each: (each.actor_id, each.pk)):
        try:
            check_transition(memory, verb)
            seen = versions.get(str(memory.pk))
            check_was_read(verb, seen)
            new = apply_transition(
                memory=memory,
                verb=verb,
                by=by,
                reason=reason,
                now=now,
                expected_version=seen,
                batch=done.batch,
            )
        except DomainError as error:
            done.leave(memory, error)
        else:
            done.changed.append(new)
    return done


@transaction.atomic
def delete_many(*, memories: Sequence[Memory], by: Principal, reason: str, now: datetime) -> Many:
    """Delete memories, each with its audit entry and its decision; there is no way back."""
    done = Many(new_id())
    for memory in sorted(memories, key=lambda each: (each.actor_id, each.pk)):
        try:
            delete_memory(memory=memory, expected_version=None, by=by, reason=reason, now=now)
        except DomainError as error:
            done.leave(memory, error)
        else:
            done.changed.append(memory)
    return done
