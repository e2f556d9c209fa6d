"""What people decide about summaries: put the text right, lock it, bring a version back, delete it (SPEC U1, U7)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from conversations.actions.receipts import forget_source
from conversations.models import Session
from memoryhub.api.idempotency import forget_answers
from memoryhub.auth import audit
from memoryhub.auth.actions import VersionMismatch
from memoryhub.auth.domain import Forbidden, Principal, PrincipalKind
from memoryhub.auth.tenancy import UnknownRow, hold
from memoryhub.errors import told
from memoryhub.jobs.followers import follow
from memoryhub.tenancy.domain import Trust
from summaries.actions.versions import TOLD, keep_version
from summaries.domain.summaries import Verb
from summaries.models import Summary, SummaryDraft, SummaryVersion


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
def restore_version(
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
        raise UnknownRow(told("No version %(number)s of this summary.", number=version.number))
    summary = _lock(summary, expected_version, by)
    for name in TOLD:
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
    follow("AFTER_SUMMARY", actor_id=summary.actor_id, session_id=summary.session_id)
    summary.delete()


def _lock(summary: Summary, expected_version: int | None, by: Principal) -> Summary:
    hold(summary.actor_id)
    mine = {"actor_id": summary.actor_id}
    # The session first, as whoever writes a summary does.
    Session.objects.select_for_update(no_key=True).filter(pk=summary.session_id, **mine).first()
    rows = Summary.objects.select_for_update(of=["self"]).select_related("actor__agent")
    locked = rows.filter(pk=summary.pk, **mine).first()
    if locked is None:
        raise UnknownRow(told("No summary %(id)s.", id=summary.pk))
    if not by.is_trusted and locked.trust == Trust.TRUSTED:
        raise Forbidden(told("An untrusted key may not touch what is believed; a curator can."))
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
    follow("AFTER_SUMMARY", actor_id=summary.actor_id, session_id=summary.session_id)
    return summary
