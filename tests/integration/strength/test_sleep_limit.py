"""The share of active memories that sleeps archive within a day; the others wait, and the preview says which."""

from datetime import timedelta
from typing import Any

import pytest

from memoryhub.auth.access import actor_for_writing
from memoryhub.tenancy.models import Actor
from strength.actions.memories import NewMemory
from strength.actions.sleep import SleepRequest, sleep, sleep_batch
from strength.actions.sleep_runs import changes_of, compare_with_preview, preview_sleep, undo_sleep
from strength.actions.write_many import write_memories
from strength.domain.policy import StrengthPolicy
from strength.domain.sleep import ChangeKind, ChangeReason, RunState, Trigger
from strength.models import Memory, SleepRun
from tests.integration.strength.conftest import BY, NOW, Sleep, Write

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def policy(actor: Actor, **values: Any) -> None:
    actor.agent.policy = values
    actor.agent.save()


def remember(actor: Actor, count: int, *, strength: float = 1.0, tag: str = "fact") -> list[Memory]:
    news = [NewMemory(content=f"{tag} number {number} about item{number * 7}", strength=strength)
            for number in range(count)]  # fmt: skip
    items = write_memories(actor=actor, news=news, by=BY, now=NOW)
    return [item.memory for item in items if item.memory is not None]


def archived() -> int:
    return Memory.objects.filter(status="archived").count()


def changes(run: SleepRun, kind: ChangeKind) -> list[dict[str, Any]]:
    return [change for change in changes_of(run) if change["change"] == kind]


def request(at: Any, *, is_limited: bool = True) -> SleepRequest:
    return SleepRequest(Trigger.CURATOR, BY, at, is_limited=is_limited)


def nights(sleep_at: Sleep, first: int, last: int) -> list[int]:
    return [sleep_at(NOW + day * DAY).archived_count for day in range(first, last + 1)]


@pytest.mark.parametrize(
    ("share", "active", "lately", "most"),
    [(0.2, 1000, 0, 200), (0.2, 800, 200, 0), (0.2, 900, 100, 100), (0.2, 30, 0, 20), (0.2, 30, 15, 5),
     (0.2, 0, 0, 20), (0.01, 1000, 50, 0), (1, 1000, 0, None)],
)  # fmt: skip
def test_a_night_may_archive_a_share_and_always_twenty(share: float, active: int, lately: int, most: int) -> None:
    assert StrengthPolicy(max_archived_share=share).most_archived(active=active, lately=lately) == most


def test_no_night_of_sixty_archives_more_than_a_fifth_of_a_thousand_of_one_day(actor: Actor, sleep_at: Sleep) -> None:
    remember(actor, 1000)
    counts = nights(sleep_at, 1, 60)
    assert max(counts) == 200 and counts[:44] == [0] * 44
    assert counts[45:49] == [160, 128, 102, 82], "a fifth of what is left"


def test_the_weakest_are_archived_and_the_others_are_listed(actor: Actor, sleep_at: Sleep) -> None:
    weakest = remember(actor, 30, strength=0.02)
    others = remember(actor, 70, strength=0.05, tag="other")
    run = sleep_at(NOW + DAY)
    assert (run.archived_count, run.held_count, run.allowance, run.state) == (20, 80, 0, RunState.DONE)
    ids = {str(memory.pk) for memory in weakest}
    assert {change["memory_id"] for change in changes(run, ChangeKind.ARCHIVE)} < ids
    held = changes(run, ChangeKind.HOLD)
    assert len(held) == 80 and {change["memory_id"] for change in held[:10]} < ids
    assert {change["why"] for change in held} == {ChangeReason.WEAK}
    assert {change["memory_id"] for change in held[10:]} == {str(memory.pk) for memory in others}


def test_the_preview_says_what_the_night_does_also_after_another_one(actor: Actor, sleep_at: Sleep) -> None:
    remember(actor, 150, strength=0.05)
    for at in (NOW + DAY, NOW + DAY + timedelta(hours=1), NOW + 2 * DAY):
        preview = preview_sleep(actor=actor, request=request(at - timedelta(seconds=1)))
        run = sleep_at(at)
        assert (preview.archived_count, preview.held_count) == (run.archived_count, run.held_count)
        compared = compare_with_preview(run=run, changes=changes_of(run))
        assert compared is not None and compared[1:] == ([], [])
    assert list(SleepRun.objects.filter(dry_run=False).order_by("now").values_list("archived_count", "held_count")) == [
        (30, 120), (0, 120), (24, 96),
    ]  # fmt: skip


def test_undo_brings_back_what_was_archived_and_the_allowance(actor: Actor, sleep_at: Sleep) -> None:
    remember(actor, 150, strength=0.05)
    run = sleep_at(NOW + DAY)
    undo_sleep(run=run, by=BY, reason="", now=NOW + DAY)
    assert archived() == 0
    assert sleep_at(NOW + DAY + timedelta(hours=1)).archived_count == 30


def test_a_persons_word_or_a_policy_archives_all(actor: Actor, sleep_at: Sleep) -> None:
    remember(actor, 150, strength=0.05)
    sleep_at(NOW + DAY)
    run = sleep(actor=actor, request=request(NOW + DAY + timedelta(minutes=1), is_limited=False))
    assert (run.archived_count, run.held_count, run.allowance, archived()) == (120, 0, None, 150)
    undo_sleep(run=run, by=BY, reason="", now=NOW + 2 * DAY)
    policy(actor, max_archived_share=1)
    assert sleep_at(NOW + 3 * DAY).archived_count == 120


def test_ended_memories_and_the_limit_of_active_ones(actor: Actor, write: Write, sleep_at: Sleep) -> None:
    policy(actor, max_active_memories=50)
    ended = [write(f"ended {number}", valid_to=NOW + timedelta(hours=1)) for number in range(40)]
    kept = remember(actor, 100, strength=5.0)
    run = sleep_at(NOW + DAY)
    assert not Memory.objects.filter(pk__in=[each.pk for each in ended], status="active").exists()
    assert run.archived_count == 60, "40 that are no longer valid, which nobody needs, and 20 of 50 above the limit"
    assert run.held_count == 30 and {change["why"] for change in changes(run, ChangeKind.HOLD)} == {
        ChangeReason.OVER_LIMIT
    }
    assert sleep_at(NOW + 2 * DAY).archived_count == 20
    assert sleep_at(NOW + 3 * DAY).archived_count == 10
    assert Memory.objects.filter(pk__in=[each.pk for each in kept], status="active").count() == 50


def test_each_actor_of_a_step_has_an_allowance(actor: Actor) -> None:
    other = actor_for_writing(BY, "kana", "saki", now=NOW)
    for each, count in ((actor, 150), (other, 40)):
        remember(each, count, strength=0.05)
    runs = {run.actor_id: run for run in sleep_batch(actors=[actor, other], request=request(NOW + DAY))}
    assert [(runs[each.pk].archived_count, runs[each.pk].held_count) for each in (actor, other)] == [
        (30, 120),
        (20, 20),
    ]


def test_a_night_in_several_steps_keeps_its_allowance(
    actor: Actor, sleep_at: Sleep, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(actor, 150, strength=0.05)
    monkeypatch.setattr("strength.actions.sleep.ARCHIVE_BATCH_SIZE", 7)
    run = sleep_at(NOW + DAY)
    assert (run.archived_count, run.held_count) == (30, 120)


def test_imported_memories_of_old_days_begin_to_fade_when_they_arrive(actor: Actor, sleep_at: Sleep) -> None:
    old = NewMemory(content="moved to Kyoto", valid_from=NOW - 900 * DAY)
    [item] = write_memories(actor=actor, news=[old], by=BY, now=NOW)
    assert item.memory is not None
    sleep_at(NOW + DAY)
    memory = Memory.objects.with_numbers().get(pk=item.memory.pk)
    assert memory.strength == pytest.approx(0.95)
