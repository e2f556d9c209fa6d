"""Values of index rows, and document frequencies of terms.

Vectors are stored at unit length: the cosine does not change, and all numbers stay in the range of half precision
(6e-8 to 65,504).

Frequencies are counted over the trusted texts of all actors, so that an actor's first memories profit: only of terms
that many agents and many users have, and as powers of two, so that no score shows what another tenant wrote. A job
counts the frequent terms of each actor (`bm25.Frequencies`). Counts are approximate by design: recorded after the
commit and the response, not decremented when a text is deleted, and lost if the process dies in between. An idf, a
logarithm, hardly changes. Each query reads the current counts.

To rebuild the counts, empty the table and `record` every text; until then, searches take unknown terms for rare ones.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final
from uuid import UUID

import numpy as np
from django.db import transaction
from numpy.typing import NDArray
from pgvector import SparseVector

from memoryhub.db.pool import after_answer
from memoryhub.db.prepared import prepared_cursor
from memoryhub.search.bm25 import DIMENSION, Frequencies, QueryWords, document_weights, query_words, term_id, term_ids
from memoryhub.search.models import TermStatistic
from memoryhub.search.passages import passage_weights
from memoryhub.search.query_text import QueryText


class UnusableVector(ValueError):
    """The vector has another dimension than its space, or not only finite numbers."""


def unit_vector(vector: Sequence[float], *, dimension: int) -> list[float]:
    """Return the vector scaled to length 1; a zero vector stays.

    Raises:
        UnusableVector: if its dimension is another, or a number is not finite.
    """
    numbers = _as_numbers(vector)
    if numbers.shape != (dimension,):
        raise UnusableVector(f"A vector of this space has {dimension} numbers, not {numbers.size}.")
    if not np.isfinite(numbers).all():
        raise UnusableVector("A vector holds finite numbers only.")
    scaled = numbers / (np.abs(numbers).max() or 1.0)  # before squaring, which could overflow
    unit: list[float] = (scaled / (np.linalg.norm(scaled) or 1.0)).tolist()
    return unit


def _as_numbers(vector: Sequence[float]) -> NDArray[np.float64]:
    try:
        return np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UnusableVector("A vector is a list of numbers.") from error


def word_vector(terms: Counter[str], length: float | None = None, cues: Iterable[str] = ()) -> SparseVector:
    return SparseVector(document_weights(terms, length, cues), DIMENSION)


def passage_vectors(text: str, share: float) -> list[SparseVector] | None:
    """Return the vectors of a long text's passages, weighted by `share`; None for a short one."""
    weights = passage_weights(text, share)
    return [SparseVector(each, DIMENSION) for each in weights] or None


def vectors_text(vectors: Sequence[SparseVector] | None) -> str | None:
    """Return PostgreSQL's text format of an array of vectors."""
    return None if vectors is None else "{" + ",".join(f'"{each.to_text()}"' for each in vectors) + "}"


def weights_of(stored: str) -> dict[int, float]:
    """Return the weights by term id of a vector in PostgreSQL's text format."""
    vector = SparseVector.from_text(stored)
    return dict(zip(vector.indices(), vector.values(), strict=True))


TERM_BATCH_SIZE: Final = 5_000

# Asynchronous commit: losing counts in a crash is acceptable.
ADD_COUNTS: Final = """
INSERT INTO memoryhub_termstatistic AS known (term, documents, agents, users)
SELECT added.term, added.documents, coalesce(tenant.agents, 0), coalesce(tenant.users, 0)
FROM unnest(%s::integer[], %s::bigint[]) AS added (term, documents)
    LEFT JOIN (
        SELECT 1::bigint << (hashtextextended(agent_id, 0) & 63)::int AS agents,
            1::bigint << (hashtextextended(user_id, 0) & 63)::int AS users
        FROM memoryhub_actor WHERE id = %s
    ) AS tenant ON TRUE,
    (SELECT set_config('synchronous_commit', 'off', true)) AS of_this_transaction
ORDER BY added.term
ON CONFLICT (term) DO UPDATE SET documents = known.documents + excluded.documents,
    agents = known.agents | excluded.agents, users = known.users | excluded.users
"""


MIN_TENANTS: Final = 20
"""Agents, and users, that must have a term before its count influences the searches of others: one key cannot make up
both, unless it may read all of them. Each bit that is set counts as at least one."""

# Powers of two: scores must not show whether another tenant has a word, nor that it wrote one more text.
COUNTS: Final = """
SELECT term, CASE WHEN term = %(corpus)s
        OR least(bit_count(agents::bit(64)), bit_count(users::bit(64))) >= %(min_tenants)s
    THEN 1::bigint << floor(log(2, greatest(1, documents)))::int ELSE 0 END, false
FROM memoryhub_termstatistic WHERE term = ANY(%(terms)s::integer[])
UNION ALL
SELECT term, own.documents, true
FROM memoryhub_frequentterms AS known, unnest(known.terms, known.counts) AS own (term, documents)
    JOIN unnest(%(terms)s::integer[]) AS asked (term) USING (term)
WHERE known.actor_id = %(actor)s::uuid
"""


def record(documents: Iterable[Counter[str]], actor_id: UUID) -> None:
    """Count the terms of an actor's texts after the surrounding transaction's commit and the response; log failures."""
    texts = [*documents]
    if texts:
        transaction.on_commit(lambda: after_answer(lambda: _add(texts, actor_id)), robust=True)


def _add(documents: list[Counter[str]], actor_id: UUID) -> None:
    """Add counts in batches of terms, in ascending order against deadlocks."""
    ids = [{TermStatistic.CORPUS, *map(term_id, terms)} for terms in documents]
    counts = sorted(Counter(chain.from_iterable(ids)).items())
    with prepared_cursor() as cursor:
        for start in range(0, len(counts), TERM_BATCH_SIZE):
            terms, numbers = zip(*counts[start : start + TERM_BATCH_SIZE], strict=True)
            cursor.execute(ADD_COUNTS, [_array_text(terms), _array_text(numbers), actor_id])


def _array_text(numbers: Iterable[int]) -> str:
    """Return a PostgreSQL array literal; faster than psycopg's conversion of a list."""
    return f"{{{','.join(map(str, numbers))}}}"


def idf(terms: Iterable[int]) -> dict[int, float]:
    """Return the idf of each term id over all actors' texts and everyday language; unseen terms have the greatest."""
    return query_idf(terms)[0]


def query_idf(terms: Iterable[int], actor_id: UUID | None = None) -> tuple[dict[int, float], float]:
    """Return the idf of each term id for an actor's query, and that of a term that one text has."""
    counts, own = _document_counts(terms, actor_id)
    documents, own_documents = counts.pop(TermStatistic.CORPUS), own.pop(TermStatistic.CORPUS, 0)
    frequencies = Frequencies(documents, counts, own_documents, own)
    return {term: frequencies.idf(term) for term in counts}, frequencies.rarest_idf


def weigh_queries(texts: Sequence[QueryText], actor_id: UUID | None = None) -> list[QueryWords]:
    """Return the weights of each text's terms; reads all frequencies at once."""
    terms = term_ids(term for each in texts for term in (*each.terms, *each.earlier))
    idf, rarest_idf = query_idf(terms, actor_id)
    return [query_words(each.terms, idf, rarest_idf=rarest_idf, earlier=each.earlier) for each in texts]


def _document_counts(terms: Iterable[int], actor_id: UUID | None = None) -> tuple[dict[int, int], dict[int, int]]:
    """Return document frequencies of all texts and of the actor's own; CORPUS has the number of texts.

    The actor's are known of frequent terms only.
    """
    counts, own = dict.fromkeys([*terms, TermStatistic.CORPUS], 0), dict[int, int]()
    with prepared_cursor() as cursor:
        values = {"terms": _array_text(counts), "actor": actor_id, "corpus": TermStatistic.CORPUS}
        cursor.execute(COUNTS, {**values, "min_tenants": MIN_TENANTS})
        for term, documents, is_own in cursor.fetchall():
            (own if is_own else counts)[term] = documents
    return counts, own
