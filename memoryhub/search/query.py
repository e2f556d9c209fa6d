"""Search queries, and the exact scan of index rows that scores them in PostgreSQL by the formula of `fusion.py`.

The scan is one statement. A materialised CTE computes each row's cosine and word score once; as annotations, PostgreSQL
would compute the cosine again in the formula, the filter and the order. Recall is 1.0: no approximate index is used.

The caller filters rows by actor and by the query's space. The CASE around the cosine prevents comparing vectors of
different dimensions if the filter is missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import accumulate, chain, zip_longest
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Case, Expression, ExpressionWrapper, F, FloatField, Q, Value, When
from django.db.models.functions import Cast, Coalesce, Least, Left, NullIf
from pgvector import SparseVector
from pgvector.django import CosineDistance, MaxInnerProduct

from memoryhub.db.prepared import Param, PreparedQuery
from memoryhub.search.analysis import analyse
from memoryhub.search.bm25 import DIMENSION, QueryWords, term_id
from memoryhub.search.fusion import DEFAULT_POLICY, PASSAGE_LENGTH, FusionPolicy, SpaceBounds, relative_length
from memoryhub.search.index import unit_vector, weigh_queries
from memoryhub.search.models import EmbeddingSpace, InlineHalfVectorField, InlineSparseVectorField, SearchIndexRow
from memoryhub.search.query_text import NEED_ODDS, MessageKind, QueryText
from memoryhub.search.spelling import RESPELT_SHARE, respelt


@dataclass(frozen=True)
class SearchQuery:
    """An analysed query; without `vector` scored by words alone, without `words` by the vector."""

    space_id: int
    bounds: SpaceBounds
    vector: tuple[float, ...] | None = None
    words: QueryWords | None = None
    policy: FusionPolicy = DEFAULT_POLICY
    text: str = field(default="", repr=False)
    """Empty for a vector query; personal data, hence not in the repr."""
    degraded: bool = False
    """The embedder was unavailable, so that the vector is missing."""
    parts: "tuple[SearchQuery, ...]" = ()
    """The questions of a message that asks several ones, see `query_text.question_parts`."""

    def weights_by_term(self) -> dict[str, float]:
        """Return the weights of the text's own terms."""
        weights = self.words.weights if self.words else {}
        return {term: weights[term_id(term)] for term in analyse(self.text) if term_id(term) in weights}


def build_query(
    text: QueryText, vector: Sequence[float] | None, *, space: EmbeddingSpace, actor_id: UUID | None = None
) -> SearchQuery:
    """Return the query for a text and its vector, or without a vector a `degraded` one.

    Raises:
        UnusableVector: if the vector does not have the space's dimension, or a number is not finite.
    """
    return build_queries([(text, vector)], space=space, actor_id=actor_id)[0]


def build_queries(
    texts: Sequence[tuple[QueryText, Sequence[float] | None]], *, space: EmbeddingSpace, actor_id: UUID | None = None
) -> list[SearchQuery]:
    """Return the queries for texts and vectors; reads the frequencies of all terms at once.

    With `actor_id`, this actor's frequent terms weigh less.

    Raises:
        UnusableVector: as `build_query`.
    """
    units = [
        None if vector is None else tuple(unit_vector(vector, dimension=space.dimension)) for _text, vector in texts
    ]
    words = weigh_queries([text for text, _vector in texts], actor_id)
    return [
        SearchQuery(
            space_id=space.pk,
            bounds=space.bounds_for(is_unspaced=text.is_unspaced),
            vector=unit,
            words=weights,
            policy=_policy(text.message_kind),
            text=text.text,
            degraded=unit is None,
        )
        for (text, _vector), unit, weights in zip(texts, units, words, strict=True)
    ]


def _policy(kind: MessageKind | None) -> FusionPolicy:
    return DEFAULT_POLICY if kind is None else DEFAULT_POLICY.of_message(NEED_ODDS[kind])


def build_vector_query(vector: Sequence[float], *, space: EmbeddingSpace) -> SearchQuery:
    """Return the query for a vector alone (SPEC M6).

    Raises:
        UnusableVector: as `build_query`.
    """
    unit = tuple(unit_vector(vector, dimension=space.dimension))
    # Cosines are calibrated by the space's bounds alone.
    return SearchQuery(
        space_id=space.pk,
        bounds=space.bounds,
        vector=unit,
        policy=replace(DEFAULT_POLICY, odds=1.0, count_exponent=0.0, length_exponent=0.0, message_odds=1.0),
    )


Params = tuple[Any, ...]

SCORED: Final = """
WITH scored (owner_id, actor_id, similarity_raw, word_raw, length) AS MATERIALIZED (
{rows}
)
"""

SCORED_IN_CONVERSATION: Final = """
WITH scored (owner_id, actor_id, similarity_raw, word_raw, length, session_id, sequence, asks, author) AS MATERIALIZED (
{rows}
)
"""

# The subplan costs more than the product, so rows without passages skip it.
BEST_PASSAGE: Final = """CASE WHEN {passages} IS NOT NULL
    THEN (SELECT min(passage <#> {weights}) FROM unnest({passages}) AS passage) END"""

CANDIDATE: Final = "(coalesce(similarity_raw >= %s, false) OR coalesce(word_raw >= %s, false))"

# Materialised: for actors newer than the last ANALYZE the planner expects one row, and would repeat the count.
BEST: Final = """
, among AS MATERIALIZED (
    SELECT {odds} * power({base} / greatest({base}, count(*)) / {relative_length}, {exponent})
        * power({short} / greatest({short}, exp(avg(ln(least(greatest(1, length), {passage}))))), {length_exponent})
        AS odds FROM scored
)
SELECT owner_id, actor_id, similarity_raw, word_raw, relevance AS own_relevance, relevance,
    count(*) OVER () AS candidates
FROM (SELECT *, own_odds * own / (1 + (own_odds - 1) * own) * {needed} AS relevance
    FROM (SELECT scored.*, {relevance} AS own, odds * power(greatest(1, length / {passage}), {passages}) AS own_odds
        FROM scored, among WHERE {candidate}) AS qualified) AS found
ORDER BY relevance DESC, similarity_raw DESC NULLS LAST, owner_id
LIMIT %s
"""

# `fusion.contextual_relevances`. Only candidates contribute to their neighbours. Most rows are no candidates and near
# none: a cheap window counts the candidates around each, so that the costly windows skip the others. Their results are
# the same, as two rows on each side of a gap are no candidates.
BEST_IN_CONVERSATION: Final = """
, qualified AS (
    SELECT *, {candidate} AS qualifies FROM scored
), counted AS (
    SELECT *, count(*) FILTER (WHERE qualifies)
        OVER (PARTITION BY session_id ORDER BY sequence ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) AS around
    FROM qualified
), related AS (
    SELECT *, {relevance} AS own, 1 / (1 + power(length / {long}, 2)) AS dependence FROM counted WHERE around > 0
), heard AS (
    SELECT *, CASE WHEN qualifies THEN own ELSE 0 END AS voice, CASE WHEN asks THEN dependence ELSE 0 END AS question
    FROM related
), neighbours AS (
    SELECT *,
        dependence * greatest(
            CASE WHEN author <> '' AND author = lag(author) OVER session THEN {next_to} * lag(voice) OVER session
                ELSE lag(voice * ({next_to} + ({reply} - {next_to}) * question)) OVER session END,
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
    """The id of a matching text with its scores."""

    owner_id: UUID
    actor_id: UUID
    similarity_raw: float | None
    word_raw: float | None
    own_relevance: float
    """Without neighbours; for memories equal to `relevance`."""
    relevance: float

    @property
    def scores(self) -> tuple[float | None, float | None, float, float]:
        """Return all scores, in the order of the fields."""
        return self.similarity_raw, self.word_raw, self.own_relevance, self.relevance


@dataclass(frozen=True)
class Candidates:
    """The best candidates, and the number of all (SPEC M6); the first `leading` answer a part of the query each."""

    best: list[Candidate]
    count: int
    leading: int = 0
    searched_for: str = ""
    """Similar words of the texts, where the query's own find nothing."""


@dataclass(frozen=True)
class Conversation:
    """Index columns for the fields of `fusion.Turn`; `named_author` is the only author whom the query names."""

    session: str
    sequence: str
    asks: str
    author: str
    named_author: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.session, self.sequence, self.asks, self.author)


def relevance_sql(query: SearchQuery, *, similarity: str, words: str) -> str:
    """Return the formula over two SQL expressions, which occur once, in this order."""
    bounds = query.bounds
    return relevance_formula(
        similarity=similarity,
        words=words,
        weight=_number(1.0 if query.words is None else bounds.vector_weight),
        low=_number(bounds.cosine_low),
        high=_number(bounds.cosine_high),
        policy=query.policy,
    )


def relevance_formula(*, policy: FusionPolicy = DEFAULT_POLICY, **columns: str) -> str:
    """Return the formula over SQL expressions: a row's scores, and a query's `weight`, `low` and `high`."""
    steepness = policy.word_steepness
    constant = policy.word_midpoint**steepness
    return RELEVANCE.format(**columns, steepness=_number(steepness), constant=_number(constant))


def _number(value: float) -> str:
    return f"({float(value)!r}::float8)"


def _similarity(*, has_vector: bool) -> Expression:
    """Return the row's cosine; None if the row or the query has no vector, 0 with a zero vector."""
    if not has_vector:
        return _constant(None)
    vector = Cast(Param("vector"), InlineHalfVectorField())
    cosine = NullIf(Value(1.0) - CosineDistance("vector", vector), Value(float("nan")))
    comparable = Q(space_id=Param("space"), vector__isnull=False)
    return Case(When(comparable, then=Coalesce(cosine, Value(0.0))), output_field=FloatField())


def _constant(value: float | None) -> Expression:
    """Return the value as a double; bare, PostgreSQL takes NULL for a text and 0.0 for a decimal number."""
    return Cast(Value(value), FloatField())


def vector_text(vector: Sequence[float]) -> str:
    return f"[{','.join(map(repr, vector))}]"


def words_text(words: QueryWords) -> str:
    return SparseVector(dict(words.weights), DIMENSION).to_text()


class _BestPassage(Expression):
    """The least negative inner product of a row's passages, NULL without passages."""

    def __init__(self, weights: Expression) -> None:
        super().__init__(output_field=FloatField())
        self.weights = weights
        self.passages: Any = F("passages")

    def get_source_expressions(self) -> list[Any]:
        return [self.weights, self.passages]

    def set_source_expressions(self, exprs: Sequence[Any]) -> None:
        self.weights, self.passages = exprs

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[str | int, ...]]:
        weights, params = compiler.compile(self.weights)
        column, _none = compiler.compile(self.passages)
        return BEST_PASSAGE.format(weights=weights, passages=column), params


def _word_score(*, has_terms: bool | None) -> Expression:
    """Return the row's word score; None if the query is only a vector, 0 if its text has no terms."""
    if not has_terms:
        return _constant(None if has_terms is None else 0.0)
    weights = Cast(Param("words"), InlineSparseVectorField(dimensions=DIMENSION))
    negative = Least(MaxInnerProduct("words", weights), _BestPassage(weights), output_field=FloatField())
    return ExpressionWrapper(negative / Param("normalizer", FloatField()), output_field=FloatField())


ROWS_PER_PART: Final = 2
RESPELLING_TEXTS: Final = 2_000
RESPELLING_CHARACTERS: Final = 2_000
"""How many of the newest texts, and how much of each, are read for similar words."""
MIN_PART_SHARE: Final = 0.3
"""Minimum relevance of a part's rows, as a share of its best one's."""


def candidates(
    model: type[SearchIndexRow],
    where: Q,
    query: SearchQuery,
    *,
    similarity_threshold: float,
    word_floor: float,
    limit: int,
    conversation: Conversation | None = None,
    respells: bool = False,
) -> Candidates:
    """Return the most relevant rows, at most `limit`, which is at least 1; ties by cosine, then by id.

    `where` filters the model's rows, at least by actor. A row qualifies with a cosine of at least
    `similarity_threshold` or a word score of at least `word_floor` (SPEC M4). With `conversation`, rows are messages:
    their relevance is that of `fusion.contextual_relevances`, and neighbours of candidates are candidates too.

    Of a query with parts, the best rows of each part by their own relevance lead, in turn. With
    `respells`, a query without any candidate is repeated with the most similar words of the newest texts.
    """
    scan = partial(_candidates, model, where, similarity_threshold=similarity_threshold, word_floor=word_floor)
    found = scan(query, limit=limit, conversation=conversation)
    if respells and not found.count and (similar := _respelt(model, where, query)):
        return replace(scan(similar, limit=limit, conversation=conversation), searched_for=similar.text)
    if not query.parts:
        return found
    # By their own relevance, so without neighbours, but by the odds of messages.
    parts = [replace(part, policy=part.policy.alone()) if conversation else part for part in query.parts]
    by_part = [scan(part, limit=ROWS_PER_PART).best for part in parts]
    return lead_by_parts(found, by_part, limit)


def _respelt(model: type[SearchIndexRow], where: Q, query: SearchQuery) -> SearchQuery | None:
    """Return the query with similar words of the rows' texts; None if there are none."""
    if not (query.text and query.words and query.words.normalizer):
        return None
    content = Left(f"{model.owner_field}__content", RESPELLING_CHARACTERS)
    rows = model._default_manager.filter(where, space_id=query.space_id).order_by(f"-{model.owner_field}_id")
    text = respelt(query.text, rows.values_list(content, flat=True)[:RESPELLING_TEXTS])
    if not text:
        return None
    [words] = weigh_queries([QueryText.of(text)])
    weights = {term: RESPELT_SHARE * weight for term, weight in words.weights.items()}
    return replace(query, text=text, words=replace(words, weights=weights), parts=())


def lead_by_parts(found: Candidates, by_part: Sequence[Sequence[Candidate]], limit: int) -> Candidates:
    """Return the candidates, preceded by each part's best ones in turn; no relevance is lower than a following one."""
    by_part = [[row for row in rows if row.relevance >= MIN_PART_SHARE * rows[0].relevance] for rows in by_part]
    known = {each.owner_id: each for each in found.best}
    leaders: dict[UUID, Candidate] = {}
    for row in chain.from_iterable(zip_longest(*by_part)):
        if row is not None:
            whole = known.get(row.owner_id, row)
            leaders.setdefault(row.owner_id, whole if whole.relevance >= row.relevance else row)
    ordered = [*leaders.values(), *(each for each in found.best if each.owner_id not in leaders)][:limit]
    highest = list(accumulate((each.relevance for each in reversed(ordered)), max))[::-1]
    best = [each._replace(relevance=relevance) for each, relevance in zip(ordered, highest, strict=True)]
    return Candidates(best, max(found.count, len(best)), leading=min(len(leaders), limit))


def _candidates(
    model: type[SearchIndexRow],
    where: Q,
    query: SearchQuery,
    *,
    similarity_threshold: float,
    word_floor: float,
    limit: int,
    conversation: Conversation | None = None,
) -> Candidates:
    scan, params = _scored(model, where, query, conversation)
    relevance = relevance_sql(query, similarity="similarity_raw", words="word_raw")
    params = (*params, similarity_threshold, word_floor)
    if conversation:
        best, params = _best_in_conversation(query.policy, relevance), (*params, conversation.named_author)
    else:
        best = _best(query, relevance)
    found = _fetch(scan + best, (*params, limit))
    return Candidates([Candidate(*row[:-1]) for row in found], count=found[0][-1] if found else 0)


def _best(query: SearchQuery, relevance: str) -> str:
    policy = query.policy
    need = None if policy.need_odds is None else _number(policy.need_odds)
    return BEST.format(
        relative_length=_number(relative_length(query.words.information if query.words else 0.0, policy)),
        needed="1" if need is None else f"({need} * own / (1 + ({need} - 1) * own))",
        relevance=relevance,
        candidate=CANDIDATE,
        odds=_number(policy.odds),
        base=_number(policy.base_count),
        exponent=_number(policy.count_exponent),
        short=_number(policy.base_length),
        length_exponent=_number(policy.length_exponent),
        passage=_number(PASSAGE_LENGTH),
        passages=_number(-policy.passage_exponent),
    )


def _best_in_conversation(policy: FusionPolicy, relevance: str) -> str:
    return BEST_IN_CONVERSATION.format(
        relevance=relevance,
        candidate=CANDIDATE,
        reply=_number(policy.reply_share),
        next_to=_number(policy.neighbour_share),
        beyond=_number(policy.second_neighbour_share),
        asking=_number(policy.question_share),
        other=_number(policy.other_author_share),
        odds=_number(policy.message_odds),
        long=_number(policy.self_contained_length),
    )


def _scored(
    model: type[SearchIndexRow], where: Q, query: SearchQuery, conversation: Conversation | None
) -> tuple[str, Params]:
    """Return the statement's first CTE, the rows' keys and raw scores, with its parameters."""
    values: dict[str, Any] = {"space": query.space_id}
    if query.vector is not None:
        values["vector"] = vector_text(query.vector)
    if query.words is not None:
        values["words"] = words_text(query.words)
        values["normalizer"] = -query.words.normalizer
    scan = _scan(
        model,
        conversation.columns if conversation else (),
        has_vector=query.vector is not None,
        has_terms=None if query.words is None else bool(query.words.normalizer),
    )
    sql, params = scan.sql(where & Q(space_id=query.space_id), **values)
    head = SCORED_IN_CONVERSATION if conversation else SCORED
    return head.format(rows=sql), params


@cache
def _scan(
    model: type[SearchIndexRow], more_columns: tuple[str, ...], *, has_vector: bool, has_terms: bool | None
) -> PreparedQuery[tuple[Any, ...]]:
    rows = model._default_manager.order_by().annotate(
        scored_similarity=_similarity(has_vector=has_vector), scored_words=_word_score(has_terms=has_terms)
    )
    keys = (f"{model.owner_field}_id", "actor_id")
    return PreparedQuery(lambda: rows.values_list(*keys, "scored_similarity", "scored_words", "length", *more_columns))


def _fetch(statement: str, params: Params) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return list(cursor.fetchall())
