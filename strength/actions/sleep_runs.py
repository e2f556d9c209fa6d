"""What a sleep would do and why, and what one has done (SPEC S6)."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.domain import Forbidden, Principal
from memoryhub.auth.tenancy import UnknownRow, hold
from memoryhub.errors import DomainError
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from strength import sleep_sql as sql
from strength.actions.duplicates import pairs_among, side, to_compare
from strength.actions.merges import CannotMerge, keep_from_undo, undo_merge
from strength.actions.sleep import (
    SleepRequest,
    lock_state,
    move_memories,
    put_clock_back,
    run_values,
    sleep,
    store_state,
)
from strength.actions.tombstones import find_tombstone
from strength.domain.memories import SLEEP_VERB, Status, WrongState
from strength.domain.merges import MergeState
from strength.domain.policy import StrengthPolicy
from strength.domain.sleep import ChangeKind, RunState, Why
from strength.models import (
    CurrentNumbers,
    Memory,
    MemoryNumbers,
    MemoryRevision,
    Merge,
    SleepRun,
    SleepState,
    Tombstone,
)
from strength.models.locks import lock_exclusive, settle_numbers

MOST_CHANGES: Final = 1_000
"""Changes that a run tells one by one, the weightiest first; the counts are of all."""

MOST_COMPARED: Final = 200
KEPT_FOR: Final = timedelta(days=7)
"""How long a preview can be read again."""

Change = dict[str, Any]


@transaction.atomic
def preview_sleep(*, actor: Actor, waking: SleepRequest) -> SleepRun:
    """Return what a sleep at this moment would do, and change nothing but the list of previews.

    The same formulas over the same rows, without locks: what is used between preview and sleep is stronger by then.
    """
    hold(actor.id)
    SleepRun.objects.filter(actor=actor, dry_run=True, now__lt=waking.now - KEPT_FOR).delete()
    rhythm = SleepState.objects.filter(actor_id=actor.id).first() or SleepState(actor_id=actor.id)
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
    return [_previewed(*row[:7]) for row in rows]


def _previewed(
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


@dataclass(frozen=True)
class PreviewComparison:
    """The latest preview before a sleep; what happened besides, and what was foreseen and did not happen.

    Fading is left out: every hour between the two changes it.
    """

    preview: SleepRun
    unforeseen: list[Change]
    missed: list[Change]


def compare_with_preview(*, run: SleepRun, changes: Sequence[Change]) -> PreviewComparison | None:
    """Compare a sleep's changes with its preview; None for a preview, and where nobody looked at one before."""
    if run.dry_run:
        return None
    rows = SleepRun.objects.filter(actor_id=run.actor_id, now__lt=run.now, now__gte=run.now - KEPT_FOR)
    before = rows.exclude(pk=run.pk).order_by("-now", "-id").first()
    if before is None or not before.dry_run:
        return None
    did, foresaw = _by_memory(changes), _by_memory(before.changes)
    return PreviewComparison(
        preview=before,
        unforeseen=[change for key, change in did.items() if key not in foresaw],
        missed=[change for key, change in foresaw.items() if key not in did],
    )


def _by_memory(changes: Sequence[Change]) -> dict[tuple[str, str], Change]:
    return {
        (change["change"], change["memory_id"]): change
        for change in changes
        if change["change"] != ChangeKind.DECAY
    }


MOST_AT_ONCE: Final = 200
"""Actors whose memory sleeps while a request waits."""
"""New memories that are compared while a request waits; the nightly sleep has all the time it needs."""


class TooMany(DomainError):
    """More actors than one request can wait for."""


def actors_of(actor: Actor, *, all_users: bool) -> list[Actor]:
    """Return the actor, or its agent's own actor and all its users'."""
    if not all_users:
        return [actor]
    return list(Actor.objects.filter(agent_id=actor.agent_id).select_related("agent").order_by("user_id"))


def sleep_many(
    *,
    actor: Actor,
    waking: SleepRequest,
    all_users: bool,
    dry_run: bool,
    most: int | None = None,
    most_compared: int | None = MOST_COMPARED,
    may_go_on: Callable[[], bool] = lambda: True,
    done: Callable[[SleepRun], object] = lambda run: None,
) -> list[SleepRun]:
    """Let an actor's memory sleep, or of all users of its agent, or preview that; return the runs.

    Where `may_go_on` says no, what is new is not compared any further; the next sleep goes on with it. `waking.group`
    binds them, so that they can be read and undone together.
    Raises TooMany beyond `most` actors, Forbidden for an untrusted key, and for one user's key that names all users.
    """
    if not waking.by.is_trusted:
        raise Forbidden(_("An untrusted key may not let what is believed fade; a curator can."))
    if all_users and waking.by.user_id is not None:
        raise Forbidden(_("This key is bound to one user; it cannot speak for all."))
    actors = actors_of(actor, all_users=all_users)
    if most is not None and len(actors) > most:
        raise TooMany(
            format_lazy(
                _(
                    "The agent has {count} actors, and one request does {most} at most; use the command "
                    "`manage.py sleep_phase`, or leave it to the nightly schedule."
                ),
                count=len(actors),
                most=most,
            )
        )
    runs = []
    for each in actors:
        with suppress(UnknownRow) if len(actors) > 1 else nullcontext():  # erased meanwhile; the others sleep
            if dry_run:
                run = preview_sleep(actor=each, waking=waking)
            else:
                asleep = sleep(actor=each, waking=waking, most_compared=most_compared, may_go_on=may_go_on)
                run = _of_round(asleep, waking)
            runs.append(run)
            done(run)
    return runs


def _of_round(run: SleepRun, waking: SleepRequest) -> SleepRun:
    """Count a run that had just ended for another reason to the round that would have begun it."""
    if waking.group is not None and run.group is None:
        run.group = waking.group
        run.save(update_fields=["group"])
    return run


def undo_sleeps(*, runs: list[SleepRun], by: Principal, reason: str, now: datetime) -> list[SleepRun]:
    """Undo one run, or those of a round that are not undone yet; return them as they are then.

    Raises WrongState where a single run cannot be undone, or none of a round can; Forbidden.
    """
    if len(runs) == 1:
        return [undo_sleep(run=runs[0], by=by, reason=reason, now=now)]
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
    """Take back all that an actor's latest sleep did, but for what was used or decided since.

    Strengths, levels and perspectives are as before, and what was used since keeps what that added; what was archived
    is active again, unless somebody has changed it since; merges are parted, open proposals withdrawn. What could
    not be taken back is told in `errors`. Raises WrongState for a preview, a run that is not done, or not the latest.
    """
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not undo a sleep; a curator can."))
    lock_exclusive(run.actor_id)
    rhythm = lock_state(run.actor)
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
    store_state(rhythm)
    run.state, run.undone_at, run.undone_by = RunState.UNDONE, now, by.name[:150]
    run.errors = [*run.errors, *problems]
    run.save(update_fields=["state", "undone_at", "undone_by", "errors"])
    audit.record(
        by=by, verb="undo", object_kind="sleep_run", object_id=run.pk, actor=run.actor, reason=reason, now=now
    )
    return run


def _check(run: SleepRun, rhythm: SleepState) -> None:
    if run.dry_run:
        raise WrongState(_("A preview has changed nothing; there is nothing to undo."))
    if run.state != RunState.DONE:
        raise WrongState(
            format_lazy(_("This sleep is {state}; only one that is done can be undone."), state=_(run.state))
        )
    if rhythm.runs != run.number:
        raise WrongState(_("Only an actor's latest sleep can be undone; it has slept again since."))


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
    settle_numbers(run.actor_id, ids)


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
        if (against := find_tombstone(actor_id=run.actor_id, text=text)) and against.created_at >= run.now
    }


def _slept_before(run: SleepRun) -> datetime | None:
    earlier = SleepRun.objects.filter(actor_id=run.actor_id, dry_run=False, state=RunState.DONE).exclude(
        pk=run.pk
    )
    return earlier.order_by("-number").values_list("now", flat=True).first()
