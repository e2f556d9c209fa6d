"""Route a message to a project. The app of projects registers the router; how projects are stored is not known here."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from conversations.domain.routing import AUTO, CHANNEL, UNNAMED, Routing
from conversations.models import Session
from memoryhub.auth.access import Tenant
from memoryhub.auth.principals import Principal

ROUTERS: Final[list[Callable[..., Routing | None]]] = []
"""The router, where an app has registered one; the last counts."""


def route_to_project(
    *,
    tenant: Tenant,
    message: str,
    project: str | None,
    session: Session | None,
    dry_run: bool = False,
    by: Principal,
    now: datetime,
) -> Routing | None:
    """Return the decision for a message that names no project (UNNAMED), or AUTO; None where nothing is to be routed.

    Messages that name none are routed only where the agent's policy says so, which the router checks. The decision of
    a dry run is not stored. Network.
    """
    if not ROUTERS or project not in (UNNAMED, AUTO):
        return None
    return ROUTERS[-1](
        tenant=tenant,
        message=message,
        channel=session.channel if session else CHANNEL,
        session=session,
        is_requested=project == AUTO,
        dry_run=dry_run,
        by=by,
        now=now,
    )
