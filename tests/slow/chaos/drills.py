"""One fault at a time, again and again: how soon it works again, and whether anything was lost or doubled."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from memoryhub.runtime.processes import wait_until
from tests.slow.chaos.hub import Hub, Jobs, Writer, done, eventually, folder, hurt, running

WITHIN_SECONDS = 60.0
STOPS_WITHIN_SECONDS = 120.0


@dataclass
class Outcome:
    """Rounds of a drill with their seconds, and sentences about what went wrong."""

    name: str
    rounds: int = 0
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def check(self, holds: bool, words: str) -> None:
        if not holds:
            self.wrong.append(words)

    def took(self, seconds: float | None, words: str) -> None:
        """Note how long a round took; None is a round that did not end in time."""
        self.rounds += 1
        if seconds is None:
            self.wrong.append(f"round {self.rounds}: {words}")
        else:
            self.seconds.append(seconds)


def idle_worker(hub: Hub, jobs: Jobs, times: int) -> Outcome:
    """Kill an idle worker, or the process that the workers are forked from; all must work again."""

    def fault(hub: Hub, number: int) -> None:
        parent, workers = hub.worker_processes()
        hurt(parent if number % 3 == 2 else random.choice(workers), signal.SIGKILL)

    return _recovers(hub, jobs, "an idle worker or the workers' parent killed", fault, times)


def stopped_workers(hub: Hub, jobs: Jobs, times: int) -> Outcome:
    """Stop processes with SIGSTOP, so that they live and do nothing: the workers, their parent, or all of them."""

    def fault(hub: Hub, number: int) -> None:
        parent, workers = hub.worker_processes()
        for pid in ((parent, *workers), (parent,), workers)[number % 3]:
            hurt(pid, signal.SIGSTOP)

    return _recovers(hub, jobs, "workers or their parent stopped with SIGSTOP", fault, times)


def _recovers(hub: Hub, jobs: Jobs, name: str, fault: Callable[[Hub, int], None], times: int) -> Outcome:
    """Repeat a fault; measure until as many jobs as there are workers run side by side again."""
    outcome = Outcome(name)
    for number in range(times):
        if eventually(hub.is_whole, WITHIN_SECONDS) is None:
            outcome.took(None, "the workers were not whole before")
            continue
        began = time.monotonic()
        fault(hub, number)
        ids = jobs.add("bench_effect", count=6, seconds=0.1)
        ended = done(jobs, ids, WITHIN_SECONDS)
        whole = eventually(hub.is_whole, WITHIN_SECONDS)
        works = ended is not None and whole is not None
        outcome.took(time.monotonic() - began if works else None, f"not at work: {jobs.states(ids)}")
        effects = jobs.effects(ids)
        outcome.check(effects == dict.fromkeys(ids, 1), f"effects {sorted(effects.values())} of 6 jobs")
    return outcome


def many_claims(count: int, workers: int = 8) -> Outcome:
    """Let many workers claim many jobs; each must run once."""
    outcome = Outcome(f"{workers} workers claim {count} jobs")
    with running(workers=workers) as (hub, jobs):
        ids = jobs.add("bench_effect", count=count)
        outcome.took(done(jobs, ids, 300), f"left: {jobs.states(ids)}")
        effects = jobs.effects(ids)
        outcome.check(effects == dict.fromkeys(ids, 1), "a job was doubled or lost")
        begun = hub.rows("SELECT count(*) FROM bench_begun")[0][0]
        outcome.check(begun == count, f"{begun} beginnings")
    return outcome


def stops(times: int) -> Outcome:
    """Stop the supervisor under load, in three ways; nothing may be left, and no job may be lost."""
    outcome = Outcome("SIGTERM to the supervisor, to its group, Ctrl-C, under load")
    ways = ("supervisor", "group", "Ctrl-C")
    with folder() as path:
        hub = Hub(path)
        ids: list[str] = []
        try:
            for number in range(times):
                hub.start()
                jobs = Jobs(hub)
                ids += jobs.add("bench_effect", count=30, seconds=0.4)
                time.sleep(1)
                began = time.monotonic()
                _stop(hub, ways[number % 3])
                jobs.close()
                assert hub.process is not None
                try:
                    code = hub.process.wait(timeout=STOPS_WITHIN_SECONDS)
                except subprocess.TimeoutExpired:
                    outcome.took(None, f"{ways[number % 3]}: did not end in time")
                    hub.process.kill()
                    continue
                outcome.took(time.monotonic() - began, "")
                left = hub.processes()
                outcome.check(code == 0, f"exit code {code}")
                outcome.check(not left and not hub.cluster.is_alive(), f"left behind: {left}")
            hub.start()
            jobs = Jobs(hub)
            outcome.check(done(jobs, ids, 120) is not None, f"jobs after all stops: {jobs.states(ids)}")
            outcome.check(jobs.effects(ids) == dict.fromkeys(ids, 1), "a job was doubled or lost")
            jobs.close()
        finally:
            hub.destroy()
    return outcome


def _stop(hub: Hub, way: str) -> None:
    assert hub.process is not None
    if way == "supervisor":
        hub.process.terminate()
    elif way == "group":  # as an init system does that signals every process of a service
        for pid in (hub.process.pid, *hub.processes()):
            hurt(pid, signal.SIGTERM)
    else:
        os.killpg(hub.process.pid, signal.SIGINT)


def postgres_kills(hub: Hub, jobs: Jobs, times: int, writes: int) -> Outcome:
    """Kill PostgreSQL while messages are written; every acknowledged one must be there once, without a gap."""
    outcome = Outcome(f"PostgreSQL killed during {writes} writes")
    writers = [Writer(hub, number, writes // 4) for number in range(4)]
    for writer in writers:
        writer.start()
    for number in range(1, times + 1):
        _wait_for_writes(writers, number * writes // (times + 1))
        _kill_postgres(hub, outcome)
    for writer in writers:
        writer.join(timeout=300)
    outcome.check(not any(writer.is_alive() for writer in writers), "a writer did not end")
    for writer in writers:
        outcome.wrong += writer.verify()
    return outcome


def _wait_for_writes(writers: "list[Writer]", count: int) -> None:
    wait_until(lambda: sum(writer.acknowledged for writer in writers) >= count, timeout_seconds=120)


def _kill_postgres(hub: Hub, outcome: Outcome) -> None:
    """Kill it, wait until it is back, and ask the web server something."""
    postmaster = hub.postmaster()
    if postmaster is None:
        outcome.took(None, "PostgreSQL was not there")
        return
    told = hub.said().count("PostgreSQL runs again")
    hurt(postmaster, signal.SIGKILL)
    outcome.took(
        eventually(lambda: hub.said().count("PostgreSQL runs again") > told, WITHIN_SECONDS), "it did not come back"
    )
    status, _ = hub.post("sessions", {"agent_id": "chaos"}, timeout=60)
    outcome.check(0 < status < 500, f"the first request after recovery: {status}")


def begun(jobs: Jobs, job_id: str) -> int | None:
    """Wait until a job is begun, and return the process that did."""
    wait_until(lambda: jobs.worker_of(job_id) is not None, timeout_seconds=WITHIN_SECONDS)
    return jobs.worker_of(job_id)
