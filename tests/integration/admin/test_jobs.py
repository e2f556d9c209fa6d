"""The screens of the background: what ended badly is seen and sent back; "idle" is not "down"."""

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_q.models import OrmQ, Schedule

from memoryhub.access.models import AuditEntry
from memoryhub.jobs.forgetting import DONE_KEPT, ENDED_BADLY_KEPT, SCHEDULED_KEPT
from memoryhub.jobs.models import Crew, Job
from memoryhub.jobs.queue import enqueue
from memoryhub.jobs.watching import Mood, background
from tests.conftest import run_jobs

LIST = "/admin/memoryhub/job/"
pytestmark = pytest.mark.django_db


def job(state: str, **values: object) -> Job:
    ended = timezone.now() if state in {"done", "failed", "dead"} else None
    return Job.objects.create(
        **{
            "kind": "embed",
            "state": state,
            "due_at": timezone.now(),
            "finished_at": ended,
            "attempts": 3,
            **values,
        }
    )


def crew(seen_ago: timedelta) -> Crew:
    return Crew.objects.create(id=uuid4(), host="here", pid=1, seen_at=timezone.now() - seen_ago)


def send_back(client: Client, *jobs: Job) -> str:
    answer = client.post(
        LIST, {"action": "send_back", "_selected_action": [str(each.pk) for each in jobs]}, follow=True
    )
    assert answer.status_code == 200
    return answer.content.decode()


def test_what_ended_badly_is_sent_back_and_the_rest_is_left(boss: Client) -> None:
    dead, failed, done = job("dead", error="It broke"), job("failed"), job("done")
    page = send_back(boss, dead, failed, done)

    assert "2 jobs were sent back. 1 had not ended badly and stays as it is." in page
    dead.refresh_from_db()
    assert (dead.state, dead.attempts, dead.excused, dead.finished_at) == ("queued", 3, 3, None)
    assert Job.objects.get(pk=done.pk).state == "done"
    assert AuditEntry.objects.filter(verb="retry", object_kind="job", who_kind="curator").count() == 2


def test_only_administrators_send_back(staff: Callable[..., Client]) -> None:
    dead = job("dead")
    send_back(staff("view_job"), dead)

    assert Job.objects.get().state == "dead"


def test_idle_is_told_from_down(boss: Client) -> None:
    assert "No worker is there (none was ever seen)" in boss.get(LIST).content.decode()
    crew(timedelta(minutes=2))
    assert "No worker is there (the last was seen at" in boss.get(LIST).content.decode()
    crew(timedelta(seconds=2))
    assert "1 workers, idle: 0 jobs wait" in boss.get(LIST).content.decode()


@pytest.mark.parametrize(
    ("waits", "runs", "mood"),
    [(None, False, Mood.IDLE), (timedelta(seconds=5), False, Mood.WORKING), (None, True, Mood.WORKING),
     (timedelta(minutes=6), True, Mood.BEHIND), (timedelta(minutes=-5), False, Mood.IDLE)],
)  # fmt: skip
def test_moods(waits: timedelta | None, runs: bool, mood: Mood) -> None:
    now = timezone.now()
    crew(timedelta(0))
    if waits is not None:
        job("queued", due_at=now - waits)
    if runs:
        job("running", lease_until=now)

    assert background(now).mood is mood


def test_first_page_shows_what_ended_badly_before_what_waits(boss: Client) -> None:
    job("dead", error="One that is dead")
    job("failed", error="One that failed")
    job("queued")
    assert "no worker is there" in boss.get("/admin/").content.decode()
    crew(timedelta(0))
    page = boss.get("/admin/").content.decode()
    assert "ended badly" in page
    assert f"{LIST}?state__in=failed,dead" in page
    listed = boss.get(f"{LIST}?state__in=failed,dead").content.decode()
    assert "One that is dead" in listed
    assert "One that failed" in listed
    assert "2 results" in listed


def test_a_jobs_page_tells_what_went_wrong(boss: Client) -> None:
    dead = job("dead", error="KeyError at somewhere.py:3")
    page = boss.get(reverse("admin:memoryhub_job_change", args=[dead.pk])).content.decode()

    assert "KeyError at somewhere.py:3" in page


def test_screens_that_would_run_code_are_not_there() -> None:
    assert not any(admin.site.is_registered(model) for model in (Schedule, OrmQ))


def test_old_jobs_are_forgotten() -> None:
    now, day = timezone.now(), timedelta(days=1)
    kept = [
        job("done", finished_at=now - DONE_KEPT + day),
        job("dead", finished_at=now - ENDED_BADLY_KEPT + day),
        job("queued", due_at=now + day, created_at=now - timedelta(days=400)),
    ]
    job("done", finished_at=now - DONE_KEPT - day)
    job("done", finished_at=now - SCHEDULED_KEPT - day, key="schedule:every minute")
    job("failed", finished_at=now - ENDED_BADLY_KEPT - day)
    crew(timedelta(days=2))
    own = enqueue("forget_old_jobs")
    run_jobs()

    assert set(Job.objects.values_list("pk", flat=True)) == {own, *(each.pk for each in kept)}
    assert not Crew.objects.exists()
