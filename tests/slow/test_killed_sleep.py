"""A sleep that is killed at random moments and started again ends as one that nobody interrupted."""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.db import connection

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import command
from memoryhub.runtime.postgres.cluster import ConnectionInfo
from strength.actions.memories import NewMemory, write_memory

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
NIGHTS = (1, 2)
MEMORIES = 3_000
ROUNDS = 3
MOST_KILLS = 4

SLEEP_SLOWLY = """
import sys, django
django.setup()
from datetime import UTC, datetime, timedelta
from memoryhub.auth.principals import command
from memoryhub.auth.access import actor_for_writing
from strength.actions import sleep as sleeping
from strength.domain.sleep import Trigger
sleeping.ARCHIVE_BATCH_SIZE, sleeping.COMPARISON_BATCH_SIZE = 100, 3
by, begun = command("test"), datetime(2026, 1, 1, tzinfo=UTC)
actor = actor_for_writing(by, "kana", sys.argv[1], now=begun)
print("ready", flush=True)
now = begun + timedelta(days=int(sys.argv[2]))
sleeping.sleep(actor=actor, request=sleeping.SleepRequest(Trigger.COMMAND, by, now))
"""
"""Sleep in many small slices."""

FILLER = """
INSERT INTO strength_memory (id, actor_id, content, content_digest, namespace, kind, tags, scope_level, scope_domain,
    scope_project, status, pinned, locked, source, channel, trust, learnings, version, created_at, updated_at)
SELECT gen_random_uuid(), %(actor)s, 'filler ' || n, sha256((n || %(actor)s::text)::bytea), '/filler/', 'fact', '{}',
    'project', '', '', 'active', false, false, 'manual', '', 'trusted', '{}', 1, '2026-01-01', '2025-01-01'
FROM generate_series(1, %(rows)s) AS n
"""
NUMBERS = """
INSERT INTO strength_memorynumbers (memory_id, actor_id, strength, access_count, candidate_count, impact_score,
    consolidation_level, mark, began_at)
SELECT id, actor_id, 0.09 + split_part(content, ' ', 2)::int / 1000.0, 0, 0, 0, 0, 0, '2026-01-01'
FROM strength_memory WHERE actor_id = %(actor)s AND namespace = '/filler/'
"""
# The filler was there before the last sleep: only the tea is new, and compared.
COMPARED_BEFORE = """
UPDATE strength_sleepstate SET compared_until = '2025-06-01' WHERE actor_id = %(actor)s
"""
STATE = """
SELECT memory.content, memory.status,
    memory.version, numbers.strength, numbers.mark, numbers.taken, numbers.consolidation_level, numbers.access_count,
    state.clock
FROM strength_memory AS memory JOIN strength_memorynumbers AS numbers ON numbers.memory_id = memory.id
JOIN strength_sleepstate AS state ON state.actor_id = memory.actor_id
JOIN memoryhub_actor AS actor ON actor.id = memory.actor_id
WHERE actor.user_id = %s ORDER BY 1
"""


def sleeper(user: str) -> str:
    """Give a user memories that a sleep fades, archives, crowds out and merges."""
    actor = actor_for_writing(command("test"), "kana", user, now=BEGUN)
    actor.policy = {"max_active_memories": MEMORIES - 300, "near_duplicates": "merge"}
    actor.save()
    for number in range(12):
        for text, strength in (
            (f"The user likes tea of sort {number}.", 5.0),
            (f"The user actually likes tea of sort {number}", 4.0),
        ):
            write_memory(actor=actor, new=NewMemory(content=text, strength=strength), by=command("test"), now=BEGUN)
    with connection.cursor() as cursor:
        for statement in (FILLER, NUMBERS, COMPARED_BEFORE):
            cursor.execute(statement, {"actor": actor.pk, "rows": MEMORIES})
    return user


def state_of(user: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(STATE, [user])
        return list(cursor.fetchall())


def sleep_apart(user: str, night: int, *, kill_after: float | None = None) -> float:
    """Let a process of its own put the user to sleep; return how many seconds it slept, -1 where it was killed."""
    place = connection.settings_dict
    url = ConnectionInfo(place["HOST"], int(place["PORT"]), place["NAME"], place["USER"], place["PASSWORD"]).url()
    child = subprocess.Popen(
        [sys.executable, "-c", SLEEP_SLOWLY, user, str(night)],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url},
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        started = time.perf_counter()
        try:
            child.wait(timeout=kill_after)
        except subprocess.TimeoutExpired:
            child.kill()
            return -1.0
    assert child.returncode == 0
    return time.perf_counter() - started


@pytest.mark.long
def test_a_sleep_that_is_killed_goes_on_and_ends_as_one_that_was_not() -> None:
    chance = Random(42)
    states, whole = [state_of(sleeper("calm"))], {}
    for night in NIGHTS:
        whole[night] = sleep_apart("calm", night)
        states.append(state_of("calm"))
        assert states[night] != states[night - 1]

    kills = 0
    for number in range(ROUNDS):
        user = sleeper(f"killed-{number}")
        for night in NIGHTS:
            for attempt in range(MOST_KILLS + 1):
                limit = None if attempt == MOST_KILLS else chance.uniform(0.0, whole[night])
                took = sleep_apart(user, night, kill_after=limit)
                if took >= 0:
                    whole[night] = min(whole[night], took)  # the machine may have less to do by now
                    break
                kills += 1
            assert state_of(user) == states[night]
    assert kills >= ROUNDS
