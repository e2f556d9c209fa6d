"""Taking a sleep back as a unit (SPEC S6)."""

from datetime import datetime

from django.db import connection, transaction

from memoryhub.access import audit
from memoryhub.access.domain import Forbidden, Principal
from strength import sleep_sql as sql
from strength.actions.curate import WrongState
from strength.actions.merging import CannotMerge, undo_merge
from strength.actions.moving import move_memories
from strength.actions.preview import archived_by
from strength.actions.rest import hold_asleep
from strength.actions.sleep import hold_rhythm, note_rhythm
from strength.domain.memories import Status
from strength.domain.merging import MergeState
from strength.domain.sleep import RunState
from strength.models import Memory, Merge, Rhythm, SleepRun


@transaction.atomic
def undo_sleep(*, run: SleepRun, by: Principal, reason: str, now: datetime) -> SleepRun:
    """Take back all that an actor's latest sleep did, but for what was used or decided since.

    Strengths, levels and perspectives are as before, and what was used since keeps what that added; what was archived
    is active again, unless somebody has changed it since; merges are parted, open proposals withdrawn. What could
    not be taken back is told in `errors`. Raises WrongState for a preview, a run that is not done, or not the latest.
    """
    if not by.is_trusted:
        raise Forbidden("An untrusted key may not undo a sleep; a curator can.")
    hold_asleep(run.actor_id)
    rhythm = hold_rhythm(run.actor)
    run = SleepRun.objects.select_for_update(of=["self"]).select_related("actor__agent").get(pk=run.pk)
    _check(run, rhythm)
    problems = _part_merges(run, by, reason, now)
    with connection.cursor() as cursor:
        cursor.execute(sql.UNDO, {"actor_id": run.actor_id, "number": run.number})
    problems += _bring_back(run, by, reason, now)
    rhythm.slept_at, rhythm.compared_until = _slept_before(run), run.compared_since
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
        raise WrongState("A preview has changed nothing; there is nothing to undo.")
    if run.state != RunState.DONE:
        raise WrongState(f"This sleep is {run.state}; only one that is done can be undone.")
    if rhythm.runs != run.number:
        raise WrongState("Only an actor's latest sleep can be undone; it has slept again since.")


def _part_merges(run: SleepRun, by: Principal, reason: str, now: datetime) -> list[str]:
    problems = []
    merges = Merge.objects.filter(actor_id=run.actor_id, run=run)
    for each in merges.filter(state=MergeState.MERGED, decided_at=run.now).order_by("-id"):
        try:
            undo_merge(proposal=each, by=by, reason=reason, now=now)
        except CannotMerge as error:
            problems.append(f"{each.absorbed_id}: {error}")
    merges.filter(state=MergeState.PROPOSED).update(state=MergeState.WITHDRAWN, decided_at=now)
    return problems


def _bring_back(run: SleepRun, by: Principal, reason: str, now: datetime) -> list[str]:
    versions = dict(archived_by(run).values_list("memory_id", "number"))
    rows = Memory.objects.of([run.actor_id]).filter(pk__in=versions, status=Status.ARCHIVED)
    untouched = {pk for pk, version in rows.values_list("pk", "version") if versions[pk] == version}
    back = move_memories(
        actor_id=run.actor_id, memory_ids=sorted(untouched), from_=Status.ARCHIVED, to=Status.ACTIVE, verb="undo",
        by=by, reason=reason or f"sleep {run.number} was undone", now=now,
    )  # fmt: skip
    return [f"{pk}: another memory has its text by now; it stays archived." for pk in untouched - set(back)]


def _slept_before(run: SleepRun) -> datetime | None:
    earlier = SleepRun.objects.filter(actor_id=run.actor_id, dry_run=False, state=RunState.DONE).exclude(
        pk=run.pk
    )
    return earlier.order_by("-number").values_list("now", flat=True).first()
