"""Asking for a summary by hand (SPEC U2)."""

from datetime import datetime
from uuid import UUID

from django.db import transaction

from conversations.models import Message, Session
from memoryhub.auth import audit
from memoryhub.auth.domain import Forbidden, Principal
from memoryhub.auth.tenancy import hold
from memoryhub.errors import DomainError, told
from memoryhub.jobs.queue import enqueue
from memoryhub.tenancy.domain import Trust
from summaries.actions.writing import Asked
from summaries.domain.blanks import IN_WORDS
from summaries.domain.summaries import JOB
from summaries.models import Summary


class NothingToSummarize(DomainError):
    """Nobody said anything in the session, or in the time asked for."""


class SummaryLocked(DomainError):
    """A person put the summary right; it must be unlocked before a program writes it again."""


@transaction.atomic
def order_summary(
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
        raise SummaryLocked(told("A person put this summary right; unlock it first."))
    if summary is not None and summary.trust == Trust.TRUSTED and not by.is_trusted:
        raise Forbidden(told("An untrusted key may not touch what is believed; a curator can."))
    _check_messages(session, start_time, end_time)
    asked = Asked(
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
    rows = rows.filter(content__regex=IN_WORDS)
    if start_time is not None:
        rows = rows.filter(created_at__gte=start_time)
    if end_time is not None:
        rows = rows.filter(created_at__lte=end_time)
    if not rows.exists():
        raise NothingToSummarize(told("There are no messages to summarise."))
