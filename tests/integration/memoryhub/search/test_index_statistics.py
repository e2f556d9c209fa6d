"""Document frequencies: counted after the commit, by many at once, and read for every query."""

import json
import threading
from collections import Counter
from urllib.request import Request, urlopen
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from rest_framework.test import APIClient

from memoryhub.db.pool import answering
from memoryhub.embeddings.spaces import BULK_TEXTS
from memoryhub.jobs.executor import run
from memoryhub.jobs.models import Job
from memoryhub.jobs.queue import enqueue, offer_of
from memoryhub.search import index
from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import term_id, term_ids
from memoryhub.search.index import idf, query_idf, record
from memoryhub.search.maintenance import COUNT_KIND, MIN_TEXTS, actors_to_count
from memoryhub.search.models import FrequentTerms, TermStatistic
from memoryhub.tenancy.models import Actor
from tests.integration.clients.conftest import new_key
from tests.serving import serving

WRITERS = 8
ACTOR = uuid4()


def counted(*terms: str) -> dict[str, int]:
    known = dict(TermStatistic.objects.values_list("term", "documents"))
    return {term: known.get(term_id(term), 0) for term in terms}


@pytest.mark.django_db(transaction=True)
def test_record_counts_documents_not_occurrences() -> None:
    record([Counter(cat=5, dog=1), Counter(cat=1)], ACTOR)

    assert counted("cat", "dog", "bird") == {"cat": 2, "dog": 1, "bird": 0}
    assert TermStatistic.objects.get(term=TermStatistic.CORPUS).documents == 2


@pytest.mark.django_db(transaction=True)
def test_record_waits_for_the_commit() -> None:
    with transaction.atomic():
        record([Counter(cat=1)], ACTOR)
        inside = TermStatistic.objects.count()

    assert (inside, counted("cat")) == (0, {"cat": 1})


@pytest.mark.django_db(transaction=True)
def test_record_waits_for_the_answer() -> None:
    with answering() as acts:
        record([Counter(cat=1)], ACTOR)
        before = counted("cat")
    for act in acts:
        act()
    record([Counter(cat=1)], ACTOR)  # nobody is answered any more

    assert (before, counted("cat")) == ({"cat": 0}, {"cat": 2})


@pytest.mark.django_db(transaction=True)
def test_texts_that_the_web_server_stores_are_counted() -> None:
    with serving() as web:
        request = Request(f"{web.url}/api/v1/memories", method="POST")
        request.add_header("Authorization", f"Bearer {new_key()}")
        request.add_header("Content-Type", "application/json")
        body = {"agent_id": "kana", "user_id": "u", "content": "An axolotl plays the cello."}
        with urlopen(request, json.dumps(body).encode()) as answer:
            assert answer.status == 201
    # The server ends when its tasks have ended.
    assert counted("axolotl", "cello") == {"axolotl": 1, "cello": 1}


@pytest.mark.django_db(transaction=True)
def test_record_of_what_was_rolled_back_counts_nothing() -> None:
    with transaction.atomic():
        record([Counter(cat=1)], ACTOR)
        transaction.set_rollback(True)

    assert not TermStatistic.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_record_failing_leaves_the_caller_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(index, "ADD_COUNTS", "SELECT nonsense(%s, %s, %s)")

    with transaction.atomic():
        record([Counter(cat=1)], ACTOR)

    assert "on_commit" in caplog.text


@pytest.mark.django_db(transaction=True)
def test_record_takes_more_terms_than_one_batch() -> None:
    record([Counter(f"t{number}" for number in range(12_000))], ACTOR)

    assert counted("t0", "t11999") == {"t0": 1, "t11999": 1}


@pytest.mark.django_db(transaction=True)
def test_record_by_many_writers_loses_nothing() -> None:
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for turn in range(20):
                index._add([Counter(f"t{(number * turn + step) % 300}" for step in range(200))], ACTOR)
        except BaseException as failure:  # shown by the assertion below
            failures.append(failure)
        finally:
            connection.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert TermStatistic.objects.get(term=TermStatistic.CORPUS).documents == WRITERS * 20
    assert sum(TermStatistic.objects.exclude(term=TermStatistic.CORPUS).values_list("documents", flat=True)) == 32_000


@pytest.mark.django_db
def test_idf_works_before_the_first_text() -> None:
    weights = idf(term_ids(["cat", "dog"]))

    assert len(weights) == 2
    assert min(weights.values()) > 0


@pytest.mark.django_db
def test_idf_of_nothing_is_nothing() -> None:
    assert idf([]) == {}


@pytest.mark.django_db
def test_idf_takes_unknown_terms_for_the_rarest() -> None:
    TermStatistic.objects.create(term=TermStatistic.CORPUS, documents=1_000)
    TermStatistic.objects.create(term=term_id("cat"), documents=10, agents=-1, users=-1)
    TermStatistic.objects.create(term=term_id("dog"), documents=500, agents=-1, users=-1)

    weights = idf(term_ids(["cat", "dog", "unheard"]))

    assert weights[term_id("unheard")] > weights[term_id("cat")] > weights[term_id("dog")]


@pytest.mark.django_db
def test_idf_follows_the_counts_at_once() -> None:
    before = idf([1])[1]
    TermStatistic.objects.create(term=1, documents=30, agents=-1, users=-1)

    assert idf([1])[1] < before


@pytest.mark.django_db
def test_the_first_memories_do_not_decide_which_words_of_a_query_are_common() -> None:
    common = term_ids(analyse("time people 人 時間").keys())
    rare = term_ids(["amoxicillin", "zahring", "鮎"])

    before, of_one_text = query_idf([*common, *rare])
    TermStatistic.objects.create(term=TermStatistic.CORPUS, documents=60)
    TermStatistic.objects.bulk_create(TermStatistic(term=term, documents=1) for term in [*common, *rare])
    after, _of_one_text = query_idf([*common, *rare])

    for weights in (before, after):
        assert max(weights[term] for term in common) < 0.75 * of_one_text
        assert min(weights[term] for term in rare) > 0.75 * of_one_text
    assert idf([*common, *rare]).keys() == after.keys()


@pytest.mark.django_db
def test_what_many_texts_say_is_common_whatever_the_language_says() -> None:
    TermStatistic.objects.create(term=TermStatistic.CORPUS, documents=1_000_000)
    TermStatistic.objects.create(term=term_id("amoxicillin"), documents=100_000, agents=-1, users=-1)
    TermStatistic.objects.create(term=term_id("time"), documents=10, agents=-1, users=-1)

    weights, _of_one_text = query_idf(term_ids(["amoxicillin", "time"]))

    assert weights[term_id("amoxicillin")] < weights[term_id("time")]


def run_job(job_id: UUID) -> None:
    """Run this job alone: others that are due would count what they write."""
    offered = offer_of(job_id)
    assert offered is not None
    run(offered, worker=uuid4())


def post_calls(client: APIClient, user: str, numbers: range) -> None:
    session = client.post("/api/v1/sessions", {"agent_id": "kana", "user_id": user}).json()["id"]
    batch = [{"role": "user", "content": f"Melanie called about plan{number}."} for number in numbers]
    client.post(f"/api/v1/sessions/{session}/messages", {"messages": batch})


@pytest.mark.django_db(transaction=True)
def test_job_counts_what_an_actor_often_says(client: APIClient) -> None:
    post_calls(client, "hiroki", range(MIN_TEXTS))
    TermStatistic.objects.filter(term=TermStatistic.CORPUS).update(documents=1_000_000)
    actor, (name, plan) = Actor.objects.get(user_id="hiroki"), map(term_id, ("melani", "plan7"))
    before, _of_one_text = query_idf([name, plan], actor.pk)

    run_job(enqueue(COUNT_KIND))
    after, _of_one_text = query_idf([name, plan], actor.pk)
    others, _of_one_text = query_idf([name, plan])

    assert Job.objects.get(kind=COUNT_KIND, actor=None).state == "done"
    assert after[name] < 0.7 * before[name]
    assert after[plan] > after[name]
    assert others == before
    assert FrequentTerms.objects.get().counts[0] == MIN_TEXTS
    assert actors_to_count() == {}, "nothing has changed since"


@pytest.mark.django_db(transaction=True)
def test_bulk_load_counts_its_actor_alone_before_the_hour(client: APIClient) -> None:
    post_calls(client, "hiroki", range(BULK_TEXTS - 1))
    assert not Job.objects.filter(kind=COUNT_KIND).exists(), "few texts wait for the hourly job"

    for user in ("hiroki", "mika"):
        post_calls(client, user, range(MIN_TEXTS))
        post_calls(client, user, range(MIN_TEXTS, 2 * MIN_TEXTS))
    jobs = Job.objects.filter(kind=COUNT_KIND, state="queued")
    assert sorted(jobs.values_list("actor__user_id", flat=True)) == ["hiroki", "mika"], "one an actor"

    run_job(jobs.get(actor__user_id="hiroki").pk)

    known = FrequentTerms.objects.get()
    assert known.actor.user_id == "hiroki"
    assert known.counts[0] == 2 * MIN_TEXTS + BULK_TEXTS - 1
