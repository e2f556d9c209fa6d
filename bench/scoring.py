"""Score rankings, and compute the plain rankings that they must beat.

Pure: NumPy and no Django. The baselines know nothing of the server's analysis, so that a mistake there
cannot hide in both. They rank as the textbooks say; what they score at 0 they do not rank.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Final

import numpy as np
from numpy.typing import NDArray

DEPTH: Final = 20
"""How many results every ranking has, at most."""

RECALL_DEPTHS: Final = (1, 5, 10, 20)
COMPARED_DEPTH: Final = 10
RESAMPLES, SEED = 2_000, 7
NEIGHBOUR_SHARE: Final = 0.5
K1, B = 1.2, 0.75
PARAGRAPH_K1: Final = (0.8, 1.2, 1.5, 2.0)
PARAGRAPH_B: Final = (0.4, 0.75)

Scores = NDArray[np.float64]
_WORD = re.compile(r"\w+")
_JAPANESE = re.compile(r"[\u3041-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True)
class Asked:
    """A question that was asked: the texts that answer it, and those that came back, best first."""

    collection: str
    evidence: frozenset[str]
    found: tuple[str, ...]

    def recall(self, depth: int | None) -> float:
        """Return the share of the evidence among the first `depth` results, or all."""
        return len(self.evidence.intersection(self.found[:depth])) / len(self.evidence)

    def reciprocal_rank(self) -> float:
        """Return 1 / the place of the first evidence, 0 where none was found."""
        places = (place for place, name in enumerate(self.found, start=1) if name in self.evidence)
        return 1 / next(places, math.inf)


def figures(asked: Sequence[Asked]) -> dict[str, float]:
    """Return the mean recall and reciprocal rank of at least one question, each in [0, 1]."""
    recalls = {f"recall@{depth}": fmean(each.recall(depth) for each in asked) for depth in RECALL_DEPTHS}
    return {"questions": len(asked), **recalls, "mrr": fmean(each.reciprocal_rank() for each in asked)}


def paired_difference(
    ours: Sequence[Asked], theirs: Sequence[Asked], depth: int | None = COMPARED_DEPTH
) -> tuple[float, float, float]:
    """Return how much more recall one method has than another over the same questions, and a 95 % interval.

    Whole collections are resampled, for the questions of one conversation resemble each other; single questions
    where there is but one collection (percentile bootstrap, Efron 1979).
    """
    differences = np.array([one.recall(depth) - other.recall(depth) for one, other in zip(ours, theirs, strict=True)])
    names = [question.collection for question in ours]
    _, units = np.unique(names, return_inverse=True)
    if len(set(names)) == 1:
        units = np.arange(len(names))
    sums, counts = np.bincount(units, weights=differences), np.bincount(units)
    drawn = np.random.default_rng(SEED).integers(len(counts), size=(RESAMPLES, len(counts)))
    low, high = np.percentile(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1), (2.5, 97.5))
    return float(differences.mean()), float(low), float(high)


def auc(answerable: Sequence[float], unanswerable: Sequence[float]) -> float:
    """Return the chance that an answerable question scores above an unanswerable one; equals count half."""
    differences = np.subtract.outer(np.asarray(answerable), np.asarray(unanswerable))
    return float(np.mean((differences > 0) + 0.5 * (differences == 0)))


def fitting(costs: Mapping[str, int], order: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return the texts that a greedy choice in the given order takes, each where it still fits the limit."""
    taken = []
    for name in order:
        if costs[name] <= limit:
            taken.append(name)
            limit -= costs[name]
    return tuple(taken)


def reliability(shown: Sequence[tuple[float, bool]]) -> dict[str, object]:
    """Return the calibration error of texts shown with a relevance; by tenths how many, relevance and right share.

    The error is the tenths' mean distance of relevance from right share, weighted by texts (Naeini et al. 2015).
    """
    values, right = np.array(shown, dtype=float).reshape(-1, 2).T
    tenths = np.minimum((values * 10).astype(int), 9)
    bins = [(values[tenths == each], right[tenths == each]) for each in range(10)]
    error = sum(abs(float(said.sum() - held.sum())) for said, held in bins) / max(1, len(values))
    return {
        "error": error,
        "bins": [
            {"texts": len(said), "relevance": float(said.mean()), "right": float(held.mean())}
            for said, held in bins
            if len(said)
        ],
    }


def terms(text: str) -> list[str]:
    r"""Return the lower-case runs of \w; of a run with kana or kanji, the single characters and pairs."""
    runs = _WORD.findall(unicodedata.normalize("NFKC", text).lower())
    return [term for run in runs for term in ([*run, *map("".join, pairwise(run))] if _JAPANESE.search(run) else [run])]


class BM25:
    """BM25 over some texts, its idf from these alone and never negative (Lucene's form)."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        self.lengths = np.array([len(document) for document in documents], dtype=float)
        postings: dict[str, list[tuple[int, int]]] = {}
        for place, document in enumerate(documents):
            for term, count in Counter(document).items():
                postings.setdefault(term, []).append((place, count))
        self.postings = {term: np.array(rows).T for term, rows in postings.items()}

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


def with_neighbours(scores: Scores, sizes: Sequence[int]) -> Scores:
    """Add to each score half the better one next to it in its group; `sizes` of the groups, in order."""
    padded = [np.pad(group, 1) for group in np.split(scores, np.cumsum(sizes)[:-1])]
    return scores + NEIGHBOUR_SHARE * np.concatenate([np.maximum(each[:-2], each[2:]) for each in padded])


def cosines(vectors: NDArray[np.float64], query: Sequence[float]) -> Scores:
    """Return the cosine of each row with the query; 0 beside a zero vector."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    return np.divide(vectors @ np.asarray(query), lengths, out=np.zeros(len(vectors)), where=lengths > 0)


def ranked(scores: Scores, names: Sequence[str], depth: int | None = DEPTH) -> tuple[str, ...]:
    """Return the names of the best scores above 0, best first, the earlier text first where two are equal."""
    best = np.argsort(-scores, kind="stable")[:depth]
    return tuple(names[place] for place in best if scores[place] > 0)


Scorer = Callable[[str], Scores]


def conversation_scorers(texts: Sequence[str], authors: Sequence[str], sizes: Sequence[int]) -> dict[str, Scorer]:
    """Return conversations' baselines by name; neighbours count together with authors' names, which is better."""
    said = [f"{author}: {text}" for author, text in zip(authors, texts, strict=True)]
    alone, together = BM25(list(map(terms, texts))), BM25(list(map(terms, said)))
    return {
        "BM25": lambda query: alone.scores(terms(query)),
        "BM25 + neighbours": lambda query: with_neighbours(together.scores(terms(query)), sizes),
    }


def paragraph_scorers(texts: Sequence[str]) -> dict[str, Scorer]:
    """Return the baselines of texts that stand for themselves: BM25 for each pair of k1 and b."""
    index = BM25(list(map(terms, texts)))
    return {
        f"BM25 k1={k1} b={b}": lambda query, k1=k1, b=b: index.scores(terms(query), k1=k1, b=b)
        for k1 in PARAGRAPH_K1
        for b in PARAGRAPH_B
    }
