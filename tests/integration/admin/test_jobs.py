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

from memoryhub.admin.columns import owner_chips
from memoryhub.admin.labels import JOBS
from memoryhub.auth.access import ensure_actor
from memoryhub.auth.actions import CANCELLED
from memoryhub.auth.models import AuditEntry
from memoryhub.jobs.executor import run
from memoryhub.jobs.models import Job, Worker
from memoryhub.jobs.queue import enqueue, offer_of
from memoryhub.jobs.registry import KINDS
from memoryhub.jobs.status import QueueHealth, jobs_status
from memoryhub.maintenance_jobs import DONE_RETENTION, FAILED_RETENTION, SCHEDULED_RETENTION
from memoryhub.tenancy.models import Agent
from tests.conftest import run_jobs

LIST = "/admin/memoryhub/job/"
pytestmark = pytest.mark.django_db


def job(state: str, **values: object) -> Job:
    ended = timezone.now() if state in {"done", "failed", "dead"} else None
    return Job.objects.create(
        **{"kind": "embed", "state": state, "due_at": timezone.now(), "finished_at": ended, "attempts": 3, **values}
    )


def test_jobs_are_called_by_agent_and_user_and_by_kind_and_time(admin_client: Client) -> None:
    made = job("queued", actor=ensure_actor(Agent.objects.create(agent_id="kana"), "mio"), key="one")
    assert isinstance(made, Job) and made.actor
    chips = owner_chips("kana", "mio")
    for address in (LIST, f"{LIST}{made.pk}/change/"):
        text = admin_client.get(address).content.decode()
        assert chips in text and str(made.actor) not in text
    assert ">Embed an actor’s texts, " in text and str(made) not in text


def worker(seen_ago: timedelta) -> Worker:
    return Worker.objects.create(id=uuid4(), host="here", pid=1, seen_at=timezone.now() - seen_ago)


def decide(client: Client, verb: str, *jobs: Job, confirmed: bool = True, **values: str) -> str:
    data = {"action": verb, "_selected_action": [str(each.pk) for each in jobs], **values}
    answer = client.post(LIST, {**data, **({"confirmed": "1"} if confirmed else {})}, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def retry(client: Client, *jobs: Job) -> str:
    return decide(client, "retry", *jobs)


def button(row: Job, verb: str) -> str:
    return reverse(f"admin:memoryhub_job_{verb}", args=[row.pk])


def test_what_ended_badly_is_sent_back_and_the_rest_is_left(boss: Client) -> None:
    dead, failed, done = job("dead", error="It broke"), job("failed"), job("done")
    page = retry(boss, dead, failed, done)

    assert "2 jobs are queued again. 1 had not failed and is left unchanged." in page
    dead.refresh_from_db()
    assert (dead.state, dead.attempts, dead.excused, dead.finished_at) == ("queued", 3, 3, None)
    assert Job.objects.get(pk=done.pk).state == "done"
    assert AuditEntry.objects.filter(verb="retry", object_kind="job", who_kind="curator").count() == 2


def test_who_may_only_look_decides_nothing(staff: Callable[..., Client]) -> None:
    dead, queued = job("dead"), job("queued")
    browser = staff("view_job")
    retry(browser, dead)
    decide(browser, "cancel", queued)
    assert browser.post(button(dead, "retry")).status_code == 403
    assert browser.post(button(queued, "cancel")).status_code == 403

    assert sorted(Job.objects.values_list("state", flat=True)) == ["dead", "queued"]
    assert "decide-form" not in browser.get(reverse("admin:memoryhub_job_change", args=[dead.pk])).content.decode()


def test_nothing_is_done_before_the_question_that_counts(boss: Client) -> None:
    rows = [job("dead", error=f"Cause {number}") for number in range(7)]
    page = decide(boss, "retry", *rows, job("done"), confirmed=False)

    assert "7 jobs are queued again" in page and "1 had not failed" in page
    assert "Cause" in page and "and 2 more" in page
    assert Job.objects.filter(state="dead").count() == 7


def test_a_question_about_nothing_has_no_button(boss: Client) -> None:
    page = decide(boss, "cancel", job("done"), confirmed=False)
    assert "confirm-form" not in page and "1 is not queued" in page


def test_one_job_is_sent_back_from_its_page_and_taken_out_again_by_undo(boss: Client) -> None:
    dead = job("dead", error="It broke")
    assert button(dead, "retry") in boss.get(reverse("admin:memoryhub_job_change", args=[dead.pk])).content.decode()
    page = boss.post(button(dead, "retry"), {"reason": "mended"}, follow=True).content.decode()
    assert "1 job is queued again." in page and f'action="{button(dead, "cancel")}"' in page
    assert "mended" in page
    dead.refresh_from_db()
    assert dead.state == "queued"
    boss.post(button(dead, "cancel"))
    dead.refresh_from_db()
    assert dead.state == "failed" and dead.finished_at is not None


def test_a_job_taken_out_can_be_sent_back_beside_one_of_the_same_key(boss: Client) -> None:
    first = Job.objects.get(pk=enqueue("embed_missing", key="same"))
    page = decide(boss, "cancel", first, reason="not now")
    assert "1 job was cancelled." in page
    first.refresh_from_db()
    assert (first.state, first.error) == ("failed", CANCELLED) and first.attempts == first.excused
    second = enqueue("embed_missing", key="same")
    assert second != first.pk
    retry(boss, first)
    for key in (first.pk, second):
        offered = offer_of(key)
        assert offered is not None
        run(offered, worker=uuid4())
    assert set(Job.objects.values_list("state", flat=True)) == {"done"}
    entry = AuditEntry.objects.get(verb="cancel")
    assert (entry.object_id, entry.reason, entry.who_name) == (str(first.pk), "not now", "boss")


def test_running_jobs_are_not_taken_out(boss: Client) -> None:
    running = job("running", lease_until=timezone.now() + timedelta(minutes=1))
    page = boss.post(button(running, "cancel"), follow=True).content.decode()
    assert "is not queued" in page
    running.refresh_from_db()
    assert running.state == "running" and not AuditEntry.objects.exists()


def test_buttons_take_no_get(boss: Client) -> None:
    dead = job("dead")
    assert boss.get(button(dead, "retry")).status_code == 405
    assert boss.get(button(dead, "cancel")).status_code == 405


def test_every_kind_of_job_has_words() -> None:
    assert set(JOBS) == set(KINDS)


def test_presets_count_and_lead_to_their_jobs(boss: Client) -> None:
    job("dead", error="One that is dead")
    job("failed", error="One that failed")
    page = boss.get(LIST).content.decode()
    assert "Failed or dead (2)" in page and "Dead letters (1)" in page and "Queued (0)" in page
    dead = boss.get(f"{LIST}?state__exact=dead").content.decode()
    assert "One that is dead" in dead and "One that failed" not in dead


def test_idle_is_told_from_down(boss: Client) -> None:
    page = boss.get(LIST).content.decode()
    assert (
        "No worker is running (none was ever seen)" in page and "may be down" in page and "manage.py run_worker" in page
    )
    worker(timedelta(minutes=2))
    assert "No worker is running (the last was seen at" in boss.get(LIST).content.decode()
    worker(timedelta(seconds=2))
    assert "1 worker, idle: 0 jobs wait" in boss.get(LIST).content.decode()


@pytest.mark.parametrize(
    ("waits", "runs", "health"),
    [
        (None, False, QueueHealth.IDLE),
        (timedelta(seconds=5), False, QueueHealth.WORKING),
        (None, True, QueueHealth.WORKING),
        (timedelta(minutes=6), True, QueueHealth.BEHIND),
        (timedelta(minutes=-5), False, QueueHealth.IDLE),
    ],
)
def test_health_of_the_queue(waits: timedelta | None, runs: bool, health: QueueHealth) -> None:
    now = timezone.now()
    worker(timedelta(0))
    if waits is not None:
        job("queued", due_at=now - waits)
    if runs:
        job("running", lease_until=now)

    assert jobs_status(now).health is health


@pytest.mark.parametrize("wrong_by", [timedelta(days=-9_000), timedelta(days=9_000)])
def test_workers_are_counted_at_any_clock_of_the_web_server(boss: Client, wrong_by: timedelta) -> None:
    worker(timedelta(0))
    worker(timedelta(minutes=2))
    assert jobs_status(timezone.now() + wrong_by).workers == 1


def test_first_page_shows_what_ended_badly_before_what_waits(boss: Client) -> None:
    job("dead", error="One that is dead")
    job("failed", error="One that failed")
    job("queued")
    assert "no workers" in boss.get("/admin/").content.decode()
    worker(timedelta(0))
    page = boss.get("/admin/").content.decode()
    assert "failed or dead" in page
    assert f"{LIST}?state__in=failed,dead" in page
    listed = boss.get(f"{LIST}?state__in=failed,dead").content.decode()
    assert "One that is dead" in listed
    assert "One that failed" in listed
    assert "2 in all" in listed


def test_a_jobs_page_tells_what_went_wrong(boss: Client) -> None:
    dead = job("dead", error="KeyError at somewhere.py:3")
    page = boss.get(reverse("admin:memoryhub_job_change", args=[dead.pk])).content.decode()

    assert "KeyError at somewhere.py:3" in page


def test_screens_that_would_run_code_are_not_there() -> None:
    assert not any(admin.site.is_registered(model) for model in (Schedule, OrmQ))


def test_old_jobs_are_forgotten() -> None:
    now, day = timezone.now(), timedelta(days=1)
    kept = [
        job("done", finished_at=now - DONE_RETENTION + day),
        job("dead", finished_at=now - FAILED_RETENTION + day),
        job("queued", due_at=now + day, created_at=now - timedelta(days=400)),
    ]
    job("done", finished_at=now - DONE_RETENTION - day)
    job("done", finished_at=now - SCHEDULED_RETENTION - day, key="schedule:every minute")
    job("failed", finished_at=now - FAILED_RETENTION - day)
    worker(timedelta(days=2))
    own = enqueue("forget_old_jobs")
    run_jobs()

    assert set(Job.objects.values_list("pk", flat=True)) == {own, *(each.pk for each in kept)}
    assert not Worker.objects.exists()
