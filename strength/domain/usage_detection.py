"""Detect which of the memories offered to a task its result used: only these are strengthened.

A result on the same topic repeats the words of the query, and so do all memories that the query found. Evidence of use
are terms beyond the query: numbers, names, words that the result is unlikely to have from elsewhere. Alternatives are
vectors, or a language model with the prompts of this module. Pure: knows neither tasks nor models nor how strength
grows. The constants were tuned on 31 cases in each of English and Japanese, never on those that the tests call fresh;
the tests hold both, and the figures.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from memoryhub.llm.types import array_schema, object_schema
from memoryhub.search.analysis import COMPOUND, UNSPACED, analyse, fold, is_unspaced
from memoryhub.search.bm25 import inverse_document_frequency, term_id
from strength.domain.extraction import cited

Key = TypeVar("Key", bound=Hashable)
Weights = dict[str, float]

EMPTY: Final[Mapping[int, float]] = MappingProxyType({})

MIN_EVIDENCE: Final = 0.8
"""Minimum of matched weight times its share of the fact: one word of one, two of four, three of nine."""

MIN_SHARE_OF_FACT: Final = 0.25
"""A long fact shares many words with any text on the same topic."""

MIN_SHARE_OF_WINDOW: Final = 0.5
"""Alternative, for answers of one word: minimum share of the result's weight beyond the query."""

EVIDENCE_PER_DOUBLING: Final = 0.08
"""Increase per doubling of the result's passages: long results match more by chance."""

FIGURE_MISMATCH_FACTOR: Final = 0.5
"""Factor for a fact with figures of which the window has none: "3.7 million", "4.2 million"."""

PASSAGE_CHARACTERS: Final = 300
"""Terms are matched in windows of two neighbouring passages; a whole report has nearly every word."""

MIN_CLAUSE_LENGTH: Final = 20
"""A shorter clause ("Dr.", "Important!") is merged with its neighbour."""

MAX_FACTS: Final = 500
"""Per memory; some 50,000 characters."""

MAX_RESULT_CHARACTERS: Final = 100_000
MAX_RESULT_PARTS: Final = 10_000
MAX_RESULT_DEPTH: Final = 32

UNSEEN_IDF: Final = inverse_document_frequency(documents_with_term=0, documents=0)
"""The idf of a term on an empty server. Weights are relative to the rarest term's, so that there each idf is 1."""

WORD, FIGURE, DIGIT = 1.0, 1.5, 0.25
UNIGRAM, BIGRAM, ONE_KANJI, SHORT_COMPOUND, LONG_COMPOUND = 0.1, 0.5, 0.6, 0.3, 0.5
"""Weights of kinds of terms. Two kanji are a compound, a bigram and two unigrams: together a word's weight."""

MIN_SIMILARITY: Final = 0.6
MIN_SIMILARITY_GAIN: Final = 0.05
"""Of cosines scaled from 0 (unrelated) to 1 (paraphrase). Not tuned; models differ."""

_CLAUSE_END: Final = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？])|[\r\n]+")
_DECIMAL: Final = re.compile(r"(?<!\d)\d++(?:\.\d++)++")
_MEASURE: Final = re.compile(rf"(?<![a-z0-9_.])(\d+(?:\.\d+)*+) ?(%|[a-z]+)|(?<![\d.])(\d+(?:\.\d+)++)([{UNSPACED}])")
_HAS_FIGURE: Final = re.compile(r"\d.")
_HIRAGANA: Final = re.compile("[\u3041-\u3096]")
_KATAKANA: Final = re.compile("[\u30a1-\u30fe]")
_NOT_A_LETTER: Final = re.compile(r"\W+")
_REFUSAL: Final = re.compile(
    r"\b(?:ignor\w*|disregard\w*|set aside|left out|leaving out|did not use|not using)\b.{0,40}"
    r"\b(?:memor|note|record|fact|information|hint|remark|entry|entries)"
    r"|\b(?:memory|memories|notes?|records?|entry|entries)\b.{0,80}\b(?:ignored|disregarded|left out|not used|unused)\b"
    r"|\birrelevant\b|\bunrelated\b|\bnot (?:be )?(?:relevant|related|applicable)\b"
    r"|\b(?:does|do|did)(?: not|n't|n’t) (?:apply|concern)\b"
    r"|(?:関係|関連)[がはの]?(?:な[いかく]|ありませ)|無関係|該当し(?:な|ませ)|当てはま(?:らな|りませ)"
    r"|(?:件|記憶|メモ|情報|記録|話).{0,12}(?:無視|使わな|使いませ|考慮しな|考慮しませ|考慮せず|参考にしな|参考にしませ)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Offered(Generic[Key]):
    key: Key
    text: str = field(repr=False)


def used_by_words(
    result: str, offered: Sequence[Offered[Key]], *, query: str = "", idf: Mapping[int, float] = EMPTY
) -> list[Key]:
    """Return the keys of the offered memories that the result uses, in order.

    A memory is used if the result quotes it and the query does not; or if, for one of its facts, the weight of its
    terms beyond the query in one window of the result, times their share of the fact (or of the window, if they are
    most of it), reaches `MIN_EVIDENCE`. `idf` is by term id; a missing term counts as the rarest. Clauses that reject a
    memory are ignored.
    """
    facts = [[_kind_weights(fact) for fact in islice(_facts(memory.text), MAX_FACTS)] for memory in offered]
    weights = _TermWeights(query, facts, idf)
    clauses = _clauses(result[:MAX_RESULT_CHARACTERS])
    everything = _ResultWindows(clauses, weights)
    kept = [clause for clause in clauses if not _REFUSAL.search(clause)]
    without_refusals = _ResultWindows(kept, weights) if len(kept) < len(clauses) else everything
    return [
        memory.key
        for memory, own in zip(offered, facts, strict=True)
        # A memory that itself contains words of refusal is not rejected by their repetition.
        if (everything if _REFUSAL.search(memory.text) else without_refusals).uses(memory.text, own)
    ]


def used_by_vectors(to_result: Mapping[Key, float | None], to_query: Mapping[Key, float | None]) -> list[Key]:
    """Return the keys of memories similar to the result, and more than to the query by `MIN_SIMILARITY_GAIN`.

    Both map keys to cosines scaled to [0, 1]. A memory without a similarity to the result is not used; without one to
    the query, the threshold decides. For long results, pass the greatest similarity of their `passages`.
    """
    return [
        key
        for key, similarity in to_result.items()
        if similarity is not None
        and similarity >= MIN_SIMILARITY
        and ((before := to_query.get(key)) is None or similarity - before >= MIN_SIMILARITY_GAIN)
    ]


def result_text(result: Any) -> str:
    """Return a result's text; of JSON the strings and numbers with their keys, which may be their subjects."""
    if isinstance(result, str):
        return result[:MAX_RESULT_CHARACTERS]
    parts = islice(_parts(result), MAX_RESULT_PARTS)
    return "\n".join(part for part in parts if part)[:MAX_RESULT_CHARACTERS]


def passages(text: str) -> list[str]:
    """Return the text in pieces of whole clauses, each at most `PASSAGE_CHARACTERS` long."""
    return _merge_clauses(_clauses(text))


class _TermWeights:
    """Weights of terms: 0 for the query's, less for those of several memories."""

    def __init__(self, query: str, facts: Sequence[Sequence[Weights]], idf: Mapping[int, float]) -> None:
        self.query_letters, self.query_terms = _letters(query), _kind_weights(query)
        self.memory_counts = Counter(term for memory in facts for term in set(chain.from_iterable(memory)))
        self.idf, self.rarest = idf, max([UNSEEN_IDF, *idf.values()])

    def weigh(self, kinds: Weights) -> Weights:
        weights = {}
        for term, kind in kinds.items():
            if term not in self.query_terms:
                rarity = self.idf.get(term_id(term), self.rarest) / self.rarest
                # Square root, so that five memories of the same fact are all detected.
                weights[term] = kind * (rarity / math.sqrt(max(1, self.memory_counts[term])))
        return weights


class _ResultWindows:
    """A result's terms beyond the query, by windows of two neighbouring passages."""

    def __init__(self, clauses: Sequence[str], term_weights: _TermWeights) -> None:
        self.term_weights = term_weights
        self.letters = _letters(" ".join(clauses))
        weights = [term_weights.weigh(_kind_weights(passage)) for passage in _merge_clauses(clauses)]
        windows = [first | second for first, second in pairwise(weights)] or weights
        self.threshold = MIN_EVIDENCE * (1 + EVIDENCE_PER_DOUBLING * math.log2(max(1, len(weights))))
        self.totals = [sum(window.values()) for window in windows]
        self.postings: dict[str, list[int]] = defaultdict(list)
        for number, window in enumerate(windows):
            for term in window:
                self.postings[term].append(number)

    def uses(self, text: str, facts: Sequence[Weights]) -> bool:
        letters = _letters(text)
        is_quoted = bool(letters) and letters in self.letters and letters not in self.term_weights.query_letters
        return is_quoted or any(self._states(fact) for fact in facts)

    def _states(self, kinds: Weights) -> bool:
        """Return whether a window has enough evidence of a fact; a missing figure halves it."""
        fact = self.term_weights.weigh(kinds)
        total = sum(fact.values())
        figures = [term for term in fact if _HAS_FIGURE.search(term)]
        with_figures = set(chain.from_iterable(self.postings.get(term, ()) for term in figures))
        sums: dict[int, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        for term, weight in fact.items():
            windows = self.postings.get(term, ())
            rarity = weight / math.sqrt(max(1.0, len(windows) / 2))
            for window in windows:
                sums[window] = (sums[window][0] + weight, sums[window][1] + rarity)
        for window, (matched, evidence) in sums.items():
            of_fact, of_window = matched / total, matched / self.totals[window]
            shares = (
                of_fact if of_fact >= MIN_SHARE_OF_FACT else 0.0,
                of_window if of_window >= MIN_SHARE_OF_WINDOW else 0.0,
            )
            factor = 1.0 if not figures or window in with_figures else FIGURE_MISMATCH_FACTOR
            if evidence * max(shares) * factor >= self.threshold:
                return True
        return False


def _letters(text: str) -> str:
    return _NOT_A_LETTER.sub("", fold(text))


def _clauses(text: str) -> list[str]:
    return [
        sentence[start : start + PASSAGE_CHARACTERS]
        for sentence in _CLAUSE_END.split(text)
        for start in range(0, len(sentence), PASSAGE_CHARACTERS)
    ]


def _facts(text: str) -> list[str]:
    return _merge_clauses(_clauses(text), lambda merged, new: min(len(merged), len(new)) < MIN_CLAUSE_LENGTH)


def _merge_clauses(clauses: Iterable[str], merges: Callable[[str, str], bool] = lambda merged, new: True) -> list[str]:
    """Merge neighbouring clauses up to PASSAGE_CHARACTERS, where `merges` allows."""
    result: list[str] = []
    for clause in clauses:
        if result and len(result[-1]) + len(clause) < PASSAGE_CHARACTERS and merges(result[-1], clause):
            result[-1] += f"\n{clause}"
        else:
            result.append(clause)
    return result


def _kind_weights(text: str) -> Weights:
    """Return the weights of a text's terms by kind; decimals and measures (15 %, 45 seconds) are terms too."""
    folded = fold(text)
    kinds = {term: _kind_weight(term) for term in analyse(_DECIMAL.sub(" ", folded))}
    kinds |= dict.fromkeys(_DECIMAL.findall(folded), FIGURE)
    for number, unit, decimal, counter in _MEASURE.findall(folded):
        kinds[f"{number}{decimal} {unit.removesuffix('s')}{counter}"] = FIGURE
    return kinds


def _kind_weight(term: str) -> float:
    if term[0] == COMPOUND:
        compound = term[1:]
        if _HIRAGANA.match(compound):
            return 0.0  # 「は30」 is a particle and a number
        if compound[0].isdecimal():
            return FIGURE
        if _KATAKANA.match(compound):
            return WORD
        return {1: ONE_KANJI, 2: SHORT_COMPOUND}.get(len(compound), LONG_COMPOUND)
    if not is_unspaced(term):
        return DIGIT if len(term) == 1 else FIGURE if term.isdecimal() else WORD
    if len(term) == 1 or _HIRAGANA.search(term) or _KATAKANA.search(term):
        return UNIGRAM  # katakana words are compounds; hiragana bigrams are rarely words
    return BIGRAM


def _parts(value: Any, name: str = "", depth: int = MAX_RESULT_DEPTH) -> Iterator[str]:
    if value is None or isinstance(value, bool) or not depth:
        yield name
    elif isinstance(value, Mapping):
        yield name
        for key, inner in value.items():
            yield from _parts(inner, str(key), depth - 1)
    elif isinstance(value, list | tuple | set | frozenset):
        yield name
        for inner in value:
            yield from _parts(inner, "", depth - 1)
    else:
        yield f"{name} {value}".strip()


MAX_JUDGED_CHARACTERS: Final = 20_000
MAX_MEMORY_CHARACTERS: Final = 2_000
"""Limits of the prompt; 50 memories and a result have less than about 60,000 tokens."""

JUDGING_SCHEMA: Final = object_schema({"used": array_schema({"type": "integer"})})
LEARNING_SCHEMA: Final = object_schema({"content": {"type": "string"}, "learning": {"type": "string"}})

_HEADINGS: Final = {
    "en": {"query": "query", "result": "result", "memories": "memories"},
    "ja": {"query": "依頼", "result": "結果", "memories": "記憶"},
}


class UnreadableJudgement(ValueError):
    """The model's answer has no list of used memories."""


def judging_blocks(result: str, offered: Sequence[Offered[Any]], *, language: str) -> dict[str, str]:
    """Return the memories, numbered from 1, one line each, and the result, by their headings."""
    words = _HEADINGS.get(language, _HEADINGS["en"])
    # One line each, so that a line of its text cannot imitate another numbered memory.
    texts = [_shortened(" ".join(memory.text.split()), MAX_MEMORY_CHARACTERS) for memory in offered]
    memories = "\n".join(f"{number}. {text}" for number, text in enumerate(texts, 1))
    return {words["memories"]: memories, words["result"]: _shortened(result, MAX_JUDGED_CHARACTERS)}


def judged(data: Any, offered: Sequence[Offered[Key]]) -> list[Key]:
    """Return the keys that a model's answer names, in the order offered. Raises UnreadableJudgement."""
    used = data.get("used") if isinstance(data, Mapping) else None
    if not isinstance(used, list):
        raise UnreadableJudgement("The answer has no list of used memories.")
    return [memory.key for memory in cited(offered, used)]


def learning_blocks(query: str, result: str, *, language: str) -> dict[str, str]:
    words = _HEADINGS.get(language, _HEADINGS["en"])
    return {
        words["query"]: _shortened(query, MAX_MEMORY_CHARACTERS),
        words["result"]: _shortened(result, MAX_JUDGED_CHARACTERS),
    }


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = (limit - 3) // 2
    return f"{text[:half]} … {text[-half:]}"
