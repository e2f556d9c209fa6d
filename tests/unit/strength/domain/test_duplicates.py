"""Texts that state the same fact in nearly the same words.

The tables are the evaluation: a pair of `same` is near, one of `missed` should be and is not (a synonym, a passive, another
construction), one of `different` states another fact and must never be near. The held-out tables were written when the
module was finished, and nothing was changed for them. A first held-out table of 30 pairs a language found 26 of 30 and one
false pair; what it taught was put into the module, and its pairs are in the other tables.
"""

from collections import Counter
from itertools import chain
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import DIMENSION, inverse_document_frequency, term_id, term_ids
from strength.domain.duplicates import (
    DUPLICATE_THRESHOLD,
    MAX_CHARACTERS,
    MAX_ORDERED_WORDS,
    MAX_TERMS,
    Fingerprint,
    fingerprint,
    likeness,
    wording_digest,
)
from tests.tables import tables_of
from tests.unit.timing import time_problem

TABLES: Final = tables_of(__file__)
LEAST_RECALL: Final = {"english": 0.91, "japanese": 0.94, "held out, english": 0.86, "held out, japanese": 0.86}


def pairs_of(kind: str) -> list[tuple[str, str]]:
    """Return the pairs of a kind (`same`, `missed`, `different`) of all tables."""
    return [(one, other) for name in LEAST_RECALL for one, other in TABLES[name][kind]]


SAME, MISSED, DIFFERENT = map(pairs_of, ("same", "missed", "different"))


def idf_of(texts: list[str]) -> dict[int, float]:
    """Return the idf of the terms of these texts, as search keeps it."""
    counts = Counter(chain.from_iterable(term_ids(analyse(text)) for text in texts))
    return {
        term: inverse_document_frequency(documents_with_term=count, documents=len(texts))
        for term, count in counts.items()
    }


TEXTS: Final = list(chain.from_iterable(SAME + MISSED + DIFFERENT))
UNIFORM: Final = dict.fromkeys(idf_of(TEXTS), 1.0)
CORPORA: Final = {"nothing known": {}, "all alike": UNIFORM, "user and likes are common": idf_of(TEXTS * 20)}

with_each_idf = pytest.mark.parametrize("idf", CORPORA.values(), ids=CORPORA.keys())


def is_near_text(one: str, other: str, idf: dict[int, float] | None = None) -> bool:
    return likeness(fingerprint(one), fingerprint(other), idf or {}) >= DUPLICATE_THRESHOLD


@with_each_idf
@pytest.mark.parametrize("pair", SAME, ids="/".join)
def test_near_words_are_near(pair: tuple[str, str], idf: dict[int, float]) -> None:
    assert is_near_text(*pair, idf)


@with_each_idf
@pytest.mark.parametrize("pair", DIFFERENT, ids="/".join)
def test_another_fact_is_not_near(pair: tuple[str, str], idf: dict[int, float]) -> None:
    assert not is_near_text(*pair, idf)


@pytest.mark.parametrize("pair", MISSED, ids="/".join)
def test_a_miss_that_is_found_moves_to_the_table_of_the_found(pair: tuple[str, str]) -> None:
    assert not is_near_text(*pair)


@with_each_idf
@pytest.mark.parametrize("name", LEAST_RECALL)
def test_precision_and_recall_do_not_fall(name: str, idf: dict[int, float]) -> None:
    same = TABLES[name]["same"] + TABLES[name]["missed"]
    found = sum(is_near_text(*pair, idf) for pair in same)
    assert found / len(same) >= LEAST_RECALL[name]
    assert not any(is_near_text(*pair, idf) for pair in TABLES[name]["different"])


def test_the_digest_overlooks_case_width_space_and_punctuation() -> None:
    assert fingerprint("ＡＢＣ社 の「Café」!").digest == fingerprint("abc社の cafe。").digest


@pytest.mark.parametrize(("one", "other"), TABLES["different digests"])
def test_the_digest_tells_apart_what_means_something_else(one: str, other: str) -> None:
    assert fingerprint(one).digest != fingerprint(other).digest
    assert not is_near_text(one, other)


@pytest.mark.parametrize(("one", "other"), TABLES["about nothing"])
def test_texts_that_are_about_nothing_are_near_only_when_equal(one: str, other: str) -> None:
    assert not is_near_text(one, other)
    assert is_near_text(one, one.upper() + " !")


@pytest.mark.parametrize(("one", "other"), TABLES["same numbers"])
def test_a_number_is_the_same_however_it_is_written(one: str, other: str) -> None:
    assert fingerprint(one).marks == fingerprint(other).marks


@pytest.mark.parametrize(("text", "marks"), TABLES["marks"])
def test_marks_are_what_must_not_differ(text: str, marks: list[str]) -> None:
    assert fingerprint(text).marks == set(map(term_id, marks))


def test_terms_carry_the_ids_that_search_has() -> None:
    for text in ("The user likes running", "コーヒー好", "東京都"):
        assert fingerprint(text).terms <= set(term_ids(analyse(text)))


def test_kana_words_keep_their_ends() -> None:
    assert fingerprint("りんごをたべる").terms == {term_id("りんご"), term_id("たべ")}
    assert fingerprint("わたしの本").terms == {term_id("本")}


@pytest.mark.parametrize(("one", "other"), TABLES["moved phrases"])
def test_a_phrase_that_moves_as_a_whole_changes_nothing(one: str, other: str) -> None:
    assert is_near_text(one, other)


@pytest.mark.parametrize(("one", "other"), TABLES["exchanged words"])
def test_words_that_change_places_make_another_fact(one: str, other: str) -> None:
    assert likeness(fingerprint(one), fingerprint(other), {}) == 0


def test_a_word_more_is_borne_among_seven_and_not_among_five() -> None:
    backup = "The nightly backup of the production database runs on a server"
    assert is_near_text(f"{backup} in Frankfurt", f"{backup.replace('runs', 'usually runs')} in Frankfurt")
    assert not is_near_text("Anna runs a backup server in Frankfurt", "Anna usually runs a backup server in Frankfurt")


def test_a_common_word_more_is_borne_sooner_than_a_rare_one() -> None:
    one, other = fingerprint("Anna plays tennis"), fingerprint("Anna often plays tennis")
    common = dict.fromkeys(one.terms, 5.0) | {term_id("often"): 0.5}
    assert likeness(one, other, dict.fromkeys(one.terms, 5.0)) == pytest.approx(6 / 7)
    assert likeness(one, other, common) == pytest.approx(30 / 30.5)
    assert likeness(one, other, {}) < DUPLICATE_THRESHOLD <= likeness(one, other, common)


def test_a_word_replaced_is_borne_in_a_page_and_not_in_a_paragraph() -> None:
    words = [f"w{chr(97 + number % 26)}{chr(97 + number // 26)}x" for number in range(200)]
    assert not is_near_text(" ".join([*words[:40], "osaka"]), " ".join([*words[:40], "kyoto"]))
    assert is_near_text(" ".join([*words, "osaka"]), " ".join([*words, "kyoto"]))


def test_a_long_text_keeps_bounded_terms_and_no_order() -> None:
    found = fingerprint(" ".join(f"word{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(600)))
    assert len(found.terms) == MAX_TERMS
    assert found.order == ()
    assert len(fingerprint("Anna " * MAX_ORDERED_WORDS).order) == MAX_ORDERED_WORDS


def test_many_numbers_are_kept_as_one_mark() -> None:
    numbers = list(map(str, range(2 * MAX_TERMS)))
    assert len(fingerprint(" ".join(numbers)).marks) == 1
    assert not is_near_text("Sold: " + " ".join(numbers), "Sold: " + " ".join([*numbers[:-1], "9999"]))


def test_a_text_beyond_the_limit_is_recognised_word_for_word_only() -> None:
    text = "Anna likes tea. " * (MAX_CHARACTERS // 10)
    assert fingerprint(text).terms == frozenset()
    assert is_near_text(text, text.upper())
    assert not is_near_text(text, text + "Really.")


@pytest.mark.parametrize(
    "piece", ["あ", "で", "しか", "と言", "漢", "一", "a'", "- ", "1.", "を", "Anna ", "\u0301", "\ud800"]
)
@pytest.mark.parametrize("length", [MAX_CHARACTERS - 1, 100_000])
def test_time_is_linear_in_the_text(piece: str, length: int) -> None:
    text = piece * (length // len(piece))
    assert not time_problem(lambda: fingerprint(text), seconds=1)


def test_the_ids_fit_an_integer_of_postgresql() -> None:
    found = fingerprint("Anna's brother isn't from Osaka at 9:30 $")
    assert all(0 <= number < 2 * DIMENSION <= 2**31 for number in (*found.terms, *found.marks, *found.order))
    assert found.order[1] >= DIMENSION > found.order[0]


def test_a_fingerprint_that_was_stored_without_its_order_compares_by_words() -> None:
    one, other = fingerprint("Anna likes tea"), fingerprint("Anna really likes tea")
    stored = Fingerprint(other.digest, other.terms, other.marks)
    assert likeness(one, stored, {}) >= DUPLICATE_THRESHOLD


TEXT: Final = st.lists(st.sampled_from(TABLES["words"])).map(" ".join) | st.text(max_size=40)


@given(TEXT, TEXT)
def test_likeness_is_symmetrical_and_between_zero_and_one(one: str, other: str) -> None:
    first, second = fingerprint(one), fingerprint(other)
    value = likeness(first, second, UNIFORM)
    assert 0 <= value <= 1
    assert value == pytest.approx(likeness(second, first, UNIFORM))
    assert likeness(first, first, UNIFORM) == 1


@pytest.mark.parametrize(("one", "other", "is_same"), TABLES["wordings"])
def test_wording_differs_by_more_than_punctuation_and_emphasis(one: str, other: str, is_same: bool) -> None:
    assert (wording_digest(one) == wording_digest(other)) is is_same


@pytest.mark.parametrize(("one", "other"), [("担当は渡邊さんです。", "担当は渡辺さんです。"), ("髙橋部長", "高橋部長")])
def test_a_name_that_is_spelt_anew_is_no_repetition(one: str, other: str) -> None:
    """Searches find one by the other, but a correction of a name must not be taken for the former text."""
    assert wording_digest(one) != wording_digest(other)
    assert fingerprint(one).digest != fingerprint(other).digest
    assert analyse(one) == analyse(other)
