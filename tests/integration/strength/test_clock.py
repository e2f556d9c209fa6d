"""Nights that write only what was written, and what is read in between is as if they had written everything (S5, S6)."""

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from memoryhub.auth.tenancy import actor_for_writing
from memoryhub.importexport.fields import Table
from memoryhub.tenancy.models import Actor
from strength.actions import sleep as sleeping
from strength.actions.curation import apply_transition, edit_memory
from strength.actions.memories import NewMemory, write_memory
from strength.actions.merges import CannotMerge, merge
from strength.actions.sleep import SleepRequest, sleep
from strength.actions.sleep_runs import changes_of, undo_sleep
from strength.actions.usage import apply_impact, mark_candidates, set_strengths, use_memories
from strength.domain.memories import WrongState
from strength.domain.sleep import MergeState, Trigger
from strength.domain.strength import Impact
from strength.models import (
    CurrentNumbers,
    Memory,
    MemoryNumbers,
    Merge,
    PerspectiveStrength,
    SleepRun,
    SleepState,
)
from strength.models.locks import settle_numbers
from tests.examples import examples
from tests.integration.strength.conftest import BY, NOW, Sleep, Write

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def numbers(memory: Memory) -> CurrentNumbers:
    return CurrentNumbers.objects.get(memory=memory)


def places() -> dict[Any, str]:
    """Return where each row of numbers lies: whatever is written lies elsewhere."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT memory_id, ctid::text FROM strength_memorynumbers")
        return dict(cursor.fetchall())


def used(memory: Memory, at: Any, **more: Any) -> None:
    use_memories(memories=[memory], by=BY, now=at, **{"perspective": None, "task": None, **more})


def test_a_night_writes_what_was_written_and_what_falls_due(write: Write, sleep_at: Sleep) -> None:
    idle, busy, weak = write("idle"), write("busy"), write("weak", strength=0.105)
    first = sleep_at(NOW + DAY)
    assert (first.decayed_count, first.archived_count) == (3, 1)
    before = places()
    used(busy, NOW + 1.5 * DAY)

    run = sleep_at(NOW + 2 * DAY)

    after = places()
    assert after[idle.pk] == before[idle.pk] and after[busy.pk] != before[busy.pk]
    assert (run.decayed_count, run.slept_count, run.archived_count) == (2, 2, 0)
    assert numbers(idle).strength == pytest.approx(0.95**2, rel=1e-12)
    assert numbers(busy).strength == pytest.approx((0.95 + 0.1) * 0.95, rel=1e-12)
    assert numbers(idle).last_decay_at == numbers(busy).last_decay_at == NOW + 2 * DAY
    assert numbers(weak).strength == pytest.approx(0.105 * 0.95, rel=1e-12)
    assert {change["memory_id"] for change in changes_of(run)} == {str(idle.pk), str(busy.pk)}


def test_what_is_archived_on_the_clock_stands_still_and_comes_back_with_undo(
    write: Write, sleep_at: Sleep
) -> None:
    memory = write("tea", strength=0.12)
    for day in (1, 2, 3):
        sleep_at(NOW + day * DAY)
    run = sleep_at(NOW + 4 * DAY)
    assert (run.archived_count, run.decayed_count) == (1, 1)
    faded = 0.12 * 0.95**4
    assert numbers(memory).strength == pytest.approx(faded, rel=1e-12)
    undo_sleep(run=run, by=BY, reason="", now=NOW + 4.5 * DAY)
    assert Memory.objects.get().status == "active"
    assert numbers(memory).strength == pytest.approx(0.12 * 0.95**3, rel=1e-12)
    sleep_at(NOW + 5 * DAY)
    sleep_at(NOW + 6 * DAY)
    assert numbers(memory).strength == pytest.approx(
        0.12 * 0.95**5, rel=1e-12
    )  # archived in the night before


def test_what_is_crowded_out_is_chosen_by_what_the_clock_says(
    actor: Actor, write: Write, sleep_at: Sleep
) -> None:
    """Strong once, and faded for long: the stored strength of the first is the greatest."""
    old = write("old", strength=1.0)
    for day in range(1, 11):
        sleep_at(NOW + day * DAY)
    write("new", at=NOW + 10 * DAY, strength=0.8)
    write("newer", at=NOW + 10 * DAY, strength=0.9)
    actor.agent.policy = {"max_active_memories": 2}
    actor.agent.save()
    run = sleep_at(NOW + 11 * DAY)
    assert run.archived_count == 1
    assert Memory.objects.get(status="archived") == old
    assert numbers(old).strength == pytest.approx(0.95**11, rel=1e-12)
    assert MemoryNumbers.objects.get(memory=old).clock_then is None


def test_thresholds_that_change_bring_another_level_and_its_rate(
    actor: Actor, write: Write, sleep_at: Sleep
) -> None:
    memory = write("tea")
    for _ in range(3):
        used(memory, NOW)
    sleep_at(NOW + DAY)
    sleep_at(NOW + 2 * DAY)
    actor.agent.policy = {"consolidation_thresholds": [0, 3, 15, 30, 60, 100]}
    actor.agent.save()
    run = sleep_at(NOW + 3 * DAY)
    assert (run.consolidated_count, run.decayed_count, numbers(memory).consolidation_level) == (1, 1, 1)
    sleep_at(NOW + 4 * DAY)
    assert numbers(memory).strength == pytest.approx(1.3 * 0.95**3 * 0.97, rel=1e-12)


def test_policies_that_change_add_up(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    memory = write("tea")
    sleep_at(NOW + DAY)
    for day, target in ((2, 0.9), (3, 1.0), (4, 0.5)):
        actor.agent.policy = {"daily_decay_targets": {str(level): target for level in range(6)}}
        actor.agent.save()
        run = sleep_at(NOW + day * DAY)
        assert run.decayed_count == (target < 1.0)
    assert numbers(memory).strength == pytest.approx(0.95 * 0.9 * 0.5, rel=1e-12)


def test_what_ends_leaves_the_clock_where_it_stood(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    memory = write("tea", valid_to=NOW + 2.5 * DAY)
    for day in range(1, 6):
        sleep_at(NOW + day * DAY)
    assert numbers(memory).strength == pytest.approx(0.95**2, rel=1e-12)
    edit_memory(
        memory=memory, values={"valid_to": None}, expected_version=None, by=BY, reason="", now=NOW + 7 * DAY
    )
    sleep_at(NOW + 8 * DAY)
    assert numbers(memory).strength == pytest.approx(0.95**3, rel=1e-12)


def test_an_erased_actors_clock_is_nobodys(write: Write, sleep_at: Sleep, actor: Actor) -> None:
    write("tea")
    sleep_at(NOW + DAY)
    sleep_at(NOW + 2 * DAY)
    actor.delete()
    assert not CurrentNumbers.objects.exists() and not SleepState.objects.exists()


def test_exports_hold_numbers_as_they_are(write: Write, sleep_at: Sleep) -> None:
    memory = write("tea")
    for day in (1, 2, 3):
        sleep_at(NOW + day * DAY)
    table = Table(MemoryNumbers)
    (row,) = table.rows.values(*table.codecs)
    assert "clock_then" not in row
    assert row["strength"] == pytest.approx(0.95**3, rel=1e-12)
    assert (row["slept_in"], row["before_strength"]) == (3, pytest.approx(0.95**2, rel=1e-12))
    settle_numbers(memory.actor_id, [memory.pk])
    assert table.rows.values(*table.codecs).get() == row


@pytest.mark.parametrize("clock", ["elapsed", "task"])
def test_what_began_after_the_moment_of_a_late_night_does_not_fade_for_the_time_before(
    clock: str, write: Write, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sleep is broken off and gone on with a month later, for its own moment; meanwhile something is remembered."""
    actor.agent.policy = {"decay_clock": clock}
    actor.agent.save()
    monkeypatch.setattr(sleeping, "SLICE", 1)
    write("early"), write("early too")
    broken_off = SleepRequest(Trigger.COMMAND, BY, NOW + DAY)
    sleeping._advance(actor, broken_off)
    _tasks(actor, 300)
    late = write("late", at=NOW + 30 * DAY)
    sleep(actor=actor, request=broken_off)
    assert numbers(late).strength == 1.0
    assert numbers(late).last_decay_at == NOW + 30 * DAY
    _tasks(actor, 10)
    sleep(actor=actor, request=SleepRequest(Trigger.COMMAND, BY, NOW + 31 * DAY))
    assert numbers(late).strength == pytest.approx(0.95, rel=1e-12)


def test_what_an_early_night_did_is_not_told_of_later_ones_where_the_last_is_undone(
    write: Write, sleep_at: Sleep
) -> None:
    write("tea")
    runs = [sleep_at(NOW + day * DAY) for day in range(1, 6)]
    assert len(changes_of(runs[-1])) == 1
    undo_sleep(run=runs[-1], by=BY, reason="", now=NOW + 5 * DAY)
    assert [changes_of(SleepRun.objects.get(pk=run.pk)) for run in runs] == [[]] * 5


def test_marking_leaves_the_clock_alone(write: Write, sleep_at: Sleep) -> None:
    memory = write("tea")
    sleep_at(NOW + DAY)
    mark_candidates(memories=[memory])
    assert MemoryNumbers.objects.get().clock_then is not None
    sleep_at(NOW + 2 * DAY)
    assert (numbers(memory).candidate_count, numbers(memory).strength) == (1, pytest.approx(0.95**2))


@pytest.mark.parametrize("few", [0, 1_000])
def test_a_sleep_that_is_broken_off_in_the_middle_and_gone_on_with(
    few: int, write: Write, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices of three; the second night stops after each slice, and somebody uses memories meanwhile."""
    monkeypatch.setattr(sleeping, "SLICE", 3)
    monkeypatch.setattr(sleeping, "FEW", few)
    memories = [write(f"memory {place}", strength=0.101 + place / 20) for place in range(10)]
    sleep(actor=actor, request=SleepRequest(Trigger.COMMAND, BY, NOW + DAY))
    sleep_request = SleepRequest(Trigger.COMMAND, BY, NOW + 2 * DAY)
    run = sleeping._advance(actor, sleep_request)
    used(memories[1], NOW + 2.1 * DAY)  # behind the slice
    used(memories[9], NOW + 2.1 * DAY)  # ahead of it
    assert run.state == "running" and run.after == Memory.objects.filter(status="active").order_by("pk")[2].pk
    assert numbers(memories[5]).strength == pytest.approx((0.101 + 5 / 20) * 0.95, rel=1e-12)

    ended = sleep(actor=actor, request=sleep_request)

    assert (ended.pk, ended.state, ended.decayed_count) == (run.pk, "done", 9)
    assert numbers(memories[5]).strength == pytest.approx((0.101 + 5 / 20) * 0.95**2, rel=1e-12)
    assert numbers(memories[9]).strength == pytest.approx(((0.101 + 9 / 20) * 0.95 + 0.1) * 0.95, rel=1e-12)
    undo_sleep(run=ended, by=BY, reason="", now=NOW + 3 * DAY)
    assert numbers(memories[5]).strength == pytest.approx((0.101 + 5 / 20) * 0.95, rel=1e-12)
    assert numbers(memories[1]).strength == pytest.approx((0.101 + 1 / 20) * 0.95 + 0.1, rel=1e-12)


# One life twice: by the clock, and with every row taken off it after every night, as if nights wrote everything.

SAME = ("The user likes green tea.", "The user really likes green tea")


def life(actor: Actor, draw: random.Random, *, by_clock: bool) -> list[Any]:
    """Live thirty days of random deeds and return the worlds of their evenings."""
    memories = [
        write_memory(actor=actor, new=NewMemory(content=text, **more), by=BY, now=NOW)[0]
        for text, more in [
            *((f"memory number {place}", {"strength": 0.11 + 0.3 * place}) for place in range(6)),
            (SAME[0], {"strength_by_perspective": {"cost": 0.6}}), (SAME[1], {}),
            ("for a while", {"valid_to": NOW + 12.2 * DAY}), ("later", {"valid_from": NOW + 6.7 * DAY}),
        ]
    ]  # fmt: skip
    evenings = []
    for day in range(1, 31):
        now = NOW + day * DAY
        for _ in range(draw.randint(0, 4)):
            _deed(draw, actor, Memory.objects.get(pk=draw.choice(memories).pk), now - draw.random() * DAY / 2)
        if draw.random() < 0.8:
            sleep_request = SleepRequest(Trigger.COMMAND, BY, now)
            run = sleep(actor=Actor.objects.select_related("agent").get(pk=actor.pk), request=sleep_request)
            if not by_clock:
                settle_numbers(actor.pk, [memory.pk for memory in memories])
            if draw.random() < 0.3:
                used(draw.choice(memories), now, perspective="cost")
            if draw.random() < 0.25:
                undo_sleep(run=run, by=BY, reason="", now=now + DAY / 10)
        evenings.append(_world(actor, memories))
    return evenings


def _deed(draw: random.Random, actor: Actor, memory: Memory, now: Any) -> None:
    def quietly(act: Callable[[], object]) -> None:
        with suppress(WrongState, CannotMerge):
            act()

    deeds: list[Callable[[], object]] = [
        lambda: used(memory, now),
        lambda: used(memory, now, perspective="cost"),
        lambda: [used(memory, now) for _ in range(5)],
        lambda: apply_impact(memories=[memory], impact=Impact.USER_POSITIVE, by=BY, now=now),
        lambda: set_strengths(memories=[memory], strengths={memory.pk: 0.7}, by=BY, now=now),
        lambda: quietly(lambda: _verb("unpin" if memory.pinned else "pin", memory, now)),
        lambda: quietly(lambda: _verb("archive", memory, now)),
        lambda: quietly(lambda: _verb("reactivate", memory, now)),
        lambda: _policy(actor, draw.choice([{}, {"decay_clock": "task"}, {"max_active_memories": 5}])),
        lambda: _tasks(actor, draw.randint(1, 20)),
        lambda: quietly(lambda: _merge(actor, now)),
    ]
    draw.choice(deeds)()


def _verb(verb: str, memory: Memory, now: Any) -> None:
    apply_transition(memory=memory, verb=verb, by=BY, reason="", now=now)


def _policy(actor: Actor, values: dict[str, Any]) -> None:
    actor.agent.policy = values
    actor.agent.save()


def _tasks(actor: Actor, count: int) -> None:
    row, _ = SleepState.objects.get_or_create(actor=actor)
    SleepState.objects.filter(pk=row.pk).update(tasks_completed=row.tasks_completed + count)


def _merge(actor: Actor, now: Any) -> None:
    for proposal in Merge.objects.filter(actor=actor, state=MergeState.PROPOSED):
        merge(proposal=proposal, by=BY, reason="", now=now)


def _world(actor: Actor, memories: list[Memory]) -> list[Any]:
    """Return all numbers, rounded, by the memories' places."""
    rows = {row["memory_id"]: row for row in CurrentNumbers.objects.filter(actor=actor).values()}
    seen = PerspectiveStrength.objects.filter(actor=actor).select_related("memory__numbers")
    perspectives = {(row.memory_id, row.perspective): row.now(row.memory.numbers) for row in seen}
    runs = SleepRun.objects.filter(actor=actor).order_by("number")
    counts = (
        "state",
        "slept_count",
        "decayed_count",
        "archived_count",
        "consolidated_count",
        "proposed_count",
    )
    world: list[Any] = [list(runs.values_list(*counts))]
    for memory in memories:
        row = {name: value for name, value in rows[memory.pk].items() if not name.endswith("_id")}
        if (
            row["slept_in"] != len(runs) or world[0][-1][0] == "undone"
        ):  # of earlier sleeps, nothing can be undone
            row = {name: value for name, value in row.items() if not name.startswith(("before_", "slept_in"))}
        row["cost"] = perspectives.get((memory.pk, "cost"))
        world.append({
            name: pytest.approx(value, rel=1e-9, abs=1e-15) if isinstance(value, float) else value
            for name, value in row.items()
        })  # fmt: skip
    return world


@pytest.mark.property
@pytest.mark.parametrize("seed", range(examples(40)))
def test_a_life_by_the_clock_is_a_life_of_nights_that_write_everything(seed: int) -> None:
    actors = [actor_for_writing(BY, f"kana-{way}", "hiroki", now=NOW) for way in ("clock", "nights")]
    by_clock, written = (
        life(actor, random.Random(seed), by_clock=way)
        for actor, way in zip(actors, (True, False), strict=True)
    )
    for day, (one, other) in enumerate(zip(by_clock, written, strict=True), start=1):
        assert _plain(one) == other, f"day {day}"


def _plain(world: list[Any]) -> list[Any]:
    """Return a world without the tolerance of one side, for two tolerances cannot be compared."""
    return [
        {name: getattr(value, "expected", value) for name, value in row.items()}
        if isinstance(row, dict) else row
        for row in world
    ]  # fmt: skip
