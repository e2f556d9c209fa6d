"""Bringing words up to date after a release that analyses texts otherwise, while searches go on."""

import json
from collections import Counter
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError
from rest_framework.test import APIClient

from conversations.models import Message, MessageIndex
from memoryhub import doctor
from memoryhub.management.commands.doctor import _look
from memoryhub.search import maintenance
from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import WORDS_VERSION, term_id
from memoryhub.search.index import word_vector
from memoryhub.search.maintenance import count_outdated
from memoryhub.search.models import TermStatistic, index_models
from strength.models import Memory, MemoryIndex

API = "/api/v1"
WHO = {"agent_id": "kana", "user_id": "hiroki"}
MEMORIES = 5
TEXTS = MEMORIES + 2
pytestmark = pytest.mark.django_db(transaction=True)


class Stopped(Exception):
    """The run was stopped, as by Ctrl-C."""


@pytest.fixture
def filled(client: APIClient) -> APIClient:
    """Return a client with memories and messages, as this release indexes them."""
    for number in range(MEMORIES):
        body = {**WHO, "content": f"Fact {number} about marmalade.", "tags": ["a"]}
        assert client.post(f"{API}/memories", body).status_code == 201
    session = client.post(f"{API}/sessions", WHO).json()["id"]
    batch = [
        {"role": "user", "author": "ann", "content": "Who made the marmalade?"},
        {"role": "user", "author": "bob", "content": "My aunt did."},
    ]
    assert client.post(f"{API}/sessions/{session}/messages", {"messages": batch}).status_code == 201
    return client


def make_older() -> None:
    """Leave the index as an older release would have: no word is found, and no vector helps."""
    for model in index_models():
        model.objects.update(words=word_vector(Counter()), words_version=WORDS_VERSION - 1, vector=None)


def reindex(*options: str) -> str:
    out = StringIO()
    call_command("reindex", *options, stdout=out, stderr=StringIO())
    return out.getvalue()


def found(client: APIClient, query: str = "marmalade") -> list[str]:
    body = {**WHO, "query": query, "include_messages": True, "limit": 20}
    results = client.post(f"{API}/memories/search", body).json()["results"]
    return [(each.get("message") or each["memory"])["content"] for each in results]


def stored() -> dict[str, list[Any]]:
    """Return every index row but its vector."""
    return {
        model.__name__: [
            {
                field.name: str(getattr(row, field.attname))
                for field in model._meta.concrete_fields
                if field.name != "vector"
            }
            for row in model.objects.order_by("pk")
        ]
        for model in index_models()
    }


def documents(term: str | None = None) -> int:
    place = TermStatistic.CORPUS if term is None else term_id(term)
    return sum(TermStatistic.objects.filter(term=place).values_list("documents", flat=True))


def words_finding() -> dict[str, str]:
    out = StringIO()
    call_command("doctor", "--json", stdout=out)
    (finding,) = (each for each in json.loads(out.getvalue()) if each["subject"] == "words")
    return dict(finding)


def test_texts_of_an_older_analysis_are_found_again(filled: APIClient) -> None:
    before = stored()
    make_older()
    assert found(filled) == []

    assert f"Analysed {TEXTS} texts anew" in reindex()

    assert stored() == before
    assert len(found(filled)) == TEXTS, "the reply beside the question too"
    assert count_outdated() == 0
    assert "Analysed 0 texts anew" in reindex()


@pytest.mark.parametrize("batch_size", [1, 2, 3, MEMORIES, 100])
def test_batches_of_any_size_reach_every_text(filled: APIClient, batch_size: int) -> None:
    make_older()
    steps: list[int] = []

    assert maintenance.reindex(batch_size=batch_size, progress=steps.append) == TEXTS

    assert (sum(steps), max(steps)) == (TEXTS, min(batch_size, MEMORIES))
    assert count_outdated() == 0


def test_terms_are_counted_anew(filled: APIClient) -> None:
    make_older()
    TermStatistic.objects.create(term=term_id("of-an-older-analysis"), documents=7)

    reindex()

    assert documents() == TEXTS
    assert documents("marmalad") == MEMORIES + 1
    assert documents("of-an-older-analysis") == 0


def test_stopped_run_goes_on_where_it_stopped(filled: APIClient) -> None:
    before = stored()
    make_older()

    def stop(done: int) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        maintenance.reindex(batch_size=2, progress=stop)
    assert count_outdated() == TEXTS - 2
    assert len(found(filled)) >= 2, "what was done is kept"

    assert f"Analysed {TEXTS - 2} texts anew" in reindex("--batch-size", "2")

    assert stored() == before
    assert documents() == TEXTS, "no text is counted twice"


def test_batch_that_fails_leaves_nothing_half_done(filled: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    make_older()

    def fail_at_third(text: str) -> Counter[str]:
        if text.startswith("Fact 2"):
            raise Stopped
        return analyse(text)

    monkeypatch.setattr(maintenance, "analyse", fail_at_third)
    with pytest.raises(Stopped):
        reindex("--batch-size", "5")
    assert MemoryIndex.objects.filter(words_version=WORDS_VERSION).count() == 0
    assert documents("fact") == 0
    monkeypatch.setattr(maintenance, "analyse", analyse)

    reindex()
    assert (count_outdated(), documents()) == (0, TEXTS)


def test_dry_run_changes_nothing(filled: APIClient) -> None:
    make_older()
    before, counted = stored(), list(TermStatistic.objects.order_by("term").values())

    assert f"{TEXTS} texts wait" in reindex("--dry-run")

    assert stored() == before
    assert list(TermStatistic.objects.order_by("term").values()) == counted


@pytest.mark.parametrize("options", [("--batch-size", "0"), ("--batch-size", "-1", "--dry-run")])
def test_batch_size_must_be_positive(options: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="1 or more"):
        reindex(*options)


def test_what_rows_repeat_is_repaired(filled: APIClient) -> None:
    before = stored()
    make_older()
    MemoryIndex.objects.update(tags=["wrong"], status="archived", namespace="/elsewhere/", pinned=True)
    MessageIndex.objects.update(asks=False, author="", trust="untrusted", seq=99)

    reindex()

    assert stored() == before
    assert MemoryIndex.repair() == 0
    rows = MessageIndex.objects.order_by("seq")
    assert [(row.author, row.asks, row.trust, row.seq) for row in rows] == [
        ("ann", True, "trusted", 1),
        ("bob", False, "trusted", 2),
    ]


def test_rows_of_this_release_are_left_alone(filled: APIClient) -> None:
    MemoryIndex.objects.update(words=word_vector(Counter()))
    before = stored()

    assert "Analysed 0 texts anew" in reindex()

    assert stored() == before


def during_analysis(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Let `change` happen after the run has read its first batch of memories and before it writes."""
    done: list[str] = []

    def analyse_late(text: str) -> Counter[str]:
        if text.startswith("Fact") and not done:
            done.append(text)
            change()
        return analyse(text)

    monkeypatch.setattr(maintenance, "analyse", analyse_late)


def test_text_that_is_edited_meanwhile_keeps_its_own_words(filled: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    make_older()
    edited = MemoryIndex.objects.order_by("pk").first()
    assert edited
    address = f"{API}/memories/{edited.memory_id}"

    def edit() -> None:
        assert filled.patch(address, {"content": "The lighthouse is green."}).status_code == 200

    during_analysis(monkeypatch, edit)
    reindex()

    row = MemoryIndex.objects.get(memory_id=edited.memory_id)
    terms = analyse("The lighthouse is green.")
    assert row.words.indices() == word_vector(terms).indices()
    assert row.words_version == WORDS_VERSION
    assert found(filled, "lighthouse") == ["The lighthouse is green."]
    assert count_outdated() == 0


def test_facets_that_change_meanwhile_stay_changed(filled: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    make_older()
    memories = list(Memory.objects.order_by("pk"))

    def curate() -> None:
        for memory in memories:
            assert filled.patch(f"{API}/memories/{memory.pk}", {"tags": ["b"]}).status_code == 200

    during_analysis(monkeypatch, curate)
    reindex()

    wrong = MemoryIndex.objects.exclude(tags=["b"]).count()
    MemoryIndex.repair()
    assert wrong == 0, "the index repeats what the memories said before"


def test_doctor_says_when_there_is_need(filled: APIClient) -> None:
    assert words_finding()["level"] == "ok"
    make_older()

    finding = words_finding()
    assert finding["level"] == "warning"
    assert f"{TEXTS} texts" in finding["detail"]
    assert "manage.py reindex" in finding["detail"]

    reindex()
    assert words_finding()["level"] == "ok"


def test_doctor_says_when_the_database_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise DatabaseError("with a password in it")

    monkeypatch.setattr(doctor, "count_outdated", fail)

    (finding,) = _look(doctor.words)
    assert (finding.level, finding.subject) == (doctor.Level.BROKEN, "words")
    assert "password" not in finding.detail


def test_message_that_is_erased_meanwhile_is_no_obstacle(filled: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    make_older()
    during_analysis(monkeypatch, lambda: filled.delete(f"{API}/actors?agent_id=kana&user_id=hiroki"))

    reindex("--batch-size", "2")

    assert count_outdated() == 0
    assert not MemoryIndex.objects.exists()
    assert not Message.objects.exists()
