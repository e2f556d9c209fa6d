"""Which sessions are due because time has passed; the decision itself is `summaries.domain.triggers`."""

from datetime import datetime, timedelta
from typing import Final

from django.db.models import (
    BooleanField,
    DateTimeField,
    DurationField,
    Exists,
    ExpressionWrapper,
    F,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    TextField,
    Value,
)
from django.db.models.functions import Cast, Coalesce, Greatest

from conversations.models import Session
from memoryhub.jobs.models import Job
from summaries.actions.backfill import policy_value, uncovered
from summaries.domain.summaries import JOB
from summaries.models import Summary

LOOKED_BACK: Final = timedelta(days=7)
"""How long after its end a session is looked at. What is older was imported, or given up; `backfill` finds it."""

REST: Final = timedelta(days=1)
"""How long a session is left alone after a job that failed: to ask at each look would cost what it cost then."""


def due_sessions(now: datetime) -> QuerySet[Session]:
    """Return the sessions whose user's, or agent's, interval has passed since their summary, with new messages.

    Those that ended are summarised at their end; where that did not succeed, they are due an interval after it.
    """
    seconds = policy_value("summary_trigger_interval_seconds", IntegerField())
    allowed = ExpressionWrapper(seconds * Value(timedelta(seconds=1)), DurationField())
    own = Summary.objects.filter(actor_id=OuterRef("actor_id"), session_id=OuterRef("pk"))
    # PostgreSQL's greatest passes over the end that an open session does not have.
    since = Greatest(Coalesce(Subquery(own.values("written_at")), "started_at"), "ended_at")
    age = ExpressionWrapper(Value(now, DateTimeField()) - since, DurationField())
    rows = Session.objects.filter(Q(ended_at=None) | Q(ended_at__gt=now - LOOKED_BACK), message_count__gt=0)
    rows = rows.annotate(allowed=allowed, age=age, on=policy_value("summarizes", BooleanField()))
    rows = rows.filter(~Exists(_given_up(now)), on=True, age__gte=F("allowed"))
    return uncovered(rows).order_by("id")


def _given_up(now: datetime) -> QuerySet[Job]:
    """Return the jobs about a session that failed a short while ago."""
    of_session = {"actor_id": OuterRef("actor_id"), "key": Cast(OuterRef("pk"), TextField())}
    return Job.objects.ended_badly().filter(kind=JOB, finished_at__gt=now - REST, **of_session)
