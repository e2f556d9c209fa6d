"""How often a key may call."""

from typing import TYPE_CHECKING

from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from memoryhub.auth.domain import Principal

if TYPE_CHECKING:  # DRF imports its default permissions while it loads its views
    from rest_framework.views import APIView


class PerKey(SimpleRateThrottle):
    """A rate per key; the answer past it is 429 with `Retry-After`."""

    scope = "key"

    def get_cache_key(self, request: Request, view: "APIView") -> str | None:
        """Return what is counted; None (no limit here) for calls without a key, which are refused anyway."""
        principal: object = request.user
        if not isinstance(principal, Principal):
            return None
        return self.cache_format % {"scope": self.scope, "ident": principal.pk}
