"""Score how well a text's words answer a query's: BM25 as an inner product of two sparse vectors.

Pure: no Django, no database. A document's vector holds BM25's term-frequency part, the query's the
idf weights, so that idf may change without a single row being rewritten, and PostgreSQL computes the
score with pgvector's inner product and no further extension.

BM25: Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009. Its constants were measured
(see docs/algorithm.md). The length that a text's is compared with is a constant, not the running average: with
the average in it, every stored vector would be out of date after each new text.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from heapq import nlargest
from itertools import chain
from operator import mul
from pathlib import Path
from typing import Final

from memoryhub.search.analysis import COMPOUND, UNSPACED

DIMENSION: Final = 2**29
"""Of the sparse vectors (pgvector allows 1e9). Among 1,000 terms two share an id once in a thousand texts."""

MAX_DOCUMENT_TERMS: Final = 1_000
"""A row beyond about 8 kB leaves its page for TOAST, and a scan then takes three times as long."""

MAX_QUERY_TERMS: Final = 200
"""The rarest say what a query is about; pgvector takes 16,000 at most."""

EARLIER_TERMS: Final = 64
"""Of the turns before, where the message itself says nothing; each more makes the scan slower."""

HALF_LENGTH: Final = 120.0
LENGTH_EXPONENT: Final = 1.5
"""The length in words at which a term that is said once counts half, and how steeply length counts.

BM25 with b = 1, whose k and average length are one constant, and whose exponent is 1. Answers of assistants are ten
times as long as what people write and say a little about everything; above 1, they do not crowd out the message that
says the one thing."""

RARITY: Final = 1.5
"""The exponent of idf on the query's side: 1 would be BM25, 2 the cosine of two tf-idf vectors."""

WORDS_VERSION: Final = 4
"""A new number for any change that gives a text other terms or weights; `manage.py reindex` follows it."""

CONVINCING_TERMS: Final = 3.0
"""As many words of which only one text tells, are all that a query can ask of a text, however long the query is."""

FOLLOW_UP_TERMS: Final = 6.0
"""A message that says less than so many rare words needs the turns before it to be understood."""

PRIOR_DOCUMENTS: Final = 100
"""Documents without the term that every idf takes for granted: in a corpus of three, counts say little."""

COMMON_DOCUMENTS: Final = 2_000
"""Short texts of everyday language that the idf of a query's terms takes for granted beside the corpus."""

OTHERS_DOCUMENTS: Final = 10_000
"""As many texts, at most, speak of how rare a word is that are not known to be the asking actor's own."""

OWN_SHARE: Final = 0.01
"""A term that stands in as many of an actor's own texts is counted there: a name that is rare to everybody else."""

MAX_OWN_TERMS: Final = 500
"""Of an actor with long texts thousands are as frequent, and each query would read them."""

COMMON_TERMS: Final = Path(__file__).with_name("common_terms.tsv")
"""In how many of these each term is. `bench/common_terms.py` writes it."""


GRAM_LENGTH: Final = 0.25
"""A text of 40 words is as long as one of 160 characters and pairs: each letter is in three of these."""

_GRAM: Final = re.compile(f"[{COMPOUND}{UNSPACED}]")


@dataclass(frozen=True)
class QueryWords:
    """A query's weights by term id, the weight of the terms that make a text's score 1, and how much it says.

    `said` is the weight of all its terms, in terms of which only one text tells.
    """

    weights: Mapping[int, float] = field(hash=False)
    reachable: float
    said: float = 0.0


@lru_cache(maxsize=50_000)
def term_id(term: str) -> int:
    """Return the term's place in the sparse vectors: the same in every process and release."""
    digest = hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % DIMENSION


def term_ids(terms: Iterable[str]) -> list[int]:
    """Return the ids of the terms, each once, in ascending order."""
    return sorted(set(map(term_id, terms)))


def text_length(terms: Counter[str]) -> float:
    """Return how long the text is that these terms are of, in words; compounds repeat what is counted already."""
    return math.fsum(map(mul, map(_length_share, terms), terms.values()))


@lru_cache(maxsize=50_000)
def _length_share(term: str) -> float:
    return 0.0 if term[0] == COMPOUND else term_share(term)


@lru_cache(maxsize=50_000)
def term_share(term: str) -> float:
    """Return the part of a word that a term stands for: 1 for words, GRAM_LENGTH where no spaces are written."""
    return GRAM_LENGTH if _GRAM.match(term) else 1.0


def document_weights(terms: Counter[str], length: float | None = None) -> dict[int, float]:
    """Return the text's heaviest `MAX_DOCUMENT_TERMS` terms with BM25's term-frequency part, in (0, 1].

    `length` is its `text_length`, where the caller knows it.
    """
    norm = ((text_length(terms) if length is None else length) / HALF_LENGTH) ** LENGTH_EXPONENT
    heaviest = terms.most_common()[:MAX_DOCUMENT_TERMS]
    # The heaviest last: where two terms have one id, it counts.
    return {term_id(term): count / (count + norm) for term, count in reversed(heaviest)}


@cache
def common_terms() -> Mapping[int, int]:
    """Return by term id in how many of `COMMON_DOCUMENTS` a term is, of those that are in any."""
    lines = COMMON_TERMS.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("\t") for line in lines if not line.startswith("# "))
    return {term_id(term): int(count) for term, count in pairs}


@dataclass(frozen=True)
class Frequencies:
    """In how many texts a term is, for a query of one actor: the actor's own texts, and all others' as a sample.

    `of_term` and `documents` are the installation's; `own` has the actor's most frequent terms, see `frequent_terms`.
    Others' texts, and those of everyday language, count as at most `OTHERS_DOCUMENTS`. Else the names that stand in
    every second text of an actor would decide each of their searches, the more so the more users a server has.
    """

    documents: int
    of_term: Mapping[int, int] = field(hash=False)
    own_documents: int = 0
    own: Mapping[int, int] = field(default_factory=dict, hash=False)

    def idf(self, term: int) -> float:
        """Return the idf of a term id."""
        own = self.own.get(term, 0)
        others = max(0, self.of_term.get(term, 0) + common_terms().get(term, 0) - own)
        return self._idf(own + self._share * others)

    @property
    def rare(self) -> float:
        """The idf of a term of which one text tells."""
        return self._idf(1)

    @property
    def _others(self) -> int:
        return max(1, self.documents + COMMON_DOCUMENTS - self.own_documents)

    @property
    def _share(self) -> float:
        return min(1.0, OTHERS_DOCUMENTS / self._others)

    def _idf(self, count: float) -> float:
        documents = self.own_documents + self._share * self._others
        return inverse_document_frequency(documents_with_term=count, documents=documents)


def frequent_terms(texts: Sequence[Iterable[int]], *, documents: int) -> dict[int, int]:
    """Return of how many of an actor's documents each term is part that stands in `OWN_SHARE` of them.

    `texts` are the term ids of some of them, drawn by chance.
    """
    counts = Counter(chain.from_iterable(texts))
    return {
        term: round(count / len(texts) * documents)
        for term, count in counts.most_common(MAX_OWN_TERMS)
        if count >= OWN_SHARE * len(texts)
    }


def inverse_document_frequency(*, documents_with_term: float, documents: float) -> float:
    """Return how much a term tells: BM25's idf over the corpus and `PRIOR_DOCUMENTS`; always positive."""
    without = max(0, documents - documents_with_term) + PRIOR_DOCUMENTS
    return math.log(1 + (without + 0.5) / (documents_with_term + 0.5))


def query_words(
    terms: Iterable[str], idf: Mapping[int, float], *, rare: float, earlier: Mapping[str, float] | None = None
) -> QueryWords:
    """Return the query's weights: each term's idf to the power of RARITY, however often the query says it.

    Above 1, because the term is rare on both sides; BM25's plain idf found less and let off-topic queries
    score higher. Characters and pairs weigh as little as they lengthen a text, so that a message in two languages asks
    for both alike. `idf` is by term id and holds every term, those never seen with the idf of the rarest; `rare` is
    that of a term of one text. `earlier` has the terms of the turns before, with the share in [0, 1] that each keeps
    where the query itself says next to nothing.
    """
    weights = {term_id(term): idf[term_id(term)] ** RARITY * term_share(term) for term in terms}
    unit = rare**RARITY
    need = max(0.0, 1 - sum(weights.values()) / (FOLLOW_UP_TERMS * unit))
    before = {
        term_id(term): need * share * idf[term_id(term)] ** RARITY * term_share(term)
        for term, share in (earlier or {}).items()
        if need
    }
    for term in nlargest(round(need * EARLIER_TERMS), before, key=before.__getitem__):
        weights[term] = max(before[term], weights.get(term, 0.0))
    heaviest = dict(sorted(weights.items(), key=lambda item: (-item[1], item[0]))[:MAX_QUERY_TERMS])
    total = sum(heaviest.values())
    return QueryWords(heaviest, min(total, CONVINCING_TERMS * unit), total / unit)


def word_score(document: Mapping[int, float], query: QueryWords) -> float:
    """Return how much the document says of what the query asks: at least 0, and 1 is convincing.

    Not a share of the whole query: a long message, or one about two things, would then find less the more it says.
    """
    if not query.reachable:
        return 0.0
    return sum(weight * document.get(term, 0.0) for term, weight in query.weights.items()) / query.reachable
