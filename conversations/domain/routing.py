"""Routing of a message to a project, as contexts and receipts know it."""

from dataclasses import asdict, dataclass
from typing import Any, Final
from uuid import UUID

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
    was unavailable. `candidates`: projects to offer where the user is to be asked.
    """

    id: UUID
    project: str | None
    confidence: str
    action: str
    proposed_name: str | None
    discloses: bool = False
    degraded: bool = False
    candidates: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        values = {**asdict(self), "id": str(self.id)}
        return {name: values[name] for name in ("id", "project", "confidence", "action", "proposed_name")}
