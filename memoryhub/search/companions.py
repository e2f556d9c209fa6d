"""Tell which of several memories say something of a message that better ones do not. Pure: no Django, no database.

Two memories of Goma share her name with "What may Goma eat?", and only one is meant. A message with two topics has a
memory for each, and these share different words with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from memoryhub.search.bm25 import QueryWords, word_score
from memoryhub.search.fusion import DEFAULT_POLICY, FusionPolicy, SpaceBounds, relevance

LEAST_SHARE: Final = 0.3
"""What is less than this share as relevant as the best shares a word with the message by chance."""

EQUAL_SHARE: Final = 0.8
"""From this share of the best on, either may be the one meant, whatever words they have in common."""

OWN_SHARE: Final = 0.25
"""Between the two, as much of the relevance must be left without the words that better ones have said already."""


@dataclass(frozen=True)
class Hit:
    """A memory that was found; `document` are its words' weights, as `bm25.document_weights` has them."""

    relevance: float
    similarity_raw: float | None
    document: Mapping[int, float]


def informative_hits(
    hits: Sequence[Hit], words: QueryWords, bounds: SpaceBounds, policy: FusionPolicy = DEFAULT_POLICY
) -> list[int]:
    """Return the places of the hits to keep, the first among them; `hits` come most relevant first."""
    kept: list[int] = []
    said: dict[int, float] = {}
    for place, hit in enumerate(hits):
        document = {term: hit.document[term] for term in words.weights if term in hit.document}
        rest = {term: max(0.0, weight - said.get(term, 0.0)) for term, weight in document.items()}
        whole, left = (
            relevance(hit.similarity_raw, word_score(part, words), bounds, policy) for part in (document, rest)
        )
        if hit.relevance >= EQUAL_SHARE * hits[0].relevance or left >= OWN_SHARE * whole:
            kept.append(place)
            said |= {term: max(weight, said.get(term, 0.0)) for term, weight in document.items()}
    return kept
