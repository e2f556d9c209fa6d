"""Authentication by API key, and the scope check of each view. A view without scopes is closed."""

import hmac
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import TYPE_CHECKING, Final

from django.db.models import Q
from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from memoryhub.auth.models import ApiKey, usable_at
from memoryhub.auth.principals import Principal, Scope, key_digest
from memoryhub.auth.roles import is_upheld
from memoryhub.db import replicas
from memoryhub.db.limits import note_of_a_read
from memoryhub.db.pool import turns
from memoryhub.db.positions import with_position
from memoryhub.db.prepared import PreparedQuery

if TYPE_CHECKING:
    from rest_framework.views import APIView

LAST_USE_RESOLUTION = timedelta(minutes=1)
KEYS = PreparedQuery(lambda: with_position(ApiKey.objects.order_by()))


class RecentKeys:
    """Keys that were usable a short time ago, for calls that need no database."""

    def __init__(self, *, size: int, lifetime: timedelta) -> None:
        self._size, self._lifetime = size, lifetime
        self._keys: dict[str, tuple[ApiKey, datetime]] = {}
        self._lock = Lock()

    def note(self, key: ApiKey) -> None:
        with self._lock:
            self._keys.pop(key.digest, None)
            self._keys[key.digest] = key, datetime.now(UTC)
            if len(self._keys) > self._size:
                del self._keys[next(iter(self._keys))]

    def forget(self, digest: str) -> None:
        with self._lock:
            self._keys.pop(digest, None)

    def get(self, text: str) -> ApiKey | None:
        """Return the key with this text if it was noted within the lifetime, and has not expired since."""
        now = datetime.now(UTC)
        key, noted_at = self._keys.get(key_digest(text), (None, now))
        if key is None or noted_at < now - self._lifetime or (key.expires_at is not None and key.expires_at <= now):
            return None
        return key


RECENT_KEYS: Final = RecentKeys(size=1_000, lifetime=timedelta(minutes=15))


def usable_key(text: str, *, now: datetime) -> ApiKey | None:
    """Return the key with this text and note its use; None where it is unknown, expired, revoked or not upheld."""
    digest = key_digest(text)
    key = KEYS.first(usable_at(now) & Q(digest=digest))
    if key is None or not hmac.compare_digest(key.digest, digest) or not is_upheld(key):
        RECENT_KEYS.forget(digest)
        return None
    if not key.is_personal:  # whether a person upholds it cannot be read without the database
        RECENT_KEYS.note(key)
    note_use(key, now=now)
    return key


def note_use(key: ApiKey, *, now: datetime) -> None:
    """Note that an accepted call acts as a key."""
    turns().note(key.digest)
    if key.last_used_at is None or now - key.last_used_at > LAST_USE_RESOLUTION:
        with note_of_a_read():
            ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)


def sent_key(request: Request | HttpRequest) -> str | None:
    """Return the text of a request's key, or None. Raises AuthenticationFailed for a header of another form."""
    parts = get_authorization_header(request).split()  # type: ignore[arg-type]
    if not parts and (sent := request.headers.get("X-Api-Key")):
        return sent.strip()
    if not parts or parts[0].lower() != b"bearer":
        return None
    if len(parts) != 2:
        raise AuthenticationFailed("The header must be `Authorization: Bearer <key>`.")
    return parts[1].decode("latin-1")


class ApiKeyAuthentication(BaseAuthentication):
    """Bearer keys, or keys in `X-Api-Key` as Anthropic's SDK sends them. All failures look the same: guessing reveals
    nothing.
    """

    def authenticate(self, request: Request | HttpRequest) -> tuple[Principal, ApiKey] | None:
        text = sent_key(request)
        if text is None:
            return None
        key = usable_key(text, now=datetime.now(UTC))
        if key is None:
            raise AuthenticationFailed("This key is unknown, expired or revoked.")
        principal = key.principal()
        replicas.identify(principal.only_agent_id, getattr(key, "position", None))
        return principal, key

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="memoryhub"'


class HasScope(BasePermission):
    """Requires the scope that the view's `scopes` names for the method."""

    message = "This key lacks the scope that the call needs."

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return whether the key's scopes include the one needed; raises NotAuthenticated without a key."""
        principal: object = request.user
        if not isinstance(principal, Principal):
            raise NotAuthenticated("Send a key: `Authorization: Bearer <key>`.")
        if request.method == "OPTIONS":
            return bool(principal.scopes)
        method = "GET" if request.method == "HEAD" else request.method  # HEAD reads the same row
        needed: Scope | None = getattr(view, "scopes", {}).get(method)
        if needed is None:
            # Unsupported method: let the view answer 405 instead of 403.
            return request.method is not None and not hasattr(view, request.method.lower())
        self.message = f"This call needs the scope `{needed}`, which the key does not have."
        own: Scope | None = getattr(view, "own_scopes", {}).get(method) if principal.user_id is not None else None
        return needed in principal.scopes or own in principal.scopes
