"""Measure the time of nightly sleeps, and of one plain UPDATE of as many rows for comparison.

    python bench/sleep.py                       # 200 actors of 5,000 memories: five minutes
    python bench/sleep.py --actors 20           # a quick look
    python bench/sleep.py --gather              # with tables clustered by actor
    python bench/sleep.py --at-once 1           # one actor after the other, as in a worker's jobs
    python bench/sleep.py --json > figures.json

Each night is one sleep of every actor, by the action of jobs and API, as parallel as `manage.py sleep_phase`: decay,
archiving, the limit on active memories, levels, and the data for undo. Strengths are spread so that a night archives
about one in ninety; one in a hundred is pinned, and before each night but the first one in a hundred is used. A last
night follows within minutes, with next to nothing to archive. Right before each night one statement updates as many
rows of a table of the same width with fill factor 45, in the same PostgreSQL. Near-duplicates are timed separately.
"""

import argparse
import os
import resource
import time
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any, Final

import harness

DEFAULT_NIGHTS: Final = 6
MAX_COMPARED: Final = 200
IDLE_INTERVAL: Final = timedelta(minutes=2)
"""From the last night to an extra one with next to nothing to do."""

CREATE_PLAIN_TABLE = """
CREATE TABLE bench_plain (id uuid PRIMARY KEY, actor_id uuid NOT NULL, strength float8 NOT NULL,
    access_count integer NOT NULL, candidate_count integer NOT NULL, last_accessed_at timestamptz,
    impact_score float8 NOT NULL, consolidation_level smallint NOT NULL, last_decay_at timestamptz)
    WITH (fillfactor = 45);
INSERT INTO bench_plain SELECT memory_id, actor_id, strength, access_count, candidate_count, last_accessed_at,
    impact_score, consolidation_level, now() FROM strength_memorynumbers ORDER BY memory_id;
"""

UPDATE_PLAIN_TABLE = "UPDATE bench_plain SET strength = strength * 0.95, last_decay_at = now()"

# From the threshold to a hundred times as much, evenly by factors; a twentieth has reached level 1.
SPREAD_STRENGTHS = """
UPDATE strength_memorynumbers SET
    strength = 0.1 * exp(ln(100) * random()), access_count = 5 * (hashint8(hashtext(memory_id::text)) %% 20 = 0)::int,
    consolidation_level = (hashint8(hashtext(memory_id::text)) %% 20 = 0)::int,
    mark = CASE WHEN random() < 0.01 THEN '-Infinity'::float8 ELSE 0 END, began_at = %s;
"""
PIN_MEMORIES = """
UPDATE strength_memory AS memory SET pinned = true FROM strength_memorynumbers AS numbers
WHERE numbers.memory_id = memory.id AND numbers.mark = '-Infinity'
"""


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fill the database, run the nights, and return the figures."""
    from memoryhub.tenancy.models import Actor

    begun = datetime.now(UTC)  # before all changes of the filling
    harness.say("filling")
    _fill(arguments, begun)
    actors = list(Actor.objects.select_related("agent").exclude(user_id=""))
    nights = []
    for night in range(arguments.nights):
        harness.say(f"night {night + 1}")
        now = begun + timedelta(days=1 + night)
        if night:
            _use_memories(actors, now - timedelta(hours=12))
        nights.append(_run_night(actors, now, arguments.at_once))
    idle = _run_night(actors, now + IDLE_INTERVAL, arguments.at_once)
    return {
        "rows": arguments.actors * arguments.memories,
        "nights": [*nights, idle],
        "at_once": arguments.at_once,
        "first_ratio": nights[0]["ratio"],
        "ratio": round(median(night["ratio"] for night in nights[1:]), 2),
        "idle_ratio": idle["ratio"],
        "compared": _compare(actors[0], begun + timedelta(days=1 + arguments.nights)),
    }


def _fill(arguments: argparse.Namespace, begun: datetime) -> None:
    import filling
    from django.db import connection

    from memoryhub.search.clustering import Clustering
    from memoryhub.search.models import index_models
    from memoryhub.tenancy.models import Actor, Agent
    from strength.domain.policy import StrengthPolicy
    from strength.sql import QUERIES, policy_values

    filling.make_pool()
    filling.fill(filling.Size(arguments.actors, arguments.memories, 0))
    Agent.objects.update(policy={"near_duplicates": "off"})
    with connection.cursor() as cursor:
        cursor.execute(SPREAD_STRENGTHS, [begun])
        for actor in Actor.objects.exclude(user_id=""):
            values = {**policy_values(StrengthPolicy()), "actor_id": actor.pk, "now": begun}
            cursor.execute(QUERIES["begin_clock"], values)
        cursor.execute(PIN_MEMORIES)
        cursor.execute(CREATE_PLAIN_TABLE)
    filling.settle()
    if arguments.gather:
        for model in index_models():
            list(Clustering(model).run(now=begun))


def _use_memories(actors: list[Any], now: datetime) -> None:
    """Report the use of one in a hundred of each actor's memories."""
    from memoryhub.auth.principals import command
    from strength.actions.usage import use_memories
    from strength.models import Memory

    for actor in actors:
        rows = Memory.objects.of([actor.pk]).active().select_related("actor__agent")
        sample = list(rows.order_by("?")[: max(1, rows.count() // 100)])
        use_memories(memories=sample, perspective=None, task=None, by=command("bench"), now=now)


def _run_night(actors: list[Any], now: datetime, at_once: int) -> dict[str, Any]:
    from django.db import connection

    from memoryhub.auth.principals import command
    from memoryhub.db.pool import run_parallel
    from strength.actions.sleep import SleepRequest, actor_batches, sleep_batch
    from strength.domain.sleep import Trigger

    with connection.cursor() as cursor:
        started = time.perf_counter()
        cursor.execute(UPDATE_PLAIN_TABLE)
        plain = time.perf_counter() - started
    started = time.perf_counter()
    sleep_request = SleepRequest(Trigger.COMMAND, command("bench"), now)

    def sleep(batch: list[Any], may_go_on: Any) -> list[Any]:
        return list(sleep_batch(actors=batch, request=sleep_request, may_go_on=may_go_on))

    parts = run_parallel(sleep, actor_batches(actors, at_once=at_once), at_once=at_once)
    runs = [run for part in parts for run in part]
    seconds = time.perf_counter() - started
    return {
        "plain_seconds": round(plain, 2),
        "sleep_seconds": round(seconds, 2),
        "ratio": round(seconds / plain, 2),
        "decayed": sum(run.decayed_count for run in runs),
        "archived": sum(run.archived_count for run in runs),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def _compare(actor: Any, now: datetime) -> dict[str, Any]:
    """Measure the search for near-duplicates of one memory among an actor's."""
    from strength.actions.duplicates import duplicate_pairs
    from strength.models import Memory

    memories = list(Memory.objects.of([actor.pk]).active().select_related("numbers")[:MAX_COMPARED])
    started = time.perf_counter()
    pairs = duplicate_pairs(actor, memories, now=now)
    each = (time.perf_counter() - started) / len(memories)
    return {"memories": len(memories), "milliseconds_each": round(each * 1000, 2), "pairs": len(pairs)}


def show(figures: dict[str, Any], console: Any) -> None:
    harness.table(console, figures["nights"], f"Sleep of {figures['rows']:,} memories")
    console.print(harness.shown({name: each for name, each in figures.items() if name != "nights"}))


def main() -> None:
    parser = harness.parser_of(__doc__)
    parser.add_argument("--actors", type=harness.positive, default=200, help="actors (200)")
    parser.add_argument("--memories", type=harness.positive, default=5_000, help="memories of each (5,000)")
    parser.add_argument("--nights", type=int, default=DEFAULT_NIGHTS, help=f"nights, 2 or more ({DEFAULT_NIGHTS})")
    at_once = min(os.cpu_count() or 1, 4)
    parser.add_argument("--at-once", type=harness.positive, default=at_once, help=f"actors ({at_once})")
    parser.add_argument("--gather", action="store_true", help="after `manage.py cluster_tables`")
    arguments = parser.parse_args()
    if arguments.nights < 2:
        parser.error("--nights are 2 or more")
    with harness.installation():
        figures = run(arguments)
    harness.tell(figures, arguments, show)


if __name__ == "__main__":
    main()
