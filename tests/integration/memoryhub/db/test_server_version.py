"""The server's version, and the quarterly releases that it lacks."""

from dataclasses import replace
from datetime import date

import pytest
from django.conf import settings
from django.test import override_settings

from memoryhub import doctor
from memoryhub.db.server_version import scheduled_minor, server_version
from memoryhub.doctor import Level


@pytest.mark.parametrize(
    ("major", "today", "minor"),
    [
        (18, date(2025, 10, 1), 0),
        (18, date(2025, 11, 12), 0),
        (18, date(2025, 11, 13), 1),  # 18.1 was released on this day
        (17, date(2025, 11, 13), 5),  # 17.7 was, after two releases out of schedule
        (16, date(2024, 5, 9), 3),  # 16.3 was
        (18, date(2026, 11, 30), 5),
        (19, date(2026, 1, 1), 0),
    ],
)
def test_scheduled_releases(major: int, today: date, minor: int) -> None:
    assert scheduled_minor(major, today) == minor


@pytest.mark.django_db
def test_a_server_that_lacks_fixes_is_a_warning_with_a_remedy() -> None:
    major, minor, text = server_version()
    assert text.startswith(f"{major}.{minor}")
    fresh = doctor._server_version(date(2007 + major, 10, 1))
    assert (fresh.level, fresh.detail) == (Level.FINE, f"version {text}")
    old = doctor._server_version(date(2040, 1, 1))
    assert old.level is Level.WARNING and "quarterly releases" in old.detail


@pytest.mark.django_db
@pytest.mark.parametrize(("url", "remedy"), [(None, "external-database.md"), ("postgresql://x", "update that server")])
def test_the_remedy_depends_on_the_server(url: str | None, remedy: str) -> None:
    environment = replace(settings.ENVIRONMENT, database_url=url)
    with override_settings(ENVIRONMENT=environment):
        assert remedy in doctor._server_version(date(2040, 1, 1)).detail
