"""A batch of 1,000 memories takes at most 2 s of processor time, of ours and of PostgreSQL's, whatever it holds."""

import os
import time
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.principals import command
from strength.actions.memories import NewMemory
from strength.actions.write_many import MAX_BATCH_SIZE, write_memories
from strength.domain.memories import Kind, Source
from tests.unit.timing import is_over

pytestmark = pytest.mark.django_db

BY = command("test")
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MOST_SECONDS = 2.0
COLOURS = ("red", "blue", "green", "yellow", "white", "black", "brown", "silver", "golden", "purple")
THINGS = ("boat", "bicycle", "lantern", "kettle", "piano", "garden", "camera", "ladder", "window", "carpet")
PLACES = ("harbour", "temple", "market", "bridge", "station", "library", "museum", "theatre", "factory", "castle")


def texts(verb: str) -> list[str]:
    return [
        f"The user {verb} a {colour} {thing} near the {place}"
        for colour, thing, place in product(COLOURS, THINGS, PLACES)
    ]


def seconds() -> float:
    """Return the processor time of this process and of the backend that serves it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        fields = Path(f"/proc/{cursor.fetchone()[0]}/stat").read_text().rpartition(")")[2].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_batches_of_each_sort_take_two_seconds_at_most() -> None:
    actor = actor_for_writing(BY, "kana", "hiroki", now=NOW)
    plain = [NewMemory(content=text) for text in texts("owns")]
    values: dict[str, Any] = {"source": Source.EXTRACTION, "kind": Kind.FACT}
    extracted = [NewMemory(content=text, **values) for text in texts("sold")]
    write_memories(actor=actor, news=[NewMemory(content="warm")], by=BY, now=NOW)
    taken = {}
    for hours, (name, news) in enumerate(
        {"new": plain, "repeated": plain, "extracted": extracted, "extracted again": extracted}.items(), 1
    ):
        assert len(news) == MAX_BATCH_SIZE
        before = seconds()
        items = write_memories(actor=actor, news=news, by=BY, now=NOW + timedelta(hours=hours))
        taken[name] = seconds() - before
        assert all(item.error is None for item in items), name
    print("\n", {name: round(each, 2) for name, each in taken.items()})  # noqa: T201
    assert not is_over(max(taken.values()), MOST_SECONDS), taken
