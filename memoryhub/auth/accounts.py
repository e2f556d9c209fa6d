"""Accounts created by invitation, or by the first sign-in at the OpenID provider.

Accounts are never matched by e-mail address, only by the issuer's subject (`sub`), which is stored when the account is
created, or when a logged-in user connects it. At each sign-in the provider's groups grant or revoke a role; groups that
were granted by hand stay.
"""

import hashlib
import re
import secrets
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.agent_limits import agents_by_groups, set_limit
from memoryhub.auth.login import LOGIN, end_sessions
from memoryhub.auth.models import AgentLimit, Invitation
from memoryhub.auth.principals import Forbidden, Principal, curator
from memoryhub.auth.roles import grantable_groups
from memoryhub.errors import DomainError

if TYPE_CHECKING:
    from memoryhub.auth.oidc import Identity

SINGLE_SIGN_ON: Final = "Single sign-on"
INVITE_PERMISSION: Final = "memoryhub.add_invitation"


class InvitationClosed(DomainError):
    """It was used, has expired or was withdrawn."""


class IdentityTaken(DomainError):
    """Another account has this identity, or the account has another one."""


@transaction.atomic
def invite(
    *, email: str, role: str, valid_for: timedelta, inviter: User, by: Principal, now: datetime
) -> tuple[Invitation, str]:
    """Create an invitation to an account with a role; return it and the token of its link, which is shown once.

    Raises Forbidden for a role with permissions that the inviter lacks.
    """
    if not grantable_groups(inviter).filter(name=role).exists():
        raise Forbidden(_("You may only give a role that holds no more than your own rights."))
    token = secrets.token_urlsafe(32)
    row = Invitation.objects.create(
        email=email, role=role, digest=_digest(token), invited_by=inviter, created_at=now, expires_at=now + valid_for
    )
    audit.record(by=by, verb="issue", row=row, details={"role": role}, now=now)
    return row, token


def open_invitation(token: str, *, now: datetime, rows: QuerySet[Invitation] | None = None) -> Invitation:
    """Return the invitation of a link's token; raises InvitationClosed, also where the inviter lost the right."""
    rows = Invitation.objects.all() if rows is None else rows
    row = rows.filter(digest=_digest(token), used_at=None, expires_at__gt=now).first()
    inviter = row.invited_by if row is not None else None
    is_valid = inviter is not None and inviter.is_active and inviter.has_perm(INVITE_PERMISSION)
    if row is None or not is_valid or not grantable_groups(inviter).filter(name=row.role).exists():
        raise InvitationClosed(_("This invitation was used, has expired or was withdrawn. Ask for another one."))
    return row


@transaction.atomic
def accept_by_password(token: str, *, username: str, password: str, now: datetime) -> User:
    """Create the invited person's account, with a password."""
    invitation = _use_invitation(token, now=now)
    person = User(username=username, email=invitation.email, is_staff=True)
    person.set_password(password)
    return _create_account(person, invitation, now=now)


@transaction.atomic
def sign_in(
    identity: "Identity",
    *,
    roles: Mapping[str, str],
    agents: Mapping[str, Sequence[str]] = MappingProxyType({}),
    invitation: str = "",
    now: datetime,
) -> User | None:
    """Return the account of a provider's identity, created on first sign-in; None: no access.

    A new account needs a group with a role, or an invitation. A group's role is revoked at the next sign-in without the
    group; an account without any permission loses access, and its sessions end. Groups also say to which agents the
    person is limited: with `agents`, to none where no group has any.
    """
    role = next((role for group, role in roles.items() if group in identity.groups), None)
    with connection.cursor() as cursor:  # two concurrent first sign-ins create one account
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"{identity.issuer} {identity.subject}"]
        )
    link = _links(identity).select_for_update(of=["self", "user"]).select_related("user").first()
    if link is None:
        if not invitation and role is None:
            return None
        person = _create_person(identity, invitation, now=now)
        link = SocialAccount(user=person, provider=identity.issuer, uid=identity.subject, extra_data={})
    _sync_group_role(link, role, now=now)
    link.save()
    person = link.user
    if agents:  # a setting that is missing by mistake must not lift a limit
        limit = agents_by_groups(agents, identity.groups)
        set_limit(person, limit, source=AgentLimit.Source.PROVIDER, by=LOGIN, now=now)
    return person if person.is_active and person.is_staff else None


def _create_person(identity: "Identity", invitation: str, *, now: datetime) -> User:
    person = User(
        username=free_username(identity.username),
        email=identity.email,
        first_name=identity.first_name,
        last_name=identity.last_name,
        is_staff=True,
    )
    person.set_unusable_password()
    if invitation:
        _create_account(person, _use_invitation(invitation, now=now), now=now)
    else:
        person.save()
        audit.record(by=LOGIN, verb="create", row=person, details={"by": "oidc"}, now=now)
    return person


@transaction.atomic
def connect(person: User, identity: "Identity", *, by: Principal, now: datetime) -> None:
    """Connect a logged-in user's account to a provider's identity; raises IdentityTaken."""
    if _links(identity).exists() or is_connected(person):
        raise IdentityTaken(_("This account, or another one, is connected already."))
    SocialAccount.objects.create(user=person, provider=identity.issuer, uid=identity.subject, extra_data={})
    _record_link(person, True, by=by, now=now)


@transaction.atomic
def disconnect(person: User, *, by: Principal, now: datetime) -> bool:
    """Disconnect an account from the provider; return False without a password, which would lock the user out."""
    if not person.has_usable_password():
        return False
    deleted = SocialAccount.objects.filter(user=person).delete()[0]
    if deleted:
        _record_link(person, False, by=by, now=now)
    return bool(deleted)


def is_connected(person: User) -> bool:
    return bool(SocialAccount.objects.filter(user=person).exists())


def free_username(requested: str) -> str:
    """Return an unused username (compared without case) close to the wanted one."""
    base = re.sub(r"[^\w.@+-]+", "-", unicodedata.normalize("NFKC", requested))[:140] or "person"
    name, number = base, 1
    while User.objects.filter(username__iexact=name).exists():
        number += 1
        name = f"{base}-{number}"
    return name


def _sync_group_role(link: SocialAccount, role: str | None, *, now: datetime) -> None:
    """Grant the role of the provider's groups and revoke the one they granted before."""
    person, previous_role = link.user, link.extra_data.get("role")
    current_groups = set(person.groups.values_list("name", flat=True))
    revokes, grants = previous_role not in (None, role), role is not None and role not in current_groups
    if not revokes and not grants:
        return
    if revokes:
        person.groups.remove(*Group.objects.filter(name=previous_role))
        link.extra_data = {}
        end_sessions(person, now=now)
    if grants:
        person.groups.add(Group.objects.get(name=role))
        link.extra_data = {"role": role}
    person.is_staff = person.is_superuser or person.groups.exists() or person.user_permissions.exists()
    person.save(update_fields=["is_staff"])
    details = {"fields": ["groups"], "role": role, "before": previous_role}
    audit.record(by=LOGIN, verb="update", row=person, details=details, now=now)


def _use_invitation(token: str, *, now: datetime) -> Invitation:
    row = open_invitation(token, now=now, rows=Invitation.objects.select_for_update(of=["self"]))
    row.used_at = now
    row.save(update_fields=["used_at"])
    return row


def _create_account(person: User, invitation: Invitation, *, now: datetime) -> User:
    person.save()
    person.groups.add(Group.objects.get(name=invitation.role))
    by, details = curator(person.pk, person.username), {"role": invitation.role}
    audit.record(by=by, verb="accept", row=invitation, details=details, now=now)
    return person


def _record_link(person: User, is_on: bool, *, by: Principal, now: datetime) -> None:
    details = {"fields": [SINGLE_SIGN_ON], "on": is_on}
    audit.record(by=by, verb="update", row=person, details=details, now=now)


def _links(identity: "Identity") -> Any:
    return SocialAccount.objects.filter(provider=identity.issuer, uid=identity.subject)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
