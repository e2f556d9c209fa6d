"""Which sessions have something that no summary covers yet."""

from collections.abc import Iterator
from datetime import datetime

from django.db.models import (
    BooleanField,
    Exists,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
)
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce

from conversations.models import Message, Session
from memoryhub.jobs.backfilling import Piece, Scope
from memoryhub.jobs.queue import Order
from summaries.actions.writing import Asked
from summaries.domain.blanks import IN_WORDS
from summaries.domain.policy import SummaryPolicy
from summaries.domain.summaries import JOB
from summaries.models import Summary


def sessions_to_summarize(
    agent_id: str | None = None, user_id: str | None = None, since: datetime | None = None
) -> QuerySet[Session]:
    """Return the sessions with spoken messages after their summary, of an agent, a user, or active since a time.

    In the order of their ids, their actors and agents loaded. Those whose summary a person locked are left out, and
    those of agents and users that want none.
    """
    sessions = Session.objects.annotate(on=policy_value("summarizes", BooleanField())).filter(on=True)
    rows = uncovered(sessions.select_related("actor__agent").order_by("id"))
    if agent_id is not None:
        rows = rows.filter(actor__agent_id=agent_id)
    if user_id is not None:
        rows = rows.filter(actor__user_id=user_id)
    return rows if since is None else rows.filter(last_message_at__gte=since)


def uncovered(sessions: QuerySet[Session]) -> QuerySet[Session]:
    """Narrow sessions to those with something said after their summary; `covered` is the last `seq` in it.

    `written` is how often it was written.
    """
    own = Summary.objects.filter(actor_id=OuterRef("actor_id"), session_id=OuterRef("pk"))
    new = Message.objects.filter(
        actor_id=OuterRef("actor_id"),
        session_id=OuterRef("pk"),
        seq__gt=OuterRef("covered"),
        content__regex=IN_WORDS,
    ).spoken()
    covered = Coalesce(Subquery(own.values("message_count")), Value(0))
    written = Coalesce(Subquery(own.values("written")), Value(0))
    return sessions.annotate(covered=covered, written=written).filter(
        Exists(new), ~Q(Exists(own.filter(locked=True)))
    )


def policy_value(key: str, field: IntegerField | BooleanField) -> Coalesce:
    """Return a policy value as it holds for a session's actor: user, agent, default."""
    return Coalesce(
        Cast(KeyTextTransform(key, "actor__policy"), field),
        Cast(KeyTextTransform(key, "actor__agent__policy"), field),
        Value(getattr(SummaryPolicy(), key), field),
    )


def pieces(scope: Scope) -> Iterator[Piece]:
    """Yield a job for each session whose summary lacks something (`manage.py backfill`)."""
    for session in sessions_to_summarize(scope.agent_id, scope.user_id, scope.since).iterator(
        chunk_size=1000
    ):
        asked = Asked(written=session.written).payload()  # type: ignore[attr-defined]
        order = Order(JOB, f"{session.pk}:backfill", {"session_id": str(session.pk), **asked})
        yield Piece(session.actor_id, order, session.message_count - session.covered)  # type: ignore[attr-defined]
