"""Write session summaries; people edit, lock, restore and delete them (SPEC U1-U5, U7).

A job reads the session, asks the model outside any transaction, and writes once, if the summary is still the one that
it read. Two jobs, or a job and a person, may work on one session at a time; the second one starts again and mostly
finds nothing left to do.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, Self
from uuid import UUID

from django.db.models import Q
from django.utils.dateparse import parse_datetime
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.actions.forgetting import is_unchanged
from conversations.actions.generated_texts import WrittenTexts
from conversations.actions.messages import message_texts
from conversations.actions.sessions import SessionSummary
from conversations.domain.content import MAX_LABEL_LENGTH, TOOL_USE, label
from conversations.models import Message, MessageQuerySet, Session
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.orders import job_principal
from memoryhub.auth.principals import TextVerb
from memoryhub.auth.screening import Screening
from memoryhub.jobs.context import JobContext, Writes
from memoryhub.jobs.queue import enqueue_triggered
from memoryhub.jobs.retries import FIRST_PAUSE_SECONDS, Postponed
from memoryhub.llm.client import CONTENT_REFUSED, call_seconds
from memoryhub.llm.errors import ProviderRejected
from memoryhub.llm.types import Operation
from memoryhub.look_alikes import tell_apart
from memoryhub.tenancy.policies import effective_policy, zone_of
from memoryhub.tenancy.policy import Trust
from summaries.actions.summarizers import ExtractiveSummarizer, Summarizer, summarize_call, summarizer_for
from summaries.domain.policy import SummaryPolicy
from summaries.domain.summaries import (
    VISIBLE_CHARACTER,
    Call,
    Draft,
    Extent,
    Generator,
    SpokenMessage,
    Trigger,
    call_to_condense,
    next_call,
    trigger,
)
from summaries.models import Summary, SummaryDraft

CALL_SECONDS: Final = 60.0
"""Deadline of one model call, its retries included."""

RESERVE_SECONDS: Final = 10.0
"""Time reserved for writing; no call that could use it is started."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SummaryRequest:
    """Manual request for a summary: of the session up to now, from its beginning (`anew`), or of a time window.

    `written` is how often the summary had been written at the time of the request.
    """

    written: int = 0
    anew: bool = False
    is_trusted: bool = True
    start_time: datetime | None = None
    end_time: datetime | None = None

    @property
    def has_window(self) -> bool:
        return self.start_time is not None or self.end_time is not None

    def payload(self) -> dict[str, Any]:
        """Return the part that a job's payload keeps; the trust is that of the caller, which the job's row names."""
        values = {name: value for name, value in asdict(self).items() if name != "is_trusted"}
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}

    @classmethod
    def of(cls, job: JobContext) -> Self | None:
        """Return the request that a job fulfils; None where a trigger enqueued the job."""
        payload = job.payload
        if "written" not in payload:
            return None
        times = {name: payload[name] and parse_datetime(payload[name]) for name in ("start_time", "end_time")}
        is_trusted = job_principal(job).is_trusted
        return cls(written=payload["written"], anew=payload["anew"], is_trusted=is_trusted, **times)

    def is_open(self, summary: Summary | None) -> bool:
        """Return whether the request is still to be fulfilled: a summary written since fulfils it."""
        if summary is None:
            return True
        if not self.is_trusted and summary.trust == Trust.TRUSTED:
            return False
        if self.has_window or summary.written <= self.written:
            return True
        writings = summary.versions.filter(verb=TextVerb.WRITE)
        reasons = list(writings.order_by("number").values_list("reason", flat=True))
        return self.anew and Extent.ANEW not in reasons[self.written :]

    @property
    def extent(self) -> Extent | None:
        if self.has_window:
            return Extent.WINDOW
        return Extent.ANEW if self.anew else None


@dataclass(frozen=True)
class SessionState:
    """Session with its summary as a job read them, and the trigger or request that makes a summary due."""

    session: Session
    summary: Summary | None
    policy: SummaryPolicy
    trigger: Trigger | None
    request: SummaryRequest | None

    @property
    def base(self) -> tuple[UUID | None, int]:
        return _base_of(self.summary)

    @property
    def reason(self) -> str:
        return (self.request and self.request.extent) or self.trigger or ""


def _base_of(summary: Summary | None) -> tuple[UUID | None, int]:
    return (summary.pk, summary.version) if summary else (None, 0)


def summarize(*, job: JobContext, now: datetime) -> Writes | None:
    """Summarise the session of a job's payload if that is due; return the function that writes it.

    Where the model refuses the conversation, sentences are chosen from it.

    Raises ProviderError, and Postponed where one attempt has not enough time for all calls.
    """
    began = time.monotonic()
    state = _read_state(job, now)
    if state is None or state.trigger is None:
        return None
    summarizer = summarizer_for(state.session.actor, state.policy)
    try:
        draft = _summarize_all(job, state, summarizer, now)
    except ProviderRejected as error:
        if error.code != CONTENT_REFUSED:
            raise
        log.warning("the model refused; sentences are chosen", extra={"job": str(job.id)})
        summarizer = ExtractiveSummarizer(state.session.actor, state.policy)
        draft = _summarize_all(job, state, summarizer, now)
    if not draft.text:
        return None
    return lambda: _store(job, state, draft, summarizer, seconds=time.monotonic() - began, now=now)


def _read_state(job: JobContext, now: datetime) -> SessionState | None:
    session_id = UUID(job.payload["session_id"])
    assert job.actor_id is not None
    rows = Session.objects.select_related("actor__agent").filter(actor_id=job.actor_id, pk=session_id)
    session = rows.first()
    if session is None:
        return None
    summary = Summary.objects.of(session.actor_id).filter(session_id=session.pk).first()
    policy = effective_policy(SummaryPolicy, session.actor.agent, session.actor)
    request = SummaryRequest.of(job)
    if request is not None and not request.is_open(summary):
        request = None
    if summary is not None and summary.locked:
        log.info("summary is locked", extra={"job": str(job.id), "summary": str(summary.pk)})
    reason = trigger(
        policy,
        new_messages=_spoken(session, after=summary.message_count if summary else 0).count(),
        seconds_since=(now - (summary.written_at if summary else session.started_at)).total_seconds(),
        has_ended=session.ended_at is not None,
        has_summary=summary is not None,
        is_locked=summary is not None and summary.locked,
        is_asked_for=request is not None,
    )
    return SessionState(session, summary, policy, reason, request)


def _spoken(session: Session, *, after: int) -> MessageQuerySet:
    rows = Message.objects.of([session.actor_id]).filter(session_id=session.pk).spoken()
    return rows.filter(seq__gt=after, seq__lte=session.message_count, content__regex=VISIBLE_CHARACTER)


def _pending(state: SessionState, *, after: int) -> list[SpokenMessage]:
    session = state.session
    rows = Message.objects.of([session.actor_id]).filter(session_id=session.pk).spoken()
    says_something = Q(content__regex=VISIBLE_CHARACTER) | Q(blocks__contains=[{"type": TOOL_USE}])
    rows = rows.filter(says_something, seq__gt=after, seq__lte=session.message_count)
    if state.request and state.request.start_time:
        rows = rows.filter(created_at__gte=state.request.start_time)
    if state.request and state.request.end_time:
        rows = rows.filter(created_at__lte=state.request.end_time)
    rows = rows.with_tools().defer("blocks", "metadata").order_by("seq")
    return spoken_messages(session, list(rows[: state.policy.summary_max_messages]))


def spoken_messages(session: Session, messages: Sequence[Message]) -> list[SpokenMessage]:
    """Return messages of a session, loaded with their tools, as a summarizer reads them."""
    zone = zone_of(session.actor.agent, session.actor)
    names = tell_apart([label(row.author) for row in messages], most=MAX_LABEL_LENGTH)
    return [
        SpokenMessage(row.seq, row.role, names[label(row.author)], text, row.local_time(zone), Trust(row.trust))
        for row, text in zip(messages, message_texts(messages, session.actor.agent.language), strict=True)
    ]


def _seconds_left(job: JobContext) -> float:
    return min(call_seconds(Operation.SUMMARIZE, CALL_SECONDS), job.seconds_left)


def _summarize_all(job: JobContext, state: SessionState, summarizer: Summarizer, now: datetime) -> Draft:
    """Return the summary of all messages, each in exactly one call; an interrupted attempt's draft is continued."""
    draft = _saved_draft(job, state) or _first_draft(state)
    is_first = True
    while step := _next_step(state, draft, summarizer):
        if not is_first:
            _save_draft(job, state, draft, summarizer, now)
            if job.seconds_left < call_seconds(Operation.SUMMARIZE, CALL_SECONDS) + RESERVE_SECONDS:
                raise Postponed("The session is long; the next attempt goes on from here.", seconds=0)
        call, remaining = step
        call, answer = summarize_call(summarizer, call, seconds_left=partial(_seconds_left, job))
        if remaining is None:
            draft = draft.joined_by(call, text=answer.text, model=answer.model)
        else:
            draft = replace(draft, text=f"{answer.text}\n{remaining}".strip(), model=answer.model)
        is_first = False
    if state.request and state.request.has_window:
        return draft
    return replace(draft, covered=state.session.message_count)  # includes trailing messages without dialogue


def _next_step(state: SessionState, draft: Draft, summarizer: Summarizer) -> tuple[Call, str | None] | None:
    """Return the next call, None at the end; for a call that condenses a long summary, also the rest of its text."""
    pending = _pending(state, after=draft.covered)
    if not pending:
        return None
    if state.summary is not None and draft.covered == state.summary.message_count:
        condensing = call_to_condense(draft, summarizer.limits, summarizer.count)
        if condensing is not None:
            return condensing
    return next_call(draft.text, pending, summarizer.limits, summarizer.count), None


def _first_draft(state: SessionState) -> Draft:
    """Return the current summary, to be continued; an empty draft where it is written from the beginning."""
    summary, request = state.summary, state.request
    if request is not None and request.has_window:
        # The requester chose the messages, so the summary is trusted no more than the requester.
        return Draft(trust=Trust.TRUSTED if request.is_trusted else Trust.UNTRUSTED)
    if summary is None:
        return Draft()
    latest = summary.versions.exclude(verb__in=(TextVerb.LOCK, TextVerb.UNLOCK)).order_by("-number").first()
    is_of_window = latest is not None and latest.verb == TextVerb.WRITE and latest.reason == Extent.WINDOW
    has_new = _spoken(state.session, after=summary.message_count).exists()
    if is_of_window or (request is not None and (request.anew or not has_new)):
        return Draft()
    return Draft(
        text=summary.text,
        covered=summary.message_count,
        start_time=summary.start_time,
        end_time=summary.end_time,
        trust=Trust(summary.trust),
        model=summary.model,
    )


def _saved_draft(job: JobContext, state: SessionState) -> Draft | None:
    """Return the draft of an earlier attempt of this job, if the summary is unchanged since."""
    if job.cursor is None:
        return None
    rows = SummaryDraft.objects.filter(actor_id=state.session.actor_id, session_id=state.session.pk)
    saved = rows.filter(job_id=job.id, base_version=state.base[1]).first()
    return Draft(**{field.name: getattr(saved, field.name) for field in fields(Draft)}) if saved else None


def _save_draft(job: JobContext, state: SessionState, draft: Draft, summarizer: Summarizer, now: datetime) -> None:
    """Save the draft, so that an interruption costs one call and not all of them. Raises LeaseLost."""
    values = {field.name: getattr(draft, field.name) for field in fields(Draft)}
    values["text"] = Screening(state.session.actor).text(draft.text)
    values |= {"job_id": job.id, "base_version": state.base[1], "generator": summarizer.generator, "updated_at": now}
    with job.step(cursor={"covered": draft.covered}, done=draft.covered, total=state.session.message_count):
        SummaryDraft.objects.update_or_create(
            actor_id=state.session.actor_id, session_id=state.session.pk, defaults=values
        )


def _store(
    job: JobContext, state: SessionState, draft: Draft, summarizer: Summarizer, *, seconds: float, now: datetime
) -> None:
    """Write the summary and its version, and enqueue what follows, in the transaction that completes the job."""
    session = state.session
    Session.objects.select_for_update(no_key=True).filter(actor_id=session.actor_id, pk=session.pk).first()
    summary = Summary.objects.of(session.actor_id).filter(session_id=session.pk).first()
    if _base_of(summary) != state.base or not is_unchanged(session):
        raise Postponed(
            "The summary changed while this was written; it is looked at again.", seconds=FIRST_PAUSE_SECONDS
        )
    if summary is None:
        summary = Summary(session=session, created_at=now, version=0, written=0)
    summary.actor = session.actor
    summary.written += 1
    generator = summarizer.generator if draft.model else Generator.EXTRACTIVE
    summary.text, summary.message_count = draft.text, draft.covered
    assert draft.start_time is not None and draft.end_time is not None
    summary.start_time, summary.end_time = draft.start_time, draft.end_time
    summary.model, summary.generator, summary.trust = draft.model[:255], generator, draft.trust
    summary.written_at = now
    by = job_principal(job)
    SUMMARIES.save_version(summary, verb=TextVerb.WRITE, by=by, reason=state.reason, now=now, seconds=seconds)
    SummaryDraft.objects.filter(actor_id=session.actor_id, session_id=session.pk).delete()


class SummaryTexts(WrittenTexts[Summary]):
    versioned_fields = ("text", "message_count", "start_time", "end_time", "model", "generator", "trust")
    no_version = _("No version {number} of this summary.")

    def lock(self, row: Summary) -> Summary:
        # The session first, in the same order as the job.
        Session.objects.select_for_update(no_key=True).filter(pk=row.session_id, actor_id=row.actor_id).first()
        rows = Summary.objects.select_for_update(of=["self"]).select_related("actor__agent")
        locked = rows.filter(pk=row.pk, actor_id=row.actor_id).first()
        if locked is None:
            raise UnknownRow(format_lazy(_("No summary {id}."), id=row.pk))
        return locked

    def changed(self, row: Summary) -> None:
        enqueue_triggered("summary", actor_id=row.actor_id, session_ids=[row.session_id])

    def forget(self, row: Summary) -> None:
        """Delete the draft: the next trigger writes another summary, from the session's beginning."""
        SummaryDraft.objects.filter(actor_id=row.actor_id, session_id=row.session_id).delete()


SUMMARIES: Final = SummaryTexts()


def session_summary(*, actor_id: UUID, session_id: UUID) -> SessionSummary | None:
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
