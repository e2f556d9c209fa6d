"""Replacement of workers by the pool, and when it must not happen. Real processes: tests/slow/chaos."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from memoryhub.jobs import worker as module
from memoryhub.jobs.executor import claim, run
from memoryhub.jobs.models import Job, Worker
from memoryhub.jobs.queue import Offer, enqueue
from memoryhub.jobs.registry import KINDS, job_kind
from memoryhub.jobs.worker import (
    PING_SECONDS,
    RESPONSE_SECONDS,
    RESULT_GRACE_SECONDS,
    JobBroker,
    PooledWorker,
    WorkerPool,
    ping,
)

pytestmark = pytest.mark.django_db(transaction=True)


class Clock:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Process:
    """A process that lives until it is killed."""

    pid, exitcode = 4711, None

    def is_alive(self) -> bool:
        return self.exitcode is None

    def kill(self) -> None:
        self.exitcode = self.exitcode or -9

    def join(self, seconds: float) -> None:
        return None


class Queue:
    """A queue within this process."""

    _reader = None

    def __init__(self) -> None:
        self.items: list[Any] = []

    def put(self, item: Any) -> None:
        self.items.append(item)

    def get(self) -> Any:
        return self.items.pop(0)

    def empty(self) -> bool:
        return not self.items


class Timer:
    """django-q2's timer of a worker: above 0 while a task runs."""

    value = -1.0

    def get_obj(self) -> "Timer":
        return self


class Pool(WorkerPool):
    """A pool of two workers without processes: what they are given, and what they answer, is up to the test."""

    def __init__(self) -> None:
        self.workers, self.broker = [], JobBroker()
        self.maintained_at = self.fetch_at = 0.0
        self.wakeups = SimpleNamespace(stops=0, wait=lambda seconds, *readers: None)
        self.show_life = lambda: None
        for _ in range(2):
            self.spawn_worker()

    def spawn_worker(self) -> None:
        self.workers.append(PooledWorker(Process(), Queue(), Queue(), Timer(), heard_at=module.time.monotonic()))  # type: ignore[arg-type]

    def round(self) -> None:
        self._replace_broken()
        self._dispatch()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def pool(clock: Clock) -> Pool:
    return Pool()


def given(worker: PooledWorker) -> list[Callable[..., object]]:
    return [task["func"] for task in worker.tasks.items]  # type: ignore[attr-defined]


def answer(worker: PooledWorker) -> None:
    worker.results.put(worker.tasks.get())


def begin(worker: PooledWorker) -> UUID:
    """Claim the job that a worker was given, as its process does."""
    offered, worker_id = worker.tasks.get()["args"]
    assert worker_id == worker.id
    job = claim(offered, job_kind(offered.kind), worker=worker_id)
    assert job is not None
    worker.timer.value = job.seconds_left
    return job.id


def test_each_idle_worker_gets_one_job_and_the_third_waits(pool: Pool) -> None:
    for _ in range(3):
        enqueue("nothing")
    pool.round()
    pool.round()
    assert [given(each) for each in pool.workers] == [[run], [run]]

    answer(pool.workers[0])
    pool.round()
    assert given(pool.workers[0]) == [run]


def test_an_idle_worker_that_answers_its_pings_stays(pool: Pool, clock: Clock) -> None:
    before = list(pool.workers)
    for _ in range(100):
        clock.now += 1
        pool.round()
        for each in pool.workers:
            if given(each):
                assert given(each) == [ping]
                answer(each)
    assert pool.workers == before


def test_an_idle_worker_that_does_not_answer_is_replaced(pool: Pool, clock: Clock) -> None:
    deaf, other = pool.workers
    clock.now += PING_SECONDS + 1
    pool.round()
    answer(other)
    clock.now += RESPONSE_SECONDS - 1
    pool.round()
    assert deaf in pool.workers

    clock.now += 2
    pool.round()
    assert deaf not in pool.workers and other in pool.workers and len(pool.workers) == 2
    assert deaf.process.exitcode == -9


def test_an_answer_that_came_while_the_pool_was_stopped_counts(pool: Pool, clock: Clock) -> None:
    before = list(pool.workers)
    clock.now += PING_SECONDS + 1
    pool.round()
    for each in pool.workers:
        answer(each)
    clock.now += 10 * RESPONSE_SECONDS
    pool.round()
    assert pool.workers == before


def test_a_dead_worker_is_replaced_and_its_job_released(pool: Pool) -> None:
    enqueue("nothing")
    pool.round()
    (dead,) = [each for each in pool.workers if each.is_busy]
    job_id = begin(dead)
    dead.process.kill()
    pool.round()

    job = Job.objects.get(pk=job_id)
    assert dead not in pool.workers and len(pool.workers) == 2
    assert (job.state, job.attempts, job.excused) == ("queued", 1, 0)


def test_a_job_that_does_not_end_at_its_deadline_costs_its_worker(pool: Pool, clock: Clock) -> None:
    enqueue("nothing")
    pool.round()
    (busy,) = [each for each in pool.workers if each.is_busy]
    begin(busy)
    clock.now += job_kind("nothing").deadline_seconds + RESULT_GRACE_SECONDS - 1
    pool._replace_broken()
    assert busy in pool.workers

    clock.now += 2
    pool._replace_broken()
    assert busy not in pool.workers and busy.process.exitcode == -9


def test_a_job_that_is_not_begun_costs_its_worker_long_before_the_deadline(pool: Pool, clock: Clock) -> None:
    enqueue("nothing")
    pool.round()
    (deaf,) = [each for each in pool.workers if each.is_busy]
    clock.now += RESPONSE_SECONDS + 1
    pool._replace_broken()
    assert deaf not in pool.workers and Job.objects.get().attempts == 0


@pytest.mark.parametrize(("stops", "excused"), [(1, 1), (0, 0)])
def test_what_a_stop_leaves_unfinished_is_given_back(pool: Pool, clock: Clock, stops: int, excused: int) -> None:
    enqueue("nothing")
    pool.round()
    pool._maintain()
    assert Worker.objects.count() == 2
    (busy,) = [each for each in pool.workers if each.is_busy]
    begin(busy)
    pool.wakeups.stops = stops
    pool.wakeups.wait = lambda seconds, *readers: clock.sleep(seconds)
    pool._end()

    job = Job.objects.get()
    assert (job.state, job.excused) == ("queued", excused)
    assert not pool.workers and not Worker.objects.exists()


def test_the_broker_takes_no_task_from_elsewhere() -> None:
    with pytest.raises(TypeError, match="enqueue"):
        JobBroker().enqueue("task")


def test_a_task_has_the_deadline_of_its_kind() -> None:
    enqueue("nothing")
    (task,) = JobBroker().dequeue(5)
    assert task["timeout"] == KINDS["nothing"].limit_seconds and isinstance(task["args"][0], Offer)
