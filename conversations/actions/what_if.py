"""The effect of a change on the latest contexts, before it is made; here of policies and agents (SPEC X13)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from conversations.actions.replays import Comparison, compare_contexts, latest_receipts
from conversations.domain.differences import Item, Outcome, by_frequency, is_of
from memoryhub.auth.actions import set_actor_policy, update_agent
from memoryhub.auth.principals import Principal, Scope
from memoryhub.tenancy.models import Actor, Agent


@dataclass(frozen=True)
class Effect:
    """Contexts without and with a change, and the memory that it is about, if any.

    Numbers alone where the principal may not read: no context and no entry is listed.
    """

    comparisons: Sequence[Comparison]
    memory_id: UUID | None
    may_read: bool

    @property
    def held_before(self) -> int:
        return sum(self.holds_memory(each.before) for each in self.comparisons)

    @property
    def held_after(self) -> int:
        return sum(self.holds_memory(each.after) for each in self.comparisons)

    @property
    def changed(self) -> list[Comparison]:
        return [each for each in self.comparisons if each.difference.is_changed and self.may_read]

    @property
    def brings_in(self) -> list[tuple[Item, int]]:
        """Return the other entries that would come, with the number of contexts."""
        return by_frequency(self._others(item for each in self.changed for item in each.difference.came))

    @property
    def pushes_out(self) -> list[tuple[Item, int]]:
        """Return the other entries that would be missing, with the number of contexts."""
        return by_frequency(self._others(item for each in self.changed for item in each.difference.went))

    def holds_memory(self, outcome: Outcome | None) -> bool:
        return self.memory_id is not None and outcome is not None and outcome.holds(str(self.memory_id))

    def _others(self, items: Iterator[Item]) -> Iterator[Item]:
        return (item for item in items if self.memory_id is None or not is_of(item, str(self.memory_id)))


def effect_of(
    change: Callable[[], object],
    *,
    actor_ids: Sequence[UUID],
    memory_id: UUID | None = None,
    by: Principal,
    now: datetime,
) -> Effect:
    """Return what a change would do to the latest contexts of actors that the principal may see.

    Raises what the change raises.
    """
    receipts = latest_receipts(actor_ids)
    comparisons = compare_contexts(receipts=receipts, change=change, by=by, now=now)
    return Effect(comparisons, memory_id, may_read=Scope.READ in by.scopes)


def readable_users(agent_id: str, by: Principal) -> list[UUID]:
    """Return the actors of an agent, itself among them, that the principal may read."""
    actors = Actor.objects.filter(agent__in=Agent.objects.among(by.agent_ids), agent_id=agent_id)
    actors = actors if by.user_id is None else actors.filter(user_id=by.user_id)
    return list(actors.values_list("pk", flat=True))


def what_if_agent(
    *, agent_id: str, values: Mapping[str, Any], expected_version: int | None, by: Principal, now: datetime
) -> Effect:
    """Return what a change of an agent would do to the latest contexts of its users; raises as `update_agent`."""
    change = partial(update_agent, agent_id=agent_id, values=values, expected_version=expected_version, by=by, now=now)
    return effect_of(change, actor_ids=readable_users(agent_id, by), by=by, now=now)


def what_if_user(
    *, actor: Actor, policy: Mapping[str, Any], expected_version: int | None, by: Principal, now: datetime
) -> Effect:
    """Return what other overrides would do to a user's latest contexts; raises as `set_actor_policy`."""
    change = partial(set_actor_policy, actor=actor, policy=policy, expected_version=expected_version, by=by, now=now)
    return effect_of(change, actor_ids=[actor.pk], by=by, now=now)
