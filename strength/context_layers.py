"""Context layers of memories: pinned ones, those relevant to the user's message, and the user's profile."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, tzinfo
from typing import Any, Final
from uuid import UUID

from django.db.models import Q

from conversations.actions.context import LayerRequest
from conversations.domain.layers import PINNED, PROFILE, SEMANTIC, Candidate, LayerResult
from conversations.domain.passages import passages
from memoryhub.auth.principals import PrincipalKind, Scope
from memoryhub.db.prepared import PreparedQuery
from memoryhub.zones import local_day
from strength.actions.profiles import profile_entries
from strength.actions.search import MIN_LINE_TOKENS, MemorySearch, pinned_memories, profile_memories, search_memories
from strength.domain.memories import STANDING_KINDS, Kind
from strength.domain.profile import Entry, ProfileMemory
from strength.models import Memory, MemoryRevision, Profile

# Limits the query only; the token budget selects among them, and the receipt lists them.
MAX_PINNED = 1_000

MAX_MEMORY_BYTES: Final = 2_400
"""Per relevant memory, about 600 tokens; of a longer one, the passages that match."""

TOKEN_LENGTH: Final = 4
"""Characters of a token as an exact count has them; the default estimate has fewer."""

APPROVED = PreparedQuery(lambda: MemoryRevision.objects.order_by().values_list("memory_id", flat=True))


def pinned(request: LayerRequest) -> LayerResult:
    if not request.policy.include_pinned:
        return LayerResult()
    rows = pinned_memories(tenant=request.tenant, project=request.project, now=request.now, limit=MAX_PINNED)
    return LayerResult(tuple(_candidate(PINNED, memory, request.zone) for memory in rows))


def semantic(request: LayerRequest) -> LayerResult:
    policy = request.policy
    if not policy.include_semantic_memory:
        return LayerResult()
    search = MemorySearch(
        query=request.query,
        perspective=request.context.perspective,
        project=request.project,
        limit=policy.semantic_memory_limit,
        excludes_pinned=policy.include_pinned,
        relevance_floor=policy.semantic_relevance_floor,
        only_informative=True,
        details=False,
    )
    mark = Scope.WRITE in request.by.scopes and not request.dry_run
    results = search_memories(tenant=request.tenant, search=search, by=request.by, mark=mark, now=request.now)
    candidates = []
    terms = request.query.weights_by_term()
    wishes = _wishes([found.memory for found in results.found], request)
    for found in results.found:
        scores = {name: value for name, value in found.breakdown.as_dict().items() if value is not None}
        candidates.append(
            _candidate(
                SEMANTIC,
                found.memory,
                request.zone,
                is_wish=found.memory.pk in wishes,
                content=passages(found.memory.content, terms, limit=MAX_MEMORY_BYTES),
                relevance=found.breakdown.relevance,
                final_score=found.final_score,
                score_breakdown=scores,
            )
        )
    return LayerResult(tuple(candidates))


def profile(request: LayerRequest) -> LayerResult:
    """Offer what is known about the user, however little the message has to do with it.

    A question for a recommendation shares no word with the liking that answers it.
    """
    policy, tenant = request.policy, request.tenant
    if not policy.include_profile or not tenant.user_id:
        return LayerResult()
    rows = profile_memories(tenant=tenant, project=request.project, now=request.now, policy=policy)
    written, entries = profile_entries(tenant=tenant, memories=rows, project=request.project, now=request.now)
    offered = _probable(entries, policy.profile_tokens)
    return LayerResult(tuple(_of_profile(entry, written, request.zone) for entry in offered))


def _probable(entries: Iterable[Entry], max_tokens: int) -> Iterator[Entry]:
    """Yield the entries that may fit, so that a receipt does not list hundreds more.

    A low estimate of their tokens decides. Lines are no longer than their memories, which follow them.
    """
    left = max_tokens
    for entry in entries:
        if left <= 0:
            return
        yield entry
        tokens = len(entry.text) // TOKEN_LENGTH + MIN_LINE_TOKENS
        left -= tokens if entry.line is None and tokens <= max_tokens else 0


def _of_profile(entry: Entry, written: Profile | None, zone: tzinfo) -> Candidate:
    """Return a memory, or a written line: all that it says holds since the latest of its memories."""
    is_wish = bool(entry.memories) and all(each.kind == Kind.PREFERENCE for each in entry.memories)
    if entry.line is None or written is None:
        memory = entry.memories[0]
        kind = "" if memory.kind in STANDING_KINDS else memory.kind
        return _candidate(PROFILE, memory, zone, is_wish=is_wish, kind=kind, rank=memory.rank)
    return Candidate(
        layer=PROFILE,
        content=entry.text,
        source_id=str(written.pk),
        memory_ids=tuple(str(each.pk) for each in entry.memories),
        created_at=max((_since(each, zone).isoformat() for each in entry.memories), default=""),
        is_wish=is_wish,
        rank=min((each.rank for each in entry.memories), default=0),
    )


def _wishes(memories: Sequence[Memory], request: LayerRequest) -> set[UUID]:
    """Return what is to be honoured: preferences that the user stated, and what a curator approved."""
    own = {each.pk for each in memories if each.kind == Kind.PREFERENCE and each.actor_id == request.tenant.actor_id}
    others = [each for each in memories if each.pk not in own]
    if not others:
        return own
    by_curators = Q(
        actor_id__in={each.actor_id for each in others},
        memory_id__in=[each.pk for each in others],
        verb="approve",
        who_kind=PrincipalKind.CURATOR,
    )
    return own | set(APPROVED.rows(by_curators))


def _candidate(layer: str, memory: Memory | ProfileMemory, zone: tzinfo, **values: Any) -> Candidate:
    return Candidate(
        layer=layer,
        source_id=str(memory.pk),
        created_at=_since(memory, zone).isoformat(),
        **{"content": memory.content, **values},
    )


def _since(memory: Memory | ProfileMemory, zone: tzinfo) -> date:
    return memory.said_on or local_day(memory.valid_from or memory.created_at, zone)
