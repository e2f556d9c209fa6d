"""Break the counting of use and the nightly sleep on purpose, and count what is lost or doubled.

    python bench/strength_drills.py                 # all drills, five minutes
    python bench/strength_drills.py --kills 5       # a quick look
    python bench/strength_drills.py --json

- reports: 16 threads report 500 uses each of one memory, every one twice; each must count once.
- marks: 16 threads mark and use overlapping sets of memories while their actor sleeps; no deadlock, nothing lost.
- triggers: 8 threads wake one actor at once, 20 times over; each time one sleep.
- kills: a process that lets an actor sleep is killed by SIGKILL at a random moment and started again, until it is
  done; what comes of it must equal a sleep that nobody interrupted.
- marking: how much of a search's time it takes to mark its candidates.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any, Final

import harness
from rich.table import Table

THREADS: Final = 16
REPORTS: Final = 500
TRIGGERS: Final = 8
MEMORIES: Final = 3_000
BEGUN: Final = datetime(2026, 1, 1, tzinfo=UTC)
CHILD: Final = "--sleep-slowly"
NIGHTS: Final = (1, 2)


def at_once(count: int, act: Callable[[int], None]) -> list[str]:
    """Do something in so many threads that begin together; return what they raised."""
    from django.db import connection

    errors: list[str] = []
    barrier = threading.Barrier(count)

    def work(number: int) -> None:
        try:
            connection.ensure_connection()
            barrier.wait()
            act(number)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def an_actor(user: str) -> Any:
    """Return a new actor."""
    from memoryhub.auth.domain import command
    from memoryhub.auth.tenancy import actor_for_writing

    return actor_for_writing(command("bench"), "bench", user, now=BEGUN)


def a_memory(actor: Any, content: str, **values: Any) -> Any:
    """Return a new memory of an actor."""
    from memoryhub.auth.domain import command
    from strength.actions.memories import NewMemory, write_memory

    memory, _ = write_memory(
        actor=actor, new=NewMemory(content=content, **values), by=command("bench"), now=BEGUN
    )
    return memory


def reports() -> dict[str, Any]:
    """Report uses of one memory from many threads, each twice."""
    from memoryhub.auth.domain import command
    from strength.actions.usage import use_memory
    from strength.models import MemoryNumbers

    memory = a_memory(an_actor("reports"), "Used by everybody")

    def act(number: int) -> None:
        for each in range(REPORTS):
            for _ in range(2):
                use_memory(
                    memory=memory, perspective="cost", task=f"{number}-{each}", by=command("bench"), now=BEGUN
                )

    started = time.perf_counter()
    errors = at_once(THREADS, act)
    row = MemoryNumbers.objects.get(memory=memory)
    uses = THREADS * REPORTS
    return {
        "reports": 2 * uses,
        "seconds": round(time.perf_counter() - started, 1),
        "access_count": row.access_count,
        "strength": row.strength,
        "wanted": [uses, 1.0 + uses * 0.1],
        "perspective": memory.perspectives.get().strength,
        "errors": errors,
        "ok": not errors and row.access_count == uses and abs(row.strength - 1 - uses * 0.1) < 1e-6,
    }


def marks() -> dict[str, Any]:
    """Mark and use overlapping sets from many threads while the actor sleeps again and again."""
    from memoryhub.auth.domain import command
    from strength.actions.sleep import SleepRequest, sleep
    from strength.actions.usage import mark_candidates, use_memories
    from strength.domain.sleep import Trigger
    from strength.models import MemoryNumbers

    actor = an_actor("marks")
    memories = [a_memory(actor, f"Memory number {number}") for number in range(60)]
    rounds, nights = 150, []
    over = threading.Event()

    def act(number: int) -> None:
        if number == THREADS:
            while not over.is_set():
                moment = BEGUN + timedelta(seconds=len(nights) + 1)
                nights.append(
                    sleep(actor=actor, waking=SleepRequest(Trigger.COMMAND, command("bench"), moment))
                )
            return
        chance = random.Random(number)
        for _ in range(rounds):
            chosen = chance.sample(memories, 10)
            mark_candidates(memories=chosen)
            use_memories(memories=chosen[:3], perspective=None, task=None, by=command("bench"), now=BEGUN)
        if number == 0:
            time.sleep(0.1)
            over.set()

    errors = at_once(THREADS + 1, act)
    rows = MemoryNumbers.objects.filter(actor=actor).values_list("candidate_count", "access_count")
    marked, used = (sum(column) for column in zip(*rows, strict=True))
    wanted = (THREADS * rounds * 10, THREADS * rounds * 3)
    return {"marked": marked, "used": used, "wanted": wanted, "sleeps": len(nights), "errors": errors,
            "ok": not errors and (marked, used) == wanted}  # fmt: skip


def triggers(rounds: int = 20) -> dict[str, Any]:
    """Wake one actor from several threads at once."""
    from memoryhub.auth.domain import command
    from strength.actions.sleep import SleepRequest, sleep
    from strength.domain.sleep import Trigger
    from strength.models import SleepRun

    actor = an_actor("triggers")
    for number in range(200):
        a_memory(actor, f"Memory number {number}")
    counts, errors = [], []
    for _ in range(rounds):
        before = SleepRun.objects.filter(actor=actor).count()
        answers: list[Any] = []
        now = datetime.now(UTC)

        def act(number: int, now: datetime = now, answers: list[Any] = answers) -> None:
            waking = SleepRequest(Trigger.API, command("bench"), now)
            answers.append(sleep(actor=actor, waking=waking).pk)

        errors += at_once(TRIGGERS, act)
        counts.append((SleepRun.objects.filter(actor=actor).count() - before, len(set(answers))))
    return {"rounds": rounds, "sleeps_each": sorted(set(counts)), "errors": errors,
            "ok": not errors and set(counts) == {(1, 1)}}  # fmt: skip


def kills(rounds: int) -> dict[str, Any]:
    """Kill a sleeping process at random moments, in its first night, which writes every row, and in the next, which
    goes by the clock; compare with sleeps that nobody interrupted.
    """
    chance = random.Random(42)
    worlds, whole = [_world_of(_sleeper("calm"))], {}
    for night in NIGHTS:
        _run_child("calm", night)
        worlds.append(_world_of("calm"))
        assert worlds[night] != worlds[night - 1]
    _sleeper("timed")
    for night in NIGHTS:
        whole[night] = _run_child("timed", night)
    times, differences, kills_done = [], [], 0
    for number in range(rounds):
        user = _sleeper(f"killed-{number}")
        for night in NIGHTS:
            attempts = 0
            while True:
                attempts += 1
                ends_after = None if attempts > 4 else chance.uniform(0.0, whole[night])
                if _run_child(user, night, kill_after=ends_after) >= 0:
                    break
                kills_done += 1
            times.append(attempts)
            if _world_of(user) != worlds[night]:
                differences.append(f"{user}, night {night}")
    return {"rounds": rounds, "kills": kills_done, "attempts_each": times, "differences": differences,
            "ok": not differences and kills_done >= rounds}  # fmt: skip


def _sleeper(user: str) -> str:
    """Give an actor memories that a sleep fades, archives, crowds out and merges; return the user."""
    actor = an_actor(user)
    actor.policy = {"max_active_memories": MEMORIES - 300, "near_duplicates": "merge"}
    actor.save()
    from django.db import connection

    for number in range(12):
        a_memory(actor, f"The user likes tea of sort {number}.", strength=5.0)
        a_memory(actor, f"The user really likes tea of sort {number}", strength=4.0)
    with connection.cursor() as cursor:
        cursor.execute(MANY, {"actor": actor.pk, "rows": MEMORIES})
        cursor.execute(THEIR_NUMBERS, {"actor": actor.pk})
        cursor.execute(COMPARED_BEFORE, {"actor": actor.pk})
    return user


MANY = """
INSERT INTO strength_memory (id, actor_id, content, content_digest, namespace, kind, tags, scope_level, scope_domain,
    scope_project, status, pinned, locked, source, channel, trust, learnings, version, created_at, updated_at)
SELECT gen_random_uuid(), %(actor)s, 'filler ' || n, sha256((n || %(actor)s::text)::bytea), '/filler/', 'fact', '{}',
    'project', '', '', 'active', false, false, 'manual', '', 'trusted', '{}', 1, '2026-01-01', '2025-01-01'
FROM generate_series(1, %(rows)s) AS n
"""
THEIR_NUMBERS = """
INSERT INTO strength_memorynumbers (memory_id, actor_id, strength, access_count, candidate_count, impact_score,
    consolidation_level, status, pinned, last_decay_at)
SELECT id, actor_id, 0.09 + split_part(content, ' ', 2)::int / 1000.0, 0, 0, 0, 0, status, pinned, '2026-01-01'
FROM strength_memory WHERE actor_id = %(actor)s AND namespace = '/filler/'
"""
# The filler was there before the last sleep: only the tea is new, and compared.
COMPARED_BEFORE = """
INSERT INTO strength_rhythm (actor_id, tasks_completed, runs, compared_until) VALUES (%(actor)s, 0, 0, '2025-06-01')
"""
WORLD = """
SELECT memory.content, memory.status,
    memory.version, numbers.strength, numbers.consolidation_level, numbers.faded, numbers.status, numbers.access_count
FROM strength_memory AS memory JOIN strength_currentnumbers AS numbers ON numbers.memory_id = memory.id
WHERE memory.actor_id = %s ORDER BY 1
"""


def _world_of(user: str) -> list[Any]:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(WORLD, [an_actor(user).pk])
        return list(cursor.fetchall())


def _run_child(user: str, night: int, *, kill_after: float | None = None) -> float:
    """Let a process of its own put the actor to sleep; return how long the sleep took, -1 where it was killed."""
    child = subprocess.Popen(
        [sys.executable, __file__, CHILD, user, str(night)],
        stdout=subprocess.PIPE,
        env=dict(os.environ),
        text=True,
    )
    assert child.stdout is not None
    child.stdout.readline()  # it is ready, and begins
    started = time.perf_counter()
    try:
        child.wait(timeout=kill_after)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGKILL)
        child.wait()
        return -1.0
    if child.returncode:
        raise SystemExit(f"The sleeping process ended with {child.returncode}.")
    return time.perf_counter() - started


def _sleep_slowly(user: str, night: int) -> None:
    """Be the child: put an actor to sleep in many small slices."""
    harness._set_up_django()
    from memoryhub.auth.domain import command
    from strength.actions import sleep as sleeping
    from strength.domain.sleep import Trigger

    sleeping.SLICE, sleeping.COMPARED_AT_ONCE = 100, 3
    actor = an_actor(user)
    print("ready", flush=True)
    waking = sleeping.SleepRequest(Trigger.COMMAND, command("bench"), BEGUN + timedelta(days=night))
    sleeping.sleep(actor=actor, waking=waking)


@contextmanager
def _timed(spent: dict[str, float]) -> Iterator[None]:
    from django.db import connection

    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        started = time.perf_counter()
        try:
            return execute(sql, params, many, context)
        finally:
            if "candidate_count = numbers.candidate_count + 1" in sql:
                spent["marking"] += time.perf_counter() - started

    with connection.execute_wrapper(wrapper):
        yield


def marking(rounds: int = 300) -> dict[str, Any]:
    """Measure which share of a search's time the marking of its candidates takes."""
    import filling

    from memoryhub.auth.domain import command
    from memoryhub.auth.tenancy import tenant_for_reading
    from memoryhub.embeddings.spaces import text_query
    from strength.actions.search import MemorySearch, search_memories

    filling.empty()
    filling.make_pool()
    size = filling.Size(10, 5_000, 0)
    filling.fill(size)
    asked = filling.questions(rounds, seed=3)
    shares, whole = [], []
    for number, question in enumerate(asked):
        agent, user = size.user(number % size.actors)
        spent = {"marking": 0.0}
        with _timed(spent):
            started = time.perf_counter()
            tenant = tenant_for_reading(command("bench"), agent, user)
            search = MemorySearch(query=text_query(question))
            search_memories(
                tenant=tenant, search=search, by=command("bench"), mark=True, now=datetime.now(UTC)
            )
            took = time.perf_counter() - started
        whole.append(took * 1000)
        shares.append(spent["marking"] / took)
    return {"searches": rounds, "search_ms": round(median(whole), 2), "share": round(median(shares), 3),
            "ok": median(shares) <= 0.15}  # fmt: skip


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Do the drills that were asked for."""
    drills: dict[str, Callable[[], dict[str, Any]]] = {
        "reports": reports, "marks": marks, "triggers": triggers, "kills": lambda: kills(arguments.kills),
        "marking": marking,
    }  # fmt: skip
    chosen = arguments.drills or list(drills)
    done = {}
    with harness.progress(arguments.json) as bar:
        shown = bar.add_task("drills", total=len(chosen))
        for name in chosen:
            bar.update(shown, description=name)
            done[name] = drills[name]()
            bar.advance(shown)
    return done


def main() -> None:
    """Read the command line, drill, and tell."""
    if sys.argv[1:2] == [CHILD]:
        _sleep_slowly(sys.argv[2], int(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    harness.common_arguments(parser)
    names = ("reports", "marks", "triggers", "kills", "marking")
    parser.add_argument("--drills", nargs="*", choices=names, help="which (all)")
    parser.add_argument("--kills", type=int, default=20, help="rounds of the killed sleep (20)")
    arguments = parser.parse_args()
    os.environ.setdefault("MEMORYHUB_DB_POOL_MAX", "40")
    with harness.installation(database_url=arguments.database_url, keep=arguments.keep):
        figures = run(arguments)
    if arguments.json:
        print(json.dumps(figures, indent=2, default=str))
    else:
        table = Table("drill", "ok", "figures")
        for name, each in figures.items():
            rest = {key: value for key, value in each.items() if key != "ok"}
            table.add_row(name, "yes" if each["ok"] else "NO", json.dumps(rest, default=str))
        harness.console().print(table)
    if not all(each["ok"] for each in figures.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
