"""Enqueueing with the change that causes it, and offering: who gets what, and what waits."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django.fixtures import Settings

from memoryhub.auth.access import ensure_actor
from memoryhub.jobs.context import QUERIES
from memoryhub.jobs.executor import claim
from memoryhub.jobs.hosts import MODEL
from memoryhub.jobs.models import Job, Worker
from memoryhub.jobs.queue import Offer, Order, enqueue, enqueue_all, enqueue_triggered, offer
from memoryhub.jobs.registry import KINDS, After, UnknownKind, job_kind
from memoryhub.jobs.status import ALIVE_WITHIN
from memoryhub.llm.config import LLMConfig
from memoryhub.tenancy.models import Agent

pytestmark = pytest.mark.django_db(transaction=True)


def in_threads(count: int, act: Callable[[], object]) -> list[object]:
    """Run the same at once in several threads with connections of their own."""
    results: list[object] = []
    barrier = threading.Barrier(count)

    def run() -> None:
        try:
            barrier.wait()
            results.append(act())
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_enqueue_refuses_a_kind_that_nobody_registered() -> None:
    with pytest.raises(UnknownKind, match=r"There is no job 'nonsense'; one of .*embed"):
        enqueue("nonsense")


def test_several_at_once_are_as_one_by_one() -> None:
    actor = ensure_actor(Agent.objects.create(agent_id="kana"), "")
    waiting = enqueue("nothing", actor_id=actor.id, key="a")
    with transaction.atomic(), CaptureQueriesContext(connection) as statements:
        enqueue_all(
            [Order("nothing", "a", {"n": 1}), Order("nothing", "b", {"n": 2}, 30), Order("note", "a", {"n": 3}, 0.5)],
            actor_id=actor.id,
        )
    assert len(statements) == 2
    jobs = {(job.kind, job.key): job for job in Job.objects.filter(actor=actor)}
    assert set(jobs) == {("nothing", "a"), ("nothing", "b"), ("note", "a")}
    assert jobs["nothing", "a"].pk == waiting
    assert (jobs["nothing", "b"].payload, jobs["note", "a"].payload) == ({"n": 2}, {"n": 3})
    assert jobs["nothing", "b"].due_at > timezone.now() + timedelta(seconds=20)
    with pytest.raises(UnknownKind):
        enqueue_all([Order("nonsense", "a")], actor_id=actor.id)


def test_several_at_once_from_eight_threads_are_one_of_each_key() -> None:
    actor = ensure_actor(Agent.objects.create(agent_id="kana"), "")
    orders = [Order("nothing", key) for key in "abc"]

    in_threads(
        8, lambda: [enqueue_all(orders[turn % 3 :] + orders[: turn % 3], actor_id=actor.id) for turn in range(20)]
    )

    assert sorted(Job.objects.values_list("key", flat=True)) == ["a", "b", "c"]


def test_what_follows_a_turn_needs_a_model_where_it_says_so(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor = ensure_actor(Agent.objects.create(agent_id="kana"), "")
    for name, kind in KINDS.items():
        monkeypatch.setitem(KINDS, name, replace(kind, after=()))
    for name, after in (("nothing", After("turn")), ("note", After("turn", key="actor", needs_model=True))):
        monkeypatch.setitem(KINDS, name, replace(KINDS[name], after=(after,)))
    session_id = uuid4()

    enqueue_triggered("turn", actor_id=actor.id, session_ids=[session_id])
    assert list(Job.objects.values_list("kind", "key")) == [("nothing", str(session_id))]

    settings.LLM = LLMConfig("openai", base_url="http://127.0.0.1:1/v1")
    enqueue_triggered("turn", actor_id=actor.id, session_ids=[session_id])
    assert sorted(Job.objects.values_list("kind", "key")) == [("note", "actor"), ("nothing", str(session_id))]


def test_a_job_is_gone_with_the_change_that_caused_it() -> None:
    with transaction.atomic():
        enqueue("nothing")
        transaction.set_rollback(True)

    assert not Job.objects.exists()


def test_one_of_a_key_waits_and_without_a_key_all_do() -> None:
    first, second = enqueue("nothing", key="a"), enqueue("nothing", key="a")
    enqueue("nothing", key="b")
    enqueue("note", key="a")
    actor = ensure_actor(Agent.objects.create(agent_id="kana"), "")
    enqueue("nothing", key="a", actor_id=actor.id)
    enqueue("nothing")
    enqueue("nothing")

    assert first == second
    assert Job.objects.count() == 6


def test_eight_at_once_of_a_key_make_one_job() -> None:
    ids = in_threads(8, lambda: enqueue("nothing", key="same"))

    assert len(set(ids)) == 1
    assert Job.objects.count() == 1


def test_a_trigger_while_its_like_runs_is_not_lost() -> None:
    first = enqueue("nothing", key="a")
    assert claim(Offer(first, "nothing"), job_kind("nothing"), worker=uuid4())
    second = enqueue("nothing", key="a")

    assert second != first
    assert offer(10) == []  # it waits for its like
    Job.objects.filter(pk=first).update(state="done", lease_until=None)
    assert [each.job_id for each in offer(10)] == [second]


def test_a_job_that_waits_does_not_begin_before_the_change_that_joined_it() -> None:
    """Otherwise it would look too early: at rows that are not committed yet."""
    enqueue("nothing", key="a")
    (offered,) = offer(10)
    inside, leave, order = threading.Event(), threading.Event(), []

    def join() -> None:
        with transaction.atomic():
            assert enqueue("nothing", key="a") == offered.job_id
            inside.set()
            leave.wait(60)
            order.append("committed")
        connection.close()

    thread = threading.Thread(target=join)
    thread.start()
    assert inside.wait(60)
    threading.Timer(0.2, leave.set).start()
    job = claim(offered, job_kind("nothing"), worker=uuid4())
    order.append("claimed")
    thread.join()

    assert job is not None
    assert order == ["committed", "claimed"]


def test_writers_who_join_by_turns_without_end_starve_no_job() -> None:
    """Each holds the job's key while the next one takes it, so that it is never free by itself."""
    enqueue("nothing", key="hot")
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            with transaction.atomic():
                enqueue("nothing", key="hot")
                time.sleep(0.02)
        connection.close()

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(0.1)
        (offered,) = offer(1)
        job = claim(offered, job_kind("nothing"), worker=uuid4())
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert job is not None


def test_an_offer_is_good_only_as_long_as_the_job_is_due_when_it_said() -> None:
    enqueue("nothing")
    (stale,) = offer(1)
    Job.objects.update(due_at=timezone.now() - timedelta(seconds=1))
    (fresh,) = offer(1)

    assert claim(stale, job_kind("nothing"), worker=uuid4()) is None
    assert claim(fresh, job_kind("nothing"), worker=uuid4()) is not None


def test_two_runs_of_a_key_never_overlap() -> None:
    first = enqueue("nothing", key="a")
    assert claim(Offer(first, "nothing"), job_kind("nothing"), worker=uuid4())
    second = enqueue("nothing", key="a")

    assert claim(Offer(second, "nothing"), job_kind("nothing"), worker=uuid4()) is None
    assert Job.objects.get(pk=second).state == "queued"


def test_an_offer_is_made_once_and_again_after_a_while() -> None:
    job_id = enqueue("nothing")

    assert [each.job_id for each in offer(5)] == [job_id]
    assert offer(5) == []
    Job.objects.update(due_at=timezone.now() - timedelta(seconds=1))
    assert [each.job_id for each in offer(5)] == [job_id]


def test_offers_go_to_one_worker_each() -> None:
    for _ in range(40):
        enqueue("nothing")
    offered = in_threads(8, lambda: offer(5))

    ids = [offer.job_id for each in offered for offer in each]  # type: ignore[attr-defined]
    assert len(ids) == len(set(ids)) == 40


def test_the_oldest_comes_first_and_what_is_delayed_waits() -> None:
    late = enqueue("nothing", delay_seconds=3600)
    first, second = enqueue("nothing"), enqueue("nothing")

    assert [each.job_id for each in offer(1)] == [first]
    assert [each.job_id for each in offer(5)] == [second]
    assert Job.objects.get(pk=late).state == "queued"


def test_a_bounded_kind_is_offered_and_claimed_no_more_often_than_allowed() -> None:
    ids = [enqueue("alone") for _ in range(8)]
    claims = iter(ids)
    lock = threading.Lock()

    def take() -> object:
        with lock:
            job_id = next(claims)
        return claim(Offer(job_id, "alone"), job_kind("alone"), worker=uuid4())

    assert sum(job is not None for job in in_threads(8, take)) == 1
    assert Job.objects.filter(state="running").count() == 1
    assert offer(10) == []


def test_jobs_that_ask_a_local_model_run_one_by_one_whatever_their_kind(settings: Settings) -> None:
    settings.LLM = replace(settings.LLM, parallel=1)
    first, second, other = enqueue("ask"), enqueue("ask_more"), enqueue("nothing")
    claimed = claim(Offer(first, "ask"), job_kind("ask"), worker=uuid4())
    assert claimed is not None

    assert claim(Offer(second, "ask_more"), job_kind("ask_more"), worker=uuid4()) is None
    Job.objects.update(due_at=timezone.now())
    assert [each.job_id for each in offer(10)] == [other]
    waiting = Job.objects.get(pk=second)
    assert (waiting.state, waiting.attempts) == ("queued", 0), "neither its deadline nor its attempts begin"

    claimed.finish(None)
    Job.objects.update(due_at=timezone.now())
    assert second in [each.job_id for each in offer(10)]
    assert claim(Offer(second, "ask_more"), job_kind("ask_more"), worker=uuid4()) is not None


def test_jobs_that_ask_a_vendor_run_side_by_side() -> None:
    jobs = [enqueue("ask") for _ in range(3)]

    assert all(claim(Offer(job, "ask"), job_kind("ask"), worker=uuid4()) for job in jobs)


def test_callers_take_turns() -> None:
    first = [enqueue("nothing", key=str(place), lane="busy") for place in range(300)]
    other = enqueue("nothing", key="other", lane="calm")
    offered = [each.job_id for each in offer(4)]
    assert other in offered and offered.count(first[0]) == 1, "a thousand jobs of one caller delay another's by one"
    assert [each.job_id for each in offer(2)] == first[3:5], "alone, a lane is served in order"


def test_what_runs_counts_as_a_turn() -> None:
    for place in range(5):
        enqueue("nothing", key=str(place), lane="busy")
    Job.objects.filter(pk__in=[each.job_id for each in offer(3)]).update(
        state="running", lease_until=timezone.now() + timedelta(minutes=1)
    )
    other = enqueue("nothing", key="other", lane="calm")
    assert [each.job_id for each in offer(1)] == [other]


def test_a_caller_that_comes_later_is_before_the_backlog_of_others() -> None:
    backlogs = {lane: [enqueue("nothing", key=f"{lane}{n}", lane=lane) for n in range(20)] for lane in ("a", "b")}
    late = enqueue("nothing", key="late", lane="late")
    offered = [each.job_id for each in offer(9)]
    assert late in offered[:3]
    assert [each in backlogs["a"] for each in offered if each != late] == [True, False] * 4, "by turns"


def test_events_of_many_sessions_are_turns_too() -> None:
    actor = ensure_actor(Agent.objects.create(agent_id="kana"), "")
    enqueue_all([Order("nothing", str(place)) for place in range(50)], actor_id=actor.id, lane="busy")
    other = enqueue("nothing", key="other", lane="calm")
    assert other in [each.job_id for each in offer(2)]


def test_a_kind_that_this_release_does_not_know_is_left_to_others() -> None:
    Job.objects.create(id=uuid4(), kind="later", due_at="2020-01-01T00:00Z")
    known = enqueue("nothing")
    assert [each.job_id for each in offer(5)] == [known]
    assert Job.objects.get(kind="later").due_at.year == 2020, "not offered, so another host may take it at once"


def test_jobs_for_a_model_are_left_to_a_host_that_has_one() -> None:
    asking, other = enqueue("ask"), enqueue("nothing")
    able = Worker.objects.create(id=uuid4(), host="b", pid=1, settings={MODEL: "openai small"})
    assert [each.job_id for each in offer(5)] == [other]
    Worker.objects.filter(pk=able.pk).update(seen_at=Now() - 2 * ALIVE_WITHIN)
    assert [each.job_id for each in offer(5)] == [asking], "no living host has a model: the job says so"


def pages_read(lanes: int) -> int:
    """Return how many pages an offer reads, of 4,000 due jobs of so many callers."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO memoryhub_job (id, kind, key, payload, lane, turn_at, state, attempts, excused, due_at, error) "
            "SELECT gen_random_uuid(), 'nothing', '', '{}', n %% %s, now() + n / %s * interval '10 s', 'queued', 0, 0, "
            "now(), '' FROM generate_series(1, 4000) AS n",
            [lanes, lanes],
        )
        cursor.execute("ANALYZE memoryhub_job")
        values = {"count": 4, "for_seconds": 10, "limits": [], "kinds": [], "most": [], "known": ["nothing"]}
        values["without_model"] = []
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {QUERIES['offer']}", values)
        [[plan]] = cursor.fetchone()
        transaction.set_rollback(True)
    return int(plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"])


def test_an_offer_does_not_read_more_where_more_callers_wait() -> None:
    assert pages_read(2_000) < 2 * pages_read(1)
