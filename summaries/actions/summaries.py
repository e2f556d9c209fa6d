"""Writing a session's summary: read how it stands, decide, ask without any transaction, and write once (SPEC U1–U5).

What was worked out counts only where the summary is still the one it was made from. Two jobs, or a job and a person,
may work on one session at a time; whoever is second looks again and mostly finds nothing left to do.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Final, Self
from uuid import UUID

from django.db import transaction
from django.utils.dateparse import parse_datetime
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.actions.receipts import forget_source
from conversations.actions.sessions import SessionSummary
from conversations.models import Message, MessageQuerySet, Session
from memoryhub.api.idempotency import forget_answers
from memoryhub.auth import audit
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.domain import Forbidden, Principal, PrincipalKind, job_principal
from memoryhub.auth.tenancy import UnknownRow, hold
from memoryhub.jobs.context import JobContext, Writes
from memoryhub.jobs.domain import FIRST_PAUSE_SECONDS, Postponed
from memoryhub.jobs.queue import enqueue_triggered
from memoryhub.tenancy.domain import Trust
from memoryhub.tenancy.policies import effective_policy
from summaries.actions.summarizers import Summarizer, summarize_call, summarizer_for
from summaries.domain.policy import SummaryPolicy
from summaries.domain.rolling import Call, Draft, SpokenMessage, call_to_condense, next_call
from summaries.domain.summaries import VISIBLE_CHARACTER, Extent, SessionActivity, Trigger, Verb, trigger
from summaries.models import Summary, SummaryDraft, SummaryVersion

CALL_SECONDS: Final = 60.0
"""How long one question to the model may take, its retries included."""

RESERVE_SECONDS: Final = 10.0
"""What is left of a job's time when no further question is begun."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SummaryRequest:
    """That somebody asked for a summary by hand: from the start, or of a time alone.

    `written` is how often it had been written by then: one that was written since is what they asked for.
    """

    written: int = 0
    anew: bool = False
    is_trusted: bool = True
    start_time: datetime | None = None
    end_time: datetime | None = None

    @property
    def has_window(self) -> bool:
        """Whether only a part of the session is wanted."""
        return self.start_time is not None or self.end_time is not None

    def payload(self) -> dict[str, Any]:
        """Return it as a job's payload holds it."""
        return {
            "written": self.written,
            "anew": self.anew,
            "is_trusted": self.is_trusted,
            "start_time": self.start_time.isoformat() if self.start_time else None,
            "end_time": self.end_time.isoformat() if self.end_time else None,
        }

    @classmethod
    def of(cls, payload: Any) -> Self | None:
        """Return what a job's payload holds; None where nobody asked."""
        if "written" not in payload:
            return None
        times = {name: payload[name] and parse_datetime(payload[name]) for name in ("start_time", "end_time")}
        is_trusted = payload.get("is_trusted", True)
        return cls(written=payload["written"], anew=payload["anew"], is_trusted=is_trusted, **times)

    def is_open(self, summary: Summary | None) -> bool:
        """Whether what was asked for is still to be done, the summary being what it is by now."""
        if summary is None:
            return True
        if not self.is_trusted and summary.trust == Trust.TRUSTED:
            return False
        if self.has_window or summary.written <= self.written:
            return True
        return self.anew and Extent.ANEW not in _reasons(summary)[self.written :]


@dataclass(frozen=True)
class SessionState:
    """A session as it stands when a job looks at it."""

    session: Session
    summary: Summary | None
    policy: SummaryPolicy
    trigger: Trigger | None
    asked: SummaryRequest | None

    @property
    def base(self) -> tuple[UUID | None, int]:
        """The summary that the work is based on; it must still be this one when the result is written."""
        return (self.summary.pk, self.summary.version) if self.summary else (None, 0)


def summarize(*, job: JobContext, now: datetime) -> Writes | None:
    """Summarise the session of a job's payload if that is due; return what writes it.

    Raises ProviderError, and Postponed where there is more to ask than one attempt has time for.
    """
    began = time.monotonic()
    found = _look(job, now)
    if found is None or found.trigger is None:
        return None
    writer = summarizer_for(found.session.actor, found.policy)
    draft = _written(job, found, writer, now)
    if not draft.text:
        return None
    return lambda: _store(job, found, draft, writer, seconds=time.monotonic() - began, now=now)


def _look(job: JobContext, now: datetime) -> SessionState | None:
    session_id = UUID(job.payload["session_id"])
    assert job.actor_id is not None
    rows = Session.objects.select_related("actor__agent").filter(actor_id=job.actor_id, pk=session_id)
    session = rows.first()
    if session is None:
        return None
    summary = Summary.objects.of(session.actor_id).filter(session_id=session.pk).first()
    policy = effective_policy(SummaryPolicy, session.actor.agent, session.actor)
    asked = SummaryRequest.of(job.payload)
    standing = _standing(session, summary, asked, now)
    if standing.is_locked:
        log.info("summary is locked", extra={"job": str(job.id), "summary": str(summary and summary.pk)})
    return SessionState(
        session, summary, policy, trigger(standing, policy), asked if standing.is_asked_for else None
    )


def _standing(
    session: Session, summary: Summary | None, asked: SummaryRequest | None, now: datetime
) -> SessionActivity:
    since = summary.written_at if summary else session.started_at
    return SessionActivity(
        new_messages=_spoken(session, after=summary.message_count if summary else 0).count(),
        seconds_since=(now - since).total_seconds(),
        has_ended=session.ended_at is not None,
        is_locked=summary is not None and summary.locked,
        is_asked_for=asked is not None and asked.is_open(summary),
    )


def _spoken(session: Session, *, after: int) -> MessageQuerySet:
    """Return what people and assistants said in words after a `seq`, and before the session was looked at."""
    rows = Message.objects.of([session.actor_id]).filter(session_id=session.pk).spoken()
    return rows.filter(seq__gt=after, seq__lte=session.message_count, content__regex=VISIBLE_CHARACTER)


def _reasons(summary: Summary) -> list[str]:
    """Return why the summary was written, each time that it was."""
    rows = SummaryVersion.objects.filter(actor_id=summary.actor_id, summary=summary, verb=Verb.WRITE)
    return list(rows.order_by("number").values_list("reason", flat=True))


def _wanted(found: SessionState, *, after: int) -> MessageQuerySet:
    rows = _spoken(found.session, after=after)
    if found.asked and found.asked.start_time:
        rows = rows.filter(created_at__gte=found.asked.start_time)
    if found.asked and found.asked.end_time:
        rows = rows.filter(created_at__lte=found.asked.end_time)
    return rows.order_by("seq").only("seq", "role", "author", "content", "created_at", "trust")


def _written(job: JobContext, found: SessionState, writer: Summarizer, now: datetime) -> Draft:
    """Return the summary with all messages in it, each in exactly one call; what a break left is gone on from."""
    draft = _kept(job, found) or _beginning(found)
    is_first = True
    while step := _next_step(found, draft, writer):
        if not is_first:
            _keep(job, found, draft, writer, now)
            _check_time(job)
        call, done = summarize_call(writer, step[0], seconds_left=lambda: min(CALL_SECONDS, job.seconds_left))
        if step[1] is None:
            draft = draft.joined_by(call, text=done.text, model=done.model)
        else:
            draft = draft.condensed_to(f"{done.text}\n{step[1]}".strip(), model=done.model)
        is_first = False
    return draft if found.asked and found.asked.has_window else _up_to_the_end(draft, found)


def _next_step(found: SessionState, draft: Draft, writer: Summarizer) -> tuple[Call, str | None] | None:
    """Return what to ask next, None at the end; with it what is left of a summary that is condensed first."""
    waiting = _waiting(found, after=draft.covered)
    if not waiting:
        return None
    if found.summary is not None and draft.covered == found.summary.message_count:
        condensing = call_to_condense(draft, writer.limits, writer.count)
        if condensing is not None:
            return condensing
    return next_call(draft.text, waiting, writer.limits, writer.count), None


def _up_to_the_end(draft: Draft, found: SessionState) -> Draft:
    """Return the draft as covering what was not spoken at the end as well."""
    return replace(draft, covered=found.session.message_count)


def _waiting(found: SessionState, *, after: int) -> list[SpokenMessage]:
    """Return the next messages, no more than one call may hold; none at the end."""
    rows = _wanted(found, after=after)[: found.policy.summary_max_messages]
    return [
        SpokenMessage(row.seq, row.role, row.author, row.content, row.created_at, Trust(row.trust))
        for row in rows
    ]


def _beginning(found: SessionState) -> Draft:
    """Return the summary as it is, to roll forward from; an empty one where it is written from the start."""
    summary, asked = found.summary, found.asked
    if asked is not None and asked.has_window:
        # Who chose the time, chose what is told: no more is believed of it than of them.
        return Draft(trust=Trust.TRUSTED if asked.is_trusted else Trust.UNTRUSTED)
    if summary is None or _is_of_a_time(summary):
        return Draft()
    if asked is not None and (asked.anew or not _spoken(found.session, after=summary.message_count).exists()):
        return Draft()
    return Draft(
        text=summary.text,
        covered=summary.message_count,
        start_time=summary.start_time,
        end_time=summary.end_time,
        trust=Trust(summary.trust),
        model=summary.model,
    )


def _is_of_a_time(summary: Summary) -> bool:
    """Whether the text was made of a part of the session: what else was said is not in it, however many it covers."""
    rows = SummaryVersion.objects.filter(actor_id=summary.actor_id, summary=summary)
    told = rows.exclude(verb__in=(Verb.LOCK, Verb.UNLOCK)).order_by("-number").first()
    return told is not None and told.verb == Verb.WRITE and told.reason == Extent.WINDOW


def _reason(found: SessionState) -> str:
    asked = found.asked
    if asked is not None and (asked.has_window or asked.anew):
        return Extent.WINDOW if asked.has_window else Extent.ANEW
    return found.trigger.value if found.trigger else ""


def _kept(job: JobContext, found: SessionState) -> Draft | None:
    """Return what an earlier attempt of this job has written, where nothing has changed under it."""
    if job.cursor is None:
        return None
    rows = SummaryDraft.objects.filter(actor_id=found.session.actor_id, session_id=found.session.pk)
    kept = rows.filter(job_id=job.id, base_version=found.base[1]).first()
    if kept is None:
        return None
    return Draft(**{each.name: getattr(kept, each.name) for each in fields(Draft)})


def _keep(job: JobContext, found: SessionState, draft: Draft, writer: Summarizer, now: datetime) -> None:
    """Keep a part of the work, so that a break costs one question and not all of them. Raises LeaseLost."""
    values = {each.name: getattr(draft, each.name) for each in fields(Draft)}
    values |= {"job_id": job.id, "base_version": found.base[1], "updated_at": now}
    whose: dict[str, Any] = {"actor_id": found.session.actor_id, "session_id": found.session.pk}
    total = found.session.message_count
    with job.step(cursor={"covered": draft.covered}, done=draft.covered, total=total):
        SummaryDraft.objects.update_or_create(**whose, defaults={**values, "generator": writer.generator})


def _check_time(job: JobContext) -> None:
    if job.seconds_left < CALL_SECONDS + RESERVE_SECONDS:
        raise Postponed("The session is long; the next attempt goes on from here.", seconds=0)


def _store(
    job: JobContext, found: SessionState, draft: Draft, writer: Summarizer, *, seconds: float, now: datetime
) -> None:
    """Write the summary, its version and what follows; in the transaction that says that the job is done."""
    session = found.session
    summary = _locked(found, now)
    summary.text, summary.message_count = draft.text, draft.covered
    assert draft.start_time is not None and draft.end_time is not None
    summary.start_time, summary.end_time = draft.start_time, draft.end_time
    summary.model, summary.generator, summary.trust = draft.model[:255], writer.generator, draft.trust
    summary.written_at = summary.updated_at = now
    summary.save()
    by = job_principal(job.kind, job.id)
    keep_version(summary=summary, verb=Verb.WRITE, by=by, reason=_reason(found), seconds=seconds, now=now)
    SummaryDraft.objects.filter(actor_id=session.actor_id, session_id=session.pk).delete()
    enqueue_triggered("summary", actor_id=session.actor_id, session_id=session.pk)


def _locked(found: SessionState, now: datetime) -> Summary:
    """Return the summary to be written, its session locked. Raises Postponed where it is another than was read."""
    session = found.session
    Session.objects.select_for_update(no_key=True).filter(actor_id=session.actor_id, pk=session.pk).first()
    current = Summary.objects.of(session.actor_id).filter(session_id=session.pk).first()
    if ((current.pk, current.version) if current else (None, 0)) != found.base:
        raise Postponed(
            "The summary changed while this was written; it is looked at again.", seconds=FIRST_PAUSE_SECONDS
        )
    if current is None:
        return Summary(actor=session.actor, session=session, created_at=now)
    current.actor = session.actor
    current.version += 1
    current.written += 1
    return current


VERSIONED_FIELDS: Final = ("text", "message_count", "start_time", "end_time", "model", "generator", "trust")
"""What a version brings back when it is restored."""


def keep_version(
    *,
    summary: Summary,
    verb: Verb,
    by: Principal,
    reason: str = "",
    seconds: float | None = None,
    now: datetime,
) -> SummaryVersion:
    """Write down a change that was just made to a locked row."""
    version = SummaryVersion.objects.create(
        actor_id=summary.actor_id,
        summary=summary,
        number=summary.version,
        verb=verb,
        locked=summary.locked,
        who_kind=by.kind,
        who_id=by.id,
        who_name=by.name[:150],
        reason=reason,
        seconds=seconds,
        created_at=now,
        **{name: getattr(summary, name) for name in VERSIONED_FIELDS},
    )
    audit.record(
        by=by, verb=verb, object_kind="summary", object_id=summary.pk, actor=summary.actor, reason=reason, now=now
    )  # fmt: skip
    return version


@transaction.atomic
def edit_summary(
    *,
    summary: Summary,
    values: Mapping[str, Any],
    expected_version: int | None,
    by: Principal,
    reason: str = "",
    now: datetime,
) -> Summary:
    """Change `text` or `locked`; a new text locks the summary unless the values say otherwise.

    Raises VersionMismatch, UnknownRow, and Forbidden where an untrusted key would touch what is believed.
    """
    summary = _lock(summary, expected_version, by)
    is_new_text = values.get("text", summary.text) != summary.text
    locked = values.get("locked", summary.locked or is_new_text)
    if not is_new_text and locked == summary.locked:
        return summary
    if is_new_text:
        summary.text = values["text"]
        summary.trust = _trust_of(summary, by)
    verb = Verb.EDIT if is_new_text else Verb.LOCK if locked else Verb.UNLOCK
    summary.locked = locked
    return _changed(summary, verb, by, reason, now)


@transaction.atomic
def restore_summary(
    *,
    summary: Summary,
    version: SummaryVersion,
    expected_version: int | None,
    by: Principal,
    reason: str = "",
    now: datetime,
) -> Summary:
    """Bring back what a version says and covers, and lock it: what was said since joins once it is unlocked.

    Raises as `edit_summary`.
    """
    if version.summary_id != summary.pk:
        raise UnknownRow(format_lazy(_("No version {number} of this summary."), number=version.number))
    summary = _lock(summary, expected_version, by)
    for name in VERSIONED_FIELDS:
        setattr(summary, name, getattr(version, name))
    if not by.is_trusted:
        summary.trust = Trust.UNTRUSTED
    summary.locked = True
    return _changed(summary, Verb.RESTORE, by, reason, now)


@transaction.atomic
def delete_summary(
    *, summary: Summary, expected_version: int | None, by: Principal, reason: str = "", now: datetime
) -> None:
    """Delete a summary with its versions; its text leaves receipts and recorded answers too. Raises as `edit_summary`.

    The next trigger writes another, from the session's beginning.
    """
    summary = _lock(summary, expected_version, by)
    forget_source(source_id=summary.pk)
    forget_answers(actor=summary.actor, row_id=summary.pk)
    SummaryDraft.objects.filter(actor_id=summary.actor_id, session_id=summary.session_id).delete()
    audit.record(
        by=by, verb=Verb.DELETE, object_kind="summary", object_id=summary.pk, actor=summary.actor, reason=reason,
        now=now,
    )  # fmt: skip
    enqueue_triggered("summary", actor_id=summary.actor_id, session_id=summary.session_id)
    summary.delete()


def _lock(summary: Summary, expected_version: int | None, by: Principal) -> Summary:
    hold(summary.actor_id)
    mine = {"actor_id": summary.actor_id}
    # The session first, as whoever writes a summary does.
    Session.objects.select_for_update(no_key=True).filter(pk=summary.session_id, **mine).first()
    rows = Summary.objects.select_for_update(of=["self"]).select_related("actor__agent")
    locked = rows.filter(pk=summary.pk, **mine).first()
    if locked is None:
        raise UnknownRow(format_lazy(_("No summary {id}."), id=summary.pk))
    if not by.is_trusted and locked.trust == Trust.TRUSTED:
        raise Forbidden(_("An untrusted key may not touch what is believed; a curator can."))
    if expected_version is not None and locked.version != expected_version:
        raise VersionMismatch(locked.version)
    return locked


def _trust_of(summary: Summary, by: Principal) -> str:
    """Return the trust of a text from this hand: a curator vouches for it, a client's is never above what it was."""
    if by.kind is PrincipalKind.CURATOR:
        return Trust.TRUSTED
    return summary.trust if by.is_trusted else Trust.UNTRUSTED


def _changed(summary: Summary, verb: Verb, by: Principal, reason: str, now: datetime) -> Summary:
    summary.version += 1
    summary.updated_at = now
    summary.save()
    keep_version(summary=summary, verb=verb, by=by, reason=reason, now=now)
    enqueue_triggered("summary", actor_id=summary.actor_id, session_id=summary.session_id)
    return summary


@transaction.atomic
def undo_summary_change(
    *,
    summary: Summary,
    number: int,
    expected_version: int | None,
    by: Principal,
    reason: str = "",
    now: datetime,
) -> Summary:
    """Bring back what a summary was at a version, and whether it was locked. Raises as `edit_summary`."""
    versions = SummaryVersion.objects.filter(actor_id=summary.actor_id, summary=summary)
    version = versions.filter(number=number).first()
    if version is None:
        raise UnknownRow(_("There is no such version."))
    restored = restore_summary(
        summary=summary, version=version, expected_version=expected_version, by=by, reason=reason, now=now
    )
    return edit_summary(
        summary=restored, values={"locked": version.locked}, expected_version=None, by=by, reason=reason, now=now
    )  # fmt: skip


def session_summary(*, actor_id: UUID, session_id: UUID) -> SessionSummary | None:
    """Return a session's summary as it is now; None where there is none yet."""
    summary = Summary.objects.of(actor_id).filter(session_id=session_id).first()
    if summary is None:
        return None
    return SessionSummary(
        session_id=summary.session_id,
        text=summary.text,
        trust=Trust(summary.trust),
        message_count=summary.message_count,
        generator=summary.generator,
        updated_at=summary.updated_at,
    )
