"""The effect of a change of memories on the latest contexts, before it is made (SPEC X13)."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from conversations.actions.what_if import Effect, effect_of, readable_users
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Principal, command
from strength.actions.curation import TRANSITIONS, apply_transition, delete_memory, edit_memory
from strength.actions.merges import merge
from strength.domain.memories import Status
from strength.models import Memory, Merge

EDIT: Final = "edit"
DELETE: Final = "delete"
VERBS: Final = (EDIT, *TRANSITIONS, DELETE)


def what_if(
    *, memory: Memory, verb: str, values: Mapping[str, Any], expected_version: int | None, by: Principal, now: datetime
) -> Effect:
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
            changed = apply_transition(verb=verb, values=values, reason="", **how)
            if verb == "approve" and changed.status == Status.PENDING:  # the first of two: show what both do
                apply_transition(memory=changed, verb=verb, by=command("what if"), reason="", now=now)

    return _effect(memory, change, by, now)


def what_if_merged(*, proposal: Merge, keep_id: UUID | None = None, by: Principal, now: datetime) -> Effect:
    """Return what a merge would change in the latest contexts. Raises what `merge` raises."""
    kept = proposal.kept if keep_id in (None, proposal.kept_id) else proposal.absorbed
    change = partial(merge, proposal=proposal, keep_id=keep_id, by=by, reason="", now=now)
    return _effect(kept, change, by, now)


def _effect(memory: Memory, change: Callable[[], object], by: Principal, now: datetime) -> Effect:
    actor = memory.actor
    actor_ids = [actor.pk] if actor.user_id else readable_users(actor.agent_id, by)
    return effect_of(change, actor_ids=actor_ids, memory_id=memory.pk, by=by, now=now)
