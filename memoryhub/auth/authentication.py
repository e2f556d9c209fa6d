"""Authentication by API key, the scope check of each view, and throttling by key. A view without scopes is closed."""

import fcntl
import hmac
import os
import time
from array import array
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from memoryhub.auth.models import ApiKey, usable_at
from memoryhub.auth.principals import Principal, Scope, key_digest
from memoryhub.db.pool import turns
from memoryhub.db.prepared import PreparedQuery
from memoryhub.env import private_folder

if TYPE_CHECKING:
    from rest_framework.views import APIView

LAST_USE_RESOLUTION = timedelta(minutes=1)
KEYS = PreparedQuery(lambda: ApiKey.objects.order_by())


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
    """Return the key with this text and note its use; None where it is unknown, expired or revoked."""
    digest = key_digest(text)
    key = KEYS.first(usable_at(now) & Q(digest=digest))
    if key is None or not hmac.compare_digest(key.digest, digest):
        RECENT_KEYS.forget(digest)
        return None
    RECENT_KEYS.note(key)
    turns().note(digest)
    if key.last_used_at is None or now - key.last_used_at > LAST_USE_RESOLUTION:
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)
    return key


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
        return key.principal(), key

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


WINDOW_SECONDS: Final = 60
WINDOW_BYTES: Final = 8 * (WINDOW_SECONDS + 1)
"""Size of a window: a count for each second, and the number of the latest second."""

MAX_CLOCK_SKEW_SECONDS: Final = 3_600
"""A window further in the future is reset; it would lock a key out until then."""


class Window:
    """Sliding window of calls: counts for the latest second with a call and the 59 before it."""

    def __init__(self, numbers: bytes = b"") -> None:
        """Restore a window from its bytes; an empty one where they are incomplete."""
        self._numbers = array("q", numbers if len(numbers) == WINDOW_BYTES else bytes(WINDOW_BYTES))

    def __bytes__(self) -> bytes:
        return self._numbers.tobytes()

    def count(self, now: float, limit: int) -> float:
        """Count a call and return 0; after `limit` calls in the last minute, return the seconds to wait instead."""
        *calls, latest = self._numbers
        if latest > now + MAX_CLOCK_SKEW_SECONDS:
            calls, latest = [0] * WINDOW_SECONDS, 0
        second = max(int(now), latest)  # a clock that was set back must not reset counts
        for stale_second in range(max(latest + 1, second - WINDOW_SECONDS + 1), second + 1):
            calls[stale_second % WINDOW_SECONDS] = 0
        wait = 0.0
        if sum(calls) < limit:
            calls[second % WINDOW_SECONDS] += 1
        else:
            window = range(second - WINDOW_SECONDS + 1, second + 1)
            oldest = next(counted for counted in window if calls[counted % WINDOW_SECONDS])
            wait = max(oldest + WINDOW_SECONDS - now, 0.001)
        self._numbers = array("q", [*calls, second])
        return wait


class CallCounter:
    """Windows of several callers; processes with the same `folder` share them."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._lock = folder, Lock()
        self._windows = defaultdict[str, Window](Window)
        if folder is not None:
            private_folder(private_folder(folder.parent) / folder.name)

    def count(self, caller: str, *, now: float, limit: int) -> float:
        """As `Window.count`. `caller` is the name of a file where there is a folder."""
        if self._folder is None:
            with self._lock:
                return self._windows[caller].count(now, limit)
        descriptor = os.open(self._folder / caller, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            window = Window(os.read(descriptor, WINDOW_BYTES))
            wait = window.count(now, limit)
            os.pwrite(descriptor, bytes(window), 0)
        finally:
            os.close(descriptor)
        return wait


@cache
def call_counter() -> CallCounter:
    """Return the counter of this process, or of all that serve the web."""
    environment = settings.ENVIRONMENT
    folder = environment.shared_folder if environment.is_web else None
    return CallCounter(folder and folder / "calls")


class KeyRateThrottle(SimpleRateThrottle):
    """Rate limit per key and minute; 429 with `Retry-After` beyond it."""

    scope = "key"

    def allow_request(self, request: Request, view: "APIView | None") -> bool:
        """Count the call. Calls without a key have no limit here, for they are refused anyway."""
        principal: object = request.user
        if not isinstance(principal, Principal):
            return True
        limit, _duration = self.parse_rate(self.rate)
        self._seconds = call_counter().count(str(principal.pk), now=time.monotonic(), limit=limit or 0)
        return not self._seconds

    def wait(self) -> float:
        return self._seconds
