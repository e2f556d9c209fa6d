"""`manage.py audit`: the trail as JSON Lines, at once and as it grows."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import StringIO
from threading import Event
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.utils import timezone

from memoryhub.auth.actions import create_agent
from memoryhub.auth.principals import command
from memoryhub.env import CHECKOUT
from memoryhub.runtime.postgres import ConnectionInfo

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FIELDS = (
    *("id", "at", "who_kind", "who_id", "who_name", "verb", "object_kind", "object_id", "agent_id", "user_id"),
    *("reason", "details"),
)


def audit(*arguments: str) -> list[dict[str, Any]]:
    out = StringIO()
    call_command("audit", *arguments, stdout=out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def agent(name: str, at: datetime = NOW) -> None:
    create_agent(agent_id=name, values={}, by=command("test"), now=at)


@pytest.mark.django_db
def test_entries_are_lines_the_oldest_first() -> None:
    agent("wakaba", NOW + timedelta(days=2))
    agent("kana", NOW)
    first, second = audit()
    assert tuple(first) == FIELDS
    assert (first["verb"], first["object_kind"], first["agent_id"]) == ("create", "agent", "kana")
    assert first["at"] == "2026-03-01T12:00:00Z" and first["who_id"] == "test" and first["details"] is not None
    assert second["agent_id"] == "wakaba"
    assert audit("--since", "2026-03-02") == [second] == audit("--since", "2026-03-03T21:00+09:00")


@pytest.mark.django_db
@pytest.mark.parametrize("since", ["tomorrow", "2999-01-01"])
def test_time_that_cannot_be_is_refused(since: str) -> None:
    with pytest.raises(CommandError, match="--since"):
        audit("--since", since)


@contextmanager
def following(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    place = connection.settings_dict
    url = ConnectionInfo(place["HOST"], int(place["PORT"]), place["NAME"], place["USER"], place["PASSWORD"]).url()
    process = subprocess.Popen(
        [sys.executable, "manage.py", "audit", "--follow", *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "DATABASE_URL": url},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)
        assert process.stdout is not None
        process.stdout.close()


def next_agent(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return str(json.loads(process.stdout.readline())["agent_id"])


@pytest.mark.django_db(transaction=True)
def test_followed_trail_has_each_entry_once_also_one_that_was_committed_late() -> None:
    now, is_written, may_commit = timezone.now(), Event(), Event()

    def write_late() -> None:
        try:
            with transaction.atomic():
                agent("late", now)
                is_written.set()
                may_commit.wait(60)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as thread, following("--since", now.isoformat()) as process:
        writing = thread.submit(write_late)
        is_written.wait(60)
        agent("first", now + timedelta(milliseconds=1))
        assert next_agent(process) == "first"
        may_commit.set()
        writing.result()
        assert next_agent(process) == "late"
        agent("last", timezone.now())
        assert next_agent(process) == "last"
