"""Tellers of what sessions were about, for tests of those who read it."""

from datetime import UTC, datetime
from uuid import UUID

from conversations.actions.sessions import SessionSummary
from memoryhub.tenancy.policy import Trust

TOLD: dict[UUID, SessionSummary] = {}


def tell(session_id: UUID, text: str, *, trust: Trust = Trust.TRUSTED, upto: int = 20) -> None:
    """Let a session's summary be this text from now on."""
    TOLD[session_id] = SessionSummary(session_id, text, trust, upto, "model", datetime(2026, 3, 1, tzinfo=UTC))


def told(*, actor_id: UUID, session_id: UUID) -> SessionSummary | None:
    return TOLD.get(session_id)
