#!/usr/bin/env python
"""Break an installation on purpose, and count what is lost and what is doubled.

.venv/bin/python bench/chaos.py                          every drill: an hour
.venv/bin/python bench/chaos.py storm --minutes 10       load, curators and sleeps, and faults at random
.venv/bin/python bench/chaos.py full_disk throughput     some of them

Each drill has a separate installation, and names under `failed` what did not hold. `full_disk` fills a small tmpfs,
for which it needs root, or the file system of `--folder`, a gigabyte at most: once with the watermark, as installed,
and once without, as where another program fills the disk faster than it is seen.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from statistics import median
from typing import Any, Final
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import harness
from bench.harness import Client
from bench.load import load
from tests.slow.chaos import drills
from tests.slow.chaos.failover import failover
from tests.slow.chaos.hub import Curator, Hub, Jobs, Writer, done, eventually, hurt, running

Figures = dict[str, Any]
FAULTS: Final[dict[str, tuple[Callable[[Hub], list[int]], signal.Signals]]] = {
    "PostgreSQL killed": (lambda hub: [hub.postmaster() or 0], signal.SIGKILL),
    "a worker killed": (lambda hub: hub.worker_processes()[1], signal.SIGKILL),
    "a worker stopped": (lambda hub: hub.worker_processes()[1], signal.SIGSTOP),
    "the workers' parent killed": (lambda hub: [hub.worker_processes()[0]], signal.SIGKILL),
    "the workers' parent stopped": (lambda hub: [hub.worker_processes()[0]], signal.SIGSTOP),
}


def storm(minutes: float = 30, seed: int = 1) -> Figures:
    """Let writers, a curator and jobs meet faults at random; wait until all is drained, and count."""
    with running() as (hub, jobs):
        writers, curator = [Writer(hub, number, None) for number in range(3)], Curator(hub)
        people: list[Writer | Curator] = [*writers, curator]
        for thread in people:
            thread.start()
        eventually(lambda: all(writer.acknowledged for writer in writers), 60)  # faults are to meet requests
        figures, ids = _rage(hub, jobs, random.Random(seed), time.monotonic() + 60 * minutes)
        for thread in people:
            thread.over.set()
            thread.join(timeout=60)
        wrong = [*figures.pop("failed"), *_effects(jobs, ids, figures)]
        wrong += [words for thread in people for words in thread.verify()]
        killers = ids["bench_kill"]
        eventually(lambda: set(jobs.states(killers)) <= {"dead"}, 120)
        if set(jobs.states(killers)) - {"dead"}:
            wrong.append(f"jobs that kill their worker: {jobs.states(killers)}")
    return {
        "minutes": minutes,
        "seed": seed,
        **figures,
        "jobs_that_kill": len(killers),
        "messages_acknowledged": sum(writer.acknowledged for writer in writers),
        "corrections_acknowledged": len(curator.corrected),
        "sleeps_acknowledged": curator.sleeps,
        "failed": wrong,
    }


def _rage(hub: Hub, jobs: Jobs, chance: random.Random, ends_at: float) -> tuple[Figures, dict[str, list[str]]]:
    """Enqueue jobs, hurt something, and wait until a new job is done and all workers are whole, again and again."""
    ids: dict[str, list[str]] = {"bench_effect": [], "bench_steps": [], "bench_kill": []}
    faults, failed = Counter[str](), list[str]()
    recoveries: list[float] = []
    while time.monotonic() < ends_at:
        ids["bench_effect"] += jobs.add("bench_effect", count=20, seconds=chance.uniform(0, 0.2))
        ids["bench_steps"] += jobs.add("bench_steps", count=2, steps=5, seconds=0.1)
        if chance.random() < 0.1:
            ids["bench_kill"] += jobs.add("bench_kill")
        name = chance.choice([*FAULTS])
        faults[name] += 1
        find, number = FAULTS[name]
        if pid := chance.choice(find(hub) or [0]):
            hurt(pid, number)
        began, probe = time.monotonic(), jobs.add("bench_effect")
        ids["bench_effect"] += probe
        if eventually(hub.is_whole, 90) is None or done(jobs, probe, 90) is None:
            failed.append(f"not at work 90 s after {dict(faults)}")
        recoveries.append(time.monotonic() - began)
        time.sleep(min(max(0.0, ends_at - time.monotonic()), chance.uniform(1, 4)))
    return {
        "all_faults": faults.total(),
        "database_kills": faults["PostgreSQL killed"],
        "faults": dict(faults),
        "recovery_median_seconds": round(median(recoveries or [0.0]), 2),
        "recovery_longest_seconds": round(max(recoveries, default=0.0), 2),
        "failed": failed,
    }, ids


def _effects(jobs: Jobs, ids: dict[str, list[str]], figures: Figures) -> list[str]:
    """Wait for the jobs; add what they did to the figures, and return what is wrong with it."""
    expected = dict.fromkeys(ids["bench_effect"], 1) | dict.fromkeys(ids["bench_steps"], 5)
    is_drained, effects = done(jobs, [*expected], 300) is not None, jobs.effects([*expected])
    differences = [effects.get(job, 0) - number for job, number in expected.items()]
    figures |= {
        "jobs": len(expected),
        "job_effects": sum(effects.values()),
        "lost": -sum(min(each, 0) for each in differences),
        "doubled": sum(max(each, 0) for each in differences),
    }
    lost = [f"{name} effects" for name in ("lost", "doubled") if figures[name]]
    return lost if is_drained else [*lost, f"jobs are left: {jobs.states([*expected])}"]


def throughput(number: int = 2_000) -> Figures:
    """Let two workers run empty jobs as fast as they can."""
    with running() as (hub, jobs):
        ids = jobs.add("bench_empty", count=number)
        failed = [] if done(jobs, ids, 300) is not None else [f"left: {jobs.states(ids)}"]
        statement = "SELECT extract(epoch FROM max(finished_at) - min(started_at)) FROM memoryhub_job WHERE kind = %s"
        spent = float(hub.rows(statement, ["bench_empty"])[0][0])
        return {"jobs_per_second": round(number / spent, 1), "enqueue_median_ms": jobs.enqueue_ms, "failed": failed}


def database_kills() -> Figures:
    """Kill PostgreSQL 20 times while 1,000 messages are written."""
    with running() as (hub, jobs):
        outcome = drills.postgres_kills(hub, jobs, 20, 1_000)
    first = [words for words in outcome.wrong if words.startswith("the first request")]
    return {
        "acknowledged": 1_000,
        "rounds": outcome.rounds,
        "first_failed": len(first),
        "wrong": len(outcome.wrong) - len(first),
        "failed": outcome.wrong,
    }


def idle_workers() -> Figures:
    """Kill and stop idle workers and their parent, 20 times."""
    with running() as started:
        outcomes = [drills.idle_worker(*started, 12), drills.stopped_workers(*started, 8)]
    seconds = [each for outcome in outcomes for each in outcome.seconds]
    failed = [words for outcome in outcomes for words in outcome.wrong]
    return {"tried": 20, "rounds": len(seconds), "longest_seconds": round(max(seconds)), "failed": failed}


def stops() -> Figures:
    """Stop everything under load, 20 times in three ways."""
    outcome = drills.stops(20)
    longest = round(max(outcome.seconds, default=0))
    return {"rounds": outcome.rounds, "longest_seconds": longest, "wrong": len(outcome.wrong), "failed": outcome.wrong}


def failovers(times: int = 3, clients: int = 50) -> Figures:
    """Kill the primary under load, and promote its synchronous standby."""
    outcomes = [failover(clients) for _ in range(times)]
    seconds = [each for outcome in outcomes for each in outcome.seconds]
    failed = [words for outcome in outcomes for words in outcome.wrong]
    longest = round(max(seconds, default=0.0), 2)
    return {"rounds": times, "clients": clients, "longest_seconds": longest, "failed": failed}


def retries(keys: int = 1_000, threads: int = 8) -> Figures:
    """Send each idempotency key by several threads at once."""
    with running() as (hub, _):
        session, start = _session(hub), threading.Barrier(threads)

        def send_all(_: int) -> None:
            client = Client(hub.port, hub.key)
            start.wait()
            for number in range(keys):
                body = {"messages": [{"role": "user", "content": f"message {number}"}]}
                own = {"Idempotency-Key": f"key-{number}"}
                while client.ask("POST", f"/api/v1/{session}", body, **own)[0] not in (200, 201):
                    pass

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(send_all, range(threads)))
        rows = hub.rows("SELECT count(*) FROM conversations_message")[0][0]
    return {"keys": keys, "threads": threads, "rows": rows, "failed": [] if rows == keys else ["rows"]}


def order(messages: int = 10_000, writers: int = 8) -> Figures:
    """Write messages into one session by several writers, 25 at a time."""
    with running() as (hub, _):
        session, batch = _session(hub), {"messages": [{"role": "user", "content": "a message"}] * 25}

        def write(_: int) -> None:
            for _ in range(messages // writers // 25):
                while hub.post(session, batch, timeout=60)[0] != 201:
                    pass

        with ThreadPoolExecutor(writers) as pool:
            list(pool.map(write, range(writers)))
        numbers = Counter(seq for (seq,) in hub.rows("SELECT seq FROM conversations_message"))
    gaps = (numbers - Counter(range(1, messages + 1))) + (Counter(range(1, messages + 1)) - numbers)
    return {"messages": numbers.total(), "writers": writers, "gaps": gaps.total(), "failed": ["gaps"] if gaps else []}


def _session(hub: Hub) -> str:
    """Open a session; return the path of its messages."""
    session = str(uuid4())
    hub.post("sessions", {"agent_id": "bench", "session_id": session})
    return f"sessions/{session}/messages"


def overload() -> Figures:
    """Load the server with more clients than it has threads."""
    with running() as (hub, _):
        figures = load(hub.port, hub.key, 50, 60)
    failed = [name for name in ("lost", "doubled") if figures[name]]
    failed += ["more than 1 % were 503"] if figures["share_of_503"] > 0.01 else []
    return {**figures, "share_of_503": f"{figures['share_of_503']:.1%}", "failed": failed}


def full_disk(folder: Path | None = None) -> Figures:
    """Fill the disk under three writers up to 12 MB for 30 seconds."""
    with nullcontext(folder) if folder else small_disk() as disk:
        kept, without = (filled(disk, watermark) for watermark in ("200", "0"))
    return {
        "wrong": len(kept["failed"]),
        "restarts": kept["restarts"],
        "back": kept["back"],
        "statuses": kept["statuses"],
        "wrong_without": len(without["failed"]),
        "restarts_without": without["restarts"],
        "back_without": without["back"],
        "failed": kept["failed"] + without["failed"],
    }


@contextmanager
def small_disk() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="memoryhub-disk-") as folder:
        command = ["mount", "-t", "tmpfs", "-o", "size=900m,mode=711", "memoryhub", folder]
        subprocess.run(command, check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def filled(folder: Path, watermark: str) -> Figures:
    """Fill the disk, ask what goes on and what does not, make room, and wait for the first write."""
    hub, ballast, statuses = Hub(folder / f"hub-{watermark}"), folder / "ballast", Counter[str]()
    hub.folder.chmod(0o711)
    hub.environment["MEMORYHUB_MIN_FREE_MB"] = watermark
    try:
        hub.start()
        writers = [Writer(hub, number, None) for number in range(3)]
        for writer in writers:
            writer.start()
        time.sleep(5)
        with ballast.open("ab") as file, suppress(OSError):
            while (free := os.statvfs(folder)).f_bavail * free.f_frsize >> 20 > 12:
                file.write(b"\0" * (1 << 20))
                file.flush()
        ends_at = time.monotonic() + 30
        while time.monotonic() < ends_at:
            for path, words in (("memories/search", "query"), ("context", "message"), ("memories", "content")):
                status, _ = hub.post(path, {"agent_id": "chaos-0", words: f"message at {time.monotonic()}"})
                statuses[f"{path} {status}"] += 1
            time.sleep(0.5)
        ballast.unlink()
        memory = {"agent_id": "chaos-0", "content": "back"}
        back = eventually(lambda: hub.post("memories", memory)[0] in (200, 201), 120)
        for writer in writers:
            writer.over.set()
            writer.join(timeout=30)
        failed = [problem for writer in writers for problem in writer.verify()]
        return {
            "statuses": dict(sorted(statuses.items())),
            "restarts": hub.said().count("PostgreSQL ended"),
            "back": back and round(back, 1),
            "failed": failed if back else [*failed, "not back after 120 s"],
        }
    finally:
        ballast.unlink(missing_ok=True)
        hub.destroy()


DRILLS: Final[dict[str, Callable[..., Figures]]] = {
    each.__name__: each
    for each in (storm, throughput, database_kills, idle_workers, stops, failovers, retries, order, overload, full_disk)
}


def main() -> int:
    """Run what was asked for; return 1 where anything did not hold."""
    parser = harness.parser_of(__doc__)
    parser.add_argument("drills", nargs="*", metavar="DRILL", help=f"default: all of {', '.join(DRILLS)}")
    parser.add_argument("--minutes", type=float, default=30, help="how long the storm lasts (30)")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the storm's faults")
    parser.add_argument("--folder", type=Path, help="on a small file system, which full_disk fills up")
    given = parser.parse_args()
    if unknown := set(given.drills) - DRILLS.keys():
        parser.error(f"{', '.join(sorted(unknown))}: no such drill")
    if given.minutes <= 0:
        parser.error("give --minutes above 0")
    options = {"storm": {"minutes": given.minutes, "seed": given.seed}, "full_disk": {"folder": given.folder}}
    with harness.signals_end_it():
        figures = {name: DRILLS[name](**options.get(name, {})) for name in given.drills or DRILLS}
    harness.tell(figures, given)
    return int(any(each["failed"] for each in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
