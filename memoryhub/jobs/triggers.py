"""The work that a turn, the end of a session or a summary asks for, as `settings.AFTER_…` lists it."""

from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from django.conf import settings

from memoryhub.jobs.queue import Order, enqueue_all

OF_SESSION: Final = "session"
OF_ACTOR: Final = "actor"


@dataclass(frozen=True)
class Trigger:
    """One line of `AFTER_TURN`, `AFTER_SESSION` or `AFTER_SUMMARY`. Raises ValueError for a `key` of neither sort."""

    kind: str
    key: Literal["session", "actor"] = "session"
    delay_seconds: float = 0.0
    needs_model: bool = False

    def __post_init__(self) -> None:
        if self.key not in (OF_SESSION, OF_ACTOR):
            raise ValueError(f"key must be {OF_SESSION!r} or {OF_ACTOR!r}, not {self.key!r}.")

    def order(self, session_id: UUID) -> Order:
        """Return the job for a session."""
        key = str(session_id) if self.key == OF_SESSION else OF_ACTOR
        return Order(self.kind, key, {"session_id": str(session_id)}, self.delay_seconds)


def enqueue_triggered(*tables: str, actor_id: UUID, session_id: UUID) -> None:
    """Enqueue what these tables of the settings list, in the caller's transaction."""
    followers = [
        Trigger(kind=kind, **line) for table in tables for kind, line in getattr(settings, table).items()
    ]
    has_model = settings.LLM.provider != "none"
    enqueue_all(
        [each.order(session_id) for each in followers if has_model or not each.needs_model], actor_id=actor_id
    )
