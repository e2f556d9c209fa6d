"""Scores show nothing of what other tenants wrote (SPEC A3)."""

from collections import Counter
from uuid import UUID, uuid5

import pytest
from rest_framework.test import APIClient

from memoryhub.search.index import MIN_ACTORS, record
from memoryhub.search.models import TermStatistic
from tests.conftest import client_with_key
from tests.factories.planting import API, made

pytestmark = pytest.mark.django_db(transaction=True)
WHO = {"agent_id": "kana", "user_id": "hiroki"}


def scores(client: APIClient) -> dict[str, float]:
    body = {**WHO, "query": "the flowerpot in the axolotl garden"}
    [hit] = made(client.post(f"{API}/memories/search", body), 200)["results"]
    return {name: value for name, value in hit["score_breakdown"].items() if name in ("word_raw", "relevance")}


def write(actors: int, *, texts: int = 1) -> None:
    """Record texts of so many other actors, of which each sets a bit of its own; with the own one they are one more."""
    found: dict[int, UUID] = {}
    number = 0
    while len(found) < actors:
        key = uuid5(UUID(int=0), str(number := number + 1))
        found.setdefault(key.int % 64, key)
    for key in found.values():
        record([Counter(flowerpot=1, axolotl=1, garden=1)] * texts, key)


@pytest.fixture
def own(client: APIClient) -> APIClient:
    made(client.post(f"{API}/memories", {**WHO, "content": "The axolotl lives in the garden, beside the flowerpot."}))
    record([Counter(word=1)] * 1_000, UUID(int=7))
    return client


@pytest.mark.parametrize(("actors", "texts"), [(1, 1), (1, 200), (MIN_ACTORS - 2, 10)])
def test_a_word_of_few_others_changes_no_score(own: APIClient, actors: int, texts: int) -> None:
    before = scores(own)
    write(actors, texts=texts)
    corpus = TermStatistic.objects.filter(term=TermStatistic.CORPUS)
    corpus.update(documents=1_001)
    assert scores(own) == before


def test_a_word_of_many_others_counts_in_powers_of_two(own: APIClient) -> None:
    before = scores(own)
    write(MIN_ACTORS, texts=30)
    counted = scores(own)
    assert counted["word_raw"] != before["word_raw"]
    write(1)
    assert scores(own) == counted


def test_what_is_pending_or_untrusted_is_not_counted(own: APIClient) -> None:
    stranger = client_with_key(is_trusted=False)
    before = dict(TermStatistic.objects.values_list("term", "documents"))
    made(stranger.post(f"{API}/memories", {**WHO, "content": "An untrusted word: zyzzyva."}))
    session = made(stranger.post(f"{API}/sessions", WHO))["id"]
    made(stranger.post(f"{API}/sessions/{session}/messages", {"role": "user", "content": "Zyzzyva again."}))
    assert dict(TermStatistic.objects.values_list("term", "documents")) == before
