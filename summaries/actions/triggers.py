"""Enqueue summaries: on request, for sessions with an elapsed interval, and for a backfill (SPEC U2); their metrics.

The decision whether a summary is due is `summaries.domain.summaries.trigger`.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import (
    Avg,
    BooleanField,
    Count,
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
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce, Greatest
from django.utils.translation import gettext_lazy as _
from prometheus_client.core import GaugeMetricFamily

from conversations.models import Message, Session
from memoryhub.auth import audit
from memoryhub.auth.access import lock_actor
from memoryhub.auth.orders import order_of
from memoryhub.auth.principals import Forbidden, Principal, TextVerb
from memoryhub.errors import DomainError
from memoryhub.jobs.backfill import Piece, Scope
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Order, enqueue
from memoryhub.jobs.status import DatabaseCollector
from memoryhub.tenancy.policy import Trust
from summaries.actions.summaries import SummaryRequest
from summaries.domain.policy import SummaryPolicy
from summaries.domain.summaries import JOB, MIN_MESSAGES, VISIBLE_CHARACTER
from summaries.models import Summary, SummaryVersion

LOOKBACK: Final = timedelta(days=7)
"""Age of an ended session up to which it is due. Older ones were imported or given up, and `backfill` finds them."""

RETRY_AFTER: Final = timedelta(days=1)
"""Pause after a failed job, since another attempt would cost as much."""

METRICS_WINDOW: Final = timedelta(hours=24)


class NothingToSummarize(DomainError):
    """The session has no messages, or none in the time window."""

    code = "no_messages"


class SummaryLocked(DomainError):
    """The summary must be unlocked before a job writes it again."""

    code = "summary_locked"


@transaction.atomic
def enqueue_summary(
    *,
    session: Session,
    start_time: datetime | None = None,
    end_time: datetime | None = None,
    anew: bool = False,
    by: Principal,
    now: datetime,
) -> UUID:
    """Enqueue a session's summary, due or not, and return the job's id; the session's actor is loaded.

    New messages join the summary; without any, or with `anew`, it is written from the beginning; with a time window, of
    the messages in it. Repeating the request before it is fulfilled changes nothing. Raises NothingToSummarize,
    SummaryLocked, UnknownRow, and Forbidden where an untrusted key would change a trusted summary.
    """
    lock_actor(session.actor_id)
    summary = Summary.objects.of(session.actor_id).filter(session_id=session.pk).first()
    if summary is not None and summary.locked:
        raise SummaryLocked(_("A person edited this summary, which locked it; unlock it first."))
    if summary is not None and summary.trust == Trust.TRUSTED and not by.is_trusted:
        raise Forbidden(_("An untrusted key may not change trusted data; a curator can."))
    window = {"created_at__gte": start_time, "created_at__lte": end_time, "content__regex": VISIBLE_CHARACTER}
    rows = Message.objects.of([session.actor_id]).filter(session_id=session.pk).spoken()
    if not rows.filter(**{name: value for name, value in window.items() if value is not None}).exists():
        raise NothingToSummarize(_("There are no messages to summarise."))
    request = SummaryRequest(
        written=summary.written if summary else 0, anew=anew, start_time=start_time, end_time=end_time
    )
    audit.record_each(by=by, verb="order", object_kind="summary", object_ids=[session.pk], actor=session.actor, now=now)
    payload = {"session_id": str(session.pk), **request.payload()}
    # The key holds the whole request, so that neither an automatic job nor another request replaces it.
    key = ":".join(["asked", by.id, *(str(value) for value in payload.values())])
    return enqueue(JOB, actor_id=session.actor_id, key=key, payload=payload, order=order_of(by))


def sessions_to_summarize(
    agent_id: str | None = None, user_id: str | None = None, since: datetime | None = None
) -> QuerySet[Session]:
    """Return the sessions with spoken messages after their summary, of an agent, a user, or active since a time.

    In the order of their ids, with actors and agents loaded; without locked summaries, and without agents and users
    whose policy disables summaries.
    """
    sessions = Session.objects.annotate(on=policy_value("summarizes", BooleanField())).filter(on=True)
    rows = uncovered(sessions.select_related("actor__agent").order_by("id"))
    if agent_id is not None:
        rows = rows.filter(actor__agent_id=agent_id)
    if user_id is not None:
        rows = rows.filter(actor__user_id=user_id)
    return rows if since is None else rows.filter(last_message_at__gte=since)


def uncovered(sessions: QuerySet[Session]) -> QuerySet[Session]:
    """Filter to sessions with messages after their summary, annotated with its `covered` seq and `written` count."""
    own = Summary.objects.filter(actor_id=OuterRef("actor_id"), session_id=OuterRef("pk"))
    new = Message.objects.filter(
        actor_id=OuterRef("actor_id"),
        session_id=OuterRef("pk"),
        seq__gt=OuterRef("covered"),
        content__regex=VISIBLE_CHARACTER,
    ).spoken()
    covered = Coalesce(Subquery(own.values("message_count")), Value(0))
    written = Coalesce(Subquery(own.values("written")), Value(0))
    return sessions.annotate(covered=covered, written=written).filter(Exists(new), ~Q(Exists(own.filter(locked=True))))


def policy_value(key: str, field: IntegerField | BooleanField) -> Coalesce:
    """Return a policy value of a session's actor as an expression: the user's, the agent's, or the default."""
    return Coalesce(
        Cast(KeyTextTransform(key, "actor__policy"), field),
        Cast(KeyTextTransform(key, "actor__agent__policy"), field),
        Value(getattr(SummaryPolicy(), key), field),
    )


def backfill_pieces(scope: Scope) -> Iterator[Piece]:
    """Yield a job for each session with a summary that lacks messages (`manage.py backfill`)."""
    for session in sessions_to_summarize(scope.agent_id, scope.user_id, scope.since).iterator(chunk_size=1000):
        request = SummaryRequest(written=session.written).payload()  # type: ignore[attr-defined]
        order = Order(JOB, f"{session.pk}:backfill", {"session_id": str(session.pk), **request})
        yield Piece(session.actor_id, order, session.message_count - session.covered)  # type: ignore[attr-defined]


def due_sessions(now: datetime) -> QuerySet[Session]:
    """Return the sessions with new messages and an elapsed interval, the user's or the agent's, since their summary.

    Ended sessions are summarised at their end; where that failed, they are due an interval after it.
    """
    seconds = policy_value("summary_trigger_interval_seconds", IntegerField())
    allowed = ExpressionWrapper(seconds * Value(timedelta(seconds=1)), DurationField())
    own = Summary.objects.filter(actor_id=OuterRef("actor_id"), session_id=OuterRef("pk"))
    # PostgreSQL's GREATEST ignores NULL, the `ended_at` of an open session.
    since = Greatest(Coalesce(Subquery(own.values("written_at")), "started_at"), "ended_at")
    age = ExpressionWrapper(Value(now, DateTimeField()) - since, DurationField())
    rows = Session.objects.filter(Q(ended_at=None) | Q(ended_at__gt=now - LOOKBACK), message_count__gte=MIN_MESSAGES)
    rows = rows.annotate(allowed=allowed, age=age, on=policy_value("summarizes", BooleanField()))
    of_session = {"actor_id": OuterRef("actor_id"), "key": Cast(OuterRef("pk"), TextField())}
    failed = Job.objects.ended_badly().filter(kind=JOB, finished_at__gt=now - RETRY_AFTER, **of_session)
    rows = rows.filter(~Exists(failed), on=True, age__gte=F("allowed"))
    return uncovered(rows).order_by("id")


def _families(now: datetime | None) -> Iterator[GaugeMetricFamily]:
    """Yield the metrics of SPEC X11, read from the database at each scrape, since workers serve none."""
    ratio = GaugeMetricFamily(
        "session_summary_success_ratio", "Summaries written in 24 hours, of those begun that came to an end."
    )
    latency = GaugeMetricFamily(
        "session_summary_latency_seconds", "How long a summary took to write, the mean of 24 hours."
    )
    written = GaugeMetricFamily("session_summaries_written", "Summaries written in 24 hours.")
    failed = GaugeMetricFamily("session_summaries_failed", "Summaries that failed in 24 hours.")
    if now is not None:
        rows = SummaryVersion.objects.filter(verb=TextVerb.WRITE, created_at__gte=now - METRICS_WINDOW)
        figures = rows.aggregate(count=Count("pk"), seconds=Avg("seconds"))
        bad = Job.objects.ended_badly().filter(kind=JOB, finished_at__gte=now - METRICS_WINDOW).count()
        written.add_metric([], figures["count"])
        failed.add_metric([], bad)
        if figures["count"] + bad:
            ratio.add_metric([], figures["count"] / (figures["count"] + bad))
        if figures["seconds"] is not None:
            latency.add_metric([], figures["seconds"])
    yield from (ratio, latency, written, failed)


SUMMARIES = DatabaseCollector(_families)
