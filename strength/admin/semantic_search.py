"""Semantic search in the list of memories, as the agent itself would search, with the parts of each score."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Case, IntegerField, QuerySet, Value, When
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from unfold.views import ChangeList

from memoryhub.admin.base import as_uuid
from memoryhub.auth.domain import Principal
from memoryhub.auth.tenancy import tenant_for_reading
from memoryhub.embeddings.spaces import text_query
from memoryhub.tenancy.domain import AGENT_ID_PATTERN, MAX_USER_ID
from memoryhub.tenancy.models import Agent
from strength.actions.search import FoundMemory, MemoryFilters, MemorySearch, SearchResults, search_memories
from strength.domain.memories import Status
from strength.models import Memory

BY: Final = "by"
MEANING: Final = "meaning"
AGENT_FILTER: Final = "actor__agent__agent_id__exact"
USER_FILTER: Final = "user"
STATUS_FILTER: Final = "status__exact"
MOST_FOUND: Final = 100
MOST_AGENTS: Final = 200
LONGEST_ASKED: Final = 2_000


@dataclass(frozen=True)
class SemanticQuery:
    """A semantic search as the address states it; without an agent there is no memory to search."""

    words: str
    agent_id: str
    user_id: str
    status: str


def requested_search(request: HttpRequest) -> SemanticQuery | None:
    """Return the requested semantic search; None for a search by words or id."""
    words = request.GET.get("q", "").replace("\x00", "").strip()
    if request.GET.get(BY) != MEANING or not words or as_uuid(words) is not None:
        return None
    agent = request.GET.get(AGENT_FILTER, "")
    user = request.GET.get(USER_FILTER, "").replace("\x00", "")[:MAX_USER_ID]
    status = request.GET.get(STATUS_FILTER, "")
    return SemanticQuery(
        words[:LONGEST_ASKED],
        agent if AGENT_ID_PATTERN.match(agent) else "",
        user,
        status if status in {*Status} else Status.ACTIVE,
    )


def search_semantically(question: SemanticQuery, *, by: Principal, now: datetime) -> SearchResults:
    """Search one memory as its agent would, without marking candidates."""
    tenant = tenant_for_reading(by, question.agent_id, question.user_id)
    search = MemorySearch(
        query=text_query(question.words, payer=tenant.payer), limit=MOST_FOUND,
        filters=MemoryFilters(status=question.status), details=False,
    )  # fmt: skip
    return search_memories(tenant=tenant, search=search, by=by, mark=False, now=now)


def best_first(rows: QuerySet[Memory], meaning: SearchResults) -> QuerySet[Memory]:
    """Narrow rows to the results, in their order."""
    keys = [each.memory.pk for each in meaning.found]
    if not keys:
        return rows.none()
    places = [When(pk=key, then=Value(place)) for place, key in enumerate(keys)]
    place = Case(*places, default=Value(len(places)), output_field=IntegerField())
    return rows.filter(pk__in=keys).order_by(place, "pk")


def shown_score(found: FoundMemory | None) -> str | SafeString:
    if found is None:
        return ""
    parts = found.breakdown
    text = gettext(
        "relevance %(relevance).2f → %(weighted).2f, strength %(strength).2f, recency %(recency).2f"
    ) % {
        "relevance": parts.relevance,
        "weighted": parts.similarity_weighted,
        "strength": parts.strength_weighted,
        "recency": parts.recency_weighted,
    }
    return format_html(
        '<span class="font-semibold text-important">{}</span> <span class="text-xs">{}</span>',
        f"{parts.total:.2f}",
        text,
    )


class MemoryList(ChangeList):
    """A change list that keeps the search mode, and annotates rows with scores and permissions."""

    def get_filters_params(self, params: Any = None) -> Any:
        wanted = super().get_filters_params(params)
        wanted.pop(BY, None)
        return wanted

    def get_filters(self, request: HttpRequest) -> Any:
        """Return the filters; in a semantic search agent and user say whose it is, and do not filter its results.

        It finds what an agent shares with a user, and others with the agent.
        """
        filters = super().get_filters(request)
        question = requested_search(request)
        if question is not None and question.agent_id:
            for each in filters[0]:
                if {AGENT_FILTER, USER_FILTER} & set(each.expected_parameters()):
                    each.queryset = lambda request, rows: rows
        return filters

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        meaning: SearchResults | None = getattr(request, "meaning", None)
        found = {each.memory.pk: each for each in meaning.found} if meaning else {}
        may_change = self.model_admin.has_change_permission(request)
        for row in self.result_list:
            row.found, row.may_change = found.get(row.pk), may_change

    @property
    def searched_by(self) -> str:
        return MEANING if self.params.get(BY) == MEANING else "words"


def search_context(request: HttpRequest) -> dict[str, Any]:
    question = requested_search(request)
    meaning: SearchResults | None = getattr(request, "meaning", None)
    if question is None:
        return {}
    rest = [
        (name, value) for name, value in request.GET.items() if name not in (AGENT_FILTER, USER_FILTER, "p")
    ]
    return {
        "asked": question,
        "meaning": meaning,
        "is_cut": meaning is not None and len(meaning.found) >= MOST_FOUND,
        "asked_rest": rest,
        "agent_filter": AGENT_FILTER,
        "agents": [] if meaning else list(Agent.objects.values_list("agent_id", flat=True)[:MOST_AGENTS]),
    }
