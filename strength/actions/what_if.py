"""The effect of a change on the latest contexts, before it is made (SPEC X13)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from conversations.actions.replays import Comparison, compare_contexts, latest_receipts
from conversations.domain.differences import Item, by_frequency, is_of
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Forbidden, Principal, Scope
from strength.actions.curation import TRANSITIONS, apply_transition, delete_memory, edit_memory
from strength.actions.merges import merge
from strength.models import Memory, Merge

EDIT: Final = "edit"
DELETE: Final = "delete"
VERBS: Final = (EDIT, *TRANSITIONS, DELETE)


@dataclass(frozen=True)
class WhatIf:
    """Contexts without and with a change, and the memory that it is about."""

    memory_id: UUID
    comparisons: Sequence[Comparison]

    @property
    def held_before(self) -> int:
        return sum(each.before is not None and each.before.holds(str(self.memory_id)) for each in self.comparisons)

    @property
    def held_after(self) -> int:
        return sum(each.after is not None and each.after.holds(str(self.memory_id)) for each in self.comparisons)

    @property
    def changed(self) -> list[Comparison]:
        return [each for each in self.comparisons if each.difference.is_changed]

    @property
    def brings_in(self) -> list[tuple[Item, int]]:
        """Return the other entries that would come, with the number of contexts."""
        return by_frequency(self._others(item for each in self.comparisons for item in each.difference.came))

    @property
    def pushes_out(self) -> list[tuple[Item, int]]:
        """Return the other entries that would be missing, with the number of contexts."""
        return by_frequency(self._others(item for each in self.comparisons for item in each.difference.went))

    def _others(self, items: Iterator[Item]) -> Iterator[Item]:
        return (item for item in items if not is_of(item, str(self.memory_id)))


def what_if(
    *, memory: Memory, verb: str, values: Mapping[str, Any], expected_version: int | None, by: Principal, now: datetime
) -> WhatIf:
    """Return what a verb of VERBS would change in the latest contexts of a memory's owner; `values` are edits.

    An agent's own memory may be in the contexts of all its users. Raises what the verb raises.
    """

    def change() -> None:
        fresh = Memory.objects.of([memory.actor_id]).select_related("actor__agent").filter(pk=memory.pk).first()
        if fresh is None:
            raise UnknownRow(_("It no longer exists."))
        how: dict[str, Any] = {"memory": fresh, "expected_version": expected_version, "by": by, "now": now}
        if verb == EDIT:
            edit_memory(values=values, reason="", **how)
        elif verb == DELETE:
            delete_memory(reason="", **how)
        else:
            apply_transition(verb=verb, values=values, reason="", **how)

    return _compare(memory, change, by, now)


def what_if_merged(*, proposal: Merge, keep_id: UUID | None = None, by: Principal, now: datetime) -> WhatIf:
    """Return what a merge would change in the latest contexts. Raises what `merge` raises."""
    kept = proposal.kept if keep_id in (None, proposal.kept_id) else proposal.absorbed
    change = partial(merge, proposal=proposal, keep_id=keep_id, by=by, reason="", now=now)
    return _compare(kept, change, by, now)


def _compare(memory: Memory, change: Callable[[], object], by: Principal, now: datetime) -> WhatIf:
    if Scope.READ not in by.scopes:
        raise Forbidden(_("The contexts that a change would affect need the scope `read`."))
    owner = Q(actor_id=memory.actor_id) if memory.actor.user_id else Q(actor__agent_id=memory.actor.agent_id)
    receipts = latest_receipts(owner, by=by)
    return WhatIf(memory.pk, compare_contexts(receipts=receipts, change=change, by=by, now=now))
