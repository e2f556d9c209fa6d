"""Preview sleeps, list and compare their changes, and run those of several actors (SPEC S6, S7)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow, lock_actor
from memoryhub.auth.principals import Forbidden, Principal
from memoryhub.errors import DomainError
from memoryhub.ids import new_id
from memoryhub.tenancy.models import Actor
from strength.actions.duplicates import duplicate_pairs, memories_to_compare
from strength.actions.merges import CannotMerge, record_pairs, undo_merge
from strength.actions.sleep import (
    COMPARISON_INCOMPLETE,
    SleepRequest,
    lock_states,
    policy_of,
    restore_clock,
    sleep,
    store_states,
)
from strength.actions.tombstones import find_tombstone
from strength.domain.memories import SLEEP_VERB, Status, WrongState
from strength.domain.sleep import CHANGE_ORDER, ChangeKind, ChangeReason, MergeState, RunState
from strength.models import Memory, MemoryNumbers, MemoryRevision, Merge, SleepRun, SleepState, Tombstone
from strength.models.locks import lock_exclusive
from strength.models.sleep import recompute_marks
from strength.sql import SLEEP_QUERIES, execute_all, run_query

MAX_CHANGES: Final = 1_000
"""Changes that a run lists, the most significant first; its counts include all."""

MAX_COMPARED: Final = 200
"""New memories compared during a request; the nightly sleep has no limit."""

MAX_ACTORS: Final = 200
"""Actors of one request."""

PREVIEW_RETENTION: Final = timedelta(days=7)

Change = dict[str, Any]


@transaction.atomic
def preview_sleep(*, actor: Actor, request: SleepRequest) -> SleepRun:
    """Store and return a preview of a sleep: runs one, rolls it back, and keeps its counts and changes.

    Locks the actor as a sleep does, but not while comparing memories. Raises UnknownRow.
    """
    previews = SleepRun.objects.filter(actor=actor, dry_run=True).alias(kept_until=F("now") + PREVIEW_RETENTION)
    previews.filter(kept_until__lt=request.now).delete()  # added by the database, which knows more years than Python
    with _rolled_back():
        # Otherwise it would continue an interrupted run, or return one that has just ended.
        SleepRun.objects.filter(actor=actor, number=F("actor__sleep_state__runs")).update(state=RunState.UNDONE)
        run = sleep(actor=actor, request=replace(request, now=request.at or request.now), max_compared=0)
        changes, archived_ids = changes_of(run), _archived_ids(run)
    lock_actor(actor.id)
    changed = []
    if COMPARISON_INCOMPLETE in run.errors:
        changed = memories_to_compare(SleepState.of(actor.id), MAX_COMPARED + 1 + len(archived_ids), now=run.now)
    batch = [memory for memory in changed if memory.pk not in archived_ids]
    run.errors = [COMPARISON_INCOMPLETE] if len(batch) > MAX_COMPARED else []
    run.pk, run.dry_run, run.processed_at = new_id(), True, request.now
    run.number, run.clock, run.before = None, None, {}
    run.save(force_insert=True)
    found = duplicate_pairs(actor, batch[:MAX_COMPARED], now=run.now)
    pairs = [pair for pair in found if archived_ids.isdisjoint((pair.kept.pk, pair.absorbed.pk))]
    with _rolled_back():
        run.proposed_count, run.merged_count = record_pairs(
            run, pairs, merge_automatically=policy_of(run).near_duplicates == "merge"
        )
        changes += [{**change, "merge_id": None} for change in _merges(run)]
    run.changes = sorted(changes, key=_sort_key)[:MAX_CHANGES]
    run.save()
    return run


@contextmanager
def _rolled_back() -> Iterator[None]:
    """Roll back the block and release its locks, inside a transaction that continues."""
    savepoint = transaction.savepoint()
    yield
    transaction.savepoint_rollback(savepoint)


def changes_of(run: SleepRun) -> list[Change]:
    """Return a run's changes, the most significant first; decay is known until the actor's next sleep.

    Those of an undone run are as they were before the undo, which stored them.
    """
    if run.dry_run or run.state == RunState.UNDONE:
        return list(run.changes)
    archived, archived_ids = _archived(run), _archived_ids(run)
    rows = run_query(SLEEP_QUERIES["strength_changes"], {**_undo_values(run), "limit": MAX_CHANGES})
    faded = [_number_change(*row) for row in rows if row[0] not in archived_ids]
    return sorted([*archived, *run.changes, *_merges(run), *faded], key=_sort_key)[:MAX_CHANGES]


def _sort_key(change: Change) -> tuple[int, float, str]:
    lost = (change.get("before") or 0.0) - (change.get("after") or 0.0)
    return CHANGE_ORDER.index(ChangeKind(change["change"])), -lost, change["memory_id"]


def _number_change(memory_id: UUID, before: float, after: float, level: int, new_level: int) -> Change:
    if new_level != level:
        return _change(
            ChangeKind.LEVEL, memory_id, ChangeReason.USED_ENOUGH, before=before, after=after, level=[level, new_level]
        )
    return _change(ChangeKind.DECAY, memory_id, ChangeReason.FADED, before=before, after=after)


def _change(kind: ChangeKind, memory_id: UUID, reason: ChangeReason, **more: Any) -> Change:
    return {"memory_id": str(memory_id), "change": kind.value, "why": reason.value, **more}


def _archive_revisions(run: SleepRun) -> QuerySet[MemoryRevision]:
    return MemoryRevision.objects.filter(actor_id=run.actor_id, verb=SLEEP_VERB, created_at=run.now)


def _archived_ids(run: SleepRun) -> set[UUID]:
    return set(_archive_revisions(run).values_list("memory_id", flat=True))


def _archived(run: SleepRun) -> list[Change]:
    rows = list(_archive_revisions(run).values_list("memory_id", "reason")[:MAX_CHANGES])
    # Strengths from before and after the run, unless the memory was reactivated or given another strength since.
    numbers = MemoryNumbers.objects.filter(
        actor_id=run.actor_id, memory__in=[memory_id for memory_id, _reason in rows], slept_in=run.number
    )
    known = numbers.values_list("memory_id", F("strength") + F("taken"), "strength")
    strengths = {memory_id: {"before": before, "after": after} for memory_id, before, after in known}
    return [
        _change(ChangeKind.ARCHIVE, memory_id, ChangeReason(reason), **strengths.get(memory_id, {}))
        for memory_id, reason in rows
    ]


def _merges(run: SleepRun) -> list[Change]:
    return [
        _change(
            ChangeKind.MERGE if _is_own_merge(each, run) else ChangeKind.PROPOSE_MERGE,
            each.absorbed_id,
            ChangeReason.DUPLICATE,
            into=str(each.kept_id),
            likeness=each.likeness,
            merge_id=str(each.pk),
            state=each.state,
        )
        for each in run.merges.all()[:MAX_CHANGES]
    ]


def _is_own_merge(merge: Merge, run: SleepRun) -> bool:
    """Return whether the run itself merged the pair; a person's later merge is of a proposal."""
    return merge.state == MergeState.MERGED and merge.decided_at == run.now


def compare_with_preview(
    *, run: SleepRun, changes: Sequence[Change]
) -> tuple[SleepRun, list[Change], list[Change]] | None:
    """Return the latest preview before a sleep, the changes that it missed, and its changes that did not happen.

    Ignores decay, which differs by the hours between the two. None for a preview, and for a sleep without one.
    """
    if run.dry_run:
        return None
    rows = SleepRun.objects.filter(actor_id=run.actor_id, now__lt=run.now, now__gte=run.now - PREVIEW_RETENTION)
    before = rows.exclude(pk=run.pk).order_by("-now", "-id").first()
    if before is None or not before.dry_run:
        return None
    actual, predicted = _by_memory(changes), _by_memory(before.changes)
    unpredicted = [change for key, change in actual.items() if key not in predicted]
    return before, unpredicted, [change for key, change in predicted.items() if key not in actual]


def _by_memory(changes: Sequence[Change]) -> dict[tuple[str, str], Change]:
    return {
        (change["change"], change["memory_id"]): change for change in changes if change["change"] != ChangeKind.DECAY
    }


class TooManyActors(DomainError):
    code = "too_many_actors"


def sleep_many(*, actor: Actor, request: SleepRequest, all_users: bool, dry_run: bool) -> list[SleepRun]:
    """Run or preview the sleep of an actor, or with `all_users` of its whole agent; return the runs.

    They share `request.group`, by which they can be read and undone together. Raises TooManyActors beyond MAX_ACTORS,
    Forbidden for an untrusted key, and for one user's key with `all_users`.
    """
    actors = _actors_to_sleep(actor, request, all_users=all_users)
    runs = []
    for each in actors:
        with suppress(UnknownRow) if len(actors) > 1 else nullcontext():  # erased concurrently
            if dry_run:
                run = preview_sleep(actor=each, request=request)
            else:
                run = sleep(actor=each, request=request, max_compared=MAX_COMPARED)
                if request.group is not None and run.group is None:  # it had just ended, from another trigger
                    run.group = request.group
                    run.save(update_fields=["group"])
            runs.append(run)
    return runs


def _actors_to_sleep(actor: Actor, request: SleepRequest, *, all_users: bool) -> list[Actor]:
    if not request.by.is_trusted:
        raise Forbidden(_("An untrusted key may not run a sleep over trusted memories; a curator can."))
    if not all_users:
        return [actor]
    if request.by.user_id is not None:
        raise Forbidden(_("This key is bound to one user and cannot act for all."))
    rows = Actor.objects.filter(agent_id=actor.agent_id).select_related("agent").order_by("user_id")
    if len(rows) > MAX_ACTORS:
        text = _(
            "The agent has {count} actors, and one request allows {most}; use the command `manage.py sleep_phase`, or "
            "wait for the nightly schedule."
        )
        raise TooManyActors(format_lazy(text, count=len(rows), most=MAX_ACTORS))
    return list(rows)


def undo_sleeps(*, runs: list[SleepRun], by: Principal, reason: str, now: datetime) -> list[SleepRun]:
    """Undo the sleeps of one request as far as possible; return the runs.

    Runs of users erased since are left out, with a message in `errors` of the first. Raises WrongState if none can be
    undone, UnknownRow if all users are erased, Forbidden.
    """
    undone: list[SleepRun] = []
    refused: list[WrongState] = []
    erased: list[UnknownRow] = []
    for run in runs:
        try:
            undone.append(undo_sleep(run=run, by=by, reason=reason, now=now))
        except WrongState as error:
            undone.append(run)
            refused.append(error)
        except UnknownRow as error:
            erased.append(error)
    if len(refused) == len(undone):
        raise [*refused, *erased][0]
    if erased:
        undone[0].errors = [*undone[0].errors, *map(str, erased)]
    return undone


@transaction.atomic
def undo_sleep(*, run: SleepRun, by: Principal, reason: str, now: datetime) -> SleepRun:
    """Undo all that an actor's latest sleep did, except for what was used or decided since.

    Restores strengths, levels and perspectives, and adds the increments of later uses; reactivates archived memories
    that are unchanged; undoes its merges and withdraws its open proposals. `errors` names what could not be undone.
    Raises WrongState for a preview, a run that is not done, or not the latest.
    """
    if not by.is_trusted:
        raise Forbidden(_("An untrusted key may not undo a sleep; a curator can."))
    lock_exclusive(run.actor_id)
    state = lock_states([run.actor_id])[run.actor_id]
    run = (
        SleepRun.objects.select_for_update(of=["self"])
        .select_related("actor__agent")
        .get(pk=run.pk, actor_id=run.actor_id)
    )
    _check_undoable(run, state)
    run.changes = changes_of(run)
    run.merges.filter(state=MergeState.PROPOSED).update(state=MergeState.WITHDRAWN, decided_at=run.now)
    # Excludes merges decided by a person since, which have another time.
    merges = list(run.merges.filter(state=MergeState.MERGED, decided_at=run.now).order_by("-id"))
    values = {**_undo_values(run), "now": now, "clock": state.clock, "memory_ids": _memory_ids(merges)}
    # Lock order: memories, then numbers, each by key.
    Memory.objects.of([run.actor_id]).locked(values["memory_ids"])
    run_query(SLEEP_QUERIES["lock_for_undo"], values)
    merge_problems = _undo_merges(merges, by, reason, now)
    reactivated, archive_problems = _reactivate(run, by, reason, now)
    earlier = SleepRun.objects.filter(actor_id=run.actor_id, dry_run=False, state=RunState.DONE).exclude(pk=run.pk)
    state.slept_at = earlier.order_by("-number").values_list("now", flat=True).first()
    state.compared_until, state.compared_after = run.compared_since, None
    values["memory_ids"] = [*reactivated, *(merge.absorbed_id for merge in merges)]
    _restore_numbers(run, state, values)
    run.state, run.undone_at, run.undone_by = RunState.UNDONE, now, by.name[:150]
    run.errors = [*run.errors, *merge_problems, *archive_problems]
    run.save(update_fields=["state", "undone_at", "undone_by", "errors", "changes"])
    audit.record(by=by, verb="undo", row=run, reason=reason, now=now)
    return run


def _restore_numbers(run: SleepRun, state: SleepState, values: Mapping[str, Any]) -> None:
    """Restore the clock, the decay of rows written since, and the marks of memories that began to fade before."""
    rates = state.rates, state.by_task
    restore_clock(state, run.before)
    store_states([state])
    execute_all(SLEEP_QUERIES["undo_numbers"], values)
    if rates != (state.rates, state.by_task):
        recompute_marks(run.actor_id, now=run.now, only_ahead=True)


def _undo_values(run: SleepRun) -> dict[str, Any]:
    """Return parameters of statements; `former_thresholds` is null unless the sleep changed the thresholds."""
    former = run.before.get("thresholds") or None
    is_same = former == list(policy_of(run).consolidation_thresholds)
    return {"actor_id": run.actor_id, "number": run.number, "former_thresholds": None if is_same else former}


def undo_refusal(run: SleepRun) -> WrongState | None:
    """Return the error that an undo would raise now, or None."""
    try:
        _check_undoable(run, SleepState.of(run.actor_id))
    except WrongState as error:
        return error
    return None


def _check_undoable(run: SleepRun, state: SleepState) -> None:
    if run.dry_run:
        raise WrongState(_("A preview has changed nothing; there is nothing to undo."))
    if run.state != RunState.DONE:
        raise WrongState(
            format_lazy(_("This sleep is {state}; only one that is done can be undone."), state=_(run.state))
        )
    if state.runs != run.number:
        raise WrongState(_("Only an actor's latest sleep can be undone, and there is a later one."))
    if not run.before:
        raise WrongState(_("This sleep was imported: only its counts are known, and it cannot be undone."))


def _memory_ids(merges: list[Merge]) -> list[UUID]:
    return [memory_id for each in merges for memory_id in (each.kept_id, each.absorbed_id)]


def _undo_merges(merges: list[Merge], by: Principal, reason: str, now: datetime) -> list[str]:
    """Undo a sleep's own merges, keeping the times since when the memories fade; return messages about failures."""
    rows = MemoryNumbers.objects.filter(actor_id__in={each.actor_id for each in merges}, memory__in=_memory_ids(merges))
    beginnings = list(rows.values_list("pk", "began_at", "began_task"))
    problems = []
    for each in merges:
        try:
            undo_merge(proposal=each, by=by, reason=reason, now=now, new_state=MergeState.WITHDRAWN)
        except CannotMerge as error:
            rows.filter(pk__in=[each.kept_id, each.absorbed_id]).update(slept_in=None)
            problems.append(f"{each.absorbed_id}: {error}")
    for pk, began_at, began_task in beginnings:
        rows.filter(pk=pk).update(began_at=began_at, began_task=began_task)
    return problems


def _reactivate(run: SleepRun, by: Principal, reason: str, now: datetime) -> tuple[list[UUID], list[str]]:
    """Reactivate archived memories that nobody has changed or rejected since; return their ids, and error messages."""
    versions = dict(_archive_revisions(run).values_list("memory_id", "number"))
    rows = Memory.objects.of([run.actor_id]).filter(pk__in=versions, status=Status.ARCHIVED)
    unchanged = {pk for pk, version in rows.values_list("pk", "version") if versions[pk] == version}
    refused = set()
    if Tombstone.objects.filter(actor_id=run.actor_id, created_at__gte=run.now).exists():
        texts = rows.filter(pk__in=unchanged).values_list("pk", "content")
        for pk, text in texts.iterator():
            tombstone = find_tombstone(actor_id=run.actor_id, text=text)
            if tombstone is not None and tombstone.created_at >= run.now:
                refused.add(pk)
    memory_ids = sorted(unchanged - refused)
    values = {
        "actor_ids": [run.actor_id],
        "memory_ids": memory_ids,
        "who_kind": by.kind.value,
        "who_id": by.id,
        "who_name": by.name[:150],
        "reason": reason or f"sleep {run.number} was undone",
        "now": now,
    }
    activated_rows = run_query(SLEEP_QUERIES["reactivate"], values) if memory_ids else []
    reactivated = [memory_id for (memory_id,) in activated_rows]
    duplicates = unchanged - refused - set(reactivated)
    return reactivated, [
        *(f"{pk}: a person has decided against what it says; it stays archived." for pk in sorted(refused)),
        *(f"{pk}: another memory has its text by now; it stays archived." for pk in sorted(duplicates)),
    ]
