"""Who may manage whose account, so that nobody raises himself: a person gives and changes no more than he has."""

from typing import Any

from django.contrib.auth.models import Group, Permission, User
from django.db.models import Q, QuerySet

from memoryhub.access.roles import ROLES


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
