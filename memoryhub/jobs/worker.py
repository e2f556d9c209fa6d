"""A crew: the processes of one django-q2 cluster, with a guard of our own (`manage.py run_worker`).

Measured on django-q2 1.11: workers of a cluster share a queue whose lock dies with its holder, so a worker that is
killed while idle leaves the cluster deaf, and it looks alive. So a crew has one worker, there are as many crews as
workers, and a crew that lost a process in any other way than by its own decision ends: whoever started it starts
it anew, within a second. A canary, sent through the very queues that jobs take, tells a crew that is idle from one
that is deaf.
"""

import ctypes
import logging
import multiprocessing
import os
import queue
import signal
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any, Final

from django.db import DatabaseError, close_old_connections, connection, connections
from django_q.cluster import Sentinel
from django_q.signals import post_execute, post_execute_in_worker

from memoryhub.jobs import leases, sql
from memoryhub.jobs.heartbeats import Heartbeats, beat, begin, heartbeats
from memoryhub.jobs.models import Worker
from memoryhub.jobs.schedules import fire_due
from memoryhub.runtime.processes import Wakeups

log = logging.getLogger(__name__)

ROUND_SECONDS: Final = 0.5
TIDY_SECONDS: Final = 5.0
CANARY: Final = "canary"
DEAF_SECONDS: Final = 15.0
FETCHER_DEAF_SECONDS: Final = 30.0
"""Longer than the fetcher waits for a database that does not answer a connection."""

DRAIN_SECONDS: Final = 10.0
"""How long a job may go on after the crew was told to stop; below the supervisor's grace."""

PATIENCE_SECONDS: Final = 5.0
"""How long a round waits for the database in each of its acts; less than the supervisor waits for a sign of life."""

_PR_SET_PDEATHSIG: Final = 1


class TooSlow(Exception):
    """The database did not answer in time."""


class WorkerBroken(Exception):
    """The crew cannot be trusted to work any more; start another."""


def run_worker(wakeups: Wakeups, *, show_life: Callable[[], None]) -> None:
    """Work on jobs until told to stop, then finish the one in hand. Raises CrewBroken.

    `show_life` is called in each round, at least once a second while all is well.
    """
    own = begin()
    _mark_children()
    guard = Guard(own, wakeups, show_life)
    try:
        guard.run()
    finally:
        guard.end()


class Guard(Sentinel):
    """Watches the three processes of a crew: who fetches jobs, who works on them, who hears of results."""

    def __init__(self, own: Heartbeats, wakeups: Wakeups, show_life: Callable[[], None]) -> None:
        self.own, self.wakeups, self.show_life = own, wakeups, show_life
        self.canary_sent_at: float | None = None
        self.full_since: float | None = None
        self.is_overdue = False
        self.busy_since: tuple[float, float] | None = None
        self.last_busy_at = time.monotonic()
        self.tidied_at = 0.0
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        super().__init__(multiprocessing.Event(), multiprocessing.Event(), own.worker_id, start=False)
        for number, handler in handlers.items():  # the base class takes them; they are the caller's
            signal.signal(number, handler)

    def run(self) -> None:
        """Start the crew and watch it until told to stop. Raises CrewBroken."""
        self.spawn_cluster()
        self.start_event.set()
        log.info("crew works", extra={"worker": str(self.own.worker_id)})
        while not self.wakeups.stops:
            self._look()
            self.show_life()
            self._tidy()
            self.wakeups.wait(ROUND_SECONDS)

    def end(self) -> None:
        """Let the job in hand finish, end all processes, and give back what was not finished."""
        # Not django-q2's event: a fetcher that died while it looked at that holds its lock.
        self.own.stopping.value = 1
        if self._worker_is_whole() and not self.is_overdue:
            self._drain()
        was_told = bool(self.wakeups.stops)
        for process in self._processes():
            process.kill()
        for process in self._processes():
            process.join(1)
        _quietly(
            lambda: (
                leases.hand_back(self.own.worker_id) if was_told else leases.give_up_on(self.own.worker_id)
            )
        )
        _quietly(lambda: Worker.objects.filter(pk=self.own.worker_id).delete())
        connections.close_all()

    def reincarnate(self, process: Any) -> None:
        """Replace a process that ended by its own decision. Raises CrewBroken where it was ended.

        The base class would replace any; but what the dead one held, the new one waits for.
        """
        recycled = process in self.pool and int(process.timer.get_obj().value) in (-2, 0)
        process.join(1)
        if process.exitcode != 0 or not (recycled or process is self.pusher):
            raise WorkerBroken(f"the {self._role(process)} ended with {process.exitcode}")
        super().reincarnate(process)

    # Watching

    def _look(self) -> None:
        for process in list(self.pool):
            if not process.is_alive():
                self.reincarnate(process)
            elif self._is_overdue(process):
                self.is_overdue = True
                raise WorkerBroken("a job did not end at its deadline")
        for process in (self.monitor, self.pusher):
            if not process.is_alive():
                self.reincarnate(process)
        self._listen()

    def _is_overdue(self, process: Any) -> bool:
        """Say whether a worker is busy for longer than its task allows; its own alarm rings seconds earlier.

        The timer is read without its lock, which a dead worker may hold.
        """
        allowed = process.timer.get_obj().value
        if allowed <= 0:
            self.busy_since = None
            return False
        now = self.last_busy_at = time.monotonic()
        last_end = self.own.worked.value
        if self.busy_since is None or self.busy_since[0] != last_end:
            self.busy_since = (last_end, now)
        return bool(now - self.busy_since[1] > allowed)

    def _listen(self) -> None:
        """Raise CrewBroken where one of the processes lives, but does nothing."""
        now = time.monotonic()
        moved_at = max(self.last_busy_at, self.own.worked.value)
        if now - max(self.own.fetched.value, moved_at) > FETCHER_DEAF_SECONDS:
            raise WorkerBroken("jobs are not fetched")
        if self.own.in_hand > 0 and now - moved_at > FETCHER_DEAF_SECONDS:
            raise WorkerBroken("a job was fetched and did not reach the worker")
        if self.canary_sent_at is not None and self.own.answered.value > self.canary_sent_at:
            self.canary_sent_at = None
        waits_since = self.canary_sent_at or self._send_canary(now)
        if waits_since is not None and now - max(waits_since, moved_at) > DEAF_SECONDS:
            raise WorkerBroken("the canary was not heard")

    def _send_canary(self, now: float) -> float | None:
        """Send one, some seconds after the last was heard; return since when there was no room for it."""
        if now - self.own.answered.value < TIDY_SECONDS:
            return None
        task = {"id": CANARY, "name": CANARY, "func": "memoryhub.jobs.tasks.ping", "args": (), "kwargs": {}}
        try:
            self.task_queue.put(task, block=False)
        except queue.Full:  # mostly because a job stands there, and soon moves on
            self.full_since = self.full_since or now
            return self.full_since
        self.canary_sent_at, self.full_since = now, None
        return None

    def _tidy(self) -> None:
        """Release what lost workers held, fire what is due, and say that we live; all crews do so alike."""
        if time.monotonic() - self.tidied_at < TIDY_SECONDS:
            return
        self.tidied_at = time.monotonic()
        close_old_connections()
        for act in (self._be_seen, leases.sweep, fire_due):
            _quietly(act)
            self.show_life()

    def _be_seen(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                sql.BE_SEEN,
                {"id": self.own.worker_id, "host": socket.gethostname()[:255], "pid": os.getpid()},
            )

    # Ending

    def _drain(self) -> None:
        deadline = time.monotonic() + DRAIN_SECONDS
        impatient = self.wakeups.stops + 1
        while self.own.in_hand > 0 and time.monotonic() < deadline and self.wakeups.stops < impatient:
            self.show_life()
            self.wakeups.wait(0.05)

    def _worker_is_whole(self) -> bool:
        return bool(self.pool) and all(process.is_alive() for process in self.pool)

    def _processes(self) -> list[BaseProcess]:
        return [process for process in (*self.pool, self.monitor, self.pusher) if process is not None]

    def _role(self, process: Any) -> str:
        return {id(self.monitor): "listener", id(self.pusher): "fetcher"}.get(id(process), "worker")


def _worked(sender: Any, **kwargs: Any) -> None:
    """In the worker, after each task."""
    if kwargs["task"]["id"] != CANARY:
        beat(heartbeats().worked)
        heartbeats().finished.value += 1


def _answered(sender: Any, **kwargs: Any) -> None:
    """In the listener, for each result."""
    if kwargs["task"]["id"] == CANARY:
        beat(heartbeats().answered)


post_execute_in_worker.connect(_worked)
post_execute.connect(_answered)


def _quietly(act: Callable[[], object]) -> None:
    """Do without the database for a while; what was to be done is done in a later round, or by another crew.

    A server that is frozen answers nothing and closes nothing, so an alarm ends the wait for it.
    """
    former = signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)
    try:
        act()
    except (DatabaseError, TooSlow) as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        log.warning("database does not answer as it should", extra={"error": type(error).__name__})
        connection.close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def _give_up(number: int, frame: object) -> None:
    raise TooSlow


def _mark_children() -> None:
    """Arrange that each process of the crew dies with its guard, and leaves signals to it.

    A signal to the whole process group is meant for the guard, which lets the worker finish what it has in hand.
    """
    guard = os.getpid()
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None

    def mark() -> None:
        if os.getppid() != guard:
            return  # a process that a job started
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)  # it died before it could be followed

    os.register_at_fork(after_in_child=mark)
