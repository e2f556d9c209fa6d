"""Queries whose words no text has are read as the words of the texts that they resemble."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.search.spelling import MAX_QUERY_WORDS, errors, respelt
from tests.unit.timing import time_problem

TEXTS = (
    "The Kubernetes cluster runs in Wroclaw.",
    "Deployments go through argocd, and the data is in Big Query.",
    "彼女はバイオリンとダイヤモンドが好きだ。",
    "The amoxicillin costs 1200 a box, said Katarzyna.",
    "Die Krankenversicherungskarte ist in der Schublade.",
)
any_text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=80)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Kuberentes", "kubernetes"),
        ("kubernets in Wrcolaw", "kubernetes wroclaw"),
        ("AMOXICILIN", "amoxicillin"),
        ("Argo CD", "argocd"),
        ("bigquery", "big query"),
        ("ダイアモンド", "ダイヤモンド"),
        ("Katarźyna", "katarzyna"),
        ("Wo ist meine Versicherungskarte?", "krankenversicherungskarte"),
    ],
)
def test_words_are_replaced_by_similar_ones(query: str, found: str) -> None:
    assert respelt(query, TEXTS) == found


@pytest.mark.parametrize("query", ["", "the", "1201", "bux", "zebra", "Cubernetes", "cluttered", "好きな音楽", "🎻"])
def test_other_words_resemble_none(query: str) -> None:
    """Numbers, short words and first letters are not guessed."""
    assert respelt(query, TEXTS) == ""


@pytest.mark.parametrize(
    ("word", "other", "number"),
    [("same", "same", 0), ("teh", "the", 1), ("house", "horse", 1), ("color", "colour", 1), ("ab", "", 2), ("", "", 0)],
)
def test_errors_are_counted(word: str, other: str, number: int) -> None:
    assert errors(word, other) == errors(other, word) == number


@given(any_text, st.lists(any_text, max_size=4))
def test_any_text_is_read(query: str, texts: list[str]) -> None:
    found = respelt(query, texts).split()
    assert len(found) <= 4 * MAX_QUERY_WORDS


@pytest.mark.parametrize(("first", "length"), [("a", 6), ("ab" * 19, 2), ("ab" * 990, 2)])
def test_texts_made_to_be_slow_take_no_more_than_seconds(first: str, length: int) -> None:
    """Words with one first letter and one length are all compared with each word of the query."""
    random = Random(1)

    def words(number: int, first: str, length: int) -> str:
        return " ".join(first + "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=length)) for _ in range(number))

    number = 2_000 // (len(first) + length + 1)
    hostile = [words(number, first, length) for _ in range(300)]
    query = words(20, first, length)
    assert not time_problem(lambda: respelt(query, hostile), seconds=2)
