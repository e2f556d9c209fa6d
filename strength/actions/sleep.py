"""Run an actor's sleep: move its clock, archive the weak outside the profile, propose near-duplicates (SPEC S5-S7).

Set-based, in steps. Each is one transaction that also stores where to continue, so that a sleep may be killed at any
point; the next request continues the same run for the same moment. Concurrent requests for an actor share a run.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from strength.actions.revisions import FEED_LOCK
from strength.actions.search import MOST_OF_LEVEL, most_shown
from strength.domain.memories import SLEEP_VERB, STANDING, Status
from strength.domain.policy import StrengthPolicy
from strength.domain.sleep import Phase, RunState, Trigger, Why
from strength.models import Memory, SleepRun, SleepState
from strength.models.locks import lock_exclusive, settle
from strength.models.memory import begin_clock
from strength.sql import SLEEP_QUERIES, execute_all, policy_values, run_query

SLICE: Final = 5_000
"""Memories that one transaction archives; uses of them are blocked meanwhile."""

CHANGES: Final = "SELECT set_config('memoryhub.changes', %(noted)s, true)"
BY_SET: Final = "by_set"
"""Tells the trigger of the feed that the changes are noted at once."""

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
        run = new_run(actor, request, state, effective_policy(StrengthPolicy, actor.agent, actor))
        _move_clock(run, state)
    run.actor = actor
    if run.state == RunState.RUNNING and run.phase != Phase.COMPARE:
        _archive_step(run, state)
    return run


def new_run(actor: Actor, request: SleepRequest, state: SleepState, policy: StrengthPolicy) -> SleepRun:
    run = SleepRun(
        group=request.group, trigger=request.trigger, now=request.now, policy=policy.values(),
        tasks_completed=state.tasks_completed, compared_since=state.compared_until, who_kind=request.by.kind,
        who_id=request.by.id, who_name=request.by.name[:150],
    )  # fmt: skip
    run.actor = actor
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
    settle_bounded([run.actor_id], run.now)
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
        run.decayed_count = _counts(run)[1]
    else:
        counting = {"actor_id": run.actor_id, "clock": state.clock, "clock_before": state.clock_before}
        [(run.decayed_count,)] = run_query(SLEEP_QUERIES["count_reached"], counting)
    if is_other:
        run.consolidated_count = execute_all(SLEEP_QUERIES["refresh_levels"], values)


def settle_bounded(actor_ids: Sequence[UUID], now: datetime) -> None:
    """Let memories fade whose validity began since the last night, and those stand still whose validity has ended."""
    bounded = run_query(SLEEP_QUERIES["bounded"], {"actor_ids": list(actor_ids), "now": now})
    if bounded:
        settle(*_actors_and_memories(bounded), now=now)


def _actors_and_memories(pairs: Sequence[tuple[UUID, UUID]]) -> tuple[set[UUID], list[UUID]]:
    return {actor_id for actor_id, _memory_id in pairs}, [memory_id for _actor_id, memory_id in pairs]


def _archive_step(run: SleepRun, state: SleepState) -> None:
    """Archive the expired, then memories at or below the threshold, then the weakest above the limit, in slices."""
    policy = policy_of(run)
    if run.phase == Phase.FADE and (expired := expired_memories([run.actor_id], run.now, most=SLICE)):
        run.archived_count += len(archive(expired, Why.EXPIRED, by=run.sleeper, now=run.now))
        run.save()
        return
    if run.phase == Phase.FADE:
        due, why = weak_memories([(run.actor, policy)], run.now), Why.WEAK
    else:
        values = {"actor_id": run.actor_id, "most": min(SLICE, _excess(run, policy))}
        due, why = run_query(SLEEP_QUERIES["excess"], values), Why.CROWDED
    run.archived_count += len(archive(due, why, by=run.sleeper, now=run.now))
    is_all = len(due) < SLICE
    if is_all and run.phase == Phase.FADE and _excess(run, policy):
        run.phase = Phase.CROWD
    elif is_all:
        _begin_comparing(run, state, policy)
    run.save()


def expired_memories(
    actor_ids: Sequence[UUID], now: datetime, *, most: int | None = None
) -> list[tuple[UUID, UUID]]:
    return run_query(SLEEP_QUERIES["expired"], {"actor_ids": list(actor_ids), "now": now, "most": most})


def weak_memories(actors: Sequence[tuple[Actor, StrengthPolicy]], now: datetime) -> list[tuple[UUID, UUID]]:
    """Return actors' memories at or below their thresholds that no profile shows, at most SLICE."""
    return run_query(SLEEP_QUERIES["weak"], weak_values(actors, now))


def weak_values(actors: Sequence[tuple[Actor, StrengthPolicy]], now: datetime) -> dict[str, Any]:
    limits = [policy_values(policy) for _actor, policy in actors]
    return {
        "actor_ids": [actor.pk for actor, _policy in actors], "dues": [each["due"] for each in limits],
        "archive_thresholds": [float(each["archive_threshold"]) for each in limits],
        "most_shown": [most_shown(actor) for actor, _policy in actors], "kinds": list(STANDING), "project": "",
        "most_of_level": MOST_OF_LEVEL, "most": SLICE, "now": now,
    }  # fmt: skip


def counts_of(actor_ids: Sequence[UUID], now: datetime) -> dict[UUID, tuple[int, int, int]]:
    """Return by actor how many memories fade, how many the night has reached, and how many are pinned."""
    rows = run_query(SLEEP_QUERIES["count_fading"], {"actor_ids": list(actor_ids), "now": now})
    return {actor_id: (fading, reached, pinned) for actor_id, fading, reached, pinned in rows}


def _counts(run: SleepRun) -> tuple[int, int, int]:
    return counts_of([run.actor_id], run.now)[run.actor_id]


def _excess(run: SleepRun, policy: StrengthPolicy) -> int:
    fading, _reached, pinned = _counts(run)
    return min(fading, max(0, fading + pinned - policy.max_active_memories))


def archive(
    due: Sequence[tuple[UUID, UUID]], why: Why, *, by: Principal, now: datetime
) -> list[tuple[UUID, UUID]]:
    """Archive memories, given with their actors, in one step; return those that were active."""
    if not due:
        return []
    whose, keys = _actors_and_memories(due)
    run_query(CHANGES, {"noted": BY_SET})
    moved = move_memories(
        actor_ids=whose, memory_ids=keys, from_=Status.ACTIVE, to=Status.ARCHIVED, verb=SLEEP_VERB, by=by,
        reason=why.value, now=now,
    )  # fmt: skip
    run_query(CHANGES, {"noted": ""})
    settle(whose, keys, now=now, is_locked=True)
    actor_ids, memory_ids, versions = ([row[place] for row in moved] for place in range(3))
    values = {"actor_ids": actor_ids, "memory_ids": memory_ids, "versions": versions}
    run_query(SLEEP_QUERIES["note_archived"], {**values, "lock": FEED_LOCK, "now": now})
    return [(actor_id, memory_id) for actor_id, memory_id, _version in moved]


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
    withdraw_stale([run.actor_id], run.now)
    state.slept_at = run.now
    state.compared_until = run.compared_at if leaves_some else run.now - LATE
    state.compared_after = run.after if leaves_some else None
    moment, began = store_state(state)
    run.processed_at = run.now + (moment - (began if run._state.adding else run.started_at))
    run.state = RunState.DONE
    record_sleeps([run])


def record_sleeps(runs: Sequence[SleepRun]) -> None:
    """Write the audit entries of runs of one occasion."""
    details = [
        {"decayed": run.decayed_count, "archived": run.archived_count, "merged": run.merged_count}
        for run in runs
    ]
    audit.record_rows(
        by=runs[0].sleeper, verb="sleep", rows=list(zip(runs, details, strict=True)), now=runs[0].now
    )


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
    actor_ids: Iterable[UUID],
    memory_ids: Sequence[UUID],
    from_: Status,
    to: Status,
    verb: str,
    by: Principal,
    reason: str,
    now: datetime,
) -> list[tuple[UUID, UUID, int]]:
    """Change the status of those that still have `from_` and are not pinned, each with a revision.

    Inside the caller's transaction, under the actors' exclusive locks. One whose text another memory has by now is not
    activated. Returns the actors, ids and new versions.
    """
    if not memory_ids:
        return []
    values: dict[str, Any] = {
        "actor_ids": list(actor_ids), "memory_ids": list(memory_ids), "from": from_.value, "to": to.value, "verb": verb,
        "who_kind": by.kind.value, "who_id": by.id, "who_name": by.name[:150], "reason": reason, "now": now,
    }  # fmt: skip
    return run_query(SLEEP_QUERIES["move_memories"], values)
