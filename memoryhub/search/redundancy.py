"""Drop redundant hits: those that match a message only by terms that better hits match too. Pure.

Two memories of Goma share her name with "What may Goma eat?", but only one answers it. A message with two topics has a
memory for each, and these share different terms with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memoryhub.search.bm25 import QueryWords, word_score
from memoryhub.search.fusion import DEFAULT_POLICY, FusionPolicy, SpaceBounds, relevance

MIN_RELEVANCE_SHARE: Final = 0.3
"""Minimum relevance as a share of the best hit's; less is a match by chance."""

ALWAYS_KEPT_SHARE: Final = 0.8
"""Relevance as a share of the best hit's from which a hit is kept, redundant or not."""

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
    kept: list[int] = []
    covered: dict[int, float] = {}
    for place, hit in enumerate(hits):
        document = {term: hit.document[term] for term in words.weights if term in hit.document}
        remaining = {term: max(0.0, weight - covered.get(term, 0.0)) for term, weight in document.items()}
        whole, novel = (
            relevance(hit.similarity_raw, word_score(part, words), bounds, policy) for part in (document, remaining)
        )
        if hit.relevance >= ALWAYS_KEPT_SHARE * hits[0].relevance or novel >= MIN_NOVELTY * whole:
            kept.append(place)
            covered |= {term: max(weight, covered.get(term, 0.0)) for term, weight in document.items()}
    return kept
