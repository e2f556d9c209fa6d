"""Which sessions are due because time has passed; the decision itself is `summaries.domain.triggers`."""

from datetime import datetime, timedelta

from django.db.models import (
    BooleanField,
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
)
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce

from conversations.models import Session
from summaries.actions.backfill import uncovered
from summaries.domain.policy import SummaryPolicy
from summaries.models import Summary


def due_sessions(now: datetime) -> QuerySet[Session]:
    """Return the open sessions whose user's, or agent's, interval has passed since their summary, with new messages.

    Sessions that ended were summarised at their end; one that a job gave up on is told by that job.
    """
    defaults = SummaryPolicy()
    seconds = _policy("summary_trigger_interval_seconds", IntegerField(), defaults)
    allowed = ExpressionWrapper(seconds * Value(timedelta(seconds=1)), DurationField())
    own = Summary.objects.filter(actor_id=OuterRef("actor_id"), session_id=OuterRef("pk"))
    since = Coalesce(Subquery(own.values("written_at")), "started_at")
    age = ExpressionWrapper(Value(now, DateTimeField()) - since, DurationField())
    rows = Session.objects.filter(ended_at=None, message_count__gt=0)
    rows = rows.annotate(allowed=allowed, age=age, on=_policy("summarizes", BooleanField(), defaults))
    return uncovered(rows.filter(Q(on=True), age__gte=F("allowed"))).order_by("id")


def _policy(key: str, field: IntegerField | BooleanField, defaults: SummaryPolicy) -> Coalesce:
    """Return a policy value as it holds for a session's actor: user, agent, default."""
    return Coalesce(
        Cast(KeyTextTransform(key, "actor__policy"), field),
        Cast(KeyTextTransform(key, "actor__agent__policy"), field),
        Value(getattr(defaults, key), field),
    )
