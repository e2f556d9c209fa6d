"""People who leave: their sessions, personal keys and connected clients end with their access (SPEC O11).

Whether a personal key is upheld is read at each call, as it is of a connected client, so a person loses access on every
host at once, however the account was changed. What is done here makes that permanent, and records it.
"""

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from memoryhub.auth import audit
from memoryhub.auth.actions import revoke_key
from memoryhub.auth.grants import revoke_grant
from memoryhub.auth.login import end_sessions
from memoryhub.auth.models import ApiKey, OAuthGrant
from memoryhub.auth.principals import Principal


@dataclass(frozen=True)
class Closed:
    """Numbers of what a person had."""

    sessions: int
    keys: int
    clients: int


@transaction.atomic
def close_access(person: User, *, reason: str, by: Principal, now: datetime) -> Closed:
    """End a person's sessions, and revoke their personal keys and connected clients for good."""
    grants = OAuthGrant.objects.filter(person=person, key__revoked_at=None).select_related("key")
    clients = sum(revoke_grant(grant, reason=reason, by=by, now=now) for grant in grants)
    keys = ApiKey.objects.filter(person=person, is_personal=True, revoked_at=None)
    revoked = sum(revoke_key(key=key, reason=reason, by=by, now=now) for key in keys)
    return Closed(sessions=end_sessions(person, now=now), keys=revoked, clients=clients)


@transaction.atomic
def deactivate(person: User, *, reason: str, by: Principal, now: datetime) -> Closed:
    """Deactivate an account, if it is active, and close its access."""
    if User.objects.filter(pk=person.pk, is_active=True).update(is_active=False):
        details = {"fields": ["Active"], "on": False}
        audit.record(by=by, verb="update", row=person, reason=reason, details=details, now=now)
    return close_access(person, reason=reason, by=by, now=now)
