"""Curation of more memories than a page can wait for: ordered once, applied by a job in slices, undone as one batch.

Who ordered it and why stands in the audit trail, where the job reads it: a job's payload holds ids alone.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models.fields.json import KeyTextTransform
from django.utils.dateparse import parse_datetime
from django.utils.text import format_lazy
from django.utils.timezone import now as clock
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal, curator
from memoryhub.auth.models import AuditEntry
from memoryhub.ids import new_id
from memoryhub.jobs.context import JobContext
from memoryhub.jobs.domain import Postponed
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from strength.actions.curation import curate_many
from strength.actions.merges import undo_revisions
from strength.domain.memories import WrongState
from strength.models import Memory, MemoryRevision

KIND: Final = "curate_memories"
UNDO: Final = "undo"
OBJECT_KIND: Final = "batch"
SLICE: Final = 100
MOST_IN_BATCH: Final = 100_000
SECONDS_PER_SLICE: Final = 60.0


@transaction.atomic
def order_curation(
    *, memory_ids: Sequence[UUID], verb: str, by: Principal, reason: str, seen_at: datetime, now: datetime
) -> UUID:
    """Enqueue a transition of many memories and return its batch; what was changed after `seen_at` stays as it is.

    Raises WrongState for more than MOST_IN_BATCH.
    """
    if len(memory_ids) > MOST_IN_BATCH:
        text = _("Choose at most {most} memories at once; nothing was changed.")
        raise WrongState(format_lazy(text, most=f"{MOST_IN_BATCH:,}"))
    batch = new_id()
    _order(
        batch, verb, by, reason, now, seen_at=seen_at.isoformat(), memory_ids=[str(key) for key in memory_ids]
    )
    return batch


@transaction.atomic
def order_undo(*, batch: UUID, by: Principal, reason: str, now: datetime) -> None:
    """Enqueue the undo of a batch; it waits for the job that still applies it."""
    _order(batch, UNDO, by, reason, now)


def _order(batch: UUID, verb: str, by: Principal, reason: str, now: datetime, **more: object) -> None:
    order = new_id()
    audit.record_each(
        by=by, verb=verb, object_kind=OBJECT_KIND, object_ids=[order], reason=reason, details={"batch": str(batch)},
        now=now,
    )  # fmt: skip
    payload = {"batch": str(batch), "verb": verb, "order": str(order), **more}
    enqueue(KIND, key=str(batch), payload=payload)


def latest_job(batch: UUID) -> Any:
    """Return the job that applies or undoes a batch, annotated with its `verb`; None for an unknown batch."""
    rows = Job.objects.filter(kind=KIND, key=str(batch)).defer("payload")  # a batch's ids may be megabytes
    return rows.annotate(verb=KeyTextTransform("verb", "payload")).order_by("-created_at", "-id").first()


def run_order(job: JobContext) -> None:
    """Apply or undo a batch from where the last attempt stopped, a slice in a transaction."""
    batch, verb = UUID(job.payload["batch"]), job.payload["verb"]
    order = AuditEntry.objects.get(object_kind=OBJECT_KIND, object_id=job.payload["order"])
    by, reason = curator(order.who_id, order.who_name), order.reason
    revisions = MemoryRevision.objects.filter(batch=batch).order_by("actor_id", "memory_id", "number")
    memory_ids = job.payload.get("memory_ids", [])
    total = revisions.count() if verb == UNDO else len(memory_ids)
    for place in range(job.cursor or 0, total, SLICE):
        following = min(place + SLICE, total)
        with job.step(cursor=following, done=following, total=total):
            if verb == UNDO:
                undo_revisions(
                    revisions=revisions[place:following], batch=batch, by=by, reason=reason, now=clock()
                )
            else:
                _curate(job, memory_ids[place:following], batch=batch, by=by, reason=reason)
        if following < total and job.seconds_left < SECONDS_PER_SLICE:
            raise Postponed("There are many memories; the next attempt goes on from here.", seconds=0)


def _curate(job: JobContext, memory_ids: Sequence[str], *, batch: UUID, by: Principal, reason: str) -> None:
    rows = Memory.objects.filter(pk__in=memory_ids, updated_at__lte=parse_datetime(job.payload["seen_at"]))
    memories = list(rows.select_related("actor__agent", "actor__sleep_state", "numbers"))
    curate_many(
        memories=memories, versions={str(each.pk): each.version for each in memories}, verb=job.payload["verb"],
        by=by, reason=reason, now=clock(), batch=batch,
    )  # fmt: skip
