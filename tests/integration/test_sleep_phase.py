"""`manage.py sleep_phase`: everybody's memory sleeps, several actors at a time."""

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import command
from memoryhub.db.pool import run_parallel
from memoryhub.runtime.processes import wait_until
from memoryhub.tenancy.models import Agent
from strength.actions.memories import NewMemory, write_memory
from strength.models import Memory, MemoryNumbers, SleepRun

pytestmark = pytest.mark.django_db(transaction=True)
BY = command("test")


def remember(user: str, *texts: str, strength: float = 1.0) -> None:
    yesterday = timezone.now() - timedelta(days=1)  # not at import: a run of all tests takes long
    actor = actor_for_writing(BY, "kana", user, now=yesterday)
    for text in texts:
        write_memory(actor=actor, new=NewMemory(content=text, strength=strength), by=BY, now=yesterday)


def sleep_phase(*arguments: str) -> str:
    out = StringIO()
    call_command("sleep_phase", *arguments, stdout=out)
    return out.getvalue()


@pytest.mark.parametrize("at_once", ["1", "3"])
def test_all_sleep_each_once(at_once: str) -> None:
    for number in range(7):
        remember(f"user-{number}", "Likes tea.", strength=0.102 if number % 2 else 1.0)
    told = sleep_phase("--at-once", at_once)
    assert SleepRun.objects.filter(state="done", trigger="command").count() == 7
    assert Memory.objects.filter(status="archived").count() == 3
    assert "Done: 7 actors, 7 decayed, 3 archived" in told and "kana / user-6: 1 decayed" in told
    assert max(MemoryNumbers.objects.with_strength().values_list("strength_now", flat=True)) < 1.0


def test_a_preview_of_all_is_told_line_by_line_as_json_and_changes_nothing() -> None:
    for number in range(3):
        remember(f"user-{number}", "Likes tea.")
    lines = [json.loads(line) for line in sleep_phase("--at-once", "2", "--dry-run", "--json").splitlines()]
    assert sorted(line["user_id"] for line in lines) == ["user-0", "user-1", "user-2"]
    assert all(line["dry_run"] and line["decayed_count"] == 1 for line in lines)
    assert set(MemoryNumbers.objects.with_strength().values_list("strength_now", flat=True)) == {1.0}


def test_a_preview_of_a_day_to_come_foretells_it_and_changes_nothing() -> None:
    remember("one", "Likes tea.", strength=0.5)
    now = json.loads(sleep_phase("--dry-run", "--json"))
    later = json.loads(sleep_phase("--dry-run", "--json", "--at", f"{timezone.now() + timedelta(days=60):%Y-%m-%d}"))
    assert (now["archived_count"], later["archived_count"]) == (0, 1)
    assert Memory.objects.get().status == "active"
    assert SleepRun.objects.filter(dry_run=True).count() == 2


def test_a_preview_names_agents_users_and_what_would_be_archived() -> None:
    remember("hiroki", "Likes tea.", "Likes cats.", strength=0.102)
    remember("", "Green tea is popular.")
    Agent.objects.update(name="Kana")
    memory = Memory.objects.get(content="Likes tea.")
    told = sleep_phase("--dry-run", "--at-once", "1", "--agent", "kana", "--user", "hiroki")
    assert "Kana (kana) / hiroki: 2 decayed, 2 archived\n" in told
    assert (
        f"  archive note {memory.pk} in {memory.namespace}, strength 0.102 → 0.0969: at or below archive threshold\n"
        in told
    )
    assert "Likes" not in told, "a text is nobody's business who only counts"
    assert "Kana (kana): 1 decayed\n" in sleep_phase("--dry-run")


def test_one_user_of_an_agent_sleeps_and_the_others_do_not() -> None:
    remember("one", "Likes tea.")
    remember("other", "Likes tea.")
    sleep_phase("--agent", "kana", "--user", "one")
    assert SleepRun.objects.values_list("actor__user_id", flat=True).get() == "one"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--at-once", "0"], "1 or more"),
        (["--at", "2999-01-01"], "--at needs --dry-run"),
        (["--at", "2001-01-01", "--dry-run"], "a day to come"),
        (["--at", "someday", "--dry-run"], "--at must be a day"),
        (["--user", "x"], "--user needs --agent"),
        (["--agent", "nobody"], "no agent 'nobody'"),
        (["--agent", "kana", "--user", "nobody"], "no memory of a user 'nobody'"),
    ],
)
def test_what_cannot_be_is_said(arguments: list[str], said: str) -> None:
    remember("one", "Likes tea.")
    with pytest.raises(CommandError, match=said):
        sleep_phase(*arguments)
    assert not SleepRun.objects.exists()


# Doing the same for many


def test_side_by_side_each_has_a_connection_and_leaves_none() -> None:
    together = threading.Barrier(3, timeout=60)

    def act(item: int, may_go_on: Callable[[], bool]) -> tuple[int, int]:
        together.wait()  # three are at it at once, or it ends in an error
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return item, cursor.fetchone()[0]

    done = dict(run_parallel(act, range(6), at_once=3))
    assert sorted(done) == list(range(6)) and len(set(done.values())) == 3

    def are_gone() -> bool:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(%s)", [list(done.values())])
            return bool(cursor.fetchone() == (0,))

    assert wait_until(are_gone, timeout_seconds=60), "the server ends them a little later than we do"


def test_side_by_side_one_that_fails_stops_the_others_and_is_told() -> None:
    begun, both = [], threading.Barrier(2, timeout=60)

    def act(item: int, may_go_on: Callable[[], bool]) -> int:
        begun.append(item)
        both.wait()
        if item == 0:
            raise ValueError("the first")
        while may_go_on():
            pass
        return item

    with pytest.raises(ValueError, match="the first"):
        list(run_parallel(act, range(50), at_once=2))
    assert len(begun) == 2


def test_side_by_side_broken_off_waits_for_what_has_begun_and_begins_no_more() -> None:
    ended = []

    def act(item: int, may_go_on: Callable[[], bool]) -> int:
        if item:
            while may_go_on():
                pass
        ended.append(item)
        return item

    running = run_parallel(act, range(50), at_once=2)
    assert next(running) == 0
    running.close()
    assert ended[0] == 0 and 2 <= len(ended) <= 3
