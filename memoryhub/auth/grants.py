"""Grants of OAuth: a person lets a client act as an API key with one agent and chosen scopes (ADR 63).

A grant's key is an ordinary one, so that scopes, trust, throttling, audit, usage and revocation are those of keys. Its
text is discarded: the client gets codes and tokens, of which digests are stored. Nothing here knows of HTTP.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.actions import issue_key, revoke_key
from memoryhub.auth.authentication import note_use
from memoryhub.auth.models import ApiKey, OAuthClient, OAuthGrant, OAuthToken, TokenKind
from memoryhub.auth.principals import Forbidden, Principal, Scope, command, generate_key, key_digest
from memoryhub.auth.roles import needs_of, upholds
from memoryhub.auth.sealed import cipher
from memoryhub.db.prepared import PreparedQuery
from memoryhub.errors import DomainError, stored_text

OAUTH: Final = command("oauth")
"""Principal of audit entries of what a client does before a person consents, and of what it does wrong."""

GRANT_PERMISSION: Final = "memoryhub.add_oauthgrant"
SCOPES: Final = (Scope.READ, Scope.WRITE)
"""What the tools of MCP need."""

CODE_LIFETIME: Final = timedelta(minutes=5)
ACCESS_LIFETIME: Final = timedelta(hours=1)
REFRESH_LIFETIME: Final = timedelta(days=30)
UNUSED_LIFETIME: Final = timedelta(days=1)
MAX_UNUSED_CLIENTS: Final = 1_000
MAX_REDIRECT_URIS: Final = 10
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
PRIVATE_SCHEME: Final = re.compile(r"[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+\Z")
"""A reversed domain name (RFC 8252, section 7.1), as `com.example.app`; no scheme of a browser has a dot."""


def _with_grants() -> QuerySet[OAuthToken]:
    return OAuthToken.objects.order_by().select_related("grant__key", "grant__person")


TOKENS: Final = PreparedQuery(_with_grants)


class ClientRefused(DomainError):
    """The registration is not acceptable."""


class RedirectRefused(ClientRefused):
    """An address to return to is neither https nor on the person's own machine."""


class GrantClosed(DomainError):
    """The code or token is unknown, expired, used or revoked, or its person has no access any more."""


@dataclass(frozen=True)
class IssuedTokens:
    access: str
    refresh: str
    scopes: list[str]


def check_redirect_uri(uri: str) -> None:
    """Raise RedirectRefused unless it is https, http on loopback, or of an app's own scheme."""
    try:
        parts = urlsplit(uri)
        host = parts.hostname or ""
    except ValueError:
        raise RedirectRefused("A redirect address cannot be read.") from None
    is_web = parts.scheme == "https" and bool(host)
    is_loopback = parts.scheme == "http" and host in LOOPBACK
    if not (is_web or is_loopback or PRIVATE_SCHEME.match(parts.scheme)):
        raise RedirectRefused("Redirect addresses are https, http on loopback, or of a scheme such as com.example.app.")
    if parts.fragment or parts.username is not None or parts.password is not None or len(uri) > 500:
        raise RedirectRefused("Redirect addresses have no fragment and no user, and at most 500 characters.")


@transaction.atomic
def register_client(
    *, client_id: UUID, name: str, redirect_uris: Sequence[str], secret: str, metadata: Mapping[str, Any], now: datetime
) -> OAuthClient:
    """Store a client that registers itself. Raises ClientRefused.

    Of very many without consent the oldest are deleted, so that registrations cannot fill the table.
    """
    if not 0 < len(redirect_uris) <= MAX_REDIRECT_URIS:
        raise RedirectRefused(f"There must be 1 to {MAX_REDIRECT_URIS} redirect addresses.")
    for uri in redirect_uris:
        check_redirect_uri(uri)
    name = " ".join(name.split()) or "?"
    if len(name) > 100 or not name.isprintable():
        raise ClientRefused("The name has at most 100 characters, all of them printable.")
    sealed = _cipher().encrypt(secret.encode()).decode() if secret else ""
    unused = OAuthClient.objects.filter(grants=None).order_by("-created_at").values_list("pk", flat=True)
    OAuthClient.objects.filter(pk__in=list(unused[MAX_UNUSED_CLIENTS - 1 :])).delete()
    client = OAuthClient.objects.create(
        id=client_id, name=name, redirect_uris=list(redirect_uris), metadata=dict(metadata),
        sealed_secret=sealed, created_at=now,
    )  # fmt: skip
    audit.record(by=OAUTH, verb="create", row=client, details={"hosts": client.hosts}, now=now)
    return client


def registered_client(client_id: str) -> tuple[OAuthClient, str] | None:
    """Return a client and its secret; None for an unknown id, or a secret that another SECRET_KEY sealed."""
    from cryptography.fernet import InvalidToken

    try:
        client = OAuthClient.objects.filter(pk=UUID(client_id)).first()
        if client is None:
            return None
        sealed = client.sealed_secret
        return client, _cipher().decrypt(sealed.encode()).decode() if sealed else ""
    except (ValueError, InvalidToken):
        return None


def unused_clients(now: datetime) -> QuerySet[OAuthClient]:
    return OAuthClient.objects.filter(grants=None, created_at__lt=now - UNUSED_LIFETIME)


def expired_tokens(now: datetime) -> QuerySet[OAuthToken]:
    return OAuthToken.objects.filter(expires_at__lt=now)


def is_upheld(grant: OAuthGrant) -> bool:
    """Return whether the person may still do all that they granted; asked at each call, as rights are taken away."""
    person = grant.person
    return person is not None and upholds(person, grant.key) and person.has_perm(GRANT_PERMISSION)


@transaction.atomic
def grant_access(
    *, client: OAuthClient, person: Any, agent_id: str, user_id: str, scopes: Sequence[Scope], is_trusted: bool,
    redirect_uri: str, code_challenge: str, by: Principal, now: datetime,
) -> str:  # fmt: skip
    """Store a person's consent and return the code for the client. Raises Forbidden for more than the person's rights.

    The key expires with the code unless the client redeems it.
    """
    if (
        not scopes
        or not set(scopes) <= set(SCOPES)
        or not person.has_perms(needs_of(scopes, is_trusted=is_trusted) | {GRANT_PERMISSION})
    ):
        raise Forbidden(_("You may only grant what your own account may do."))
    key, _text = issue_key(
        name=client.name, scopes=scopes, agent_ids=[agent_id], user_id=user_id, is_trusted=is_trusted,
        expires_at=now + CODE_LIFETIME, person=person, is_personal=True, by=by, now=now,
    )  # fmt: skip
    grant = OAuthGrant.objects.create(client=client, person=person, key=key, created_at=now)
    audit.record(by=by, verb="create", row=grant, details={"client": str(client.pk), "key": str(key.pk)}, now=now)
    return _store(grant, TokenKind.CODE, now + CODE_LIFETIME, redirect_uri=redirect_uri, code_challenge=code_challenge)


def open_token(text: str, kind: TokenKind, *, client_id: UUID, now: datetime) -> OAuthToken | None:
    """Return an unused code or refresh token of a client; None otherwise.

    A used one was copied, by the client or from it: the grant is revoked.
    """
    token = _tokens(text, kind).filter(grant__client_id=client_id).first()
    if token is None or token.expires_at <= now or not _is_open(token.grant, now):
        return None
    if token.used_at is not None:
        revoke_grant(token.grant, reason=f"A used {kind} was sent again.", by=OAUTH, now=now)
        return None
    return token


def exchange(digest: str, *, now: datetime) -> IssuedTokens:
    """Use a code or refresh token, and return new tokens. Raises GrantClosed; of two at once one is refused."""
    with transaction.atomic():
        is_first = OAuthToken.objects.filter(digest=digest, used_at=None, expires_at__gt=now).update(used_at=now)
        token = _with_grants().filter(digest=digest).first()
        if token is not None and is_first and _is_open(token.grant, now):
            return _issue(token.grant, now)
    if token is not None and not is_first and token.expires_at > now:
        revoke_grant(token.grant, reason=f"A used {token.kind} was sent again.", by=OAUTH, now=now)
    raise GrantClosed("The grant is closed.")


def usable_grant_key(text: str, *, now: datetime) -> ApiKey | None:
    """Return the key that an access token acts as, and note its use; None where it may not be used now."""
    token = TOKENS.first(Q(digest=key_digest(text), kind=TokenKind.ACCESS, expires_at__gt=now))
    if token is None or not _is_open(token.grant, now):
        return None
    key = token.grant.key
    key.person = token.grant.person
    note_use(key, now=now)
    return key


def revoke_by_token(text: str, *, client_id: UUID, now: datetime) -> None:
    """Revoke the grant of a client's access or refresh token; unknown ones are ignored (RFC 7009)."""
    kinds = (TokenKind.ACCESS, TokenKind.REFRESH)
    token = OAuthToken.objects.filter(digest=key_digest(text), kind__in=kinds, grant__client_id=client_id).first()
    if token is not None:
        revoke_grant(token.grant, reason=stored_text("The client disconnected."), by=OAUTH, now=now)


@transaction.atomic
def revoke_grant(grant: OAuthGrant, *, reason: str, by: Principal, now: datetime) -> bool:
    is_revoked = revoke_key(key=grant.key, reason=reason, by=by, now=now)
    if is_revoked:
        audit.record(by=by, verb="revoke", row=grant, reason=reason, now=now)
    return is_revoked


def _is_open(grant: OAuthGrant, now: datetime) -> bool:
    key = grant.key
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > now) and is_upheld(grant)


def _issue(grant: OAuthGrant, now: datetime) -> IssuedTokens:
    """Store tokens; the grant's key lives as long as its newest refresh token."""
    ApiKey.objects.filter(pk=grant.key_id).update(expires_at=now + REFRESH_LIFETIME)
    return IssuedTokens(
        access=_store(grant, TokenKind.ACCESS, now + ACCESS_LIFETIME),
        refresh=_store(grant, TokenKind.REFRESH, now + REFRESH_LIFETIME),
        scopes=list(grant.key.scopes),
    )


def _store(grant: OAuthGrant, kind: TokenKind, expires_at: datetime, **values: str) -> str:
    """Store a new token and return its text, which has the form of a key: screening removes it from stored texts."""
    new = generate_key()
    OAuthToken.objects.create(digest=new.digest, kind=kind, grant=grant, expires_at=expires_at, **values)
    return new.text


def _tokens(text: str, kind: TokenKind) -> QuerySet[OAuthToken]:
    return _with_grants().filter(digest=key_digest(text), kind=kind)


def _cipher() -> Any:
    return cipher("memoryhub.oauth", "client secrets")
