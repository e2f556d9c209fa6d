"""An actor's clock as it is stored, and writing numbers that it has moved on for (`strength.domain.clock`).

Who writes numbers takes them off the clock first: they are then as if every night had written them, and what a sleep
did to them can still be undone. Inside a transaction that keeps the actor's sleep away (`strength.models.rest`).
"""

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db import connection

from strength.domain.clock import Clock
from strength.models import Rhythm
from strength.sql import OFF_THE_CLOCK


def take_off_clock(actor_id: UUID, memory_ids: Collection[UUID]) -> None:
    """Store these memories' numbers as they are now, held until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute(OFF_THE_CLOCK, {"actor_ids": [actor_id], "memory_ids": list(memory_ids)})


def write_numbers(
    statement: str, values: dict[str, Any], *, actor_id: UUID, memory_ids: Collection[UUID]
) -> int:
    """Execute a statement that writes these memories' numbers, off the clock; return how many rows it says."""
    keys = {"actor_ids": [actor_id], "memory_ids": list(memory_ids)}
    with connection.cursor() as cursor:
        cursor.execute(OFF_THE_CLOCK + statement, {"actor_id": actor_id, **keys, **values})
        cursor.nextset()
        return int(cursor.rowcount)


def clock_of(rhythm: Rhythm) -> Clock:
    """Return where an actor's clock stands."""
    return Clock(rhythm.clock, rhythm.clock_at, rhythm.clock_task)


def move_clock(rhythm: Rhythm, clock: Clock) -> None:
    """Let the clock stand where the actor's latest sleep moves it, and remember where it stood before."""
    rhythm.before_clock, rhythm.before_clock_at = rhythm.clock, rhythm.clock_at
    rhythm.before_clock_task = rhythm.clock_task
    rhythm.clock, rhythm.clock_at, rhythm.clock_task = list(clock.left), clock.at, clock.tasks
    rhythm.clock_of = rhythm.runs


def put_clock_back(rhythm: Rhythm) -> None:
    """Let the clock stand where it stood before the actor's latest sleep, where that has moved it."""
    if rhythm.clock_of == rhythm.runs:
        rhythm.clock, rhythm.clock_at = rhythm.before_clock, rhythm.before_clock_at
        rhythm.clock_task = rhythm.before_clock_task
