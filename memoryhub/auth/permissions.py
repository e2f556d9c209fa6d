"""Which scope a call needs. A view that does not say is closed."""

from typing import TYPE_CHECKING

from rest_framework.exceptions import NotAuthenticated
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from memoryhub.auth.domain import Principal, Scope

if TYPE_CHECKING:  # DRF imports its default permissions while it loads its views
    from rest_framework.views import APIView


class HasScope(BasePermission):
    """Lets a key through that has the scope its view's `scopes` table names for the method."""

    message = "This key lacks the scope that the call needs."

    def has_permission(self, request: Request, view: "APIView") -> bool:
        """Return whether the key's scopes include the one needed; raises NotAuthenticated without a key."""
        principal: object = request.user
        if not isinstance(principal, Principal):
            raise NotAuthenticated("Send a key: `Authorization: Bearer <key>`.")
        if request.method == "OPTIONS":
            return bool(principal.scopes)
        method = "GET" if request.method == "HEAD" else request.method  # its headers tell of the same row
        needed: Scope | None = getattr(view, "scopes", {}).get(method)
        if needed is None:
            # No such method: let the view answer 405 rather than calling it forbidden.
            return request.method is not None and not hasattr(view, request.method.lower())
        self.message = f"This call needs the scope `{needed}`, which the key does not have."
        return needed in principal.scopes
