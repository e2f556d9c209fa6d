"""Taking a sleep back as a unit (SPEC S6)."""

from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from memoryhub.auth import audit
from memoryhub.auth.domain import Forbidden, Principal
from memoryhub.errors import told
from strength import sleep_sql as sql
from strength.actions.clock import put_clock_back, take_off_clock
from strength.actions.curate import WrongState
from strength.actions.decisions import decision_against
from strength.actions.merging import CannotMerge, keep_from_undo, undo_merge
from strength.actions.moving import move_memories
from strength.actions.preview import archived_by
from strength.actions.sleep import hold_rhythm, note_rhythm
from strength.domain.memories import Status
from strength.domain.merging import MergeState
from strength.domain.sleep import RunState
from strength.models import Memory, MemoryNumbers, Merge, Rhythm, SleepRun, Tombstone
from strength.models.rest import hold_asleep


@transaction.atomic
def undo_sleep(*, run: SleepRun, by: Principal, reason: str, now: datetime) -> SleepRun:
    """Take back all that an actor's latest sleep did, but for what was used or decided since.

    Strengths, levels and perspectives are as before, and what was used since keeps what that added; what was archived
    is active again, unless somebody has changed it since; merges are parted, open proposals withdrawn. What could
    not be taken back is told in `errors`. Raises WrongState for a preview, a run that is not done, or not the latest.
    """
    if not by.is_trusted:
        raise Forbidden(told("An untrusted key may not undo a sleep; a curator can."))
    hold_asleep(run.actor_id)
    rhythm = hold_rhythm(run.actor)
    run = SleepRun.objects.select_for_update(of=["self"]).select_related("actor__agent").get(pk=run.pk)
    _check(run, rhythm)
    merges = _own_merges(run)
    _hold_rows(run, merges)
    problems = _part_merges(merges, by, reason, now)
    with connection.cursor() as cursor:
        cursor.execute(sql.UNDO_PERSPECTIVES, {"actor_id": run.actor_id, "number": run.number})
        cursor.execute(sql.UNDO, {"actor_id": run.actor_id, "number": run.number})
    problems += _bring_back(run, by, reason, now)
    rhythm.slept_at, rhythm.compared_until = _slept_before(run), run.compared_since
    rhythm.compared_after = None
    put_clock_back(rhythm)
    note_rhythm(rhythm)
    run.state, run.undone_at, run.undone_by = RunState.UNDONE, now, by.name[:150]
    run.errors = [*run.errors, *problems]
    run.save(update_fields=["state", "undone_at", "undone_by", "errors"])
    audit.record(
        by=by, verb="undo", object_kind="sleep_run", object_id=run.pk, actor=run.actor, reason=reason, now=now
    )
    return run


def _check(run: SleepRun, rhythm: Rhythm) -> None:
    if run.dry_run:
        raise WrongState(told("A preview has changed nothing; there is nothing to undo."))
    if run.state != RunState.DONE:
        raise WrongState(
            told("This sleep is %(state)s; only one that is done can be undone.", state=told(run.state))
        )
    if rhythm.runs != run.number:
        raise WrongState(told("Only an actor's latest sleep can be undone; it has slept again since."))


def _own_merges(run: SleepRun) -> list[Merge]:
    """Return what the sleep merged by itself, the last first; what a person merged since is their decision."""
    merges = Merge.objects.filter(actor_id=run.actor_id, run=run)
    merges.filter(state=MergeState.PROPOSED).update(state=MergeState.WITHDRAWN, decided_at=run.now)
    return list(merges.filter(state=MergeState.MERGED, decided_at=run.now).order_by("-id"))


def _hold_rows(run: SleepRun, merges: list[Merge]) -> None:
    """Hold what is about to change as everybody else does: memories, then numbers, each in the order of their keys."""
    ids = [memory_id for each in merges for memory_id in (each.kept_id, each.absorbed_id)]
    list(
        Memory.objects.of([run.actor_id])
        .filter(pk__in=ids)
        .select_for_update()
        .order_by("id")
        .values_list("pk")
    )
    with connection.cursor() as cursor:
        cursor.execute(sql.HOLD_UNDONE, {"actor_id": run.actor_id, "number": run.number, "memory_ids": ids})
    take_off_clock(run.actor_id, ids)


def _part_merges(merges: list[Merge], by: Principal, reason: str, now: datetime) -> list[str]:
    """Part what the sleep merged; the clocks that it found stay what undoing brings back."""
    ids = [memory_id for each in merges for memory_id in (each.kept_id, each.absorbed_id)]
    rows = MemoryNumbers.objects.filter(actor_id__in={each.actor_id for each in merges}, memory__in=ids)
    clocks = list(rows.filter(slept_in__isnull=False).values_list("pk", "before_decay_at", "before_task"))
    problems = _parted(merges, by, reason, now)
    for pk, decay_at, task in clocks:
        rows.filter(pk=pk, slept_in__isnull=False).update(before_decay_at=decay_at, before_task=task)
    return problems


def _parted(merges: list[Merge], by: Principal, reason: str, now: datetime) -> list[str]:
    problems = []
    for each in merges:
        try:
            undo_merge(proposal=each, by=by, reason=reason, now=now, leaves=MergeState.WITHDRAWN)
        except CannotMerge as error:
            keep_from_undo(each.actor_id, [each.kept_id, each.absorbed_id])
            problems.append(f"{each.absorbed_id}: {error}")
    return problems


def _bring_back(run: SleepRun, by: Principal, reason: str, now: datetime) -> list[str]:
    versions = dict(archived_by(run).values_list("memory_id", "number"))
    rows = Memory.objects.of([run.actor_id]).filter(pk__in=versions, status=Status.ARCHIVED)
    untouched = {pk for pk, version in rows.values_list("pk", "version") if versions[pk] == version}
    refused = _decided_since(run, untouched)
    back = move_memories(
        actor_id=run.actor_id, memory_ids=sorted(untouched - refused), from_=Status.ARCHIVED, to=Status.ACTIVE,
        verb="undo", by=by, reason=reason or f"sleep {run.number} was undone", now=now,
    )  # fmt: skip
    return [
        *(f"{pk}: a person has decided against what it says; it stays archived." for pk in sorted(refused)),
        *(
            f"{pk}: another memory has its text by now; it stays archived."
            for pk in sorted(untouched - refused - set(back))
        ),
    ]


def _decided_since(run: SleepRun, memory_ids: set[UUID]) -> set[UUID]:
    """Return those of the memories whose text a person has decided against since the sleep."""
    decided = Tombstone.objects.filter(actor_id=run.actor_id, created_at__gte=run.now)
    if not decided.exists():
        return set()
    texts = Memory.objects.of([run.actor_id]).filter(pk__in=memory_ids).values_list("pk", "content")
    return {
        pk
        for pk, text in texts.iterator()
        if (against := decision_against(actor_id=run.actor_id, text=text)) and against.created_at >= run.now
    }


def _slept_before(run: SleepRun) -> datetime | None:
    earlier = SleepRun.objects.filter(actor_id=run.actor_id, dry_run=False, state=RunState.DONE).exclude(
        pk=run.pk
    )
    return earlier.order_by("-number").values_list("now", flat=True).first()
