"""Search of memories and the index behind it (SPEC M2, M4–M7).

Candidates by words and vectors are ranked by relevance, strength and recency.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q

from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import Tenant, readable_agents
from memoryhub.embeddings.spaces import IndexEntry, after_indexing
from memoryhub.search.models import EmbeddingSpace
from memoryhub.search.query import Candidate, SearchQuery, candidates
from memoryhub.tenancy.domain import actor_id
from memoryhub.tenancy.namespaces import DEFAULT_RETRIEVAL, expand_namespace, namespace_queries
from memoryhub.tenancy.policies import effective_policy
from strength.actions.usage import mark_candidates
from strength.domain.memories import ScopeLevel, Status
from strength.domain.policy import SearchPolicy
from strength.domain.ranking import ScoreBreakdown, score
from strength.models import Memory, MemoryIndex
from strength.sql import QUERIES

EMBEDDER_AWAY = "embedder"


@dataclass(frozen=True, kw_only=True)
class MemoryFilters:
    """Filters of a search; empty values do not filter. `as_of` finds what was valid at a time."""

    kinds: Sequence[str] = ()
    namespace: str | None = None
    tags: Sequence[str] = ()
    status: str = Status.ACTIVE
    created_after: datetime | None = None
    created_before: datetime | None = None
    as_of: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class MemorySearch:
    """A search; a number that is None is taken from the policy."""

    query: SearchQuery
    perspective: str | None = None
    project: str | None = None
    limit: int | None = None
    candidate_limit: int | None = None
    similarity_threshold: float | None = None
    filters: MemoryFilters = field(default_factory=MemoryFilters)
    exclude_pinned: bool = False
    relevance_floor: float = 0.0
    details: bool = True
    """Whether numbers and sources are loaded as well; a context needs the text only."""


@dataclass(frozen=True)
class FoundMemory:
    """A memory with its scores."""

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


def search_memories(
    *, tenant: Tenant, search: MemorySearch, by: Principal, mark: bool, now: datetime
) -> SearchResults:
    """Return the best memories that the tenant may see; `mark` counts them as candidates."""
    policy = effective_policy(SearchPolicy, tenant.agent, tenant.actor)
    found, candidate_count = _found(Reader(tenant, by), search, policy, now)
    if mark:
        mark_candidates(memories=[each.memory for each in found])
    return SearchResults(found, candidate_count, (EMBEDDER_AWAY,) if search.query.degraded else ())


def retrieve_memories(
    *,
    tenant: Tenant,
    query: SearchQuery,
    config: Mapping[str, Any] | None,
    by: Principal,
    mark: bool,
    now: datetime,
) -> dict[str, list[FoundMemory]]:
    """Return the best memories of each configured namespace, across all sessions (SPEC M7).

    Raises NamespaceError for a configuration that cannot be used.
    """
    policy = effective_policy(SearchPolicy, tenant.agent, tenant.actor)
    configured = config or (tenant.agent.retrieval_config if tenant.agent else None) or DEFAULT_RETRIEVAL
    wanted = namespace_queries(configured, agent_id=tenant.agent_id, user_id=tenant.user_id)
    reader = Reader(tenant, by)
    found = {}
    for each in wanted:
        search = MemorySearch(
            query=query, limit=each.top_k, relevance_floor=each.relevance_score,
            filters=MemoryFilters(namespace=each.prefix),
        )  # fmt: skip
        found[each.prefix], _count = _found(reader, search, policy, now)
    if mark:
        mark_candidates(memories=[each.memory for group in found.values() for each in group])
    return found


def pinned_memories(
    *, tenant: Tenant, project: str | None, by: Principal, now: datetime, most: int
) -> list[Memory]:
    """Return the tenant's pinned memories, strongest first."""
    visible = _visible(Reader(tenant, by), project)
    rows = Memory.objects.filter(visible, _valid(None, now), pinned=True).active()
    return list(rows.order_by("-numbers__strength", "id")[:most])


class Reader:
    """A tenant that reads, and the other agents whose shared memories it may read (SPEC M2)."""

    def __init__(self, tenant: Tenant, by: Principal) -> None:
        self.tenant = tenant
        self._by = by

    @cached_property
    def shared_by(self) -> list[UUID]:
        """Return the actors of the other readable agents."""
        ids: Iterable[str] = readable_agents(self._by).values_list("agent_id", flat=True)
        return [actor_id(agent_id) for agent_id in ids if agent_id != self.tenant.agent_id]


def _found(
    reader: Reader, search: MemorySearch, policy: SearchPolicy, now: datetime
) -> tuple[list[FoundMemory], int]:
    """Return the best memories, and the number of candidates."""
    limit = policy.top_k_results if search.limit is None else search.limit
    threshold = search.similarity_threshold
    among = candidates(
        MemoryIndex.objects.filter(_wanted(reader, search, now)),
        search.query,
        similarity_threshold=policy.similarity_threshold if threshold is None else threshold,
        word_floor=policy.word_floor,
        limit=max(1, limit, search.candidate_limit or policy.candidate_limit),
    )
    relevant = [each for each in among.best if each.relevance >= search.relevance_floor]
    return _best(search, relevant, limit, policy, now), among.count


def _wanted(reader: Reader, search: MemorySearch, now: datetime) -> Q:
    wanted = _visible(reader, search.project) & _valid(search.filters.as_of, now)
    if search.exclude_pinned:
        wanted &= Q(pinned=False)
    return wanted & Q(**_plain_filters(reader.tenant, search.filters))


def _plain_filters(tenant: Tenant, filters: MemoryFilters) -> dict[str, Any]:
    wanted: dict[str, Any] = {"status": filters.status}
    if filters.kinds:
        wanted["kind__in"] = list(filters.kinds)
    if filters.namespace:
        wanted["namespace__startswith"] = expand_namespace(
            filters.namespace, agent_id=tenant.agent_id, user_id=tenant.user_id
        )
    if filters.tags:
        wanted["tags__contains"] = list(filters.tags)
    if filters.created_after:
        wanted["created_at__gte"] = filters.created_after
    if filters.created_before:
        wanted["created_at__lte"] = filters.created_before
    return wanted


def _visible(reader: Reader, project: str | None) -> Q:
    """Filter to memories of the actor and its agent, and to those that other agents share."""
    agent = reader.tenant.agent
    own = Q(actor_id__in=reader.tenant.readable_actor_ids)
    in_project = project or (agent.current_project if agent else "")
    if in_project:
        own &= ~(Q(scope_level=ScopeLevel.PROJECT) & ~Q(scope_project__in=["", in_project]))
    domains = [domain for domain in [agent.domain, *agent.related_domains] if domain] if agent else []
    shared = Q(scope_level=ScopeLevel.UNIVERSAL)
    if domains:
        shared |= Q(scope_level=ScopeLevel.DOMAIN, scope_domain__in=domains)
    if not reader.shared_by:
        return own
    return own | (Q(actor_id__in=reader.shared_by) & shared)


def _valid(as_of: datetime | None, now: datetime) -> Q:
    at = as_of or now
    return (Q(valid_from=None) | Q(valid_from__lte=at)) & (Q(valid_to=None) | Q(valid_to__gt=at))


def _best(
    search: MemorySearch, among: Sequence[Candidate], limit: int, policy: SearchPolicy, now: datetime
) -> list[FoundMemory]:
    """Return the best candidates by score.

    All of them are scored by a few numbers; whole memories are loaded for the best only.
    """
    ranked = sorted(_scored(among, search, policy, now), key=_best_first)[:limit]
    if not ranked:
        return []
    actor_ids = {candidate.actor_id for candidate, _ in ranked}
    rows = Memory.objects.of(actor_ids)
    memories = (rows.with_numbers(actor_ids) if search.details else rows).in_bulk(
        [candidate.owner_id for candidate, _ in ranked]
    )
    return [
        FoundMemory(memories[candidate.owner_id], breakdown)
        for candidate, breakdown in ranked
        if candidate.owner_id in memories
    ]


def _best_first(scored: tuple[Candidate, ScoreBreakdown]) -> tuple[float, float, UUID]:
    candidate, breakdown = scored
    similarity = breakdown.similarity_raw
    return -breakdown.total, 1.0 if similarity is None else -similarity, candidate.owner_id


def _scored(
    among: Sequence[Candidate], search: MemorySearch, policy: SearchPolicy, now: datetime
) -> list[tuple[Candidate, ScoreBreakdown]]:
    numbers = _numbers(among, search)
    return [
        (
            candidate,
            score(
                similarity=candidate.similarity_raw,
                word_score=candidate.word_raw or 0.0,
                relevance=candidate.relevance,
                strength=numbers[candidate.owner_id][0],
                last_used_at=numbers[candidate.owner_id][1],
                now=now,
                policy=policy,
            ),
        )
        for candidate in among
        if candidate.owner_id in numbers
    ]


def _numbers(among: Sequence[Candidate], search: MemorySearch) -> dict[UUID, tuple[float, datetime]]:
    """Return each candidate's strength, in the perspective if that is greater, and when it was last used or created."""
    keys: dict[str, Any] = {
        "actor_ids": list({candidate.actor_id for candidate in among}),
        "memory_ids": [candidate.owner_id for candidate in among],
        "space_id": search.query.space_id,
        "perspective": search.perspective,
    }
    with connection.cursor() as cursor:
        cursor.execute(QUERIES["candidate_numbers"], keys)
        return {memory_id: (strength, last_used) for memory_id, strength, last_used in cursor.fetchall()}


def index_memory(memory: Memory, entry: IndexEntry, spaces: Sequence[EmbeddingSpace]) -> None:
    """Replace a memory's index rows in the given spaces; inside the caller's transaction."""
    MemoryIndex.objects.filter(actor_id=memory.actor_id, memory=memory).delete()
    facets = MemoryIndex.repeated(memory)
    MemoryIndex.objects.bulk_create(
        MemoryIndex(actor_id=memory.actor_id, memory=memory, **facets, **entry.row_values(space.id))
        for space in spaces
    )
    after_indexing([entry], memory.actor_id)


def sync_facets(memories: Sequence[Memory]) -> None:
    """Copy these memories' facets to their index rows and numbers; inside the transaction that changed them."""
    keys = {
        "actor_ids": list({memory.actor_id for memory in memories}),
        "memory_ids": list({memory.pk for memory in memories}),
    }
    with connection.cursor() as cursor:
        cursor.execute(QUERIES["sync_index"], keys)
        cursor.execute(QUERIES["take_off_clock"] + QUERIES["sync_numbers"], keys)
