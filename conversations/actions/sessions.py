"""Open, end and describe sessions (SPEC C1, C5, U8)."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Max, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.models import Message, Session
from memoryhub.auth import audit
from memoryhub.auth.access import Tenant, UnknownRow, lock_actor, resolve
from memoryhub.auth.principals import Forbidden, Principal
from memoryhub.auth.screening import Screening
from memoryhub.db.prepared import PreparedQuery
from memoryhub.errors import DomainError
from memoryhub.ids import new_id
from memoryhub.jobs.queue import enqueue_triggered
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policy import Trust

SESSIONS: Final = PreparedQuery(lambda: Session.objects.order_by())


class SessionTaken(DomainError):
    """The id belongs to a session of another actor that the caller may see."""

    code = "session_taken"


@transaction.atomic
def open_session(
    *,
    actor: Actor,
    session_id: UUID | None,
    channel: str,
    title: str = "",
    metadata: Mapping[str, Any] | None = None,
    within_actor: bool = False,
    by: Principal,
    now: datetime,
) -> tuple[Session, bool]:
    """Return the actor's session with this id and whether it is new.

    Raises SessionTaken where the id belongs to another actor that the caller may see. Where it belongs to one that the
    caller may not see, or counts `within_actor`, the session gets another key, and is known to its client by this one:
    the answer is as for a free id.
    """
    lock_actor(actor.id)
    key, screening = session_id or new_id(), Screening(actor)
    texts = screening.columns(Session, {"title": title, "metadata": dict(metadata or {})})
    defaults = {"channel": channel, "started_at": now, **texts}
    session, is_new = SESSIONS.first(Q(actor_id=actor.pk) & Session.has_id([key])), False
    if session is None:
        session, is_new = Session.objects.get_or_create(pk=key, defaults={**defaults, "actor": actor})
    if session.actor_id != actor.id:
        if not within_actor:
            _check_not_taken(by, key)
        session, is_new = Session.objects.get_or_create(actor=actor, client_id=key, defaults=defaults)
    session.actor = actor
    if is_new:
        audit.record(by=by, verb="open", row=session, now=now)
        screening.record(by=by, row=session, now=now)
    return session, is_new


def _check_not_taken(by: Principal, key: UUID) -> None:
    with suppress(UnknownRow):
        resolve(Session.objects.all(), by, key)
        raise SessionTaken(format_lazy(_("The session {key} belongs to another agent or user."), key=key))


@transaction.atomic
def update_session(*, session: Session, values: Mapping[str, Any], by: Principal, now: datetime) -> Session:
    """Change title or metadata. Raises UnknownRow where it was deleted, Forbidden for an untrusted key."""
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not change trusted data; a curator can."))
    lock_actor(session.actor_id)
    screening = Screening(session.actor)
    changed = {name: values[name] for name in ("title", "metadata") if name in values}
    changed = screening.columns(Session, changed)
    rows = Session.objects.filter(pk=session.pk, actor_id=session.actor_id)
    if changed and not rows.update(**changed):
        raise UnknownRow(format_lazy(_("No session {id}."), id=session.public_id))
    if changed:
        audit.record(by=by, verb="update", row=session, details={"fields": sorted(changed)}, now=now)
        screening.record(by=by, row=session, now=now)
    session.refresh_from_db()
    return session


@transaction.atomic
def end_session(*, session: Session, by: Principal, now: datetime, only_if_silent: bool = False) -> Session:
    """End a session; ending it again changes nothing. Raises UnknownRow where it was erased concurrently.

    With `only_if_silent`, a session with messages since the caller read it stays open.
    """
    lock_actor(session.actor_id)
    rows = Session.objects.filter(pk=session.pk, actor_id=session.actor_id, ended_at=None)
    if only_if_silent:
        rows = rows.filter(message_count=session.message_count)
    if rows.update(ended_at=now):
        audit.record(by=by, verb="end", row=session, now=now)
        enqueue_triggered("session", actor_id=session.actor_id, session_ids=[session.pk], lane=by.id)
    session.refresh_from_db(fields=["ended_at", "message_count", "last_message_at"])
    return session


def session_stats(*, session: Session) -> dict[str, Any]:
    """Return counts, times and the summary state of a session; times are None while it has no messages."""
    messages = Message.objects.filter(actor_id=session.actor_id, session_id=session.pk)
    times = messages.aggregate(first=Min("created_at"), last=Max("created_at"))
    first, last = times["first"], times["last"]
    summary = session_summary(actor_id=session.actor_id, session_id=session.pk)
    return {
        "session_id": session.pk,
        "message_count": session.message_count,
        "first_message_time": first,
        "last_message_time": last,
        "duration_seconds": int((last - first).total_seconds()) if first and last else None,
        "has_summary": summary is not None,
        "last_summary_time": summary.updated_at if summary else None,
    }


def users_of(tenant: Tenant) -> QuerySet[Actor]:
    """Return an agent's users with counts and last activity; of a tenant with a user, that one alone."""
    own = Session.objects.filter(actor_id=OuterRef("pk")).order_by().values("actor_id")
    said = Message.objects.filter(actor_id=OuterRef("pk")).order_by().values("actor_id")
    actors = Actor.objects.filter(agent_id=tenant.agent_id).exclude(user_id="")
    return (actors.filter(pk=tenant.actor_id) if tenant.user_id else actors).annotate(
        session_count=Coalesce(Subquery(own.annotate(count=Count("pk")).values("count")), 0),
        message_count=Coalesce(Subquery(said.annotate(count=Count("pk")).values("count")), 0),
        last_message_at=Subquery(own.annotate(last=Max("last_message_at")).values("last")),
    )


@dataclass(frozen=True)
class SessionSummary:
    """The current summary of a session; `message_count` is the last `seq` that it covers."""

    session_id: UUID
    text: str = field(repr=False)
    trust: Trust
    message_count: int
    generator: str
    updated_at: datetime


SUMMARY_SOURCES: Final[list[Callable[..., SessionSummary | None]]] = []
"""Functions that return a session's summary, registered by apps; the last one is used."""


def session_summary(*, actor_id: UUID, session_id: UUID) -> SessionSummary | None:
    """Return a session's summary; None where there is none, or no app writes summaries."""
    return SUMMARY_SOURCES[-1](actor_id=actor_id, session_id=session_id) if SUMMARY_SOURCES else None
