"""List of memories: semantic search with the agent's ranking, columns, row buttons, tabs with counts, saved views."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Case, Count, IntegerField, Q, QuerySet, Value, When
from django.http import HttpRequest, QueryDict
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import DropdownFilter
from unfold.views import ChangeList

from memoryhub.admin.base import as_uuid, format_count, truncated
from memoryhub.auth.access import tenant_for_reading
from memoryhub.auth.principals import Principal
from memoryhub.embeddings.spaces import text_query
from memoryhub.tenancy.models import Actor, Agent
from memoryhub.tenancy.policy import AGENT_ID_PATTERN, MAX_USER_ID
from strength.actions.filters import ALL, MemorySelection, page_by_strength, strengths_of
from strength.actions.review_team import plans_of
from strength.actions.search import FoundMemory, MemorySearch, SearchResults, search_memories
from strength.actions.second_review import first_approvals_of
from strength.admin.bulk import LABELS
from strength.admin.labels import STATUS_LABELS
from strength.admin.review_team import plan_context
from strength.domain.memories import Kind, Status
from strength.models import Memory, SavedView
from strength.models.memory import STRENGTH_OF_MEMORY

SEARCH_MODE: Final = "by"
SEMANTIC_MODE: Final = "meaning"
AGENT_FILTER: Final = "actor__agent__agent_id__exact"
USER_FILTER: Final = "user"
STATUS_FILTER: Final = "status__exact"
MAX_RESULTS: Final = 100
MAX_QUERY_LENGTH: Final = 2_000
PINNED_FILTER: Final = "pinned__exact"
KIND_FILTER: Final = "kind__exact"
SUMMARIES_FILTER: Final = "summaries"
SUMMARIES_SHOWN: Final = "shown"
MAX_AGENTS: Final = 200
MAX_OFFERED: Final = 10
"""Agents offered as links where a search by meaning lacks one."""
MAX_USERS: Final = 200
FULL_BAR_STRENGTH: Final = 2.0
"""Strength of a full bar: twice that of a new memory."""


@dataclass(frozen=True)
class SemanticQuery:
    """A semantic search as stated by the URL; without an agent it cannot run."""

    words: str
    agent_id: str
    user_id: str
    status: str

    @property
    def of_all_users(self) -> bool:
        return not self.user_id


def requested_search(request: HttpRequest) -> SemanticQuery | None:
    """Return the requested semantic search; None for a search by words or id.

    The agent defaults to the only one.
    """
    words = request.GET.get("q", "").replace("\x00", "").strip()
    if request.GET.get(SEARCH_MODE) != SEMANTIC_MODE or not words or as_uuid(words) is not None:
        return None
    if (cached := getattr(request, "semantic_query", None)) is not None:
        return cached  # type: ignore[no-any-return]
    agent = request.GET.get(AGENT_FILTER, "") or _only_agent()
    user = request.GET.get(USER_FILTER, "").replace("\x00", "")[:MAX_USER_ID]
    status = request.GET.get(STATUS_FILTER, "")
    query = SemanticQuery(
        words[:MAX_QUERY_LENGTH],
        agent if AGENT_ID_PATTERN.match(agent) else "",
        user,
        status if status in {*Status} else Status.ACTIVE,
    )
    request.semantic_query = query  # type: ignore[attr-defined]
    return query


def _only_agent() -> str:
    agents = list(Agent.objects.order_by("pk").values_list("pk", flat=True)[:2])
    return str(agents[0]) if len(agents) == 1 else ""


def search_semantically(request: HttpRequest, query: SemanticQuery, *, by: Principal, now: datetime) -> SearchResults:
    """Search as the agent would for a user, or over all its users, without marking candidates."""
    tenant = tenant_for_reading(by, query.agent_id, query.user_id)
    search = MemorySearch(
        query=text_query(query.words, payer=tenant.payer),
        limit=MAX_RESULTS,
        filters=MemorySelection(status=query.status),
        respells=True,
        details=False,
    )
    return search_memories(tenant=tenant, search=search, by=by, mark=False, now=now, all_users=query.of_all_users)


def order_by_results(rows: QuerySet[Memory], results: SearchResults) -> QuerySet[Memory]:
    """Narrow rows to the results, in their order."""
    keys = [hit.memory.pk for hit in results.found]
    if not keys:
        return rows.none()
    cases = [When(pk=key, then=Value(position)) for position, key in enumerate(keys)]
    position = Case(*cases, default=Value(len(cases)), output_field=IntegerField())
    return rows.filter(pk__in=keys).order_by(position, "pk")


def score_cell(hit: FoundMemory | None) -> str | SafeString:
    if hit is None:
        return ""
    parts = hit.breakdown
    text = gettext("relevance %(relevance).2f → %(weighted).2f, strength %(strength).2f, recency %(recency).2f") % {
        "relevance": parts.relevance,
        "weighted": parts.similarity_weighted,
        "strength": parts.strength_weighted,
        "recency": parts.recency_weighted,
    }
    return format_html('<span class="font-semibold text-important" title="{}">{}</span>', text, f"{parts.total:.2f}")


TABS: Final[tuple[tuple[str, dict[str, Any], Any], ...]] = (
    ("", {}, _("All")),
    (Status.ACTIVE, {STATUS_FILTER: Status.ACTIVE}, _("Active")),
    (Status.PENDING, {STATUS_FILTER: Status.PENDING}, _("Pending")),
    (Status.ARCHIVED, {STATUS_FILTER: Status.ARCHIVED}, _("Archived")),
    (Status.REJECTED, {STATUS_FILTER: Status.REJECTED}, _("Rejected")),
    ("pinned", {PINNED_FILTER: "1"}, _("Pinned")),
)
ROW_VERBS: Final = {
    Status.ACTIVE: ("archive",),
    Status.PENDING: ("approve", "reject"),
    Status.ARCHIVED: ("reactivate",),
    Status.REJECTED: (),
}
ROW_KEYS: Final = {"archive": "v", "reactivate": "v", "approve": "a", "reject": "r", "pin": "p", "unpin": "p"}
SHORT_LABELS: Final = {**LABELS, "reject": _("Reject")}


class SummariesFilter(DropdownFilter):
    """Hides summaries of conversations unless they are requested."""

    title = _("summaries")
    parameter_name = SUMMARIES_FILTER
    all_option = ("", _("Hidden"))

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [(SUMMARIES_SHOWN, _("Shown"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset if shows_summaries(request) else queryset.exclude(kind=Kind.SUMMARY)


def shows_summaries(request: HttpRequest) -> bool:
    """Return whether summaries are requested: by the filter, their kind, an id, or a semantic search."""
    values = request.GET
    is_id = as_uuid(values.get("q", "")) is not None
    by_meaning = requested_search(request) is not None
    return values.get(SUMMARIES_FILTER) == SUMMARIES_SHOWN or bool(values.get(KIND_FILTER)) or is_id or by_meaning


class MemoryList(ChangeList):
    """Change list with tabs, filter chips and saved views; rows carry scores and permissions."""

    result_list: Any

    def get_filters_params(self, params: Any = None) -> Any:
        remaining = super().get_filters_params(params)
        remaining.pop(SEARCH_MODE, None)
        return remaining

    def get_filters(self, request: HttpRequest) -> Any:
        """Return the filters; in a semantic search agent and user select its scope and do not filter the results.

        Results include memories that the agent shares with a user, and other agents with it.
        """
        filters = super().get_filters(request)
        query = requested_search(request)
        if query is not None and query.agent_id:
            for list_filter in filters[0]:
                if {AGENT_FILTER, USER_FILTER} & set(list_filter.expected_parameters()):
                    list_filter.queryset = lambda request, rows: rows
        return filters

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if self.multi_page and not self.show_all:
            self.result_list = self._page_by_strength(request) or self.result_list
        results: SearchResults | None = getattr(request, "meaning", None)
        hits = {hit.memory.pk: hit for hit in results.found} if results else {}
        may_change = self.model_admin.has_change_permission(request)
        pending = [row for row in self.result_list if row.status == Status.PENDING]
        plans, approvals = (plans_of(pending), first_approvals_of(pending)) if pending else ({}, {})
        for row in self.result_list:
            row.found, row.may_change, row.plan = hits.get(row.pk), may_change, plans.get(row.pk)
            row.first_approver = approvals.get(row.pk, "")

    def _page_by_strength(self, request: HttpRequest) -> QuerySet[Any] | None:
        """Return the page of a list ordered by strength alone; None for other orders and semantic searches."""
        ordering = self.queryset.query.order_by
        expression: Any = ordering[0] if len(ordering) == 2 and ordering[1] == "-id" else None
        if getattr(expression, "expression", None) != STRENGTH_OF_MEMORY or hasattr(request, "meaning"):
            return None
        names = {"agent_id": request.GET.get(AGENT_FILTER), "user_id": request.GET.get(USER_FILTER)}
        actors = Actor.objects.filter(**{name: value for name, value in names.items() if value})
        owner = Q(actor__in=list(actors.values_list("pk", flat=True))) if any(names.values()) else Q()
        strengths = strengths_of(owner, request.GET.get(STATUS_FILTER, ALL))
        sign = "-" if expression.descending else ""
        return page_by_strength(
            self.queryset,
            strengths.order_by(f"{sign}strength_now", "-memory_id"),
            limit=self.list_per_page,
            offset=(self.page_num - 1) * self.list_per_page,
        )

    @property
    def searched_by(self) -> str:
        return SEMANTIC_MODE if self.params.get(SEARCH_MODE) == SEMANTIC_MODE else "words"

    @property
    def kept_params(self) -> list[tuple[str, str]]:
        """Return the filters that a new search keeps; agent and user are fields of its form."""
        own = ("q", SEARCH_MODE, AGENT_FILTER, USER_FILTER)
        return [
            (name, value)
            for name, values in self.filter_params.items()
            for value in values
            if name not in own and value
        ]


def list_context(request: HttpRequest, changelist: MemoryList) -> dict[str, Any]:
    query = requested_search(request)
    results: SearchResults | None = getattr(request, "meaning", None)
    agent, user = request.GET.get(AGENT_FILTER, ""), request.GET.get(USER_FILTER, "")
    params = request.GET.copy()
    for name in ("p", "o", "e"):
        params.pop(name, None)
    agents = list(Agent.objects.order_by("pk").values_list("pk", flat=True)[:MAX_AGENTS])
    return {
        "tabs": list(_tabs(request, changelist)),
        "chips": list(_filter_chips(request, changelist)),
        "hides_summaries": not shows_summaries(request),
        "show_summaries": changelist.get_query_string({SUMMARIES_FILTER: SUMMARIES_SHOWN}, ["p"]),
        "search": query,
        "search_status": STATUS_LABELS[query.status] if query is not None else "",
        "meaning": results,
        "compares_spellings": query is not None and settings.EMBEDDING.provider == "hashing",
        "is_cut": results is not None and len(results.found) >= MAX_RESULTS,
        "agent": agent,
        "user": user,
        "agent_filter": AGENT_FILTER,
        "offered": [
            (agent, changelist.get_query_string({AGENT_FILTER: agent}, ["p"])) for agent in agents[:MAX_OFFERED]
        ],
        "agents": agents,
        "users": _user_ids(agent),
        "problem": _unknown_owner(agent, user),
        "views": list(SavedView.objects.filter(person_id=request.user.pk)),
        "view_query": params.urlencode(),
    }


def _user_ids(agent: str) -> list[str]:
    if not AGENT_ID_PATTERN.match(agent):
        return []
    rows = Actor.objects.filter(agent_id=agent).exclude(user_id="").order_by("user_id")
    return list(rows.values_list("user_id", flat=True)[:MAX_USERS])


def _unknown_owner(agent: str, user: str) -> str:
    """Return an error for an unknown agent or user, as the list would only look empty."""
    if agent and not (AGENT_ID_PATTERN.match(agent) and Agent.objects.filter(pk=agent).exists()):
        return gettext("There is no agent “%(agent)s”.") % {"agent": truncated(agent)}
    user = user.replace("\x00", "")
    if not user:
        return ""
    actors = Actor.objects.filter(user_id=user)
    if agent and not actors.filter(agent_id=agent).exists():
        return gettext("%(agent)s has no user “%(user)s”.") % {"agent": agent, "user": truncated(user)}
    if not actors.exists():
        return gettext("There is no user “%(user)s”.") % {"user": truncated(user)}
    return ""


def _tabs(request: HttpRequest, changelist: MemoryList) -> Iterator[dict[str, Any]]:
    """Yield the status tabs with counts under the other filters; searches have no counts."""
    counts = None if changelist.query else _tab_counts(request, changelist)
    chosen = {name: request.GET[name] for name in (STATUS_FILTER, PINNED_FILTER) if request.GET.get(name)}
    if not chosen and hasattr(request, "meaning"):  # it finds active memories, unless another status is chosen
        chosen = {STATUS_FILTER: str(Status.ACTIVE)}
    for name, params, title in TABS:
        yield {
            "title": title,
            "href": changelist.get_query_string(
                {key: str(value) for key, value in params.items()}, [STATUS_FILTER, PINNED_FILTER, "p"]
            ),
            "count": None if counts is None else format_count(counts.get(name, 0)),
            "is_chosen": chosen == {key: str(value) for key, value in params.items()},
        }


def _tab_counts(request: HttpRequest, changelist: MemoryList) -> dict[str, int]:
    rows = Memory.objects.order_by()
    for spec in changelist.filter_specs:
        if not {STATUS_FILTER, PINNED_FILTER} & set(spec.expected_parameters()):
            narrowed = spec.queryset(request, rows)
            rows = rows if narrowed is None else narrowed
    counts: dict[str, int] = dict(rows.values_list("status").annotate(number=Count("pk")))
    return {"": sum(counts.values()), "pinned": rows.filter(pinned=True).count(), **counts}


def _filter_chips(request: HttpRequest, changelist: MemoryList) -> Iterator[dict[str, Any]]:
    """Yield each active filter with its label and the URL without it; tabs show the status."""
    if changelist.query:
        yield {
            "text": gettext("“%(words)s”") % {"words": truncated(changelist.query, 40)},
            "href": changelist.get_query_string({}, ["q", SEARCH_MODE, "p"]),
        }
    for spec in changelist.filter_specs:
        names = [name for name in spec.expected_parameters() if request.GET.get(name)]
        if not names or {STATUS_FILTER, PINNED_FILTER} & set(names):
            continue
        values = [value for name in names for value in request.GET.getlist(name) if value]
        title = gettext("%(name)s: %(value)s") % {
            "name": spec.title,
            "value": truncated(" ".join(_value_label(spec, value) for value in values), 60),
        }
        yield {"text": title, "href": changelist.get_query_string({}, [*names, "p"])}


def _value_label(spec: Any, value: str) -> str:
    choices = getattr(getattr(spec, "field", None), "flatchoices", ()) or getattr(spec, "lookup_choices", ())
    return str(dict(choices).get(value, value))


# Columns


def owner_chips(memory: Any) -> SafeString:
    """Return agent and user as links that filter the list."""
    actor = memory.actor
    agent = _chip({AGENT_FILTER: actor.agent_id}, actor.agent_id, "")
    if not actor.user_id:
        return agent
    user = _chip({AGENT_FILTER: actor.agent_id, USER_FILTER: actor.user_id}, actor.user_id, " hub-chip-user")
    return format_html("{} {}", agent, user)


def _chip(params: dict[str, str], text: str, style: str) -> SafeString:
    return format_html(
        '<a class="hub-chip{}" href="?{}" title="{}"><bdi>{}</bdi></a>',
        style,
        urlencode(params),
        text,
        truncated(text, 24),
    )


def state_chip(memory: Any) -> str | SafeString:
    """Return the status, with day and person of the review; empty for active memories."""
    if memory.status == Status.ACTIVE:
        return ""
    plan = plan_context(getattr(memory, "plan", None), memory)
    texts = [STATUS_LABELS[memory.status]]
    if until := plan["snoozed_until"]:
        texts.append(gettext("Put off until %(snoozed_until)s") % {"snoozed_until": until})
    if name := getattr(memory, "first_approver", ""):
        texts.append(gettext("Approved by %(name)s, needs one more") % {"name": name})
    if name := plan["assigned_name"]:
        texts.append(gettext("Assigned to %(assigned_name)s") % {"assigned_name": name})
    chips = [(memory.status, text) for text in texts]
    return format_html_join("", '<span class="hub-state hub-state-{}">{}</span> ', chips)


def strength_bar(strength: float) -> SafeString:
    width = round(100 * min(1.0, strength / FULL_BAR_STRENGTH))
    return format_html(
        '<span class="hub-strength"><svg class="hub-meter" aria-hidden="true"><rect width="{}%" height="6"/></svg> '
        "{}</span>",
        width,
        f"{strength:.2f}",
    )


def row_buttons(memory: Any) -> SafeString:
    """Return the buttons of a memory's transitions, for users who may change it."""
    verbs = ROW_VERBS[Status(memory.status)] if memory.may_change else ()
    buttons = format_html_join("", "{}", ((row_button(memory, verb),) for verb in verbs))
    return format_html('<span id="row-{}" class="memory-row">{}</span>', memory.pk, buttons)


def edit_link(memory: Any) -> SafeString:
    """Return a link to the page of a memory with its text open."""
    address = reverse("admin:strength_memory_change", args=[memory.pk])
    name = gettext("%(verb)s: %(text)s") % {"verb": gettext("Edit"), "text": memory.opening[:60]}
    return format_html(
        '<a href="{}?text=whole#edit" aria-label="{}" data-key="e" class="row-button">{}</a>',
        address,
        name,
        gettext("Edit"),
    )


def pin_button(memory: Any) -> str | SafeString:
    """Return the pin button; a read-only label without permission."""
    if not memory.may_change or memory.status != Status.ACTIVE:
        return gettext("pinned") if memory.pinned else ""
    return row_button(memory, "unpin" if memory.pinned else "pin")


def row_button(memory: Any, verb: str) -> SafeString:
    address = f"{reverse('admin:strength_memory_curate', args=[memory.pk])}?version={memory.version}"
    label: Any = SHORT_LABELS[verb]
    face, pressed, key = label, "", ROW_KEYS.get(verb, "")
    if verb in ("pin", "unpin"):
        label = LABELS["pin"]  # a toggle with aria-pressed keeps its name
        star = "\N{BLACK STAR}" if memory.pinned else "\N{WHITE STAR}"
        face = format_html('<span aria-hidden="true">{}</span>', star)
        pressed = format_html(' aria-pressed="{}"', "true" if memory.pinned else "false")
    name = gettext("%(verb)s: %(text)s") % {"verb": label, "text": memory.opening[:60]}
    return format_html(
        '<button type="submit" form="row-form" formaction="{}" name="verb" value="{}" aria-label="{}" title="{}"{} '
        'data-key="{}" class="row-button">{}</button>',
        address,
        verb,
        name,
        LABELS[verb],
        pressed,
        key,
        face,
    )


def saved_query(text: str) -> str:
    """Return a query string of this list without page, ordering and error parameters."""
    query = QueryDict(text[:4000].replace("%00", ""), mutable=True)
    for name in ("p", "o", "e", "all"):
        query.pop(name, None)
    return query.urlencode()
