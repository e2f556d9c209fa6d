"""The policies of all apps (`settings.POLICIES`): effective values, validation of overrides, and start-up checks."""

import json
from collections.abc import Collection, Hashable, Mapping, Sequence
from datetime import tzinfo
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, TypeVar, cast

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.utils.module_loading import import_string

from memoryhub.errors import Message, _, format_lazy
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.policy import Policy, PolicyError, ZonePolicy

PolicyType = TypeVar("PolicyType", bound=Policy)


@lru_cache
def policy_classes() -> tuple[type[Policy], ...]:
    return tuple(import_string(path) for path in settings.POLICIES)


def check_overrides(*layers: Mapping[str, Any]) -> None:
    """Raise PolicyError where a key is unknown or a value (alone, or with the others) is not allowed."""
    known = {key for policy in policy_classes() for key in policy.CHECKS}
    errors = {key: _unknown(key, known) for layer in layers for key in layer if key not in known}
    for policy in policy_classes():
        try:
            policy.from_overrides(*layers)
        except PolicyError as error:
            errors.update(error.errors)
    if errors:
        raise PolicyError(errors)


def _unknown(key: object, known: Collection[str]) -> Message:
    nearest = get_close_matches(str(key)[:100].lower(), known, n=1)
    if nearest:
        return format_lazy(_("is not a policy value. Did you mean {nearest}?"), nearest=nearest[0])
    return _("is not a policy value")


def operator_keys() -> frozenset[str]:
    return frozenset(key for policy in policy_classes() for key in policy.OPERATOR_ONLY)


def effective_policy(policy: type[PolicyType], agent: Agent | None, actor: Actor | None) -> PolicyType:
    """Return the effective policy: the installation's defaults, overridden by the agent's values, then the user's."""
    overrides = (json.dumps(owner.policy) if owner and owner.policy else "{}" for owner in (agent, actor))
    merged: PolicyType = _merged(cast(Hashable, policy), settings.TIME_ZONE, *overrides)
    return merged


@lru_cache(maxsize=1024)
def _merged(policy: Any, time_zone: str, *overrides: str) -> Any:
    """Return the merged policy, cached: policies are immutable, and most actors share theirs."""
    return policy.from_overrides({"time_zone": time_zone}, *map(json.loads, overrides))


def zone_of(agent: Agent | None, actor: Actor | None = None) -> tzinfo:
    return effective_policy(ZonePolicy, agent, actor).zone


def effective_values(agent: Agent | None, actor: Actor | None) -> dict[str, Any]:
    """Return every overridable value in effect for an actor, as plain JSON types."""
    merged: dict[str, Any] = {}
    for policy in policy_classes():
        merged.update(effective_policy(policy, agent, actor).values())
    return merged


@register(Tags.compatibility)
def dotted_paths_import(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """E001: every dotted path in the settings' tables can be imported."""
    return [
        Error(
            f"{table} names {path!r}, which cannot be imported: {problem}",
            hint=f"Correct the path in memoryhub/settings.py, or take it out of {table}.",
            id="memoryhub.E001",
        )
        for table in ("CONTEXT_LAYERS", "POLICIES")
        for path in getattr(settings, table)
        if (problem := _import_problem(path))
    ]


@register(Tags.compatibility)
def policy_keys_are_unique(app_configs: Any, **kwargs: Any) -> Sequence[CheckMessage]:
    """E002: a policy key belongs to one policy; E003: what POLICIES names is a Policy."""
    owners: dict[str, str] = {}
    errors: list[CheckMessage] = []
    for path in settings.POLICIES:
        if _import_problem(path):
            continue
        policy = import_string(path)
        if not (isinstance(policy, type) and issubclass(policy, Policy)):
            errors.append(Error(f"POLICIES names {path!r}, which is no Policy.", id="memoryhub.E003"))
            continue
        for key in sorted(policy.CHECKS):
            if key in owners:
                errors.append(
                    Error(f"The policy value {key!r} is in {owners[key]} and in {path}.", id="memoryhub.E002")
                )
            owners[key] = path
    return errors


def _import_problem(path: str) -> str | None:
    try:
        import_string(path)
    except ImportError as error:
        return str(error)
    return None
