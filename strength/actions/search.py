"""Search of memories by words and vectors, ranked by relevance, strength and recency (SPEC M2, M4–M7); its index."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Q

from conversations.domain.policy import MIN_PROFILE_TOKENS, ContextPolicy
from memoryhub.auth.access import Tenant, UnknownRow
from memoryhub.auth.principals import Principal
from memoryhub.db.copy import copy_rows
from memoryhub.db.prepared import PreparedQuery
from memoryhub.embeddings.spaces import IndexEntry, after_indexing
from memoryhub.errors import _, format_lazy
from memoryhub.search.bm25 import QueryWords
from memoryhub.search.index import weights_of
from memoryhub.search.models import EmbeddingSpace
from memoryhub.search.query import Candidate, Candidates, SearchQuery, candidates, words_text
from memoryhub.search.redundancy import MIN_RELEVANCE_SHARE, Hit, informative_hits
from memoryhub.telemetry.spans import memory_operation
from memoryhub.tenancy.models import Actor
from memoryhub.tenancy.namespaces import BY_STRENGTH, DEFAULT_RETRIEVAL, namespace_queries
from memoryhub.tenancy.policies import effective_policy
from memoryhub.tenancy.policy import actor_id
from strength.actions.filters import MemorySelection, facets_match, metadata_matches, status_filter, validity_filter
from strength.actions.usage import mark_candidates
from strength.domain.memories import STANDING_KINDS, Kind, ScopeLevel, Status
from strength.domain.policy import SearchPolicy
from strength.domain.profile import ProfileMemory
from strength.domain.ranking import ScoreBreakdown, score
from strength.models import Memory, MemoryIndex, MemoryQuerySet
from strength.models.locks import update_fading
from strength.models.memory import STRENGTH_OF_MEMORY, load_memories
from strength.sql import QUERIES, run_query

EMBEDDER_UNAVAILABLE = "embedder"
STRONGEST_MEMORIES = PreparedQuery(
    lambda: Memory.objects.order_by(STRENGTH_OF_MEMORY.desc(), "id"), server_prepared=False
)

MAX_PER_LEVEL = 100
"""Strongest memories of each consolidation level among which a profile selects its kinds."""


@dataclass(frozen=True, kw_only=True)
class MemorySearch:
    """A search; a number that is None is taken from the policy."""

    query: SearchQuery
    perspective: str | None = None
    project: str | None = None
    limit: int | None = None
    candidate_limit: int | None = None
    similarity_threshold: float | None = None
    filters: MemorySelection = field(default_factory=MemorySelection)
    """Those of the fields that index rows repeat, and of the metadata."""
    relevance_floor: float = 0.0
    only_informative: bool = False
    """Whether results that add nothing to better ones, or are much less relevant, are dropped; see `companions`."""
    excludes_pinned: bool = False
    """Whether pinned memories of the actor and its agent are left out; those of other agents are ordinary ones here."""
    respells: bool = False
    """Whether a query that finds nothing is repeated with similar words of the memories."""
    details: bool = True
    """Whether numbers and sources are loaded as well; a context needs the text only."""


@dataclass(frozen=True)
class FoundMemory:
    memory: Memory
    breakdown: ScoreBreakdown

    @property
    def final_score(self) -> float:
        return self.breakdown.total


@dataclass(frozen=True)
class SearchResults:
    """The best memories, the number of candidates, and the services that were unavailable."""

    found: list[FoundMemory]
    candidate_count: int
    degraded: tuple[str, ...] = ()
    searched_for: str = ""
    """Similar words of the memories, where the query's own find nothing."""


def _numbers_of_search(results: SearchResults, _arguments: object) -> dict[str, Any]:
    return {
        "gen_ai.memory.record.count": len(results.found),
        "memoryhub.candidates": results.candidate_count,
        "memoryhub.scores": [round(hit.final_score, 4) for hit in results.found],
        "memoryhub.degraded": bool(results.degraded),
    }


def _numbers_of_namespaces(groups: Mapping[str, Sequence[FoundMemory]], _arguments: object) -> dict[str, Any]:
    return {"gen_ai.memory.record.count": sum(map(len, groups.values()))}


@memory_operation("search_memory", _numbers_of_search)
def search_memories(
    *,
    tenant: Tenant,
    search: MemorySearch,
    by: Principal,
    mark: bool,
    now: datetime,
    others: Sequence[Tenant] = (),
    all_users: bool = False,
) -> SearchResults:
    """Return the best memories that the tenant, or one of the `others`, may see; `mark` counts them as candidates.

    `all_users` adds those of all users of the tenant's agent, which only a curator may ask for. The policy is the
    tenant's.
    """
    policy = effective_policy(SearchPolicy, tenant.agent, tenant.actor)
    where = Q()
    for searched_tenant in (tenant, *others):
        where |= _visible(searched_tenant, by, search.project) & _matching(searched_tenant, search, now)
    if all_users:
        actors = Actor.objects.filter(agent_id=tenant.agent_id).values_list("pk", flat=True)
        where |= Q(actor_id__in=list(actors)) & _matching(tenant, search, now)
    if search.excludes_pinned:
        where &= ~Q(pinned=True, actor_id__in=tenant.readable_actor_ids)
    found, matches = _search_rows(where, search, policy, now)
    if mark:
        mark_candidates(memories=[hit.memory for hit in found], by_search=True)
    degraded = (EMBEDDER_UNAVAILABLE,) if search.query.degraded else ()
    return SearchResults(found, matches.count, degraded, matches.searched_for)


@memory_operation("search_memory", _numbers_of_namespaces)
def retrieve_memories(
    *, tenant: Tenant, query: SearchQuery, config: Mapping[str, Any] | None, by: Principal, mark: bool, now: datetime
) -> dict[str, list[FoundMemory]]:
    """Return the best memories of each configured namespace, across sessions (SPEC M7). Raises NamespaceError."""
    policy = effective_policy(SearchPolicy, tenant.agent, tenant.actor)
    configured = config or (tenant.agent.retrieval_config if tenant.agent else None) or DEFAULT_RETRIEVAL
    queries = namespace_queries(configured, agent_id=tenant.agent_id, user_id=tenant.user_id)
    visible = _visible(tenant, by, None)
    results = {}
    for wanted in queries:
        if wanted.order == BY_STRENGTH:
            rows = Memory.objects.filter(visible, validity_filter(now), namespace__startswith=wanted.prefix).active()
            results[wanted.prefix] = _strongest(rows, wanted.top_k, policy, now)
            continue
        search = MemorySearch(
            query=query,
            limit=wanted.top_k,
            relevance_floor=wanted.relevance_score,
            filters=MemorySelection(namespace=wanted.prefix),
        )
        where = visible & _matching(tenant, search, now)
        results[wanted.prefix], _matches = _search_rows(where, search, policy, now)
    if mark:
        mark_candidates(memories=[hit.memory for group in results.values() for hit in group], by_search=True)
    return results


def _strongest(rows: MemoryQuerySet, limit: int, policy: SearchPolicy, now: datetime) -> list[FoundMemory]:
    return [
        FoundMemory(
            memory,
            score(
                similarity=None,
                word_score=0.0,
                relevance=0.0,
                strength=memory.strength,
                last_used_at=memory.numbers.last_accessed_at or memory.created_at,
                now=now,
                policy=policy,
            ),
        )
        for memory in rows.with_numbers().order_by(STRENGTH_OF_MEMORY.desc(), "id")[:limit]
    ]


def pinned_memories(*, tenant: Tenant, project: str | None, now: datetime, limit: int) -> list[Memory]:
    """Return the pinned memories of the actor and its agent. A pin does not cross to other agents."""
    where = _own(tenant, project) & validity_filter(now) & Q(pinned=True, status=Status.ACTIVE)
    return STRONGEST_MEMORIES.rows(where, limit=limit)


def visible_memory(*, tenant: Tenant, memory_id: UUID, by: Principal) -> Memory:
    """Return an active memory that a search of this tenant could find. Raises UnknownRow."""
    memory = Memory.objects.filter(_visible(tenant, by, None), pk=memory_id).active().first()
    if memory is None:
        raise UnknownRow(format_lazy(_("No memory {id}."), id=memory_id))
    return memory


MIN_LINE_TOKENS: Final = 8
"""Minimum tokens of a profile line, which bounds the number of lines."""

SHORT_LINE_TOKENS: Final = 16
"""Tokens of a short line with its number and day; a large profile reads no more memories than such lines fit."""

MAX_STANDING: Final = MIN_PROFILE_TOKENS // MIN_LINE_TOKENS
"""Most preferences and facts that sleeps spare and written profiles restate."""


def profile_memories(
    *, tenant: Tenant, project: str | None, now: datetime, policy: ContextPolicy
) -> list[ProfileMemory]:
    """Return a user's preferences, facts and others, interleaved, of each the strongest and the newest alternately.

    By strength alone, today's memories would come after all that were ever used. Without pinned ones.
    """
    tokens = policy.profile_tokens
    limit = min(tokens // MIN_LINE_TOKENS, max(MAX_STANDING, tokens // SHORT_LINE_TOKENS))
    return _profile_memories(tenant.actor_id, _current_project(tenant, project), now, tuple(Kind), limit)


def max_standing_memories(actor: Actor) -> int:
    """Return the greatest number of preferences and facts in the user's profile that sleeps spare."""
    policy = effective_policy(ContextPolicy, actor.agent, actor)
    is_shown = policy.include_profile and actor.user_id
    return min(MAX_STANDING, policy.profile_tokens // MIN_LINE_TOKENS) if is_shown else 0


def standing_memories(actor: Actor, *, now: datetime) -> list[ProfileMemory]:
    """Return the best preferences and facts of the user's profile, of any project; sleeps do not archive them."""
    limit = max_standing_memories(actor)
    return _profile_memories(actor.pk, "", now, STANDING_KINDS, limit) if limit else []


def _profile_memories(
    actor_id: UUID, project: str, now: datetime, kinds: Collection[Kind], limit: int
) -> list[ProfileMemory]:
    values = {
        "actor_id": actor_id,
        "kinds": list(kinds),
        "project": project,
        "now": now,
        "limit": limit,
        "limit_per_level": max(MAX_PER_LEVEL, limit),
    }
    return [ProfileMemory(*row) for row in run_query(QUERIES["profile_memories"], values, server_prepared=True)]


def select_profile_memories(
    *, tenant: Tenant, memory_ids: Collection[UUID], project: str | None, now: datetime
) -> list[ProfileMemory]:
    """Return those of the given memories that a profile may hold, however weak they are."""
    if not memory_ids:
        return []
    where = Q(
        actor_id=tenant.actor_id, pk__in=list(memory_ids), kind__in=STANDING_KINDS, pinned=False
    ) & validity_filter(now)
    if in_project := _current_project(tenant, project):
        where &= ~(Q(scope_level=ScopeLevel.PROJECT) & ~Q(scope_project__in=["", in_project]))
    rows = Memory.objects.filter(where).active().order_by("id")
    fields = [name for name in ProfileMemory._fields if name != "rank"]
    return [ProfileMemory(*row) for row in rows.values_list(*fields)]


def _search_rows(
    where: Q, search: MemorySearch, policy: SearchPolicy, now: datetime
) -> tuple[list[FoundMemory], Candidates]:
    limit = policy.top_k_results if search.limit is None else search.limit
    threshold = search.similarity_threshold
    matches = candidates(
        MemoryIndex,
        where,
        search.query,
        similarity_threshold=policy.similarity_threshold if threshold is None else threshold,
        word_floor=policy.word_floor,
        limit=search.candidate_limit or max(1, limit, policy.candidate_limit),
        respells=search.respells,
    )
    floor = search.relevance_floor
    if search.only_informative and matches.best:
        # A question in parts has a best memory for each part.
        floor = max(floor, MIN_RELEVANCE_SHARE * matches.best[max(0, matches.leading - 1)].relevance)
    relevant = [candidate for candidate in matches.best if candidate.relevance >= floor]
    return _rank(search, relevant, limit, policy, now, leading=matches.leading), matches


def _matching(tenant: Tenant, search: MemorySearch, now: datetime) -> Q:
    filters = search.filters
    at = validity_filter(filters.as_of or now) & status_filter(filters.status, as_of=filters.as_of, now=now)
    return at & facets_match(tenant, filters) & metadata_matches("memory__metadata", filters.metadata)


def _visible(tenant: Tenant, by: Principal, project: str | None) -> Q:
    """Filter to memories of the actor and its agent, and to those that other readable agents share (SPEC M2)."""
    agent, own = tenant.agent, _own(tenant, project)
    readable = tenant.agent_ids if by.agent_ids is None else by.agent_ids
    others = [actor_id(agent_id) for agent_id in readable if agent_id != tenant.agent_id]
    if not others:
        return own
    shared = Q(scope_level=ScopeLevel.UNIVERSAL)
    if agent and (domains := [domain for domain in [agent.domain, *agent.related_domains] if domain]):
        shared |= Q(scope_level=ScopeLevel.DOMAIN, scope_domain__in=domains)
    return own | (Q(actor_id__in=others) & shared)


def _own(tenant: Tenant, project: str | None) -> Q:
    own = Q(actor_id__in=tenant.readable_actor_ids)
    if in_project := _current_project(tenant, project):
        own &= ~(Q(scope_level=ScopeLevel.PROJECT) & ~Q(scope_project__in=["", in_project]))
    return own


def _current_project(tenant: Tenant, project: str | None) -> str:
    return project or (tenant.agent.current_project if tenant.agent else "")


def _rank(
    search: MemorySearch, matches: Sequence[Candidate], limit: int, policy: SearchPolicy, now: datetime, *, leading: int
) -> list[FoundMemory]:
    """Return the first `leading`, then the best by score: whole memories are loaded for these only."""
    if not matches:
        return []
    first = [candidate.owner_id for candidate in matches[:leading]]
    query, actor_ids = search.query, list({candidate.actor_id for candidate in matches})
    words = query.words if search.only_informative else None
    keys = {
        "actor_ids": actor_ids,
        "memory_ids": [candidate.owner_id for candidate in matches],
        "space_id": query.space_id,
        "perspective": search.perspective or "",
        "words": words_text(words) if words else None,
    }
    numbers = {key: values for key, *values in run_query(QUERIES["candidate_numbers"], keys, server_prepared=True)}
    matches = [candidate for candidate in matches if candidate.owner_id in numbers]
    if words is not None:
        matches = _informative(matches, {key: document for key, (*_others, document) in numbers.items()}, query, words)
    scored = {
        candidate.owner_id: score(
            similarity=candidate.similarity_raw,
            word_score=candidate.word_raw or 0.0,
            relevance=candidate.relevance,
            strength=strength,
            last_used_at=last_used_at,
            now=now,
            policy=policy,
        )
        for candidate in matches
        for strength, last_used_at, _document in [numbers[candidate.owner_id]]
    }
    leaders = {key: place for place, key in enumerate(first)}
    ranked = sorted(scored, key=lambda key: (leaders.get(key, leading), *_rank_key(key, scored[key])))[:limit]
    memories = load_memories(actor_ids, ranked, details=search.details) if ranked else {}
    return [FoundMemory(memories[key], scored[key]) for key in ranked if key in memories]


def _informative(
    matches: Sequence[Candidate], documents: Mapping[UUID, str], query: SearchQuery, words: QueryWords
) -> list[Candidate]:
    """Return the matches that add something to better ones; `documents` are their stored words."""
    hits = [Hit(each.relevance, each.similarity_raw, weights_of(documents[each.owner_id])) for each in matches]
    return [matches[index] for index in informative_hits(hits, words, query.bounds, query.policy)]


def _rank_key(memory_id: UUID, scores: ScoreBreakdown) -> tuple[float, float, UUID]:
    return -scores.total, 1.0 if scores.similarity_raw is None else -scores.similarity_raw, memory_id


def nearest_memories(
    where: Q, query: SearchQuery, *, limit: int, similarity_threshold: float = 0.0, word_floor: float = 0.0
) -> list[tuple[Memory, float]]:
    """Return the memories of index rows that are most relevant to a query, with their relevance, the best first."""
    matches = candidates(
        MemoryIndex, where, query, similarity_threshold=similarity_threshold, word_floor=word_floor, limit=limit
    ).best
    memories = Memory.objects.of({candidate.actor_id for candidate in matches}).select_related(
        "numbers", "actor__sleep_state"
    )
    by_id = memories.in_bulk([candidate.owner_id for candidate in matches])
    return [(by_id[candidate.owner_id], candidate.relevance) for candidate in matches if candidate.owner_id in by_id]


def index_memory(memory: Memory, entry: IndexEntry, spaces: Sequence[EmbeddingSpace]) -> None:
    """Replace a memory's index rows in the given spaces; inside the caller's transaction."""
    MemoryIndex.objects.filter(actor_id=memory.actor_id, memory=memory).delete()
    index_new_memories([(memory, entry)], spaces)


def index_new_memories(new: Sequence[tuple[Memory, IndexEntry]], spaces: Sequence[EmbeddingSpace]) -> None:
    """Add index rows of one actor's memories that have none in these spaces; inside the caller's transaction."""
    rows = (
        {
            "actor_id": memory.actor_id,
            "memory_id": memory.pk,
            **MemoryIndex.copied_fields(memory),
            **entry.row_values(space.id),
        }
        for memory, entry in new
        for space in spaces
    )
    copy_rows(MemoryIndex, rows)
    counted = [entry for memory, entry in new if memory.status == Status.ACTIVE]
    after_indexing([entry for _memory, entry in new], counted, new[0][0].actor_id)


def sync_facets(memory: Memory) -> None:
    """Copy a memory's facets to its index rows, and update whether it fades; inside the transaction that changed it."""
    run_query(QUERIES["sync_index"], {"actor_ids": [memory.actor_id], "memory_ids": [memory.pk]})
    update_fading(memory.actor_id, [memory.pk], now=memory.updated_at, since=memory.updated_at)
