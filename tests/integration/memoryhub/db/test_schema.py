"""Migrations: one host at a time, never over the schema of a newer release, and a wait for the others."""

import threading
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from memoryhub.db import schema
from memoryhub.db.schema import newer_migrations, schema_turn, waiting_migrations
from memoryhub.management.commands import migrate
from memoryhub.runtime.processes import wait_until


@pytest.mark.django_db(transaction=True)
def test_a_second_host_waits_and_says_so() -> None:
    said: list[str] = []
    entered = threading.Event()

    def second() -> None:
        try:
            with schema_turn(said.append):
                entered.set()
        finally:
            connection.close()

    with schema_turn(said.append):
        host = threading.Thread(target=second)
        host.start()
        assert wait_until(lambda: bool(said), timeout_seconds=30) and not entered.is_set()
    host.join(30)
    assert entered.is_set() and said == ["Another host changes the database; waiting for it."]


@pytest.mark.django_db
def test_the_schema_of_a_newer_release_is_refused() -> None:
    assert newer_migrations() == [] and waiting_migrations() == []
    MigrationRecorder(connection).record_applied("strength", "9999_later")
    MigrationRecorder(connection).record_applied("another_app", "0001_initial")
    assert newer_migrations() == ["strength.9999_later"]
    for options in ([], ["--wait"], ["--check"]):
        with pytest.raises(CommandError, match=r"A newer release .*strength\.9999_later"):
            call_command("migrate", *options)


@pytest.mark.django_db
def test_who_waits_applies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, last = MigrationRecorder(connection), waiting_until_applied()
    recorder.record_unapplied("memoryhub", last)
    assert waiting_migrations() == [f"memoryhub.{last}"]
    monkeypatch.setattr(migrate.time, "sleep", lambda _seconds: recorder.record_applied("memoryhub", last))
    out = StringIO()
    call_command("migrate", "--wait", stdout=out)
    assert "waits for its migrations" in out.getvalue() and waiting_migrations() == []


def waiting_until_applied() -> str:
    """Return the name of the latest migration of memoryhub."""
    executor = schema.MigrationExecutor(connection)
    return max(name for app, name in executor.loader.graph.leaf_nodes() if app == "memoryhub")
