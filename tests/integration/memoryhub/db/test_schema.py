"""Migrations: one host at a time, never over a schema that this release cannot migrate, and a wait for the others."""

import threading
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from memoryhub.db.schema import schema_problem, schema_turn, waiting_migrations
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
    assert schema_problem() == "" and waiting_migrations() == []
    MigrationRecorder(connection).record_applied("strength", "9999_later")
    MigrationRecorder(connection).record_applied("another_app", "0001_initial")
    for options in ([], ["--wait"], ["--check"]):
        with pytest.raises(CommandError, match=r"A newer release .*\(strength\.9999_later\)"):
            call_command("migrate", *options)


@pytest.fixture
def of_the_release_before() -> MigrationRecorder:
    """Record what the release before has applied, in place of the squashed migrations of this one."""
    recorder = MigrationRecorder(connection)
    for (app, name), migration in MigrationLoader(None).replacements.items():
        recorder.record_unapplied(app, name)
        for each in migration.replaces:
            recorder.record_applied(*each)
    return recorder


@pytest.mark.django_db
def test_the_schema_of_the_release_before_needs_no_change(of_the_release_before: MigrationRecorder) -> None:
    before = set(of_the_release_before.applied_migrations())
    assert schema_problem() == "" and waiting_migrations() == []
    call_command("migrate", verbosity=0)
    added = set(of_the_release_before.applied_migrations()) - before
    assert added and {name for _app, name in added} == {"0001_schema"}


@pytest.mark.django_db
def test_an_older_schema_names_the_release_to_run(of_the_release_before: MigrationRecorder) -> None:
    of_the_release_before.record_unapplied("strength", "0025_review_plans")
    with pytest.raises(
        CommandError, match=r"This database lacks strength\.0025_review_plans, .* the release before it"
    ):
        call_command("migrate")


@pytest.mark.django_db
def test_who_waits_applies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("sessions", "0001_initial")
    assert waiting_migrations() == ["sessions.0001_initial"]
    monkeypatch.setattr(migrate.time, "sleep", lambda _seconds: recorder.record_applied("sessions", "0001_initial"))
    out = StringIO()
    call_command("migrate", "--wait", stdout=out)
    assert "waits for its migrations" in out.getvalue() and waiting_migrations() == []
