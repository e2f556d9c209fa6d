"""Nights move a clock and write no memory that merely fades; what is read is as if they had written all (S5, S6)."""

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection

from memoryhub.auth.access import actor_for_writing
from memoryhub.importexport.native.fields import Table
from memoryhub.tenancy.models import Actor
from strength.actions import sleep as sleeping
from strength.actions.curation import apply_transition, edit_memory
from strength.actions.memories import NewMemory, write_memory
from strength.actions.merges import CannotMerge, merge
from strength.actions.sleep import SleepRequest, sleep, sleep_batch
from strength.actions.sleep_runs import changes_of, preview_sleep, undo_sleep
from strength.actions.usage import apply_impact, mark_candidates, set_strengths, use_memories
from strength.domain.memories import WrongState
from strength.domain.sleep import MergeState, Trigger
from strength.domain.strength import Impact
from strength.models import Memory, MemoryNumbers, Merge, PerspectiveStrength, SleepRun, SleepState
from strength.sql import FRAGMENTS
from tests.examples import examples
from tests.integration.strength.conftest import BY, NOW, Sleep, Write, numbers, numbers_of, seen

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def places() -> dict[Any, str]:
    """Return where each row of numbers lies: whatever is written lies elsewhere."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT memory_id, ctid::text FROM strength_memorynumbers")
        return dict(cursor.fetchall())


def used(memory: Memory, at: Any, **more: Any) -> None:
    use_memories(memories=[memory], by=BY, now=at, **{"perspective": None, "task": None, **more})


def test_a_night_writes_no_memory_that_merely_fades(write: Write, sleep_at: Sleep) -> None:
    idle, busy, weak = write("idle"), write("busy"), write("weak", strength=0.105)
    before = places()
    first = sleep_at(NOW + DAY)
    assert (first.decayed_count, first.archived_count) == (3, 1)
    assert {memory.pk for memory in (idle, busy, weak) if places()[memory.pk] != before[memory.pk]} == {weak.pk}
    used(busy, NOW + 1.5 * DAY)
    before = places()

    run = sleep_at(NOW + 2 * DAY)

    assert places() == before
    assert (run.decayed_count, run.archived_count) == (2, 0)
    assert numbers(idle).strength == pytest.approx(0.95**2, rel=1e-12)
    assert numbers(busy).strength == pytest.approx((0.95 + 0.1) * 0.95, rel=1e-12)
    assert numbers(idle).last_decay_at == numbers(busy).last_decay_at == NOW + 2 * DAY
    assert numbers(weak).strength == pytest.approx(0.105 * 0.95, rel=1e-12)
    assert {change["memory_id"] for change in changes_of(run)} == {str(idle.pk), str(busy.pk)}


def test_what_is_archived_on_the_clock_stands_still_and_comes_back_with_undo(write: Write, sleep_at: Sleep) -> None:
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
    assert numbers(memory).strength == pytest.approx(0.12 * 0.95**5, rel=1e-12)  # archived in the night before


def test_what_is_crowded_out_is_chosen_by_what_the_clock_says(actor: Actor, write: Write, sleep_at: Sleep) -> None:
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
    assert not MemoryNumbers.objects.get(memory=old).fades


def test_thresholds_that_change_bring_another_level_and_its_rate(actor: Actor, write: Write, sleep_at: Sleep) -> None:
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
    edit_memory(memory=memory, values={"valid_to": None}, expected_version=None, by=BY, reason="", now=NOW + 7 * DAY)
    # The sleep has archived what ended.
    apply_transition(memory=memory, verb="reactivate", by=BY, reason="", now=NOW + 7 * DAY)
    sleep_at(NOW + 8 * DAY)
    assert numbers(memory).strength == pytest.approx(0.95**3, rel=1e-12)


def test_an_erased_actors_clock_is_nobodys(write: Write, sleep_at: Sleep, actor: Actor) -> None:
    write("tea")
    sleep_at(NOW + DAY)
    sleep_at(NOW + 2 * DAY)
    actor.delete()
    assert not MemoryNumbers.objects.exists() and not SleepState.objects.exists()


def test_exports_hold_strengths_as_they_are(write: Write, sleep_at: Sleep) -> None:
    memory = write("tea", strength_by_perspective={"cost": 0.6})
    for day in (1, 2, 3):
        sleep_at(NOW + day * DAY)
    for model, stored in ((MemoryNumbers, 1.0), (PerspectiveStrength, 0.6)):
        table = Table(model)
        (values,) = table.values(table.rows)
        row = table.encode_row(values)
        assert not {"mark", "due", "taken"} & row.keys()
        assert row["strength"] == pytest.approx(stored * 0.95**3)
    assert memory.numbers.strength == 1.0


def test_an_actors_first_night_after_an_import_begins_where_its_memories_did(write: Write, sleep_at: Sleep) -> None:
    early, late = write("early"), write("late", at=NOW + DAY)
    SleepState.objects.all().delete()
    sleep_at(NOW + 2 * DAY)
    assert numbers(early).strength == pytest.approx(0.95**2, rel=1e-12)
    assert numbers(late).strength == pytest.approx(0.95, rel=1e-12)


@pytest.mark.parametrize("clock", ["elapsed", "task"])
def test_what_began_after_the_moment_of_a_late_night_does_not_fade_for_the_time_before(
    clock: str, write: Write, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sleep is broken off and gone on with a month later, for its own moment; meanwhile something is remembered."""
    actor.agent.policy = {"decay_clock": clock}
    actor.agent.save()
    monkeypatch.setattr(sleeping, "ARCHIVE_BATCH_SIZE", 1)
    write("early", strength=0.1), write("early too", strength=0.1)
    broken_off = SleepRequest(Trigger.COMMAND, BY, NOW + DAY)
    run = sleeping.advance([actor], broken_off, is_alone=True)[actor.id]
    assert run.state == "running"
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
    *earlier, undone = [changes_of(SleepRun.objects.get(pk=run.pk)) for run in runs]
    assert earlier == [[]] * 4
    assert len(undone) == 1, "an undone run keeps its list"


def test_marking_leaves_the_clock_alone(write: Write, sleep_at: Sleep) -> None:
    memory = write("tea")
    sleep_at(NOW + DAY)
    mark_candidates(memories=[memory])
    assert MemoryNumbers.objects.get().strength == 1.0
    sleep_at(NOW + 2 * DAY)
    assert (numbers(memory).candidate_count, numbers(memory).strength) == (1, pytest.approx(0.95**2))


def test_a_sleep_that_is_broken_off_in_the_middle_and_gone_on_with(
    write: Write, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of three; the second night stops after the first, and somebody uses memories meanwhile."""
    memories = [write(f"memory {place}", strength=0.106 + place / 100) for place in range(10)]
    sleep(actor=actor, request=SleepRequest(Trigger.COMMAND, BY, NOW + DAY))
    monkeypatch.setattr(sleeping, "ARCHIVE_BATCH_SIZE", 1)
    sleep_request = SleepRequest(Trigger.COMMAND, BY, NOW + 4 * DAY)
    run = sleeping.advance([actor], sleep_request, is_alone=True)[actor.id]
    used(memories[1], NOW + 4.1 * DAY)  # it was due, and is strong again
    used(memories[9], NOW + 4.1 * DAY)
    assert (run.state, run.archived_count) == ("running", 1)
    faded = (0.106 + 5 / 100) * 0.95**4
    assert numbers(memories[5]).strength == pytest.approx(faded, rel=1e-12)

    ended = sleep(actor=actor, request=sleep_request)

    assert (ended.pk, ended.state, ended.decayed_count, ended.archived_count) == (run.pk, "done", 10, 1)
    assert numbers(memories[5]).strength == pytest.approx(faded, rel=1e-12)
    assert numbers(memories[9]).strength == pytest.approx((0.106 + 9 / 100) * 0.95**4 + 0.1, rel=1e-12)
    undo_sleep(run=ended, by=BY, reason="", now=NOW + 5 * DAY)
    assert numbers(memories[0]).strength == pytest.approx(0.106 * 0.95, rel=1e-12)
    assert numbers(memories[5]).strength == pytest.approx((0.106 + 5 / 100) * 0.95, rel=1e-12)
    assert numbers(memories[1]).strength == pytest.approx((0.106 + 1 / 100) * 0.95 + 0.1, rel=1e-12)


def test_a_policy_that_changes_holds_for_the_night_that_follows(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    """What began in the middle of the interval fades by the night's policy too, from when it began."""
    early = write("early", strength_by_perspective={"cost": 0.8})
    sleep_at(NOW + DAY)
    late = write("late", at=NOW + 1.5 * DAY, strength_by_perspective={"cost": 0.8})
    actor.agent.policy = {"daily_decay_targets": {str(level): 0.5 for level in range(6)}}
    actor.agent.save()
    run = sleep_at(NOW + 2 * DAY)
    assert numbers(early).strength == pytest.approx(0.95 * 0.5, rel=1e-12)
    assert numbers(late).strength == pytest.approx(0.5**0.5, rel=1e-12)
    assert seen(late.perspectives.get()) == pytest.approx(0.8 * 0.5**0.5, rel=1e-12)
    undo_sleep(run=run, by=BY, reason="", now=NOW + 2 * DAY)
    assert numbers(late).strength == 1.0
    sleep_at(NOW + 3 * DAY)
    assert numbers(late).strength == pytest.approx(0.5**1.5, rel=1e-12)
    assert seen(late.perspectives.get()) == pytest.approx(0.8 * 0.5**1.5, rel=1e-12)


def test_what_is_at_a_level_that_keeps_everything_has_not_faded(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    idle, busy = write("idle"), write("busy")
    actor.agent.policy = {"daily_decay_targets": {str(level): 0.95 if level else 1.0 for level in range(6)}}
    actor.agent.save()
    for _ in range(5):
        used(busy, NOW)
    for night in (1, 2):
        foreseen = preview_sleep(actor=actor, request=SleepRequest(Trigger.COMMAND, BY, NOW + night * DAY))
        run = sleep_at(NOW + night * DAY)
        assert run.decayed_count == foreseen.decayed_count == 1
    assert numbers(idle).strength == 1.0
    assert numbers(busy).strength == pytest.approx(1.5 * 0.95**2, rel=1e-12)


def test_levels_that_a_night_refreshed_come_back_with_its_undo(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    memory = write("tea", strength_by_perspective={"cost": 0.8})
    for _ in range(3):
        used(memory, NOW)
    sleep_at(NOW + DAY)
    actor.agent.policy = {"consolidation_thresholds": [0, 3, 15, 30, 60, 100]}
    actor.agent.save()
    run = sleep_at(NOW + 2 * DAY)
    assert changes_of(run)[0]["level"] == [0, 1]
    undo_sleep(run=run, by=BY, reason="", now=NOW + 2 * DAY)
    assert (numbers(memory).consolidation_level, numbers(memory).strength) == (0, pytest.approx(1.3 * 0.95))
    assert seen(memory.perspectives.get()) == pytest.approx(0.8 * 0.95, rel=1e-12)


def test_perspectives_stand_still_and_fade_on_with_their_memory(write: Write, sleep_at: Sleep) -> None:
    memory = write("tea", strength_by_perspective={"cost": 0.8})
    sleep_at(NOW + DAY)
    _verb("pin", memory, NOW + DAY)
    sleep_at(NOW + 2 * DAY)
    assert seen(memory.perspectives.get()) == pytest.approx(0.8 * 0.95, rel=1e-12)
    used(memory, NOW + 2 * DAY, perspective="cost")
    _verb("unpin", memory, NOW + 2 * DAY)
    sleep_at(NOW + 3 * DAY)
    assert seen(memory.perspectives.get()) == pytest.approx((0.8 * 0.95 + 0.15) * 0.95, rel=1e-12)
    for _ in range(5):  # another level
        used(memory, NOW + 3 * DAY)
    sleep_at(NOW + 4 * DAY)
    assert seen(memory.perspectives.get()) == pytest.approx((0.8 * 0.95 + 0.15) * 0.95 * 0.97, rel=1e-12)


# One life twice: by the clock, as set work; and with every row written after every night, each actor alone.

WRITE_ALL = f"""
UPDATE strength_memorynumbers AS numbers SET strength = {FRAGMENTS["strength_now"]}, slept_in = state.runs,
    taken = {FRAGMENTS["taken"]},
    mark = {FRAGMENTS["mark"]}
FROM strength_sleepstate AS state WHERE state.actor_id = numbers.actor_id AND numbers.actor_id = %s
    AND numbers.mark > '-Infinity'
"""

SAME = ("The user likes green tea.", "The user actually likes green tea")


def life(actor: Actor, draw: random.Random, *, by_clock: bool) -> list[Any]:
    """Live thirty days of random deeds and return the worlds of their evenings."""
    memories = [
        write_memory(actor=actor, new=NewMemory(content=text, **more), by=BY, now=NOW)[0]
        for text, more in [
            *((f"memory number {place}", {"strength": 0.11 + 0.3 * place}) for place in range(6)),
            (SAME[0], {"strength_by_perspective": {"cost": 0.6}}),
            (SAME[1], {}),
            ("for a while", {"valid_to": NOW + 12.2 * DAY}),
            ("later", {"valid_from": NOW + 6.7 * DAY}),
        ]
    ]
    evenings = []
    for day in range(1, 31):
        now = NOW + day * DAY
        for _ in range(draw.randint(0, 4)):
            _deed(draw, actor, Memory.objects.get(pk=draw.choice(memories).pk), now - draw.random() * DAY / 2)
        if draw.random() < 0.8:
            sleep_request = SleepRequest(Trigger.COMMAND, BY, now)
            sleeper = Actor.objects.select_related("agent").get(pk=actor.pk)
            if by_clock:
                [run] = sleep_batch(actors=[sleeper], request=sleep_request)
            else:
                run = sleep(actor=sleeper, request=sleep_request)
                with connection.cursor() as cursor:
                    cursor.execute(WRITE_ALL, [actor.pk])
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
    rows = PerspectiveStrength.objects.filter(actor=actor)
    perspectives = {
        (row.memory_id, row.perspective): row.memory.numbers.of_perspective(row, row.memory.state)
        for row in rows.select_related("memory__numbers", "memory__actor__sleep_state")
    }
    runs = SleepRun.objects.filter(actor=actor).order_by("number")
    counts = ("state", "decayed_count", "archived_count", "consolidated_count", "proposed_count")
    world: list[Any] = [list(runs.values_list(*counts))]
    found = numbers_of(memories)
    for memory in memories:
        row = found[memory.pk]
        same = (row.access_count, row.consolidation_level, row.impact_score, row.last_decay_at, row.fades)
        world.append((same, [row.strength, perspectives.get((memory.pk, "cost"), 0.0)]))
    return world


@pytest.mark.property
@pytest.mark.parametrize("seed", range(examples(40)))
def test_a_life_by_the_clock_is_a_life_of_nights_that_write_everything(seed: int) -> None:
    actors = [actor_for_writing(BY, f"kana-{way}", "hiroki", now=NOW) for way in ("clock", "nights")]
    by_clock, written = (
        life(actor, random.Random(seed), by_clock=way) for actor, way in zip(actors, (True, False), strict=True)
    )
    for day, (one, other) in enumerate(zip(by_clock, written, strict=True), start=1):
        assert one[0] == other[0], f"day {day}"
        for row, twin in zip(one[1:], other[1:], strict=True):
            assert (row[0], row[1]) == (twin[0], pytest.approx(twin[1], rel=1e-9, abs=1e-15)), f"day {day}"


def test_an_undone_night_leaves_no_rates_behind() -> None:
    """What began before a night of other rates fades as if that night had never been."""
    strengths = []
    for undone in (False, True):
        actor = actor_for_writing(BY, f"kana-{undone}", "hiroki", now=NOW)
        memory, *_ = write_memory(actor=actor, new=NewMemory(content="Likes plums."), by=BY, now=NOW)
        night = partial(SleepRequest, Trigger.COMMAND, BY)
        sleep(actor=actor, request=night(NOW + DAY))
        set_strengths(memories=[memory], strengths={memory.pk: 0.7}, by=BY, now=NOW + 1.5 * DAY)
        if undone:
            _policy(actor, {"decay_clock": "task"})
            run = sleep(actor=actor, request=night(NOW + 2 * DAY))
            undo_sleep(run=run, by=BY, reason="", now=NOW + 2.1 * DAY)
            _policy(actor, {})
        sleep(actor=actor, request=night(NOW + 3 * DAY))
        strengths.append(numbers(memory).strength)
    assert strengths[0] == pytest.approx(strengths[1], rel=1e-9)
    assert strengths[0] < 0.7


def test_an_undo_gives_a_perspective_back_where_the_memory_itself_had_nothing(write: Write, sleep_at: Sleep) -> None:
    memory = write("weightless", strength=0.0, strength_by_perspective={"cost": 0.8})
    run = sleep_at(NOW + DAY)
    assert run.archived_count == 1
    undo_sleep(run=run, by=BY, reason="", now=NOW + DAY)
    assert seen(memory.perspectives.get()) == pytest.approx(0.8, rel=1e-12)
