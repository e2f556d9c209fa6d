"""The admin's two roles, as one table: what a curator and an administrator may do, by app, verb and model.

The table is the truth: after every `migrate` each role's group holds exactly what it says, so a permission that a later
release brings is granted without anybody thinking of it. Whoever needs something else makes a group of another name.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from django.apps import apps as installed
from django.db import router

log = logging.getLogger(__name__)

CURATOR: Final = "curator"
ADMINISTRATOR: Final = "administrator"


@dataclass(frozen=True)
class Grant:
    """Some verbs on some models of an app, None means all of them; and single permissions besides."""

    verbs: frozenset[str] | None = None
    models: frozenset[str] | None = None
    besides: frozenset[str] = frozenset()

    def covers(self, codename: str) -> bool:
        """Return whether Django's permission of this codename (`view_memory`) is granted."""
        if codename in self.besides:
            return True
        verb, _, model = codename.partition("_")
        return (self.verbs is None or verb in self.verbs) and (self.models is None or model in self.models)


EVERYTHING: Final = Grant()
READ_AND_KEEP: Final = Grant(verbs=frozenset({"view"}), besides=frozenset({"add_receipt"}))
"""To read, and to keep the receipt of a context that was tried."""


def read(*models: str) -> Grant:
    """Return the grant to look at these models."""
    return Grant(verbs=frozenset({"view"}), models=frozenset(models))


ROLES: Final[Mapping[str, Mapping[str, Grant]]] = MappingProxyType(
    {
        CURATOR: {
            "strength": EVERYTHING,
            "summaries": EVERYTHING,
            "conversations": READ_AND_KEEP,
            "memoryhub": read("agent", "actor"),
        },
        ADMINISTRATOR: {
            "strength": EVERYTHING,
            "summaries": EVERYTHING,
            "conversations": EVERYTHING,
            "memoryhub": EVERYTHING,
            "auth": Grant(models=frozenset({"user", "group"})),
        },
    }
)


def is_granted(role: str, app_label: str, codename: str) -> bool:
    """Return whether a role has a permission."""
    grant = ROLES[role].get(app_label)
    return grant is not None and grant.covers(codename)


TAKES_OVER: Final = ("memoryhub", "0007_roles")
"""The migration by which groups of these names become the roles."""


def apply_roles(
    sender: Any, using: str = "default", apps: Any = installed, plan: Iterable[Any] = (), **kwargs: Any
) -> None:
    """Make the roles' groups hold what the table says of one app; Django calls it after `migrate`, for each app.

    It follows Django's own receiver, which has made the app's permissions by then. `plan` is what this migrate ran.
    """
    try:
        groups, permissions = apps.get_model("auth", "Group"), apps.get_model("auth", "Permission")
    except LookupError:
        return
    if not router.allow_migrate_model(using, groups):
        return
    of_app = {
        row.pk: row.codename
        for row in permissions.objects.using(using).filter(content_type__app_label=sender.label)
    }
    takes_over = any((step.app_label, step.name) == TAKES_OVER for step, _ in plan)
    for role in ROLES:
        group, _ = groups.objects.using(using).get_or_create(name=role)
        wanted = {pk for pk, codename in of_app.items() if is_granted(role, sender.label, codename)}
        held = set(group.permissions.filter(pk__in=of_app).values_list("pk", flat=True))
        lost, gained = held - wanted, wanted - held
        if lost or (takes_over and gained and group.user_set.exists()):
            _tell(role, sender.label, lost=[of_app[pk] for pk in lost], gained=[of_app[pk] for pk in gained])
        group.permissions.add(*gained)
        group.permissions.remove(*lost)


def _tell(role: str, app_label: str, *, lost: Iterable[str], gained: Iterable[str]) -> None:
    """Write what a role's group held otherwise: somebody made it by hand, and its members' rights change."""
    names = {"lost": ", ".join(sorted(lost)) or "nothing", "gained": ", ".join(sorted(gained)) or "nothing"}
    log.warning(
        "the group %s is a role of the server: of %s it lost %s and gained %s",
        role, app_label, names["lost"], names["gained"],
    )  # fmt: skip


def departures() -> list[str]:
    """Return the roles whose groups are not there, or hold something else than the table says."""
    groups, permissions = installed.get_model("auth", "Group"), installed.get_model("auth", "Permission")
    every = list(permissions.objects.values_list("pk", "content_type__app_label", "codename"))
    held: dict[str, set[int]] = {role: set() for role in ROLES}
    rows = groups.objects.filter(name__in=ROLES).values_list("name", "permissions")
    for name, permission in rows:
        held[name] |= {permission} - {None}
    wanted = {role: {pk for pk, app, codename in every if is_granted(role, app, codename)} for role in ROLES}
    return [role for role in ROLES if held[role] != wanted[role]]
