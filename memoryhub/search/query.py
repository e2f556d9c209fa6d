"""What is searched for: the query's vector, its words, and the space they are compared in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from memoryhub.search.analysis import analyse_query
from memoryhub.search.fusion import DEFAULT_POLICY, FusionPolicy, SpaceBounds
from memoryhub.search.models import EmbeddingSpace
from memoryhub.search.statistics import idf
from memoryhub.search.vectors import unit_vector
from memoryhub.search.words import QueryWords, query_words, term_ids


@dataclass(frozen=True)
class SearchQuery:
    """A query, ready to be compared. Without `vector` words decide alone, without `words` the vector does."""

    space_id: int
    bounds: SpaceBounds
    vector: tuple[float, ...] | None = None
    words: QueryWords | None = None
    policy: FusionPolicy = DEFAULT_POLICY
    text: str = field(default="", repr=False)
    """What was asked, where it was asked in words; never shown, for it is somebody's."""
    degraded: bool = False
    """The query should have a vector, and the embedder could not be reached."""


def build_query(
    text: str,
    *,
    space: EmbeddingSpace,
    embed: Callable[[str], Sequence[float] | None],
    policy: FusionPolicy = DEFAULT_POLICY,
) -> SearchQuery:
    """Return the query for a text. `embed` answers None where the embedder is down: the query is `degraded`.

    Raises:
        UnusableVector: where the embedder answers with a vector of another dimension, or no numbers.
    """
    terms = analyse_query(text)
    vector = embed(text)
    return SearchQuery(
        space_id=space.pk,
        bounds=space.bounds,
        vector=None if vector is None else tuple(unit_vector(vector, dimension=space.dimension)),
        words=query_words(terms, idf(term_ids(terms))),
        policy=policy,
        text=text,
        degraded=vector is None,
    )


def build_vector_query(
    vector: Sequence[float], *, space: EmbeddingSpace, policy: FusionPolicy = DEFAULT_POLICY
) -> SearchQuery:
    """Return the query for a given vector alone (SPEC M6).

    Raises:
        UnusableVector: where its dimension is not the space's, or a number is not finite.
    """
    unit = tuple(unit_vector(vector, dimension=space.dimension))
    return SearchQuery(space_id=space.pk, bounds=space.bounds, vector=unit, policy=policy)
