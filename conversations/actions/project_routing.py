"""Find the project that a message belongs to, by the router that the app of projects registers.

Contexts and chats are routed without knowing how projects are stored.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from conversations.models import Session
from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import Tenant

AUTO: Final = "auto"
"""In place of a project's name: find it by the message."""

UNNAMED: Final = ""
"""No project was named: the policy may route, else the agent's `current_project` counts. None means no project."""

CHANNEL: Final = "api"
"""The channel of a message without a session."""


@dataclass(frozen=True)
class Routing:
    """A router's decision; without a project the user is asked, or a new one is proposed.

    `discloses`: the answer is to name the project that it used. `degraded`: a language model should have decided, and
    was unavailable.
    """

    id: UUID
    project: str | None
    confidence: str
    action: str
    proposed_name: str | None
    discloses: bool = False
    degraded: bool = False

    def as_json(self) -> dict[str, Any]:
        shown = {**asdict(self), "id": str(self.id)}
        return {name: shown[name] for name in ("id", "project", "confidence", "action", "proposed_name")}


Router = Callable[..., Routing | None]

ROUTERS: Final[list[Router]] = []
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
        tenant=tenant, message=message, channel=session.channel if session else CHANNEL, session=session,
        is_asked=project == AUTO, dry_run=dry_run, by=by, now=now,
    )  # fmt: skip
