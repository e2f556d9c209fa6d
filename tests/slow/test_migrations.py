"""Migrations can be taken back to nothing and applied again, and then hold the models' schema."""

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import command
from memoryhub.importexport.demo import load_demo
from strength.actions.memories import NewMemory, write_memory
from strength.actions.revisions import snapshot
from strength.models import Memory, MemoryNumbers, MemoryRevision, PerspectiveStrength, SleepRun, SleepState
from tests.conftest import NOW

APPS = ("conversations", "summaries", "strength")

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def newest() -> Iterator[list[Any]]:
    """Bring the database to the newest state again, whatever happens."""
    targets = list(MigrationExecutor(connection).loader.graph.leaf_nodes())
    yield targets
    MigrationExecutor(connection).migrate(targets)


def test_migrations_go_back_to_nothing_and_forth(newest: list[Any]) -> None:
    MigrationExecutor(connection).migrate([(app, None) for app in APPS])
    left = [name for name in connection.introspection.table_names() if name.startswith(APPS)]
    assert left == []
    MigrationExecutor(connection).migrate(newest)
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
    load_demo(by=command("demo"), now=NOW)
    assert Memory.objects.count() == MemoryNumbers.objects.count() == 72


OLD_ROWS = """
INSERT INTO strength_memory (id, actor_id, content, content_digest, namespace, kind, tags, scope_level, scope_domain,
    scope_project, status, pinned, locked, source, channel, trust, learnings, version, created_at, updated_at)
SELECT ('01900000-0000-7000-8000-00000000000' || n)::uuid, %(actor)s, 'memory ' || n, sha256(n::text::bytea), '/notes/',
    'note', '{}', 'project', '', '', CASE n WHEN 4 THEN 'archived' ELSE 'active' END, n = 3, false, 'manual', '',
    'trusted', '{}', 1, '2026-01-01', '2026-01-01'
FROM generate_series(1, 4) AS n;
INSERT INTO strength_memorynumbers (memory_id, actor_id, strength, access_count, candidate_count, impact_score,
    consolidation_level, status, pinned, last_decay_at, faded, clock_then, slept_in, before_strength, before_faded,
    before_level, before_decay_at, before_task)
SELECT id, actor_id, split_part(content, ' ', 2)::int / 10.0, 0, 0, 0, 0, status, pinned, '2026-01-12', -0.1,
    CASE WHEN content = 'memory 2' THEN -0.1 END, CASE WHEN content = 'memory 4' THEN 3 END,
    CASE WHEN content = 'memory 4' THEN 0.5 END, -0.05, 0, '2026-01-10', 0
FROM strength_memory;
INSERT INTO strength_perspectivestrength (actor_id, memory_id, perspective, strength, faded, as_of)
SELECT actor_id, id, 'cost', 0.5, -0.05, '2026-01-02' FROM strength_memory;
INSERT INTO strength_strengthpoint (actor_id, memory_id, day, kind, at, before, strength, faded, level, times)
SELECT actor_id, id, '2026-01-05', 'used', '2026-01-05', 0.9, 1.0, -0.02, 0, 1 FROM strength_memory;
INSERT INTO strength_rhythm (actor_id, tasks_completed, runs, clock, clock_at, clock_of, before_clock, before_clock_at)
VALUES (%(actor)s, 0, 3, '{-0.3,-0.3,-0.3,-0.3,-0.3,-0.3}', '2026-01-12', 3,
    '{-0.25,-0.25,-0.25,-0.25,-0.25,-0.25}', '2026-01-11');
"""
AS_READ = (
    "SELECT content, numbers.strength FROM strength_currentnumbers AS numbers JOIN strength_memory ON id = memory_id"
)


def test_strengths_are_carried_over_as_they_were_read(newest: list[Any]) -> None:
    actor = actor_for_writing(command("test"), "kana", "hiroki", now=NOW)
    MigrationExecutor(connection).migrate([("strength", "0003_said_on")])
    with connection.cursor() as cursor:
        cursor.execute(OLD_ROWS, {"actor": actor.pk})
        cursor.execute(AS_READ)
        read = dict(cursor.fetchall())
    MigrationExecutor(connection).migrate(newest)
    rows = MemoryNumbers.objects.with_strength().select_related("memory", "actor__sleep_state")
    now = {row.memory.content: row for row in rows}
    assert {text: row.strength_now for text, row in now.items()} == pytest.approx(read, rel=1e-12)
    assert [now[f"memory {n}"].fades for n in (1, 2, 3, 4)] == [True, True, False, False]
    assert (now["memory 4"].slept_in, now["memory 4"].taken) == (3, pytest.approx(0.1))
    state = now["memory 2"].actor.sleep_state
    seen = {each.memory.content: each for each in PerspectiveStrength.objects.select_related("memory")}
    left = {text: row.of_perspective(seen[text], state) for text, row in now.items()}
    assert left["memory 1"] == pytest.approx(0.5 * math.exp(-0.05), rel=1e-12)
    assert left["memory 2"] == pytest.approx(0.5 * math.exp(-0.05 - 0.2), rel=1e-12)


ARCHIVED_IN_THE_ROW = """
UPDATE strength_memory SET status = 'archived', version = 2, updated_at = %(now)s, archived_why = 'faded';
INSERT INTO strength_sleeprun (id, actor_id, number, trigger, dry_run, state, now, compares, policy, tasks_completed,
    decayed_count, archived_count, consolidated_count, merged_count, proposed_count, before, changes, errors, who_kind,
    who_id, who_name, undone_by)
SELECT gen_random_uuid(), actor_id, 1, 'command', false, 'done', %(now)s, true, '{}', 0, 0, 1, 0, 0, 0, '{}', '[]', '[]',
    'command', 'x', 'sleeper', '' FROM strength_memory
"""


def test_what_a_sleep_archived_is_written_down(newest: list[Any]) -> None:
    by = command("test")
    actor = actor_for_writing(by, "kana", "hiroki", now=NOW)
    write_memory(actor=actor, new=NewMemory(content="The ferry was late"), by=by, now=NOW)
    MigrationExecutor(connection).migrate([("strength", "0016_place_of_comparing")])
    with connection.cursor() as cursor:
        cursor.execute(ARCHIVED_IN_THE_ROW, {"now": NOW + timedelta(days=60)})
    MigrationExecutor(connection).migrate(newest)
    revision = MemoryRevision.objects.get(number=2)
    assert (revision.verb, revision.reason, revision.who_name) == ("sleep", "faded", "sleeper")
    assert revision.after == snapshot(Memory.objects.get())


def test_a_sleep_that_compares_goes_on_where_it_was(newest: list[Any]) -> None:
    actor = actor_for_writing(command("test"), "kana", "hiroki", now=NOW)
    MigrationExecutor(connection).migrate([("strength", "0015_room_for_archiving")])
    with connection.cursor() as cursor:
        cursor.execute(RUNNING, {"actor": actor.pk, "now": NOW, "after": actor.pk})
    MigrationExecutor(connection).migrate(newest)
    state = SleepState.objects.get()
    assert (state.compared_until, state.compared_after) == (NOW, actor.pk)
    assert SleepRun.objects.get().compares


RUNNING = """
INSERT INTO strength_rhythm (actor_id, tasks_completed, runs) VALUES (%(actor)s, 0, 1);
INSERT INTO strength_sleeprun (id, actor_id, number, trigger, dry_run, state, now, phase, after, compared_at, policy,
    tasks_completed, decayed_count, archived_count, consolidated_count, merged_count, proposed_count, before, changes,
    errors, who_kind, who_id, who_name, undone_by)
VALUES (gen_random_uuid(), %(actor)s, 1, 'command', false, 'running', %(now)s, 'compare', %(after)s, %(now)s, '{}',
    0, 0, 0, 0, 0, 0, '{}', '[]', '[]', 'command', 'x', 'x', '')
"""


def test_index_rows_stay_while_their_pages_get_room(newest: list[Any]) -> None:
    by = command("test")
    actor = actor_for_writing(by, "kana", "hiroki", now=NOW)
    write_memory(actor=actor, new=NewMemory(content="The ferry was late"), by=by, now=NOW)

    def rows_and_room() -> tuple[list[Any], list[Any]]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT (to_jsonb(i) - 'passages')::text FROM strength_memoryindex AS i")  # a later column
            rows = cursor.fetchall()
            cursor.execute("SELECT reloptions FROM pg_class WHERE relname = 'strength_memoryindex'")
            return rows, [options for (options,) in cursor.fetchall()]

    with_room = rows_and_room()
    assert len(with_room[0]) == 1 and with_room[1] == [["fillfactor=85"]]
    MigrationExecutor(connection).migrate([("strength", "0014_nights_in_the_row")])
    assert rows_and_room() == (with_room[0], [None])
    MigrationExecutor(connection).migrate(newest)
    assert rows_and_room() == with_room
