"""Making one of two memories that a person has chosen, as if a sleep had proposed it (SPEC S5, W1)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import Q

from memoryhub.auth.domain import Principal
from memoryhub.errors import told
from memoryhub.search.statistics import idf
from strength.actions.comparing import side
from strength.actions.curate import WrongState
from strength.actions.merging import CannotMerge, merge
from strength.domain.duplicates import fingerprint, likeness
from strength.domain.memories import Status
from strength.domain.merging import MergeState, kept_first
from strength.models import Memory, Merge
from strength.models.rest import hold_awake

SAME: Final = ("scope_level", "scope_domain", "scope_project", "valid_from", "valid_to")
"""One that fewer see, or that ends, cannot stand for the other; what sort they are of is the person's to say."""


def would_stay(one: Memory, other: Memory) -> tuple[Memory, Memory]:
    """Return the two with the one that stays first, unless a person says otherwise."""
    first, _second = kept_first(side(one), side(other))
    return (one, other) if first.key == one.pk else (other, one)


def check_joinable(one: Memory, other: Memory) -> None:
    """Raise WrongState where one of the two cannot stand for the other."""
    if one.actor_id != other.actor_id:
        raise WrongState(told("Two memories of one user, or of one agent, can be merged; these are not."))
    if not one.status == other.status == Status.ACTIVE:
        raise WrongState(told("Only active memories can be merged."))
    if any(getattr(one, name) != getattr(other, name) for name in SAME):
        raise WrongState(told("Their scope, or the time in which they hold, is not the same."))


def likeness_of(one: str, other: str) -> float:
    """Return how alike two texts are, in [0, 1]."""
    first, second = fingerprint(one), fingerprint(other)
    return min(1.0, max(0.0, likeness(first, second, idf(first.terms | second.terms))))


@transaction.atomic
def join(
    *, kept: Memory, absorbed: Memory, versions: Mapping[str, int], by: Principal, reason: str, now: datetime
) -> Merge:
    """Let one memory absorb another, whatever was decided about the pair before.

    `versions` are those that the person saw, by id. Raises WrongState where they cannot be one, CannotMerge where one
    was changed meanwhile, Forbidden.
    """
    check_joinable(kept, absorbed)
    hold_awake(kept.actor_id)
    for memory in (kept, absorbed):
        if versions.get(str(memory.pk), memory.version) != memory.version:
            raise CannotMerge(told("One of the two was changed since you saw it."))
    of_pair = Merge.objects.filter(actor_id=kept.actor_id).exclude(state=MergeState.MERGED)
    of_pair.filter(Q(kept=kept, absorbed=absorbed) | Q(kept=absorbed, absorbed=kept)).delete()
    proposal, _is_new = Merge.objects.update_or_create(
        actor_id=kept.actor_id, kept=kept, absorbed=absorbed,
        defaults={
            "run": None, "kept_version": kept.version, "absorbed_version": absorbed.version,
            "likeness": likeness_of(kept.content, absorbed.content), "state": MergeState.PROPOSED, "created_at": now,
        },
    )  # fmt: skip
    return merge(proposal=proposal, by=by, reason=reason, now=now)
