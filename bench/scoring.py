"""What rankings are worth, and the plain rankings they must beat.

Pure: NumPy and no Django. The baselines know nothing of the server's analysis, so that a mistake there
cannot hide in both. They rank as the textbooks say; what they score at 0 they do not rank.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

import numpy as np
from numpy.typing import NDArray

DEPTH: Final = 20
"""How many results every ranking has, at most."""

RECALL_DEPTHS: Final = (1, 5, 10, 20)
HIT_DEPTH: Final = 10
NEIGHBOUR_SHARE: Final = 0.5
K1, B = 1.2, 0.75
PARAGRAPH_K1: Final = (0.8, 1.2, 1.5, 2.0)
PARAGRAPH_B: Final = (0.4, 0.75)

Scores = NDArray[np.float64]
_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class Asked:
    """A question that was asked: the texts that answer it, and those that came back, best first."""

    collection: str
    category: str
    evidence: frozenset[str]
    found: tuple[str, ...]

    def recall(self, depth: int) -> float:
        """Return the share of the evidence among the first `depth` results."""
        return len(self.evidence.intersection(self.found[:depth])) / len(self.evidence)

    def hit(self, depth: int) -> float:
        """Return 1 where any of the evidence is among the first `depth` results, else 0."""
        return float(not self.evidence.isdisjoint(self.found[:depth]))

    def reciprocal_rank(self) -> float:
        """Return 1 / the place of the first evidence, 0 where none was found."""
        places = (place for place, name in enumerate(self.found, start=1) if name in self.evidence)
        return 1 / next(places, math.inf)


def figures(asked: Sequence[Asked]) -> dict[str, float]:
    """Return the mean recall, hits and reciprocal rank of at least one question, each in [0, 1]."""
    recalls = {
        f"recall@{depth}": fmean(question.recall(depth) for question in asked) for depth in RECALL_DEPTHS
    }
    return {
        "questions": len(asked),
        **recalls,
        f"hit@{HIT_DEPTH}": fmean(question.hit(HIT_DEPTH) for question in asked),
        "mrr": fmean(question.reciprocal_rank() for question in asked),
    }


def by_category(asked: Sequence[Asked]) -> dict[str, dict[str, float]]:
    """Return the figures of each category, in the order of their names; the nameless is no category."""
    return {
        name: figures([question for question in asked if question.category == name])
        for name in sorted({question.category for question in asked} - {""})
    }


def spread(asked: Sequence[Asked], depth: int = HIT_DEPTH) -> dict[str, object]:
    """Return the mean recall of each collection, and their mean, extremes and standard deviation (n − 1)."""
    names = dict.fromkeys(question.collection for question in asked)
    recalls = {
        name: fmean(question.recall(depth) for question in asked if question.collection == name)
        for name in names
    }
    values = list(recalls.values())
    deviation = stdev(values) if len(values) > 1 else 0.0
    return {
        "collections": recalls,
        "mean": fmean(values),
        "min": min(values),
        "max": max(values),
        "sd": deviation,
    }


def reached(relevances: Sequence[float], floors: Sequence[float]) -> dict[str, object]:
    """Return the greatest relevance, the 95th percentile, and how many reach each floor; at least one value."""
    return {
        "asked": len(relevances),
        "max": max(relevances),
        "p95": float(np.percentile(relevances, 95)),
        "reached": {f"{floor:g}": sum(value >= floor for value in relevances) for floor in floors},
    }


def words(text: str) -> list[str]:
    r"""Return the lower-case runs of \w: what the plainest search takes for words."""
    return _WORD.findall(text.lower())


def character_grams(text: str) -> list[str]:
    """Return the single characters and pairs of a text, widths and case made equal, white space dropped."""
    plain = _SPACE.sub("", unicodedata.normalize("NFKC", text).lower())
    return [*plain, *(plain[at : at + 2] for at in range(len(plain) - 1))]


class BM25:
    """BM25 over some texts, its idf from these alone and never negative (Lucene's form)."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        self.lengths = np.array([len(document) for document in documents], dtype=float)
        postings: dict[str, list[tuple[int, int]]] = {}
        for place, document in enumerate(documents):
            for term, count in Counter(document).items():
                postings.setdefault(term, []).append((place, count))
        self.postings = {term: _columns(rows) for term, rows in postings.items()}

    def scores(self, query: Sequence[str], *, k1: float = K1, b: float = B) -> Scores:
        """Return the score of each text; a term that the query repeats counts as often."""
        result = np.zeros(len(self.lengths))
        norms = k1 * (1 - b + b * self.lengths / max(1.0, self.lengths.mean()))
        for term, repeats in Counter(query).items():
            if term not in self.postings:
                continue
            places, counts = self.postings[term]
            gain = counts * (k1 + 1) / (counts + norms[places])
            result[places] += repeats * self._idf(len(places)) * gain
        return result

    def _idf(self, documents_with_term: int) -> float:
        without = len(self.lengths) - documents_with_term
        return math.log(1 + (without + 0.5) / (documents_with_term + 0.5))


def _columns(rows: Sequence[tuple[int, int]]) -> tuple[NDArray[np.int64], Scores]:
    places, counts = zip(*rows, strict=True)
    return np.array(places, dtype=np.int64), np.array(counts, dtype=float)


def with_neighbours(scores: Scores, sizes: Sequence[int]) -> Scores:
    """Add to each score half the better one next to it in its group; `sizes` of the groups, in order."""
    starts = np.cumsum(sizes)[:-1]
    return np.concatenate([_heard(group) for group in np.split(scores, starts)])


def _heard(scores: Scores) -> Scores:
    padded = np.concatenate([[0.0], scores, [0.0]])
    return scores + NEIGHBOUR_SHARE * np.maximum(padded[:-2], padded[2:])


def cosines(vectors: NDArray[np.float64], query: Sequence[float]) -> Scores:
    """Return the cosine of each row with the query; 0 beside a zero vector."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    return np.divide(vectors @ np.asarray(query), lengths, out=np.zeros(len(vectors)), where=lengths > 0)


def ranked(scores: Scores, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the best scores above 0, best first, the earlier text first where two are equal."""
    best = np.argsort(-scores, kind="stable")[:DEPTH]
    return tuple(names[place] for place in best if scores[place] > 0)


Ranker = Callable[[str], tuple[str, ...]]


def word_rankers(
    names: Sequence[str], texts: Sequence[str], authors: Sequence[str], sizes: Sequence[int]
) -> Iterator[tuple[str, Ranker]]:
    """Yield conversations' baselines by name: BM25 over words, with and without authors and neighbours."""
    said = [f"{author}: {text}" for author, text in zip(authors, texts, strict=True)]
    for label, documents in (("BM25", texts), ("BM25, author's name too", said)):
        index = BM25([words(document) for document in documents])
        yield label, lambda query, index=index: ranked(index.scores(words(query)), names)
        yield (
            f"{label}, neighbours",
            lambda query, index=index: ranked(with_neighbours(index.scores(words(query)), sizes), names),
        )


def paragraph_rankers(
    names: Sequence[str], texts: Sequence[str], *, split: Callable[[str], list[str]]
) -> Iterator[tuple[str, Ranker]]:
    """Yield paragraphs' baselines by name: BM25 over the given terms, for each pair of k1 and b."""
    index = BM25([split(text) for text in texts])
    for k1 in PARAGRAPH_K1:
        for b in PARAGRAPH_B:
            yield (
                f"BM25 k1={k1} b={b}",
                lambda query, k1=k1, b=b: ranked(index.scores(split(query), k1=k1, b=b), names),
            )


def best_of(candidates: Mapping[str, Sequence[Asked]]) -> str:
    """Return the name of the ranking that puts the most evidence first; reciprocal rank decides between equals."""
    return max(candidates, key=lambda name: _first(figures(candidates[name])))


def _first(values: Mapping[str, float]) -> tuple[float, float]:
    return values["recall@1"], values["mrr"]
