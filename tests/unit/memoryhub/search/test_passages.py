"""Passages of long texts: together they are the text, in order, and none is long."""

from hypothesis import given
from hypothesis import strategies as st

from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import document_weights, term_id, text_length
from memoryhub.search.passages import (
    MAX_WORDS,
    MIN_WORDS,
    PASSAGE_SHARE,
    UNSPACED_SHARE,
    best_passage,
    passage_weights,
    split,
)

WORDS = st.sampled_from(
    [
        "the",
        "tea",
        "3.5",
        "Ann's",
        "e.g.",
        "fails",
        "id=4f2",
        "庭の花",
        "データベース",
        "。",
        "！」",
        "? ",
        ".\n",
        "\n\n",
        "- ",
    ]
)
TEXTS = st.lists(WORDS, max_size=600).flatmap(
    lambda words: st.sampled_from(["", " ", "\n"]).map(lambda between: between.join(words))
)
FILLER = "The committee met on Tuesday and discussed the budget of the coming year at length. "
JAPANESE = "委員会は火曜日に集まり、来年度の予算について長く話し合った。"


@given(TEXTS)
def test_passages_are_the_text_in_order(text: str) -> None:
    spans = split(text)
    assert "".join(text[start:end] for start, end in spans) == text
    assert all(start < end for start, end in spans) or len(spans) == 1


@given(TEXTS)
def test_every_word_is_in_a_passage_or_spans_two(text: str) -> None:
    passages = [analyse(text[start:end]) for start, end in split(text)]
    found = set().union(*passages)
    lost = [term for term in analyse(text) if term not in found]
    assert len(lost) <= 4 * (len(passages) - 1)  # at each cut: a pair, and compounds across it


def test_a_text_of_words_loses_no_term() -> None:
    text = " ".join(f"word{number}x" for number in range(20_000))
    found = {term for weights in passage_weights(text) for term in weights}
    assert {term_id(f"word{number}x") for number in range(20_000)} <= found


def test_a_short_text_has_no_passages() -> None:
    assert split("") == [(0, 0)]
    assert passage_weights("tea " * (MIN_WORDS - 1)) == []
    assert len(split("tea " * (MIN_WORDS + 1))) == 2


def test_passages_are_short_and_end_with_sentences() -> None:
    for sentence in (FILLER, JAPANESE):
        text = sentence * 100
        passages = [text[start:end] for start, end in split(text)]
        assert len(passages) > 1
        assert all(passage.endswith(sentence[-2:]) for passage in passages)
        words = [text_length(analyse(passage)) for passage in passages]
        assert max(words) <= MAX_WORDS
        assert min(words[:-1]) >= MAX_WORDS / 2


def test_a_text_without_blanks_is_split_by_length() -> None:
    assert len(split("あ" * 10_000)) >= 10_000 * UNSPACED_SHARE / MAX_WORDS
    assert split("a" * 10_000) == [(0, 10_000)]


def test_the_best_passage_is_the_one_that_says_it() -> None:
    text = FILLER * 40 + "The flowerpot is on the sill. " + FILLER * 40
    start, end = best_passage(text, {term_id("flowerpot"): 2.0, term_id("budget"): 0.1})
    assert "flowerpot" in text[start:end]


def test_a_passage_weighs_its_share_of_a_text_of_its_own() -> None:
    text = FILLER * 40
    start, end = split(text)[0]
    assert passage_weights(text)[0] == {
        term: PASSAGE_SHARE * weight for term, weight in document_weights(analyse(text[start:end])).items()
    }
