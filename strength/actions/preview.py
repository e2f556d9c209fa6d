"""What a sleep would do and why, and what one has done (SPEC S6)."""

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from memoryhub.auth.tenancy import hold
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from strength import sleep_sql as sql
from strength.actions.comparing import pairs_among, side, to_compare
from strength.actions.sleep import Waking, run_values
from strength.domain.merging import MergeState
from strength.domain.policy import StrengthPolicy
from strength.domain.revisions import SLEEP_VERB
from strength.domain.sleep import ChangeKind, RunState, Why
from strength.models import CurrentNumbers, MemoryRevision, Merge, Rhythm, SleepRun

MOST_CHANGES: Final = 1_000
"""Changes that a run tells one by one, the weightiest first; the counts are of all."""

MOST_COMPARED: Final = 200
KEPT_FOR: Final = timedelta(days=7)
"""How long a preview can be read again."""

Change = dict[str, Any]


@transaction.atomic
def preview_sleep(*, actor: Actor, waking: Waking) -> SleepRun:
    """Return what a sleep at this moment would do, and change nothing but the list of previews.

    The same formulas over the same rows, without locks: what is used between preview and sleep is stronger by then.
    """
    hold(actor.id)
    SleepRun.objects.filter(actor=actor, dry_run=True, now__lt=waking.now - KEPT_FOR).delete()
    rhythm = Rhythm.objects.filter(actor_id=actor.id).first() or Rhythm(actor_id=actor.id)
    policy = effective_policy(StrengthPolicy, actor.agent, actor)
    run = SleepRun(
        actor=actor, dry_run=True, state=RunState.DONE, group=waking.group, trigger=waking.trigger, now=waking.now,
        policy=policy.values(), tasks_completed=rhythm.tasks_completed, compared_at=rhythm.compared_until,
        who_kind=waking.by.kind, who_id=waking.by.id, who_name=waking.by.name[:150], processed_at=waking.now,
    )  # fmt: skip
    fading = _fading(run, policy)
    gone = {change["memory_id"] for change in fading if change["change"] == ChangeKind.ARCHIVE}
    changes = [
        *fading,
        *(each for each in _merging(actor, run, policy) if not gone & {each["memory_id"], each["into"]}),
    ]
    run.merged_count = sum(change["change"] == ChangeKind.MERGE for change in changes)
    run.proposed_count = sum(change["change"] == ChangeKind.PROPOSE_MERGE for change in changes)
    run.changes = sorted(changes, key=_weight)[:MOST_CHANGES]
    run.save(force_insert=True)
    return run


def changes_of(run: SleepRun) -> list[Change]:
    """Return what a run did, the weightiest first; what it faded is known until the actor's next sleep."""
    if run.dry_run:
        return list(run.changes)
    return sorted([*_archived(run), *_merges(run), *_faded(run)], key=_weight)[:MOST_CHANGES]


def _weight(change: Change) -> tuple[int, float, str]:
    order = (
        ChangeKind.ARCHIVE,
        ChangeKind.MERGE,
        ChangeKind.PROPOSE_MERGE,
        ChangeKind.LEVEL,
        ChangeKind.DECAY,
    )
    lost = (change.get("before") or 0.0) - (change.get("after") or 0.0)
    return order.index(ChangeKind(change["change"])), -lost, change["memory_id"]


def _fading(run: SleepRun, policy: StrengthPolicy) -> list[Change]:
    """Fill in the counts of a preview and return its changes."""
    with connection.cursor() as cursor:
        cursor.execute(sql.PREVIEW, {**run_values(run, policy), "most": MOST_CHANGES})
        rows = cursor.fetchall()
    if rows:
        run.decayed_count, run.archived_count, run.consolidated_count = rows[0][7:]
    return [_foreseen(*row[:7]) for row in rows]


def _foreseen(
    memory_id: UUID, before: float, after: float, level: int, new_level: int, is_weak: bool, goes: bool
) -> Change:
    if goes:
        why = Why.WEAK if is_weak else Why.CROWDED
        return _change(ChangeKind.ARCHIVE, memory_id, why, before=before, after=after)
    return _number_change(memory_id, before, after, level, new_level)


def _number_change(memory_id: UUID, before: float, after: float, level: int, new_level: int) -> Change:
    if new_level != level:
        return _change(
            ChangeKind.LEVEL, memory_id, Why.USED_ENOUGH, before=before, after=after, level=[level, new_level]
        )
    return _change(ChangeKind.DECAY, memory_id, Why.FADED, before=before, after=after)


def _change(kind: ChangeKind, memory_id: UUID, why: Why, **more: Any) -> Change:
    return {"memory_id": str(memory_id), "change": kind.value, "why": why.value, **more}


def _merging(actor: Actor, run: SleepRun, policy: StrengthPolicy) -> list[Change]:
    if policy.near_duplicates == "off":
        return []
    found = {
        frozenset((pair.kept.pk, pair.absorbed.pk)): pair
        for pair in pairs_among(actor, to_compare(run, MOST_COMPARED), now=run.now)
    }
    known = {
        frozenset(pair)
        for pair in Merge.objects.filter(actor=actor)
        .exclude(state__in=[MergeState.WITHDRAWN, MergeState.UNDONE])
        .values_list("kept_id", "absorbed_id")
    }
    itself = policy.near_duplicates == "merge"
    return [
        _change(
            ChangeKind.MERGE if itself and not side(pair.absorbed).is_decided else ChangeKind.PROPOSE_MERGE,
            pair.absorbed.pk, Why.SAME, into=str(pair.kept.pk), likeness=pair.likeness,
        )
        for key, pair in found.items() if key not in known
    ]  # fmt: skip


def archived_by(run: SleepRun) -> Any:
    """Return the revisions that say what a run archived."""
    return MemoryRevision.objects.filter(actor_id=run.actor_id, verb=SLEEP_VERB, created_at=run.now)


def _archived(run: SleepRun) -> list[Change]:
    rows = list(archived_by(run).values_list("memory_id", "reason")[:MOST_CHANGES])
    strengths = _strengths(run, [memory_id for memory_id, _ in rows])
    return [
        _change(ChangeKind.ARCHIVE, memory_id, Why(reason), **strengths.get(memory_id, {}))
        for memory_id, reason in rows
    ]


def _strengths(run: SleepRun, memory_ids: list[UUID]) -> dict[UUID, dict[str, float]]:
    """Return the strengths that memories had before a run and after it, where they are still known.

    What is archived sleeps no more, so they are, unless it was brought back or given another strength since.
    """
    rows = CurrentNumbers.objects.filter(actor_id=run.actor_id, memory__in=memory_ids, slept_in=run.number)
    known = rows.exclude(before_strength=None).values_list("memory_id", "before_strength", "strength")
    return {memory_id: {"before": before or 0.0, "after": after} for memory_id, before, after in known}


def _merges(run: SleepRun) -> list[Change]:
    return [
        _change(
            ChangeKind.PROPOSE_MERGE if each.state != MergeState.MERGED else ChangeKind.MERGE, each.absorbed_id,
            Why.SAME, into=str(each.kept_id), likeness=each.likeness, merge_id=str(each.pk), state=each.state,
        )
        for each in Merge.objects.filter(actor_id=run.actor_id, run=run)[:MOST_CHANGES]
    ]  # fmt: skip


def _faded(run: SleepRun) -> list[Change]:
    gone = set(archived_by(run).values_list("memory_id", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(sql.DONE, {"actor_id": run.actor_id, "number": run.number, "most": MOST_CHANGES})
        rows = cursor.fetchall()
    return [_number_change(*row) for row in rows if row[0] not in gone]
