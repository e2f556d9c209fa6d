"""Drop hits that match a message by everyday words only, or only by terms that better hits match too. Pure.

Two memories of Goma share her name with "What may Goma eat?", but only one answers it. A message with two topics has a
memory for each, and these share different terms with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memoryhub.search.bm25 import QueryWords, common_terms, word_score
from memoryhub.search.fusion import DEFAULT_POLICY, FusionPolicy, SpaceBounds, relevance, scaled_similarity

MIN_RELEVANCE_SHARE: Final = 0.3
"""Minimum relevance as a share of the best hit's; less is a match by chance."""

ALWAYS_KEPT_SHARE: Final = 0.8
"""Relevance as a share of the best hit's from which a hit is kept, redundant or not."""

EQUAL_SHARE: Final = 0.9
LIKELY: Final = 0.5
"""Relevance, as a share of that of the hit that covers it and absolute, from which a hit is kept: the present address
is no less an answer than the former one."""

MIN_MESSAGE_TERMS: Final = 4
MAX_EVERYDAY_TERMS: Final = 2
MIN_COMMON_COUNT: Final = 4
"""A hit that shares at most so many terms with a message of so many or more is no evidence, if each of its terms is in
so many of the everyday texts, such as "hand" or "half"."""

MIN_NOVELTY: Final = 0.25
"""Between the two, minimum share of the relevance that remains without the terms of better hits."""


@dataclass(frozen=True)
class Hit:
    """A memory found; `document` holds its term weights, see `bm25.document_weights`."""

    relevance: float
    similarity_raw: float | None
    document: Mapping[int, float]


def informative_hits(
    hits: Sequence[Hit], words: QueryWords, bounds: SpaceBounds, policy: FusionPolicy = DEFAULT_POLICY
) -> list[int]:
    """Return the positions of the hits to keep, of hits in descending order of relevance."""
    kept: dict[int, Mapping[int, float]] = {}  # the shared terms by position
    knows_few = len(words.weights) < MIN_MESSAGE_TERMS
    covered: dict[int, float] = {}
    for place, hit in enumerate(hits):
        document = {term: hit.document[term] for term in words.weights if term in hit.document}
        if not (knows_few or scaled_similarity(hit.similarity_raw, bounds) or _is_evidence(document)):
            continue
        remaining = {term: max(0.0, weight - covered.get(term, 0.0)) for term, weight in document.items()}

        def scored(part: Mapping[int, float], raw: float | None = hit.similarity_raw) -> float:
            return relevance(raw, word_score(part, words), bounds, policy)

        # The cheapest first: most hits are kept by their relevance alone.
        if (
            hit.relevance >= ALWAYS_KEPT_SHARE * hits[0].relevance
            or scored(remaining) >= MIN_NOVELTY * scored(document)
            or hit.relevance >= max(LIKELY, EQUAL_SHARE * _covering(document, kept, hits, place).relevance)
        ):
            kept[place] = document
            covered |= {term: max(weight, covered.get(term, 0.0)) for term, weight in document.items()}
    return list(kept)


def _covering(
    document: Mapping[int, float], kept: Mapping[int, Mapping[int, float]], hits: Sequence[Hit], place: int
) -> Hit:
    """Return the kept hit with the most of a document's terms, of several the best; the hit itself where none is."""
    return hits[max(kept, key=lambda other: _common(document, kept[other]), default=place)]


def _common(document: Mapping[int, float], other: Mapping[int, float]) -> float:
    return sum(min(weight, other.get(term, 0.0)) for term, weight in document.items())


def _is_evidence(document: Mapping[int, float]) -> bool:
    """Return whether a hit matches by more than one or two everyday terms; `document` holds the shared ones."""
    return len(document) > MAX_EVERYDAY_TERMS or any(
        common_terms().get(term, 0) < MIN_COMMON_COUNT for term in document
    )
