"""Delete messages, and whole sessions, with everything that was drawn from them (SPEC C6).

Each app registers in DERIVED what rests on its side on a message. All of it happens in one transaction under the
exclusive lock of the actor, so that no writer of the actor is between two tables; a job that read the messages before
finds `Session.deletions` changed when it wants to write, and writes nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from conversations.actions.deleted import note_deleted
from conversations.actions.receipts import forget_sources
from conversations.domain.messages import SPOKEN_ROLES
from conversations.models import ChatTurn, Message, MessageQuerySet, Receipt, Session
from memoryhub.api.idempotency import forget_answers
from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow, lock_actor
from memoryhub.auth.orders import caller_of, order_of
from memoryhub.auth.principals import Forbidden, Principal, Scope, background
from memoryhub.jobs.context import JobContext
from memoryhub.jobs.queue import enqueue
from memoryhub.tenancy.models import Actor, delete_rows
from memoryhub.tenancy.policy import Trust


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """Messages of one session that are about to be deleted; `is_whole`: with the session itself.

    With `rewrites` the session's summary is written again from what is left. With `keeps_drawn` memories, summaries and
    entries of projects stay, without the messages as sources. `taken` are the texts that leave with them, by kind,
    each with its row's id.
    """

    session: Session
    message_ids: frozenset[UUID]
    first_seq: int
    is_whole: bool
    rewrites: bool
    keeps_drawn: bool
    messages: tuple[Message, ...] = field(repr=False)
    by: Principal
    reason: str
    now: datetime
    taken: dict[str, list[tuple[UUID, str]]] = field(default_factory=dict, repr=False)

    def take(self, kind: str, texts: Iterable[tuple[UUID, str]]) -> None:
        """Note texts for the page that asks for confirmation."""
        self.taken.setdefault(kind, []).extend(texts)

    @property
    def texts(self) -> frozenset[str]:
        return frozenset(message.content for message in self.messages)

    @cached_property
    def actor(self) -> Actor:
        return self.session.actor


FORGET_KIND: Final = "forget_session"

STEP_MESSAGES: Final = 2_000
"""Messages that one transaction deletes of a whole session: about half a second, in which its user's writers wait."""

DERIVED: Final[list[Callable[[Forgotten], Mapping[str, int]]]] = []
"""Functions that delete or mark what was drawn from messages, registered by apps; they return counts by kind."""


class _Preview(Exception):
    """Rolls a deletion back after its rows were counted."""


@dataclass(frozen=True)
class Deletion:
    """Hold the numbers of deleted rows by kind, without zeros; those of a preview, or none yet for a job.

    `taken`: see `Forgotten`.
    """

    session_id: UUID
    counts: dict[str, int]
    dry_run: bool
    job_id: UUID | None = None
    taken: Mapping[str, Sequence[tuple[UUID, str]]] = field(default_factory=dict, repr=False)


def check_may_forget(by: Principal) -> None:
    """Raise Forbidden for a key of several users without the scope `curate`; for calls that need `write` otherwise."""
    if by.user_id is None and Scope.CURATE not in by.scopes:
        raise Forbidden(_("Deleting messages needs the scope `curate`, or a key of one user."))


@transaction.atomic
def forget_session(
    *, session: Session, dry_run: bool = False, by: Principal, reason: str = "", now: datetime
) -> Deletion:
    """Delete a session as `forget_messages`; a long one by a job, in which case the answer names it."""
    if dry_run or session.message_count <= STEP_MESSAGES:
        return forget_messages(session=session, chosen=None, dry_run=dry_run, by=by, reason=reason, now=now)
    lock_actor(session.actor_id)
    _check_trust(by)
    audit.record(by=by, verb="order", row=session, reason=reason, now=now)
    payload = {"session_id": str(session.pk)}
    key = f"{by.id}:{session.pk}"
    job_id = enqueue(FORGET_KIND, actor_id=session.actor_id, key=key, payload=payload, order=order_of(by))
    return Deletion(session.public_id, {}, dry_run=False, job_id=job_id)


def forget_by_job(job: JobContext, *, now: datetime) -> None:
    """Delete a long session."""
    by = caller_of(job) or background(job.kind, job.id)
    rows = Session.objects.select_related("actor__agent").filter(
        actor_id__in=[job.actor_id], pk=job.payload["session_id"]
    )
    if session := rows.first():
        forget_in_steps(session=session, chosen=None, job=job, by=by, now=now)


def forget_in_steps(
    *,
    session: Session,
    chosen: Q | None,
    keeps_drawn: bool = False,
    job: JobContext,
    by: Principal,
    reason: str = "",
    now: datetime,
) -> None:
    """Delete the chosen messages of a session from its end, a part in each step; None: all, and at last the session."""
    given: Any = {"session": session, "keeps_drawn": keeps_drawn, "by": by, "reason": reason, "now": now}
    messages = Message.objects.of([session.actor_id]).filter(chosen or Q(), session_id=session.pk).order_by("-seq")
    total, seqs = session.message_count, messages.values_list("seq", flat=True)
    while (first := seqs[STEP_MESSAGES - 1 : STEP_MESSAGES].first()) is not None:
        with job.step(done=total - first + 1, total=total, alone=True):
            forget_messages(chosen=(chosen or Q()) & Q(seq__gte=first), rewrites=False, **given)
    if chosen is None or seqs.exists():
        with job.step(done=total, total=total, alone=True):
            forget_messages(chosen=chosen, **given)


def forget_messages(
    *,
    session: Session,
    chosen: Q | None,
    dry_run: bool = False,
    rewrites: bool = True,
    keeps_drawn: bool = False,
    by: Principal,
    reason: str = "",
    now: datetime,
) -> Deletion:
    """Delete the chosen messages of a session with what rests on them; None: all, and the session.

    The numbers of other messages do not change. `rewrites` and `keeps_drawn`: see `Forgotten`. `dry_run` does the same
    and rolls it back, so that its counts are those of the deletion. Raises UnknownRow for a session or a choice without
    messages, Forbidden for an untrusted key.
    """
    counts: Counter[str] = Counter()
    taken: dict[str, list[tuple[UUID, str]]] = {}
    try:
        with transaction.atomic():
            counts.update(_forget(session, chosen, rewrites, keeps_drawn, by, reason, now, taken))
            if dry_run:
                raise _Preview
    except _Preview:
        pass
    found = {kind: count for kind, count in sorted(counts.items()) if count}
    return Deletion(session.public_id, found, dry_run, taken=taken)


def _forget(
    session: Session,
    chosen: Q | None,
    rewrites: bool,
    keeps_drawn: bool,
    by: Principal,
    reason: str,
    now: datetime,
    taken: dict[str, list[tuple[UUID, str]]],
) -> Counter[str]:
    locked, is_whole = _lock(session), chosen is None
    rows = Message.objects.of([locked.actor_id]).filter(chosen or Q(), session_id=locked.pk)
    _check_trust(by)
    forgotten = _forgotten(
        locked,
        rows,
        is_whole=is_whole,
        rewrites=rewrites and not is_whole and not keeps_drawn,
        keeps_drawn=keeps_drawn,
        by=by,
        reason=reason,
        now=now,
        taken=taken,
    )
    counts: Counter[str] = Counter()
    for delete in DERIVED:
        counts.update(delete(forgotten))
    counts.update(_forget_asked(forgotten))
    note_deleted(locked, forgotten.messages)
    forget_sources(sorted(forgotten.message_ids))
    about = [*forgotten.message_ids, *([locked.pk, locked.public_id] if is_whole else [])]
    counts["answers"] = forget_answers(actor=forgotten.actor, row_ids=about)
    counts["messages"] = delete_rows(rows.defer("content", "blocks", "metadata"))
    if is_whole:
        locked.delete()
        counts["sessions"] = 1
    else:
        _note_deletion(locked)
    details = {"messages": counts["messages"], "first_seq": forgotten.first_seq, "whole": is_whole}
    audit.record(by=by, verb="delete", row=session, actor=forgotten.actor, reason=reason, details=details, now=now)
    return counts


def _note_deletion(session: Session) -> None:
    """Count a deletion, which jobs compare, and remove the names of authors of whom nothing is left."""
    said = Message.objects.of([session.actor_id]).filter(session_id=session.pk, trust=Trust.TRUSTED)
    names = set(said.filter(role__in=SPOKEN_ROLES).values_list("author", flat=True))
    rows = Session.objects.filter(pk=session.pk, actor_id=session.actor_id)
    rows.update(deletions=F("deletions") + 1, authors=[name for name in session.authors if name in names])


def lock_alone(actor_id: UUID) -> None:
    """Lock an actor against all its writers; never after the shared lock, which others hold as well.

    What waited for the lock, and read the actor before, finds `Actor.deletions` changed.
    """
    Actor.objects.select_for_update().filter(pk=actor_id).first()
    Actor.objects.filter(pk=actor_id).update(deletions=F("deletions") + 1)


def _lock(session: Session) -> Session:
    """Lock the actor against all its writers, then the session. Raises UnknownRow."""
    lock_alone(session.actor_id)
    rows = Session.objects.select_for_update(of=["self"]).select_related("actor__agent")
    locked = rows.filter(pk=session.pk, actor_id=session.actor_id).first()
    if locked is None:
        raise UnknownRow(format_lazy(_("No session {id}."), id=session.public_id))
    return locked


def _check_trust(by: Principal) -> None:
    """Raise Forbidden for an untrusted key: what a person approved may rest on any message (SPEC M10)."""
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not change trusted data; a curator can."))


def _forgotten(
    session: Session,
    rows: MessageQuerySet,
    *,
    is_whole: bool,
    rewrites: bool,
    keeps_drawn: bool,
    by: Principal,
    reason: str,
    now: datetime,
    taken: dict[str, list[tuple[UUID, str]]],
) -> Forgotten:
    found = list(rows.order_by("seq").only("pk", "actor_id", "seq", "role", "content", "blocks", "client_message_id"))
    if not found and not is_whole:
        raise UnknownRow(_("This session has no such messages."))
    return Forgotten(
        session=session,
        message_ids=frozenset(message.pk for message in found),
        first_seq=found[0].seq if found else 1,
        is_whole=is_whole,
        rewrites=rewrites,
        keeps_drawn=keeps_drawn,
        messages=tuple(found),
        by=by,
        reason=reason,
        now=now,
        taken=taken,
    )


def _forget_asked(forgotten: Forgotten) -> Counter[str]:
    """Delete turns of deleted questions and answers, and the receipts of contexts that were asked for with them."""
    own = {"actor_id": forgotten.session.actor_id}
    turns = ChatTurn.objects.filter(Q(question__in=forgotten.message_ids) | Q(answer__in=forgotten.message_ids), **own)
    asked = [key for key in turns.values_list("receipt_id", flat=True) if key is not None]
    of_turns = Q(pk__in=asked)
    # Of a client that asks for a context, and stores the message itself.
    of_texts = Q(query__in=forgotten.texts - {""}) & (Q(session=forgotten.session.pk) | Q(session=None))
    of_session = Q(session=forgotten.session.pk) if forgotten.is_whole else Q(pk__in=[])
    deleted_turns = delete_rows(turns)
    receipts = Receipt.objects.filter(of_turns | of_texts | of_session, **own)
    return Counter(questions=deleted_turns, receipts=delete_rows(receipts.defer("items", "metadata")))


def is_unchanged(session: Session) -> bool:
    """Return whether no message was deleted since the session was read; call it after the actor was locked."""
    rows = Session.objects.filter(pk=session.pk, actor_id=session.actor_id)
    return rows.filter(deletions=session.deletions).exists()
