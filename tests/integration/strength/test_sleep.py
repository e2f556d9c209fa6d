"""Effects of a sleep on memories: done once, whole, and can be taken back (SPEC S4–S7)."""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryhub.auth.access import UnknownRow, actor_for_writing
from memoryhub.tenancy.models import Actor
from strength.actions import sleep as sleeping
from strength.actions import sleep_runs
from strength.actions.curation import apply_transition, delete_memory, edit_memory
from strength.actions.memories import NewMemory, write_memory
from strength.actions.merges import dismiss_merge, merge, reopen_merge, undo_merge
from strength.actions.review import open_merges
from strength.actions.revisions import snapshot, undo_revision
from strength.actions.sleep import COMPARISON_INCOMPLETE, SleepRequest, due_values, sleep
from strength.actions.sleep_runs import changes_of, preview_sleep, sleep_many, undo_sleep, undo_sleeps
from strength.actions.usage import set_strengths, use_memories
from strength.admin.memories import button_label
from strength.domain.memories import Status, WrongState
from strength.domain.policy import StrengthPolicy
from strength.domain.sleep import MergeState, RunState, Trigger
from strength.models import (
    Memory,
    MemoryChange,
    MemoryIndex,
    MemoryNumbers,
    MemoryRevision,
    MemorySource,
    Merge,
    SleepRun,
    SleepState,
)
from strength.sql import SLEEP_QUERIES
from tests.examples import examples
from tests.integration.strength.conftest import BY, NOW, Sleep, Write, numbers, seen

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def state(memory: Memory) -> str:
    return Memory.objects.get(pk=memory.pk).status


def used(memory: Memory, times: int = 1, at: datetime = NOW, **more: Any) -> None:
    for _ in range(times):
        use_memories(memories=[memory], by=BY, now=at, **{"perspective": None, "task": None, **more})


def policy(actor: Actor, **values: Any) -> None:
    actor.agent.policy = values
    actor.agent.save()


@pytest.mark.parametrize(("uses", "left"), [(0, 0.95), (5, 0.97), (15, 0.98), (30, 0.99), (60, 0.995), (100, 0.998)])
def test_a_day_leaves_what_the_level_keeps(write: Write, sleep_at: Sleep, uses: int, left: float) -> None:
    memory = write("tea")
    used(memory, uses)
    before = numbers(memory).strength

    run = sleep_at(NOW + DAY)

    assert numbers(memory).strength == pytest.approx(before * left, rel=1e-12)
    assert (run.decayed_count, run.archived_count, run.state) == (1, 0, RunState.DONE)
    assert numbers(memory).last_decay_at == NOW + DAY


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(moments=st.lists(st.integers(0, 60 * 86_400), min_size=1, max_size=5))
def test_sleeping_often_is_sleeping_once(write: Write, sleep_at: Sleep, moments: list[int]) -> None:
    MemoryNumbers.objects.all().delete()
    Memory.objects.all().delete()
    SleepRun.objects.all().delete()
    SleepState.objects.all().delete()
    often, pinned = write("often", strength=40.0), write("pinned", strength=2.0, pinned=True)
    strengths = [40.0]
    for second in moments:  # also backwards: a clock that was set back
        sleep_at(NOW + timedelta(seconds=second))
        strengths.append(numbers(often).strength)

    once = 40.0 * 0.95 ** (max(moments) / 86_400)
    assert numbers(often).strength == pytest.approx(once, rel=1e-9)
    assert all(later <= earlier for earlier, later in pairwise(strengths))
    assert numbers(pinned).strength == 2.0


def test_the_clock_of_tasks_counts_tasks_since(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    policy(actor, decay_clock="task")
    early = write("early")
    complete(actor, 4)
    late = write("late", at=NOW + DAY)
    complete(actor, 6)

    sleep_at(NOW + 30 * DAY)
    sleep_at(NOW + 31 * DAY)

    assert numbers(early).strength == pytest.approx(0.95 ** (10 / 10), rel=1e-12)
    assert numbers(late).strength == pytest.approx(0.95 ** (6 / 10), rel=1e-12)


def complete(actor: Actor, tasks: int) -> None:
    with connection.cursor() as cursor:
        for _ in range(tasks):
            cursor.execute(SLEEP_QUERIES["count_task"], {"actor_id": actor.id})


def test_perspectives_fade_with_their_memory(write: Write, sleep_at: Sleep) -> None:
    memory = write("tea", strength_by_perspective={"cost": 0.8})
    sleep_at(NOW + DAY)
    perspective = memory.perspectives.get(perspective="cost")
    assert seen(perspective) == pytest.approx(0.8 * 0.95, rel=1e-12)

    used(memory, perspective="cost", at=NOW + DAY)
    sleep_at(NOW + 2 * DAY)

    perspective = memory.perspectives.get(perspective="cost")
    assert seen(perspective) == pytest.approx((0.8 * 0.95 + 0.15) * 0.95, rel=1e-12)


def test_the_weak_are_archived_with_a_revision(write: Write, sleep_at: Sleep) -> None:
    weak, strong = write("weak", strength=0.105), write("strong")
    kept = write("pinned", strength=0.05, pinned=True)
    ended = write("ended", strength=0.05, valid_to=NOW + timedelta(hours=1))
    to_come = write("to come", strength=0.05, valid_from=NOW + 9 * DAY)

    run = sleep_at(NOW + DAY)

    assert run.archived_count == 2
    states = [state(each) for each in (weak, strong, kept, ended, to_come)]
    assert states == ["archived", "active", "active", "archived", "active"]
    revision = MemoryRevision.objects.get(memory=weak, verb="sleep")
    assert (revision.reason, revision.changed_after) == ("at_or_below_archive_threshold", {"status": "archived"})
    assert revision.number == Memory.objects.get(pk=weak.pk).version == 2
    assert numbers(ended).strength == numbers(to_come).strength == 0.05
    assert MemoryIndex.repair() == 0


def test_a_revision_by_sql_says_what_python_says(write: Write, sleep_at: Sleep) -> None:
    memory = write(
        "weak",
        strength=0.1,
        tags=["a", "ü"],
        learnings={"cost": "dear"},
        confidence=0.75,
        valid_from=NOW,
        valid_to=NOW + 50 * DAY + timedelta(microseconds=20),
        namespace="/notes/x/",
    )
    sleep_at(NOW + DAY)

    assert MemoryRevision.objects.get(memory=memory, verb="sleep").after == snapshot(Memory.objects.get(pk=memory.pk))


def test_beyond_the_most_the_weakest_go(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    policy(actor, max_active_memories=3, near_duplicates="off")
    memories = [write(f"memory {place}", strength=1 + place) for place in range(5)]
    pinned = write("pinned", strength=0.2, pinned=True)

    run = sleep_at(NOW + DAY)

    assert run.archived_count == 3
    assert [state(each) for each in memories] == [*["archived"] * 3, *["active"] * 2]
    assert state(pinned) == "active"
    assert (
        MemoryRevision.objects.filter(verb="sleep").values_list("reason", flat=True)[0] == "above_max_active_memories"
    )


def test_levels_follow_the_policy(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    memory, pinned = write("tea"), write("coffee", pinned=True)
    used(memory, 4)
    used(pinned, 4)
    policy(actor, consolidation_thresholds=[0, 1, 2, 3, 4, 5])

    run = sleep_at(NOW + DAY)

    assert run.consolidated_count == 2
    assert numbers(memory).consolidation_level == numbers(pinned).consolidation_level == 4
    assert numbers(memory).strength == pytest.approx(1.4 * 0.95, rel=1e-12)  # it faded by its former level


def test_what_begins_to_fade_begins_then(write: Write, sleep_at: Sleep) -> None:
    pinned = write("pinned", pinned=True)
    waiting = write("waiting", confidence=0.1)
    archived = write("archived")
    curate("archive", archived, NOW + DAY)
    later = NOW + 100 * DAY
    for verb, memory in (("unpin", pinned), ("approve", waiting), ("reactivate", archived)):
        curate(verb, memory, later)

    sleep_at(later + DAY)

    assert numbers(pinned).strength == pytest.approx(0.95, rel=1e-12)
    assert numbers(waiting).strength == pytest.approx(0.95, rel=1e-12)
    assert numbers(archived).strength == pytest.approx(0.95, rel=1e-12)


def curate(verb: str, memory: Memory, at: datetime, **more: Any) -> Memory:
    return apply_transition(memory=memory, verb=verb, by=BY, reason="", now=at, **more)


def test_what_a_sleep_archived_comes_back_as_the_policy_says_and_its_undo_takes_that_back(
    write: Write, sleep_at: Sleep
) -> None:
    memory, strong = write("weak", strength=0.1), write("strong", strength=4.4)
    assert sleep_at(NOW + DAY).archived_count == 1
    curate("archive", strong, NOW + DAY)
    stored, archived = Memory.objects.get(pk=memory.pk), Memory.objects.get(pk=strong.pk)
    assert str(button_label("reactivate", stored)) == "Reactivate (strength 0.10 → 0.50)"
    assert str(button_label("reactivate", archived)) == "Reactivate"
    assert str(button_label("pin", stored)) == "Pin"
    curate("reactivate", archived, NOW + 2 * DAY)
    curate("reactivate", stored, NOW + 2 * DAY)
    assert (numbers(strong).strength, numbers(memory).strength) == (pytest.approx(4.4 * 0.95), 0.5)
    latest = MemoryRevision.objects.filter(memory=memory).order_by("number").last()
    assert latest is not None
    undo_revision(revision=latest, by=BY, reason="", now=NOW + 2 * DAY)
    assert numbers(memory).strength == pytest.approx(0.095, rel=1e-12)


def test_each_archiving_of_a_sleep_stays_in_the_history(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    memory = write("weak", strength=0.1)
    history = MemoryRevision.objects.filter(actor_id=actor.pk, memory=memory)
    first = sleep_at(NOW + DAY)
    seen = history.values().get(verb="sleep")
    assert (seen["number"], seen["created_at"], seen["who_name"]) == (2, first.now, first.who_name)

    curate("reactivate", Memory.objects.get(pk=memory.pk), NOW + 2 * DAY)
    policy(actor, archive_threshold=0.6)
    second = sleep_at(NOW + 3 * DAY)

    assert history.values().get(number=2) == seen
    assert list(history.values_list("number", "verb")) == [(4, "sleep"), (3, "reactivate"), (2, "sleep"), (1, "create")]
    undo_sleep(run=second, by=BY, reason="", now=NOW + 3 * DAY)
    assert list(history.values_list("number", "verb")[:3]) == [(5, "undo"), (4, "sleep"), (3, "reactivate")]
    assert history.get(number=5).after == snapshot(Memory.objects.get(pk=memory.pk))
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    feed = MemoryChange.objects.filter(memory_id=memory.pk).values_list("version", "change")
    assert sorted(feed) == [(1, "created"), (2, "archived"), (3, "changed"), (4, "archived"), (5, "changed")]


def world(actor: Actor) -> dict[str, Any]:
    """Return all that a sleep may change, but for revisions, versions and times of change."""
    memory = Memory.objects.filter(actor=actor).order_by("pk")
    rows = MemoryNumbers.objects.with_strength().filter(actor=actor).order_by("pk").values()
    stored = {"strength", "mark", "due", "slept_in", "taken"}
    return {
        "memories": [
            {key: value for key, value in row.items() if key not in {"version", "updated_at"}}
            for row in memory.values()
        ],
        "numbers": [
            {key: value for key, value in row.items() if key not in stored}
            | {"strength_now": round(row["strength_now"], 12)}
            for row in rows
        ],
        "sources": list(MemorySource.objects.filter(actor=actor).order_by("pk").values("memory_id", "message_id")),
        "perspectives": [(row.memory_id, row.perspective, round(seen(row), 12)) for row in actor_perspectives(actor)],
    }


def actor_perspectives(actor: Actor) -> Any:
    from strength.models import PerspectiveStrength

    rows = PerspectiveStrength.objects.filter(actor=actor).select_related("memory__numbers")
    return rows.order_by("memory_id", "perspective")


SAME = ("The user likes green tea.", "The user actually likes green tea")


def test_undo_brings_every_row_back(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    kept = write(SAME[0], tags=["a"], learnings={"cost": "x"}, strength_by_perspective={"cost": 0.2})
    absorbed = write(SAME[1], at=NOW + timedelta(minutes=1), tags=["b"], strength_by_perspective={"cost": 0.6})
    used(kept, 3, perspective="cost")
    used(absorbed, 6, at=NOW + timedelta(hours=1))
    for place in range(8):
        write(f"Quite another thing, number {place}", strength=0.1 + place / 10)
    sleep_at(NOW + timedelta(hours=1), max_compared=0)
    policy(actor, near_duplicates="merge", max_active_memories=6)
    before = world(actor)

    run = sleep_at(NOW + DAY)
    assert (run.archived_count > 1, run.merged_count, run.errors) == (True, 1, [])
    assert world(actor) != before

    undone = undo_sleep(run=run, by=BY, reason="too early", now=NOW + DAY)

    assert undone.state == RunState.UNDONE and undone.errors == []
    assert world(actor) == before
    assert MemoryIndex.repair() == 0


def test_who_is_erased_meanwhile_keeps_no_other_sleep_from_being_undone(
    actor: Actor, write: Write, sleep_at: Sleep
) -> None:
    write("tea", strength=0.1)
    other = actor_for_writing(BY, "kana", "mai", now=NOW)
    write_memory(actor=other, new=NewMemory(content="tea", strength=0.1), by=BY, now=NOW)
    night = SleepRequest(Trigger.API, BY, NOW + DAY)
    runs = [sleep(actor=each, request=night) for each in (other, actor)]
    other.delete()

    undone = undo_sleeps(runs=runs, by=BY, reason="", now=NOW + DAY)

    assert [(run.actor_id, run.state) for run in undone] == [(actor.pk, RunState.UNDONE)]
    assert undone[0].errors == ["The user was erased at the same time."]
    assert Memory.objects.get().status == Status.ACTIVE
    actor.delete()
    with pytest.raises(UnknownRow):
        undo_sleeps(runs=runs, by=BY, reason="", now=NOW + DAY)


def test_a_preview_compares_what_its_sleep_will_and_says_so_where_some_is_left(
    actor: Actor, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What will be archived takes no place among the few that are compared."""
    monkeypatch.setattr(sleep_runs, "MAX_COMPARED", 3)
    actor.agent.policy = {"include_profile": False}
    actor.agent.save()
    for place in range(3):
        write(f"weak {place}", strength=0.05)
    for text in ("The user likes green tea.", "The user actually likes green tea", "The house is blue."):
        write(text, at=NOW + DAY / 2)
    for left in (0, 1):
        if left:
            write("Kyoto has a river", at=NOW + DAY / 2)
        night = SleepRequest(Trigger.API, BY, NOW + DAY)
        foreseen = preview_sleep(actor=actor, request=night)
        assert foreseen.errors == [COMPARISON_INCOMPLETE] * left
        assert (foreseen.archived_count, foreseen.proposed_count) == (3, 1)
    [run] = sleep_many(actor=actor, request=night, all_users=False, dry_run=False)
    assert (run.errors, run.archived_count, run.proposed_count) == (foreseen.errors, 3, 1)


def test_a_preview_neither_goes_on_with_an_interrupted_sleep_nor_ends_it(actor: Actor, write: Write) -> None:
    write("weak", strength=0.05)
    policy(actor, include_profile=False)
    begun = SleepRun.objects.create(actor=actor, number=0, now=NOW, who_kind="command", who_id="x", who_name="x")

    preview = preview_sleep(actor=actor, request=SleepRequest(Trigger.API, BY, NOW + DAY))

    assert (preview.dry_run, preview.now, preview.archived_count) == (True, NOW + DAY, 1)
    assert SleepRun.objects.get(dry_run=False) == begun and begun.state == RunState.RUNNING
    assert not Memory.objects.filter(status=Status.ARCHIVED).exists()


def test_undo_keeps_what_was_used_and_decided_since(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    memory, archived, edited = write("tea"), write("weak", strength=0.1), write("weak too", strength=0.1)
    run = sleep_at(NOW + DAY)
    used(memory, 2, at=NOW + DAY, perspective="cost")
    used(archived, 1, at=NOW + DAY)
    edit_memory(memory=edited, values={"tags": ["seen"]}, expected_version=None, by=BY, reason="", now=NOW + DAY)

    undo_sleep(run=run, by=BY, reason="", now=NOW + 2 * DAY)

    assert numbers(memory).strength == pytest.approx(1.2, rel=1e-12)
    assert numbers(memory).access_count == 2
    assert (state(archived), numbers(archived).strength) == ("active", pytest.approx(0.2))
    assert state(edited) == "archived"


def test_only_the_latest_sleep_can_be_undone_and_once(write: Write, sleep_at: Sleep, actor: Actor) -> None:
    memory = write("tea")
    first, second = sleep_at(NOW + DAY), sleep_at(NOW + 2 * DAY)
    with pytest.raises(WrongState, match="latest"):
        undo_sleep(run=first, by=BY, reason="", now=NOW + 2 * DAY)
    undo_sleep(run=second, by=BY, reason="", now=NOW + 2 * DAY)
    with pytest.raises(WrongState, match="undone"):
        undo_sleep(run=second, by=BY, reason="", now=NOW + 2 * DAY)
    assert numbers(memory).strength == pytest.approx(0.95, rel=1e-12)
    sleep_at(NOW + 3 * DAY)
    assert numbers(memory).strength == pytest.approx(0.95**3, rel=1e-12)


def test_preview_says_what_then_happens_and_changes_nothing(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    policy(actor, max_active_memories=9, consolidation_thresholds=[0, 1, 2, 3, 4, 5])
    for same in SAME:
        write(same)
    memories = [write(f"Quite another thing, number {place}", strength=0.1 + place / 20) for place in range(12)]
    used(memories[11], 2)
    policy(actor, max_active_memories=9)
    before = world(actor)
    moment = NOW + 2 * DAY

    preview = preview_sleep(actor=actor, request=SleepRequest(Trigger.API, BY, moment))
    assert world(actor) == before
    run = sleep_at(moment)

    assert counts(preview) == counts(run)
    assert run.proposed_count == 1
    foreseen, done = changes_of(preview), changes_of(run)
    assert {key(each) for each in foreseen} == {key(each) for each in done}
    told = {each["memory_id"]: each for each in foreseen if "after" in each}
    for each in done:
        if "after" in each:
            assert each["after"] == pytest.approx(told[each["memory_id"]]["after"], rel=1e-9)


def counts(run: SleepRun) -> tuple[int, ...]:
    return (run.decayed_count, run.archived_count, run.consolidated_count, run.merged_count, run.proposed_count)


def key(change: dict[str, Any]) -> tuple[str, str, str]:
    return change["memory_id"], change["change"], change["why"]


def test_slices_end_as_one_would(actor: Actor, write: Write, sleep_at: Sleep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sleeping, "ARCHIVE_BATCH_SIZE", 3)
    monkeypatch.setattr(sleeping, "COMPARISON_BATCH_SIZE", 2)
    policy(actor, max_active_memories=5)
    for place in range(11):
        write(f"Quite another thing, number {place}", strength=0.05 + place / 10)
    for same in SAME:
        write(same, strength=3)

    run = sleep_at(NOW + DAY)

    assert (run.state, run.decayed_count, run.archived_count, run.proposed_count) == ("done", 13, 8, 1)
    assert Memory.objects.active().count() == 5


def test_a_second_trigger_for_the_same_occasion_is_the_same_sleep(write: Write, sleep_at: Sleep) -> None:
    write("tea")
    first = sleep_at(NOW + DAY)
    assert sleep_at(NOW + DAY).pk == first.pk
    assert SleepRun.objects.count() == 1
    assert sleep_at(NOW + 2 * DAY).pk != first.pk


def test_a_night_finds_what_falls_due_by_the_index(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    for place in range(20):
        write(f"memory {place}", strength=0.2 + place / 10)
    sleep_at(NOW + DAY)
    values = due_values([(actor, StrengthPolicy())], NOW + DAY)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
        # Of so few rows any index of the actor is as good.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE strength_memorynumbers DROP CONSTRAINT numbers_of_actor")
        cursor.execute("EXPLAIN " + SLEEP_QUERIES["find_due"], values)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "using numbers_due" in plan and "due <=" in plan, plan


# Merges


def pair(write: Write, sleep_at: Sleep, **values: Any) -> tuple[Memory, Memory, Merge]:
    one = write(SAME[0], strength=2.0, **values)
    other = write(SAME[1], at=NOW + timedelta(minutes=1), strength=1.0, **values)
    sleep_at(NOW + timedelta(hours=1))
    return one, other, Merge.objects.get()


def test_near_duplicates_are_proposed_and_nothing_is_changed(write: Write, sleep_at: Sleep) -> None:
    one, other, proposal = pair(write, sleep_at)
    assert (proposal.kept_id, proposal.absorbed_id, proposal.state) == (one.pk, other.pk, "proposed")
    assert state(one) == state(other) == "active"


@pytest.mark.parametrize("values", [{"namespace": "/a/"}, {"kind": "fact"}])
def test_only_the_same_namespace_is_compared(write: Write, sleep_at: Sleep, values: dict[str, Any]) -> None:
    from strength.domain.memories import Kind

    values = {name: Kind(value) if name == "kind" else value for name, value in values.items()}
    write(SAME[0])
    write(SAME[1], **values)
    assert sleep_at(NOW + DAY).proposed_count == 0


def test_a_merge_keeps_the_sources_and_can_be_undone(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    from tests.integration.strength.test_usage import a_message

    messages = [a_message(actor), a_message(actor)]
    one = write(SAME[0], strength=2.0, source_message_ids=[messages[0].pk])
    other = write(SAME[1], strength=1.0, source_message_ids=[message.pk for message in messages])
    used(one, 3)
    used(other, 4, at=NOW + timedelta(minutes=9))
    sleep_at(NOW + timedelta(hours=1))
    before = world(actor)

    merge(proposal=Merge.objects.get(), by=BY, reason="the same", now=NOW + DAY)

    assert set(one.sources.values_list("message_id", flat=True)) == {message.pk for message in messages}
    stored = Memory.objects.get(pk=other.pk)
    assert (stored.status, stored.superseded_by_id) == ("archived", one.pk)
    assert (numbers(one).access_count, numbers(one).consolidation_level) == (7, 1)
    assert list(MemoryRevision.objects.filter(memory=other).values_list("verb", flat=True)[:1]) == ["merge"]

    undo_merge(proposal=Merge.objects.get(), by=BY, reason="no", now=NOW + DAY)
    after = world(actor)
    assert after["sources"] == before["sources"] and after["memories"] == before["memories"]
    for row, old in zip(after["numbers"], before["numbers"], strict=True):
        assert row.pop("strength_now") == pytest.approx(old.pop("strength_now"), rel=1e-12)
        row.pop("began_at"), old.pop("began_at")  # what came back begins to fade anew
        assert row == old


def test_a_dismissed_pair_is_not_proposed_again(write: Write, sleep_at: Sleep) -> None:
    _, other, proposal = pair(write, sleep_at)
    dismiss_merge(proposal=proposal, by=BY, reason="two things", now=NOW + DAY)
    edit_memory(memory=other, values={"tags": ["x"]}, expected_version=None, by=BY, reason="", now=NOW + 2 * DAY)
    assert sleep_at(NOW + 3 * DAY).proposed_count == 0
    assert Merge.objects.get().state == MergeState.DISMISSED


def test_a_preview_foretells_no_merge_that_a_person_took_back(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    _, _, proposal = pair(write, sleep_at)
    merge(proposal=proposal, by=BY, reason="", now=NOW + DAY)
    undo_merge(proposal=proposal, by=BY, reason="two things", now=NOW + DAY)
    request = SleepRequest(Trigger.API, BY, NOW + 2 * DAY)
    preview, run = preview_sleep(actor=actor, request=request), sleep_at(NOW + 2 * DAY)
    assert (preview.proposed_count, preview.merged_count) == (run.proposed_count, run.merged_count) == (0, 0)


def test_a_preview_foretells_a_proposal_that_is_made_anew(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    _, other, _proposal = pair(write, sleep_at)
    text = {"content": f"{other.content}!"}
    edit_memory(memory=other, values=text, expected_version=None, by=BY, reason="", now=NOW + DAY)
    request = SleepRequest(Trigger.API, BY, NOW + 2 * DAY)
    preview, run = preview_sleep(actor=actor, request=request), sleep_at(NOW + 2 * DAY)
    assert preview.proposed_count == run.proposed_count == 1


def test_what_was_edited_since_is_not_merged(write: Write, sleep_at: Sleep) -> None:
    one, _, proposal = pair(write, sleep_at)
    edit_memory(
        memory=one,
        values={"content": "The user likes black tea."},
        expected_version=None,
        by=BY,
        reason="",
        now=NOW + DAY,
    )
    with pytest.raises(WrongState, match="changed since"):
        merge(proposal=proposal, by=BY, reason="", now=NOW + DAY)


def test_what_a_person_put_right_is_never_absorbed_by_itself(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    policy(actor, near_duplicates="merge")
    one, other = write(SAME[0], strength=9.0), write("something else")
    edit_memory(memory=other, values={"content": SAME[1]}, expected_version=None, by=BY, reason="", now=NOW + DAY)
    sleep_at(NOW + 2 * DAY)
    done = Merge.objects.get()
    assert (done.kept_id, done.absorbed_id, done.state) == (other.pk, one.pk, "merged")
    assert Memory.objects.get(pk=other.pk).content == SAME[1]


def test_a_proposal_about_what_changed_is_made_anew(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    one, other, proposal = pair(write, sleep_at)
    text = {"content": f"{one.content}!"}
    edit_memory(memory=one, values=text, expected_version=None, by=BY, reason="", now=NOW + 2 * DAY)
    assert not open_merges(NOW + 2 * DAY).exists()
    assert sleep_at(NOW + 3 * DAY).proposed_count == 1
    anew = Merge.objects.get()
    assert (anew.kept_id, anew.kept_version) == (one.pk, 2) and anew.pk != proposal.pk

    curate("archive", other, NOW + 4 * DAY)
    sleep_at(NOW + 5 * DAY)
    assert Merge.objects.get().state == MergeState.WITHDRAWN


def test_a_change_of_tags_leaves_a_proposal_and_a_decision(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    one, _other, proposal = pair(write, sleep_at)
    now, change = NOW + 2 * DAY, {"expected_version": None, "by": BY, "reason": ""}
    edit_memory(memory=one, values={"tags": ["x"]}, now=now, **change)
    assert open_merges(now).get() == proposal, "it waits on"
    assert sleep_at(NOW + 3 * DAY).proposed_count == 0 and Merge.objects.get().pk == proposal.pk
    dismissed = dismiss_merge(proposal=proposal, by=BY, reason="", now=now)
    edit_memory(memory=one, values={"tags": ["y"]}, now=now, **change)
    sleep_at(NOW + 4 * DAY)
    assert Merge.objects.get().pk == dismissed.pk and Merge.objects.get().state == MergeState.DISMISSED
    reopen_merge(proposal=dismissed, by=BY, reason="", now=now)
    merged = merge(proposal=proposal, by=BY, reason="", now=now)
    assert merged.state == MergeState.MERGED and "y" in Memory.objects.get(pk=one.pk).tags


def test_proposals_go_on_where_one_of_three_was_merged(write: Write, sleep_at: Sleep) -> None:
    third = "The user actually, actually likes green tea!"
    for place, text in enumerate([*SAME, third]):
        write(text, strength=3.0 - place)
    sleep_at(NOW + timedelta(hours=1))
    assert Merge.objects.count() == 2
    for proposal in Merge.objects.order_by("pk"):
        if Merge.objects.get(pk=proposal.pk).state == MergeState.PROPOSED:
            merge(proposal=proposal, by=BY, reason="", now=NOW + DAY)
    sleep_at(NOW + 2 * DAY)
    for proposal in Merge.objects.filter(state=MergeState.PROPOSED):
        merge(proposal=proposal, by=BY, reason="", now=NOW + 2 * DAY)
    assert Memory.objects.active().count() == 1


# What a reader with fresh eyes broke


def test_undoing_a_merge_takes_away_what_has_faded_of_it(write: Write, sleep_at: Sleep) -> None:
    one, _, proposal = pair(write, sleep_at)
    set_strengths(memories=[proposal.absorbed], strengths={proposal.absorbed_id: 5.0}, by=BY, now=NOW + DAY)
    merge(proposal=proposal, by=BY, reason="", now=NOW + DAY)
    before = numbers(one)
    sleep_at(NOW + 20 * DAY)
    undo_merge(proposal=proposal, by=BY, reason="", now=NOW + 20 * DAY)
    share = numbers(one).strength / 2.0
    assert before.strength == 5.0 and 0.3 < share < 0.5


def test_a_merge_that_a_person_decided_stands_when_the_sleep_is_undone(write: Write, sleep_at: Sleep) -> None:
    one, other, proposal = pair(write, sleep_at)
    used(other, 12)
    merge(proposal=proposal, by=BY, reason="", now=NOW + DAY)
    undo_sleep(run=SleepRun.objects.get(), by=BY, reason="", now=NOW + DAY)
    assert Merge.objects.get().state == MergeState.MERGED
    assert (numbers(one).access_count, numbers(one).strength > 2.0) == (12, True)


def test_uses_in_a_perspective_stay_when_a_merge_is_undone(write: Write, sleep_at: Sleep) -> None:
    one, _, proposal = pair(write, sleep_at, strength_by_perspective={"cost": 0.5})
    merge(proposal=proposal, by=BY, reason="", now=NOW + DAY)
    used(one, 2, at=NOW + DAY, perspective="cost")
    undo_merge(proposal=proposal, by=BY, reason="", now=NOW + DAY)
    assert seen(one.perspectives.get()) == pytest.approx(0.8, rel=0.01)


def test_a_perspective_is_not_inflated_by_an_undo(write: Write, sleep_at: Sleep) -> None:
    memory = write("tea", strength=500.0)
    run = sleep_at(NOW + 100 * DAY)
    used(memory, perspective="cost", at=NOW + 100 * DAY)
    undo_sleep(run=run, by=BY, reason="", now=NOW + 100 * DAY)
    assert seen(memory.perspectives.get()) == pytest.approx(0.15, rel=1e-9)


def test_what_a_person_decided_against_is_not_brought_back_by_an_undo(write: Write, sleep_at: Sleep) -> None:
    weak, twin = write("tea", strength=0.1), write("tea", namespace="/elsewhere/x/", strength=9.0)
    run = sleep_at(NOW + DAY)
    delete_memory(memory=twin, expected_version=None, by=BY, reason="", now=NOW + 2 * DAY)
    undone = undo_sleep(run=run, by=BY, reason="", now=NOW + 2 * DAY)
    assert state(weak) == "archived" and "decided against" in undone.errors[0]


def test_scope_and_validity_keep_twins_apart(write: Write, sleep_at: Sleep) -> None:
    write(SAME[0])
    write(SAME[1], valid_to=NOW + 3 * DAY)
    assert sleep_at(NOW + DAY).proposed_count == 0


def test_what_was_changed_at_one_moment_is_compared_in_turn(write: Write, sleep_at: Sleep) -> None:
    for number in range(4):
        write(f"Quite another thing, number {number}")
    for same in SAME:
        write(same)
    proposed = [sleep_at(NOW + day * DAY, max_compared=2).proposed_count for day in range(1, 5)]
    assert sum(proposed) == 1


def test_what_holds_again_begins_to_fade_then(write: Write, sleep_at: Sleep) -> None:
    memory = write("tea", valid_to=NOW + DAY)
    values = {"valid_to": NOW + 300 * DAY}
    edit_memory(memory=memory, values=values, expected_version=None, by=BY, reason="", now=NOW + 100 * DAY)
    sleep_at(NOW + 101 * DAY)
    assert numbers(memory).strength == pytest.approx(0.95, rel=1e-12)


def test_a_policy_that_is_not_allowed_any_more_stops_no_sleep(write: Write, sleep_at: Sleep, actor: Actor) -> None:
    memory = write("tea")
    run = sleep_at(NOW + DAY)
    SleepRun.objects.filter(pk=run.pk).update(state="running", compares=False, policy={"near_duplicates": "group"})
    ended = sleep_at(NOW + 2 * DAY)
    assert (ended.pk, ended.state, len(ended.errors)) == (run.pk, "done", 1)
    assert numbers(memory).strength == pytest.approx(0.95)


def test_by_tasks_what_begins_later_fades_for_later_tasks_alone(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    policy(actor, decay_clock="task")
    memory = write("to come", valid_from=NOW + 30 * DAY)
    complete(actor, 500)
    moment = NOW + 31 * DAY
    assert changes_of(preview_sleep(actor=actor, request=SleepRequest(Trigger.API, BY, moment))) == []
    sleep_at(moment)
    assert numbers(memory).strength == 1.0
    complete(actor, 10)
    sleep_at(NOW + 32 * DAY)
    assert numbers(memory).strength == pytest.approx(0.95, rel=1e-12)


def test_the_expired_are_archived_as_foretold_and_an_undo_brings_them_back(
    actor: Actor, write: Write, sleep_at: Sleep
) -> None:
    over = write("on holiday", valid_to=NOW + DAY)
    pinned = write("at the fair", valid_to=NOW + DAY, pinned=True)
    lasting = write("until spring", valid_to=NOW + 90 * DAY)
    request = SleepRequest(trigger=Trigger.API, by=BY, now=NOW + 2 * DAY)
    foretold = [each for each in changes_of(preview_sleep(actor=actor, request=request)) if each["change"] == "archive"]
    run = sleep_at(NOW + 2 * DAY)
    assert foretold == [each for each in changes_of(run) if each["change"] == "archive"]
    assert [(each["memory_id"], each["why"]) for each in foretold] == [(str(over.pk), "no_longer_valid")]
    assert (run.archived_count, state(over), state(pinned), state(lasting)) == (1, "archived", "active", "active")
    before = numbers(over)
    undo_sleep(run=run, by=BY, reason="", now=NOW + 2 * DAY)
    assert state(over) == "active"
    assert sleep_at(NOW + 3 * DAY).archived_count == 1
    back = apply_transition(memory=over, verb="reactivate", by=BY, reason="", now=NOW + 4 * DAY)
    assert (back.status, numbers(over).strength) == ("active", before.strength)
