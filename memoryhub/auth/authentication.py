"""From `Authorization: Bearer …` to a principal."""

import hmac
from datetime import UTC, datetime, timedelta

from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from memoryhub.auth.domain import Principal, key_digest
from memoryhub.auth.models import ApiKey

LAST_USE_RESOLUTION = timedelta(minutes=1)


class ApiKeyAuthentication(BaseAuthentication):
    """Bearer keys. Every failure looks the same, so that nothing is learnt from trying."""

    def authenticate(self, request: Request | HttpRequest) -> tuple[Principal, ApiKey] | None:
        """Return the principal and its key; None without the header; raises AuthenticationFailed."""
        words = get_authorization_header(request).split()  # type: ignore[arg-type]
        if not words or words[0].lower() != b"bearer":
            return None
        if len(words) != 2:
            raise AuthenticationFailed("The header must be `Authorization: Bearer <key>`.")
        key = _usable_key(words[1].decode("latin-1"), datetime.now(UTC))
        if key is None:
            raise AuthenticationFailed("This key is unknown, expired or revoked.")
        return key.principal(), key

    def authenticate_header(self, request: Request) -> str:
        """Return what a 401 asks for."""
        return 'Bearer realm="memoryhub"'


def _usable_key(text: str, now: datetime) -> ApiKey | None:
    digest = key_digest(text)
    key = ApiKey.objects.usable(now).filter(digest=digest).first()
    if key is None or not hmac.compare_digest(key.digest, digest):
        return None
    if key.last_used_at is None or now - key.last_used_at > LAST_USE_RESOLUTION:
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)
    return key
