"""Search queries, and the exact scan over index rows that scores them in PostgreSQL by the formula of `fusion.py`.

The scan is one statement. Its first part, a materialised CTE, computes each row's cosine and word
score once; later parts read them. Written as annotations alone, PostgreSQL would compute the cosine
anew wherever the formula, the filter and the order mention it. Recall against brute force is 1.0:
no approximate index takes part.

Rows are narrowed by the caller: to the actors (`actor_id IN …`) and to the query's space. The CASE
around the cosine keeps vectors of another dimension from being compared even where that was forgotten.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from django.db import connection
from django.db.models import Case, Expression, ExpressionWrapper, F, FloatField, Q, QuerySet, Value, When
from django.db.models.functions import Cast, Coalesce, NullIf
from pgvector import SparseVector
from pgvector.django import CosineDistance, MaxInnerProduct

from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import DIMENSION, QueryWords, query_words, term_id, term_ids
from memoryhub.search.fusion import DEFAULT_POLICY, FusionPolicy, SpaceBounds
from memoryhub.search.index import idf_and_rare, unit_vector
from memoryhub.search.models import (
    EmbeddingSpace,
    InlineHalfVectorField,
    InlineSparseVectorField,
    SearchIndexRow,
)


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

    def weights_by_term(self) -> dict[str, float]:
        """Return the weights of the text's own terms."""
        weights = self.words.weights if self.words else {}
        return {term: weights[term_id(term)] for term in analyse(self.text) if term_id(term) in weights}


def build_query(
    text: str,
    *,
    space: EmbeddingSpace,
    embed: Callable[[str], Sequence[float] | None],
    terms: Collection[str] | None = None,
    earlier: Mapping[str, float] | None = None,
    policy: FusionPolicy = DEFAULT_POLICY,
) -> SearchQuery:
    """Return the query for a text. `embed` answers None where the embedder is down: the query is `degraded`.

    `terms` replace those of the text; `earlier` are those of the turns before it, see `query_words`.

    Raises:
        UnusableVector: where the embedder answers with a vector of another dimension, or no numbers.
    """
    asked = analyse(text) if terms is None else terms
    idf, rare = idf_and_rare(term_ids([*asked, *(earlier or {})]))
    vector = embed(text)
    return SearchQuery(
        space_id=space.pk,
        bounds=space.bounds_for(text),
        vector=None if vector is None else tuple(unit_vector(vector, dimension=space.dimension)),
        words=query_words(asked, idf, rare=rare, earlier=earlier),
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
    # A cosine alone is on its space's scale already.
    return SearchQuery(
        space_id=space.pk,
        bounds=space.bounds,
        vector=unit,
        policy=replace(policy, odds=1.0, message_odds=1.0),
    )


Row = TypeVar("Row", bound=SearchIndexRow)
Params = tuple[Any, ...]

SCORED: Final = """
WITH scored (owner_id, actor_id, similarity_raw, word_raw) AS MATERIALIZED (
{rows}
)
"""

SCORED_IN_CONVERSATION: Final = """
WITH scored (owner_id, actor_id, similarity_raw, word_raw, session_id, sequence, asks, author, length) AS MATERIALIZED (
{rows}
)
"""

CANDIDATE: Final = "(coalesce(similarity_raw >= %s, false) OR coalesce(word_raw >= %s, false))"

BEST: Final = """
SELECT owner_id, actor_id, similarity_raw, word_raw, relevance AS own_relevance, relevance,
    count(*) OVER () AS candidates
FROM (SELECT *, {odds} * own / (1 + ({odds} - 1) * own) AS relevance
    FROM (SELECT *, {relevance} AS own FROM scored WHERE {candidate}) AS qualified) AS found
ORDER BY relevance DESC, similarity_raw DESC NULLS LAST, owner_id
LIMIT %s
"""

# `fusion.in_conversation`. Only candidates speak for their neighbours: what falls short by itself lifts nobody.
BEST_IN_CONVERSATION: Final = """
, related AS (
    SELECT *, {relevance} AS own, {candidate} AS qualifies, 1 / (1 + power(length / {long}, 2)) AS dependence
    FROM scored
), heard AS (
    SELECT *, CASE WHEN qualifies THEN own ELSE 0 END AS voice, CASE WHEN asks THEN dependence ELSE 0 END AS question
    FROM related
), neighbours AS (
    SELECT *,
        dependence * greatest(
            lag(voice * ({next_to} + ({reply} - {next_to}) * question)) OVER session,
            {next_to} * lead(voice) OVER session,
            0
        ) AS next_to,
        dependence * {beyond} * greatest(lag(voice, 2) OVER session, lead(voice, 2) OVER session, 0) AS beyond
    FROM heard
    WINDOW session AS (PARTITION BY session_id ORDER BY sequence)
)
SELECT owner_id, actor_id, similarity_raw, word_raw, {odds} * own / (1 + ({odds} - 1) * own) AS own_relevance,
    {odds} * among / (1 + ({odds} - 1) * among) AS relevance, count(*) OVER () AS candidates
FROM (
    SELECT *, (1 - (1 - own) * (1 - next_to) * (1 - beyond)) * (1 - (1 - {asking}) * question)
        * CASE WHEN author NOT IN ('', coalesce(%s, author)) THEN {other} ELSE 1 END AS among
    FROM neighbours
    WHERE qualifies OR next_to > 0 OR beyond > 0
) AS found
ORDER BY relevance DESC, similarity_raw DESC NULLS LAST, owner_id
LIMIT %s
"""

RELEVANCE: Final = """(
    1 - (1 - {weight} * least(1, greatest(0, (coalesce({similarity}, {low}) - {low}) / ({high} - {low}))))
        * ({constant} / (power(coalesce({words}, 0), {steepness}) + {constant}))
)"""


class Candidate(NamedTuple):
    """A text that answers the query, with the scores that say why; the text is the caller's to fetch."""

    owner_id: UUID
    actor_id: UUID
    similarity_raw: float | None
    word_raw: float | None
    own_relevance: float
    """By its own words and vector alone; of a memory that is all there is."""
    relevance: float


@dataclass(frozen=True)
class Candidates:
    """The best candidates, and how many there were before the best were taken (SPEC M6)."""

    best: list[Candidate]
    count: int


@dataclass(frozen=True)
class Conversation:
    """Lookups that map index rows to the fields of `fusion.Turn`.

    `about` is the one author whom the query names, None where it names nobody or several.
    """

    session: str
    sequence: str
    asks: str
    author: str
    about: str | None = None


def relevance_sql(query: SearchQuery, *, similarity: str, words: str) -> str:
    """Return the formula over two SQL expressions, each of which appears in it once, in this order."""
    bounds, policy = query.bounds, query.policy
    return RELEVANCE.format(
        similarity=similarity,
        words=words,
        weight=_number(1.0 if query.words is None else bounds.vector_weight),
        low=_number(bounds.cosine_low),
        high=_number(bounds.cosine_high),
        steepness=_number(policy.word_steepness),
        constant=_number(policy.word_midpoint**policy.word_steepness),
    )


def _number(value: float) -> str:
    return f"({float(value)!r}::float8)"


def similarity_expression(query: SearchQuery) -> Expression:
    """Return the row's cosine; None where the row or the query has no vector, 0 beside a zero vector."""
    if query.vector is None:
        return _constant(None)
    vector = Cast(Value(_vector_text(query.vector)), InlineHalfVectorField())
    cosine = NullIf(Value(1.0) - CosineDistance("vector", vector), Value(float("nan")))
    comparable = Q(space_id=query.space_id, vector__isnull=False)
    return Case(When(comparable, then=Coalesce(cosine, Value(0.0))), output_field=FloatField())


def _constant(value: float | None) -> Expression:
    """Return the value as PostgreSQL's double: bare, NULL would be a text and 0.0 a decimal number."""
    return Cast(Value(value), FloatField())


def _vector_text(vector: Sequence[float]) -> str:
    return f"[{','.join(map(repr, vector))}]"


def words_expression(query: SearchQuery) -> Expression:
    """Return the row's word score; None where the query is only a vector, 0 where it has no words to find."""
    if query.words is None:
        return _constant(None)
    if not query.words.reachable:
        return _constant(0.0)
    weights = SparseVector(dict(query.words.weights), DIMENSION)
    negative = MaxInnerProduct(
        "words", Cast(Value(weights.to_text()), InlineSparseVectorField(dimensions=DIMENSION))
    )
    return ExpressionWrapper(negative / Value(-query.words.reachable), output_field=FloatField())


def candidates(
    rows: QuerySet[Row],
    query: SearchQuery,
    *,
    similarity_threshold: float,
    word_floor: float,
    limit: int,
    conversation: Conversation | None = None,
) -> Candidates:
    """Return the most relevant of the rows that the query's vector or its words reach; ties by cosine, then by id.

    Beyond a space's upper bound every cosine is fully relevant, and the nearest must still come first.

    A row qualifies with a cosine of at least `similarity_threshold` or a word score of at least
    `word_floor` (SPEC M4). With `conversation`, rows are messages: each is as relevant as
    `fusion.in_conversation` says, and one beside a candidate is a candidate too. `limit` is at least 1.
    """
    scan, params = _scored(rows, query, conversation)
    relevance = relevance_sql(query, similarity="similarity_raw", words="word_raw")
    params = (*params, similarity_threshold, word_floor)
    if conversation:
        best, params = _best_in_conversation(query.policy, relevance), (*params, conversation.about)
    else:
        best = BEST.format(relevance=relevance, candidate=CANDIDATE, odds=_number(query.policy.odds))
    found = _fetch(scan + best, (*params, limit))
    return Candidates([Candidate(*row[:-1]) for row in found], count=found[0][-1] if found else 0)


def _best_in_conversation(policy: FusionPolicy, relevance: str) -> str:
    return BEST_IN_CONVERSATION.format(
        relevance=relevance,
        candidate=CANDIDATE,
        reply=_number(policy.reply_share),
        next_to=_number(policy.neighbour_share),
        beyond=_number(policy.beyond_share),
        asking=_number(policy.asking_share),
        other=_number(policy.other_author_share),
        odds=_number(policy.message_odds),
        long=_number(policy.self_contained_length),
    )


def _scored(rows: QuerySet[Row], query: SearchQuery, conversation: Conversation | None) -> tuple[str, Params]:
    """Return the statement's first part: the rows' keys and raw scores, each computed once."""
    columns = {
        "scored_owner": F(f"{rows.model.owner_field}_id"),
        "scored_actor": F("actor_id"),
        "scored_similarity": similarity_expression(query),
        "scored_words": words_expression(query),
    }
    if conversation:
        columns |= {
            "scored_session": F(conversation.session),
            "scored_sequence": F(conversation.sequence),
            "scored_asks": F(conversation.asks),
            "scored_author": F(conversation.author),
            "scored_length": F("length"),
        }
    scan = rows.order_by().filter(space_id=query.space_id).annotate(**columns).values_list(*columns)
    sql, params = scan.query.sql_with_params()
    head = SCORED_IN_CONVERSATION if conversation else SCORED
    return head.format(rows=sql), params


def _fetch(statement: str, params: Params) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return list(cursor.fetchall())
