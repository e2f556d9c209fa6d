"""Run sleeps: move actors' clocks, archive the weak outside the profile, propose near-duplicates (SPEC S5-S7).

Set-based, in steps, each for one actor or for many at once. A step is one transaction that also stores where to
continue, so that a sleep may be killed at any point; the next request continues the same run for the same moment.
Concurrent requests for an actor share a run.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import UnknownRow
from memoryhub.bulk import copy_models
from memoryhub.ids import new_id
from memoryhub.prepared import PreparedQuery
from memoryhub.tenancy.domain import PolicyError
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from strength.actions.duplicates import Pair, duplicate_pairs, memories_to_compare
from strength.actions.merges import record_pairs
from strength.actions.revisions import FEED_LOCK
from strength.actions.search import MAX_PER_LEVEL, max_profile_memories
from strength.actions.usage import write_numbers
from strength.domain.memories import STANDING
from strength.domain.policy import StrengthPolicy
from strength.domain.sleep import RunState, Trigger, Why
from strength.models import Memory, SleepRun, SleepState
from strength.models.locks import lock_exclusive, lock_idle, update_fading
from strength.models.sleep import begin_clock, mark_anew
from strength.sql import SLEEP_QUERIES, due_of, execute_all, run_query

SLICE: Final = 10_000
"""Memories that one transaction archives, a second's work; uses of them are blocked meanwhile."""

AT_ONCE: Final = 100
"""Actors that one step is for; uses of their memories wait for it."""

COMPARED_AT_ONCE: Final = 50
LATE: Final = timedelta(minutes=10)
"""How long after its `updated_at` a change may be committed, and still be compared by the next sleep."""

NOT_ALL_COMPARED: Final = "Some new memories were not compared with the others yet; the next sleep goes on with them."

BEGIN_STEP: Final = """
SET LOCAL synchronous_commit = off;
SET CONSTRAINTS note_change IMMEDIATE; SET CONSTRAINTS note_change DEFERRED
"""
"""A step's commit does not wait for the disk: one that is lost with the machine is lost whole, and repeated. What its
transaction has changed before is in the feed, by which it is known whether an actor's memories have to be counted."""

STATE: Final = [
    each.attname
    for each in SleepState._meta.concrete_fields
    if each.attname not in ("tasks_completed", "active", "active_at")
]
STATES: Final = PreparedQuery(lambda: SleepState.objects.select_for_update().order_by("actor_id"))
LATEST: Final = PreparedQuery(lambda: SleepRun.objects.filter(number=F("actor__sleep_state__runs")).order_by())

Step = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class SleepRequest:
    """The principal, trigger and moment of a sleep; `group` is shared by those of one API call.

    A preview may be of a later moment, `at`: what would happen then if nothing was used or written meanwhile.
    """

    trigger: Trigger
    by: Principal
    now: datetime
    group: UUID | None = None
    at: datetime | None = None


@dataclass(eq=False)
class Night:
    """An actor's sleep in a step that holds the actor, and how many of the memories fade and are pinned."""

    actor: Actor
    policy: StrengthPolicy
    state: SleepState
    run: SleepRun
    fading: int = 0
    pinned: int = 0

    @property
    def excess(self) -> int:
        """Return how many more fade than the policy allows beside those that are pinned."""
        return min(self.fading, max(0, self.fading + self.pinned - self.policy.max_active_memories))


def sleep(
    *,
    actor: Actor,
    request: SleepRequest,
    most_compared: int | None = None,
    step: Step = transaction.atomic,
    may_go_on: Callable[[], bool] = lambda: True,
) -> SleepRun:
    """Run an actor's sleep and return the run, done.

    Continues an interrupted run, and returns one that ended after `request.now`: it answered the same occasion. At most
    `most_compared` memories are compared for near-duplicates, and none once `may_go_on` is false; `errors` names what
    is left to the next run. Each slice runs inside a `step`, its own transaction. Raises UnknownRow where the actor is
    gone.
    """
    left, run = most_compared, None
    while run is None or run.archives:
        with step():
            run = advance([actor], request, is_alone=True, begun=run.pk if run else None)[actor.id]
    while run.state == RunState.RUNNING:
        most = COMPARED_AT_ONCE if left is None else min(left, COMPARED_AT_ONCE)
        seen = SleepState.of(actor.id)
        batch = memories_to_compare(seen, most, now=run.now)
        pairs = duplicate_pairs(actor, batch, now=run.now)
        left = None if left is None else left - len(batch)
        is_all = len(batch) < most
        goes_on = not is_all and left != 0 and may_go_on()
        with step():
            run = _compare_on(run, seen, batch, pairs, is_all=is_all, goes_on=goes_on)
    return run


def sleep_together(
    *,
    actors: Sequence[Actor],
    request: SleepRequest,
    step: Step = transaction.atomic,
    may_go_on: Callable[[], bool] = lambda: True,
) -> Iterator[SleepRun]:
    """Run actors' sleeps and yield the runs, done; an actor that is erased meanwhile has none.

    What a first step for all leaves undone goes on by itself, as does the sleep of an actor whose memories somebody
    changes at this moment: one who is stuck holds nobody else.
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


def in_batches(actors: Sequence[Actor], *, at_once: int = 1) -> list[Sequence[Actor]]:
    """Return the actors in parts of AT_ONCE, or as many as are worked on at once."""
    size = max(1, min(AT_ONCE, ceil(len(actors) / at_once)))
    return [actors[start : start + size] for start in range(0, len(actors), size)]


def advance(
    actors: Sequence[Actor], request: SleepRequest, *, is_alone: bool = False, begun: UUID | None = None
) -> dict[UUID, SleepRun]:
    """Begin actors' sleeps, archive, and end those that have no more to do; return the runs by actor.

    Waits for nobody: actors whom somebody holds are left out, as are those whose policy is not allowed; runs that were
    interrupted are returned as they are. Of an actor who `is_alone` waits, raises what is wrong, and does the next step
    of an interrupted run and of the one that has `begun`.
    """
    execute_all(BEGIN_STEP, {})
    if is_alone:
        lock_exclusive(actors[0].id)
    states = lock_states([actors[0].id] if is_alone else lock_idle([actor.id for actor in actors]))
    answers = Q(state=RunState.RUNNING) | Q(state=RunState.DONE, processed_at__gte=request.now) | Q(pk=begun)
    runs = {run.actor_id: run for run in LATEST.rows(Q(answers, actor_id__in=[*states]))}
    new, going, begun_now = [], [], _begun_by(request)
    for actor in (actor for actor in actors if actor.id in states):
        run, state = runs.get(actor.id), states[actor.id]
        if run is not None:
            run.actor = actor
            if is_alone and run.archives:
                going.append(Night(actor, policy_of(run), state, run))
            continue
        with nullcontext() if is_alone else suppress(PolicyError):
            policy = effective_policy(StrengthPolicy, actor.agent, actor)
            new.append(Night(actor, policy, state, _new_run(begun_now, actor, state, policy)))
    if new:
        _move_clocks(new, request.now)
    if nights := [*going, *new]:
        _archive_step(nights)
    return {**runs, **{each.actor.id: each.run for each in nights}}


def _begun_by(request: SleepRequest) -> SleepRun:
    """Return what the runs of a request share."""
    return SleepRun(
        group=request.group,
        trigger=request.trigger,
        now=request.now,
        who_kind=request.by.kind,
        who_id=request.by.id,
        who_name=request.by.name[:150],
        started_at=timezone.now(),
    )


def _new_run(shared: SleepRun, actor: Actor, state: SleepState, policy: StrengthPolicy) -> SleepRun:
    run = copy(shared)  # a tenth of what the constructor takes
    run.pk, run.actor, run.policy = new_id(), actor, policy.overrides
    run.tasks_completed, run.compared_since = state.tasks_completed, state.compared_until
    return run


def lock_states(actor_ids: Sequence[UUID]) -> dict[UUID, SleepState]:
    """Return actors' sleep states, made where they are missing, locked until the transaction ends."""
    states = {state.actor_id: state for state in STATES.rows(Q(actor_id__in=actor_ids))}
    if missing := [SleepState(actor_id=each) for each in actor_ids if each not in states]:
        SleepState.objects.bulk_create(missing, ignore_conflicts=True)
        states = {state.actor_id: state for state in STATES.rows(Q(actor_id__in=actor_ids))}
    return states


def store_states(states: Iterable[SleepState]) -> None:
    """Store what sleeps decide about locked states: all but what is counted."""
    rows = [{name: getattr(each, name) for name in STATE} for each in states]
    run_query(SLEEP_QUERIES["store_states"], {"states": json.dumps(rows, default=str)})


def policy_of(run: SleepRun) -> StrengthPolicy:
    """Return the policy that a run began under, or the current one where a newer release refuses that."""
    try:
        return StrengthPolicy.from_overrides(run.policy)
    except PolicyError:
        run.policy = effective_policy(StrengthPolicy, run.actor.agent, run.actor).overrides
        run.errors = [*run.errors, "The policy that it began under is not allowed any more; it went on under another."]
        return StrengthPolicy.from_overrides(run.policy)


def _move_clocks(nights: Sequence[Night], now: datetime) -> None:
    """Advance each actor's clock by one row: every memory that fades has faded."""
    for each in nights:
        if each.state.clock_at is None:
            begin_clock(each.actor.id, each.policy, now)
            each.state.refresh_from_db()
    settle_bounded([each.actor.id for each in nights], now)
    others = []
    for each in nights:
        run, state, before = each.run, each.state, each.state.as_clock()
        run.before, clock = clock_values(state), before.paced(each.policy)
        if (clock.rates, clock.by_task) != (before.rates, before.by_task):
            state.set_clock(clock)
            store_states([state])
            mark_anew(each.actor.id, now=now, ahead=True)
        state.set_clock(clock.moved(at=now, tasks=run.tasks_completed))
        state.clock_before, run.clock = list(before.left), state.clock
        state.runs = run.number = state.runs + 1
        thresholds = list(each.policy.consolidation_thresholds)
        if state.thresholds != thresholds:
            others.append(each)
        state.thresholds = thresholds
    store_states(each.state for each in nights)
    for each in others:
        values = {"actor_id": each.actor.id, "thresholds": each.state.thresholds}
        ids = run_query(SLEEP_QUERIES["other_levels"], values)
        rows = Memory.objects.of([each.actor.id]).filter(pk__in=[memory_id for (memory_id,) in ids])
        if memories := list(rows.only("actor_id")):
            each.run.consolidated_count = write_numbers(memories, each.policy, now=now, kind=None)


def settle_bounded(actor_ids: Sequence[UUID], now: datetime) -> None:
    """Let memories fade whose validity began since the last night, and those stand still whose validity has ended."""
    bounded = run_query(SLEEP_QUERIES["bounded"], {"actor_ids": list(actor_ids), "now": now})
    if bounded:
        update_fading({key for key, _id in bounded}, [memory_id for _key, memory_id in bounded], now=now)


def _archive_step(nights: Sequence[Night]) -> None:
    """Archive a slice of the expired and the weak, or of the weakest above the limit; end what has no more to do."""
    now, by_actor = nights[0].run.now, {each.actor.id: each for each in nights}
    going = [each.run for each in nights if not each.run._state.adding]
    values = {"actor_ids": [*by_actor], "now": now}
    for actor_id, fading, faded, pinned in run_query(SLEEP_QUERIES["count_fading"], values):
        night = by_actor[actor_id]
        night.fading, night.pinned = fading, pinned
        if night.run._state.adding:
            night.run.decayed_count = faded
    due = run_query(SLEEP_QUERIES["find_due"], due_values([(each.actor, each.policy) for each in nights], now))
    left = SLICE - _archive(by_actor, due[0][0], Why.WEAK)
    if left > 0 and (crowded := [each for each in nights if each.excess]):
        excesses = {"actor_ids": [each.actor.id for each in crowded], "excesses": [each.excess for each in crowded]}
        found = run_query(SLEEP_QUERIES["find_excess"], {**excesses, "most": left})
        left -= _archive(by_actor, found[0][0], Why.CROWDED)
    if left > 0:
        _compare_or_end(nights)
    copy_models([each.run for each in nights if each.run._state.adding])
    for run in going:
        run.save()


def _archive(nights: Mapping[UUID, Night], memory_ids: str | None, why: Why) -> int:
    """Archive memories, an array as a text, and count them in the runs; return how many."""
    if memory_ids is None:
        return 0
    now = next(iter(nights.values())).run.now
    values = {"actor_ids": [*nights], "memory_ids": memory_ids, "now": now, "lock": FEED_LOCK}
    rows = run_query(SLEEP_QUERIES["archive"], {**values, "why": why, "expired": Why.EXPIRED})
    for actor_id, count, faded in rows:
        nights[actor_id].run.archived_count += count
        nights[actor_id].fading -= faded
    return sum(count for _actor_id, count, _faded in rows)


def _compare_or_end(nights: Sequence[Night]) -> None:
    """Begin to compare what changed since the last sleeps; end those where nothing did."""
    ids = [each.actor.id for each in nights if each.policy.near_duplicates != "off"]
    values = {"actor_ids": ids, "now": nights[0].run.now} if ids else {}
    changed = {key for (key,) in run_query(SLEEP_QUERIES["to_compare"], values)} if ids else set()
    for each in nights:
        each.run.compares = True
    _end([each.run for each in nights if each.actor.id not in changed])


def due_values(actors: Sequence[tuple[Actor, StrengthPolicy]], now: datetime) -> dict[str, Any]:
    return {
        "actor_ids": [actor.pk for actor, _policy in actors],
        "dues": [due_of(policy) for _actor, policy in actors],
        "archive_thresholds": [float(policy.archive_threshold) for _actor, policy in actors],
        "most_shown": [max_profile_memories(actor) for actor, _policy in actors],
        "kinds": list(STANDING),
        "project": "",
        "most_of_level": MAX_PER_LEVEL,
        "most": SLICE,
        "now": now,
    }


def _compare_on(
    run: SleepRun, seen: SleepState, batch: list[Memory], pairs: list[Pair], *, is_all: bool, goes_on: bool
) -> SleepRun:
    """Store the pairs of a batch, unless another process did meanwhile; end the run unless it goes on."""
    execute_all(BEGIN_STEP, {})
    lock_exclusive(run.actor_id)
    run = SleepRun.objects.select_related("actor__agent").get(pk=run.pk, actor_id=run.actor_id)
    state, leaves_some = SleepState.of(run.actor_id), False
    position = state.compared_until, state.compared_after
    if run.state != RunState.RUNNING or position != (seen.compared_until, seen.compared_after):
        return run
    proposed, merged = record_pairs(run, pairs, merges=policy_of(run).near_duplicates == "merge")
    run.proposed_count += proposed
    run.merged_count += merged
    if batch:
        state.compared_until, state.compared_after = batch[-1].updated_at, batch[-1].pk
    if not goes_on:
        leaves_some = not is_all and bool(memories_to_compare(state, 1, now=run.now))
        if leaves_some:
            run.errors = [*run.errors, NOT_ALL_COMPARED]
        _end([run])
    if goes_on or leaves_some:
        state.save(update_fields=["compared_until", "compared_after"])
    run.save()
    return run


def _end(runs: Sequence[SleepRun]) -> None:
    """Mark runs as done; `processed_at` is the moment that one ran for plus its duration."""
    if not runs:
        return
    now = runs[0].now
    values = {"actor_ids": [run.actor_id for run in runs], "now": now, "compared_until": now - LATE}
    execute_all(SLEEP_QUERIES["end_sleeps"], values)
    for run in runs:
        run.state, run.processed_at = RunState.DONE, now + max(timezone.now() - run.started_at, timedelta())
    rows = [
        (run, {"decayed": run.decayed_count, "archived": run.archived_count, "merged": run.merged_count})
        for run in runs
    ]
    audit.record_rows(by=runs[0].sleeper, verb="sleep", rows=rows, now=now)


def clock_values(state: SleepState) -> dict[str, Any]:
    """Return what an undo puts back of an actor's clock, as JSON types."""
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
