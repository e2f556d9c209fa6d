"""Run sleeps: advance decay clocks, archive weak memories outside the profile, propose near-duplicates (SPEC S5-S7).

Set-based, in steps for one actor or for many. A step is one transaction that also stores where to continue: a sleep may
be killed at any point, and the next request continues the same run for the same time. Concurrent requests for an actor
share a run.
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from memoryhub.api.idempotency import forget_searches
from memoryhub.auth import audit
from memoryhub.auth.access import UnknownRow
from memoryhub.auth.principals import Principal
from memoryhub.db.copy import copy_models
from memoryhub.db.prepared import PreparedQuery
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import PolicyError
from strength.actions.duplicates import Pair, duplicate_pairs, memories_to_compare
from strength.actions.merges import record_pairs
from strength.actions.search import MAX_PER_LEVEL, max_standing_memories
from strength.actions.usage import write_numbers
from strength.domain.memories import STANDING_KINDS
from strength.domain.policy import StrengthPolicy
from strength.domain.sleep import ChangeKind, ChangeReason, RunState, Trigger
from strength.models import Memory, SleepRun, SleepState
from strength.models.locks import lock_exclusive, lock_idle, update_fading
from strength.models.sleep import begin_clock, recompute_marks
from strength.sql import SLEEP_QUERIES, due_of, execute_all, run_query

ARCHIVE_BATCH_SIZE: Final = 10_000
"""Memories that one transaction archives, a second's work, which blocks uses of them."""

MAX_ACTORS_PER_STEP: Final = 100
"""Uses of these actors' memories wait until the step ends."""

MAX_HELD_LISTED: Final = 1_000
"""Memories that a run lists of those that it left to a person, the weakest first; its count includes all."""

MAX_INTEGER: Final = 2**31 - 1
SAME_NIGHT: Final = timedelta(hours=20)
"""Time within which sleeps share one night's allowance; less than a day, as a night may be early."""

COMPARISON_BATCH_SIZE: Final = 50
MAX_COMMIT_DELAY: Final = timedelta(minutes=10)
"""Time from a change's `updated_at` to its commit within which the next sleep still compares it."""

COMPARISON_INCOMPLETE: Final = (
    "Some new memories were not compared with the others yet; the next sleep goes on with them."
)

BEGIN_STEP: Final = "SET LOCAL synchronous_commit = off"
"""Commit without waiting for the disk: a step lost in a crash is lost whole, and repeated."""

LOCKED_STATES: Final = PreparedQuery(lambda: SleepState.objects.select_for_update().order_by("actor_id"))
LATEST_RUNS: Final = PreparedQuery(lambda: SleepRun.objects.filter(number=F("actor__sleep_state__runs")).order_by())

Step = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class SleepRequest:
    """Trigger, principal and time of a sleep; `group` is shared by the runs of one API call.

    `at` is a later time to preview, on the assumption that nothing is used or written until then. `is_limited`: a sleep
    archives a share of the active memories at most, by the policy.
    """

    trigger: Trigger
    by: Principal
    now: datetime
    group: UUID | None = None
    at: datetime | None = None
    is_limited: bool = True


@dataclass(eq=False)
class Night:
    """One actor's sleep within a step that has locked the actor, with counts of fading and pinned memories."""

    actor: Actor
    policy: StrengthPolicy
    state: SleepState
    run: SleepRun
    fading: int = 0
    pinned: int = 0

    @property
    def excess(self) -> int:
        """Return how many fading memories exceed the policy's limit on active ones, in which pinned ones count."""
        return min(self.fading, max(0, self.fading + self.pinned - self.policy.max_active_memories))

    @property
    def allowance(self) -> int:
        return MAX_INTEGER if self.run.allowance is None else self.run.allowance


def sleep(
    *,
    actor: Actor,
    request: SleepRequest,
    max_compared: int = sys.maxsize,
    step: Step = transaction.atomic,
    may_go_on: Callable[[], bool] = lambda: True,
) -> SleepRun:
    """Run an actor's sleep to its end and return the run.

    Continues an interrupted run; returns a run that ended after `request.now` unchanged, as that served the same
    request. Compares at most `max_compared` memories for near-duplicates, and none once `may_go_on` is false; `errors`
    reports when some are left to the next run. Each batch is written inside a `step`, its own transaction. Raises
    UnknownRow if the actor is gone.
    """
    remaining, run = max_compared, None
    while run is None or run.archives:
        with step():
            run = advance([actor], request, is_alone=True, begun=run.pk if run else None)[actor.id]
    while run.state == RunState.RUNNING:
        limit = min(remaining, COMPARISON_BATCH_SIZE)
        state = SleepState.of(actor.id)
        batch = memories_to_compare(state, limit, now=run.now)
        pairs = duplicate_pairs(actor, batch, now=run.now)
        remaining -= len(batch)
        is_last = len(batch) < limit
        continues = not is_last and remaining > 0 and may_go_on()
        with step():
            run = _store_comparison(run, state, batch, pairs, is_last=is_last, continues=continues)
    return run


def sleep_batch(
    *,
    actors: Sequence[Actor],
    request: SleepRequest,
    step: Step = transaction.atomic,
    may_go_on: Callable[[], bool] = lambda: True,
) -> Iterator[SleepRun]:
    """Run actors' sleeps to their ends and yield the runs; erased actors have none.

    A first step serves all actors. Those with more to do, or locked by others, then continue one by one.
    """
    with step():
        runs = advance(actors, request)
    for actor in actors:
        run = runs.get(actor.id)
        if run is not None and run.state == RunState.DONE:
            yield run
        else:
            with suppress(UnknownRow):
                yield sleep(actor=actor, request=request, may_go_on=may_go_on)


def actor_batches(actors: Sequence[Actor], *, at_once: int = 1) -> list[Sequence[Actor]]:
    """Split actors into at least `at_once` batches of at most MAX_ACTORS_PER_STEP."""
    size = max(1, min(MAX_ACTORS_PER_STEP, ceil(len(actors) / at_once)))
    return [actors[start : start + size] for start in range(0, len(actors), size)]


def advance(
    actors: Sequence[Actor], request: SleepRequest, *, is_alone: bool = False, begun: UUID | None = None
) -> dict[UUID, SleepRun]:
    """Begin actors' sleeps, archive, and end those that have no more to do; return the runs by actor.

    Does not wait for locks: leaves out locked actors, and those with an invalid policy; returns interrupted runs as
    they are. With `is_alone`, for one actor, it waits and raises instead, and archives the next batch of an interrupted
    run or of the one that the caller has `begun`.
    """
    run_query(BEGIN_STEP)
    if is_alone:
        lock_exclusive(actors[0].id)
    states = lock_states([actors[0].id] if is_alone else lock_idle([actor.id for actor in actors]))
    reusable = Q(state=RunState.RUNNING) | Q(state=RunState.DONE, processed_at__gte=request.now) | Q(pk=begun)
    runs = {run.actor_id: run for run in LATEST_RUNS.rows(Q(reusable, actor_id__in=[*states]))}
    new, continued = [], []
    for actor in (actor for actor in actors if actor.id in states):
        run, state = runs.get(actor.id), states[actor.id]
        if run is not None:
            run.actor = actor
            if is_alone and run.archives:
                continued.append(Night(actor, policy_of(run), state, run))
            continue
        with nullcontext() if is_alone else suppress(PolicyError):
            policy = effective_policy(StrengthPolicy, actor.agent, actor)
            new.append(Night(actor, policy, state, _new_run(request, actor, state, policy)))
    if new:
        _move_clocks(new, request.now)
    if nights := [*continued, *new]:
        _archive_step(nights, is_limited=request.is_limited)
    return {**runs, **{night.actor.id: night.run for night in nights}}


def _new_run(request: SleepRequest, actor: Actor, state: SleepState, policy: StrengthPolicy) -> SleepRun:
    return SleepRun(
        actor=actor,
        group=request.group,
        trigger=request.trigger,
        now=request.now,
        policy=policy.overrides,
        tasks_completed=state.tasks_completed,
        compared_since=state.compared_until,
        who_kind=request.by.kind,
        who_id=request.by.id,
        who_name=request.by.name[:150],
        started_at=timezone.now(),
    )


def lock_states(actor_ids: Sequence[UUID]) -> dict[UUID, SleepState]:
    """Return actors' sleep states, created where missing, locked until the transaction ends."""
    states = {state.actor_id: state for state in LOCKED_STATES.rows(Q(actor_id__in=actor_ids))}
    if missing := [SleepState(actor_id=actor_id) for actor_id in actor_ids if actor_id not in states]:
        SleepState.objects.bulk_create(missing, ignore_conflicts=True)
        states = {state.actor_id: state for state in LOCKED_STATES.rows(Q(actor_id__in=actor_ids))}
    return states


def store_states(states: Iterable[SleepState]) -> None:
    """Store locked states, except for their counts of tasks and memories."""
    columns = [field.attname for field in SleepState._meta.concrete_fields]
    rows = [{name: getattr(state, name) for name in columns} for state in states]
    run_query(SLEEP_QUERIES["store_states"], {"states": json.dumps(rows, default=str)})


def policy_of(run: SleepRun) -> StrengthPolicy:
    """Return the policy that a run began under, or the current one if this release rejects that."""
    try:
        return StrengthPolicy.from_overrides(run.policy)
    except PolicyError:
        policy = effective_policy(StrengthPolicy, run.actor.agent, run.actor)
        run.policy = policy.overrides
        run.errors = [*run.errors, "The policy that it began under is not allowed any more; it went on under another."]
        return policy


def _move_clocks(nights: Sequence[Night], now: datetime) -> None:
    """Advance each actor's clock, the decay of all its memories in one row; refresh levels if thresholds changed."""
    for night in nights:
        if night.state.clock_at is None:
            begin_clock(night.actor.id, night.policy, now)
            night.state.refresh_from_db()
    update_fading_by_validity([night.actor.id for night in nights], now)
    with_new_thresholds = []
    for night in nights:
        run, state, before = night.run, night.state, night.state.as_clock()
        run.before, clock = clock_values(state), before.with_rates(night.policy)
        if (clock.rates, clock.by_task) != (before.rates, before.by_task):
            state.set_clock(clock)
            store_states([state])
            recompute_marks(night.actor.id, now=now, only_ahead=True)
        state.set_clock(clock.advanced(at=now, tasks=run.tasks_completed))
        state.clock_before, run.clock = list(before.log_factors), state.clock
        state.runs = run.number = state.runs + 1
        thresholds = list(night.policy.consolidation_thresholds)
        if state.thresholds != thresholds:
            with_new_thresholds.append(night)
        state.thresholds = thresholds
    store_states(night.state for night in nights)
    for night in with_new_thresholds:
        values = {"actor_id": night.actor.id, "thresholds": night.state.thresholds}
        ids = run_query(SLEEP_QUERIES["changed_levels"], values)
        rows = Memory.objects.of([night.actor.id]).filter(pk__in=[memory_id for (memory_id,) in ids])
        if memories := list(rows.only("actor_id")):
            night.run.consolidated_count = write_numbers(memories, night.policy, now=now, kind=None)


def update_fading_by_validity(actor_ids: Sequence[UUID], now: datetime) -> None:
    """Start or stop the decay of memories that became valid or ended since the last sleep."""
    rows = run_query(SLEEP_QUERIES["validity_changes"], {"actor_ids": list(actor_ids), "now": now})
    if rows:
        update_fading({actor_id for actor_id, _id in rows}, [memory_id for _actor_id, memory_id in rows], now=now)


def _archive_step(nights: Sequence[Night], *, is_limited: bool) -> None:
    """Archive a batch of the expired and the weak, or of the weakest above the limit; end what has no more to do."""
    now, by_actor = nights[0].run.now, {night.actor.id: night for night in nights}
    continued = [night.run for night in nights if not night.run._state.adding]
    values = {"actor_ids": [*by_actor], "now": now, "within": SAME_NIGHT}
    for actor_id, fading, decayed, pinned, lately in run_query(SLEEP_QUERIES["count_fading"], values):
        night = by_actor[actor_id]
        night.fading, night.pinned = fading, pinned
        if night.run._state.adding:
            night.run.decayed_count = decayed
            if is_limited:
                night.run.allowance = night.policy.most_archived(active=fading + pinned, lately=lately)
    due = run_query(SLEEP_QUERIES["find_due"], _due_values(nights))
    remaining = ARCHIVE_BATCH_SIZE - _archive(by_actor, due, ChangeReason.WEAK)
    if remaining > 0 and any(night.excess for night in nights):
        found = _find_excess({night: min(night.excess, night.allowance) for night in nights}, remaining)
        remaining -= _archive(by_actor, [row[:1] for row in found], ChangeReason.OVER_LIMIT)
    if remaining > 0:
        _hold([night for night in nights if night.run.allowance == 0])
        _compare_or_end(nights)
    copy_models([night.run for night in nights if night.run._state.adding])
    for run in continued:
        run.save()


def _archive(nights: Mapping[UUID, Night], rows: Sequence[tuple[UUID]], reason: ChangeReason) -> int:
    """Archive memories, given as rows of ids, each with a revision; count them in the runs, and return how many."""
    if not rows:
        return 0
    run = next(iter(nights.values())).run
    values = {
        "actor_ids": [*nights],
        "memory_ids": [memory_id for (memory_id,) in rows],
        "reason": reason,
        "expired": ChangeReason.EXPIRED,
        "who_kind": run.who_kind,
        "who_id": run.who_id,
        "who_name": run.who_name,
        "now": run.now,
    }
    counts = run_query(SLEEP_QUERIES["archive"], values)
    for actor_id, count, faded in counts:
        night = nights[actor_id]
        night.run.archived_count += count
        night.fading -= faded
        if night.run.allowance is not None:
            night.run.allowance = max(0, night.run.allowance - faded)
    forget_searches(actor_id for actor_id, _count, _faded in counts)
    return sum(count for _actor_id, count, _faded in counts)


def _hold(nights: Sequence[Night]) -> None:
    """Note in the runs what else is due to be archived: a person decides about it, or the next sleep does."""
    if not nights:
        return
    values = {**_due_values(nights), "limit": MAX_INTEGER // 2, "most_listed": MAX_HELD_LISTED}
    due: dict[UUID, list[tuple[UUID, float, int]]] = {}
    for actor_id, *row in run_query(SLEEP_QUERIES["find_held"], values):
        due.setdefault(actor_id, []).append(tuple(row))
    over = _find_excess({night: min(night.excess, MAX_HELD_LISTED) for night in nights}, MAX_INTEGER)
    for night in nights:
        weak = due.get(night.actor.id, [])
        listed = {memory_id: (strength, ChangeReason.WEAK) for memory_id, strength, _n in weak}
        for memory_id, actor_id, strength in over:
            if actor_id == night.actor.id:
                listed.setdefault(memory_id, (strength, ChangeReason.OVER_LIMIT))
        night.run.held_count = max(weak[0][2] if weak else 0, night.excess, len(listed))
        night.run.changes = [
            {"memory_id": str(key), "change": ChangeKind.HOLD.value, "why": reason.value, "after": strength}
            for key, (strength, reason) in listed.items()
        ][:MAX_HELD_LISTED]


def _find_excess(excesses: Mapping[Night, int], limit: int) -> list[tuple[UUID, UUID, float]]:
    over = {night: number for night, number in excesses.items() if number}
    if not over:
        return []
    values = {"actor_ids": [night.actor.id for night in over], "excesses": [*over.values()], "limit": limit}
    return run_query(SLEEP_QUERIES["find_excess"], values)


def _compare_or_end(nights: Sequence[Night]) -> None:
    """Begin to compare what changed since the last sleeps; end those where nothing did."""
    actor_ids = [night.actor.id for night in nights if night.policy.near_duplicates != "off"]
    values = {"actor_ids": actor_ids, "now": nights[0].run.now}
    changed = {key for (key,) in run_query(SLEEP_QUERIES["actors_to_compare"], values)} if actor_ids else set()
    for night in nights:
        night.run.compares = True
    _end([night.run for night in nights if night.actor.id not in changed])


def _due_values(nights: Sequence[Night]) -> dict[str, Any]:
    values = due_values([(night.actor, night.policy) for night in nights], nights[0].run.now)
    return {**values, "allowances": [night.allowance for night in nights]}


def due_values(actors: Sequence[tuple[Actor, StrengthPolicy]], now: datetime) -> dict[str, Any]:
    return {
        "actor_ids": [actor.pk for actor, _policy in actors],
        "allowances": [MAX_INTEGER for _actor in actors],
        "due_marks": [due_of(policy) for _actor, policy in actors],
        "archive_thresholds": [float(policy.archive_threshold) for _actor, policy in actors],
        "profile_sizes": [max_standing_memories(actor) for actor, _policy in actors],
        "kinds": list(STANDING_KINDS),
        "project": "",
        "limit_per_level": MAX_PER_LEVEL,
        "limit": ARCHIVE_BATCH_SIZE,
        "now": now,
    }


def _store_comparison(
    run: SleepRun, compared: SleepState, batch: list[Memory], pairs: list[Pair], *, is_last: bool, continues: bool
) -> SleepRun:
    """Store a batch's pairs, unless another process has moved on from `compared`; end the run unless it `continues`."""
    run_query(BEGIN_STEP)
    lock_exclusive(run.actor_id)
    run = SleepRun.objects.select_related("actor__agent").get(pk=run.pk, actor_id=run.actor_id)
    state = SleepState.of(run.actor_id)
    position = state.compared_until, state.compared_after
    if run.state != RunState.RUNNING or position != (compared.compared_until, compared.compared_after):
        return run
    proposed, merged = record_pairs(run, pairs, merge_automatically=policy_of(run).near_duplicates == "merge")
    run.proposed_count += proposed
    run.merged_count += merged
    if batch:
        state.compared_until, state.compared_after = batch[-1].updated_at, batch[-1].pk
    is_incomplete = continues or (not is_last and bool(memories_to_compare(state, 1, now=run.now)))
    if not continues:
        if is_incomplete:
            run.errors = [*run.errors, COMPARISON_INCOMPLETE]
        _end([run])
    if is_incomplete:
        state.save(update_fields=["compared_until", "compared_after"])
    run.save()
    return run


def _end(runs: Sequence[SleepRun]) -> None:
    """Mark runs as done; `processed_at` is a run's nominal time plus its duration."""
    if not runs:
        return
    now = runs[0].now
    values = {"actor_ids": [run.actor_id for run in runs], "now": now, "compared_until": now - MAX_COMMIT_DELAY}
    execute_all(SLEEP_QUERIES["end_sleeps"], values)
    for run in runs:
        run.state, run.processed_at = RunState.DONE, now + max(timezone.now() - run.started_at, timedelta())
    rows = [
        (run, {"decayed": run.decayed_count, "archived": run.archived_count, "merged": run.merged_count})
        for run in runs
    ]
    audit.record_rows(by=runs[0].sleeper, verb="sleep", rows=rows, now=now)


def clock_values(state: SleepState) -> dict[str, Any]:
    """Return the clock's values as JSON types, for `restore_clock`."""
    return {
        "clock": state.clock,
        "clock_at": state.clock_at and state.clock_at.isoformat(),
        "clock_task": state.clock_task,
        "rates": state.rates,
        "by_task": state.by_task,
        "thresholds": state.thresholds,
    }


def restore_clock(state: SleepState, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(state, name, value)
    state.clock_at = parse_datetime(values["clock_at"]) if values["clock_at"] else None
    state.clock_before = None
