"""Detect which of the memories offered to a task its result used: only these are strengthened.

A result about the same topic repeats the words of the query, and so does every memory that the query found. The
evidence is what a memory says beyond the query: numbers, names, words that the result would hardly have from elsewhere.
Alternatives are vectors, or a language model, whose prompts are here as well. Pure: must know neither tasks nor models
nor how strength grows. The constants were chosen on 31 cases in each of English and Japanese and never on those that
the tests call fresh; the tests hold both, and the figures.
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

NEEDED: Final = 0.8
"""Found weight times its share of the fact: one word of one, two of four, three of nine."""

NEEDED_SHARE: Final = 0.25
"""Minimum share of the fact: a long fact shares many words with any text about the same matter."""

NEEDED_SHARE_OF_PLACE: Final = 0.5
"""Alternative: minimum share of what the result says beyond the query, for answers of one word."""

NEEDED_PER_DOUBLING: Final = 0.08
"""Increase per doubling of the result's passages: long results coincide with more."""

OTHER_FIGURES: Final = 0.5
"""Weight of a match where the fact has figures and the result none of them: "3.7 million", "4.2 million"."""

PASSAGE_CHARACTERS: Final = 300
"""Words count together within two neighbouring passages; in a whole report every word meets every other."""

SHORT_CLAUSE: Final = 20
"""A shorter clause ("Dr.", "Important!") is joined to its neighbour."""

MAX_FACTS: Final = 500
"""Per memory; some 50,000 characters."""

MAX_RESULT_CHARACTERS: Final = 100_000
MAX_RESULT_PARTS: Final = 10_000
MAX_RESULT_DEPTH: Final = 32

UNSEEN_IDF: Final = inverse_document_frequency(documents_with_term=0, documents=0)
"""The idf of a term on an empty server. Weights are relative to the rarest term's, so there each idf counts 1."""

WORD, FIGURE, DIGIT = 1.0, 1.5, 0.25
CHARACTER, PAIR, ONE_KANJI, SHORT_COMPOUND, LONG_COMPOUND = 0.1, 0.5, 0.6, 0.3, 0.5
"""Weights of kinds of terms. Two kanji are a compound, a pair and two characters: together a word's weight."""

SIMILAR: Final = 0.6
GAIN: Final = 0.05
"""Cosines scaled to 0 (unrelated) to 1 (paraphrase). Not measured; models differ."""

_CLAUSE_END: Final = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？])|[\r\n]+")
_DECIMAL: Final = re.compile(r"\d+(?:\.\d+)+")
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
    terms beyond the query in one place of the result, times their share of the fact (or of the place, if they are most
    of it), reaches `NEEDED`. `idf` is by term id; a missing term counts as the rarest. Clauses that reject a memory are
    ignored.
    """
    facts = [[_kinds(fact) for fact in islice(_facts(memory.text), MAX_FACTS)] for memory in offered]
    scale = _TermWeights(query, facts, idf)
    said = _clauses(result[:MAX_RESULT_CHARACTERS])
    whole = _ResultPassages(said, scale)
    kept = [clause for clause in said if not _REFUSAL.search(clause)]
    without_refusals = _ResultPassages(kept, scale) if len(kept) < len(said) else whole
    return [
        memory.key
        for memory, own in zip(offered, facts, strict=True)
        # A memory that itself speaks of ignoring is not rejected where it is repeated.
        if (whole if _REFUSAL.search(memory.text) else without_refusals).uses(memory.text, own)
    ]


def used_by_vectors(to_result: Mapping[Key, float | None], to_query: Mapping[Key, float | None]) -> list[Key]:
    """Return the keys of the memories near to the result, and nearer to it than to the query by `GAIN`.

    Both map keys to cosines scaled to [0, 1]. A memory without a similarity to the result is not used; without one to
    the query the threshold decides alone. A long result is near to nothing: give the greatest similarity of its
    `passages`.
    """
    return [
        key
        for key, similarity in to_result.items()
        if similarity is not None
        and similarity >= SIMILAR
        and ((before := to_query.get(key)) is None or similarity - before >= GAIN)
    ]


def result_text(result: Any) -> str:
    """Return a result's text; of JSON each string and number after its key, since that may be the subject."""
    if isinstance(result, str):
        return result[:MAX_RESULT_CHARACTERS]
    parts = islice(_parts(result), MAX_RESULT_PARTS)
    return "\n".join(part for part in parts if part)[:MAX_RESULT_CHARACTERS]


def passages(text: str) -> list[str]:
    """Return the text in pieces of whole clauses, each at most `PASSAGE_CHARACTERS` long."""
    return _joined(_clauses(text))


class _TermWeights:
    """Weights of terms: none for the query's, less for those of several memories."""

    def __init__(self, query: str, facts: Sequence[Sequence[Weights]], idf: Mapping[int, float]) -> None:
        self.asked, self.known = _letters(query), _kinds(query)
        self.holders = Counter(term for memory in facts for term in set(chain.from_iterable(memory)))
        self.idf, self.rarest = idf, max([UNSEEN_IDF, *idf.values()])

    def weigh(self, kinds: Weights) -> Weights:
        weights = {}
        for term, kind in kinds.items():
            if term not in self.known:
                rarity = self.idf.get(term_id(term), self.rarest) / self.rarest
                # The square root of their number: of five memories of the same fact all are used.
                weights[term] = kind * (rarity / math.sqrt(max(1, self.holders[term])))
        return weights


class _ResultPassages:
    """A result's terms beyond the query, by places: two neighbouring passages each."""

    def __init__(self, clauses: Sequence[str], scale: _TermWeights) -> None:
        self.scale = scale
        self.letters = _letters(" ".join(clauses))
        weights = [scale.weigh(_kinds(passage)) for passage in _joined(clauses)]
        together = [first | second for first, second in pairwise(weights)] or weights
        self.needed = NEEDED * (1 + NEEDED_PER_DOUBLING * math.log2(max(1, len(weights))))
        self.totals = [sum(place.values()) for place in together]
        self.places: dict[str, list[int]] = defaultdict(list)
        for number, place in enumerate(together):
            for term in place:
                self.places[term].append(number)

    def uses(self, text: str, facts: Sequence[Weights]) -> bool:
        letters = _letters(text)
        is_quoted = bool(letters) and letters in self.letters and letters not in self.scale.asked
        return is_quoted or any(self._states(fact) for fact in facts)

    def _states(self, kinds: Weights) -> bool:
        """Say whether a place states a fact: it has enough of its weight, and where it has figures, one of them."""
        fact = self.scale.weigh(kinds)
        total = sum(fact.values())
        figures = [term for term in fact if _HAS_FIGURE.search(term)]
        having = set(chain.from_iterable(self.places.get(term, ()) for term in figures))
        sums: dict[int, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        for term, weight in fact.items():
            places = self.places.get(term, ())
            rarity = weight / math.sqrt(max(1.0, len(places) / 2))
            for place in places:
                sums[place] = (sums[place][0] + weight, sums[place][1] + rarity)
        for place, (found, rare) in sums.items():
            of_fact, of_place = found / total, found / self.totals[place]
            shares = (
                of_fact if of_fact >= NEEDED_SHARE else 0.0,
                of_place if of_place >= NEEDED_SHARE_OF_PLACE else 0.0,
            )
            worth = 1.0 if not figures or place in having else OTHER_FIGURES
            if rare * max(shares) * worth >= self.needed:
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
    return _joined(_clauses(text), lambda held, new: min(len(held), len(new)) < SHORT_CLAUSE)


def _joined(clauses: Iterable[str], belong: Callable[[str, str], bool] = lambda held, new: True) -> list[str]:
    joined: list[str] = []
    for clause in clauses:
        if joined and len(joined[-1]) + len(clause) < PASSAGE_CHARACTERS and belong(joined[-1], clause):
            joined[-1] += f"\n{clause}"
        else:
            joined.append(clause)
    return joined


def _kinds(text: str) -> Weights:
    """Return the weights of a text's terms by kind; decimals and measures (15 %, 45 seconds) are terms too."""
    folded = fold(text)
    kinds = {term: _kind(term) for term in analyse(_DECIMAL.sub(" ", folded))}
    kinds |= dict.fromkeys(_DECIMAL.findall(folded), FIGURE)
    for number, unit, decimal, counter in _MEASURE.findall(folded):
        kinds[f"{number}{decimal} {unit.removesuffix('s')}{counter}"] = FIGURE
    return kinds


def _kind(term: str) -> float:
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
        return CHARACTER  # of katakana the word is a compound, of hiragana a pair is hardly a word
    return PAIR


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
"""Limits of the prompt; 50 memories and a result stay below some 60,000 tokens."""

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
    # On one line each, so that none of its lines can pass for another numbered memory.
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
