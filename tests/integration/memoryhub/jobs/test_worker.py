"""When a worker holds itself for deaf, and when it must not. What real processes do: tests/slow/chaos."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django_q.queues import Queue

from memoryhub.jobs import worker as module
from memoryhub.jobs.heartbeats import Heartbeats
from memoryhub.jobs.worker import DEAF_SECONDS, FETCHER_DEAF_SECONDS, Guard, WorkerBroken


class Clock:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module.time, "monotonic", clock.monotonic)
    return clock


@pytest.fixture
def guard(clock: Clock) -> Iterator[Any]:
    """Return a guard of no processes: only what it hears."""
    guard = Guard.__new__(Guard)
    guard.own = Heartbeats()
    guard.canary_sent_at = guard.full_since = None
    guard.last_busy_at = clock.now
    guard.task_queue = Queue(maxsize=1)
    yield guard
    guard.task_queue.close()
    guard.task_queue.join_thread()


def listen(
    guard: Any,
    clock: Clock,
    seconds: float,
    *,
    fetches: bool = True,
    answers: bool = False,
    works: bool = False,
) -> None:
    """Let time pass, half a second a round, while some of the worker show life."""
    for _ in range(int(seconds * 2)):
        clock.now += 0.5
        if fetches:
            guard.own.fetched.value = clock.now
        if works:
            guard.own.worked.value = clock.now
        if answers and guard.canary_sent_at is not None:
            guard.task_queue.get(timeout=5)
            guard.own.answered.value = clock.now
        guard._listen()


def test_a_worker_that_answers_is_well(guard: Any, clock: Clock) -> None:
    listen(guard, clock, 300, answers=True)


def test_a_canary_that_nobody_answers_breaks_a_worker(guard: Any, clock: Clock) -> None:
    with pytest.raises(WorkerBroken, match="canary"):
        listen(guard, clock, DEAF_SECONDS + 10)


def test_no_room_for_a_canary_while_jobs_go_through_breaks_nothing_then_or_later(
    guard: Any, clock: Clock
) -> None:
    guard.task_queue.put("a job")
    listen(guard, clock, 60, works=True)
    guard.task_queue.get(timeout=5)
    listen(guard, clock, 120, answers=True)


def test_a_queue_that_is_full_and_does_not_move_breaks_a_worker(guard: Any, clock: Clock) -> None:
    guard.task_queue.put("a job that nobody takes")
    with pytest.raises(WorkerBroken):
        listen(guard, clock, DEAF_SECONDS + 10)


def test_a_fetcher_that_shows_no_life_breaks_a_worker(guard: Any, clock: Clock) -> None:
    with pytest.raises(WorkerBroken, match="not fetched"):
        listen(guard, clock, FETCHER_DEAF_SECONDS + 5, fetches=False, answers=True)


def test_a_job_that_never_reached_the_worker_breaks_a_worker(guard: Any, clock: Clock) -> None:
    guard.own.taken.value = 1
    with pytest.raises(WorkerBroken, match="did not reach"):
        listen(guard, clock, FETCHER_DEAF_SECONDS + 5, answers=True)


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_frozen_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.2)
    asked, reached = [], []

    def ask() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            asked.append(cursor.fetchone()[0])
            cursor.execute("SELECT pg_sleep(30)")
        reached.append("the end")

    module._quietly(ask)

    assert (len(asked), reached) == (1, [])
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", asked)
        assert cursor.fetchone() == (True,), "and the connection is a new one"
    time.sleep(0.3)  # no alarm is left that would ring in what comes next
