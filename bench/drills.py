"""One fault at a time, again and again: how soon it works again, and whether anything was lost or doubled."""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench.hub import CHECKOUT, Hub, eventually, hurt
from memoryhub.runtime.processes import wait_until

WITHIN_SECONDS = 60.0
LISTENS_SECONDS = 25.0
"""Longer than a worker may take to answer a ping."""


@dataclass
class Outcome:
    """What a drill showed: how many rounds, how long each took, and what went wrong in words."""

    name: str
    rounds: int = 0
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)

    def check(self, holds: bool, words: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.wrong.append(words)

    def took(self, seconds: float | None, words: str) -> None:
        """Note how long a round took; None is a round that did not end in time."""
        self.rounds += 1
        if seconds is None:
            self.wrong.append(f"round {self.rounds}: {words}")
        else:
            self.seconds.append(seconds)

    def row(self) -> dict[str, Any]:
        """Return the outcome as a line of the report."""
        times = sorted(self.seconds)
        return {
            "drill": self.name,
            "rounds": self.rounds,
            "median_seconds": round(statistics.median(times), 2) if times else None,
            "longest_seconds": round(times[-1], 2) if times else None,
            **self.notes,
            "wrong": self.wrong,
        }


class Jobs:
    """Puts jobs into a hub's queue, and looks what became of them."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.enqueue_ms = 0.0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.client"],
            cwd=CHECKOUT, env=hub.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )  # fmt: skip
        self._read()

    def add(self, kind: str, *, count: int = 1, key: str = "", **payload: Any) -> list[str]:
        """Enqueue jobs and return their ids, once they are committed."""
        assert self.process.stdin is not None
        order = {"kind": kind, "payload": payload, "key": key, "count": count}
        self.process.stdin.write(json.dumps(order) + "\n")
        answer = json.loads(self._read())
        self.enqueue_ms = float(answer["enqueue_ms"])
        return list(answer["ids"])

    def _read(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("The process that enqueues jobs ended.")
        return line

    def states(self, ids: list[str]) -> dict[str, int]:
        """Count the jobs with these ids by state."""
        statement = "SELECT state, count(*) FROM memoryhub_job WHERE id = ANY(%s::uuid[]) GROUP BY state"
        return dict(self.hub.rows(statement, [ids]))

    def are_done(self, ids: list[str]) -> bool:
        """Say whether all of them are done."""
        return self.states(ids) == {"done": len(ids)}

    def effects(self, ids: list[str]) -> dict[str, int]:
        """Count the effects of each job."""
        statement = "SELECT job::text, count(*) FROM bench_effect WHERE job = ANY(%s::uuid[]) GROUP BY job"
        return dict(self.hub.rows(statement, [ids]))

    def worker_of(self, job_id: str) -> int | None:
        """Return the process that began a job last."""
        statement = "SELECT pid FROM bench_begun WHERE job = %s::uuid ORDER BY at DESC LIMIT 1"
        rows = self.hub.rows(statement, [job_id])
        return int(rows[0][0]) if rows else None

    def close(self) -> None:
        """End the process that enqueues."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder that PostgreSQL's account can enter, and remove it."""
    with tempfile.TemporaryDirectory(prefix="memoryhub-chaos-", ignore_cleanup_errors=True) as name:
        path = Path(name)
        path.chmod(0o711 if os.geteuid() == 0 else 0o700)
        yield path


@contextmanager
def running(*, workers: int = 2) -> Iterator[tuple[Hub, Jobs]]:
    """Start an installation, and leave nothing of it behind."""
    with folder() as path:
        hub = Hub(path, workers=workers)
        jobs = None
        try:
            hub.start()
            jobs = Jobs(hub)
            yield hub, jobs
        finally:
            if jobs is not None:
                jobs.close()
            hub.destroy()


def idle_worker(hub: Hub, jobs: Jobs, times: int) -> Outcome:
    """Kill an idle worker, or the process that the workers are forked from; all must work again."""

    def fault(hub: Hub, number: int) -> None:
        parent, workers = hub.worker_processes()
        hurt(parent if number % 3 == 2 else random.choice(workers), signal.SIGKILL)

    return _recovers(hub, jobs, "an idle worker or the workers' parent killed", fault, times)


def all_workers(hub: Hub, jobs: Jobs, times: int) -> Outcome:
    """Kill all workers and their parent at once."""

    def fault(hub: Hub, number: int) -> None:
        parent, workers = hub.worker_processes()
        for pid in (parent, *workers):
            hurt(pid, signal.SIGKILL)

    return _recovers(hub, jobs, "all workers killed", fault, times)


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
        outcome.notes["begun"] = begun
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
                    code = hub.process.wait(timeout=25)
                except subprocess.TimeoutExpired:
                    outcome.took(None, f"{ways[number % 3]}: did not end in 25 s")
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
            outcome.notes["jobs"] = len(ids)
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
    outcome.notes["acknowledged"] = sum(writer.acknowledged for writer in writers)
    outcome.notes["repeated_by_clients"] = sum(writer.repeats for writer in writers)
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
        eventually(lambda: hub.said().count("PostgreSQL runs again") > told, WITHIN_SECONDS),
        "it did not come back",
    )
    status, _ = hub.post("sessions", {"agent_id": "chaos"})
    outcome.check(0 < status < 500, f"the first request after recovery: {status}")


class Writer(threading.Thread):
    """A chat client: writes messages one after the other, each again until it is acknowledged."""

    def __init__(self, hub: Hub, number: int, count: int | None) -> None:
        super().__init__(name=f"writer-{number}", daemon=True)
        self.hub, self.count = hub, count
        self.session = str(uuid4())
        self.number = number
        self.acknowledged = 0
        self.repeats = 0
        self.over = threading.Event()

    def run(self) -> None:
        """Write until done or told to stop."""
        opening = {"agent_id": f"chaos-{self.number}", "session_id": self.session}
        while self.hub.post("sessions", opening)[0] not in (200, 201) and not self.over.wait(0.05):
            pass
        while not self.over.is_set() and (self.count is None or self.acknowledged < self.count):
            message = {
                "role": "user",
                "content": f"message {self.acknowledged}",
                "client_message_id": str(self.acknowledged),
            }
            while self.hub.post(f"sessions/{self.session}/messages", message)[0] not in (200, 201):
                self.repeats += 1
                if self.over.wait(0.05):
                    return
            self.acknowledged += 1

    def verify(self) -> list[str]:
        """Say what is lost, doubled or out of order."""
        statement = "SELECT seq, client_message_id FROM conversations_message WHERE session_id = %s::uuid ORDER BY seq"
        rows = self.hub.rows(statement, [self.session])
        wrong = []
        if [seq for seq, _ in rows] != list(range(1, len(rows) + 1)):
            wrong.append(f"session {self.number}: a gap in seq")
        ids = [int(name) for _, name in rows]
        if len(ids) != len(set(ids)):
            wrong.append(f"session {self.number}: doubled messages")
        lost = set(range(self.acknowledged)) - set(ids)
        if lost:
            wrong.append(f"session {self.number}: {len(lost)} acknowledged messages are lost")
        return wrong


def throughput(hub: Hub, jobs: Jobs, count: int) -> Outcome:
    """Let two workers run empty jobs; and see that the workers are content with themselves afterwards."""
    outcome = Outcome(f"{count} empty jobs, 2 workers")
    ids = jobs.add("bench_empty", count=count)
    outcome.notes["enqueue_median_ms"] = jobs.enqueue_ms
    outcome.took(done(jobs, ids, 300), f"left: {jobs.states(ids)}")
    statement = (
        "SELECT extract(epoch FROM max(finished_at) - min(started_at)) FROM memoryhub_job WHERE kind = %s"
    )
    spent = float(hub.rows(statement, ["bench_empty"])[0][0])
    outcome.notes["jobs_per_second"] = round(count / spent, 1)
    workers = hub.worker_processes()
    time.sleep(LISTENS_SECONDS)
    outcome.check(hub.worker_processes() == workers, "a worker ended itself after the load")
    return outcome


def begun(jobs: Jobs, job_id: str) -> int | None:
    """Wait until a job is begun, and return the process that did."""
    wait_until(lambda: jobs.worker_of(job_id) is not None, timeout_seconds=WITHIN_SECONDS)
    return jobs.worker_of(job_id)


def done(jobs: Jobs, ids: list[str], seconds: float) -> float | None:
    """Wait until jobs are done; return after how long, or None where they are not in time."""
    return eventually(lambda: jobs.are_done(ids), seconds)
