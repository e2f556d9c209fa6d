"""Use counts once, candidates are all counted, and an actor sleeps once, whoever does what at the same time (SPEC S2, S5)."""

import threading
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import command
from memoryhub.tenancy.models import Actor
from strength.actions.curation import apply_transition
from strength.actions.memories import NewMemory, write_memory
from strength.actions.sleep import SleepRequest, advance, sleep, sleep_batch
from strength.actions.sleep_runs import undo_sleep
from strength.actions.usage import mark_candidates, use_memories, use_memory
from strength.domain.sleep import Trigger
from strength.domain.strength import NO_DECAY
from strength.models import Memory, MemoryIndex, MemoryNumbers, SleepRun
from strength.models.locks import lock_exclusive, lock_shared
from tests.integration.test_concurrency import at_once

pytestmark = pytest.mark.django_db(transaction=True)
BY = command("test")
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
THREADS = 16


@pytest.fixture
def actor(transactional_db: None) -> Actor:
    return actor_for_writing(BY, "kana", "hiroki", now=NOW)


def write(actor: Actor, content: str) -> Memory:
    memory, _ = write_memory(actor=actor, new=NewMemory(content=content), by=BY, now=NOW)
    return memory


def test_reports_that_come_twice_count_once(actor: Actor) -> None:
    memory, reports = write(actor, "tea"), 20

    def work(number: int) -> None:
        for each in range(reports):
            for _ in range(2):
                use_memory(memory=memory, perspective="cost", task=f"{number} {each}", by=BY, now=NOW)

    at_once(work, THREADS)

    row = MemoryNumbers.objects.get(memory=memory)
    assert row.access_count == THREADS * reports
    assert row.strength == pytest.approx(1 + THREADS * reports * 0.1, rel=1e-9)
    assert memory.perspectives.get().strength == pytest.approx(THREADS * reports * 0.15, rel=1e-9)


def test_eight_triggers_are_one_sleep(actor: Actor) -> None:
    for number in range(30):
        write(actor, f"memory {number}")
    for day in range(1, 6):
        moment = NOW + timedelta(days=day)
        runs = at_once(lambda _, moment=moment: sleep(actor=actor, request=SleepRequest(Trigger.API, BY, moment)).pk, 8)
        assert len(set(runs)) == 1
        assert SleepRun.objects.count() == day


@pytest.mark.slow
def test_searches_uses_curators_and_sleeps_do_not_meet_half_way(actor: Actor) -> None:
    """Each of these locks rows of several tables; whoever took them in another order would be killed here."""
    memories = [write(actor, f"memory {number}") for number in range(40)]
    rounds, over = 25, threading.Event()

    def work(number: int) -> int:
        chance, nights = Random(number), 0
        if number == 0:
            while nights < 2 or not over.is_set():
                moment = NOW + timedelta(seconds=nights + 1)
                run = sleep(actor=actor, request=SleepRequest(Trigger.API, BY, moment))
                nights += 1
                if nights % 3 == 0:
                    undo_sleep(run=run, by=BY, reason="", now=moment)
            return nights
        try:
            for _ in range(rounds):
                chosen = chance.sample(memories, 10)
                mark_candidates(memories=chosen)
                use_memories(memories=chosen[:3], perspective="cost", task=None, by=BY, now=NOW)
                if number % 5 == 1:
                    for verb in ("archive", "reactivate"):
                        apply_transition(memory=memories[number // 5], verb=verb, by=BY, reason="", now=NOW)
        finally:
            if number == 1:
                over.set()
        return rounds

    nights, *_rest = at_once(work, THREADS)

    rows = MemoryNumbers.objects.values_list("candidate_count", "access_count")
    assert nights > 1
    assert sum(marked for marked, _ in rows) == (THREADS - 1) * rounds * 10
    assert sum(used for _, used in rows) == (THREADS - 1) * rounds * 3
    assert MemoryIndex.repair() == 0


def test_a_search_that_marks_and_an_erasure_wait_for_each_other(actor: Actor) -> None:
    """The one holds numbers, the other the actor: who does not take the actor first is killed, or kills an erasure."""
    memories = [write(actor, f"memory {number}") for number in range(3)]

    def marks(_: int) -> bool:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '300ms'")
            mark_candidates(memories=memories)
        return True

    def erases(_: int) -> bool:
        with transaction.atomic():
            return bool(Actor.objects.select_for_update(nowait=True).filter(pk=actor.pk))

    with transaction.atomic():
        Actor.objects.select_for_update().get(pk=actor.pk)
        with pytest.raises(OperationalError, match="lock timeout"):
            at_once(marks, 1)
        # It waits for the actor and holds no row meanwhile.
        assert len(MemoryNumbers.objects.select_for_update(nowait=True).filter(actor_id=actor.pk)) == 3
    with transaction.atomic():
        mark_candidates(memories=memories)
        with pytest.raises(OperationalError, match="could not obtain lock"):
            at_once(erases, 1)
    assert set(MemoryNumbers.objects.values_list("candidate_count", flat=True)) == {1}


def test_mending_what_repeats_memories_waits_for_the_actors_sleep(actor: Actor) -> None:
    """It marks rows by the clock, and must not meet a clock that is just moved."""
    write(actor, "tea")
    MemoryNumbers.objects.update(mark=NO_DECAY)

    def mends(_: int) -> int:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '300ms'")
            return MemoryIndex.repair()

    with transaction.atomic():
        lock_exclusive(actor.id)
        with pytest.raises(OperationalError, match="lock timeout"):
            at_once(mends, 1)
    assert at_once(mends, 1) == [1]


def test_a_step_for_many_waits_for_nobody_and_many_triggers_are_one_night(actor: Actor) -> None:
    other = actor_for_writing(BY, "kana", "aoi", now=NOW)
    for each in (actor, other):
        each.agent.policy = {"near_duplicates": "off"}
        each.agent.save()
        write(each, "tea")
    both = [actor, other]

    def begins(_: int) -> set[Any]:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '300ms'")
            return set(advance(both, SleepRequest(Trigger.COMMAND, BY, NOW + timedelta(days=1))))

    with transaction.atomic():
        lock_shared(actor.id)
        assert at_once(begins, 1) == [{other.pk}]

    def sleeps(_: int) -> list[Any]:
        asked = SleepRequest(Trigger.COMMAND, BY, NOW + timedelta(days=2))
        return [run.pk for run in sleep_batch(actors=both, request=asked)]

    assert len({tuple(runs) for runs in at_once(sleeps, THREADS)}) == 1
    assert SleepRun.objects.filter(actor=actor).count() == 1
    assert SleepRun.objects.filter(actor=other).count() == 2
