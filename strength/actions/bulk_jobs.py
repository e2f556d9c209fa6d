"""Curation of large selections: enqueued once, applied by a job in slices, undone as one batch.

A deletion has no undo. The job reads the principal and the reason from the audit trail; its payload holds
ids and labels.
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.db.models.fields.json import KeyTextTransform
from django.utils.dateparse import parse_datetime
from django.utils.text import format_lazy
from django.utils.timezone import now as clock
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.orders import caller_of, order_of
from memoryhub.auth.principals import Forbidden, Principal
from memoryhub.auth.screening import Screening
from memoryhub.ids import new_id
from memoryhub.jobs.context import JobContext
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.jobs.retries import ENDED_BADLY, Postponed, State
from memoryhub.tenancy.models import Actor
from strength.actions.curation import RELABEL, RELABELLED, TRANSITIONS
from strength.actions.curation_sets import SET_FIELDS, curate_many, delete_many, relabel_many, undo_many
from strength.domain.memories import Labels, WrongState
from strength.models import Memory, MemoryQuerySet, MemoryRevision

JOB_KIND: Final = "curate_memories"
UNDO: Final = "undo"
DELETE: Final = "delete"
OBJECT_KIND: Final = "batch"
SLICE_SIZE: Final = 1_000
MAX_BULK_SIZE: Final = 100_000
SECONDS_PER_SLICE: Final = 60.0


@transaction.atomic
def enqueue_curation(
    *,
    memory_ids: Sequence[UUID],
    verb: str,
    by: Principal,
    reason: str,
    seen_at: datetime,
    now: datetime,
    actor: Actor | None = None,
    labels: Labels | None = None,
) -> UUID:
    """Enqueue a transition of many memories, new `labels` of them or their deletion, and return its batch.

    What was changed after `seen_at` stays as it is. All are the `actor`'s, where one is named. Raises WrongState for
    more than MAX_BULK_SIZE, Forbidden for an untrusted key.
    """
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not change many memories at once; a curator can."))
    if len(memory_ids) > MAX_BULK_SIZE:
        text = _("Choose at most {most} memories at once; nothing was changed.")
        raise WrongState(format_lazy(text, most=f"{MAX_BULK_SIZE:,}"))
    batch = new_id()
    payload: dict[str, Any] = {"seen_at": seen_at.isoformat(), "memory_ids": [str(key) for key in memory_ids]}
    if labels is not None:
        payload["labels"] = Screening(actor).json(asdict(labels.without_removed_texts()))
    _enqueue(batch, verb, by, reason, now, actor, **payload)
    return batch


@transaction.atomic
def enqueue_undo(*, batch: UUID, by: Principal, reason: str, now: datetime, actor: Actor | None = None) -> None:
    """Enqueue the undo of a batch; it waits for the job that still applies it.

    Raises WrongState for one that has not begun, that is undone already, or that deleted, Forbidden for an untrusted
    key.
    """
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not undo a decision; a curator can."))
    job = latest_job(batch)
    if job is not None and job.verb == DELETE:
        raise WrongState(_("Deleted memories cannot be restored, except by importing an export."))
    is_undone = job is not None and job.verb == UNDO and job.state not in ENDED_BADLY
    if is_undone or (job is not None and job.state == State.QUEUED):
        raise WrongState(_("The batch is not applied yet, or was undone already; see its state."))
    _enqueue(batch, UNDO, by, reason, now, actor)


def _enqueue(
    batch: UUID, verb: str, by: Principal, reason: str, now: datetime, actor: Actor | None, **more: object
) -> None:
    order = new_id()
    audit.record_each(
        by=by,
        verb=verb,
        object_kind=OBJECT_KIND,
        object_ids=[order],
        actor=actor,
        reason=reason,
        details={"batch": str(batch)},
        now=now,
    )
    payload = {"batch": str(batch), "verb": verb, "order": str(order), **more}
    enqueue(JOB_KIND, actor_id=actor.pk if actor else None, key=str(batch), payload=payload, order=order_of(by))


def filter_changing(rows: MemoryQuerySet, verb: str) -> MemoryQuerySet:
    """Filter by what a transition would change; a deletion changes all, and labels are compared by the job."""
    if verb == DELETE:
        return rows
    if verb == RELABEL:
        return rows.filter(status__in=RELABELLED)
    transition = TRANSITIONS[verb]
    return rows.filter(status__in=transition.allowed).exclude(**transition.sets)


def count_changed(job: Job, batch: UUID) -> int:
    """Count the memories that a batch has changed, or deleted, so far."""
    owner = Q(actor_id=job.actor_id) if job.actor_id else Q()
    if job.payload["verb"] == DELETE:
        processed = job.payload["memory_ids"][: job.progress_done or 0]
        return len(processed) - Memory.objects.filter(owner, pk__in=processed).count()
    return MemoryRevision.objects.filter(owner, batch=batch).count()


def latest_job(batch: UUID) -> Any:
    """Return the job that applies or undoes a batch, annotated with its `verb`; None for an unknown batch."""
    rows = Job.objects.filter(kind=JOB_KIND, key=str(batch)).defer("payload")  # ids may be megabytes
    return rows.annotate(verb=KeyTextTransform("verb", "payload")).order_by("-created_at", "-id").first()


def run_batch(job: JobContext) -> None:
    """Apply or undo a batch from where the last attempt stopped, a slice in a transaction.

    The caller's rights are read for each slice, as they may be lost during minutes of work. Raises OrderLapsed.
    """
    batch, verb = UUID(job.payload["batch"]), job.payload["verb"]
    # The reason is a person's words, which must not be stored in a job.
    reason = AuditEntry.objects.get(object_kind=OBJECT_KIND, object_id=job.payload["order"]).reason
    rows = MemoryRevision.objects.filter(batch=batch).defer("after", "changed_after")
    revisions = rows.order_by("actor_id", "memory_id", "number")
    memory_ids = job.payload.get("memory_ids", [])
    total = revisions.count() if verb == UNDO else len(memory_ids)
    for start in range(job.cursor or 0, total, SLICE_SIZE):
        end, by = min(start + SLICE_SIZE, total), caller_of(job)
        assert by is not None, "only callers order it"
        with job.step(cursor=end, done=end, total=total):
            if verb == UNDO:
                undo_many(revisions=revisions[start:end], batch=batch, by=by, reason=reason, now=clock())
            else:
                _curate(job, memory_ids[start:end], batch=batch, by=by, reason=reason)
        if end < total and job.seconds_left < SECONDS_PER_SLICE:
            raise Postponed("There are many memories; the next attempt goes on from here.", seconds=0)


def _curate(job: JobContext, memory_ids: Sequence[str], *, batch: UUID, by: Principal, reason: str) -> None:
    rows = Memory.objects.filter(pk__in=memory_ids, updated_at__lte=parse_datetime(job.payload["seen_at"]))
    memories = list(rows.only("actor", "version", *SET_FIELDS))  # other columns are loaded for the few that need them
    actors = Actor.objects.select_related("agent").in_bulk({memory.actor_id for memory in memories})
    for memory in memories:  # a prefetch takes as long as the change itself
        memory.actor = actors[memory.actor_id]
    if job.payload["verb"] == DELETE:
        delete_many(memories=memories, by=by, reason=reason, now=clock())
        return
    versions = {str(memory.pk): memory.version for memory in memories}
    change: dict[str, Any] = {"by": by, "reason": reason, "now": clock(), "batch": batch}
    if job.payload["verb"] == RELABEL:
        given = job.payload["labels"]
        tags = {name: tuple(given.get(name, ())) for name in ("add_tags", "remove_tags", "remove_digests")}
        relabel_many(memories=memories, versions=versions, labels=Labels(**{**given, **tags}), **change)
        return
    curate_many(memories=memories, versions=versions, verb=job.payload["verb"], **change)
