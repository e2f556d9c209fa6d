"""Semantic search in the list of memories, as the agent itself would search, with the parts of each score."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Case, IntegerField, QuerySet, Value, When
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

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
LONGEST_ASKED: Final = 2_000
LAST_AGENT: Final = "searched_agent"


@dataclass(frozen=True)
class SemanticQuery:
    """A semantic search as the address states it; without an agent there is no memory to search."""

    words: str
    agent_id: str
    user_id: str
    status: str

    @property
    def of_all_users(self) -> bool:
        return not self.user_id


def requested_search(request: HttpRequest) -> SemanticQuery | None:
    """Return the requested semantic search; None for a search by words or id.

    Where no agent is named it is the one that was searched last, or the only one.
    """
    words = request.GET.get("q", "").replace("\x00", "").strip()
    if request.GET.get(BY) != MEANING or not words or as_uuid(words) is not None:
        return None
    if (known := getattr(request, "semantic_query", None)) is not None:
        return known  # type: ignore[no-any-return]
    agent = request.GET.get(AGENT_FILTER, "") or _usual_agent(request)
    user = request.GET.get(USER_FILTER, "").replace("\x00", "")[:MAX_USER_ID]
    status = request.GET.get(STATUS_FILTER, "")
    found = SemanticQuery(
        words[:LONGEST_ASKED],
        agent if AGENT_ID_PATTERN.match(agent) else "",
        user,
        status if status in {*Status} else Status.ACTIVE,
    )
    request.semantic_query = found  # type: ignore[attr-defined]
    return found


def _usual_agent(request: HttpRequest) -> str:
    agents = list(Agent.objects.order_by("pk").values_list("pk", flat=True)[:2])
    last = request.session.get(LAST_AGENT, "")
    if len(agents) == 1:
        return str(agents[0])
    return last if last and Agent.objects.filter(pk=last).exists() else ""


def search_semantically(
    request: HttpRequest, question: SemanticQuery, *, by: Principal, now: datetime
) -> SearchResults:
    """Search as the agent would for a user, or over all its users where none is named, without marking candidates."""
    request.session[LAST_AGENT] = question.agent_id
    tenant = tenant_for_reading(by, question.agent_id, question.user_id)
    search = MemorySearch(
        query=text_query(question.words, payer=tenant.payer), limit=MOST_FOUND,
        filters=MemoryFilters(status=question.status), details=False,
    )  # fmt: skip
    return search_memories(
        tenant=tenant, search=search, by=by, mark=False, now=now, all_users=question.of_all_users
    )


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
        '<span class="font-semibold text-important" title="{}">{}</span>', text, f"{parts.total:.2f}"
    )
