"""The feed of changes tells each change once and in order, while processes that write are killed."""

import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest
from django.db import connection
from django.db.models import Q

from memoryhub.runtime.postgres.cluster import ConnectionInfo
from strength.actions.revisions import changes_after
from strength.models import Memory, MemoryChange, MemoryRevision

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]
WRITERS = 8
WANTED = 10_000
CHANGES_BETWEEN_KILLS = 200  # not seconds: on a busy machine nobody would live to write
LONGEST_SECONDS = 1_500

WRITE = """
import sys, django
django.setup()
from itertools import count
from random import Random
from django.db import transaction
from django.utils import timezone
from memoryhub.auth.principals import command
from memoryhub.auth.access import actor_for_writing
from strength.actions.write_many import write_memories
from strength.actions.curation_sets import curate_many, delete_many
from strength.actions.memories import NewMemory
by, random, name = command("test"), Random(sys.argv[1]), sys.argv[1]
actors = [actor_for_writing(by, "kana", f"user-{n}", now=timezone.now()) for n in range(3)]
for step in count():
    now = timezone.now()
    with transaction.atomic():
        news = [NewMemory(content=f"{name}x{step}x{n}") for n in range(10)]
        rows = [each.memory for each in write_memories(actor=random.choice(actors), news=news, by=by, now=now)]
        curate_many(memories=rows[:7], versions={}, verb="pin", by=by, reason="", now=now)
        if random.random() < 0.1:
            transaction.set_rollback(True)
            continue
    curate_many(memories=rows[:5], versions={}, verb="archive", by=by, reason="", now=now)
    if random.random() < 0.5:
        delete_many(memories=rows[5:8], by=by, reason="", now=now)
"""


def writer(name: str) -> subprocess.Popen[bytes]:
    place = connection.settings_dict
    url = ConnectionInfo(place["HOST"], int(place["PORT"]), place["NAME"], place["USER"], place["PASSWORD"]).url()
    return subprocess.Popen([sys.executable, "-c", WRITE, name], cwd=ROOT, env={**os.environ, "DATABASE_URL": url})


@pytest.mark.long
def test_feed_of_killed_writers_neither_skips_nor_repeats() -> None:
    chance, kills, cursor = Random(7), 0, 0
    told: list[tuple[int, str, int]] = []
    writers = [writer(f"{number}-0") for number in range(WRITERS)]
    begun = time.monotonic()
    try:
        while writers:
            page = changes_after(cursor, owner=Q(agent_id="kana"), limit=chance.randint(1, 400))
            told += [(each.pk, str(each.memory_id), each.version) for each in page]
            cursor = page[-1].pk if page else cursor
            assert time.monotonic() - begun < LONGEST_SECONDS, len(told)
            if len(told) >= WANTED:
                for each in writers:
                    each.kill()
                    each.wait()
                writers = []
            elif len(told) >= CHANGES_BETWEEN_KILLS * (kills + 1):
                place = chance.randrange(WRITERS)
                writers[place].kill()
                writers[place].wait()
                kills += 1
                writers[place] = writer(f"{place}-{kills}")
            if not page:
                time.sleep(0.02)
    finally:
        for each in writers:
            each.kill()
            each.wait()
    while page := changes_after(cursor, owner=Q(agent_id="kana"), limit=400):
        told += [(each.pk, str(each.memory_id), each.version) for each in page]
        cursor = page[-1].pk
    assert len(told) >= WANTED and kills >= 40
    kept = MemoryChange.objects.order_by("pk").values_list("pk", "memory_id", "version")
    assert told == [(key, str(memory_id), version) for key, memory_id, version in kept]
    versions = defaultdict(list)
    for _key, memory_id, version in told:
        versions[memory_id].append(version)
    assert all(found == list(range(1, len(found) + 1)) for found in versions.values())
    # What is there is told to its last version, and each revision has its row.
    alive = Memory.objects.values_list("pk", "version")
    assert {str(key): version for key, version in alive}.items() <= {
        key: found[-1] for key, found in versions.items()
    }.items()
    assert MemoryRevision.objects.count() == sum(len(versions[str(key)]) for key, _version in alive)
