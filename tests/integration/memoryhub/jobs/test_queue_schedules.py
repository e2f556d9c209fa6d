"""Each time of a schedule once: three schedulers, three missed days, a clock that was set back."""

from dataclasses import replace
from datetime import time, timedelta
from typing import Any

import pytest
from django.utils import timezone

from memoryhub.jobs.models import Job, ScheduleState
from memoryhub.jobs.queue import fire_due
from memoryhub.jobs.registry import KINDS, Schedule, job
from memoryhub.jobs.retries import Daily, Every
from tests.integration.memoryhub.jobs.doings import nothing
from tests.integration.memoryhub.jobs.test_queue import in_threads

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def schedules(test_kinds: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, kind in KINDS.items():
        monkeypatch.setitem(KINDS, name, replace(kind, schedule=None))
    for name, schedule in (
        ("nothing", Schedule("every minute", Every(60))),
        ("note", Schedule("at night", Daily(time(3, 15)))),
    ):
        monkeypatch.setitem(KINDS, name, replace(KINDS[name], schedule=schedule))


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


@pytest.mark.parametrize("wrong", [{"every_seconds": 0}, {"daily_at": "03:00+09:00"}])
def test_a_wrong_registration_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        job("wrong", **wrong)(nothing)
    assert "wrong" not in KINDS


def test_a_second_job_of_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="two jobs 'nothing'"):
        job("nothing")(nothing)
