"""Which sessions have something that no summary covers yet."""

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from conversations.models import Message, Session
from memoryhub.jobs.backfilling import Piece, Scope
from memoryhub.jobs.queue import Order
from summaries.actions.writing import Asked
from summaries.domain.summaries import JOB
from summaries.models import Summary


def sessions_to_summarize(
    agent_id: str | None = None, user_id: str | None = None, since: datetime | None = None
) -> QuerySet[Session]:
    """Return the sessions with spoken messages after their summary, of an agent, a user, or active since a time.

    In the order of their ids, their actors and agents loaded. Those whose summary a person locked are left out.
    """
    rows = uncovered(Session.objects.select_related("actor__agent").order_by("id"))
    if agent_id is not None:
        rows = rows.filter(actor__agent_id=agent_id)
    if user_id is not None:
        rows = rows.filter(actor__user_id=user_id)
    return rows if since is None else rows.filter(last_message_at__gte=since)


def uncovered(sessions: QuerySet[Session]) -> QuerySet[Session]:
    """Narrow sessions to those with spoken messages after their summary; `covered` is the last `seq` in it.

    `written` is how often it was written.
    """
    own = Summary.objects.filter(actor_id=OuterRef("actor_id"), session_id=OuterRef("pk"))
    new = Message.objects.filter(
        actor_id=OuterRef("actor_id"), session_id=OuterRef("pk"), seq__gt=OuterRef("covered")
    ).spoken()
    covered = Coalesce(Subquery(own.values("message_count")), Value(0))
    written = Coalesce(Subquery(own.values("written")), Value(0))
    return sessions.annotate(covered=covered, written=written).filter(
        Exists(new), ~Q(Exists(own.filter(locked=True)))
    )


def pieces(scope: Scope) -> Iterator[Piece]:
    """Yield a job for each session whose summary lacks something (`manage.py backfill`)."""
    for session in sessions_to_summarize(scope.agent_id, scope.user_id, scope.since).iterator(
        chunk_size=1000
    ):
        asked = Asked(written=session.written).payload()  # type: ignore[attr-defined]
        order = Order(JOB, f"{session.pk}:backfill", {"session_id": str(session.pk), **asked})
        yield Piece(session.actor_id, order, session.message_count - session.covered)  # type: ignore[attr-defined]
