"""Kills and restarts, in seconds; `bench/chaos.py` does the same for minutes, and many times."""

import os
import signal
import sys
from collections.abc import Iterator

import pytest

from tests.slow.chaos import drills
from tests.slow.chaos.drills import Outcome
from tests.slow.chaos.hub import Hub, Jobs, done, eventually, running

linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
pytestmark = [pytest.mark.slow, linux_only]


def went_well(outcome: Outcome) -> None:
    assert outcome.wrong == []
    assert outcome.rounds > 0


@pytest.fixture(scope="module")
def installation() -> Iterator[tuple[Hub, Jobs]]:
    """Return one installation for all tests that leave it whole: a start costs many seconds."""
    with running() as started:
        yield started


def test_workers_that_die_lose_and_double_nothing(installation: tuple[Hub, Jobs]) -> None:
    """A killed worker, a killer job, one that hangs, and a broken one, among others that do no harm."""
    hub, jobs = installation
    (killed,) = jobs.add("bench_effect", seconds=5)  # long enough to be met at work
    steps = jobs.add("bench_steps", count=2, steps=4, seconds=0.2)
    (killer,) = jobs.add("bench_kill")
    (hanging,) = jobs.add("bench_hangs", seconds=30)
    (broken,) = jobs.add("bench_breaks")
    one_at_a_time = jobs.add("bench_one", count=3, seconds=0.2)
    others = jobs.add("bench_effect", count=20)
    worker = drills.begun(jobs, killed)
    assert worker is not None
    os.kill(worker, signal.SIGKILL)

    assert done(jobs, [killed, *steps, *one_at_a_time, *others], 120) is not None
    dead = [killer, hanging, broken]
    assert eventually(lambda: jobs.states(dead) == {"dead": 3}, 120) is not None, jobs.states(dead)
    assert jobs.effects([killed, *others]) == dict.fromkeys([killed, *others], 1)
    assert jobs.effects(steps) == dict.fromkeys(steps, 4)
    assert jobs.effects(one_at_a_time) == dict.fromkeys(one_at_a_time, 1)
    assert jobs.effects(dead) == {}
    told = hub.rows("SELECT id::text, attempts, error FROM memoryhub_job WHERE id = ANY(%s::uuid[])", [dead])
    errors = {job_id: (attempts, error) for job_id, attempts, error in told}
    assert errors[killer] == (3, "The worker was lost: it died, or did not say for a whole lease that it lives.")
    assert errors[hanging] == (3, "It took longer than its kind's deadline_seconds.")
    assert errors[broken][0] == 3
    assert errors[broken][1].startswith("KeyError at tests/slow/chaos/job_kinds.py:")
    assert "a text that somebody said" not in hub.said()
    workers = hub.ready()["checks"]["workers"]
    assert workers["ok"], workers
    assert "3 are dead" in workers["detail"]


def test_idle_processes_that_are_killed_are_missed_within_a_minute(installation: tuple[Hub, Jobs]) -> None:
    went_well(drills.idle_worker(*installation, 3))


@pytest.mark.long
def test_workers_that_live_and_do_nothing_are_missed_within_a_minute(installation: tuple[Hub, Jobs]) -> None:
    went_well(drills.stopped_workers(*installation, 3))


def test_a_killed_database_loses_no_message_and_no_job(installation: tuple[Hub, Jobs]) -> None:
    went_well(drills.postgres_kills(*installation, 2, 120))
