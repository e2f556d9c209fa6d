"""Choose the ranking's constants anew on all data sets but one, and judge them on the one left out.

    python bench/constants.py DATA DATA…           # all that `retrieval.py` reads but chat messages

The choice are the medians of the ten best of 300 random settings, by their mean recall on the other data sets. The
product's own constants should then be little better on the set left out: else they fit it alone. The same with every
second conversation of each set left out. Searches are computed here, from the functions that the server uses and the
vectors of `hashing`, for every setting asks all questions; what `retrieval.py` finds on a server is the same to 0.01.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

import harness
import numpy as np
from numpy.typing import NDArray
from question_sets import Collection, DataProblem, Dataset, read_datasets
from rich.console import Console
from scoring import cosines

from conversations.domain.messages import asks, findable_words, named_authors, without_names
from memoryhub.embeddings.hashing import HashingProvider
from memoryhub.search import bm25
from memoryhub.search.analysis import analyse, message_terms
from memoryhub.search.fusion import DEFAULT_POLICY
from strength.domain.policy import SearchPolicy

Numbers = NDArray[np.float64]
EMBEDDER: Final = HashingProvider()
FLOORS: Final = SearchPolicy()
DEPTH: Final = {"conversations": 10, "paragraphs": 1}
"""The recall that counts, by kind of data."""

MOST_QUESTIONS: Final = 600
"""Of a collection: more would not change what is chosen."""

SETTINGS: Final = 300
BEST: Final = 10
"""Of the settings tried, whose medians are the choice: the single best one owes much to chance."""

SEED: Final = 7


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
    beyond_share: float = 0.0
    asking_share: float = 1.0
    other_author_share: float = 1.0
    self_contained_length: float = 1_000.0

    @classmethod
    def ours(cls) -> Self:
        """Return the product's constants."""
        named = {each.name for each in fields(cls)}
        policy = {name: value for name, value in asdict(DEFAULT_POLICY).items() if name in named}
        return cls(bm25.HALF_LENGTH, bm25.LENGTH_EXPONENT, bm25.RARITY, **policy)


SHARES: Final = tuple(np.arange(0, 1.01, 0.1))
RANGES: Final[Mapping[str, Sequence[float]]] = {
    "half_length": (30, 45, 60, 85, 120, 170, 240),
    "length_exponent": (0.75, 1.0, 1.25, 1.5, 1.75),
    "rarity": (0.75, 1.0, 1.25, 1.5, 1.75, 2.0),
    "word_midpoint": (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    "word_steepness": (1.5, 2.0, 2.5, 3.0, 3.5, 4.0),
    "neighbour_share": SHARES,
    "reply_share": SHARES,
    "beyond_share": SHARES,
    "asking_share": SHARES,
    "other_author_share": SHARES,
    "self_contained_length": (15, 30, 45, 60, 90, 140, 200),
}


@dataclass(frozen=True)
class Frequencies:
    """In how many texts of all data sets each term is, as a server that holds them all knows."""

    documents: int
    of_term: Mapping[int, int]

    def idf(self, term: str) -> float:
        """Return the idf of a query's term, as `index.query_idf` has it."""
        place = bm25.term_id(term)
        return self._idf(self.of_term.get(place, 0) + bm25.common_terms().get(place, 0))

    @property
    def rare(self) -> float:
        return self._idf(1)

    def _idf(self, count: int) -> float:
        documents = self.documents + bm25.COMMON_DOCUMENTS
        return bm25.inverse_document_frequency(documents_with_term=count, documents=documents)


class Prepared:
    """A collection with all that does not depend on the constants; arrays are [question, text]."""

    def __init__(
        self, collection: Collection, kind: str, terms: Sequence[Counter[str]], known: Frequencies
    ) -> None:
        self.kind, self.rare = kind, known.rare
        questions = collection.questions[:MOST_QUESTIONS]
        texts = collection.texts
        self.lengths = np.array([bm25.text_length(each) for each in terms])
        self.groups = np.repeat(
            np.arange(len(collection.groups)), [len(group.texts) for group in collection.groups]
        )
        self.asks = np.array([float(asks(text.content)) for text in texts])
        self.evidence = np.array([[text.id in question.evidence for text in texts] for question in questions])
        authors = [text.author for text in texts]
        self.by_other = np.zeros(self.evidence.shape)
        self.continues = np.array(continuing(authors))
        bare = []
        for place, question in enumerate(questions):
            named = (
                named_authors(question.text, set(authors) - {""}) if kind == "conversations" else frozenset()
            )
            bare.append(without_names(question.text, named) if named else question.text)
            if len(named) == 1:
                self.by_other[place] = [author not in {"", *named} for author in authors]
        vectors = EMBEDDER.embed([text.content for text in texts]).astype(float)
        self.cosine = np.array([cosines(vectors, vector) for vector in EMBEDDER.embed(bare).astype(float)])
        self._post([message_terms(question.text) for question in questions], terms, known)

    def _post(self, asked: Sequence[Any], terms: Sequence[Counter[str]], known: Frequencies) -> None:
        postings: dict[str, list[tuple[int, int]]] = {}
        for text, counts in enumerate(terms):
            for term, count in counts.most_common(bm25.MAX_DOCUMENT_TERMS):
                postings.setdefault(term, []).append((text, count))
        weights = [
            (place, term, known.idf(term), bm25.term_share(term))
            for place, each in enumerate(asked)
            for term in each
        ]
        self.asking, self.idf, self.share = (
            np.array([row[at] for row in weights], dtype=float) for at in (0, 2, 3)
        )
        entries = [
            (row, place, text, count)
            for row, (place, term, *_) in enumerate(weights)
            for text, count in postings.get(term, ())
        ]
        self.entries, self.places, self.texts, counts = np.array(entries, dtype=int).reshape(-1, 4).T
        self.counts = counts.astype(float)

    def recall(self, constants: Constants) -> float:
        """Return the mean recall at the depth that counts for this kind."""
        relevance = self._relevance(constants)
        depth = DEPTH[self.kind]
        best = np.argsort(-relevance - 1e-9 * self.cosine, axis=1, kind="stable")[:, :depth]
        found = np.take_along_axis(self.evidence & (relevance > 0), best, axis=1)
        return float(np.mean(found.sum(axis=1) / self.evidence.sum(axis=1)))

    def _relevance(self, constants: Constants) -> Numbers:
        words = self._words(constants)
        constant = constants.word_midpoint**constants.word_steepness
        bounds = EMBEDDER.bounds
        near = np.clip((self.cosine - bounds.cosine_low) / (bounds.cosine_high - bounds.cosine_low), 0, 1)
        own = 1 - (1 - bounds.vector_weight * near) * (
            constant / (words**constants.word_steepness + constant)
        )
        candidate = (self.cosine >= FLOORS.similarity_threshold) | (words >= FLOORS.word_floor)
        return (
            self._among(own, own * candidate, candidate, constants)
            if self.kind == "conversations"
            else own * candidate
        )

    def _words(self, constants: Constants) -> Numbers:
        weights = self.idf**constants.rarity * self.share
        norms = (self.lengths / constants.half_length) ** constants.length_exponent
        gains = weights[self.entries] * self.counts / (self.counts + norms[self.texts])
        shape = self.evidence.shape
        flat = np.bincount(self.places * shape[1] + self.texts, weights=gains, minlength=shape[0] * shape[1])
        total = np.bincount(self.asking.astype(int), weights=weights, minlength=shape[0])
        reachable = np.minimum(total, bm25.CONVINCING_TERMS * self.rare**constants.rarity)
        return flat.reshape(shape) / np.maximum(reachable, 1e-9)[:, None]

    def _among(
        self, own: Numbers, voice: Numbers, candidate: NDArray[np.bool_], constants: Constants
    ) -> Numbers:
        """Return what `fusion.in_conversation` does, of all questions at once."""
        dependence = 1 / (1 + (self.lengths / constants.self_contained_length) ** 2)
        question = self.asks * dependence
        reply_gain = (constants.reply_share - constants.neighbour_share) * self._beside(voice * question, 1)
        last = constants.neighbour_share * self._beside(voice, 1) + reply_gain * ~self.continues
        following = self._beside(voice, -1)
        next_to = dependence * np.maximum(np.maximum(last, constants.neighbour_share * following), 0)
        far = np.maximum(self._beside(voice, 2), self._beside(voice, -2))
        beyond = dependence * constants.beyond_share * far
        among = (1 - (1 - own) * (1 - next_to) * (1 - beyond)) * (1 - (1 - constants.asking_share) * question)
        among *= 1 - (1 - constants.other_author_share) * self.by_other
        return among * (candidate | (next_to > 0) | (beyond > 0))

    def _beside(self, values: Numbers, shift: int) -> Numbers:
        """Return the values of the text so many places before, 0 where that is in another session."""
        moved = np.roll(values, shift, axis=1) * (np.roll(self.groups, shift) == self.groups)
        edge = slice(0, shift) if shift > 0 else slice(shift, None)
        moved[:, edge] = 0
        return moved


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
    of_term: Counter[int] = Counter()
    for *_, terms in analysed:
        for each in terms:
            of_term.update(bm25.term_ids(each))
    known = Frequencies(sum(len(terms) for *_, terms in analysed), of_term)
    prepared: dict[str, list[Prepared]] = {}
    for dataset, collection, terms in analysed:
        prepared.setdefault(dataset.name, []).append(Prepared(collection, dataset.kind, terms, known))
    return prepared


def _found_by(dataset: Dataset, text: Any) -> str:
    if dataset.kind != "conversations":
        return str(text.content)
    return findable_words(text.content, author=text.author, said_at=text.at)


def recall(collections: Sequence[Prepared], constants: Constants) -> float:
    """Return the mean recall over a data set's questions."""
    weights = [len(each.evidence) for each in collections]
    return float(np.average([each.recall(constants) for each in collections], weights=weights))


def settings() -> list[Constants]:
    """Return settings drawn at random, the same each time."""
    drawn = random.Random(SEED)
    return [
        Constants(**{name: float(drawn.choice(values)) for name, values in RANGES.items()})
        for _ in range(SETTINGS)
    ]


def best_of(tried: Sequence[Constants], scores: Numbers) -> Constants:
    """Return the medians of the settings with the best scores."""
    best = [asdict(tried[place]) for place in np.argsort(-scores)[:BEST]]
    return Constants(**{name: float(np.median([each[name] for each in best])) for name in RANGES})


def judgements(prepared: Mapping[str, Sequence[Prepared]]) -> Iterator[dict[str, Any]]:
    """Yield what was judged, the constants chosen without it, and its recall by these, by ours and by plain ones."""
    tried = settings()
    # By data set, the recall [setting, conversation].
    recalls = {
        name: np.array([[each.recall(constants) for each in collections] for constants in tried])
        for name, collections in prepared.items()
    }
    for name, collections in prepared.items():
        scores = np.mean([values.mean(axis=1) for other, values in recalls.items() if other != name], axis=0)
        yield _judged(name, collections, best_of(tried, scores))
    for half in (0, 1):
        others = [values[:, 1 - half :: 2] if values.shape[1] > 1 else values for values in recalls.values()]
        chosen = best_of(tried, np.mean([values.mean(axis=1) for values in others], axis=0))
        for name, collections in prepared.items():
            if len(collections) > 1:
                yield _judged(f"{name}, half {half + 1}", collections[half::2], chosen)


def _judged(name: str, collections: Sequence[Prepared], chosen: Constants) -> dict[str, Any]:
    tried = {"plain": Constants(), "chosen without it": chosen, "ours": Constants.ours()}
    recalls = {by: recall(collections, constants) for by, constants in tried.items()}
    return {"name": name, "chosen": asdict(chosen), "recall": recalls}


def show(result: Mapping[str, Any], console: Console) -> None:
    """Print what each data set is found with, and the constants."""
    recalls = [{"left out": each["name"], **each["recall"]} for each in result["sets"]]
    harness.table(console, recalls, "Recall on what was left out")
    chosen = {f"without {each['name']}": each["chosen"] for each in result["sets"]}
    columns = {"ours": asdict(Constants.ours()), **chosen}
    rows = [{"": name, **{by: values[name] for by, values in columns.items()}} for name in RANGES]
    harness.table(console, rows, "Constants")


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
    harness.tell({"sets": list(judgements(prepare(datasets)))}, given, show)


if __name__ == "__main__":
    main()
