"""What others read of summaries."""

from uuid import UUID

from conversations.actions.condensed import Condensed
from conversations.models import Session
from memoryhub.tenancy.domain import Trust
from summaries.models import Summary


def session_summary(*, actor_id: UUID, session_id: UUID) -> Condensed | None:
    """Return a session's summary as it is now; None where there is none yet."""
    summary = Summary.objects.of(actor_id).filter(session_id=session_id).first()
    if summary is None:
        return None
    return Condensed(
        session_id=summary.session_id,
        text=summary.text,
        trust=Trust(summary.trust),
        message_count=summary.message_count,
        generator=summary.generator,
        updated_at=summary.updated_at,
    )


def summary_for_context(*, actor_id: UUID, session: Session | None) -> Summary | None:
    """Return the session's own summary, else the latest trusted one of a session before it (SPEC U7, M10).

    Without a session, the actor's latest trusted one.
    """
    summaries = Summary.objects.of(actor_id)
    return summaries.believed().first() if session is None else summaries.for_session(session).first()
