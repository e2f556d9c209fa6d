"""Filters of the review queue in the address, and their labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from memoryhub.tenancy.models import Agent
from strength.actions.review import QueueFilter
from strength.domain.review import Assigned, Item, Order, Sort, parse_item

MAX_AGENTS: Final = 200
SNOOZED: Final = "snoozed"

SORT_LABELS: Final[Mapping[Sort, Any]] = {
    Sort.MEMORY: _("Pending memories"),
    Sort.CORRECTION: _("Replacing memories"),
    Sort.MERGE: _("Pairs to merge"),
}
ORDER_LABELS: Final[Mapping[Order, Any]] = {
    Order.OLDEST: _("Oldest first"),
    Order.WEIGHTIEST: _("Most important first"),
}
ASSIGNED_LABELS: Final[Mapping[Assigned, Any]] = {Assigned.MINE: _("Mine"), Assigned.NO_ONE: _("Not assigned")}


@dataclass(frozen=True)
class ReviewParams:
    queue_filter: QueueFilter
    at: Item | None

    @classmethod
    def of(cls, request: HttpRequest) -> "ReviewParams":
        values = {name: str(text).replace("\x00", "").strip()[:255] for name, text in request.GET.items()}
        sort, order, assigned = values.get("sort"), values.get("order"), values.get("assigned")
        queue_filter = QueueFilter(
            agent_id=values.get("agent", ""),
            user_id=values.get("user", ""),
            sort=Sort(sort) if sort in list(Sort) else None,
            order=Order(order) if order in list(Order) else Order.OLDEST,
            assigned=Assigned(assigned) if assigned in list(Assigned) else None,
            person_id=request.user.pk,
            is_snoozed=values.get("when") == SNOOZED,
        )
        return cls(queue_filter, parse_item(values.get("at", "")))

    @property
    def filter_query(self) -> str:
        """Return the filters as a query string, which identifies a round."""
        queue_filter = self.queue_filter
        order = "" if queue_filter.order is Order.OLDEST else queue_filter.order
        values = {
            "agent": queue_filter.agent_id,
            "user": queue_filter.user_id,
            "sort": queue_filter.sort,
            "order": order,
            "assigned": queue_filter.assigned,
            "when": SNOOZED if queue_filter.is_snoozed else "",
        }
        return urlencode({key: value for key, value in values.items() if value})

    def address(self, at: Item | None = None) -> str:
        query = "&".join(part for part in (self.filter_query, urlencode({"at": str(at)}) if at else "") if part)
        return reverse("review") + (f"?{query}" if query else "")

    def alike_address(self, item: Item) -> str:
        """Return the address of the page that decides a memory and those like it."""
        return reverse("review_alike", args=[item.key]) + (f"?{self.filter_query}" if self.filter_query else "")


def queue_filters(params: ReviewParams, people: Sequence[User]) -> dict[str, Any]:
    queue_filter = params.queue_filter
    return {
        "agents": list(Agent.objects.order_by("pk").values_list("pk", flat=True)[:MAX_AGENTS]),
        "agent": queue_filter.agent_id,
        "user": queue_filter.user_id,
        "sorts": [(str(sort), words, sort is queue_filter.sort) for sort, words in SORT_LABELS.items()],
        "orders": [(str(order), words, order is queue_filter.order) for order, words in ORDER_LABELS.items()],
        "assigned": [(str(each), words, each is queue_filter.assigned) for each, words in ASSIGNED_LABELS.items()]
        if queue_filter.assigned or len(people) > 1
        else [],
        "is_snoozed": queue_filter.is_snoozed,
        "are_set": bool(params.filter_query),
    }
