"""Jobs that do nothing but show that they were done: once, twice, late, or not at all.

Each effect is a row of its own in a table that nothing keeps unique, so that what was done twice is seen.
"""

import os
import signal
import time

from django.db import connection

from memoryhub.jobs.context import JobContext, Writes
from memoryhub.jobs.registry import job as registered

TABLES = """
CREATE TABLE IF NOT EXISTS bench_effect (job uuid, attempt int, at timestamptz DEFAULT clock_timestamp());
CREATE TABLE IF NOT EXISTS bench_begun (job uuid, attempt int, pid int, at timestamptz DEFAULT clock_timestamp());
"""


def make_tables() -> None:
    """Make the tables of effects and beginnings."""
    with connection.cursor() as cursor:
        cursor.execute(TABLES)


@registered("bench_empty")
def empty(job: JobContext) -> None:
    """Do nothing."""


@registered("bench_effect", lease_seconds=6, deadline_seconds=60)
@registered("bench_hangs", lease_seconds=6, deadline_seconds=3)
@registered("bench_one", lease_seconds=6, deadline_seconds=60, at_once=1)
def effect(job: JobContext) -> Writes:
    """Take `seconds` (none), then leave one row."""
    _begin(job)
    time.sleep(float(job.payload.get("seconds", 0)))
    return lambda: _leave(job)


@registered("bench_steps", lease_seconds=6, deadline_seconds=60)
def steps(job: JobContext) -> None:
    """Leave `steps` rows, each in a step of its own, and go on after a break where it was."""
    _begin(job)
    done = int(job.cursor or 0)
    while done < int(job.payload["steps"]):
        time.sleep(float(job.payload.get("seconds", 0)))
        with job.step(cursor=done + 1, done=done + 1, total=job.payload["steps"]):
            _leave(job)
        done += 1


@registered("bench_kill", lease_seconds=6, deadline_seconds=60)
def kill(job: JobContext) -> None:
    """Kill the worker that runs it."""
    _begin(job)
    os.kill(os.getpid(), signal.SIGKILL)


@registered("bench_breaks", lease_seconds=6, deadline_seconds=60)
def breaks(job: JobContext) -> None:
    """Break, as a fault in the code would."""
    raise KeyError("a text that somebody said")


def _begin(job: JobContext) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO bench_begun (job, attempt, pid) VALUES (%s, %s, %s)", [job.id, job.attempt, os.getpid()]
        )


def _leave(job: JobContext) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO bench_effect (job, attempt) VALUES (%s, %s)", [job.id, job.attempt])
