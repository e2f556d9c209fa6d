"""Finding memories: candidates by words and vectors, then relevance, strength and recency (SPEC M2, M4–M7)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from django.db.models import Q, QuerySet

from memoryhub.access.domain import Principal
from memoryhub.access.tenancy import Tenant, readable_agents
from memoryhub.search.expressions import Candidate, candidates, count_candidates
from memoryhub.search.query import SearchQuery
from memoryhub.tenants.domain import actor_id
from memoryhub.tenants.namespaces import (
    DEFAULT_RETRIEVAL,
    NamespaceQuery,
    expand_namespace,
    namespace_queries,
)
from memoryhub.tenants.policies import effective_policy
from strength.actions.use import mark_candidates
from strength.domain.memories import ScopeLevel, Status
from strength.domain.policy import SearchPolicy
from strength.domain.ranking import ScoreBreakdown, score
from strength.models import Memory, MemoryIndex

EMBEDDER_AWAY = "embedder"


@dataclass(frozen=True, kw_only=True)
class MemoryFilters:
    """What a search is narrowed to; empty values do not narrow. `as_of` asks what held at a time."""

    kinds: Sequence[str] = ()
    namespace: str | None = None
    tags: Sequence[str] = ()
    status: str = Status.ACTIVE
    created_after: datetime | None = None
    created_before: datetime | None = None
    as_of: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class MemorySearch:
    """What to search for and where; None leaves a number to the policy."""

    query: SearchQuery
    perspective: str | None = None
    project: str | None = None
    limit: int | None = None
    candidate_limit: int | None = None
    similarity_threshold: float | None = None
    filters: MemoryFilters = field(default_factory=MemoryFilters)
    exclude_pinned: bool = False
    counts: bool = True
    """Whether more candidates than were looked at shall be counted: another scan where there are many."""


@dataclass(frozen=True)
class FoundMemory:
    """A memory with the scores that brought it here."""

    memory: Memory
    breakdown: ScoreBreakdown

    @property
    def final_score(self) -> float:
        """Return what results are ordered by."""
        return self.breakdown.total


@dataclass(frozen=True)
class SearchResults:
    """The best memories, how many there were before the best were chosen, and what was missing."""

    found: list[FoundMemory]
    candidate_count: int
    degraded: tuple[str, ...] = ()


def search_memories(
    *, tenant: Tenant, search: MemorySearch, by: Principal, mark: bool, now: datetime
) -> SearchResults:
    """Return the best memories that the tenant may see; with `mark`, count them as candidates."""
    policy = effective_policy(SearchPolicy, tenant.agent, tenant.actor)
    rows = _rows(tenant, search, by, now)
    floors = _floors(policy, search.similarity_threshold)
    limit = policy.top_k_results if search.limit is None else search.limit
    most = max(limit, search.candidate_limit or policy.candidate_limit)
    nominees = candidates(rows, search.query, limit=most, **floors) if limit else []
    is_full = len(nominees) >= most or not limit
    count = count_candidates(rows, search.query, **floors) if is_full and search.counts else len(nominees)
    found = _ranked(nominees, search.perspective, policy, now)[:limit]
    if mark:
        mark_candidates(memories=[each.memory for each in found])
    return SearchResults(found, count, (EMBEDDER_AWAY,) if search.query.degraded else ())


def retrieve_memories(
    *,
    tenant: Tenant,
    query: SearchQuery,
    config: Mapping[str, Any] | None,
    by: Principal,
    mark: bool,
    now: datetime,
) -> dict[str, list[FoundMemory]]:
    """Return the best of each configured namespace, across all sessions; an empty one is empty (SPEC M7).

    Raises NamespaceError for a configuration that cannot be used.
    """
    policy = effective_policy(SearchPolicy, tenant.agent, tenant.actor)
    configured = config or (tenant.agent.retrieval_config if tenant.agent else None) or DEFAULT_RETRIEVAL
    wanted = namespace_queries(configured, agent_id=tenant.agent_id, user_id=tenant.user_id)
    found = {each.prefix: _best_of(tenant, query, each, policy, by, now) for each in wanted}
    if mark:
        mark_candidates(memories=[each.memory for group in found.values() for each in group])
    return found


def pinned_memories(
    *, tenant: Tenant, project: str | None, by: Principal, now: datetime, most: int
) -> list[Memory]:
    """Return the tenant's pinned memories, strongest first."""
    rows = Memory.objects.filter(_visible(tenant, by, project, prefix="")).active().filter(
        _valid(None, now, prefix=""), pinned=True
    )  # fmt: skip
    return list(rows.order_by("-numbers__strength", "id")[:most])


class _Floors(TypedDict):
    """What a row must reach in one arm to be a candidate."""

    similarity_threshold: float
    word_floor: float


def _floors(policy: SearchPolicy, similarity_threshold: float | None = None) -> _Floors:
    threshold = policy.similarity_threshold if similarity_threshold is None else similarity_threshold
    return {"similarity_threshold": threshold, "word_floor": policy.word_floor}


def _best_of(
    tenant: Tenant,
    query: SearchQuery,
    wanted: NamespaceQuery,
    policy: SearchPolicy,
    by: Principal,
    now: datetime,
) -> list[FoundMemory]:
    search = MemorySearch(query=query, filters=MemoryFilters(namespace=wanted.prefix))
    most = max(policy.candidate_limit, wanted.top_k)
    nominees = candidates(_rows(tenant, search, by, now), query, limit=most, **_floors(policy))
    relevant = [nominee for nominee in nominees if nominee.relevance >= wanted.relevance_score]
    return _ranked(relevant, None, policy, now)[: wanted.top_k]


def _rows(tenant: Tenant, search: MemorySearch, by: Principal, now: datetime) -> QuerySet[MemoryIndex]:
    others = _other_agents(tenant, by)
    actor_ids = [*tenant.readable_actor_ids, *(actor_id(agent_id) for agent_id in others)]
    rows = MemoryIndex.objects.searchable(actor_ids, search.query.space_id)
    rows = rows.filter(_visible(tenant, by, search.project, prefix="memory__", others=others))
    rows = rows.filter(_valid(search.filters.as_of, now, prefix="memory__"))
    if search.exclude_pinned:
        rows = rows.filter(memory__pinned=False)
    return rows.filter(**_plain_filters(tenant, search.filters))


def _plain_filters(tenant: Tenant, filters: MemoryFilters) -> dict[str, Any]:
    wanted: dict[str, Any] = {"memory__status": filters.status}
    if filters.kinds:
        wanted["memory__kind__in"] = list(filters.kinds)
    if filters.namespace:
        wanted["memory__namespace__startswith"] = expand_namespace(
            filters.namespace, agent_id=tenant.agent_id, user_id=tenant.user_id
        )
    if filters.tags:
        wanted["memory__tags__contains"] = list(filters.tags)
    if filters.created_after:
        wanted["memory__created_at__gte"] = filters.created_after
    if filters.created_before:
        wanted["memory__created_at__lte"] = filters.created_before
    return wanted


def _other_agents(tenant: Tenant, by: Principal) -> list[str]:
    """Return the other agents whose `domain` and `universal` memories may be read (SPEC M2)."""
    ids: Iterable[str] = readable_agents(by).values_list("agent_id", flat=True)
    return [agent_id for agent_id in ids if agent_id != tenant.agent_id]


def _visible(
    tenant: Tenant, by: Principal, project: str | None, *, prefix: str, others: Sequence[str] | None = None
) -> Q:
    """Return who may see what: the actor's and its agent's own memories, and what other agents share."""
    shared_by = _other_agents(tenant, by) if others is None else others
    agent = tenant.agent
    own = Q(**{f"{prefix}actor_id__in": tenant.readable_actor_ids})
    in_project = project or (agent.current_project if agent else "")
    if in_project:
        elsewhere = ~Q(**{f"{prefix}scope_project__in": ["", in_project]})
        own &= ~(Q(**{f"{prefix}scope_level": ScopeLevel.PROJECT}) & elsewhere)
    domains = [domain for domain in [agent.domain, *agent.related_domains] if domain] if agent else []
    shared = Q(**{f"{prefix}scope_level": ScopeLevel.UNIVERSAL})
    if domains:
        shared |= Q(**{f"{prefix}scope_level": ScopeLevel.DOMAIN, f"{prefix}scope_domain__in": domains})
    if not shared_by:
        return own
    return own | (Q(**{f"{prefix}actor_id__in": [actor_id(agent_id) for agent_id in shared_by]}) & shared)


def _valid(as_of: datetime | None, now: datetime, *, prefix: str) -> Q:
    """Return what holds at a time: begun, and not ended."""
    at = as_of or now
    begun = Q(**{f"{prefix}valid_from": None}) | Q(**{f"{prefix}valid_from__lte": at})
    open_ended = Q(**{f"{prefix}valid_to": None}) | Q(**{f"{prefix}valid_to__gt": at})
    return begun & open_ended


def _ranked(
    nominees: Sequence[Candidate], perspective: str | None, policy: SearchPolicy, now: datetime
) -> list[FoundMemory]:
    memories = {memory.id: memory for memory in _load(nominees)}
    found = [
        FoundMemory(
            memories[nominee.owner_id], _score(memories[nominee.owner_id], nominee, perspective, policy, now)
        )
        for nominee in nominees
        if nominee.owner_id in memories
    ]
    return sorted(found, key=_best_first)


def _best_first(found: FoundMemory) -> tuple[float, float, UUID]:
    similarity = found.breakdown.similarity_raw
    return -found.final_score, 1.0 if similarity is None else -similarity, found.memory.id


def _load(nominees: Sequence[Candidate]) -> QuerySet[Memory]:
    actor_ids: set[UUID] = {nominee.actor_id for nominee in nominees}
    rows = Memory.objects.of(actor_ids).filter(id__in=[nominee.owner_id for nominee in nominees])
    return rows.with_numbers(actor_ids)


def _score(
    memory: Memory, nominee: Candidate, perspective: str | None, policy: SearchPolicy, now: datetime
) -> ScoreBreakdown:
    own = [each.strength for each in memory.perspectives.all() if each.perspective == perspective]
    numbers = memory.numbers
    return score(
        similarity=nominee.similarity_raw,
        word_score=nominee.word_raw or 0.0,
        relevance=nominee.relevance,
        strength=max([numbers.strength, *own]),
        last_used_at=numbers.last_accessed_at or memory.created_at,
        now=now,
        policy=policy,
    )
