"""Laying an actor's index rows together: what is scattered is written anew, what is used is left alone."""

import threading
from collections import Counter
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection, connections
from psycopg.errors import DiskFull

from conversations.actions.messages import add_messages
from conversations.actions.sessions import open_session
from conversations.models import MessageIndex
from memoryhub.auth.domain import command
from memoryhub.auth.tenancy import actor_for_writing
from memoryhub.search import maintenance
from memoryhub.search.maintenance import scatter
from tests.database import prepared
from tests.factories.values import NewMessageFactory

BY = command("test")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
USERS = 8
EACH = 30


@pytest.fixture
def scattered(transactional_db: None) -> None:
    """Store the messages of eight users by turns, so that each page holds several users' rows."""
    prepared("scattered", scatter_rows)


def scatter_rows() -> None:
    actors = [actor_for_writing(BY, "kana", f"user-{number}", now=NOW) for number in range(USERS)]
    sessions = [
        open_session(actor=actor, session_id=None, channel="api", by=BY, now=NOW)[0] for actor in actors
    ]
    for _ in range(EACH):
        for session in sessions:
            add_messages(session=session, batch=NewMessageFactory.build_batch(1), by=BY, now=NOW)


def rows() -> Counter[tuple[object, ...]]:
    return Counter(MessageIndex.objects.values_list("actor_id", "message_id", "seq", "words_version"))


def told(*arguments: str) -> str:
    output = StringIO()
    call_command("cluster_tables", *arguments, stdout=output)
    return output.getvalue()


def test_scattered_rows_are_laid_together(scattered: None) -> None:
    before, stored = scatter(MessageIndex), rows()
    assert before > 3

    words = told()

    assert scatter(MessageIndex) < 1.5
    assert rows() == stored
    assert f"conversations_messageindex: scattered {before:.1f}" in words
    assert "strength_memoryindex: scattered 1.0, left as it is" in words


def test_what_lies_well_is_left_alone(scattered: None) -> None:
    told()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_relation_filenode('conversations_messageindex')")
        file = cursor.fetchone()
        assert "conversations_messageindex" in told()
        cursor.execute("SELECT pg_relation_filenode('conversations_messageindex')")
        assert cursor.fetchone() == file


def test_looking_changes_nothing(scattered: None) -> None:
    before = scatter(MessageIndex)
    table = f"conversations_messageindex: scattered {before:.1f}, clustering"
    assert f"{table} would help\n" in told("--dry-run")
    assert f"{table} would not help\n" in told("--dry-run", "--from", str(before + 1))
    assert scatter(MessageIndex) == before


def test_table_in_use_is_given_up(scattered: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "LOCK_SECONDS", 1)
    in_use, done = threading.Event(), threading.Event()

    def use() -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("LOCK TABLE conversations_messageindex IN ACCESS SHARE MODE")
            in_use.set()
            done.wait(30)
            cursor.execute("COMMIT")
        connections["default"].close()

    user = threading.Thread(target=use)
    user.start()
    assert in_use.wait(10)
    try:
        with pytest.raises(CommandError, match="conversations_messageindex is in use"):
            told()
    finally:
        done.set()
        user.join()
    with connection.cursor() as cursor:
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",), "the connection waits as long as before"
    assert "after" in told()


def test_other_faults_are_told_as_they_are(scattered: None) -> None:
    """CLUSTER needs the table's size once more; a full disk is no table in use."""
    with connection.execute_wrapper(disk_full), pytest.raises(CommandError, match="No space left") as told_of:
        told()

    assert "in use" not in str(told_of.value)
    assert "after" in told()


def disk_full(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
    """Answer CLUSTER as a server does whose disk is full."""
    if sql.startswith("CLUSTER"):
        raise OperationalError("could not extend file: No space left on device") from DiskFull()
    return execute(sql, params, many, context)


@pytest.mark.parametrize("threshold", ["nan", "-1", "much"])
def test_threshold_must_be_a_number(threshold: str) -> None:
    with pytest.raises(CommandError, match="--from: invalid"):
        told(f"--from={threshold}")
