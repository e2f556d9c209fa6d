"""ASGI application that serves MCP at `/mcp`, `/mcp/{agent}` and `/mcp/{agent}/{user}`, OAuth, and Django elsewhere.

Checks hosts, reads the address, and starts the SDK and its session manager with the first request; uvicorn runs without
lifespan events, so nobody else would.
"""

import asyncio
import math
import time
import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

from django.conf import settings
from django.http.request import split_domain_port, validate_host
from rest_framework import serializers

from memoryhub.api.fields import AgentIdField, UserIdField
from memoryhub.api.middleware import Application, Message, Receive, Send
from memoryhub.api.problems import send_problem
from memoryhub.auth.throttling import call_counter, this_host
from memoryhub.db.pool import return_connection
from memoryhub.mcp.calls import Address, Profile

ROOT: Final = "mcp"
SESSION: Final = b"mcp-session-id"
VERSION: Final = b"mcp-protocol-version"
MAX_SESSION_LENGTH: Final = 100

OAUTH: Final = "oauth"
WELL_KNOWN: Final = tuple(
    f"/.well-known/{name}"
    for name in ("oauth-authorization-server", "oauth-protected-resource", "openid-configuration")
)
LIMITS: Final[Mapping[str, int]] = MappingProxyType({"/register": 10, "/authorize": 60, "/token": 60, "/revoke": 60})
"""Calls of a minute from one address: strangers may call these."""

BUCKETS: Final = 1024
"""Addresses that are counted apart; more share, so that many addresses do not make as many counters."""


class Refused(Exception):
    """A request that is answered with a problem, before the SDK sees it."""

    def __init__(self, status: int, code: str, detail: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.headers = status, code, detail, headers


class McpApplication:
    """ASGI middleware: answers MCP requests, and passes others to the wrapped application."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self._running: dict[str, asyncio.Future[Application]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        names = _path_names(scope)
        if names is None and not is_oauth_path(scope):
            await self.application(scope, receive, send)
            return
        try:
            headers = dict(scope["headers"])
            _check_hosts(headers)
            if settings.SECURE_SSL_REDIRECT and scope["scheme"] != "https":
                # No redirect to HTTPS as for pages: clients would keep sending the key unencrypted.
                raise Refused(403, "https_required", "This server answers MCP over https only.")
            if names is None:
                await asyncio.to_thread(_check_rate, scope)
                await (await self._application(OAUTH))(scope, receive, send)
                return
            if scope["method"] != "POST":
                allow = (b"allow", b"POST")
                raise Refused(405, "method_not_allowed", "MCP requests are POSTs; there are no streams.", allow)
            address, profile = _address(names, headers), _profile(scope)
        except Refused as refused:
            await send_problem(send, refused.status, refused.code, refused.detail, *refused.headers)
            return
        await self._serve(address, profile, {**scope, "path": "/mcp", "raw_path": b"/mcp"}, receive, send)

    async def _serve(self, address: Address, profile: Profile, scope: Message, receive: Receive, send: Send) -> None:
        application = await self._application(profile)
        from memoryhub.mcp.server import address_of_request

        headers = dict(scope["headers"])
        # Only the first request of the older protocol's handshake has neither header.
        session = None if SESSION in headers or VERSION in headers else uuid4().hex

        async def with_session(message: Message) -> None:
            if session is not None and message["type"] == "http.response.start" and message["status"] == 200:
                message = {**message, "headers": [*message["headers"], (SESSION, session.encode())]}
            await send(message)

        address_of_request.set(address)
        await application(scope, receive, with_session)

    async def _application(self, name: str) -> Application:
        """Return the running application of a profile, or of OAuth, started on first use."""
        running = self._running.get(name)
        if running is None:
            running = self._running[name] = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(self._run(name, running))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(running)

    async def _run(self, name: str, running: "asyncio.Future[Application]") -> None:
        """Build an application off the loop, and run its session manager until the process ends."""
        try:
            starlette = await asyncio.to_thread(_build, name)
        except Exception as error:
            del self._running[name]  # the next request tries again
            running.set_exception(error)
            return
        async with starlette.router.lifespan_context(starlette):
            running.set_result(starlette)
            await asyncio.Event().wait()


def _build(name: str) -> Any:
    if name == OAUTH:
        from memoryhub.mcp import oauth

        return oauth.build_application()
    from memoryhub.mcp.server import build_application

    return build_application(cast(Profile, name))


def _raw_path(scope: Message) -> str:
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    return path.partition(b"?")[0].decode("latin-1")


def _path_names(scope: Message) -> Sequence[str] | None:
    """Return the path segments after `/mcp`, decoded; None for another path."""
    if scope["type"] != "http":
        return None
    root, *names = _raw_path(scope).strip("/").split("/")
    return [unquote(name) for name in names] if root == ROOT else None


def is_oauth_path(scope: Message) -> bool:
    """Return whether the OAuth server answers, if it is on; elsewhere these addresses are unknown."""
    if not settings.OAUTH_URL or scope["type"] != "http":
        return False
    path = _raw_path(scope)
    return path in LIMITS or any(path == root or path.startswith(f"{root}/") for root in WELL_KNOWN)


def _check_rate(scope: Message) -> None:
    """Count a call by its address, after those of other hosts (ADR 61). Raises Refused (429).

    Such calls are few and write rows anyway, so each reads the sums of others, not one a second.
    """
    path = _raw_path(scope)
    if path not in LIMITS:
        return
    address = (scope.get("client") or ("",))[0]
    bucket = zlib.crc32(address.encode()) % BUCKETS
    caller = f"{OAUTH}{path.replace('/', '-')}-{bucket}"
    try:
        call_counter().exchange(caller, host=this_host())
    finally:
        return_connection()
    quota = call_counter().count(caller, now=time.monotonic(), limit=LIMITS[path])
    if quota.is_exceeded:
        wait = (b"retry-after", str(math.ceil(quota.wait)).encode())
        raise Refused(429, "rate_limited", "Too many requests from this address; try again later.", wait)


def _check_hosts(headers: dict[bytes, bytes]) -> None:
    """Raise Refused for a host or an origin that Django would refuse, too."""
    host = headers.get(b"host", b"").decode("latin-1")
    if not _is_allowed(host):
        raise Refused(421, "host_not_allowed", "This server does not answer to this host name.")
    origin = headers.get(b"origin", b"").decode("latin-1")
    if origin and origin not in settings.CSRF_TRUSTED_ORIGINS and not _is_allowed(urlsplit(origin).netloc):
        raise Refused(403, "origin_not_allowed", "This server does not answer to pages of this origin.")


def _is_allowed(host: str) -> bool:
    domain, _port = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def _address(names: Sequence[str], headers: dict[bytes, bytes]) -> Address:
    """Return agent and user of the path, and the client's session. Raises Refused."""
    fields = (AgentIdField(), UserIdField())
    if len(names) > len(fields):
        raise Refused(404, "not_found", "The address is /mcp, /mcp/{agent} or /mcp/{agent}/{user}.")
    try:
        values = [field.run_validation(name) for field, name in zip(fields, names, strict=False)]
    except serializers.ValidationError as error:
        raise Refused(404, "not_found", " ".join(map(str, error.detail))) from None
    session = headers.get(SESSION, b"").decode("latin-1")[:MAX_SESSION_LENGTH]
    return Address(*values, **({"session": session} if session else {}))


def _profile(scope: Message) -> Profile:
    requested = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("profile", ["memory"])
    if requested == ["memory"]:
        return "memory"
    if requested == ["connector"]:
        return "connector"
    raise Refused(404, "not_found", "The profile is `memory` or `connector`.")
