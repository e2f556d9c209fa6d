"""Done once or visibly dead: claims, fences, lost workers, errors."""

import threading
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError, connection
from django.utils import timezone
from django_q.exceptions import TimeoutException

from memoryhub.auth.access import ensure_actor
from memoryhub.auth.actions import retry_jobs
from memoryhub.auth.principals import command
from memoryhub.jobs import executor
from memoryhub.jobs.context import JobContext, LeaseLost, renew_lease
from memoryhub.jobs.executor import claim, give_up_on, hand_back, release_expired
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Offer, enqueue
from memoryhub.jobs.registry import job_kind
from memoryhub.jobs.retries import Attempts, State
from memoryhub.tenancy.models import Agent
from tests.integration.memoryhub.jobs.doings import SECRET
from tests.integration.memoryhub.jobs.test_queue import in_threads

pytestmark = pytest.mark.django_db(transaction=True)
WORKER = uuid4()


def taken(of_kind: str, *, worker: UUID = WORKER, **payload: object) -> JobContext:
    job = claim(Offer(enqueue(of_kind, payload=payload), of_kind), job_kind(of_kind), worker=worker)
    assert job is not None
    return job


def again(job: JobContext, *, worker: UUID | None = None) -> JobContext:
    following = claim(Offer(job.id, job.kind), job_kind(job.kind), worker=worker or uuid4())
    assert following is not None
    return following


def lose(job: JobContext) -> None:
    """Let the lease run out."""
    Job.objects.filter(pk=job.id).update(lease_until=timezone.now() - timedelta(seconds=1))


def run_all() -> None:
    """Run what is queued, due or not."""
    for job in Job.objects.filter(state="queued").order_by("id"):
        executor.run(Offer(job.id, job.kind), worker=WORKER)


def test_sixteen_claims_of_one_job_give_it_to_one() -> None:
    job_id = enqueue("nothing")
    claims = in_threads(16, lambda: claim(Offer(job_id, "nothing"), job_kind("nothing"), worker=uuid4()))

    assert sum(job is not None for job in claims) == 1
    assert Job.objects.get().attempts == 1


def test_the_attempt_counts_before_the_work() -> None:
    job = taken("nothing")

    assert (job.attempt, Job.objects.get().attempts) == (1, 1)
    assert claim(Offer(job.id, "nothing"), job_kind("nothing"), worker=uuid4()) is None


def test_effects_and_being_done_are_one() -> None:
    enqueue("note", payload={"name": "made"})
    run_all()
    job = Job.objects.get()

    assert (job.state, job.attempts, job.lease_until, job.error) == ("done", 1, None, "")
    assert job.finished_at is not None
    assert Agent.objects.filter(agent_id="made").count() == 1


def test_a_late_finisher_is_refused_and_the_new_one_stands() -> None:
    late = taken("note", name="late")
    lose(late)
    assert release_expired() == 1
    new = again(late)
    new.finish(lambda: Agent.objects.create(agent_id="new"))

    with pytest.raises(LeaseLost):
        late.finish(lambda: Agent.objects.create(agent_id="late"))
    with pytest.raises(LeaseLost):
        late.finish(None)
    with pytest.raises(LeaseLost), late.step():
        Agent.objects.create(agent_id="late")
    assert not late.renew()
    assert list(Agent.objects.values_list("agent_id", flat=True)) == ["new"]
    assert Job.objects.get().state == "done"


def test_a_result_is_refused_once_the_lease_ran_out_though_nobody_took_over() -> None:
    job = taken("note", name="late")
    lose(job)

    with pytest.raises(LeaseLost):
        job.finish(lambda: Agent.objects.create(agent_id="late"))
    assert not Agent.objects.exists()


def test_another_worker_with_the_same_number_is_refused() -> None:
    """A crash of the database may undo a claim that did not wait for the disk; the next draws its number again."""
    forgotten = taken("note", name="x")
    Job.objects.update(state="queued", attempts=0, lease_until=None, worker=None)
    following = again(forgotten)

    assert following.attempt == forgotten.attempt
    with pytest.raises(LeaseLost):
        forgotten.finish(lambda: Agent.objects.create(agent_id="x"))
    following.finish(None)


def test_renewing_keeps_a_job() -> None:
    job = taken("nothing")
    Job.objects.update(lease_until=timezone.now() + timedelta(seconds=30))

    assert job.renew()
    assert Job.objects.get().lease_until > timezone.now() + timedelta(seconds=50)  # type: ignore[operator]
    assert release_expired() == 0


def test_a_thread_renews_while_the_work_goes_on(settings: object) -> None:
    job = taken("nothing")
    job.lease_seconds = 2
    before = Job.objects.get().lease_until
    renewed = threading.Event()
    renew = job.renew
    job.renew = lambda: bool(renew() and (renewed.set() or True))  # type: ignore[method-assign]
    with renew_lease(job):
        assert renewed.wait(60)

    assert Job.objects.get().lease_until != before


def test_a_job_is_dead_after_three_lost_workers() -> None:
    job = taken("nothing")
    for state in ("queued", "queued", "dead"):
        lose(job)
        assert release_expired() == 1
        assert Job.objects.get().state == state
        if state == "queued":
            job = again(job)
    row = Job.objects.get()
    assert (row.attempts, row.lease_until) == (3, None)
    assert "worker was lost" in row.error
    assert row.finished_at is not None


def test_what_a_dead_worker_held_does_not_wait_for_the_lease() -> None:
    taken("nothing")
    other = taken("nothing", worker=uuid4())

    assert give_up_on(WORKER) == 1
    assert set(Job.objects.values_list("state", "excused")) == {("queued", 0), ("running", 0)}
    assert Job.objects.get(pk=other.id).state == "running"


def test_what_a_worker_gives_back_does_not_count_and_is_due_at_once() -> None:
    job = taken("nothing")

    assert hand_back(WORKER) == 1
    row = Job.objects.get()
    assert (row.state, row.attempts, row.excused) == ("queued", 1, 1)
    assert row.due_at <= timezone.now()
    with pytest.raises(LeaseLost):
        job.finish(None)


def test_steps_go_on_where_a_break_left_them() -> None:
    enqueue("steps", payload={"breaks_at": 2})
    run_all()
    broken = Job.objects.get()
    assert (broken.state, broken.cursor, broken.progress) == ("queued", 2, {"done": 2, "total": 3})
    assert Agent.objects.count() == 2
    run_all()

    assert Job.objects.get().state == "done"
    assert sorted(Agent.objects.values_list("agent_id", flat=True)) == ["step-0", "step-1", "step-2"]


@pytest.mark.parametrize(
    ("how", "state", "excused", "pause"),
    [
        ("broken", "queued", 0, 2),
        ("refused", "failed", 0, None),
        ("away", "queued", 1, 90),
        ("later", "queued", 1, 700),
    ],
)
def test_an_error_decides_what_becomes_of_the_job(how: str, state: str, excused: int, pause: float | None) -> None:
    enqueue("fails", payload={"how": how})
    run_all()
    job = Job.objects.get()

    assert (job.state, job.attempts, job.excused) == (state, 1, excused)
    if pause is not None:
        assert abs((job.due_at - timezone.now()).total_seconds() - pause) < 30
    assert job.error


def test_errors_are_told_without_what_they_quote() -> None:
    enqueue("fails", payload={"how": "broken"})
    run_all()

    error = Job.objects.get().error
    assert error.startswith("KeyError at tests/integration/memoryhub/jobs/doings.py:")
    assert SECRET not in error


def test_a_deadline_that_passed_is_a_broken_attempt() -> None:
    error = TimeoutException("Task exceeded maximum timeout value (3 seconds)")
    verdict = executor.outcome_of(error, Attempts(1, 0, timedelta(0)))

    assert verdict.state is State.QUEUED
    assert not verdict.is_excused
    assert executor.error_text(error) == "It took longer than its kind's deadline_seconds."


def test_a_job_whose_kind_is_gone_waits_for_it() -> None:
    job_id = enqueue("nothing")
    Job.objects.update(kind="gone")
    executor.run(Offer(job_id, "gone"), worker=WORKER)

    assert (Job.objects.get().state, Job.objects.get().attempts) == ("queued", 0)


def test_a_job_of_somebody_who_was_erased_writes_nothing() -> None:
    actor = ensure_actor(Agent.objects.create(agent_id="kana"), "hiroki")
    job_id = enqueue("note", actor_id=actor.id, payload={"name": "x"})
    job = claim(Offer(job_id, "note"), job_kind("note"), worker=WORKER)
    assert job is not None
    actor.delete()

    with pytest.raises(LeaseLost):
        job.finish(lambda: Agent.objects.create(agent_id="x"))
    assert not Agent.objects.filter(agent_id="x").exists()


def test_a_broken_write_leaves_nothing_and_the_job_is_tried_again() -> None:
    Agent.objects.create(agent_id="there")
    enqueue("note", payload={"name": "there"})
    run_all()

    assert Job.objects.get().state == "queued"
    assert "IntegrityError" in Job.objects.get().error
    assert connection.is_usable()


def test_writes_that_outlast_the_lease_count_for_the_row_was_held() -> None:
    job = taken("note")

    def write() -> None:
        Job.objects.filter(pk=job.id).update(lease_until=timezone.now() - timedelta(seconds=1))
        Agent.objects.create(agent_id="slow")

    job.finish(write)

    assert Agent.objects.filter(agent_id="slow").exists()
    assert Job.objects.get().state == "done"


def test_patience_begins_with_the_first_excuse_and_anew_when_a_person_sends_back() -> None:
    enqueue("fails", payload={"how": "away"})
    Job.objects.update(created_at=timezone.now() - timedelta(days=30))
    run_all()
    assert Job.objects.get().state == "queued", "waiting long for its turn is no excuse used up"
    Job.objects.update(excused_since=timezone.now() - timedelta(days=4))
    run_all()
    assert Job.objects.get().state == "dead"

    retry_jobs(job_ids=[Job.objects.get().pk], by=command("test"), now=timezone.now())
    run_all()
    assert Job.objects.get().state == "queued"


def test_where_the_database_goes_away_the_job_is_released_once_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    enqueue("loses_database", payload={"seconds": 1.2})
    run_all()
    job = Job.objects.get()
    assert (job.state, job.attempts, job.lease_until, job.error) == ("queued", 1, None, executor.WORKER_LOST)
    assert job.due_at < timezone.now() + timedelta(seconds=5)
    assert "database away" in caplog.text and SECRET not in caplog.text


def test_where_the_database_stays_away_the_lease_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*args: object, **options: object) -> None:
        raise OperationalError("the database quotes: " + SECRET)

    enqueue("fails", payload={"how": "broken"})
    monkeypatch.setattr(executor, "release", away)
    monkeypatch.setattr(executor, "give_up_on", away)
    monkeypatch.setattr(executor, "AWAY_SECONDS", 0.6)
    run_all()

    assert SECRET not in caplog.text
    assert Job.objects.get().state == "running"
