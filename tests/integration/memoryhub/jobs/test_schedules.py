"""Each time of a schedule once: three schedulers, three missed days, a clock that was set back."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.checks import run_checks
from django.utils import timezone

from memoryhub.jobs import registry
from memoryhub.jobs.models import Job, ScheduleState
from memoryhub.jobs.schedules import fire_due
from tests.integration.memoryhub.jobs.test_queue import in_threads

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def schedules(settings: Any) -> None:
    settings.SCHEDULES = {
        "every minute": {"job": "nothing", "every_seconds": 60},
        "at night": {"job": "note", "daily_at": "03:15"},
    }


def be_due(by: timedelta) -> None:
    fire_due()
    ScheduleState.objects.update(next_at=timezone.now() - by)


def test_a_new_schedule_begins_at_its_next_time() -> None:
    assert fire_due() == []
    assert not Job.objects.exists()
    assert ScheduleState.objects.filter(next_at__gt=timezone.now()).count() == 2


@pytest.mark.parametrize("missed", [timedelta(seconds=1), timedelta(days=3)])
def test_three_schedulers_fire_once_whatever_was_missed(missed: timedelta) -> None:
    be_due(missed)
    in_threads(3, fire_due)
    in_threads(3, fire_due)

    assert sorted(Job.objects.values_list("kind", flat=True)) == ["note", "nothing"]
    assert ScheduleState.objects.filter(next_at__gt=timezone.now(), last_at__isnull=False).count() == 2


def test_a_schedule_far_ahead_after_the_clock_was_set_back_is_found_again() -> None:
    fire_due()
    ScheduleState.objects.update(next_at=timezone.now() + timedelta(days=400))
    assert fire_due() == []

    assert not Job.objects.exists()
    assert ScheduleState.objects.filter(next_at__lte=timezone.now() + timedelta(days=1)).count() == 2


def test_a_schedule_whose_last_job_still_waits_adds_none() -> None:
    be_due(timedelta(seconds=1))
    fire_due()
    ScheduleState.objects.update(next_at=timezone.now() - timedelta(seconds=1))
    fire_due()

    assert Job.objects.count() == 2


def test_wrong_lines_are_told_at_the_start(settings: Any) -> None:
    settings.JOB_KINDS = {
        "lost": {"run": "nowhere.at_all"},
        "hasty": {"run": "memoryhub.jobs.tasks.ping", "lease_seconds": 1},
        "none": {"run": "memoryhub.jobs.tasks.ping", "at_once": 0},
        "float": {"run": "memoryhub.jobs.tasks.ping", "deadline_seconds": 1.5},
        "misspelt": {"run": "memoryhub.jobs.tasks.ping", "leese_seconds": 5},
    }
    settings.SCHEDULES = {
        "a": {"job": "unknown", "every_seconds": 5},
        "b": {"job": "lost"},
        "c": {"job": "lost", "daily_at": "03:00+09:00"},
        "d" * 65: {"job": "lost", "every_seconds": 5},
    }
    registry.job_kinds.cache_clear()
    told = [
        (problem.id, problem.msg)
        for problem in run_checks()
        if problem.id in {"memoryhub.E004", "memoryhub.E005"}
    ]

    assert [each for each, _ in told] == ["memoryhub.E004"] * 5 + ["memoryhub.E005"] * 4
    assert "JOB_KINDS['lost']: No module named 'nowhere'" in told[0][1]
    assert "JOB_KINDS['misspelt']: got an unexpected keyword argument 'leese_seconds'." in told[4][1]
    assert "SCHEDULES['a']: JOB_KINDS has no 'unknown'" in told[5][1]
