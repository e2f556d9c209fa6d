"""Errors of the database: to operators the reason and what to look at, to logs its code."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import OperationalError
from psycopg.errors import DiskFull

from memoryhub.api.errors import problem_for
from memoryhub.doctor import Finding
from memoryhub.env import CHECKOUT
from memoryhub.management.commands import doctor
from memoryhub.runtime.postgres import explain_outage

REFUSED = OperationalError('connection failed: FATAL:  password authentication failed for user "u"\nmore')
AWAY = OperationalError("connection failed: Connection refused\n\tIs the server running?")


@pytest.mark.parametrize(
    ("url", "error", "advice"),
    [
        ("postgresql://u:p@h/name", REFUSED, "Check DATABASE_URL"),
        ("postgresql://u:p@h/name", AWAY, "Check DATABASE_URL"),
        ("", REFUSED, "It runs and refuses"),
        ("", AWAY, "`make run`"),
    ],
)
def test_the_reason_is_told_and_advice_that_fits(
    url: str, error: OperationalError, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", url)
    said = explain_outage(error)
    assert str(error).splitlines()[0] in said
    assert advice in said
    assert len(said.splitlines()) == 1


def test_doctor_tells_the_reason() -> None:
    def spending() -> Iterator[Finding]:
        raise REFUSED
        yield

    (finding,) = doctor._look(spending)
    assert (finding.subject, finding.level) == ("database", "broken")
    assert "password authentication failed" in finding.detail


def test_a_command_without_its_database_says_what_to_check(tmp_path: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "MEMORYHUB_DATA_DIR": str(tmp_path),
        "DATABASE_URL": "postgresql://u:secret@127.0.0.1:1/name",
    }
    said = subprocess.run(
        [sys.executable, CHECKOUT / "manage.py", "migrate"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    ).stderr
    assert "Check DATABASE_URL" in said
    assert "make run" not in said
    assert "secret" not in said
    assert "Traceback" not in said


def test_the_log_holds_the_code_and_not_the_text(caplog: pytest.LogCaptureFixture) -> None:
    error = OperationalError("could not extend file: what somebody said")
    error.__cause__ = DiskFull("what somebody said")
    with caplog.at_level(logging.WARNING):
        problem_for(error)
    (record,) = caplog.records
    assert record.sqlstate == "53100"  # type: ignore[attr-defined]
    assert "somebody" not in str(record.__dict__)
