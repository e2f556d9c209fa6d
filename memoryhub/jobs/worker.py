"""The worker processes: one django-q2 cluster whose sentinel gives each of its workers one job at a time.

In django-q2 1.11 workers share a queue: one that is killed while idle keeps the queue's lock, and its cluster gets no
more jobs, yet looks alive. So each worker here has its queues, which are dropped with it, and the sentinel also
fetches jobs and reads results, for which django-q2 has two more processes. A worker must answer each job or ping in
time, or it is replaced.

All workers are forked from the sentinel, which has imported everything that jobs need: they share that memory.
"""

import json
import logging
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from multiprocessing.queues import SimpleQueue
from typing import Any, Final, NoReturn, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import Error, close_old_connections, connection, connections
from django_q.brokers import Broker
from django_q.cluster import Sentinel, get_mp_context
from django_q.conf import Conf
from django_q.worker import worker as run_tasks

from memoryhub.ids import new_id
from memoryhub.jobs import executor
from memoryhub.jobs.context import query
from memoryhub.jobs.hosts import own_settings
from memoryhub.jobs.models import Worker
from memoryhub.jobs.queue import fire_due, offer
from memoryhub.jobs.registry import KINDS, ROUNDS
from memoryhub.runtime.postgres import disk_space
from memoryhub.runtime.processes import Wakeups, die_with_parent

log = logging.getLogger(__name__)
Result = TypeVar("Result")

LOOP_SECONDS: Final = 0.5
MAINTENANCE_SECONDS: Final = 5.0
ROUND_SECONDS: Final = 1.0
PING_SECONDS: Final = 5.0
"""Silence after which a worker is pinged."""

RESPONSE_SECONDS: Final = 15.0
"""Time limit for answering a ping or starting a job."""

RESULT_GRACE_SECONDS: Final = 6.0
"""Grace after a job's deadline for its result; the worker's own alarm ends the job at the deadline."""

RESPAWN_PAUSE_SECONDS: Final = 0.1
"""Pause between respawns, so that a crash loop does not take a whole core."""

DATABASE_RETRY_SECONDS: Final = 0.5
DRAIN_SECONDS: Final = 10.0
"""Time for running jobs after the stop signal; below the supervisor's grace."""

DATABASE_TIMEOUT_SECONDS: Final = 5.0
"""Database timeout of one step; below the supervisor's heartbeat limit."""


class DatabaseTooSlow(Exception):
    """The database did not answer in time."""


class JobBroker(Broker):
    """django-q2's broker over the table of jobs (`Q_CLUSTER["broker_class"]`).

    A second queue besides the table could get out of sync with it. A job that was fetched and not started is offered
    again after `OFFERED_SECONDS`.
    """

    def enqueue(self, task: str) -> NoReturn:
        """Refuse: jobs are enqueued by `memoryhub.jobs.queue.enqueue`, in the transaction that causes them."""
        raise TypeError("Background work is enqueued with memoryhub.jobs.queue.enqueue, not with async_task.")

    def dequeue(self, count: int = 1) -> list[dict[str, Any]]:
        """Return due jobs, none while the disk is nearly full."""
        space = disk_space(settings.ENVIRONMENT)
        if space is not None and space.is_full:
            return []
        return [
            {
                "id": str(offered.job_id),
                "name": str(offered.job_id),
                "func": executor.run,
                "args": (offered,),
                "kwargs": {},
                "timeout": KINDS[offered.kind].limit_seconds,
            }
            for offered in offer(count)
        ]


def ping(worker: UUID) -> None:
    """No-op task; its completion proves that the worker is alive."""


@dataclass(eq=False)
class PooledWorker:
    """A worker process with its queues.

    `timer` is django-q2's: above 0 while a task runs; it is read without its lock, which a dead worker may hold. A task
    must start within `RESPONSE_SECONDS`, and its result is due at `due_at`.
    """

    process: BaseProcess
    tasks: SimpleQueue[Any]
    results: SimpleQueue[Any]
    timer: Any
    heard_at: float
    id: UUID = field(default_factory=new_id)
    is_busy: bool = False
    given_at: float = 0.0
    due_at: float = 0.0

    def give(self, task: dict[str, Any], *, within_seconds: float) -> None:
        """Put a task into its queue, with the worker's id as the last argument."""
        self.tasks.put({**task, "args": (*task["args"], self.id)})
        self.is_busy, self.given_at = True, time.monotonic()
        self.due_at = self.given_at + within_seconds

    def hear(self) -> None:
        while not self.results.empty():
            self.results.get()
            self.is_busy, self.heard_at = False, time.monotonic()

    def problem(self) -> str:
        """Return the reason to replace the worker; empty if it is healthy."""
        if not self.process.is_alive():
            return f"it ended with {self.process.exitcode}"
        if not self.is_busy:
            return ""
        start_deadline = self.given_at + RESPONSE_SECONDS
        limit = self.due_at if self.timer.get_obj().value > 0 else min(self.due_at, start_deadline)
        return "it does not answer" if time.monotonic() > limit else ""


class WorkerPool(Sentinel):
    """Runs jobs in `size` processes until a signal.

    `show_life` is called in each round, at least once a second if nothing blocks.
    """

    def __init__(self, size: int, wakeups: Wakeups, show_life: Callable[[], None]) -> None:
        self.size, self.wakeups, self.show_life = size, wakeups, show_life
        self.workers: list[PooledWorker] = []
        self.maintained_at = self.rounds_at = self.fetch_at = 0.0
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        super().__init__(multiprocessing.Event(), multiprocessing.Event(), new_id(), broker=JobBroker(), start=False)
        for number, handler in handlers.items():  # the base class takes them; they are the caller's
            signal.signal(number, handler)

    def run(self) -> None:
        """Work until a signal; then finish the running jobs, or give them back."""
        try:
            for _ in range(self.size):
                self.spawn_worker()
            log.info("workers ready", extra={"workers": self.size})
            while not self.wakeups.stops:
                self._replace_broken()
                self._dispatch()
                self._maintain()
                self._make_rounds()
                self.show_life()
                self._wait(Conf.POLL if any(not worker.is_busy for worker in self.workers) else LOOP_SECONDS)
        finally:
            self._end()

    def spawn_worker(self) -> None:
        connections.close_all()  # a child must not share the parent's connection
        tasks, results = get_mp_context().SimpleQueue(), get_mp_context().SimpleQueue()
        timer = multiprocessing.Value("f", -1)
        process = self.spawn_process(_run_worker, os.getpid(), tasks, results, timer)
        self.workers.append(PooledWorker(process, tasks, results, timer, heard_at=time.monotonic()))

    def _replace_broken(self) -> None:
        for worker in list(self.workers):
            worker.hear()
            if reason := worker.problem():
                log.log(logging.WARNING if worker.is_busy else logging.INFO, "worker replaced: %s", reason)
                self._drop(worker, executor.give_up_on)
                time.sleep(RESPAWN_PAUSE_SECONDS)
                self.spawn_worker()

    def _drop(self, worker: PooledWorker, release: Callable[[UUID], int]) -> None:
        worker.process.kill()
        worker.process.join(1)
        self.workers.remove(worker)
        _with_timeout(lambda: release(worker.id))
        _with_timeout(lambda: Worker.objects.filter(pk=worker.id).delete())

    def _dispatch(self) -> None:
        """Give due jobs to idle workers, and ping silent ones."""
        idle = [worker for worker in self.workers if not worker.is_busy]
        now = time.monotonic()
        if idle and now >= self.fetch_at:
            tasks = _with_timeout(lambda: self.broker.dequeue(len(idle)))
            if tasks is None:
                self.fetch_at = time.monotonic() + DATABASE_RETRY_SECONDS
            for task in tasks or ():
                idle.pop().give(task, within_seconds=task["timeout"] + RESULT_GRACE_SECONDS)
        for worker in idle:
            if now - worker.heard_at > PING_SECONDS:
                task = {"id": "ping", "name": "ping", "func": ping, "args": (), "kwargs": {}}
                worker.give(task, within_seconds=RESPONSE_SECONDS)

    def _maintain(self) -> None:
        """Record heartbeats, release jobs of lost workers, and fire schedules; every pool does so."""
        if time.monotonic() - self.maintained_at < MAINTENANCE_SECONDS:
            return
        self.maintained_at = time.monotonic()
        close_old_connections()
        for act in (self._record_heartbeats, executor.release_expired, fire_due):
            _with_timeout(act)
            self.show_life()

    def _make_rounds(self) -> None:
        if time.monotonic() - self.rounds_at < ROUND_SECONDS:
            return
        self.rounds_at = time.monotonic()
        for act in ROUNDS:
            _with_timeout(act)
            self.show_life()

    def _record_heartbeats(self) -> None:
        host, settings_noted = socket.gethostname()[:255], json.dumps(own_settings())
        for worker in self.workers:
            query("record_heartbeat", id=worker.id, host=host, pid=worker.process.pid, settings=settings_noted)

    def _wait(self, seconds: float) -> None:
        self.wakeups.wait(seconds, *(worker.results._reader for worker in self.workers))  # type: ignore[attr-defined]
        for worker in self.workers:
            worker.hear()

    def _end(self) -> None:
        """Wait for running jobs, end all processes, and release unfinished jobs."""
        was_signalled = bool(self.wakeups.stops)
        deadline, forced_stops = time.monotonic() + DRAIN_SECONDS, self.wakeups.stops + 1
        while (
            time.monotonic() < deadline
            and self.wakeups.stops < forced_stops
            and any(worker.is_busy and not worker.problem() for worker in self.workers)
        ):
            self.show_life()
            self._wait(0.05)
        for worker in list(self.workers):
            self._drop(worker, executor.hand_back if was_signalled else executor.give_up_on)
        connections.close_all()


def _run_worker(parent: int, tasks: Any, results: Any, timer: Any) -> None:
    """Run tasks in a process that dies with its parent and ignores signals.

    A signal to the process group is for the parent, which lets running jobs finish.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    die_with_parent(parent)()
    run_tasks(tasks, results, timer, int(Conf.TIMEOUT))


def _with_timeout(act: Callable[[], Result]) -> Result | None:
    """Call a function with a time limit; return None on a database error or timeout, as a later round repeats it.

    A frozen server neither answers nor closes the connection, so an alarm ends the wait.
    """
    previous_handler = signal.signal(signal.SIGALRM, _raise_timeout)
    signal.setitimer(signal.ITIMER_REAL, DATABASE_TIMEOUT_SECONDS)
    try:
        return act()
    except (Error, DatabaseTooSlow) as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        log.warning("database does not answer as it should", extra={"error": type(error).__name__})
        connection.close()
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_handler)


def _raise_timeout(number: int, frame: object) -> None:
    raise DatabaseTooSlow
