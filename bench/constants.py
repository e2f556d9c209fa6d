"""Choose the ranking's constants anew on all data sets but one, and judge them on the one left out.

    nice python bench/constants.py DATA DATA…      # all that `retrieval.py` reads but chat messages

The choice begins at the medians of the ten best of 300 random settings and gives each constant in turn the best value
beside the others; of three such draws, the medians. Data sets count alike, in units of how far random settings spread
them. Every fourth question that names one speaker is asked again of another: people misremember who said what, and most
data sets never do. The product's own constants should then be little better on the set left out: else they fit that.
The same with every second conversation of each set left out. Searches are computed here, from the functions of the
server and the vectors of `hashing`, for each setting asks all; `retrieval.py` finds the same on a server to 0.01.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

import harness
import numpy as np
from numpy.typing import NDArray
from question_sets import UNANSWERED, Collection, DataProblem, Dataset, Question, read_datasets
from scoring import cosines

from conversations.domain.messages import is_question, named_authors, searchable_text, without_names
from memoryhub.embeddings.hashing import HashingProvider
from memoryhub.search import bm25
from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import Frequencies
from memoryhub.search.fusion import DEFAULT_POLICY
from memoryhub.search.query_text import QueryText
from strength.domain.policy import SearchPolicy

Terms = Sequence[Counter[str]]
Numbers = NDArray[np.floating[Any]]
# Arrays are of 32 bits: twice as quick, and no order depends on more.
EMBEDDER: Final = HashingProvider()
FLOORS: Final = SearchPolicy()
DEPTH: Final = {"conversations": 10, "paragraphs": 1}
"""The recall that counts, by kind of data."""

MOST_QUESTIONS: Final = 600
"""Of a collection: more would not change what is chosen."""

SETTINGS: Final = 300
BEST: Final = 10
"""Of the settings tried, whose medians are the choice: the single best one owes much to chance."""

SEEDS: Final = (7, 8, 9)
SWEEPS: Final = 3

MISNAMED: Final = 4
"""One question in so many that name a speaker is asked again of another one."""


@dataclass(frozen=True)
class Constants:
    """Constants of a ranking; by default plain values, with which nothing but words and vectors counts."""

    half_length: float = 60.0
    length_exponent: float = 1.0
    rarity: float = 1.0
    word_midpoint: float = 0.5
    word_steepness: float = 1.0
    neighbour_share: float = 0.0
    reply_share: float = 0.0
    second_neighbour_share: float = 0.0
    question_share: float = 1.0
    other_author_share: float = 1.0
    self_contained_length: float = 1_000.0

    @classmethod
    def ours(cls) -> Self:
        """Return the product's constants."""
        of_words = ("half_length", "length_exponent", "rarity")
        named = {each.name for each in fields(cls)}.difference(of_words)
        policy = {name: value for name, value in asdict(DEFAULT_POLICY).items() if name in named}
        return cls(bm25.PIVOT_LENGTH, bm25.LENGTH_EXPONENT, bm25.IDF_EXPONENT, **policy)


SHARES: Final = tuple(np.arange(0, 1.01, 0.1))
RANGES: Final[Mapping[str, Sequence[float]]] = {
    "half_length": (30, 45, 60, 85, 120, 170, 240),
    "length_exponent": (0.75, 1.0, 1.25, 1.5, 1.75),
    "rarity": (0.75, 1.0, 1.25, 1.5, 1.75, 2.0),
    "word_midpoint": (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    "word_steepness": (1.5, 2.0, 2.5, 3.0, 3.5, 4.0),
    "neighbour_share": SHARES,
    "reply_share": SHARES,
    "second_neighbour_share": SHARES,
    "question_share": SHARES,
    "other_author_share": SHARES,
    "self_contained_length": (15, 30, 45, 60, 90, 140, 200),
}


class Prepared:
    """A collection with all that does not depend on the constants; arrays are [question, text]."""

    def __init__(self, collection: Collection, kind: str, terms: Terms, known: Frequencies) -> None:
        own = bm25.frequent_terms([bm25.term_ids(each) for each in terms], documents=len(terms))
        known = replace(known, own_documents=len(terms), own_counts=own)
        self.kind, self.rarest_idf = kind, known.rarest_idf
        texts = collection.texts
        authors = [text.author for text in texts]
        speakers = set(authors) - {""} if kind == "conversations" else set[str]()
        questions = list(collection.questions[:MOST_QUESTIONS])
        self.answered = np.array([question.category != UNANSWERED for question in questions])
        questions += misnamed(questions, speakers)
        self.lengths = np.array([bm25.text_length(each) for each in terms], dtype=np.float32)
        sizes = [len(group.texts) for group in collection.groups]
        self.groups = np.repeat(np.arange(len(sizes)), sizes)
        self.asks = np.array([is_question(text.content) for text in texts], np.float32)
        self.evidence = np.array([[text.id in question.evidence for text in texts] for question in questions])
        self.by_other = np.zeros(self.evidence.shape, np.float32)
        self.continues = np.array(continuing(authors))
        bare = []
        for place, question in enumerate(questions):
            named = named_authors(question.text, speakers)
            bare.append(without_names(question.text, named) if named else question.text)
            if len(named) == 1:
                self.by_other[place] = [author not in {"", *named} for author in authors]
        vectors = EMBEDDER.embed([text.content for text in texts]).astype(float)
        self.cosine = np.array([cosines(vectors, each) for each in EMBEDDER.embed(bare)], np.float32)
        self._post([QueryText.of_message(question.text).terms for question in questions], terms, known)

    def _post(self, asked: Sequence[Any], terms: Terms, known: Frequencies) -> None:
        postings: dict[str, list[tuple[int, int]]] = {}
        for text, counts in enumerate(terms):
            for term, count in counts.most_common(bm25.MAX_DOCUMENT_TERMS):
                postings.setdefault(term, []).append((text, count))
        weights = [
            (place, term, known.idf(bm25.term_id(term)), bm25.term_share(term))
            for place, each in enumerate(asked)
            for term in each
        ]
        self.asking, self.idf, self.share = np.array([row[:1] + row[2:] for row in weights], float).T
        entries = [
            (row, place, text, count)
            for row, (place, term, *_) in enumerate(weights)
            for text, count in postings.get(term, ())
        ]
        self.entries, self.places, self.texts, counts = np.array(entries, dtype=int).reshape(-1, 4).T
        self.counts = counts.astype(float)

    def recalls(self, constants: Constants) -> Numbers:
        """Return each question's recall at the depth that counts for this kind; the misnamed ones come last."""
        relevance = self._relevance(constants)
        depth = DEPTH[self.kind]
        last = min(depth, relevance.shape[1]) - 1
        best = np.argpartition(-relevance - 1e-6 * self.cosine, last, axis=1)[:, :depth]
        found = np.take_along_axis(self.evidence & (relevance > 0), best, axis=1)
        return np.asarray(found.sum(axis=1) / self.evidence.sum(axis=1))

    def _relevance(self, constants: Constants) -> Numbers:
        words = self._words(constants)
        constant = constants.word_midpoint**constants.word_steepness
        bounds = EMBEDDER.bounds
        near = np.clip((self.cosine - bounds.cosine_low) / (bounds.cosine_high - bounds.cosine_low), 0, 1)
        missed = constant / (words**constants.word_steepness + constant)
        own = 1 - (1 - bounds.vector_weight * near) * missed
        candidate = (self.cosine >= FLOORS.similarity_threshold) | (words >= FLOORS.word_floor)
        voice = own * candidate
        return self._among(own, voice, candidate, constants) if self.kind == "conversations" else voice

    def _words(self, constants: Constants) -> Numbers:
        weights = self.idf**constants.rarity * self.share
        norms = (self.lengths / constants.half_length) ** constants.length_exponent
        gains = weights[self.entries] * self.counts / (self.counts + norms[self.texts])
        shape = self.evidence.shape
        flat = np.bincount(self.places * shape[1] + self.texts, weights=gains, minlength=shape[0] * shape[1])
        total = np.bincount(self.asking.astype(int), weights=weights, minlength=shape[0])
        normalizer = np.minimum(total, bm25.FULL_SCORE_TERMS * self.rarest_idf**constants.rarity)
        return (flat.reshape(shape) / np.maximum(normalizer, 1e-9)[:, None]).astype(np.float32)

    def _among(self, own: Numbers, voice: Numbers, candidate: Any, constants: Constants) -> Numbers:
        """Return what `fusion.contextual_relevances` does, of all questions at once."""
        dependence = 1 / (1 + (self.lengths / constants.self_contained_length) ** 2)
        question = self.asks * dependence
        reply_gain = (constants.reply_share - constants.neighbour_share) * self._beside(voice * question, 1)
        last = constants.neighbour_share * self._beside(voice, 1) + reply_gain * ~self.continues
        following = self._beside(voice, -1)
        next_to = dependence * np.maximum(np.maximum(last, constants.neighbour_share * following), 0)
        far = np.maximum(self._beside(voice, 2), self._beside(voice, -2))
        beyond = dependence * constants.second_neighbour_share * far
        among = (1 - (1 - own) * (1 - next_to) * (1 - beyond)) * (1 - (1 - constants.question_share) * question)
        among *= 1 - (1 - constants.other_author_share) * self.by_other
        return among * (candidate | (next_to > 0) | (beyond > 0))

    def _beside(self, values: Numbers, shift: int) -> Numbers:
        """Return the values of the text so many places before, 0 where that is in another session."""
        moved = np.roll(values, shift, axis=1) * (np.roll(self.groups, shift) == self.groups)
        edge = slice(0, shift) if shift > 0 else slice(shift, None)
        moved[:, edge] = 0
        return moved


def misnamed(questions: Sequence[Question], speakers: set[str]) -> Iterator[Question]:
    """Yield some of the questions that name one speaker, with the name of the next one in the alphabet."""
    places = sorted(speakers)
    about = [(each, named_authors(each.text, speakers)) for each in questions]
    for question, (author,) in [each for each in about if len(each[1]) == 1][::MISNAMED]:
        other = places[(places.index(author) + 1) % len(places)].split()[0]
        forms = "|".join(map(re.escape, (author, *author.split())))
        yield replace(question, text=re.sub(rf"\b(?:{forms})\b", other, question.text))


def continuing(authors: Sequence[str]) -> list[bool]:
    """Say of each text whether the one before it is known to be by the same author."""
    return [bool(one) and one == other for one, other in zip(authors, ["", *authors], strict=False)]


def prepare(datasets: Sequence[Dataset]) -> dict[str, list[Prepared]]:
    """Return the data sets by name, all analysed before the first is asked."""
    analysed = [
        (dataset, collection, [analyse(_found_by(dataset, text)) for text in collection.texts])
        for dataset in datasets
        for collection in dataset.collections
    ]
    document_counts: Counter[int] = Counter()
    for *_, terms in analysed:
        for each in terms:
            document_counts.update(bm25.term_ids(each))
    known = Frequencies(sum(len(terms) for *_, terms in analysed), document_counts)
    prepared: dict[str, list[Prepared]] = {}
    for dataset, collection, terms in analysed:
        prepared.setdefault(dataset.name, []).append(Prepared(collection, dataset.kind, terms, known))
    return prepared


def _found_by(dataset: Dataset, text: Any) -> str:
    if dataset.kind != "conversations":
        return str(text.content)
    return searchable_text(text.content, author=text.author, said_at=text.at)


def settings(seed: int) -> list[Constants]:
    """Return settings drawn at random, the same each time."""
    drawn = random.Random(seed)
    return [
        Constants(**{name: float(drawn.choice(values)) for name, values in RANGES.items()}) for _ in range(SETTINGS)
    ]


def best_of(tried: Sequence[Constants], scores: Numbers) -> Constants:
    """Return the medians of the settings with the best scores."""
    return medians([tried[place] for place in np.argsort(-scores)[:BEST]])


def medians(several: Sequence[Constants]) -> Constants:
    return Constants(**{name: float(np.median([getattr(each, name) for each in several])) for name in RANGES})


def climb(best: Constants, score: Callable[[Constants], float]) -> Constants:
    """Return what is reached by giving each constant in turn the value that scores best beside the others."""
    for _ in range(SWEEPS):
        for name, values in RANGES.items():
            tried = [replace(best, **{name: float(value)}) for value in values]
            best = max([best, *tried], key=score)
    return best


def choose(datasets: Sequence[Sequence[Prepared]]) -> Constants:
    """Return the constants that suit some data sets best."""
    return medians([climb_from(settings(seed), datasets) for seed in SEEDS])


def climb_from(tried: Sequence[Constants], datasets: Sequence[Sequence[Prepared]]) -> Constants:
    """Return what is reached from the best of some settings."""
    known = np.array([[_recall(each, constants) for constants in tried] for each in datasets])
    spread = np.maximum(known.std(axis=1), 1e-9)

    def score(constants: Constants) -> float:
        return float(np.mean([_recall(each, constants) for each in datasets] / spread))

    return climb(best_of(tried, (known / spread[:, None]).mean(axis=0)), score)


def _recall(collections: Sequence[Prepared], constants: Constants) -> float:
    return float(np.mean([_mean_recall(each, constants) for each in collections]))


@cache
def _mean_recall(collection: Prepared, constants: Constants) -> float:
    return float(collection.recalls(constants).mean())


def judgements(prepared: Mapping[str, Sequence[Prepared]]) -> Iterator[dict[str, Any]]:
    """Yield what was left out, its recall by plain constants, those chosen without it and ours, and the choice."""
    for name, collections in prepared.items():
        rest = [each for other, each in prepared.items() if other != name]
        yield from _judged(name, collections, choose(rest))
    for half in (0, 1):
        chosen = choose([each[1 - half :: 2] or each for each in prepared.values()])
        for name, collections in prepared.items():
            if len(collections) > 1:
                yield from _judged(f"{name}, half {half + 1}", collections[half::2], chosen)


def _judged(name: str, collections: Sequence[Prepared], chosen: Constants) -> Iterator[dict[str, Any]]:
    """Yield what all questions as they were asked find; where some have no answer, also what the others find."""
    answered = np.concatenate([each.answered for each in collections])
    tried = {"plain": Constants(), "chosen without it": chosen, "ours": Constants.ours()}
    found = {
        by: np.concatenate([each.recalls(constants)[: len(each.answered)] for each in collections])
        for by, constants in tried.items()
    }
    parts = {name: answered | True, f"{name}, answered": answered}
    for part, counted in list(parts.items())[: 1 + (not answered.all())]:
        recalls = {by: float(each[counted].mean()) for by, each in found.items()}
        yield {"left out": part, **recalls, **asdict(chosen)}


def main() -> None:
    """Measure what the command line names, and print the figures."""
    parser = harness.parser_of(__doc__)
    parser.add_argument("data", nargs="+", type=Path, help="two or more files, or folders of BEAM")
    given = parser.parse_args()
    try:
        datasets = [each for path in given.data for each in read_datasets(path)]
    except DataProblem as problem:
        raise SystemExit(str(problem)) from problem
    if len(datasets) < 2:
        parser.error("two or more data sets are needed: one is left out")
    harness.tell(list(judgements(prepare(datasets))), given)


if __name__ == "__main__":
    main()
