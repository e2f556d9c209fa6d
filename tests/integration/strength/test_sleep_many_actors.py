"""Nights of many actors in one step are those of each alone."""

import random
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.models import AuditEntry
from memoryhub.tenancy.models import Actor
from strength.actions import sleep as sleeping
from strength.actions import sleep_runs
from strength.actions.curation import apply_transition, delete_memory
from strength.actions.memories import NewMemory, write_memory
from strength.actions.sleep import SleepRequest, actor_batches, advance, sleep, sleep_batch
from strength.actions.sleep_runs import preview_sleep, undo_sleep
from strength.domain.memories import Kind
from strength.domain.sleep import RunState, Trigger
from strength.models import Memory, MemoryChange, MemoryNumbers, MemoryRevision, SleepRun, SleepState
from tests.integration.strength.conftest import BY, NOW

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
ACTORS = 6
COUNTS = ("number", "state", "decayed_count", "archived_count", "consolidated_count", "proposed_count")


def request(at: Any) -> SleepRequest:
    return SleepRequest(Trigger.COMMAND, BY, at)


def remember(user: str, draw: random.Random, agent: str = "kana") -> Actor:
    """Write an actor's memories of all kinds and strengths; some are pinned, some end."""
    actor = actor_for_writing(BY, agent, user, now=NOW)
    for place in range(draw.randint(2, 14)):
        values: dict[str, Any] = {
            "strength": draw.choice([0.05, 0.102, 0.106, 0.2, 1.0]),
            "kind": draw.choice([Kind.FACT, Kind.NOTE, Kind.PREFERENCE]),
            "valid_to": draw.choice([None, None, NOW + draw.random() * 3 * DAY]),
        }
        new = NewMemory(content=f"{agent} {user} {place}", **values)
        memory, _ = write_memory(actor=actor, new=new, by=BY, now=NOW + place * DAY / 100)
        if draw.random() < 0.1:
            apply_transition(memory=memory, verb="pin", by=BY, reason="", now=NOW + DAY / 2)
    return actor


def write_feed() -> None:
    """Run the feed's deferred triggers, as the commit of a transaction does."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS note_change IMMEDIATE; SET CONSTRAINTS note_change DEFERRED")


def world(actors: list[Actor]) -> list[Any]:
    """Return what nights leave of actors, by their order."""
    write_feed()
    rows = []
    for actor in actors:
        memories = Memory.objects.of([actor.pk]).with_numbers().order_by("created_at", "id")
        changes = MemoryChange.objects.filter(actor=actor).order_by("memory_id", "version")
        revisions = MemoryRevision.objects.filter(actor=actor, verb="sleep")
        rows.append(
            [
                [(each.status, each.version, each.strength, each.numbers.slept_in) for each in memories],
                list(SleepRun.objects.filter(actor=actor).order_by("number").values_list(*COUNTS)),
                Counter(changes.values_list("change", "version")),
                sorted(revisions.values_list("memory__content", "reason", "number")),
                [entry.details for entry in AuditEntry.objects.filter(user_id=actor.user_id, verb="sleep")],
            ]
        )
    return rows


def stripped(rows: list[Any], agent: str) -> str:
    return repr(rows).replace(agent, "agent")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize(
    "policy", [{}, {"profile_max_tokens": 16}, {"include_profile": False}, {"max_active_memories": 4}]
)
def test_nights_in_one_step_are_those_of_each_alone(seed: int, policy: dict[str, Any]) -> None:
    outcomes = []
    for agent in ("ones", "many"):
        draw = random.Random(seed)
        actors = [remember(f"{agent}-{place}", draw, agent=agent) for place in range(ACTORS)]
        actors[0].agent.policy = {"near_duplicates": "off", **policy}
        actors[0].agent.save()
        for night in range(1, 5):
            again = list(Actor.objects.filter(pk__in=[each.pk for each in actors]).select_related("agent"))
            if agent == "many":
                runs = list(sleep_batch(actors=again, request=request(NOW + night * DAY)))
            else:
                runs = [sleep(actor=actor, request=request(NOW + night * DAY)) for actor in again]
            assert {run.state for run in runs} == {RunState.DONE} and len(runs) == ACTORS
        outcomes.append(stripped(world(actors), agent))
    assert outcomes[0] == outcomes[1]


def test_nights_of_all_sorts_end_in_the_step_and_those_that_were_begun_go_on_alone() -> None:
    draw = random.Random(1)
    plain, new, other_policy, begun, answered = (remember(f"user-{place}", draw) for place in range(5))
    plain.agent.policy = {"near_duplicates": "off"}
    plain.agent.save()
    SleepState.objects.filter(actor=new).update(clock_at=None)
    other_policy.policy = {"daily_decay_targets": {str(level): 0.5 for level in range(6)}}
    other_policy.save()
    every = list(Actor.objects.exclude(user_id="").select_related("agent"))
    sleep(actor=Actor.objects.get(pk=answered.pk), request=request(NOW + 2 * DAY))
    SleepRun.objects.create(actor=begun, number=0, now=NOW, who_kind="command", who_id="x", who_name="x")

    runs = advance(every, request(NOW + DAY))

    assert {key for key, run in runs.items() if run.state == RunState.DONE} == {
        plain.pk,
        new.pk,
        other_policy.pk,
        answered.pk,
    }
    assert runs[begun.pk].state == RunState.RUNNING and runs[begun.pk].number == 0
    SleepRun.objects.filter(actor=begun).delete()
    assert len(list(sleep_batch(actors=every, request=request(NOW + DAY)))) == 5
    assert set(SleepRun.objects.values_list("state", flat=True)) == {"done"}
    assert SleepRun.objects.filter(actor=plain).count() == SleepRun.objects.filter(actor=answered).count() == 1


def test_what_is_new_is_compared_after_the_step() -> None:
    for user in ("a", "b"):
        actor = actor_for_writing(BY, "kana", user, now=NOW)
        for text in ("The user likes green tea.", "The user actually likes green tea"):
            write_memory(actor=actor, new=NewMemory(content=text), by=BY, now=NOW)
    every = list(Actor.objects.exclude(user_id="").select_related("agent"))
    runs = advance(every, request(NOW + DAY))
    assert {(run.state, run.compares) for run in runs.values()} == {(RunState.RUNNING, True)}
    ended = list(sleep_batch(actors=every, request=request(NOW + 1.1 * DAY)))
    assert {run.pk for run in ended} == {run.pk for run in runs.values()}
    assert [(run.state, run.proposed_count, run.decayed_count) for run in ended] == [("done", 1, 2)] * 2


def test_a_step_that_cannot_archive_all_leaves_the_rest_to_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sleeping, "ARCHIVE_BATCH_SIZE", 3)
    actors = []
    for user in ("a", "b", "c"):
        actors.append(actor_for_writing(BY, "kana", user, now=NOW))
        actors[-1].agent.policy = {"near_duplicates": "off", "include_profile": False}
        actors[-1].agent.save()
        for place in range(4):
            new = NewMemory(content=f"weak {place}", strength=0.1)
            write_memory(actor=actors[-1], new=new, by=BY, now=NOW)
    runs = list(sleep_batch(actors=actors, request=request(NOW + DAY)))
    assert [(run.state, run.archived_count) for run in runs] == [("done", 4)] * 3
    write_feed()
    changes = MemoryChange.objects.values_list("change", flat=True)
    assert Counter(changes) == {"created": 12, "archived": 12}
    for run in runs:
        undo_sleep(run=run, by=BY, reason="", now=NOW + DAY)
    assert Memory.objects.active().count() == 12
    strengths = MemoryNumbers.objects.with_strength().values_list("strength_now", flat=True)
    assert list(strengths) == pytest.approx([0.1] * 12, rel=1e-12)


def test_a_preview_foretells_what_a_step_does() -> None:
    draw = random.Random(5)
    for place in range(ACTORS):
        remember(f"user-{place}", draw)
    every = list(Actor.objects.exclude(user_id="").select_related("agent"))
    for night in (1, 2):
        previews = [preview_sleep(actor=actor, request=request(NOW + night * DAY)) for actor in every]
        runs = list(sleep_batch(actors=every, request=request(NOW + night * DAY)))
        for preview, run in zip(previews, runs, strict=True):
            assert (preview.archived_count, preview.decayed_count) == (run.archived_count, run.decayed_count)
            _preview, *surprises = sleep_runs.compare_with_preview(run=run, changes=sleep_runs.changes_of(run)) or (
                "",
                [],
                [],
            )
            assert surprises == [[], []]
    assert Memory.objects.filter(status="archived").exists()


def test_counts_of_a_night_follow_changes_since_the_last() -> None:
    actor = actor_for_writing(BY, "kana", "a", now=NOW)
    actor.agent.policy = {"near_duplicates": "off", "include_profile": False}
    actor.agent.save()
    memories = []
    for place, strength in enumerate([0.101, 1.0, 1.0, 1.0, 1.0]):
        new = NewMemory(content=f"memory {place}", strength=strength)
        memories.append(write_memory(actor=actor, new=new, by=BY, now=NOW)[0])

    def night(day: int) -> tuple[int, int]:
        [run] = sleep_batch(actors=[actor], request=request(NOW + day * DAY))
        return run.decayed_count, run.archived_count

    assert night(1) == (5, 1)
    assert night(2) == (4, 0)
    delete_memory(memory=memories[1], expected_version=None, by=BY, reason="", now=NOW + 2 * DAY)
    apply_transition(memory=memories[2], verb="pin", by=BY, reason="", now=NOW + 2 * DAY)
    assert night(3) == (2, 0)
    write_memory(actor=actor, new=NewMemory(content="another"), by=BY, now=NOW + 3 * DAY)
    assert night(4) == (3, 0)


@pytest.mark.parametrize(
    ("count", "at_once", "sizes"), [(0, 2, []), (7, 3, [3, 3, 1]), (240, 2, [100, 100, 40]), (1, 4, [1])]
)
def test_batches_are_even_and_small(count: int, at_once: int, sizes: list[int]) -> None:
    actors = [Actor(user_id=str(place)) for place in range(count)]
    assert [len(each) for each in actor_batches(actors, at_once=at_once)] == sizes
