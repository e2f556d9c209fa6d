"""The policies of all apps, taken together from `settings.POLICIES`: checked, merged, shown."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

from django.conf import settings
from django.utils.module_loading import import_string

from memoryhub.errors import Message, _
from memoryhub.tenancy.domain import Policy, PolicyError
from memoryhub.tenancy.models import Actor, Agent

PolicyType = TypeVar("PolicyType", bound=Policy)


@lru_cache
def policy_classes() -> tuple[type[Policy], ...]:
    return tuple(import_string(path) for path in settings.POLICIES)


def check_overrides(*layers: Mapping[str, Any]) -> None:
    """Raise PolicyError where a key is unknown or a value (alone, or with the others) is not allowed."""
    known = {key for policy in policy_classes() for key in policy.CHECKS}
    errors: dict[str, Message] = {
        key: _("is not a policy value") for layer in layers for key in layer if key not in known
    }
    for policy in policy_classes():
        try:
            policy.from_overrides(*layers)
        except PolicyError as error:
            errors.update(error.errors)
    if errors:
        raise PolicyError(errors)


def operator_keys() -> frozenset[str]:
    """Return the policy values that only an operator may change."""
    return frozenset(key for policy in policy_classes() for key in policy.OPERATOR_ONLY)


def effective_policy(policy: type[PolicyType], agent: Agent | None, actor: Actor | None) -> PolicyType:
    """Return one policy as it holds for an actor: user → agent → default (SPEC A1)."""
    return policy.from_overrides(agent.policy if agent else {}, actor.policy if actor else {})


def effective_values(agent: Agent | None, actor: Actor | None) -> dict[str, Any]:
    """Return every overridable value as it holds for an actor, as plain JSON types."""
    merged: dict[str, Any] = {}
    for policy in policy_classes():
        merged.update(effective_policy(policy, agent, actor).values())
    return merged
