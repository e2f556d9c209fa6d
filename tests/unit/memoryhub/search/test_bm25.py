"""Word scores: BM25 split into a document's vector and a query's."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import (
    COMMON_DOCUMENTS,
    COMMON_TERMS,
    DIMENSION,
    IDF_EXPONENT,
    LENGTH_EXPONENT,
    MAX_DOCUMENT_TERMS,
    MAX_OTHER_DOCUMENTS,
    MAX_QUERY_TERMS,
    MIN_CUE_TERMS,
    PIVOT_LENGTH,
    Frequencies,
    QueryWords,
    common_terms,
    document_weights,
    frequent_terms,
    inverse_document_frequency,
    query_words,
    term_id,
    term_ids,
    word_score,
)

RARE = 4.0

counters = st.dictionaries(st.text(min_size=1, max_size=4), st.integers(1, 50), max_size=30).map(Counter)


def query_of(*terms: str, **idf: float) -> QueryWords:
    counted = Counter(terms)
    return query_words(counted, {term_id(term): idf.get(term, 1.0) for term in counted}, rarest_idf=RARE)


def test_term_id_is_the_same_forever() -> None:
    assert (term_id("memory"), term_id("東京")) == (481_468_648, 292_039_664)


@given(st.text())
def test_term_id_fits_the_sparse_vector(term: str) -> None:
    assert 0 <= term_id(term) < DIMENSION


def test_term_ids_are_ascending_and_distinct() -> None:
    ids = term_ids(["b", "a", "b", "c"])

    assert ids == sorted(set(ids))
    assert len(ids) == 3


def test_document_weight_is_bm25_without_idf() -> None:
    weight = document_weights(Counter(cat=2, dog=38))[term_id("cat")]

    assert weight == pytest.approx(2 / (2 + (40 / PIVOT_LENGTH) ** LENGTH_EXPONENT))


def test_a_term_said_once_counts_half_in_a_text_of_half_length() -> None:
    weight = document_weights(Counter(cat=1, dog=int(PIVOT_LENGTH) - 1))[term_id("cat")]

    assert weight == pytest.approx(0.5)


@given(counters)
def test_document_weights_lie_between_0_and_1(terms: Counter[str]) -> None:
    assert all(0 < weight <= 1 for weight in document_weights(terms).values())


def test_document_weights_grow_with_the_count_and_shrink_with_the_length() -> None:
    once, twice = (document_weights(Counter(cat=count, dog=5))[term_id("cat")] for count in (1, 2))
    among_many = document_weights(Counter(cat=1, dog=500))[term_id("cat")]

    assert among_many < once < twice


def test_document_weights_keep_the_heaviest_terms() -> None:
    terms = Counter({f"t{number}": 1 for number in range(3_000)}) + Counter(cat=3)

    weights = document_weights(terms)

    assert len(weights) == MAX_DOCUMENT_TERMS
    assert term_id("cat") in weights


@pytest.mark.parametrize(("words", "cues"), [(0, 2_000), (10, 990), (700, 990), (3_000, 990), (3_000, 3)])
def test_cues_count_to_the_limit_and_leave_most_of_the_text(words: int, cues: int) -> None:
    """A longer row would be moved out of the table, which scans read."""
    terms = Counter({f"t{number}": 1 for number in range(words)})
    weights = document_weights(terms, cues=[f"cue{number}" for number in range(cues)])
    of_text = weights.keys() & {term_id(term) for term in terms}
    assert len(weights) <= MAX_DOCUMENT_TERMS and len(of_text) >= min(words, MAX_DOCUMENT_TERMS - MIN_CUE_TERMS) - 1
    assert len(weights) - len(of_text) >= min(cues, MIN_CUE_TERMS) - 1, "ids may collide"


def test_idf_of_a_rarer_term_is_greater() -> None:
    never, once, often = (
        inverse_document_frequency(documents_with_term=count, documents=1_000) for count in (0, 1, 900)
    )

    assert never > once > often > 0


@pytest.mark.parametrize(("count", "documents"), [(0, 0), (5, 3), (10**9, 10**9)])
def test_idf_is_positive_for_any_counts(count: int, documents: int) -> None:
    assert inverse_document_frequency(documents_with_term=count, documents=documents) > 0


def test_frequent_terms_are_those_of_a_hundredth_of_the_texts() -> None:
    texts = [[1, 2], [1, 2], [1, 3], *([[1]] * 197)]

    assert frequent_terms(texts, documents=2_000) == {1: 2_000, 2: 20}


@pytest.mark.parametrize("users", [1, 10, 1_000])
def test_what_an_actor_always_says_is_common_however_many_others_there_are(users: int) -> None:
    melanie, cello = 1, 2
    known = Frequencies(400 + MAX_OTHER_DOCUMENTS * users, {melanie: 200, cello: 1 + users}, 400, {melanie: 200})
    unknown = Frequencies(known.documents, known.document_counts)

    assert known.idf(melanie) < 0.6 * known.idf(cello)
    assert known.idf(cello) == pytest.approx(Frequencies(MAX_OTHER_DOCUMENTS, {cello: 1}).idf(cello), rel=0.1)
    assert unknown.idf(melanie) > known.idf(melanie)


def test_few_texts_of_others_are_not_multiplied() -> None:
    few = Frequencies(60, {1: 30})
    assert few.idf(1) == inverse_document_frequency(documents_with_term=30, documents=60 + COMMON_DOCUMENTS)


def test_common_terms_are_terms_of_texts_in_both_languages() -> None:
    counts = common_terms()
    lines = [line for line in COMMON_TERMS.read_text(encoding="utf-8").splitlines() if "\t" in line]

    assert len(counts) == len(lines) > 5_000
    assert all(0 < count < COMMON_DOCUMENTS for count in counts.values())
    english = analyse("People thought about the house and talked for a long time.")
    japanese = analyse("時間がない人は仕事を続けられない。")
    for terms in (english, japanese):
        assert sum(term_id(term) in counts for term in terms) > len(terms) / 2


def test_query_counts_a_repeated_term_once() -> None:
    assert query_of("cat", "cat", "dog") == query_of("cat", "dog")


def test_query_keeps_the_rarest_terms_of_a_long_text() -> None:
    idf = {f"t{number}": 1 + number / 1_000 for number in range(500)}

    query = query_of(*idf, **idf)

    assert len(query.weights) == MAX_QUERY_TERMS
    assert min(query.weights.values()) > (1 + 299 / 1_000) ** IDF_EXPONENT


@given(st.floats(0.1, 20))
def test_query_weight_is_the_idf_to_the_power_of_rarity(idf: float) -> None:
    assert query_of("cat", cat=idf).weights == {term_id("cat"): pytest.approx(idf**1.5)}
    assert 1 < IDF_EXPONENT < 2, "between BM25 and the cosine of two tf-idf vectors"


def test_compounds_do_not_make_a_text_longer() -> None:
    terms = Counter({"東": 1, "京": 1, "東京": 1})

    assert (
        document_weights(terms + Counter({"#東京": 1}))[term_id("東京")] == (document_weights(terms)[term_id("東京")])
    )


def test_four_grams_are_as_long_as_a_word() -> None:
    beside_words = document_weights(Counter(cat=1, dog=10))[term_id("cat")]
    beside_grams = document_weights(Counter({"cat": 1, "東京": 40}))[term_id("cat")]

    assert beside_words == pytest.approx(beside_grams)


def test_two_rare_words_are_as_much_in_a_page_as_in_a_line() -> None:
    rare, common = {"axolotl": RARE, "cello": RARE}, {f"t{number}": 2.0 for number in range(150)}
    sentence = document_weights(Counter(axolotl=1, cello=1, bought=1))
    line, page = (query_of(*rare, "t1", "t2", **rare, t1=3.9, t2=3.9), query_of(*rare, *common, **rare, **common))

    assert word_score(sentence, page) == pytest.approx(word_score(sentence, line))
    assert word_score(sentence, page) > 0.5


def test_short_query_is_answered_by_all_its_words() -> None:
    assert word_score(document_weights(Counter(tea=1)), query_of("tea")) > 0.7


def test_grams_weigh_as_much_as_they_lengthen_a_text() -> None:
    weights = query_of("cat", "東京", "#東京都").weights

    assert weights[term_id("東京")] == weights[term_id("#東京都")] == weights[term_id("cat")] / 4


def test_earlier_turns_count_where_the_query_says_little() -> None:
    idf = {term_id(term): RARE for term in ("when", "dentist", "tuesday", *map(str, range(9)))}
    alone = query_words(["when"], idf, rarest_idf=RARE)
    follow_up = query_words(["when"], idf, rarest_idf=RARE, earlier={"dentist": 1.0, "tuesday": 0.5})
    said_all = query_words(map(str, range(9)), idf, rarest_idf=RARE, earlier={"dentist": 1.0})

    assert alone.weights.keys() == {term_id("when")}
    assert follow_up.weights[term_id("dentist")] == pytest.approx(5 / 6 * RARE**IDF_EXPONENT)
    assert follow_up.weights[term_id("tuesday")] == pytest.approx(follow_up.weights[term_id("dentist")] / 2)
    assert term_id("dentist") not in said_all.weights


def test_word_score_does_not_depend_on_other_documents() -> None:
    query = query_of("cat", "dog", "bird")
    two_of_three = word_score(document_weights(Counter(cat=1, dog=1)), query)
    one_of_three = word_score(document_weights(Counter(cat=1, fish=1)), query)

    assert two_of_three == pytest.approx(2 * one_of_three)


def test_word_score_of_a_rare_word_counts_more() -> None:
    query = query_of("cat", "axolotl", cat=2.0, axolotl=5.0)

    rare = word_score(document_weights(Counter(axolotl=1)), query)
    common = word_score(document_weights(Counter(cat=1)), query)

    assert rare > common


def test_word_score_without_query_terms_is_zero() -> None:
    assert word_score(document_weights(Counter(cat=1)), query_of()) == 0


@given(counters, counters)
def test_word_score_is_0_where_nothing_is_shared(document: Counter[str], query: Counter[str]) -> None:
    asked = query_words(query, {term_id(term): 3.0 for term in query}, rarest_idf=RARE)
    score = word_score(document_weights(document), asked)

    assert score >= 0
    assert (score > 0) == bool(document.keys() & query.keys())
