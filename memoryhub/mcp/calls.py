"""Tools and resources of the MCP server: their registry, and the context of a call.

A call has the checks of a REST view (rate, scope, disk, idempotency, error texts) and then calls the same action. Apps
register theirs in their module `mcp`, which is imported by the first MCP request. Does not import the SDK.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, Literal, TypeVar
from uuid import UUID

from django.core.cache import caches
from django.db.models import Model, QuerySet
from drf_standardized_errors.formatter import flatten_errors
from rest_framework.exceptions import APIException, PermissionDenied, Throttled, ValidationError
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from memoryhub.api.errors import problem_for
from memoryhub.api.idempotency import answer_call, keyed_call
from memoryhub.api.problems import too_many_requests
from memoryhub.api.views import check_disk
from memoryhub.auth.access import Tenant, UnknownRow, actor_for_writing, resolve, tenant_for_reading
from memoryhub.auth.models import ApiKey
from memoryhub.auth.principals import Principal, Scope
from memoryhub.auth.throttling import KeyRateThrottle
from memoryhub.db.pool import return_connection, turn
from memoryhub.db.turns import TooManyRequests
from memoryhub.jobs.context import caused_by
from memoryhub.telemetry.spans import span
from memoryhub.tenancy.models import Actor
from memoryhub.validators import UnusableJSON, mend

log = logging.getLogger("memoryhub.requests")

Row = TypeVar("Row", bound=Model)
Profile = Literal["memory", "connector"]
MAX_REMEMBERED: Final = 1_000
"""Remembered results of a session; older ones may be returned again."""


class CallFailed(Exception):
    """A refused or failed call; the message is for the model."""


@dataclass(frozen=True)
class Tool:
    """A function that a model may call; its docstring and parameters are what the model reads."""

    name: str
    run: Callable[..., Any]
    scope: Scope
    profile: Profile = "memory"
    destructive: bool = False
    """Whether the tool deletes or overwrites; clients then ask first."""
    in_transaction: bool = True


@dataclass(frozen=True)
class Resource:
    """A text that clients may attach, at a fixed address or at a template's."""

    address: str
    name: str
    run: Callable[..., str]


TOOLS: Final[list[Tool]] = []
RESOURCES: Final[list[Resource]] = []


def tool(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a tool under its name; its first parameter is the Call."""

    def register(run: Callable[..., Any]) -> Callable[..., Any]:
        TOOLS.append(Tool(run.__name__, run, **options))
        return run

    return register


def resource(address: str, name: str) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Register a function as a resource; its first parameter is the Call, the others are the address's places."""

    def register(run: Callable[..., str]) -> Callable[..., str]:
        RESOURCES.append(Resource(address, name, run))
        return run

    return register


@dataclass(frozen=True)
class Address:
    """Agent and user of the path, and the client's session; None where the request has none."""

    agent_id: str | None = None
    user_id: str | None = None
    session: str | None = None


@dataclass
class Call:
    """One call: API key and principal, agent and user, and time."""

    api_key: ApiKey
    address: Address
    now: datetime
    actor_id: UUID | None = None
    principal: Principal = field(init=False)

    def __post_init__(self) -> None:
        self.principal = self.api_key.principal()

    def require(self, scope: Scope) -> None:
        """Raise PermissionDenied where the key lacks a scope, and Problem (507) for a write while the disk is full."""
        if scope not in self.principal.scopes:
            raise PermissionDenied(f"This call needs the scope `{scope}`, which the key does not have.")
        if scope is not Scope.READ:
            check_disk()

    @property
    def agent_id(self) -> str:
        """Return the path's agent, else the only one of the key. Raises ValidationError where neither names one."""
        if self.address.agent_id is not None:
            return self.address.agent_id
        agents = self.principal.agent_ids or ()
        if len(agents) != 1:
            raise ValidationError(
                {"agent": ["is not known: connect to /mcp/{agent}/{user}, or use a key of one agent."]}
            )
        return next(iter(agents))

    def reading(self) -> Tenant:
        tenant = tenant_for_reading(self.principal, self.agent_id, self.address.user_id)
        self.actor_id = tenant.actor.id if tenant.actor else None
        return tenant

    def writing(self) -> Actor:
        actor = actor_for_writing(self.principal, self.agent_id, self.address.user_id, now=self.now)
        self.actor_id = actor.id
        return actor

    def owned(self, rows: QuerySet[Row], row_id: UUID) -> Row:
        """Return the row with this id if it is of the call's agent and user. Raises UnknownRow."""
        row = resolve(rows, self.principal, row_id)
        if row.actor_id != self.reading().actor_id:  # type: ignore[attr-defined]
            raise UnknownRow(f"No {rows.model._meta.verbose_name_raw} {row_id} of this agent and user.")
        return row

    @staticmethod
    def validated(serializer: type[Serializer], data: Mapping[str, Any]) -> dict[str, Any]:
        """Return values checked as REST checks them. Raises ValidationError."""
        checked = serializer(data=dict(data))
        checked.is_valid(raise_exception=True)
        values: dict[str, Any] = checked.validated_data
        return values

    def not_returned(self, marks: list[str], *, repeat: bool) -> set[str]:
        """Return the results that were not returned to this session before (all with `repeat`), and remember all.

        Without a session all are returned. Only these marks are stored, in the server's memory.
        """
        if self.address.session is None:
            return set(marks)
        key, sessions = f"{self.api_key.pk}:{self.address.session}", caches["mcp_sessions"]
        returned: dict[str, None] = sessions.get(key, {})
        fresh = set(marks) if repeat else set(marks) - returned.keys()
        sessions.set(key, dict.fromkeys([*returned, *marks][-MAX_REMEMBERED:]))
        return fresh


def call_tool(
    tool: Tool, *, api_key: ApiKey, address: Address, idempotency_key: str | None, arguments: Mapping[str, Any]
) -> str:
    """Run a tool and return its answer as JSON. Raises CallFailed.

    Characters of texts that cannot be stored are replaced.
    """
    call = Call(api_key, address, datetime.now(UTC))
    try:
        mended, _replaced = mend(dict(arguments), "call")
    except UnusableJSON as error:
        raise CallFailed(str(error)) from error
    return _run(tool.name, partial(_answer, tool, call, idempotency_key, mended), call, tool.scope)


def read_resource(resource: Resource, *, api_key: ApiKey, address: Address, values: Mapping[str, str]) -> str:
    """Return a resource's text. Raises CallFailed."""
    call = Call(api_key, address, datetime.now(UTC))
    return _run("resource", lambda: resource.run(call, **values), call, Scope.READ)


def _run(name: str, act: Callable[[], str], call: Call, scope: Scope) -> str:
    started, outcome = time.perf_counter(), "ok"
    try:
        throttle = KeyRateThrottle()
        if not throttle.allow_request(SimpleNamespace(user=call.principal), None):  # type: ignore[arg-type]
            raise Throttled(wait=throttle.wait())
        call.require(scope)
        values = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        with turn(call.api_key.digest), caused_by(call.principal.key_id), span(f"execute_tool {name}", values):
            return act()
    except TooManyRequests as error:
        outcome = "429"
        raise CallFailed(": ".join(too_many_requests())) from error
    except Exception as error:
        problem = error if isinstance(error, APIException) else problem_for(error)
        if problem is None:
            outcome = "error"
            raise
        outcome = str(problem.status_code)
        raise CallFailed(_text(problem)) from error
    finally:
        elapsed_ms = round((time.perf_counter() - started) * 1000, 1)
        log.info("mcp call", extra={"tool": name, "outcome": outcome, "ms": elapsed_ms, "key": str(call.api_key.pk)})
        return_connection()


def _answer(tool: Tool, call: Call, idempotency_key: str | None, arguments: Mapping[str, Any]) -> str:
    keyed = None
    if idempotency_key is not None:
        route = f"mcp:{tool.name}:{call.address.agent_id}:{call.address.user_id}"
        keyed = keyed_call(call.api_key, route=route, key=idempotency_key, content=arguments)
    answer = answer_call(
        keyed,
        in_transaction=tool.in_transaction,
        act=lambda: Response(tool.run(call, **arguments)),
        actor_id=lambda: call.actor_id,
    )
    return json.dumps(answer.data, ensure_ascii=False, separators=(",", ":"), default=str)


def _text(error: APIException) -> str:
    """Return an error for the model: problems by argument, else the code and its detail."""
    errors = flatten_errors(error.detail)
    if isinstance(error, ValidationError):
        return " ".join(f"{item.attr or 'call'}: {item.detail}" for item in errors[:5])
    return f"{errors[0].code}: {errors[0].detail}"
