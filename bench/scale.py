#!/usr/bin/env python
"""Measure what requests and nights cost by size, and calculate the machines for 10^7 to 10^9 memories.

.venv/bin/python bench/scale.py                              five sizes of up to 600,000 rows: fifteen minutes
.venv/bin/python bench/scale.py --sizes 4x500,8x500,4x2000   a quick look
.venv/bin/python bench/scale.py --active 0.3 --contexts 50 --cores 16

A size is a number of users by the number of memories of each, with as many messages. Requests are answered in this
process, one at a time: processor time of Python and of PostgreSQL. It is fitted as a constant, a part that grows with
the rows of the user, and one with the logarithm of all rows. Clients of a web server give the share of the cores that
requests use when all are busy; a night is one sleep of every user. The plan is calculated from these.
"""

import argparse
import math
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from bench import cost, harness

KINDS: Final = ("search", "context", "message", "memory")
CLIENTS: Final = (1, 4, 16)
BUSY_SECONDS: Final = 8.0
TOTALS: Final = (10**7, 10**8, 10**9)
BUSY_SHARE: Final = 0.6
"""Share of a machine's cores that is planned for; the rest is for peaks, vacuum, backups."""

PRIMARY_SHARE: Final = 0.25
"""Share of a read's cost that stays with the primary where replicas answer (docs/performance.md)."""

MESSAGES_PER_CONTEXT: Final = 2.0
MEMORIES_PER_CONTEXT: Final = 0.2
DAY_SECONDS: Final = 86_400


@dataclass(frozen=True)
class Point:
    """Measured milliseconds of Python and PostgreSQL by kind, in an installation of this size."""

    users: int
    rows_of_user: int
    milliseconds: dict[str, tuple[float, float]]

    @property
    def rows(self) -> int:
        return self.users * self.rows_of_user


class Asker(cost.Asker):
    """The web application without a web server, asked about the users of a filled installation."""

    def _fill(self, number: int) -> str:
        import filling

        return filling.newest_session(number)

    def of(self, kind: str, user: tuple[str, str], session: str, text: str) -> tuple[str, dict[str, Any]]:
        """Return path and body of a request."""
        owner = {"agent_id": user[0], "user_id": user[1]}
        return {
            "search": ("memories/search", {**owner, "query": text}),
            "context": ("context", {**owner, "session_id": session, "message": text}),
            "message": (f"sessions/{session}/messages", {"messages": [{"role": "user", "content": text}]}),
            "memory": ("memories", {**owner, "content": f"{text} {time.monotonic_ns()}"}),
        }[kind]


def measure(size: Any, rounds: int, key: str) -> Point:
    """Return the median costs of each kind of request, of users in turn."""
    import filling
    from django.db import connection

    asker, found = Asker(key), {}
    texts = cycle(filling.questions(min(500, 8 * rounds), seed=9))
    users = list(islice(cycle(range(min(size.actors, 40))), rounds))
    for kind in KINDS:
        asked = [asker.of(kind, size.user(n), filling.newest_session(n), next(texts)) for n in users]
        for path, body in asked[: cost.WARM]:
            asker.ask(path, body)
        connection.ensure_connection()
        backend, python = connection.connection.info.backend_pid, []
        before = cost._processor_seconds(backend)
        for path, body in asked:
            began = time.thread_time()
            asker.ask(path, body)
            python.append(1000 * (time.thread_time() - began))
        database = 1000 * (cost._processor_seconds(backend) - before) / rounds
        found[kind] = (round(median(python), 2), round(database, 2))
    return Point(size.actors, size.memories, found)


def begin_clocks() -> None:
    """Begin the clock of each actor, which otherwise its first write would, for all of its memories."""
    from django.db import connection

    from memoryhub.tenancy.models import Actor
    from strength.domain.policy import StrengthPolicy
    from strength.sql import QUERIES, policy_values

    with connection.cursor() as cursor:
        for actor in Actor.objects.exclude(user_id=""):
            values = {**policy_values(StrengthPolicy()), "actor_id": actor.pk, "now": datetime.now(UTC)}
            cursor.execute(QUERIES["begin_clock"], values)


def night(size: Any) -> float:
    """Return the seconds that one sleep of every user takes per 1,000 memories, one user after the other."""
    from memoryhub.auth.principals import command
    from memoryhub.tenancy.models import Actor, Agent
    from strength.actions.sleep import SleepRequest, actor_batches, sleep_batch
    from strength.domain.sleep import Trigger

    Agent.objects.update(policy={"near_duplicates": "off"})  # compares a night's new memories only
    actors = list(Actor.objects.select_related("agent").exclude(user_id=""))
    request = SleepRequest(Trigger.COMMAND, command("bench"), datetime.now(UTC) + timedelta(days=1))
    began = time.perf_counter()
    for batch in actor_batches(actors, at_once=1):
        list(sleep_batch(actors=batch, request=request, may_go_on=lambda: True))
    return (time.perf_counter() - began) / (size.actors * size.memories) * 1000


def busy(size: Any, key: str) -> dict[int, float]:
    """Return the searches a second of a web server by its number of clients."""
    import filling

    found, texts = {}, cycle(filling.questions(200, seed=3))
    with harness.web_server() as port:
        for clients in CLIENTS:
            counts = [0] * clients

            def search(place: int, client: harness.Client, counts: list[int]) -> None:
                agent_id, user_id = size.user((place + counts[place]) % size.actors)
                body = {"agent_id": agent_id, "user_id": user_id, "query": next(texts)}
                client.answer("POST", "memories/search", body)
                counts[place] += 1

            works = [partial(search, place, harness.Client(port, key), counts) for place in range(clients)]
            with harness.in_threads(*works):
                time.sleep(2)
                before, began = sum(counts), time.perf_counter()
                time.sleep(BUSY_SECONDS)
                found[clients] = round((sum(counts) - before) / (time.perf_counter() - began), 1)
    return found


def bytes_of_a_row() -> dict[str, float]:
    """Return the bytes on disk of a memory or message with its indexes, and of its index row, which searches read."""
    import filling
    from django.db import connection

    with connection.cursor() as cursor:
        sql = "SELECT sum(pg_total_relation_size(oid)), sum(reltuples) FROM pg_class WHERE relname = ANY(%s)"
        cursor.execute(sql, [list(filling.TABLES)])
        disk, _rows = cursor.fetchone()
        cursor.execute(sql, [[name for name in filling.TABLES if name.endswith("index")]])
        index, rows = cursor.fetchone()
    return {"disk": round(float(disk) / rows, 0), "index": round(float(index) / rows, 0)}


def fitted(points: list[Point]) -> dict[str, dict[str, list[float]]]:
    """Return constant, ms per 1,000 rows of the user and ms per tenfold of all rows, by kind and part."""
    smallest = min(point.rows for point in points)
    terms = np.array([[1.0, point.rows_of_user / 1000, math.log10(point.rows / smallest)] for point in points])
    return {
        kind: {
            part: [round(float(each), 3) for each in np.linalg.lstsq(
                terms, np.array([point.milliseconds[kind][place] for point in points]), rcond=None
            )[0]]
            for place, part in enumerate(("Python", "PostgreSQL"))
        }
        for kind in KINDS
    }  # fmt: skip


def plan(figures: dict[str, Any], given: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the machines by the number of memories, with as many messages."""
    fits, smallest, sizes = figures["fitted"], figures["smallest"], figures["bytes"]

    def cores(kind: str, part: str, total: int, rate: float) -> float:
        constant, by_rows, by_log = fits[kind][part]
        milliseconds = constant + by_rows * given.rows / 1000 + by_log * math.log10(total / smallest)
        return max(0.0, milliseconds) * rate / 1000 / BUSY_SHARE

    lines = []
    for total in TOTALS:
        users = total / given.rows
        rate = users * given.active * given.contexts * given.peak / DAY_SECONDS
        writes = {"message": rate * MESSAGES_PER_CONTEXT, "memory": rate * MEMORIES_PER_CONTEXT}
        web = sum(cores(kind, "Python", total, each) for kind, each in {"context": rate, **writes}.items())
        reads = cores("context", "PostgreSQL", total, rate)
        written = sum(cores(kind, "PostgreSQL", total, each) for kind, each in writes.items())
        nights = total / 1000 * figures["night"] / 3600 / given.night_hours
        disk = 2 * total * sizes["disk"] / 1e9
        load = written + PRIMARY_SHARE * reads + nights
        installations = math.ceil(max(1.0, disk / given.disk, load / given.cores))
        own = (written + reads + nights) / installations
        replicas = math.ceil(max(0.0, own / given.cores - 1))
        lines.append(
            {
                "memories": f"{total:.0e}",
                "users": f"{users:,.0f}",
                "contexts a second": round(rate, 1),
                "web cores": math.ceil(web),
                "database cores": math.ceil(reads + written + nights),
                "disk, GB": round(disk),
                "memory for active rows, GB": round(2 * total * sizes["index"] * given.active / 1e9),
                "installations": installations,
                "replicas of each": replicas,
            }
        )
    return lines


def run(given: argparse.Namespace) -> dict[str, Any]:
    import filling

    key, points = harness.everything_key(), []
    filling.make_pool()
    for users, rows in sorted(given.sizes, key=lambda each: each[0] * each[1]):
        size = filling.Size(users, rows, rows)
        harness.say(f"filling, {users} users of {rows:,} memories and messages")
        filling.empty()
        filling.fill(size)
        begin_clocks()
        points.append(measure(size, given.rounds, key))
    sizes = bytes_of_a_row()
    harness.say("busy clients, and a night")
    searches, at_night = busy(size, key), night(size)
    per_search = sum(points[-1].milliseconds["search"])
    figures: dict[str, Any] = {
        "points": [{"users": p.users, "rows": p.rows_of_user, **p.milliseconds} for p in points],
        "fitted": fitted(points),
        "smallest": points[0].rows,
        "bytes": sizes,
        "searches a second": searches,
        "busy share": round(max(searches.values()) * per_search / 1000 / (psutil.cpu_count() or 1), 2),
        "night": round(at_night, 4),
    }
    return {**figures, "plan": plan(figures, given)}


def show(figures: dict[str, Any], console: Any) -> None:
    harness.table(console, figures["points"], "Measured: ms of Python and of PostgreSQL")
    rows = [{"request": kind, **parts} for kind, parts in figures["fitted"].items()]
    harness.table(console, rows, "Fitted: constant, per 1,000 rows of the user, per tenfold of all rows")
    for name in ("bytes", "searches a second", "busy share"):
        console.print(f"{name}: {harness.shown(figures[name])}")
    console.print(f"night: {figures['night']:.4f} s per 1,000 memories and core")
    harness.table(console, figures["plan"], "Calculated")


def _sizes(text: str) -> list[tuple[int, int]]:
    found = [tuple(map(harness.positive, each.split("x"))) for each in text.split(",")]
    if len(found) < 3 or any(len(each) != 2 or each[1] % 100 for each in found):
        raise argparse.ArgumentTypeError("three sizes or more, such as 20x500, with a multiple of 100 rows")
    return [(users, rows) for users, rows in found]


def main() -> None:
    parser = harness.parser_of(__doc__)
    parser.add_argument("--sizes", type=_sizes, default=_sizes("20x500,20x5000,200x500,20x15000,120x5000"))
    parser.add_argument("--rounds", type=harness.positive, default=80, help="requests of each kind and size (80)")
    parser.add_argument("--rows", type=harness.positive, default=5_000, help="memories of a user in the plan (5,000)")
    parser.add_argument("--active", type=float, default=0.1, help="share of the users that are active a day (0.1)")
    parser.add_argument("--contexts", type=float, default=20, help="contexts of an active user a day (20)")
    parser.add_argument("--peak", type=float, default=3, help="the busiest hour relative to the mean (3)")
    parser.add_argument("--cores", type=harness.positive, default=16, help="of a database server (16)")
    parser.add_argument("--disk", type=float, default=500, help="GB of one database (500)")
    parser.add_argument("--night-hours", type=float, default=4, help="hours of a night's sleep (4)")
    given = parser.parse_args()
    with harness.installation():
        figures = run(given)
    harness.tell(figures, given, show)


if __name__ == "__main__":
    main()
