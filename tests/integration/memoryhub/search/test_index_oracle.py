"""Scores show nothing of what other tenants wrote (SPEC A3)."""

from collections import Counter
from uuid import UUID

import pytest
from rest_framework.test import APIClient

from memoryhub.auth.access import ensure_actor
from memoryhub.search.index import MIN_TENANTS, record
from memoryhub.search.models import TermStatistic
from memoryhub.tenancy.models import Agent
from tests.conftest import client_with_key
from tests.factories.planting import API, made

pytestmark = pytest.mark.django_db(transaction=True)
WHO = {"agent_id": "kana", "user_id": "hiroki"}


def scores(client: APIClient) -> dict[str, float]:
    body = {**WHO, "query": "the flowerpot in the axolotl garden"}
    [hit] = made(client.post(f"{API}/memories/search", body), 200)["results"]
    return {name: value for name, value in hit["score_breakdown"].items() if name in ("word_raw", "relevance")}


def write(agents: int, users: int, *, texts: int = 1) -> None:
    """Record texts of actors of so many other agents and users; each sets a bit of its own."""
    actors = [
        ensure_actor(Agent.objects.get_or_create(agent_id=f"other-{number % agents}")[0], f"user {number % users}")
        for number in range(max(agents, users))
    ]
    for actor in actors:
        record([Counter(flowerpot=1, axolotl=1, garden=1)] * texts, actor.pk)


MANY = 200
"""Of these, more than MIN_TENANTS set a bit of their own."""


@pytest.fixture
def own(client: APIClient) -> APIClient:
    made(client.post(f"{API}/memories", {**WHO, "content": "The axolotl lives in the garden, beside the flowerpot."}))
    record([Counter(word=1)] * 1_000, UUID(int=7))
    return client


@pytest.mark.parametrize(
    ("agents", "users", "texts"),
    [(1, 1, 1), (1, 1, 200), (MIN_TENANTS - 2, MIN_TENANTS - 2, 10), (1, MANY, 1), (MANY, 1, 1)],
    ids=["one", "one that writes much", "some", "made up by a key of one agent", "made up by a key of one user"],
)
def test_a_word_of_few_others_changes_no_score(own: APIClient, agents: int, users: int, texts: int) -> None:
    before = scores(own)
    write(agents, users, texts=texts)
    corpus = TermStatistic.objects.filter(term=TermStatistic.CORPUS)
    corpus.update(documents=1_001)
    assert scores(own) == before


def test_a_word_of_many_others_counts_in_powers_of_two(own: APIClient) -> None:
    before = scores(own)
    write(MANY, MANY, texts=3)
    counted = scores(own)
    assert counted["word_raw"] != before["word_raw"]
    write(1, 1)
    assert scores(own) == counted


def test_what_is_pending_or_untrusted_is_not_counted(own: APIClient) -> None:
    stranger = client_with_key(is_trusted=False)
    before = dict(TermStatistic.objects.values_list("term", "documents"))
    made(stranger.post(f"{API}/memories", {**WHO, "content": "An untrusted word: zyzzyva."}))
    session = made(stranger.post(f"{API}/sessions", WHO))["id"]
    made(stranger.post(f"{API}/sessions/{session}/messages", {"role": "user", "content": "Zyzzyva again."}))
    assert dict(TermStatistic.objects.values_list("term", "documents")) == before
