"""Who may manage whose account and issue which key, so that nobody raises himself: nobody gives more than he has."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from django.contrib.auth.models import Group, Permission, User
from django.db.models import Q, QuerySet

from memoryhub.auth.domain import Scope
from memoryhub.auth.roles import ROLES


def _each(app_label: str, verb: str, *models: str) -> frozenset[str]:
    return frozenset(f"{app_label}.{verb}_{model}" for model in models)


_READ: Final = (
    _each("conversations", "view", "session", "message", "receipt")
    | _each("conversations", "add", "receipt")
    | _each("strength", "view", "memory", "merge", "sleeprun", "task")
    | _each("summaries", "view", "summary", "project", "document", "routingdecision", "projectevent")
    | _each("memoryhub", "view", "agent", "actor", "job")
)
"""A context keeps its receipt, whoever asks for it."""

_WRITE: Final = (
    _each("conversations", "add", "session", "message", "receipt", "chatturn")
    | _each("conversations", "change", "session")
    | _each("strength", "add", "memory", "sleeprun", "task")
    | _each("strength", "change", "memory", "merge", "sleeprun", "task")
    | _each("strength", "delete", "memory")
    | _each("summaries", "add", "summary", "project", "document", "routingdecision")
    | _each("summaries", "change", "summary", "project", "document", "routingdecision")
    | _each("summaries", "delete", "summary", "project")
    | _each("memoryhub", "add", "agent", "actor")
    | _each("memoryhub", "change", "actor")
)
"""The first write of a key makes the agent and the user that it names."""

_ADMIN: Final = (
    _READ
    | _each("conversations", "view", "chatturn")
    | _each("strength", "view", "tombstone")
    | _each("conversations", "delete", "session", "message", "receipt", "chatturn")
    | _each("strength", "delete", "memory")
    | _each("summaries", "delete", "summary", "project")
    | _each("memoryhub", "add", "agent")
    | _each("memoryhub", "change", "agent", "actor")
    | _each("memoryhub", "delete", "actor")
    | _each("memoryhub", "view", "ledgerentry")
)
"""An export holds everything of a user, and an erasure takes it away."""

SCOPE_NEEDS: Final[Mapping[Scope, frozenset[str]]] = MappingProxyType(
    {Scope.READ: _READ, Scope.WRITE: _WRITE, Scope.ADMIN: _ADMIN}
)
"""What a person must be allowed in the admin to issue a key of each scope; what lives above is known by name only."""

TRUST_NEEDS: Final = frozenset({"strength.change_memory", "summaries.change_document"})
"""What a trusted key writes enters contexts at once: as if its issuer had approved it."""


def scopes_to_give(person: Any) -> list[Scope]:
    """Return the scopes of the keys that a person may issue: none can do more than he may."""
    return [scope for scope in Scope if person.has_perms(SCOPE_NEEDS[scope])]


def may_trust(person: Any) -> bool:
    """Return whether a person may issue a key whose writes wait for nobody."""
    return bool(person.has_perms(TRUST_NEEDS))


def held_by(person: Any) -> QuerySet[Permission]:
    """Return what a person's account holds, by itself and by its groups, whether or not it is active."""
    if person.is_superuser:
        return Permission.objects.all()
    return Permission.objects.filter(
        Q(pk__in=person.user_permissions.values("pk")) | Q(group__in=person.groups.all())
    ).distinct()


def groups_to_give(person: Any) -> QuerySet[Group]:
    """Return the groups that hold no permission which this person lacks."""
    if person.is_superuser:
        return Group.objects.all()
    lacking = Permission.objects.exclude(pk__in=held_by(person).values("pk"))
    return Group.objects.exclude(permissions__in=lacking)


def may_manage(person: Any, other: User) -> bool:
    """Return whether a person may change another's account: whose rights are no more than the own."""
    if person.is_superuser:
        return True
    if other.is_superuser:
        return False
    return not held_by(other).exclude(pk__in=held_by(person).values("pk")).exists()


def may_change_group(person: Any, group: Group) -> bool:
    """Return whether a person may change a group: a role is nobody's to change, others take all that they hold."""
    if group.name in ROLES:
        return False
    return person.is_superuser or groups_to_give(person).filter(pk=group.pk).exists()
