"""An actor's sleep: what is not used fades, the weak are archived, what says the same is proposed as one (SPEC S5–S7).

Set-based, in slices: each is one transaction that also says where to go on, so that a sleep may be killed at any
point; whoever wakes it next goes on with the same run and the same moment. Several that wake one actor share a run.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from memoryhub.auth import audit
from memoryhub.auth.domain import Principal
from memoryhub.tenancy.domain import PolicyError
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from strength import sleep_sql as sql
from strength.actions.duplicates import Pair, pairs_among, to_compare
from strength.actions.merges import record_pairs, withdraw_stale
from strength.domain.memories import SLEEP_VERB, Status
from strength.domain.policy import StrengthPolicy
from strength.domain.sleep import Phase, RunState, Trigger, Why
from strength.domain.strength import Clock
from strength.models import Memory, SleepRun, SleepState
from strength.models.locks import lock_exclusive, settle_numbers
from strength.sleep_sql import MOVE_MEMORIES
from strength.sql import policy_values

SLICE: Final = 10_000
"""Memories that one transaction looks at: some 30 ms, 90 where all are written; those who use them wait so long."""

FEW: Final = 1_000
"""Memories that are written one by one, by their keys; of more the slice is gone through."""

KEPT: Final = (
    "runs", "slept_at", "compared_until", "compared_after", "clock", "clock_at", "clock_task", "clock_of",
    "before_clock", "before_clock_at", "before_clock_task",
)  # fmt: skip
"""What of a rhythm sleeps write, in the order of HOLD_RHYTHM."""

COMPARED_AT_ONCE: Final = 50
LATE: Final = timedelta(minutes=10)
"""How long after its time a change may be committed, and still be seen by the next sleep."""

NOT_ALL_COMPARED: Final = (
    "Some new memories were not compared with the others yet; the next sleep goes on with them."
)


class Ends(Enum):
    """Whether a batch is the last of a run: of all there are, or of as many as it may look at."""

    NO = auto()
    ALL = auto()
    FOR_NOW = auto()


Step = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True)
class SleepRequest:
    """Who begins a sleep, why, and for which moment."""

    trigger: Trigger
    by: Principal
    now: datetime
    group: UUID | None = None


def sleep(
    *,
    actor: Actor,
    waking: SleepRequest,
    most_compared: int | None = None,
    step: Step = transaction.atomic,
    may_go_on: Callable[[], bool] = lambda: True,
) -> SleepRun:
    """Let an actor's memory sleep and return the run, done.

    Goes on with a run that was interrupted. Where one has ended after `waking.now`, that is returned: it was the
    answer to the same occasion. At most `most_compared` memories are looked at for near-duplicates, and none where
    `may_go_on` says no; what is left is told in `errors`, and the next run goes on with it. Each part happens inside a
    `step`, its own transaction. Raises UnknownRow where the actor is gone.
    """
    left = most_compared
    with step():
        run = _fade_on(actor, waking)
    while run.state == RunState.RUNNING and run.phase != Phase.COMPARE:
        with step():
            run = _fade_on(actor, waking, run.pk)
    while run.state == RunState.RUNNING:
        asked = COMPARED_AT_ONCE if left is None else min(left, COMPARED_AT_ONCE)
        batch = to_compare(run, asked)
        pairs = pairs_among(actor, batch, now=run.now)
        left = None if left is None else left - len(batch)
        ends = Ends.ALL if len(batch) < asked else Ends.FOR_NOW if left == 0 or not may_go_on() else Ends.NO
        with step():
            run = _compare_on(actor, run, batch, pairs, ends)
    return run


def _fade_on(actor: Actor, waking: SleepRequest, begun: UUID | None = None) -> SleepRun:
    """Fade the next slice of the actor's run, or begin one; the last slice ends the phase."""
    lock_exclusive(actor.id)
    rhythm = lock_state(actor)
    run = _answering(actor, rhythm, waking, begun) or _begin(actor, rhythm, waking)
    if run.state == RunState.RUNNING and run.phase == Phase.FADE:
        _fade_slice(run, rhythm)
    elif run.state == RunState.RUNNING and run.phase == Phase.CROWD:
        _thin_crowd(run, rhythm)
    return run


def lock_state(actor: Actor) -> SleepState:
    """Return the actor's clock of sleeps, held until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(sql.HOLD_RHYTHM, {"actor_id": actor.id})
        tasks, *values = cursor.fetchone()[: 1 + len(KEPT)]
    return SleepState(actor=actor, tasks_completed=tasks, **dict(zip(KEPT, values, strict=True)))


def store_state(rhythm: SleepState) -> tuple[datetime, datetime]:
    """Store the clock of sleeps; return the time by the wall, and when the transaction began."""
    values = {name: getattr(rhythm, name) for name in ("actor_id", *KEPT)}
    with connection.cursor() as cursor:
        cursor.execute(sql.NOTE_RHYTHM, values)
        moment, began, *_settings = cursor.fetchone()
    return moment, began


def _answering(actor: Actor, rhythm: SleepState, waking: SleepRequest, begun: UUID | None) -> SleepRun | None:
    """Return the latest run where it is not over, is the one we go on with, or ended after the waking."""
    latest = SleepRun.objects.filter(actor=actor, number=rhythm.runs).first()
    if latest is None:
        return None
    latest.actor = actor
    ended_since = latest.processed_at is not None and latest.processed_at >= waking.now
    answers = latest.state == RunState.RUNNING or (latest.state == RunState.DONE and ended_since)
    return latest if answers or latest.pk == begun else None


def _begin(actor: Actor, rhythm: SleepState, waking: SleepRequest) -> SleepRun:
    rhythm.runs += 1
    return SleepRun(
        actor=actor, number=rhythm.runs, group=waking.group, trigger=waking.trigger, now=waking.now,
        policy=effective_policy(StrengthPolicy, actor.agent, actor).values(), tasks_completed=rhythm.tasks_completed,
        compared_since=rhythm.compared_until, who_kind=waking.by.kind, who_id=waking.by.id,
        who_name=waking.by.name[:150],
    )  # fmt: skip


def policy_of(run: SleepRun) -> StrengthPolicy:
    """Return the policy that a run began under: it ends as it began, whatever was changed meanwhile.

    Where a newer release does not allow it any more, the run goes on under the policy of now.
    """
    try:
        return StrengthPolicy.from_overrides(run.policy)
    except PolicyError:
        run.policy = effective_policy(StrengthPolicy, run.actor.agent, run.actor).values()
        run.errors = [
            *run.errors,
            "The policy that it began under is not allowed any more; it went on under another.",
        ]
        return StrengthPolicy.from_overrides(run.policy)


def _end_of_slice(run: SleepRun) -> UUID:
    """Return the last memory of the next slice, which is full."""
    with connection.cursor() as cursor:
        cursor.execute(sql.END_OF_SLICE, {"actor_id": run.actor_id, "after": run.after, "slice": SLICE})
        (memory_id,) = cursor.fetchone()
    return UUID(str(memory_id))


def run_values(run: SleepRun, policy: StrengthPolicy) -> dict[str, Any]:
    """Return a run as the parameters of the statements that reckon for it."""
    return {
        **policy_values(policy),
        "actor_id": run.actor_id,
        "number": run.number,
        "now": run.now,
        "tasks": run.tasks_completed,
    }


def _fade_slice(run: SleepRun, rhythm: SleepState) -> None:
    """Fade a slice by the clock: only what was written since the last night is written, and what falls due."""
    policy = policy_of(run)
    clock = clock_of(rhythm).moved(policy, now=run.now, tasks=run.tasks_completed)
    values = {
        **run_values(run, policy), "clock": rhythm.clock, "clock_at": rhythm.clock_at, "clock_task": rhythm.clock_task,
        "next": list(clock.left), "after": run.after, "slice": SLICE, "few": FEW,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(sql.LOOK, values)
        looked, slept, decayed, written, these, ended, pinned, _setting = cursor.fetchone()
    if ended:  # by itself, for what the slice writes is locked in the order of keys
        settle_numbers(run.actor_id, ended)
        store_state(rhythm)
        run.save()
        return
    until = _end_of_slice(run) if looked == SLICE else None
    run.slept_count += slept
    run.decayed_count += decayed
    if written:
        _write_faded(run, {**values, "until": until, "these": these})
    run.after = until
    if until is None:
        move_clock(rhythm, clock)
    is_crowded = run.slept_count - run.archived_count + pinned > policy.max_active_memories
    if until is None and is_crowded:
        run.phase = Phase.CROWD
    if until is None and not is_crowded:
        _begin_comparing(run, rhythm, policy)
    else:
        store_state(rhythm)
    run.save()


def _write_faded(run: SleepRun, values: dict[str, Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql.FADE, values)
        decayed, risen, weak, slept = cursor.fetchone()
    run.decayed_count += decayed
    run.consolidated_count += risen
    run.slept_count += slept
    run.archived_count += _archive(run, weak or [], Why.WEAK)


def _thin_crowd(run: SleepRun, rhythm: SleepState) -> None:
    """Archive the weakest beyond the most; by itself, for the last slice has locked other rows than these."""
    policy = policy_of(run)
    excess = _excess(run, policy)
    settle_numbers(run.actor_id, excess)
    run.archived_count += _archive(run, excess, Why.CROWDED)
    _begin_comparing(run, rhythm, policy)
    run.save()


def _excess(run: SleepRun, policy: StrengthPolicy) -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(sql.EXCESS, run_values(run, policy))
        return [memory_id for (memory_id,) in cursor.fetchall()]


def _archive(run: SleepRun, memory_ids: list[UUID], why: Why) -> int:
    moved = move_memories(
        actor_id=run.actor_id, memory_ids=memory_ids, from_=Status.ACTIVE, to=Status.ARCHIVED, verb=SLEEP_VERB,
        by=run.sleeper, reason=why.value, now=run.now,
    )  # fmt: skip
    return len(moved)


def _begin_comparing(run: SleepRun, rhythm: SleepState, policy: StrengthPolicy) -> None:
    """Go on to what is new since the last sleep; where nothing is, the run is done."""
    run.phase, run.after, run.compared_at = Phase.COMPARE, rhythm.compared_after, run.compared_since
    if policy.near_duplicates == "off" or not to_compare(run, 1):
        _end(run, rhythm)
    else:
        store_state(rhythm)


def _compare_on(actor: Actor, seen: SleepRun, batch: list[Memory], pairs: list[Pair], ends: Ends) -> SleepRun:
    """Note the pairs of a batch, unless somebody else has gone on meanwhile; the last batch ends the run."""
    lock_exclusive(actor.id)
    rhythm = lock_state(actor)
    run = SleepRun.objects.select_related("actor__agent").get(pk=seen.pk, actor_id=actor.id)
    if run.state != RunState.RUNNING or (run.after, run.compared_at) != (seen.after, seen.compared_at):
        return run
    noted = record_pairs(run, pairs, merges_itself=policy_of(run).near_duplicates == "merge")
    run.proposed_count += noted.proposed
    run.merged_count += noted.merged
    run.errors = [*run.errors, *noted.errors]
    if batch:
        run.after, run.compared_at = batch[-1].pk, batch[-1].updated_at
    if ends is not Ends.NO:
        _end(run, rhythm, leaves_some=ends is Ends.FOR_NOW and bool(to_compare(run, 1)))
    run.save()
    return run


def _end(run: SleepRun, rhythm: SleepState, *, leaves_some: bool = False) -> None:
    """Say that a run is done, in the time that it reckoned for: its moment, and how long it took."""
    if leaves_some:
        run.errors = [*run.errors, NOT_ALL_COMPARED]
    withdraw_stale(run)
    rhythm.slept_at = run.now
    rhythm.compared_until = run.compared_at if leaves_some else run.now - LATE
    rhythm.compared_after = run.after if leaves_some else None
    moment, began = store_state(rhythm)
    run.processed_at = run.now + (moment - (began if run._state.adding else run.started_at))
    run.state = RunState.DONE
    audit.record(
        by=run.sleeper, verb="sleep", object_kind="sleep_run", object_id=run.pk, actor=run.actor,
        details={"decayed": run.decayed_count, "archived": run.archived_count, "merged": run.merged_count},
        now=run.now,
    )  # fmt: skip


def clock_of(rhythm: SleepState) -> Clock:
    """Return where an actor's clock stands."""
    return Clock(rhythm.clock, rhythm.clock_at, rhythm.clock_task)


def move_clock(rhythm: SleepState, clock: Clock) -> None:
    """Let the clock stand where the actor's latest sleep moves it, and remember where it stood before."""
    rhythm.before_clock, rhythm.before_clock_at = rhythm.clock, rhythm.clock_at
    rhythm.before_clock_task = rhythm.clock_task
    rhythm.clock, rhythm.clock_at, rhythm.clock_task = list(clock.left), clock.at, clock.tasks
    rhythm.clock_of = rhythm.runs


def put_clock_back(rhythm: SleepState) -> None:
    """Let the clock stand where it stood before the actor's latest sleep, where that has moved it."""
    if rhythm.clock_of == rhythm.runs:
        rhythm.clock, rhythm.clock_at = rhythm.before_clock, rhythm.before_clock_at
        rhythm.clock_task = rhythm.before_clock_task


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
    """Move those of the memories that are still in the state `from_`, and not pinned; return which.

    Inside the caller's transaction, which keeps others from changing them. One whose text has come into use again
    does not become active.
    """
    if not memory_ids:
        return []
    values: dict[str, Any] = {
        "actor_id": actor_id, "memory_ids": list(memory_ids), "from": from_.value, "to": to.value, "verb": verb,
        "who_kind": by.kind.value, "who_id": by.id, "who_name": by.name[:150], "reason": reason, "now": now,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(MOVE_MEMORIES, values)
        return [memory_id for (memory_id,) in cursor.fetchall()]
