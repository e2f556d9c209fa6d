"""Roles of the admin's users, and the rules that prevent privilege escalation: users grant only rights that they have.

The table decides: after every `migrate` each role's group has exactly its permissions, so those that a later release
adds are granted automatically. For other permissions, create a group of another name.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from django.apps import apps as installed
from django.contrib.auth.models import Group, Permission, User
from django.db import router
from django.db.models import Q, QuerySet

from memoryhub.auth.principals import Scope

log = logging.getLogger(__name__)

CURATOR: Final = "curator"
ADMINISTRATOR: Final = "administrator"


@dataclass(frozen=True)
class Grant:
    """Permissions by verbs and models of an app (None: all), plus `extra` codenames."""

    verbs: frozenset[str] | None = None
    models: frozenset[str] | None = None
    extra: frozenset[str] = frozenset()

    def covers(self, codename: str) -> bool:
        if codename in self.extra:
            return True
        verb, _, model = codename.partition("_")
        return (self.verbs is None or verb in self.verbs) and (self.models is None or model in self.models)


EVERYTHING: Final = Grant()
SESSION_READER: Final = Grant(
    verbs=frozenset({"view"}),
    extra=frozenset(
        {
            *("add_receipt", "add_session", "add_message", "add_chatturn"),
            *("change_session", "delete_session", "delete_message"),
        }
    ),
)
"""View everything, store the receipt of a tried context, talk with agents, end sessions, and delete what was said."""


ROLES: Final[Mapping[str, Mapping[str, Grant]]] = MappingProxyType(
    {
        CURATOR: {
            "strength": EVERYTHING,
            "summaries": EVERYTHING,
            "conversations": SESSION_READER,
            "memoryhub": Grant(verbs=frozenset({"view"}), models=frozenset({"agent", "actor"})),
        },
        ADMINISTRATOR: {
            "strength": EVERYTHING,
            "summaries": EVERYTHING,
            "conversations": EVERYTHING,
            "memoryhub": EVERYTHING,
            "webhooks": EVERYTHING,
            "auth": Grant(models=frozenset({"user", "group"})),
        },
    }
)


def is_granted(role: str, app_label: str, codename: str) -> bool:
    grant = ROLES[role].get(app_label)
    return grant is not None and grant.covers(codename)


def apply_roles(sender: Any, using: str = "default", apps: Any = installed, **kwargs: Any) -> None:
    """Create the roles' groups and set their permissions for one app (`post_migrate` receiver).

    Runs after Django's own receiver, which creates the app's permissions.
    """
    try:
        groups, permissions = apps.get_model("auth", "Group"), apps.get_model("auth", "Permission")
    except LookupError:
        return
    if not router.allow_migrate_model(using, groups):
        return
    codenames = {
        row.pk: row.codename for row in permissions.objects.using(using).filter(content_type__app_label=sender.label)
    }
    for role in ROLES:
        group, _ = groups.objects.using(using).get_or_create(name=role)
        granted = {pk for pk, codename in codenames.items() if is_granted(role, sender.label, codename)}
        current = set(group.permissions.filter(pk__in=codenames).values_list("pk", flat=True))
        lost, gained = current - granted, granted - current
        if lost:
            # The group already existed, so its members' permissions change.
            names = [", ".join(sorted(codenames[pk] for pk in pks)) or "nothing" for pks in (lost, gained)]
            log.warning(
                "the group %s is a role of the server: of %s it lost %s and gained %s", role, sender.label, *names
            )
        group.permissions.add(*gained)
        group.permissions.remove(*lost)


def roles_out_of_sync() -> list[str]:
    """Return the roles with a group that is missing or differs from the table."""
    permissions = list(Permission.objects.values_list("pk", "content_type__app_label", "codename"))
    different = []
    for role in ROLES:
        granted = {pk for pk, app, codename in permissions if is_granted(role, app, codename)}
        if granted != set(Permission.objects.filter(group__name=role).values_list("pk", flat=True)):
            different.append(role)
    return different


def _permissions(app_label: str, verb: str, *models: str) -> frozenset[str]:
    return frozenset(f"{app_label}.{verb}_{model}" for model in models)


_READ: Final = (
    _permissions("conversations", "view", "session", "message", "receipt")
    | _permissions("conversations", "add", "receipt")
    | _permissions("strength", "view", "expectation", "memory", "merge", "profile", "sleeprun", "task")
    | _permissions("summaries", "view", "summary", "project", "document", "routingdecision", "projectevent")
    | _permissions("memoryhub", "view", "agent", "actor", "job")
)
"""A context stores a receipt, hence `add_receipt`."""

_WRITE: Final = (
    _permissions("conversations", "add", "session", "message", "receipt", "chatturn")
    | _permissions("conversations", "change", "session")
    | _permissions("strength", "add", "memory", "sleeprun", "task")
    | _permissions("strength", "change", "memory", "merge", "profile", "sleeprun", "task")
    | _permissions("strength", "delete", "memory", "profile")
    | _permissions("summaries", "add", "summary", "project", "document", "routingdecision")
    | _permissions("summaries", "change", "summary", "project", "document", "routingdecision")
    | _permissions("summaries", "delete", "summary")
    | _permissions("memoryhub", "add", "agent", "actor")
    | _permissions("memoryhub", "change", "actor")
)
"""The first write creates agent and actor."""

_CURATE: Final = (
    _permissions("conversations", "delete", "session", "message")
    | _permissions("strength", "add", "expectation")
    | _permissions("strength", "delete", "expectation")
    | _permissions("summaries", "change", "project", "document")
    | _permissions("summaries", "delete", "project")
)

_ADMIN: Final = (
    _READ
    | _permissions("conversations", "view", "chatturn")
    | _permissions("strength", "view", "tombstone")
    | _permissions("conversations", "delete", "session", "message", "receipt", "chatturn")
    | _permissions("strength", "delete", "memory", "profile")
    | _permissions("summaries", "delete", "summary", "project")
    | _permissions("memoryhub", "add", "agent")
    | _permissions("memoryhub", "change", "agent", "actor")
    | _permissions("memoryhub", "delete", "actor")
    | _permissions("memoryhub", "view", "ledgerentry")
)
"""Includes export and erasure of a user."""

SCOPE_NEEDS: Final[Mapping[Scope, frozenset[str]]] = MappingProxyType(
    {Scope.READ: _READ, Scope.WRITE: _WRITE, Scope.CURATE: _CURATE, Scope.ADMIN: _ADMIN}
)
"""Permissions needed to issue a key of each scope; models of other apps are known by name only."""

TRUST_NEEDS: Final = frozenset({"strength.change_memory", "summaries.change_document"})
"""Permissions needed to issue a trusted key, whose texts enter contexts without approval."""


def needs_of(scopes: Iterable[str], *, is_trusted: bool) -> frozenset[str]:
    """Return the permissions that a person needs to issue a key, and to keep a personal one."""
    needs = frozenset[str]().union(*(SCOPE_NEEDS[Scope(scope)] for scope in scopes))
    return needs | TRUST_NEEDS if is_trusted else needs


def has_account(person: Any) -> bool:
    """Return whether a person may still log in to the admin."""
    return person is not None and person.is_active and person.is_staff


def upholds(person: Any, key: Any) -> bool:
    """Return whether a person may still do all that a key of theirs may; asked at each call."""
    return has_account(person) and bool(person.has_perms(needs_of(key.scopes, is_trusted=key.is_trusted)))


def is_upheld(key: Any) -> bool:
    """Return whether a key may be used: one of a service account, or a personal one that its person upholds."""
    return not key.is_personal or upholds(key.person, key)


def grantable_scopes(person: Any) -> list[Scope]:
    return [scope for scope in Scope if person.has_perms(SCOPE_NEEDS[scope])]


def may_trust(person: Any) -> bool:
    return bool(person.has_perms(TRUST_NEEDS))


def permissions_of(person: Any) -> QuerySet[Permission]:
    """Return a user's own and group permissions, also of an inactive account."""
    if person.is_superuser:
        return Permission.objects.all()
    return Permission.objects.filter(
        Q(pk__in=person.user_permissions.values("pk")) | Q(group__in=person.groups.all())
    ).distinct()


def grantable_groups(person: Any) -> QuerySet[Group]:
    """Return the groups without a permission that the user lacks."""
    if person.is_superuser:
        return Group.objects.all()
    lacking = Permission.objects.exclude(pk__in=permissions_of(person).values("pk"))
    return Group.objects.exclude(permissions__in=lacking)


def may_manage(person: Any, other: User) -> bool:
    """Return whether a user may change an account: it has no permission that the user lacks."""
    if person.is_superuser:
        return True
    if other.is_superuser:
        return False
    return not permissions_of(other).exclude(pk__in=permissions_of(person).values("pk")).exists()


def may_change_group(person: Any, group: Group) -> bool:
    if group.name in ROLES:
        return False
    return person.is_superuser or grantable_groups(person).filter(pk=group.pk).exists()
