"""Laying an actor's index rows together, while others write and search: nothing is lost, doubled or stale."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.utils import timezone

from conversations.actions.messages import add_messages
from conversations.actions.sessions import open_session
from conversations.models import MessageIndex, Session
from memoryhub.auth.access import actor_for_writing
from memoryhub.auth.erasure import erase_user
from memoryhub.auth.principals import command
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue
from memoryhub.search import clustering
from memoryhub.search.clustering import Clustering, first_id_of, page_fragmentation
from memoryhub.search.models import NIL, ClusteringState
from tests.conftest import run_jobs
from tests.database import prepared
from tests.factories.values import NewMessageFactory

BY = command("test")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
USERS = 8
EACH = 30
ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(autouse=True)
def scattered(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store the messages of eight users by turns, so that each page holds several users' rows; move them in batches."""
    prepared("scattered", scatter_rows)
    monkeypatch.setattr(clustering, "INITIAL_BATCH_SIZE", 50)
    monkeypatch.setattr(clustering, "MAX_BATCH_SIZE", 50)


def scatter_rows() -> None:
    actors = [actor_for_writing(BY, "kana", f"user-{number}", now=NOW) for number in range(USERS)]
    for actor in actors:
        open_session(actor=actor, session_id=None, channel="api", by=BY, now=NOW)
    say_something(EACH)


def say_something(times: int) -> None:
    sessions = list(Session.objects.select_related("actor__agent").order_by("actor_id"))
    for _ in range(times):
        for session in sessions:
            add_messages(session=session, batch=NewMessageFactory.build_batch(1), by=BY, now=NOW)


def rows() -> list[tuple[str, ...]]:
    """Return all that is stored, every column as text."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT found::text FROM conversations_messageindex AS found ORDER BY 1")
        return [row for (row,) in cursor.fetchall()]


def pages() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_relation_size('conversations_messageindex') / 8192")
        return int(cursor.fetchone()[0])


def move(**options: Any) -> int:
    moving = Clustering(MessageIndex, **options)
    return sum(moving.run(now=timezone.now()))


def told(*arguments: str) -> str:
    output = StringIO()
    call_command("cluster_tables", *arguments, stdout=output)
    return output.getvalue()


@contextmanager
def meanwhile(*works: Callable[[], object]) -> Iterator[threading.Event]:
    """Run each again and again in a thread of its own until the block ends; what one raises fails the test."""
    over, faults = threading.Event(), list[BaseException]()

    def run(work: Callable[[], object]) -> None:
        try:
            while not over.is_set():
                work()
        except BaseException as fault:  # told below
            faults.append(fault)
        finally:
            connections["default"].close()

    threads = [threading.Thread(target=run, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield over
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not faults, faults


def test_scattered_rows_are_laid_together() -> None:
    before, stored = page_fragmentation(MessageIndex), rows()
    assert before > 3

    words = told()

    assert page_fragmentation(MessageIndex) < 1.5
    assert rows() == stored
    assert "conversations_messageindex: 240 rows laid together" in words
    assert "strength_memoryindex: left as it is" in words


def test_only_what_came_since_moves_and_the_table_does_not_grow() -> None:
    move()
    say_something(12)
    size = pages()
    assert [move(), move()] == [12 * USERS, 0]
    say_something(12)
    assert move() == 12 * USERS
    assert pages() <= size + 12 * USERS // 7 + 1
    assert page_fragmentation(MessageIndex) < 2
    assert set(ClusteringState.objects.values_list("until", "after_actor", "after_owner")) == {(None, NIL, NIL)}


def test_few_texts_wait_until_there_are_more() -> None:
    move()
    say_something(9)
    stored = rows()
    assert move() == 0
    assert rows() == stored
    say_something(1)
    assert move() == 10 * USERS


def test_one_actor_alone_has_nothing_to_gain() -> None:
    for number in range(1, USERS):
        erase_user(agent_id="kana", user_id=f"user-{number}", by=BY, now=NOW)
    assert move() == 0


def test_slices_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "SLICE_SIZE", 100)
    monkeypatch.setattr(clustering, "SLICE_SIZE_PER_ACTOR", 1)
    monkeypatch.setattr(clustering, "MIN_TEXTS_PER_ACTOR", 5)
    stored, before = rows(), pages()
    assert move() == USERS * EACH
    assert rows() == stored
    assert pages() < 1.7 * before


def test_writers_and_searches_go_on() -> None:
    """An UPDATE that waited for a row that moves away would change nothing."""
    keys = list(MessageIndex.objects.values_list("pk", flat=True))
    written = dict.fromkeys(keys, 0)
    turn = iter(range(1_000_000))

    def write() -> None:
        number = next(turn)
        key = keys[number * 7 % len(keys)]
        assert MessageIndex.objects.filter(pk=key).update(author=str(number)) == 1
        written[key] = number

    def count() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*), count(DISTINCT message_id) FROM conversations_messageindex")
            assert cursor.fetchone() == (len(keys), len(keys))

    with meanwhile(write, count):
        for _ in range(5):
            assert move() == len(keys)
            ClusteringState.objects.all().delete()

    assert next(turn) > len(keys), "each was written to"
    stored = dict(MessageIndex.objects.values_list("pk", "author"))
    assert stored == {key: str(number) for key, number in written.items()}


def test_messages_that_come_meanwhile_are_kept() -> None:
    before = set(rows())

    with meanwhile(lambda: say_something(1)):
        for _ in range(3):
            move()
            ClusteringState.objects.all().delete()

    after = rows()
    assert before < set(after)
    said = sum(Session.objects.values_list("message_count", flat=True))
    assert len(after) == MessageIndex.objects.values("message_id").distinct().count() == said > len(before)


def test_killed_in_the_middle_it_goes_on() -> None:
    stored = rows()
    script = (
        "import django; django.setup()\n"
        "from django.utils import timezone\n"
        "from conversations.models import MessageIndex\n"
        "from memoryhub.search import clustering\n"
        "clustering.INITIAL_BATCH_SIZE = clustering.MAX_BATCH_SIZE = 50\n"
        "for count in clustering.Clustering(MessageIndex).run(now=timezone.now()): print(count, flush=True), input()\n"
    )
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "memoryhub.settings", "DATABASE_URL": url_of_test_database()}
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"50\n"
        process.send_signal(signal.SIGKILL)

    assert rows() == stored
    assert move() == USERS * EACH - 50
    assert rows() == stored
    assert page_fragmentation(MessageIndex) < 1.5


def url_of_test_database() -> str:
    values = connection.get_connection_params()
    return "postgresql://{user}:{password}@{host}:{port}/{dbname}".format(**values)


def test_batch_that_fails_leaves_everything_as_it_was() -> None:
    stored = rows()

    @contextmanager
    def failing() -> Iterator[None]:
        with transaction.atomic():
            yield
            raise InterruptedError

    with pytest.raises(InterruptedError):
        move(step=failing)

    assert rows() == stored
    assert move() == USERS * EACH


def test_actor_erased_in_between_stays_erased() -> None:
    running = Clustering(MessageIndex).run(now=timezone.now())
    next(running)
    for number in (0, USERS - 1):
        erase_user(agent_id="kana", user_id=f"user-{number}", by=BY, now=NOW)
    stored = rows()

    list(running)

    assert rows() == stored
    assert len(stored) == (USERS - 2) * EACH


def test_two_runs_at_once_move_each_row_once() -> None:
    stored = rows()
    one, other = (Clustering(MessageIndex).run(now=timezone.now()) for _ in range(2))
    moved = next(one) + next(other) + sum(one) + sum(other)
    assert moved == USERS * EACH
    assert rows() == stored


def test_table_in_use_is_given_up_and_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "MAX_BUSY_SECONDS", 0.5)
    in_use, done = threading.Event(), threading.Event()

    def use() -> None:
        with transaction.atomic():
            MessageIndex.objects.update(author="")
            in_use.set()
            done.wait(60)
        connections["default"].close()

    user = threading.Thread(target=use)
    user.start()
    assert in_use.wait(60)
    try:
        with pytest.raises(CommandError, match="conversations_messageindex has been in use"):
            told()
    finally:
        done.set()
        user.join()
    assert "240 rows laid together" in told()


def test_job_moves_what_came_unless_it_is_switched_off(settings: Any) -> None:
    settings.CLUSTER_TABLES = False
    enqueue("cluster_tables")
    run_jobs()
    assert not ClusteringState.objects.exists()

    settings.CLUSTER_TABLES = True
    enqueue("cluster_tables")
    run_jobs()
    assert set(Job.objects.filter(kind="cluster_tables").values_list("state", flat=True)) == {"done"}
    assert page_fragmentation(MessageIndex) < 1.5


def test_again_begins_with_the_oldest() -> None:
    told()
    assert "conversations_messageindex: left as it is" in told()
    assert "240 rows laid together" in told("--again")


def test_looking_changes_nothing() -> None:
    before = page_fragmentation(MessageIndex)
    assert f"conversations_messageindex: searches touch {before:.1f} times its pages\n" in told("--dry-run")
    assert page_fragmentation(MessageIndex) == before
    assert not ClusteringState.objects.exists()


def test_ids_are_bounded_by_their_moment() -> None:
    moment = timezone.now()
    assert first_id_of(moment).int >> 80 == int(moment.timestamp() * 1000)
