"""The OAuth server for MCP clients, on the vendor's SDK: metadata, registration, authorization, tokens (SPEC H4).

The SDK checks requests (PKCE by S256, exact redirect addresses, the client's secret); grants and tokens are those of
`memoryhub.auth.grants`; the person consents in the admin. All addresses derive from MEMORYHUB_OAUTH_URL. Imported when
the first request comes, as the SDK is.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar, cast
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from django.conf import settings
from mcp.server.auth.handlers.authorize import AuthorizationHandler
from mcp.server.auth.handlers.metadata import MetadataHandler, ProtectedResourceMetadataHandler
from mcp.server.auth.handlers.register import RegistrationHandler
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import AuthenticationError, ClientAuthenticator
from mcp.server.auth.provider import (
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    RefreshToken,
    RegistrationError,
    TokenError,
)
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.server.transport_security import RequestBodyLimitMiddleware
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken, ProtectedResourceMetadata
from pydantic import AnyUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, request_response

from memoryhub.auth import grants
from memoryhub.auth.consent import ConsentRequest, consent_address
from memoryhub.auth.models import TokenKind
from memoryhub.db.pool import return_connection

MAX_BODY_BYTES: Final = 16_000
MAX_STATE_LENGTH: Final = 2_000
CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}\Z")
"""A SHA-256 in base64url."""

SCOPES: Final = [scope.value for scope in grants.SCOPES]
AUTH_METHODS: Final = ["none", "client_secret_post"]
"""Not `client_secret_basic`: the SDK reads the client's id from the form, where many clients then leave it out."""

GRANT_TYPES: Final = ["authorization_code", "refresh_token"]
NO_STORE: Final = {"Cache-Control": "no-store"}
Result = TypeVar("Result")
_threads = ThreadPoolExecutor(4, "oauth")


def resource_url() -> str:
    """Return the identifier of the protected resource: all addresses of MCP below it are one."""
    return f"{settings.OAUTH_URL}/mcp"


def is_own_resource(resource: object) -> bool:
    """Return whether a resource indicator (RFC 8707) is this server's MCP, or an address below it."""
    if resource is None:
        return True
    try:
        parts = urlsplit(str(resource))
    except ValueError:
        return False
    origin = f"{parts.scheme}://{parts.netloc}".lower()
    path = parts.path.rstrip("/")
    return origin == settings.OAUTH_URL and (path == "/mcp" or path.startswith("/mcp/")) and not parts.fragment


async def _in_thread(act: Callable[[], Result]) -> Result:
    """Run statements in a thread, and give its connection back."""

    def run() -> Result:
        try:
            return act()
        finally:
            return_connection()

    return await asyncio.get_running_loop().run_in_executor(_threads, copy_context().run, run)


def _now() -> datetime:
    return datetime.now(UTC)


class Provider:
    """The SDK's questions, answered from the database. `code` and `token` of its values hold digests, not texts.

    A part of its OAuthAuthorizationServerProvider: what its own revocation and verifier ask for, nothing here does.
    """

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        found = await _in_thread(partial(grants.registered_client, client_id))
        if found is None:
            return None
        client, secret = found
        values = {"client_id": str(client.pk), "client_secret": secret or None, "redirect_uris": client.redirect_uris}
        return OAuthClientInformationFull.model_validate({**client.metadata, **values})

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        """Store a client. Raises RegistrationError."""
        if client_info.token_endpoint_auth_method not in AUTH_METHODS:
            raise RegistrationError("invalid_client_metadata", f"Clients authenticate by {' or '.join(AUTH_METHODS)}.")
        metadata = {
            "token_endpoint_auth_method": client_info.token_endpoint_auth_method,
            "grant_types": [kind for kind in GRANT_TYPES if kind in client_info.grant_types],
            "scope": client_info.scope,
        }
        register = partial(
            grants.register_client,
            client_id=UUID(client_info.client_id),
            name=client_info.client_name or "",
            redirect_uris=[str(uri) for uri in client_info.redirect_uris or []],
            secret=client_info.client_secret or "",
            metadata=metadata,
            now=_now(),
        )
        try:
            await _in_thread(register)
        except grants.RedirectRefused as error:
            raise RegistrationError("invalid_redirect_uri", str(error)) from None
        except grants.ClientRefused as error:
            raise RegistrationError("invalid_client_metadata", str(error)) from None

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """Return the address of the page on which the person decides; nothing is stored. Raises AuthorizeError."""
        if not is_own_resource(params.resource):
            raise AuthorizeError("invalid_target", "This server gives no access to that resource.")
        if not CHALLENGE.match(params.code_challenge):
            raise AuthorizeError("invalid_request", "code_challenge must be a SHA-256 in base64url.")
        if len(params.state or "") > MAX_STATE_LENGTH:
            raise AuthorizeError("invalid_request", f"state has at most {MAX_STATE_LENGTH} characters.")
        asked = ConsentRequest(
            client_id=client.client_id,
            redirect_uri=str(params.redirect_uri),
            code_challenge=params.code_challenge,
            scopes=tuple(params.scopes or SCOPES),
            state=params.state,
        )
        return settings.OAUTH_URL + consent_address(asked)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        load = partial(
            grants.open_token, authorization_code, TokenKind.CODE, client_id=UUID(client.client_id), now=_now()
        )
        token = await _in_thread(load)
        if token is None:
            return None
        return AuthorizationCode(
            code=token.digest,
            scopes=token.grant.key.scopes,
            expires_at=token.expires_at.timestamp(),
            client_id=client.client_id,
            code_challenge=token.code_challenge,
            redirect_uri=AnyUrl(token.redirect_uri),
            redirect_uri_provided_explicitly=True,
        )

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        return await self._exchange(authorization_code.code)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        load = partial(
            grants.open_token, refresh_token, TokenKind.REFRESH, client_id=UUID(client.client_id), now=_now()
        )
        token = await _in_thread(load)
        if token is None:
            return None
        return RefreshToken(token=token.digest, client_id=client.client_id, scopes=token.grant.key.scopes)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        """Return new tokens. Raises TokenError, also for fewer scopes: a grant's tokens all have the same."""
        if set(scopes) != set(refresh_token.scopes):
            raise TokenError("invalid_scope", "A refreshed token has the scopes that were granted.")
        return await self._exchange(refresh_token.token)

    async def _exchange(self, digest: str) -> OAuthToken:
        try:
            issued = await _in_thread(partial(grants.exchange, digest, now=_now()))
        except grants.GrantClosed:
            raise TokenError("invalid_grant", "The grant is closed.") from None
        return OAuthToken(
            access_token=issued.access,
            refresh_token=issued.refresh,
            expires_in=int(grants.ACCESS_LIFETIME.total_seconds()),
            scope=" ".join(issued.scopes),
        )


class CautiousAuthorization(AuthorizationHandler):
    """Shows errors here: a stranger may register any address, and this server must not lead people there by itself."""

    async def handle(self, request: Request) -> Response:
        response = await super().handle(request)
        address = response.headers.get("location", "")
        if not address or address.startswith(f"{settings.OAUTH_URL}/"):
            return response
        answers = parse_qs(urlsplit(address).query)
        error = {name: answers[name][-1] for name in ("error", "error_description") if name in answers}
        return JSONResponse(error, status_code=400, headers=NO_STORE)


class TokensOfResource(TokenHandler):
    """Refuses token requests for another resource (RFC 8707), which the SDK leaves to the provider."""

    async def handle(self, request: Request) -> Response:
        form = await request.form()
        if all(map(is_own_resource, form.getlist("resource"))):
            answer: Response = await super().handle(request)
            return answer
        error = {"error": "invalid_target", "error_description": "This server gives no access to that resource."}
        return JSONResponse(error, status_code=400, headers=NO_STORE)


async def revoke(authenticator: ClientAuthenticator, request: Request) -> Response:
    """Revoke a token's grant (RFC 7009). The SDK's handler refuses clients without a secret."""
    try:
        client = await authenticator.authenticate_request(request)
    except AuthenticationError as error:
        return JSONResponse(
            {"error": "invalid_client", "error_description": error.message}, status_code=401, headers=NO_STORE
        )
    text = str((await request.form()).get("token", ""))
    await _in_thread(partial(grants.revoke_by_token, text, client_id=UUID(client.client_id), now=_now()))
    return Response(status_code=200, headers=NO_STORE)


def server_metadata() -> OAuthMetadata:
    url = settings.OAUTH_URL
    return OAuthMetadata.model_validate(
        {
            "issuer": url,
            "authorization_endpoint": f"{url}/authorize",
            "token_endpoint": f"{url}/token",
            "registration_endpoint": f"{url}/register",
            "revocation_endpoint": f"{url}/revoke",
            "scopes_supported": SCOPES,
            "response_types_supported": ["code"],
            "grant_types_supported": GRANT_TYPES,
            "token_endpoint_auth_methods_supported": AUTH_METHODS,
            "revocation_endpoint_auth_methods_supported": AUTH_METHODS,
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }
    )


def resource_metadata() -> ProtectedResourceMetadata:
    return ProtectedResourceMetadata.model_validate(
        {
            "resource": resource_url(),
            "authorization_servers": [settings.OAUTH_URL],
            "scopes_supported": SCOPES,
            "resource_name": "memoryhub",
        }
    )


def build_application() -> Starlette:
    """Return the ASGI application of the OAuth server's addresses (`application.is_oauth_path`)."""
    provider = cast(Any, Provider())
    authenticator = ClientAuthenticator(provider)
    server, resource = MetadataHandler(server_metadata()), ProtectedResourceMetadataHandler(resource_metadata())
    options = ClientRegistrationOptions(enabled=True, valid_scopes=SCOPES, default_scopes=SCOPES)
    posts: dict[str, Callable[[Request], Awaitable[Any]]] = {
        "/token": TokensOfResource(provider, authenticator).handle,
        "/register": RegistrationHandler(provider, options=options).handle,
        "/revoke": partial(revoke, authenticator),
    }
    known = "/.well-known"
    return Starlette(
        routes=[
            *(
                Route(f"{known}/{name}{rest}", handler)
                for name, handler in (
                    ("oauth-authorization-server", server.handle),
                    ("openid-configuration", server.handle),
                    ("oauth-protected-resource", resource.handle),
                )
                for rest in ("", "/{path:path}")
            ),
            Route("/authorize", CautiousAuthorization(provider).handle, methods=["GET"]),
            *(Route(path, _limited(handler), methods=["POST"]) for path, handler in posts.items()),
        ]
    )


def _limited(handler: Callable[[Request], Awaitable[Any]]) -> Any:
    return RequestBodyLimitMiddleware(request_response(handler), MAX_BODY_BYTES)
