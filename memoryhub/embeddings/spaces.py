"""Embedding spaces, the vectors in them, and the cache of query vectors (SPEC A5).

A space is a (provider, model, dimension). Searches read the active one; writes are stored in the active one
and to one that is being filled. A local provider embeds at once; a remote one in the background, so
that no request waits for the network. Until then a text is found by words.

Query vectors are cached: a context asks once for memories and once for messages, people repeat their questions, and a
vendor takes 100 ms and money for each. Keys are digests, so that no text is kept longer than its request, and of one
payer: the time of an answer would otherwise tell whether another tenant asked the same.

The model is changed while searches continue: the words of every text are copied into the new space, what has no vector
there is embedded, searches switch, and what a process wrote that had not seen the new space is embedded as well. Each
step starts from what is in the database, so that a killed run continues where it stopped.
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, cast
from uuid import UUID

import numpy as np
from django.core.cache import caches
from django.db import connection, models, transaction
from django.db.models import Q
from numpy.typing import NDArray
from pgvector import HalfVector, SparseVector

from memoryhub.db.pool import release_connection
from memoryhub.db.prepared import PreparedQuery
from memoryhub.embeddings.base import EmbeddingProvider, Vectors, refuse_blank
from memoryhub.embeddings.calibration import PROBE_TEXTS, UNMEASURED, measure
from memoryhub.embeddings.calibration import VERSION as CALIBRATION_VERSION
from memoryhub.embeddings.registry import embedding_provider, provider_for
from memoryhub.jobs.queue import enqueue
from memoryhub.llm.errors import ProviderError
from memoryhub.llm.tokens import counter_for
from memoryhub.llm.usage.caps import NOBODY, Payer, Size
from memoryhub.llm.usage.recording import Meter
from memoryhub.search.analysis import analyse, is_unspaced
from memoryhub.search.bm25 import WORDS_VERSION, text_length
from memoryhub.search.index import passage_vectors, record, unit_vector, word_vector
from memoryhub.search.maintenance import COUNT_KIND, batches_by_key
from memoryhub.search.models import BOUNDS, SPACED, UNSPACED, EmbeddingSpace, SearchIndexRow, index_models
from memoryhub.search.passages import PASSAGE_SHARE
from memoryhub.search.query import SearchQuery, build_queries, build_query, build_vector_query
from memoryhub.search.query_text import QueryText, question_parts
from memoryhub.tenancy.models import Actor

Vector = NDArray[np.float32]

SPACES: Final = PreparedQuery(lambda: EmbeddingSpace.objects.order_by("id"))
EMBED_KIND: Final = "embed"
EMBED_KEY: Final = "texts"
BULK_TEXTS: Final = 50
BULK_KEY: Final = "bulk"
BULK_DELAY_SECONDS: Final = 30.0
"""More batches usually follow the first."""

log = logging.getLogger(__name__)

# Operations of the ledger for calls to remote embedders.
EMBED_TEXTS = "embed"
EMBED_QUERY = "embed_query"
CALIBRATE = "calibrate"

SAMPLE_SIZE = 200
"""Stored texts of each kind that a calibration looks at."""
RECALIBRATION_GROWTH = 10
"""Growth of the number of texts that triggers another calibration."""


# Stores all vectors of one response. The digest detects texts that changed after they were sent.
STORE_VECTORS = """
UPDATE {table} AS found SET vector = embedded.vector::halfvec
FROM unnest(%(owners)s::uuid[], %(digests)s::bytea[], %(vectors)s::text[]) AS embedded (owner, digest, vector)
JOIN {owners} AS owner ON owner.actor_id = ANY(%(actors)s) AND owner.id = embedded.owner
WHERE found.actor_id = owner.actor_id AND found.space_id = %(space)s AND found.{owner} = embedded.owner
    AND found.vector IS NULL AND sha256(convert_to(owner.content, 'UTF8')) = embedded.digest
"""


@dataclass(frozen=True)
class IndexEntry:
    """Index data of one text: its terms, and one vector per space (None: not embedded yet)."""

    terms: Counter[str]
    vectors: Mapping[int, Sequence[float] | Vector | None]
    passages: Sequence[SparseVector] | None = None
    cues: Collection[str] = ()
    """Terms that the text lacks, by which it is found as well."""

    def row_values(self, space_id: int) -> dict[str, Any]:
        vector, length = self.vectors.get(space_id), text_length(self.terms)
        return {
            "space_id": space_id,
            "vector": None if vector is None else HalfVector(np.asarray(vector)),
            "words": word_vector(self.terms, length, self.cues),
            "passages": self.passages,
            "length": round(length),
            "words_version": WORDS_VERSION,
        }


def active_space() -> EmbeddingSpace:
    """Return the space that searches read; made from the configured provider on first use.

    Raises ProviderError where there is none yet and the provider's dimension is unknown.
    """
    state = EmbeddingSpace.State.ACTIVE
    space = SPACES.first(Q(state=state))
    if space is None:
        space_of_provider(embedding_provider(), state)
        space = EmbeddingSpace.objects.get(state=state)  # another process may have created it
    return space


def space_of_provider(provider: EmbeddingProvider, state: str) -> EmbeddingSpace:
    """Return the provider's space, made in `state` where there is none; a remote one is measured later."""
    space, is_new = EmbeddingSpace.objects.get_or_create(
        provider=provider.name,
        model=provider.model,
        dimension=provider.dimension,
        defaults={"state": state, **asdict(provider.bounds or UNMEASURED)},
    )
    if is_new and provider.is_local and provider.bounds is None:
        calibrate(space)
    return space


def calibrate(space: EmbeddingSpace) -> None:
    """Measure how the space's cosines are to be read, and keep it with the space; network where it is remote.

    A provider with tuned bounds is not asked. Raises ProviderError.
    """
    tuned = provider_of(space).bounds
    if tuned is not None:
        measures, bounds = {}, asdict(tuned)
    else:
        probes = embed_texts(space, PROBE_TEXTS, operation=CALIBRATE, payer=NOBODY)
        measures = measure(probes, _stored_vectors(space))
        bounds = {name: measures[SPACED][name] for name in BOUNDS}
    stored = {"version": CALIBRATION_VERSION, "texts": _count_texts(space), **measures}
    EmbeddingSpace.objects.filter(pk=space.pk).update(calibration=stored, **bounds)


def calibrate_when_due(space: EmbeddingSpace, *, again: bool = False) -> None:
    """Measure a space that was not measured yet; with `again` also one that holds ten times the texts of then.

    Where the provider is away, that is left to the next time.
    """
    known = space.calibration
    has_grown = again and _count_texts(space) >= RECALIBRATION_GROWTH * max(known.get("texts", 0), SAMPLE_SIZE)
    if known.get("version") == CALIBRATION_VERSION and not has_grown:
        return
    try:
        calibrate(space)
    except ProviderError as error:
        log.warning("embedder away", extra={"provider": space.provider, "code": error.code})


def _count_texts(space: EmbeddingSpace) -> int:
    return sum(model.objects.filter(space=space, vector__isnull=False).count() for model in index_models())


def _stored_vectors(space: EmbeddingSpace) -> dict[str, Vectors]:
    """Return the vectors of some stored texts by script, drawn at random."""
    drawn: dict[str, list[list[float]]] = {SPACED: [], UNSPACED: []}
    for model in index_models():
        keys = model.objects.filter(space=space, vector__isnull=False).order_by("?").values_list("pk", flat=True)
        for row in model.objects.filter(pk__in=list(keys[:SAMPLE_SIZE])).select_related(model.owner_field):
            is_other = is_unspaced(getattr(row, model.owner_field).content)
            drawn[UNSPACED if is_other else SPACED].append(row.vector)
    return {script: np.array(vectors, dtype=np.float32) for script, vectors in drawn.items()}


def writing_spaces() -> list[EmbeddingSpace]:
    """Return the spaces of new texts: the active one first, then one that is being filled."""
    states: list[str] = [EmbeddingSpace.State.ACTIVE, EmbeddingSpace.State.FILLING]
    spaces = sorted(SPACES.rows(Q(state__in=states)), key=lambda space: states.index(space.state))
    is_any_active = bool(spaces) and spaces[0].state == EmbeddingSpace.State.ACTIVE
    return spaces if is_any_active else [active_space(), *spaces]


def provider_of(space: EmbeddingSpace) -> EmbeddingProvider:
    """Return the provider that embeds into a space; raises ProviderError where it is not configured."""
    return provider_for(space.provider, space.model, space.dimension)


def embed_texts(space: EmbeddingSpace, texts: Sequence[str], *, operation: str, payer: Payer) -> Vectors:
    """Return the texts' vectors in a space. Raises ProviderError.

    A remote provider's call is noted in the ledger, and outside a transaction no connection is held during it.
    """
    provider = provider_of(space)
    if provider.is_local:
        return provider.embed(texts)
    refuse_blank(texts)

    def size() -> Size:
        return Size(sum(map(counter_for(provider.model).count, texts)), {})

    with release_connection(), Meter(payer, operation, provider.name, provider.model, size):
        return provider.embed(texts)


def cached_vector(space_id: int, text: str, payer: Payer, embed: Callable[[], Vector]) -> Vector:
    """Return a query's vector from the payer's cache, else from `embed`; errors are not cached."""
    asked = f"{payer.agent_id}\0{payer.actor_id}\0{text}".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(asked, digest_size=16).hexdigest()
    return cast(Vector, caches["query_vectors"].get_or_set(f"{space_id}:{digest}", embed))


_KEPT: ContextVar[dict[tuple[int, Payer, str], list[float] | None] | None] = ContextVar("kept_vectors", default=None)


@contextmanager
def query_vectors_kept() -> Iterator[None]:
    """Embed each query of the block once, also where the embedder is away: a repetition needs no network."""
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def embed_query(space: EmbeddingSpace, text: str, *, payer: Payer = NOBODY) -> list[float] | None:
    """Return the query's vector in a space; None where the embedder is away (searches then use words)."""
    if not text.strip():
        return None
    kept = _KEPT.get()
    if kept is None:
        return _embed_query(space, text, payer)
    if (key := (space.pk, payer, text)) not in kept:
        kept[key] = _embed_query(space, text, payer)
    return kept[key]


def _embed_query(space: EmbeddingSpace, text: str, payer: Payer) -> list[float] | None:
    try:
        vector = cached_vector(
            space.pk, text, payer, lambda: embed_texts(space, [text], operation=EMBED_QUERY, payer=payer)[0]
        )
        return [float(value) for value in vector]
    except ProviderError as error:
        log.warning("embedder away", extra={"provider": space.provider, "code": error.code})
        return None


def text_query(text: str, *, turns: Iterable[tuple[str, str]] | None = None, payer: Payer = NOBODY) -> SearchQuery:
    """Return the query for a search or a message; without the embedder it has words only and is `degraded`.

    `turns` are those before a message to an assistant, newest first as (role, text): one with little content is
    about them. None: a person's search. The payer's texts show which words are uninformative there.
    """
    space = active_space()
    vector = embed_query(space, text, payer=payer)
    whole = QueryText.of_message(text, turns)
    parts = question_parts(text)
    if not parts:
        return build_query(whole, vector, space=space, actor_id=payer.actor_id)
    # A remote embedder would take as long again for each part; these are searched by words alone.
    is_local = vector is not None and provider_of(space).is_local
    texts = [(whole, vector)]
    for part in parts:
        part_vector = embed_query(space, part, payer=payer) if is_local else None
        texts.append((replace(QueryText.of_message(part), message_kind=whole.message_kind), part_vector))
    query, *queries = build_queries(texts, space=space, actor_id=payer.actor_id)
    return replace(query, parts=tuple(queries))


def with_vector_of(query: SearchQuery, bare: str, *, payer: Payer = NOBODY) -> SearchQuery:
    """Return the query with the vector of another text, such as its own without names; the words stay."""
    if query.vector is None or bare == query.text:
        return query
    space = active_space()
    vector = embed_query(space, bare, payer=payer)
    if vector is None or space.pk != query.space_id:
        return query
    return replace(query, vector=tuple(unit_vector(vector, dimension=space.dimension)))


def vector_query(vector: Sequence[float]) -> SearchQuery:
    """Return the query for a given vector; raises UnusableVector where it does not fit the active space."""
    return build_vector_query(vector, space=active_space())


def index_entries(
    texts: Sequence[str],
    spaces: Sequence[EmbeddingSpace],
    *,
    words: Sequence[str] | None = None,
    passage_shares: Sequence[float] | None = None,
    cues: Sequence[str] | None = None,
) -> list[IndexEntry]:
    """Analyse texts, and embed them where the provider is local; no network.

    `words` are the texts that index each by their words, where these differ from the text itself; `passage_shares`
    the weights of their passages; `cues` other words by which each is found.
    """
    columns: dict[int, Sequence[None] | Vectors] = {}
    for space in spaces:
        columns[space.id] = [None] * len(texts)
        try:
            provider = provider_of(space)
            if provider.is_local and texts:
                columns[space.id] = provider.embed(texts)
        except ProviderError as error:
            log.warning("embedder away", extra={"provider": space.provider, "code": error.code})
    return [
        IndexEntry(
            analyse(found_by),
            {space_id: column[index] for space_id, column in columns.items()},
            passage_vectors(found_by, passage_shares[index] if passage_shares else PASSAGE_SHARE),
            analyse(cues[index]) if cues else (),
        )
        for index, found_by in enumerate(texts if words is None else words)
    ]


def after_indexing(entries: Sequence[IndexEntry], counted: Sequence[IndexEntry], actor_id: UUID) -> None:
    """Count the terms of `counted` after the caller's transaction, and enqueue in it what is not embedded yet.

    After many texts at once, the actor's frequent terms are counted before the hourly job would.
    """
    record((entry.terms for entry in counted), actor_id)
    if len(entries) >= BULK_TEXTS:
        enqueue(COUNT_KIND, actor_id=actor_id, key=BULK_KEY, delay_seconds=BULK_DELAY_SECONDS)
    if any(vector is None for entry in entries for vector in entry.vectors.values()):
        embed_later(actor_id)


def embed_later(actor_id: UUID) -> None:
    enqueue(EMBED_KIND, actor_id=actor_id, key=EMBED_KEY)


def without_vector(rows: type[SearchIndexRow], space: EmbeddingSpace) -> models.QuerySet[Any]:
    """Return a space's rows that wait for a vector, their texts loaded; those that were refused wait for an edit."""
    manager: models.Manager[Any] = rows._default_manager
    return manager.filter(space=space, vector=None, is_refused=False).select_related(rows.owner_field)


def embed_rows(model: type[SearchIndexRow], rows: Sequence[Any], space: EmbeddingSpace) -> int:
    """Embed the rows' texts and store the vectors; return how many. Raises ProviderError."""
    return store_vectors(model, rows, space, vectors_of(model, rows, space))


def vectors_of(
    model: type[SearchIndexRow], rows: Sequence[Any], space: EmbeddingSpace, *, payer: Payer = NOBODY
) -> list[str]:
    """Return the vectors of the rows' texts, as PostgreSQL reads them; network. Raises ProviderError."""
    texts = [getattr(row, model.owner_field).content for row in rows]
    vectors = embed_texts(space, texts, operation=EMBED_TEXTS, payer=payer) if texts else ()
    return [HalfVector(vector.tolist()).to_text() for vector in vectors]


def store_vectors(
    model: type[SearchIndexRow], rows: Sequence[Any], space: EmbeddingSpace, vectors: Sequence[str]
) -> int:
    """Store the vectors of rows and return how many were given.

    A vector is stored only with the text it was made of: an edit while the provider was asked makes the row wait
    again.
    """
    owner: Any = model._meta.get_field(model.owner_field)
    statement = STORE_VECTORS.format(
        table=connection.ops.quote_name(model._meta.db_table),
        owners=connection.ops.quote_name(owner.related_model._meta.db_table),
        owner=connection.ops.quote_name(owner.column),
    )
    texts = [getattr(row, model.owner_field).content for row in rows]
    values: dict[str, Any] = {
        "space": space.pk,
        "actors": list({row.actor_id for row in rows}),
        "owners": [getattr(row, owner.attname) for row in rows],
        "digests": [hashlib.sha256(text.encode()).digest() for text in texts],
        "vectors": list(vectors),
    }
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
    return len(rows)


Progress = Callable[[int], None]

# Copies one actor's words, which are the same in every space; vectors follow later. `columns` depend on the model.
COPY_WORDS = """
INSERT INTO {table} ({columns}, space_id)
SELECT {columns}, %(target)s FROM {table} AS source
WHERE source.actor_id = %(actor)s AND source.space_id = %(source)s
ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True)
class Plan:
    """Plan of a model change: source space, target provider, and number of texts to embed."""

    source: EmbeddingSpace
    target: str
    waiting: int


def plan_change() -> Plan:
    """Return what `reembed` would do now, without doing any of it. Raises ProviderError."""
    provider = embedding_provider()
    names = {"provider": provider.name, "model": provider.model, "dimension": provider.dimension}
    source = active_space()
    space = EmbeddingSpace.objects.filter(**names).first()
    indexed: int = sum(model.objects.filter(space=source).count() for model in index_models())
    with_vector: int = sum(model.objects.filter(space=space, vector__isnull=False).count() for model in index_models())
    return Plan(source, str(EmbeddingSpace(**names)), max(0, indexed - with_vector))


def target_space() -> EmbeddingSpace:
    """Return the configured provider's space, made (to be filled) where there is none. Raises ProviderError."""
    return space_of_provider(embedding_provider(), EmbeddingSpace.State.FILLING)


def unfinished_spaces() -> models.QuerySet[EmbeddingSpace]:
    """Return the spaces that are half filled, for a provider that is not configured now. Raises ProviderError."""
    provider = embedding_provider()
    filling = EmbeddingSpace.objects.filter(state=EmbeddingSpace.State.FILLING)
    return filling.exclude(provider=provider.name, model=provider.model, dimension=provider.dimension)


def retire_unfinished_spaces() -> None:
    unfinished_spaces().update(state=EmbeddingSpace.State.RETIRED)


def fill(space: EmbeddingSpace, *, source: EmbeddingSpace, batch_size: int, progress: Progress) -> int:
    """Give every text of `source` a vector in `space`; return how many got one. Raises ProviderError."""
    if space.state == EmbeddingSpace.State.RETIRED:
        EmbeddingSpace.objects.filter(pk=space.pk).update(state=EmbeddingSpace.State.FILLING)
    return sum(_fill(model, space, source, batch_size, progress) for model in index_models())


def switch(space: EmbeddingSpace) -> None:
    """Activate a space for searches; the former one is retired."""
    with transaction.atomic():
        states = EmbeddingSpace.State
        EmbeddingSpace.objects.filter(state=states.ACTIVE).update(state=states.RETIRED)
        EmbeddingSpace.objects.filter(pk=space.pk).update(state=states.ACTIVE)


def remove_retired(*, batch_size: int) -> int:
    """Delete the vectors of retired spaces, some at a time; return how many."""
    removed = 0
    for space in EmbeddingSpace.objects.filter(state=EmbeddingSpace.State.RETIRED):
        # Keep the space's row: a writer that still considers it active refers to it.
        for model in index_models():
            while pks := list(model.objects.filter(space=space).values_list("pk", flat=True)[:batch_size]):
                removed += model.objects.filter(pk__in=pks).delete()[0]
    return removed


def _fill(model: Any, space: EmbeddingSpace, source: EmbeddingSpace, batch_size: int, progress: Progress) -> int:
    if source.pk != space.pk:
        own = {field.column for field in model._meta.concrete_fields} - {"space_id", "vector", "is_refused", None}
        statement = COPY_WORDS.format(
            table=connection.ops.quote_name(model._meta.db_table),
            columns=", ".join(map(connection.ops.quote_name, sorted(own))),
        )
        for actor_id in Actor.objects.values_list("pk", flat=True).iterator():
            with connection.cursor() as cursor:
                cursor.execute(statement, {"target": space.pk, "source": source.pk, "actor": actor_id})
        model.repair()  # an owner that changed while its row was copied
    done = 0
    for rows in batches_by_key(without_vector(model, space), batch_size):
        done += embed_rows(model, rows, space)
        progress(len(rows))
    return done
