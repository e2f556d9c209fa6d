"""Eight triggers at once for each of several sessions: one version per trigger, none missed (SPEC U5)."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from memoryhub.jobs.executor import run
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import Offer, enqueue
from summaries.models import Summary, SummaryVersion
from tests.conftest import client_with_key
from tests.fakes.llm_server import LLMServer, Reply
from tests.integration.summaries.conftest import Talk, open_talk, seqs_in

THREADS = 8
SESSIONS = 6

pytestmark = pytest.mark.django_db(transaction=True)


def run_at_once(jobs: list[UUID]) -> None:
    """Run these jobs in threads that start together, each with a connection of its own."""
    barrier = threading.Barrier(len(jobs))

    def work(job_id: UUID) -> None:
        try:
            barrier.wait(timeout=60)
            run(Offer(job_id, "summarize"), worker=uuid4())
        finally:
            connection.close()

    with ThreadPoolExecutor(len(jobs)) as pool:
        list(pool.map(work, jobs))


def run_until_done(jobs: list[UUID]) -> None:
    """Run jobs at once, and those that were overtaken again, as a worker would."""
    while jobs:
        run_at_once(jobs)
        Job.objects.filter(pk__in=jobs, state="queued").update(due_at=timezone.now())
        jobs = list(Job.objects.filter(pk__in=jobs, state="queued").values_list("pk", flat=True))


def eight(talk: Talk, payload: dict[str, object] | None = None) -> list[UUID]:
    """Enqueue eight jobs for one session that nothing keeps apart: not even a key."""
    body = {"session_id": str(talk.session.pk), **(payload or {})}
    return [enqueue("summarize", actor_id=talk.actor.id, payload=body) for _ in range(THREADS)]


@pytest.mark.slow
def test_eight_triggers_of_each_session_make_one_version(llm: LLMServer) -> None:
    llm.answer(Reply("They spoke about the harbour.", delay_seconds=0.05))
    talks = [open_talk(user_id=f"user-{number}") for number in range(SESSIONS)]
    for trigger in (1, 2):
        for talk in talks:
            talk.say_many(20, first=20 * trigger - 19)
            run_until_done(eight(talk))
    versions = Counter(SummaryVersion.objects.values_list("summary__session_id", flat=True))
    assert versions == {talk.session.pk: 2 for talk in talks}
    assert set(Summary.objects.values_list("message_count", "version", "written")) == {(40, 2, 2)}
    assert set(Job.objects.filter(kind="summarize", key="").values_list("state", flat=True)) == {"done"}


def test_eight_who_ask_by_hand_at_once_get_one_version(llm: LLMServer) -> None:
    llm.answer(Reply("They spoke.", delay_seconds=0.05))
    talk = open_talk()
    talk.say_many(3)
    run_until_done(eight(talk, {"written": 0, "anew": False, "start_time": None, "end_time": None}))
    assert SummaryVersion.objects.count() == 1
    assert {tuple(seqs_in([asked.text])) for asked in llm.asked} == {(1, 2, 3)}


def test_eight_clients_that_order_one_summary_get_one_job(transactional_db: None) -> None:
    talk = open_talk("I moved to Otaru in spring.")
    first = client_with_key()
    barrier = threading.Barrier(THREADS)

    def order(_: int) -> str:
        client = APIClient()
        client.credentials(**first._credentials)
        try:
            barrier.wait(timeout=60)
            answer = client.post(f"/api/v1/sessions/{talk.session.pk}/summary", {}, format="json")
            assert answer.status_code == 202, answer.content
            return str(answer.json()["job_id"])
        finally:
            connection.close()

    with ThreadPoolExecutor(THREADS) as pool:
        assert len(set(pool.map(order, range(THREADS)))) == 1


def test_messages_that_come_while_it_is_written_are_never_missed(llm: LLMServer) -> None:
    talk = open_talk()
    talk.say_many(20)
    llm.then(lambda asked: _while_talking(talk, 21))
    llm.answer(Reply("All of it."))
    run_until_done([enqueue("summarize", actor_id=talk.actor.id, payload={"session_id": str(talk.session.pk)})])
    assert talk.summary is not None and talk.summary.message_count == 20
    talk.end()
    run_until_done([enqueue("summarize", actor_id=talk.actor.id, payload={"session_id": str(talk.session.pk)})])
    assert talk.summary.message_count == 40
    assert seqs_in([asked.text for asked in llm.asked]) == list(range(1, 41))


def _while_talking(talk: Talk, first: int) -> Reply:
    """Say twenty things more while the model answers, from the server's own thread."""
    try:
        talk.say_many(20, first=first)
    finally:
        connection.close()
    return Reply("The first twenty.")
