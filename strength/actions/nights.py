"""Sleeps of many actors: plain nights as set work, in one step for all; what is left, one actor after the other."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Final
from uuid import UUID

from django.db import transaction

from memoryhub.auth.tenancy import UnknownRow
from memoryhub.tenancy.domain import PolicyError
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.policies import effective_policy
from strength.actions.merges import withdraw_stale
from strength.actions.sleep import (
    LATE,
    SLICE,
    STATE_FIELDS,
    SleepRequest,
    Step,
    archive,
    clock_values,
    counts_of,
    expired_memories,
    new_run,
    record_sleeps,
    settle_bounded,
    sleep,
    weak_memories,
)
from strength.domain.policy import StrengthPolicy
from strength.domain.sleep import Phase, RunState, Why
from strength.models import SleepRun, SleepState
from strength.models.locks import lock_idle
from strength.sql import SLEEP_QUERIES, run_query

AT_ONCE: Final = 25
"""Actors that one step is for; uses of their memories wait for it."""


def in_batches(actors: Sequence[Actor], *, at_once: int = 1) -> list[Sequence[Actor]]:
    """Return the actors in parts of AT_ONCE, or as many as are worked on at once."""
    size = max(1, min(AT_ONCE, ceil(len(actors) / at_once)))
    return [actors[start : start + size] for start in range(0, len(actors), size)]


def sleep_together(
    *,
    actors: Sequence[Actor],
    request: SleepRequest,
    step: Step = transaction.atomic,
    may_go_on: Callable[[], bool] = lambda: True,
) -> Iterator[SleepRun]:
    """Run actors' sleeps and yield the runs, done; an actor that is erased meanwhile has none.

    A sleep that has more to do than to move the clock and to archive goes on by itself, as does that of an actor whose
    memories somebody changes at this moment: one who is stuck holds nobody else.
    """
    with step():
        runs = begin_together(actors, request)
    for actor in actors:
        run = runs.get(actor.id)
        if run is not None and run.state == RunState.DONE:
            yield run
        else:
            with suppress(UnknownRow):
                yield sleep(actor=actor, request=request, may_go_on=may_go_on)


@dataclass
class _Night:
    """A night that moves the clock of every level, by the rates it had: no row is marked anew, no level changes."""

    actor: Actor
    policy: StrengthPolicy
    state: SleepState
    run: SleepRun


def begin_together(actors: Sequence[Actor], request: SleepRequest) -> dict[UUID, SleepRun]:
    """Begin the plain nights among actors' next ones, archive, and end those that have nothing more to do."""
    nights = _plain_nights(actors, request)
    if not nights:
        return {}
    ids, now, by = [each.actor.id for each in nights], request.now, nights[0].run.sleeper
    settle_bounded(ids, now)
    _move_clocks(nights, request)
    counts = counts_of(ids, now)
    expired = expired_memories(ids, now, most=SLICE)
    weak = weak_memories([(each.actor, each.policy) for each in nights], now)
    moved = [archive(due, why, by=by, now=now) for due, why in ((expired, Why.EXPIRED), (weak, Why.WEAK))]
    archived, faded = (
        Counter(actor_id for actor_id, _ in rows) for rows in ([*moved[0], *moved[1]], moved[1])
    )
    is_all = len(expired) < SLICE and len(weak) < SLICE
    changed = {key for (key,) in run_query(SLEEP_QUERIES["to_compare"], {"actor_ids": ids, "now": now})}
    ended = []
    for each in nights:
        fading, each.run.decayed_count, pinned = counts[each.actor.id]
        each.run.archived_count = archived[each.actor.id]
        is_crowded = fading - faded[each.actor.id] + pinned > each.policy.max_active_memories
        compares = each.policy.near_duplicates != "off" and each.actor.id in changed
        if is_all and not is_crowded and not compares:
            ended.append(each.run)
    _end(ended, request)
    SleepRun.objects.bulk_create(each.run for each in nights)
    return {each.actor.id: each.run for each in nights}


def _plain_nights(actors: Sequence[Actor], request: SleepRequest) -> list[_Night]:
    by_id = {actor.id: actor for actor in actors}
    values = {"actor_ids": lock_idle(list(by_id)), "now": request.now}
    nights = []
    for actor_id, tasks, *row in run_query(SLEEP_QUERIES["states_to_move"], values):
        actor, fields = by_id[actor_id], dict(zip(STATE_FIELDS, row, strict=True))
        state = SleepState(actor_id=actor_id, tasks_completed=tasks, **fields)
        with suppress(PolicyError):  # not written through the API: `sleep` says what is wrong with it
            policy = effective_policy(StrengthPolicy, actor.agent, actor)
            if _is_plain(state, policy, request.now):
                nights.append(_Night(actor, policy, state, new_run(actor, request, state, policy)))
    return nights


def _is_plain(state: SleepState, policy: StrengthPolicy, now: datetime) -> bool:
    clock, paced = state.as_clock(), state.as_clock().paced(policy)
    moved = clock.moved(at=now, tasks=state.tasks_completed)
    fades_all = all(after < before for after, before in zip(moved.left, clock.left, strict=True))
    return paced == clock and fades_all and state.thresholds == list(policy.consolidation_thresholds)


def _move_clocks(nights: Sequence[_Night], request: SleepRequest) -> None:
    for each in nights:
        each.run.before = clock_values(each.state)
        each.state.set_clock(each.state.as_clock().moved(at=request.now, tasks=each.run.tasks_completed))
        each.run.clock, each.run.number = each.state.clock, each.state.runs + 1
    values = {
        "actor_ids": [each.actor.id for each in nights],
        "clocks": [f"{{{','.join(map(repr, each.state.clock))}}}" for each in nights],
        "ats": [each.state.clock_at for each in nights],
    }  # fmt: skip
    run_query(SLEEP_QUERIES["move_clocks"], values)


def _end(runs: Sequence[SleepRun], request: SleepRequest) -> None:
    """Mark runs as done; each answers whoever asked while the step lasted."""
    if not runs:
        return
    ids = [run.actor_id for run in runs]
    withdraw_stale(ids, request.now)
    values = {"actor_ids": ids, "now": request.now, "compared_until": request.now - LATE}
    moment, began = run_query(SLEEP_QUERIES["end_sleeps"], values)[0]
    for run in runs:
        run.state, run.processed_at = RunState.DONE, request.now + (moment - began)
        run.phase, run.after, run.compared_at = Phase.COMPARE, None, run.compared_since
    record_sleeps(runs)
