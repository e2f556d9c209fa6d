"""What the interface's description cannot find out by itself."""

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Says that a key goes into `Authorization: Bearer …`, so that the served page can send one."""

    target_class = "memoryhub.access.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        """Return the scheme's definition."""
        return {"type": "http", "scheme": "bearer"}
