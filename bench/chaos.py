#!/usr/bin/env python
"""Break an installation on purpose, and count what is lost and what is doubled.

.venv/bin/python bench/chaos.py --minutes 10      a storm: load, and faults at random
.venv/bin/python bench/chaos.py --jobs 2000       empty jobs, as fast as two workers run them
"""

import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console

from bench import harness
from tests.slow.chaos.hub import Curator, Hub, Jobs, Writer, done, eventually, hurt, running


class Storm:
    """Load and faults for some time, then the count."""

    def __init__(self, hub: Hub, jobs: Jobs, *, seed: int, say: Callable[[str], None]) -> None:
        self.hub, self.jobs, self.say = hub, jobs, say
        self.random = random.Random(seed)
        self.faults: Counter[str] = Counter()
        self.recoveries: list[float] = []
        self.ids: dict[str, list[str]] = {"bench_effect": [], "bench_steps": []}
        self.killers: list[str] = []
        self.curator = Curator(hub)
        self.wrong: list[str] = []

    def run(self, seconds: float) -> dict[str, Any]:
        """Rage for some time, wait until all is drained, and return the report."""
        writers = [Writer(self.hub, number, None) for number in range(3)]
        people: list[Writer | Curator] = [*writers, self.curator]
        for thread in people:
            thread.start()
        ends_at = time.monotonic() + seconds
        while (left := ends_at - time.monotonic()) > 0:
            seconds_each = self.random.uniform(0, 0.2)
            self.ids["bench_effect"] += self.jobs.add("bench_effect", count=20, seconds=seconds_each)
            self.ids["bench_steps"] += self.jobs.add("bench_steps", count=2, steps=5, seconds=0.1)
            if self.random.random() < 0.1:
                self.killers += self.jobs.add("bench_kill")
            self._hurt_something()
            self._recover()
            time.sleep(min(max(0.0, left), self.random.uniform(1, 4)))
        for thread in people:
            thread.over.set()
            thread.join(timeout=60)
        return self._count(writers)

    def _hurt_something(self) -> None:
        parent, workers = self.hub.worker_processes()
        faults: dict[str, tuple[list[int], signal.Signals]] = {
            "a worker killed": (workers, signal.SIGKILL),
            "a worker stopped": (workers, signal.SIGSTOP),
            "the workers' parent killed": ([parent], signal.SIGKILL),
            "the workers' parent stopped": ([parent], signal.SIGSTOP),
            "PostgreSQL killed": ([self.hub.postmaster() or 0], signal.SIGKILL),
        }
        name = self.random.choice(sorted(faults))
        self.faults[name] += 1
        pids, number = faults[name]
        if pids and (pid := self.random.choice(pids)):
            hurt(pid, number)

    def _recover(self) -> None:
        """Measure until a new job is done and all workers are whole."""
        began = time.monotonic()
        probe = self.jobs.add("bench_effect")
        self.ids["bench_effect"] += probe
        whole = eventually(self.hub.is_whole, 90)
        done = eventually(lambda: self.jobs.are_done(probe), 90)
        if whole is None or done is None:
            self.wrong.append(f"not at work 90 s after {dict(self.faults)}")
        else:
            self.recoveries.append(time.monotonic() - began)
        self.say(f"{sum(self.faults.values())} faults, last recovery {time.monotonic() - began:.1f} s")

    def _count(self, writers: list[Writer]) -> dict[str, Any]:
        every = [job_id for ids in self.ids.values() for job_id in ids]
        drained = eventually(lambda: self.jobs.are_done(every), 300)
        if drained is None:
            self.wrong.append(f"jobs are left: {self.jobs.states(every)}")
        expected = dict.fromkeys(self.ids["bench_effect"], 1) | dict.fromkeys(self.ids["bench_steps"], 5)
        effects = self.jobs.effects(every)
        lost = sum(max(0, number - effects.get(job_id, 0)) for job_id, number in expected.items())
        doubled = sum(max(0, effects.get(job_id, 0) - number) for job_id, number in expected.items())
        for writer in writers:
            self.wrong += writer.verify()
        self.wrong += self.curator.verify()
        eventually(lambda: set(self.jobs.states(self.killers)) <= {"dead"}, 120)
        if set(self.jobs.states(self.killers)) - {"dead"}:
            self.wrong.append(f"jobs that kill their worker: {self.jobs.states(self.killers)}")
        times = sorted(self.recoveries)
        return {
            "messages_acknowledged": sum(writer.acknowledged for writer in writers),
            "messages_repeated_by_clients": sum(writer.repeats for writer in writers),
            "corrections_acknowledged": len(self.curator.corrected),
            "sleeps_acknowledged": self.curator.sleeps,
            "jobs": len(every),
            "job_effects": sum(effects.values()),
            "jobs_that_kill": len(self.killers),
            "faults": dict(self.faults),
            "recovery_median_seconds": round(times[len(times) // 2], 2) if times else None,
            "recovery_longest_seconds": round(times[-1], 2) if times else None,
            "lost": lost,
            "doubled": doubled,
            "wrong": self.wrong,
        }


def throughput(hub: Hub, jobs: Jobs, count: int) -> dict[str, Any]:
    """Let the workers run empty jobs; return how many a second, and what enqueueing one takes."""
    ids = jobs.add("bench_empty", count=count)
    is_done = done(jobs, ids, 300) is not None
    statement = (
        "SELECT extract(epoch FROM max(finished_at) - min(started_at)) FROM memoryhub_job WHERE kind = %s"
    )
    spent = float(hub.rows(statement, ["bench_empty"])[0][0])
    return {
        "jobs_per_second": round(count / spent, 1),
        "enqueue_median_ms": jobs.enqueue_ms,
        "wrong": [] if is_done else [f"left: {jobs.states(ids)}"],
    }


def main() -> int:
    """Run what was asked for; return 1 where anything was lost, doubled, or did not recover."""
    parser = harness.parser_of(__doc__)
    parser.add_argument("--minutes", type=float, default=0.0, help="a storm for so long")
    parser.add_argument("--jobs", type=int, default=0, help="how many empty jobs are run against the clock")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    if min(options.minutes, options.jobs) < 0 or not (options.minutes or options.jobs):
        parser.error("give --minutes above 0, or --jobs")
    report: dict[str, dict[str, Any]] = {}
    with running() as (hub, jobs):
        if options.jobs:
            report["throughput"] = throughput(hub, jobs, options.jobs)
        if options.minutes:
            say = Console(stderr=True).print
            raged = Storm(hub, jobs, seed=options.seed, say=say).run(options.minutes * 60)
            report["storm"] = {"seed": options.seed, **raged}
    harness.tell(report, options)
    return int(any(part.get(key) for part in report.values() for key in ("lost", "doubled", "wrong")))


if __name__ == "__main__":
    sys.exit(main())
