#!/usr/bin/env python
"""Break an installation on purpose, and count what is lost and what is doubled.

.venv/bin/python bench/chaos.py --minutes 10      a storm: load, and faults at random
.venv/bin/python bench/chaos.py --drills all      one fault at a time, 20 rounds each
"""

import argparse
import json
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
from rich.table import Table

from bench import drills
from bench.drills import Jobs, Outcome, Writer, running
from bench.hub import Hub, eventually, hurt

SHARED: dict[str, Callable[[Hub, Jobs, int], Outcome]] = {
    "idle-worker": drills.idle_worker,
    "workers-killed": drills.all_workers,
    "workers-stopped": drills.stopped_workers,
    "postgres": lambda hub, jobs, times: drills.postgres_kills(hub, jobs, max(1, times // 2), 50 * times),
    "throughput": lambda hub, jobs, times: drills.throughput(hub, jobs, 100 * times),
}
"""Drills on an installation that survives them."""

APART: dict[str, Callable[[int], Outcome]] = {
    "claims": lambda times: drills.many_claims(100 * times),
    "stops": drills.stops,
}
"""Drills that start and end installations of their own."""

DRILLS = [*SHARED, *APART]


def drill(name: str, times: int) -> Outcome:
    """Run one drill."""
    if name in APART:
        return APART[name](times)
    with running() as (hub, jobs):
        return SHARED[name](hub, jobs, times)


class Storm:
    """Load and faults for some time, then the count."""

    def __init__(self, hub: Hub, jobs: Jobs, *, seed: int, say: Callable[[str], None]) -> None:
        self.hub, self.jobs, self.say = hub, jobs, say
        self.random = random.Random(seed)
        self.faults: Counter[str] = Counter()
        self.recoveries: list[float] = []
        self.ids: dict[str, list[str]] = {"bench_effect": [], "bench_steps": []}
        self.killers: list[str] = []
        self.wrong: list[str] = []

    def run(self, seconds: float) -> dict[str, Any]:
        """Rage for some time, wait until all is drained, and return the report."""
        writers = [Writer(self.hub, number, None) for number in range(3)]
        for writer in writers:
            writer.start()
        ends_at = time.monotonic() + seconds
        while (left := ends_at - time.monotonic()) > 0:
            self._add_jobs()
            self._hurt_something()
            self._recover()
            time.sleep(min(max(0.0, left), self.random.uniform(1, 4)))
        for writer in writers:
            writer.over.set()
            writer.join(timeout=30)
        return self._count(writers)

    def _add_jobs(self) -> None:
        self.ids["bench_effect"] += self.jobs.add(
            "bench_effect", count=20, seconds=self.random.uniform(0, 0.2)
        )
        self.ids["bench_steps"] += self.jobs.add("bench_steps", count=2, steps=5, seconds=0.1)
        if self.random.random() < 0.1:
            self.killers += self.jobs.add("bench_kill")

    def _hurt_something(self) -> None:
        parent, workers = self.hub.worker_processes()
        faults: dict[str, Callable[[], object]] = {
            "a worker killed": lambda: hurt(self.random.choice(workers), signal.SIGKILL) if workers else None,
            "a worker stopped": lambda: (
                hurt(self.random.choice(workers), signal.SIGSTOP) if workers else None
            ),
            "the workers' parent killed": lambda: hurt(parent, signal.SIGKILL) if parent else None,
            "the workers' parent stopped": lambda: hurt(parent, signal.SIGSTOP) if parent else None,
            "PostgreSQL killed": lambda: (
                hurt(self.hub.postmaster() or 0, signal.SIGKILL) if self.hub.postmaster() else None
            ),
        }
        name = self.random.choice(sorted(faults))
        self.faults[name] += 1
        faults[name]()

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
        eventually(lambda: set(self.jobs.states(self.killers)) <= {"dead"}, 120)
        if set(self.jobs.states(self.killers)) - {"dead"}:
            self.wrong.append(f"jobs that kill their worker: {self.jobs.states(self.killers)}")
        times = sorted(self.recoveries)
        return {
            "messages_acknowledged": sum(writer.acknowledged for writer in writers),
            "messages_repeated_by_clients": sum(writer.repeats for writer in writers),
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


def storm(minutes: float, *, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Run a storm on an installation of its own."""
    with running() as (hub, jobs):
        return Storm(hub, jobs, seed=seed, say=say).run(minutes * 60)


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; return 1 where anything was lost, doubled, or did not recover."""
    options = _options(arguments)
    console = Console(stderr=True)
    report: dict[str, Any] = {}
    if options.drills:
        names = DRILLS if options.drills == ["all"] else options.drills
        report["drills"] = []
        for name in names:
            console.print(f"{name} …")
            report["drills"].append(drill(name, options.times).row())
            console.print(report["drills"][-1])
    if options.minutes:
        report["seed"] = options.seed
        report["storm"] = storm(options.minutes, seed=options.seed, say=console.print)
    print(json.dumps(report, indent=1)) if options.json else _show(report)
    return 1 if _is_wrong(report) else 0


def _is_wrong(report: dict[str, Any]) -> bool:
    raged = report.get("storm", {})
    return bool(raged.get("lost") or raged.get("doubled") or raged.get("wrong")) or any(
        row["wrong"] for row in report.get("drills", [])
    )


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=0.0, help="a storm for so long")
    parser.add_argument(
        "--drills", nargs="+", default=[], metavar="DRILL", help=f"all, or of {', '.join(DRILLS)}"
    )
    parser.add_argument("--times", type=int, default=20, help="rounds of each drill (20)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--json", action="store_true", help="print the report as JSON, and nothing else")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.drills) - set(DRILLS) - {"all"})
    if unknown:
        parser.error(f"there is no drill {', '.join(unknown)}; there are all, {', '.join(DRILLS)}")
    if options.minutes < 0 or options.times < 1 or not (options.minutes or options.drills):
        parser.error("give --minutes above 0, or --drills, and --times of 1 or more")
    return options


def _show(report: dict[str, Any]) -> None:
    console = Console()
    table = Table("", "rounds", "median s", "longest s", "notes", "wrong")
    for row in report.get("drills", []):
        told = {"drill", "rounds", "median_seconds", "longest_seconds", "wrong"}
        notes = {key: value for key, value in row.items() if key not in told}
        table.add_row(
            row["drill"], str(row["rounds"]), str(row["median_seconds"]), str(row["longest_seconds"]),
            json.dumps(notes) if notes else "", "; ".join(row["wrong"]) or "nothing",
        )  # fmt: skip
    if report.get("drills"):
        console.print(table)
    for key, value in report.get("storm", {}).items():
        console.print(f"{key}: {value}")


if __name__ == "__main__":
    sys.exit(main())
