"""Asking for a summary by hand (SPEC U2)."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction
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
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Coalesce, Greatest
from django.utils.translation import gettext_lazy as _

from conversations.models import Message, Session
from memoryhub.auth import audit
from memoryhub.auth.domain import Forbidden, Principal
from memoryhub.auth.tenancy import hold
from memoryhub.errors import DomainError
from memoryhub.jobs.backfill import Piece, Scope
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Order, enqueue
from memoryhub.tenancy.domain import Trust
from summaries.actions.summaries import SummaryRequest
from summaries.domain.policy import SummaryPolicy
from summaries.domain.summaries import JOB, VISIBLE_CHARACTER
from summaries.models import Summary


class NothingToSummarize(DomainError):
    """Nobody said anything in the session, or in the time asked for."""


class SummaryLocked(DomainError):
    """A person put the summary right; it must be unlocked before a program writes it again."""


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

    What is new joins the summary; where nothing is, or with `anew`, it is written from the start; with a time, it is
    made of what was said then. Asking again before it is written changes nothing.
    Raises NothingToSummarize, SummaryLocked, UnknownRow where the actor was erased meanwhile, and Forbidden where an
    untrusted key would have what is believed written otherwise.
    """
    hold(session.actor_id)
    summary = Summary.objects.of(session.actor_id).filter(session_id=session.pk).first()
    if summary is not None and summary.locked:
        raise SummaryLocked(_("A person put this summary right; unlock it first."))
    if summary is not None and summary.trust == Trust.TRUSTED and not by.is_trusted:
        raise Forbidden(_("An untrusted key may not touch what is believed; a curator can."))
    _check_messages(session, start_time, end_time)
    asked = SummaryRequest(
        written=summary.written if summary else 0, anew=anew, start_time=start_time, end_time=end_time,
        is_trusted=by.is_trusted,
    )  # fmt: skip
    audit.record(
        by=by, verb="order", object_kind="summary", object_id=session.pk, actor=session.actor, now=now
    )
    payload = {"session_id": str(session.pk), **asked.payload()}
    # The key holds what is asked for, so that an automatic job, or one asked otherwise, does not stand in its place.
    key = ":".join(["asked", *(str(value) for value in payload.values())])
    return enqueue(JOB, actor_id=session.actor_id, key=key, payload=payload)


def _check_messages(session: Session, start_time: datetime | None, end_time: datetime | None) -> None:
    rows = Message.objects.of([session.actor_id]).filter(session_id=session.pk).spoken()
    rows = rows.filter(content__regex=VISIBLE_CHARACTER)
    if start_time is not None:
        rows = rows.filter(created_at__gte=start_time)
    if end_time is not None:
        rows = rows.filter(created_at__lte=end_time)
    if not rows.exists():
        raise NothingToSummarize(_("There are no messages to summarise."))


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
        content__regex=VISIBLE_CHARACTER,
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


def backfill_pieces(scope: Scope) -> Iterator[Piece]:
    """Yield a job for each session whose summary lacks something (`manage.py backfill`)."""
    for session in sessions_to_summarize(scope.agent_id, scope.user_id, scope.since).iterator(
        chunk_size=1000
    ):
        asked = SummaryRequest(written=session.written).payload()  # type: ignore[attr-defined]
        order = Order(JOB, f"{session.pk}:backfill", {"session_id": str(session.pk), **asked})
        yield Piece(session.actor_id, order, session.message_count - session.covered)  # type: ignore[attr-defined]


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
