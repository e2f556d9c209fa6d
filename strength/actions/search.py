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
from memoryhub.search.query import Candidate, Candidates, SearchQuery, candidates
from memoryhub.tenancy.domain import actor_id
from memoryhub.tenancy.namespaces import (
    DEFAULT_RETRIEVAL,
    NamespaceQuery,
    expand_namespace,
    namespace_queries,
)
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
    relevance_floor: float = 0.0
    details: bool = True
    """Whether what the API shows beside the text is loaded as well; a context needs the text alone."""


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
    reading = Reading(tenant, by)
    limit = policy.top_k_results if search.limit is None else search.limit
    most = max(1, limit, search.candidate_limit or policy.candidate_limit)
    nominees = _candidates(reading, search, policy, now, most)
    relevant = [nominee for nominee in nominees.best if nominee.relevance >= search.relevance_floor]
    found = _best(search, relevant, limit, policy, now)
    if mark:
        mark_candidates(memories=[each.memory for each in found])
    return SearchResults(found, nominees.count, (EMBEDDER_AWAY,) if search.query.degraded else ())


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
    reading = Reading(tenant, by)
    found = {each.prefix: _best_of(reading, query, each, policy, now) for each in wanted}
    if mark:
        mark_candidates(memories=[each.memory for group in found.values() for each in group])
    return found


def pinned_memories(
    *, tenant: Tenant, project: str | None, by: Principal, now: datetime, most: int
) -> list[Memory]:
    """Return the tenant's pinned memories, strongest first."""
    visible = _visible(Reading(tenant, by), project)
    rows = Memory.objects.filter(visible, _valid(None, now), pinned=True).active()
    return list(rows.order_by("-numbers__strength", "id")[:most])


class Reading:
    """Who reads, and the other agents whose `domain` and `universal` memories they may read (SPEC M2)."""

    def __init__(self, tenant: Tenant, by: Principal) -> None:
        self.tenant = tenant
        self._by = by

    @cached_property
    def shared_by(self) -> list[UUID]:
        """Return the own actors of these agents."""
        ids: Iterable[str] = readable_agents(self._by).values_list("agent_id", flat=True)
        return [actor_id(agent_id) for agent_id in ids if agent_id != self.tenant.agent_id]


def _best_of(
    reading: Reading, query: SearchQuery, wanted: NamespaceQuery, policy: SearchPolicy, now: datetime
) -> list[FoundMemory]:
    search = MemorySearch(query=query, filters=MemoryFilters(namespace=wanted.prefix))
    nominees = _candidates(reading, search, policy, now, max(policy.candidate_limit, wanted.top_k))
    relevant = [nominee for nominee in nominees.best if nominee.relevance >= wanted.relevance_score]
    return _best(search, relevant, wanted.top_k, policy, now)


def _candidates(
    reading: Reading, search: MemorySearch, policy: SearchPolicy, now: datetime, limit: int
) -> Candidates:
    threshold = search.similarity_threshold
    return candidates(
        MemoryIndex.objects.filter(_wanted(reading, search, now)),
        search.query,
        similarity_threshold=policy.similarity_threshold if threshold is None else threshold,
        word_floor=policy.word_floor,
        limit=limit,
    )


def _wanted(reading: Reading, search: MemorySearch, now: datetime) -> Q:
    """Return the condition for what may be seen and is asked for, on a memory or its index row."""
    wanted = _visible(reading, search.project) & _valid(search.filters.as_of, now)
    if search.exclude_pinned:
        wanted &= Q(pinned=False)
    return wanted & Q(**_plain_filters(reading.tenant, search.filters))


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


def _visible(reading: Reading, project: str | None) -> Q:
    """Return who may see what: the actor's and its agent's own memories, and what other agents share."""
    agent = reading.tenant.agent
    own = Q(actor_id__in=reading.tenant.readable_actor_ids)
    in_project = project or (agent.current_project if agent else "")
    if in_project:
        own &= ~(Q(scope_level=ScopeLevel.PROJECT) & ~Q(scope_project__in=["", in_project]))
    domains = [domain for domain in [agent.domain, *agent.related_domains] if domain] if agent else []
    shared = Q(scope_level=ScopeLevel.UNIVERSAL)
    if domains:
        shared |= Q(scope_level=ScopeLevel.DOMAIN, scope_domain__in=domains)
    if not reading.shared_by:
        return own
    return own | (Q(actor_id__in=reading.shared_by) & shared)


def _valid(as_of: datetime | None, now: datetime) -> Q:
    """Return what holds at a time: begun, and not ended."""
    at = as_of or now
    return (Q(valid_from=None) | Q(valid_from__lte=at)) & (Q(valid_to=None) | Q(valid_to__gt=at))


def _best(
    search: MemorySearch, nominees: Sequence[Candidate], limit: int, policy: SearchPolicy, now: datetime
) -> list[FoundMemory]:
    """Return the best of the nominees by score, loaded.

    All nominees are scored by a few numbers of theirs; the rest of a memory is read for the best only.
    """
    ranked = sorted(_scored(nominees, search, policy, now), key=_best_first)[:limit]
    if not ranked:
        return []
    actor_ids = {nominee.actor_id for nominee, _ in ranked}
    rows = Memory.objects.of(actor_ids)
    memories = (rows.with_numbers(actor_ids) if search.details else rows).in_bulk(
        [nominee.owner_id for nominee, _ in ranked]
    )
    return [
        FoundMemory(memories[nominee.owner_id], breakdown)
        for nominee, breakdown in ranked
        if nominee.owner_id in memories
    ]


def _best_first(scored: tuple[Candidate, ScoreBreakdown]) -> tuple[float, float, UUID]:
    nominee, breakdown = scored
    similarity = breakdown.similarity_raw
    return -breakdown.total, 1.0 if similarity is None else -similarity, nominee.owner_id


def _scored(
    nominees: Sequence[Candidate], search: MemorySearch, policy: SearchPolicy, now: datetime
) -> list[tuple[Candidate, ScoreBreakdown]]:
    numbers = _numbers(nominees, search)
    return [
        (nominee, _score(nominee, *numbers[nominee.owner_id], policy, now))
        for nominee in nominees
        if nominee.owner_id in numbers
    ]


def _numbers(nominees: Sequence[Candidate], search: MemorySearch) -> dict[UUID, tuple[float, datetime]]:
    """Return each nominee's strength, in the perspective where that is greater, and when it was last used, or made."""
    keys: dict[str, Any] = {
        "actor_ids": list({nominee.actor_id for nominee in nominees}),
        "memory_ids": [nominee.owner_id for nominee in nominees],
        "space_id": search.query.space_id,
        "perspective": search.perspective,
    }
    with connection.cursor() as cursor:
        cursor.execute(QUERIES["candidate_numbers"], keys)
        return {memory_id: (strength, last_used) for memory_id, strength, last_used in cursor.fetchall()}


def _score(
    nominee: Candidate, strength: float, last_used: datetime, policy: SearchPolicy, now: datetime
) -> ScoreBreakdown:
    return score(
        similarity=nominee.similarity_raw,
        word_score=nominee.word_raw or 0.0,
        relevance=nominee.relevance,
        strength=strength,
        last_used_at=last_used,
        now=now,
        policy=policy,
    )


def index_memory(memory: Memory, entry: IndexEntry, spaces: Sequence[EmbeddingSpace]) -> None:
    """Make a memory findable in the given spaces, in place of what was there; inside the caller's transaction."""
    MemoryIndex.objects.filter(actor_id=memory.actor_id, memory=memory).delete()
    facets = MemoryIndex.repeated(memory)
    MemoryIndex.objects.bulk_create(
        MemoryIndex(actor_id=memory.actor_id, memory=memory, **facets, **entry.row_values(space.id))
        for space in spaces
    )
    after_indexing([entry], memory.actor_id)


def follow_memories(memories: Sequence[Memory]) -> None:
    """Repeat in index and numbers what these memories' rows now say; inside the transaction that changed them."""
    keys = {
        "actor_ids": list({memory.actor_id for memory in memories}),
        "memory_ids": list({memory.pk for memory in memories}),
    }
    with connection.cursor() as cursor:
        cursor.execute(QUERIES["sync_index"], keys)
        cursor.execute(QUERIES["take_off_clock"] + QUERIES["sync_numbers"], keys)
