"""BM25 as an inner product of two sparse vectors. Pure: no Django, no database.

A document's vector holds BM25's term-frequency part, the query's the idf weights: idf may change without rewriting a
row, and PostgreSQL computes the score by pgvector's inner product.

BM25: Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009. The constants were measured (see
docs/algorithm.md). Length is normalised by a constant, not by the average, which would outdate all stored vectors with
each new text.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from heapq import nlargest
from itertools import chain, islice
from operator import mul
from pathlib import Path
from typing import Final

from memoryhub.search.analysis import COMPOUND, UNSPACED

DIMENSION: Final = 2**29
"""Of the sparse vectors (pgvector allows 1e9). Terms collide in one of a thousand texts of 1,000 terms."""

MAX_DOCUMENT_TERMS: Final = 1_000
"""Rows beyond about 8 kB are moved to TOAST, and a scan then takes three times as long."""

CUE_SHARE: Final = 0.5
"""Weight of a memory's cue relative to a word that its text has once."""

MIN_CUE_TERMS: Final = 200
"""Terms of cues that a long text leaves room for; 500 characters of Japanese may have 1,000."""

MAX_QUERY_TERMS: Final = 200
"""The terms with the greatest weights; pgvector allows 16,000."""

MAX_EARLIER_TERMS: Final = 64
"""Terms of earlier turns added to a message without terms of its own; each makes the scan slower."""

PIVOT_LENGTH: Final = 120.0
LENGTH_EXPONENT: Final = 1.5
"""Length in words at which a term of frequency 1 weighs 1/2, and the exponent of length.

BM25 with b = 1, with k and average length as one constant; its exponent is 1. With a greater one, assistants' answers,
which are ten times as long as users' messages and mention many things, do not outrank a short message on the topic."""

IDF_EXPONENT: Final = 1.5
"""Exponent of idf in query weights: 1 is BM25, 2 the cosine of two tf-idf vectors."""

WORDS_VERSION: Final = 6
"""Incremented by any change of terms or weights; `manage.py reindex` then rebuilds the index."""

FULL_SCORE_TERMS: Final = 3.0
"""A text's score is 1 with as many of the query's rarest terms, however long the query is."""

SELF_CONTAINED_TERMS: Final = 6.0
"""A message with fewer rare terms is completed with those of earlier turns."""

PRIOR_DOCUMENTS: Final = 100
"""Additional documents without the term in every idf: in a corpus of three, counts are noise."""

COMMON_DOCUMENTS: Final = 2_000
"""Short texts of everyday language in the idf of query terms, besides the corpus."""

MAX_OTHER_DOCUMENTS: Final = 10_000
"""Greatest weight of other actors' texts in the idf of an actor's query, as a number of texts."""

MIN_OWN_SHARE: Final = 0.01
"""Minimum share of an actor's texts with a term for which a count per actor is kept."""

MAX_OWN_TERMS: Final = 500
"""Actors with long texts have thousands of frequent terms, and each query reads all that are kept."""

COMMON_TERMS: Final = Path(__file__).with_name("common_terms.tsv")
"""Document frequencies in the COMMON_DOCUMENTS, written by `bench/common_terms.py`."""

GRAM_LENGTH: Final = 0.25
"""Length of an unigram or bigram in words: 160 of these are as long as 40 words."""

_GRAM: Final = re.compile(f"[{COMPOUND}{UNSPACED}]")


@dataclass(frozen=True)
class QueryWords:
    """A query's weights by term id.

    `normalizer` is the inner product at which a text's score is 1; `information` the sum of all weights, in units of a
    term that one text has.
    """

    weights: Mapping[int, float] = field(hash=False)
    normalizer: float
    information: float = 0.0


@lru_cache(maxsize=50_000)
def term_id(term: str) -> int:
    """Return the term's index in the sparse vectors: the same in every process and release."""
    digest = hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % DIMENSION


def term_ids(terms: Iterable[str]) -> list[int]:
    """Return the distinct ids of the terms, ascending."""
    return sorted(set(map(term_id, terms)))


def text_length(terms: Counter[str]) -> float:
    """Return the length of a text in words from its terms; compounds do not count, as their characters do."""
    return math.fsum(map(mul, map(_length_share, terms), terms.values()))


@lru_cache(maxsize=50_000)
def _length_share(term: str) -> float:
    return 0.0 if term[0] == COMPOUND else term_share(term)


@lru_cache(maxsize=50_000)
def term_share(term: str) -> float:
    """Return a term's length in words: 1, or GRAM_LENGTH in scripts without spaces."""
    return GRAM_LENGTH if _GRAM.match(term) else 1.0


def document_weights(terms: Counter[str], length: float | None = None, cues: Iterable[str] = ()) -> dict[int, float]:
    """Return the text's `MAX_DOCUMENT_TERMS` greatest term-frequency weights of BM25, in (0, 1], by term id.

    `length` is its `text_length`, if known. `cues` are terms that it lacks, see CUE_SHARE; they count to the limit.
    """
    norm = ((text_length(terms) if length is None else length) / PIVOT_LENGTH) ** LENGTH_EXPONENT
    room = max(MIN_CUE_TERMS, MAX_DOCUMENT_TERMS - len(terms))
    hints = {term_id(term): CUE_SHARE / (1 + norm) for term in islice(cues, room)}
    heaviest = terms.most_common()[: MAX_DOCUMENT_TERMS - len(hints)]
    # On a collision of ids, keep the greater weight.
    return hints | {term_id(term): count / (count + norm) for term, count in reversed(heaviest)}


@cache
def common_terms() -> Mapping[int, int]:
    """Return by term id the document frequencies in `COMMON_DOCUMENTS`."""
    lines = COMMON_TERMS.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("\t") for line in lines if not line.startswith("# "))
    return {term_id(term): int(count) for term, count in pairs}


@dataclass(frozen=True)
class Frequencies:
    """Document frequencies for a query of one actor: exact for own frequent terms, down-weighted for others' texts.

    `document_counts` and `documents` are of all actors; `own_counts` holds the actor's frequent terms, see
    `frequent_terms`. Others' texts, with those of everyday language, weigh at most `MAX_OTHER_DOCUMENTS`; otherwise
    names in every second text of an actor would dominate all their searches, the more the more users a server has.
    """

    documents: int
    document_counts: Mapping[int, int] = field(hash=False)
    own_documents: int = 0
    own_counts: Mapping[int, int] = field(default_factory=dict, hash=False)

    def idf(self, term: int) -> float:
        """Return the idf of a term id."""
        own = self.own_counts.get(term, 0)
        others = max(0, self.document_counts.get(term, 0) + common_terms().get(term, 0) - own)
        return self._idf(own + self._other_weight * others)

    @property
    def rarest_idf(self) -> float:
        """The idf of a term that one text has."""
        return self._idf(1)

    @property
    def _other_documents(self) -> int:
        return max(1, self.documents + COMMON_DOCUMENTS - self.own_documents)

    @property
    def _other_weight(self) -> float:
        return min(1.0, MAX_OTHER_DOCUMENTS / self._other_documents)

    def _idf(self, count: float) -> float:
        documents = self.own_documents + self._other_weight * self._other_documents
        return inverse_document_frequency(documents_with_term=count, documents=documents)


def frequent_terms(texts: Sequence[Iterable[int]], *, documents: int) -> dict[int, int]:
    """Estimate document frequencies of the terms in at least `MIN_OWN_SHARE` of an actor's documents.

    `texts` are the term ids of a random sample.
    """
    counts = Counter(chain.from_iterable(texts))
    return {
        term: round(count / len(texts) * documents)
        for term, count in counts.most_common(MAX_OWN_TERMS)
        if count >= MIN_OWN_SHARE * len(texts)
    }


def inverse_document_frequency(*, documents_with_term: float, documents: float) -> float:
    """Return BM25's idf over the corpus and `PRIOR_DOCUMENTS`; always positive."""
    without = max(0, documents - documents_with_term) + PRIOR_DOCUMENTS
    return math.log(1 + (without + 0.5) / (documents_with_term + 0.5))


def query_words(
    terms: Iterable[str], idf: Mapping[int, float], *, rarest_idf: float, earlier: Mapping[str, float] | None = None
) -> QueryWords:
    """Return the query's weights: each distinct term's idf to the power of IDF_EXPONENT.

    BM25's plain idf found less and let off-topic queries score higher. Unigrams and bigrams weigh in proportion to
    their length, so that both languages of a mixed message count alike. `idf` is by term id and must have every term,
    also unseen ones; `rarest_idf` is that of a term that one text has. `earlier` has the terms of earlier turns with
    weights in [0, 1], which fill up a query that has few terms of its own.
    """
    weights = {term_id(term): idf[term_id(term)] ** IDF_EXPONENT * term_share(term) for term in terms}
    unit = rarest_idf**IDF_EXPONENT
    need = max(0.0, 1 - sum(weights.values()) / (SELF_CONTAINED_TERMS * unit))
    before = {
        term_id(term): need * share * idf[term_id(term)] ** IDF_EXPONENT * term_share(term)
        for term, share in (earlier or {}).items()
        if need
    }
    for term in nlargest(round(need * MAX_EARLIER_TERMS), before, key=before.__getitem__):
        weights[term] = max(before[term], weights.get(term, 0.0))
    heaviest = dict(sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:MAX_QUERY_TERMS])
    total = sum(heaviest.values())
    return QueryWords(heaviest, min(total, FULL_SCORE_TERMS * unit), total / unit)


def word_score(document: Mapping[int, float], query: QueryWords) -> float:
    """Return the document's score, at least 0; 1 has FULL_SCORE_TERMS of the query's rarest terms.

    Not divided by the whole query's weight: long messages, and those about two topics, would find less.
    """
    if not query.normalizer:
        return 0.0
    return sum(weight * document.get(term, 0.0) for term, weight in query.weights.items()) / query.normalizer
