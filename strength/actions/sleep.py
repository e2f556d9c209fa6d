"""Run an actor's sleep: move its clock, archive the weak outside the profile, propose near-duplicates (SPEC S5-S7).

Set-based, in steps. Each is one transaction that also stores where to continue, so that a sleep may be killed at any
point; the next request continues the same run for the same moment. Concurrent requests for an actor share a run.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.utils.dateparse import parse_datetime

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.tenancy.domain import PolicyError
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from strength.actions.duplicates import Pair, pairs_among, to_compare
from strength.actions.merges import record_pairs, withdraw_stale
from strength.actions.search import profile_ids
from strength.domain.memories import SLEEP_VERB, Status
from strength.domain.policy import StrengthPolicy
from strength.domain.sleep import Phase, RunState, Trigger, Why
from strength.models import Memory, SleepRun, SleepState
from strength.models.locks import lock_exclusive, settle
from strength.models.memory import begin_clock
from strength.sql import SLEEP_QUERIES, execute_all, policy_values, run_query

SLICE: Final = 5_000
"""Memories that one transaction archives; uses of them are blocked meanwhile."""

STATE_FIELDS: Final = (
    "runs", "clock", "clock_at", "clock_task", "rates", "by_task", "thresholds", "clock_before", "slept_at",
    "compared_until", "compared_after",
)  # fmt: skip
"""The columns of SleepState that sleeps write, in the order of `lock_state`."""

COMPARED_AT_ONCE: Final = 50
LATE: Final = timedelta(minutes=10)
"""How long after its `updated_at` a change may be committed, and still be compared by the next sleep."""

NOT_ALL_COMPARED: Final = (
    "Some new memories were not compared with the others yet; the next sleep goes on with them."
)


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
    left = most_compared
    with step():
        run = _advance(actor, request)
    while run.state == RunState.RUNNING and run.phase != Phase.COMPARE:
        with step():
            run = _advance(actor, request, run.pk)
    while run.state == RunState.RUNNING:
        most = COMPARED_AT_ONCE if left is None else min(left, COMPARED_AT_ONCE)
        batch = to_compare(run, most)
        pairs = pairs_among(actor, batch, now=run.now)
        left = None if left is None else left - len(batch)
        is_all = len(batch) < most
        goes_on = not is_all and left != 0 and may_go_on()
        with step():
            run = _compare_on(actor, run, batch, pairs, is_all=is_all, goes_on=goes_on)
    return run


def _advance(actor: Actor, request: SleepRequest, begun: UUID | None = None) -> SleepRun:
    """Do the next step of the actor's run, or begin one, which moves the clock; the last step ends the phase."""
    lock_exclusive(actor.id)
    state = lock_state(actor)
    run = SleepRun.objects.filter(actor=actor, number=state.runs).first()
    if run is None or not (run.pk == begun or _answers(run, request)):
        run = SleepRun(
            group=request.group, trigger=request.trigger, now=request.now,
            policy=effective_policy(StrengthPolicy, actor.agent, actor).values(), tasks_completed=state.tasks_completed,
            compared_since=state.compared_until, who_kind=request.by.kind, who_id=request.by.id,
            who_name=request.by.name[:150],
        )  # fmt: skip
        run.actor = actor
        _move_clock(run, state)
    run.actor = actor
    if run.state == RunState.RUNNING and run.phase != Phase.COMPARE:
        _archive_step(run, state)
    return run


def _answers(latest: SleepRun, request: SleepRequest) -> bool:
    ended_since = latest.processed_at is not None and latest.processed_at >= request.now
    return latest.state == RunState.RUNNING or (latest.state == RunState.DONE and ended_since)


def lock_state(actor: Actor) -> SleepState:
    """Return the actor's sleep state, made where it is missing, locked until the transaction ends."""
    [(tasks, *row)] = run_query(SLEEP_QUERIES["lock_state"], {"actor_id": actor.id})
    values = row[: len(STATE_FIELDS)]
    return SleepState(actor=actor, tasks_completed=tasks, **dict(zip(STATE_FIELDS, values, strict=True)))


def store_state(state: SleepState) -> tuple[datetime, datetime]:
    """Store the sleep state; return the wall clock's time, and when the transaction began."""
    values = {name: getattr(state, name) for name in ("actor_id", *STATE_FIELDS)}
    [(moment, began)] = run_query(SLEEP_QUERIES["store_state"], values)
    return moment, began


def policy_of(run: SleepRun) -> StrengthPolicy:
    """Return the policy that a run began under, or the current one where a newer release refuses that."""
    try:
        return StrengthPolicy.from_overrides(run.policy)
    except PolicyError:
        run.policy = effective_policy(StrengthPolicy, run.actor.agent, run.actor).values()
        run.errors = [
            *run.errors,
            "The policy that it began under is not allowed any more; it went on under another.",
        ]
        return StrengthPolicy.from_overrides(run.policy)


def run_values(run: SleepRun, policy: StrengthPolicy) -> dict[str, Any]:
    return {**policy_values(policy), "actor_id": run.actor_id, "number": run.number, "now": run.now}


def _move_clock(run: SleepRun, state: SleepState) -> None:
    """Advance the actor's clock by one row: every memory that fades has faded."""
    policy = policy_of(run)
    if state.clock_at is None:
        begin_clock(run.actor_id, policy, run.now)
        for name, value in vars(lock_state(run.actor)).items():
            setattr(state, name, value)
    _settle_bounded(run, state)
    before, thresholds = state.as_clock(), list(policy.consolidation_thresholds)
    run.before = clock_values(state)
    clock = before.paced(policy)
    values = run_values(run, policy)
    if (clock.rates, clock.by_task) != (before.rates, before.by_task):
        execute_all(SLEEP_QUERIES["mark_anew"], values)
    state.set_clock(clock.moved(at=run.now, tasks=run.tasks_completed))
    state.clock_before, run.clock = list(before.left), state.clock
    state.runs += 1
    run.number = state.runs
    is_other, state.thresholds = state.thresholds != thresholds, thresholds
    store_state(state)
    if all(after < then for after, then in zip(state.clock, before.left, strict=True)):
        run.decayed_count = _counts(run, state)[1]
    else:
        counting = {"actor_id": run.actor_id, "clock": state.clock, "clock_before": state.clock_before}
        [(run.decayed_count,)] = run_query(SLEEP_QUERIES["count_reached"], counting)
    if is_other:
        run.consolidated_count = execute_all(SLEEP_QUERIES["refresh_levels"], values)


def _settle_bounded(run: SleepRun, state: SleepState) -> None:
    """Let memories fade whose validity began since the last night, and those stand still whose validity has ended."""
    values = {"actor_id": run.actor_id, "since": state.clock_at, "now": run.now}
    ids = [memory_id for (memory_id,) in run_query(SLEEP_QUERIES["bounded"], values)]
    if ids:
        settle(run.actor_id, ids, now=run.now)


def _archive_step(run: SleepRun, state: SleepState) -> None:
    """Archive the expired, then memories at or below the threshold, then the weakest above the limit, in slices."""
    policy = policy_of(run)
    if run.phase == Phase.FADE and (expired := expired_memories(run, most=SLICE)):
        run.archived_count += _archive(run, expired, Why.EXPIRED)
        run.save()
        return
    if run.phase == Phase.FADE:
        kept = profile_ids(run.actor, now=run.now)
        values, why = {**run_values(run, policy), "clock": state.clock, "kept": kept, "most": SLICE}, Why.WEAK
        query = SLEEP_QUERIES["weak"]
    else:
        values, why = {"actor_id": run.actor_id, "most": min(SLICE, _excess(run, state, policy))}, Why.CROWDED
        query = SLEEP_QUERIES["excess"]
    ids = [memory_id for (memory_id,) in run_query(query, values)]
    run.archived_count += _archive(run, ids, why)
    is_all = len(ids) < SLICE
    if is_all and run.phase == Phase.FADE and _excess(run, state, policy):
        run.phase = Phase.CROWD
    elif is_all:
        _begin_comparing(run, state, policy)
    run.save()


def expired_memories(run: SleepRun, *, most: int | None = None) -> list[UUID]:
    values = {"actor_id": run.actor_id, "now": run.now, "most": most}
    return [memory_id for (memory_id,) in run_query(SLEEP_QUERIES["expired"], values)]


def _counts(run: SleepRun, state: SleepState) -> tuple[int, int, int]:
    values = {"actor_id": run.actor_id, "now": run.now, "clock": state.clock}
    [(fading, reached, pinned)] = run_query(SLEEP_QUERIES["count_fading"], values)
    return fading, reached, pinned


def _excess(run: SleepRun, state: SleepState, policy: StrengthPolicy) -> int:
    fading, _reached, pinned = _counts(run, state)
    return min(fading, max(0, fading + pinned - policy.max_active_memories))


def _archive(run: SleepRun, memory_ids: list[UUID], why: Why) -> int:
    moved = move_memories(
        actor_id=run.actor_id, memory_ids=memory_ids, from_=Status.ACTIVE, to=Status.ARCHIVED, verb=SLEEP_VERB,
        by=run.sleeper, reason=why.value, now=run.now,
    )  # fmt: skip
    if memory_ids:
        settle(run.actor_id, memory_ids, now=run.now)
    return len(moved)


def _begin_comparing(run: SleepRun, state: SleepState, policy: StrengthPolicy) -> None:
    """Begin to compare what changed since the last sleep; end the run where nothing did."""
    run.phase, run.after, run.compared_at = Phase.COMPARE, state.compared_after, run.compared_since
    if policy.near_duplicates == "off" or not to_compare(run, 1):
        _end(run, state)
    else:
        store_state(state)


def _compare_on(
    actor: Actor, seen: SleepRun, batch: list[Memory], pairs: list[Pair], *, is_all: bool, goes_on: bool
) -> SleepRun:
    """Store the pairs of a batch, unless another process did meanwhile; end the run unless it goes on."""
    lock_exclusive(actor.id)
    state = lock_state(actor)
    run = SleepRun.objects.select_related("actor__agent").get(pk=seen.pk, actor_id=actor.id)
    if run.state != RunState.RUNNING or (run.after, run.compared_at) != (seen.after, seen.compared_at):
        return run
    proposed, merged = record_pairs(run, pairs, merges=policy_of(run).near_duplicates == "merge")
    run.proposed_count += proposed
    run.merged_count += merged
    if batch:
        run.after, run.compared_at = batch[-1].pk, batch[-1].updated_at
    if not goes_on:
        _end(run, state, leaves_some=not is_all and bool(to_compare(run, 1)))
    run.save()
    return run


def _end(run: SleepRun, state: SleepState, *, leaves_some: bool = False) -> None:
    """Mark a run as done; `processed_at` is the moment it ran for plus its duration."""
    if leaves_some:
        run.errors = [*run.errors, NOT_ALL_COMPARED]
    withdraw_stale(run)
    state.slept_at = run.now
    state.compared_until = run.compared_at if leaves_some else run.now - LATE
    state.compared_after = run.after if leaves_some else None
    moment, began = store_state(state)
    run.processed_at = run.now + (moment - (began if run._state.adding else run.started_at))
    run.state = RunState.DONE
    audit.record(
        by=run.sleeper, verb="sleep", row=run,
        details={"decayed": run.decayed_count, "archived": run.archived_count, "merged": run.merged_count},
        now=run.now,
    )  # fmt: skip


def clock_values(state: SleepState) -> dict[str, Any]:
    """Return what an undo puts back of an actor's clock, as JSON types."""
    return {
        "clock": state.clock, "clock_at": state.clock_at and state.clock_at.isoformat(),
        "clock_task": state.clock_task, "rates": state.rates, "by_task": state.by_task, "thresholds": state.thresholds,
    }  # fmt: skip


def restore_clock(state: SleepState, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(state, name, value)
    state.clock_at = parse_datetime(values["clock_at"]) if values["clock_at"] else None
    state.clock_before = None


def move_memories(
    *,
    actor_id: UUID,
    memory_ids: Sequence[UUID],
    from_: Status,
    to: Status,
    verb: str,
    by: Principal,
    reason: str,
    now: datetime,
) -> list[UUID]:
    """Change the status of those that still have `from_` and are not pinned, each with a revision; return their ids.

    Inside the caller's transaction, under the actor's exclusive lock. One whose text another memory has by now is not
    activated.
    """
    if not memory_ids:
        return []
    values: dict[str, Any] = {
        "actor_id": actor_id, "memory_ids": list(memory_ids), "from": from_.value, "to": to.value, "verb": verb,
        "who_kind": by.kind.value, "who_id": by.id, "who_name": by.name[:150], "reason": reason, "now": now,
    }  # fmt: skip
    return [memory_id for (memory_id,) in run_query(SLEEP_QUERIES["move_memories"], values)]
