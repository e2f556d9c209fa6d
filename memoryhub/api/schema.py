"""What the interface's description cannot find out by itself."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter

from memoryhub.api.idempotency import LONGEST_KEY

IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY},
    OpenApiParameter.HEADER,
    description="The same key and body again within 24 hours get the first answer.",
)


class Description(AutoSchema):
    """Describes an operation, with what holds for every one of its method."""

    def get_override_parameters(self) -> list[Any]:
        """Return the header that every POST takes."""
        return [IDEMPOTENCY_KEY] if self.method == "POST" else []


class ApiKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Says that a key goes into `Authorization: Bearer …`, so that the served page can send one."""

    target_class = "memoryhub.auth.authentication.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, str]:
        """Return the scheme's definition."""
        return {"type": "http", "scheme": "bearer"}
