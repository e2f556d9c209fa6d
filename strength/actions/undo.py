"""Undo batches: curated changes, decisions about merges, and sleeps (SPEC M9, S6, W1, W2)."""

from datetime import datetime
from uuid import UUID

from django.db import connection, transaction
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.domain import Forbidden, Principal
from strength.actions.merges import CannotMerge, exclude_from_sleep_undo, reopen_merge, undo_merge
from strength.actions.revisions import BatchResult, undo_revision
from strength.actions.sleep import lock_state, move_memories, restore_clock, store_state
from strength.actions.sleep_runs import archive_revisions
from strength.actions.tombstones import find_tombstone
from strength.domain.memories import Status, WrongState
from strength.domain.sleep import MergeState, RunState
from strength.models import Memory, MemoryNumbers, MemoryRevision, Merge, SleepRun, SleepState, Tombstone
from strength.models.locks import lock_exclusive, settle_numbers
from strength.sql import SLEEP_QUERIES


def undo(*, batch: UUID, by: Principal, reason: str, now: datetime) -> BatchResult:
    """Undo what was done to many memories or merges at once, the last merge first.

    Rows that were changed since are skipped.
    """
    undone = BatchResult(batch)
    decided = Merge.objects.filter(batch=batch, state__in=[MergeState.MERGED, MergeState.DISMISSED])
    with transaction.atomic():
        for revision in MemoryRevision.objects.filter(batch=batch).order_by("actor_id", "memory_id"):
            with undone.collect(revision):
                undo_revision(revision=revision, by=by, reason=reason, now=now)
        # A memory that was merged into another is separated before that one is.
        for proposal in decided.select_related("actor").order_by("-id"):
            with undone.collect(proposal):
                reopen_merge(proposal=proposal, by=by, reason=reason, now=now)
    return undone


def undo_sleeps(*, runs: list[SleepRun], by: Principal, reason: str, now: datetime) -> list[SleepRun]:
    """Undo the sleeps of one request as far as possible; return them as they are then.

    Raises WrongState where none can be undone, Forbidden.
    """
    undone, refused = [], []
    for run in runs:
        try:
            undone.append(undo_sleep(run=run, by=by, reason=reason, now=now))
        except WrongState as error:
            undone.append(run)
            refused.append(error)
    if len(refused) == len(runs):
        raise refused[0]
    return undone


@transaction.atomic
def undo_sleep(*, run: SleepRun, by: Principal, reason: str, now: datetime) -> SleepRun:
    """Undo all that an actor's latest sleep did, except for what was used or decided since.

    Restores strengths, levels and perspectives, and adds what uses since then added; reactivates what was archived and
    is unchanged; undoes its merges, withdraws its open proposals. `errors` names what could not be undone. Raises
    WrongState for a preview, a run that is not done, or not the latest.
    """
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not undo a sleep; a curator can."))
    lock_exclusive(run.actor_id)
    state = lock_state(run.actor)
    run = SleepRun.objects.select_for_update(of=["self"]).select_related("actor__agent").get(pk=run.pk)
    _check(run, state)
    own = Merge.objects.filter(actor_id=run.actor_id, run=run)
    own.filter(state=MergeState.PROPOSED).update(state=MergeState.WITHDRAWN, decided_at=run.now)
    # A merge that a person decided on since has another time.
    merges = list(own.filter(state=MergeState.MERGED, decided_at=run.now).order_by("-id"))
    _lock_rows(run, merges)
    problems = _undo_merges(merges, by, reason, now)
    with connection.cursor() as cursor:
        cursor.execute(SLEEP_QUERIES["undo_perspectives"], {"actor_id": run.actor_id, "number": run.number})
        cursor.execute(SLEEP_QUERIES["undo_numbers"], {"actor_id": run.actor_id, "number": run.number})
    problems += _reactivate(run, by, reason, now)
    earlier = SleepRun.objects.filter(actor_id=run.actor_id, dry_run=False, state=RunState.DONE).exclude(
        pk=run.pk
    )
    state.slept_at = earlier.order_by("-number").values_list("now", flat=True).first()
    state.compared_until, state.compared_after = run.compared_since, None
    restore_clock(state)
    store_state(state)
    run.state, run.undone_at, run.undone_by = RunState.UNDONE, now, by.name[:150]
    run.errors = [*run.errors, *problems]
    run.save(update_fields=["state", "undone_at", "undone_by", "errors"])
    audit.record(
        by=by, verb="undo", object_kind="sleep_run", object_id=run.pk, actor=run.actor, reason=reason, now=now
    )
    return run


def _check(run: SleepRun, state: SleepState) -> None:
    if run.dry_run:
        raise WrongState(_("A preview has changed nothing; there is nothing to undo."))
    if run.state != RunState.DONE:
        raise WrongState(
            format_lazy(_("This sleep is {state}; only one that is done can be undone."), state=_(run.state))
        )
    if state.runs != run.number:
        raise WrongState(_("Only an actor's latest sleep can be undone; it has slept again since."))


def _memory_ids(merges: list[Merge]) -> list[UUID]:
    return [memory_id for each in merges for memory_id in (each.kept_id, each.absorbed_id)]


def _lock_rows(run: SleepRun, merges: list[Merge]) -> None:
    """Lock what will change in the common order: memories, then numbers, each by their keys."""
    ids = _memory_ids(merges)
    Memory.objects.of([run.actor_id]).locked(ids)
    with connection.cursor() as cursor:
        cursor.execute(
            SLEEP_QUERIES["lock_undone"], {"actor_id": run.actor_id, "number": run.number, "memory_ids": ids}
        )
    settle_numbers(run.actor_id, ids)


def _undo_merges(merges: list[Merge], by: Principal, reason: str, now: datetime) -> list[str]:
    """Undo a sleep's own merges, keeping for its numbers the decay times from before the sleep; return problems."""
    rows = MemoryNumbers.objects.filter(
        actor_id__in={each.actor_id for each in merges},
        memory__in=_memory_ids(merges),
        slept_in__isnull=False,
    )
    before = list(rows.values_list("pk", "before_decay_at", "before_task"))
    problems = []
    for each in merges:
        try:
            undo_merge(proposal=each, by=by, reason=reason, now=now, leaves=MergeState.WITHDRAWN)
        except CannotMerge as error:
            exclude_from_sleep_undo(each.actor_id, [each.kept_id, each.absorbed_id])
            problems.append(f"{each.absorbed_id}: {error}")
    for pk, decay_at, task in before:
        rows.filter(pk=pk).update(before_decay_at=decay_at, before_task=task)
    return problems


def _reactivate(run: SleepRun, by: Principal, reason: str, now: datetime) -> list[str]:
    """Reactivate what the sleep archived and nobody has changed or rejected since; return problems."""
    versions = dict(archive_revisions(run).values_list("memory_id", "number"))
    rows = Memory.objects.of([run.actor_id]).filter(pk__in=versions, status=Status.ARCHIVED)
    unchanged = {pk for pk, version in rows.values_list("pk", "version") if versions[pk] == version}
    refused = _with_newer_tombstone(run, unchanged)
    back = move_memories(
        actor_id=run.actor_id, memory_ids=sorted(unchanged - refused), from_=Status.ARCHIVED, to=Status.ACTIVE,
        verb="undo", by=by, reason=reason or f"sleep {run.number} was undone", now=now,
    )  # fmt: skip
    duplicates = unchanged - refused - set(back)
    return [
        *(f"{pk}: a person has decided against what it says; it stays archived." for pk in sorted(refused)),
        *(f"{pk}: another memory has its text by now; it stays archived." for pk in sorted(duplicates)),
    ]


def _with_newer_tombstone(run: SleepRun, memory_ids: set[UUID]) -> set[UUID]:
    if not Tombstone.objects.filter(actor_id=run.actor_id, created_at__gte=run.now).exists():
        return set()
    texts = Memory.objects.of([run.actor_id]).filter(pk__in=memory_ids).values_list("pk", "content")
    return {
        pk
        for pk, text in texts.iterator()
        if (found := find_tombstone(actor_id=run.actor_id, text=text)) and found.created_at >= run.now
    }
