"""Values of an index row, and the document frequencies of all terms of the installation.

Vectors are kept at unit length: the cosine does not change, and neither huge nor tiny numbers leave the range of half
precision (6e-8 to 65,504).

Frequencies are counted over all texts: an actor's first memories then already profit. Of an actor's own texts a job
counts each night the few terms that many of them share (`bm25.Frequencies`). The counts are approximate by design:
recorded after the commit that stored the texts and after the answer to whoever sent them, and never taken back when a
text goes. A process that dies in between loses a few counts, which an idf, a logarithm, does not feel. Every query
reads them anew, so that texts of a moment ago are ranked as they will be later.

Counts can be made anew at any time: empty the table and `record` every text again; meanwhile
searches take unknown terms for rare ones and still answer.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final
from uuid import UUID

import numpy as np
from django.db import transaction
from numpy.typing import NDArray
from pgvector import SparseVector

from memoryhub.db_pool import after_answer
from memoryhub.prepared import prepared_cursor
from memoryhub.search.bm25 import (
    DIMENSION,
    Frequencies,
    QueryWords,
    document_weights,
    inverse_document_frequency,
    query_words,
    term_id,
    term_ids,
)
from memoryhub.search.messages import QueryText
from memoryhub.search.models import TermStatistic


class UnusableVector(ValueError):
    """The vector cannot be compared in its space: another dimension, or not numbers."""


def unit_vector(vector: Sequence[float], *, dimension: int) -> list[float]:
    """Return the vector at length 1; a zero vector stays, and is similar to nothing.

    Raises:
        UnusableVector: where its dimension is not the space's, or a number is not finite.
    """
    numbers = _as_numbers(vector)
    if numbers.shape != (dimension,):
        raise UnusableVector(f"A vector of this space has {dimension} numbers, not {numbers.size}.")
    if not np.isfinite(numbers).all():
        raise UnusableVector("A vector holds finite numbers only.")
    scaled = numbers / (np.abs(numbers).max() or 1.0)  # first, so that no square leaves the range of floats
    unit: list[float] = (scaled / (np.linalg.norm(scaled) or 1.0)).tolist()
    return unit


def _as_numbers(vector: Sequence[float]) -> NDArray[np.float64]:
    try:
        return np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UnusableVector("A vector is a list of numbers.") from error


def word_vector(terms: Counter[str], length: float | None = None) -> SparseVector:
    return SparseVector(document_weights(terms, length), DIMENSION)


def weights_of(stored: str) -> dict[int, float]:
    """Return the weights of a stored text's terms by id; `stored` as PostgreSQL writes the vector."""
    vector = SparseVector.from_text(stored)
    return dict(zip(vector.indices(), vector.values(), strict=True))


BATCH_TERMS: Final = 5_000

# Its commit waits for no disk: counts may get lost, and whoever stored the texts has waited for one already.
ADD_COUNTS: Final = """
INSERT INTO memoryhub_termstatistic AS known (term, documents)
SELECT added.term, added.documents
FROM unnest(%s::integer[], %s::bigint[]) AS added (term, documents),
    (SELECT set_config('synchronous_commit', 'off', true)) AS of_this_transaction
ORDER BY added.term
ON CONFLICT (term) DO UPDATE SET documents = known.documents + excluded.documents
"""


COUNTS: Final = """
SELECT term, documents, false FROM memoryhub_termstatistic WHERE term = ANY(%(terms)s::integer[])
UNION ALL
SELECT term, own.documents, true
FROM memoryhub_frequentterms AS known, unnest(known.terms, known.counts) AS own (term, documents)
    JOIN unnest(%(terms)s::integer[]) AS asked (term) USING (term)
WHERE known.actor_id = %(actor)s::uuid
"""


def record(documents: Iterable[Counter[str]]) -> None:
    """Count the texts' terms after the commit of the surrounding transaction and the answer to its request.

    Failure is logged, not raised.
    """
    texts = [*documents]
    if texts:
        transaction.on_commit(lambda: after_answer(lambda: _add(texts)), robust=True)


def _add(documents: list[Counter[str]]) -> None:
    """Count by one statement per 5,000 terms, in ascending order: two writers wait for each other, and never both."""
    ids = [{TermStatistic.CORPUS, *map(term_id, terms)} for terms in documents]
    counts = sorted(Counter(chain.from_iterable(ids)).items())
    with prepared_cursor() as cursor:
        for batch in _batches(counts):
            terms, numbers = zip(*batch, strict=True)
            cursor.execute(ADD_COUNTS, [_array_text(terms), _array_text(numbers)])


def _array_text(numbers: Iterable[int]) -> str:
    """Return integers as PostgreSQL reads an array of them; psycopg writes a list number by number, in Python."""
    return f"{{{','.join(map(str, numbers))}}}"


def _batches(counts: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    for start in range(0, len(counts), BATCH_TERMS):
        yield counts[start : start + BATCH_TERMS]


def idf(terms: Iterable[int]) -> dict[int, float]:
    """Return the idf of each term id in this installation; a term never seen is as rare as a term can be."""
    counts, _own = _documents(terms)
    documents = counts.pop(TermStatistic.CORPUS)
    return {
        term: inverse_document_frequency(documents_with_term=count, documents=documents)
        for term, count in counts.items()
    }


def query_idf(terms: Iterable[int], actor_id: UUID | None = None) -> tuple[dict[int, float], float]:
    """Return the idf of each term id of an actor's query, and that of a term of which one text tells."""
    counts, own = _documents(terms, actor_id)
    documents, own_documents = counts.pop(TermStatistic.CORPUS), own.pop(TermStatistic.CORPUS, 0)
    known = Frequencies(documents, counts, own_documents, own)
    return {term: known.idf(term) for term in counts}, known.rare


def weigh_queries(texts: Sequence[QueryText], actor_id: UUID | None = None) -> list[QueryWords]:
    """Return the weights of each text's terms; the frequencies of all of them are read at once."""
    terms = term_ids(term for each in texts for term in (*each.terms, *each.earlier))
    idf, rare = query_idf(terms, actor_id)
    return [query_words(each.terms, idf, rare=rare, earlier=each.earlier) for each in texts]


def _documents(terms: Iterable[int], actor_id: UUID | None = None) -> tuple[dict[int, int], dict[int, int]]:
    """Return of how many texts each term is part, and under CORPUS how many there are; of all, and of the actor's own.

    Of the actor's own texts only terms that many of them share are known.
    """
    counts, own = dict.fromkeys([*terms, TermStatistic.CORPUS], 0), dict[int, int]()
    with prepared_cursor() as cursor:
        cursor.execute(COUNTS, {"terms": _array_text(counts), "actor": actor_id})
        for term, documents, is_own in cursor.fetchall():
            (own if is_own else counts)[term] = documents
    return counts, own
