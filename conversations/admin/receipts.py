"""Screens of receipts: why a context was what it was."""

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import (
    RangeDateTimeFilter,
    RelatedDropdownFilter,
)

from conversations.domain.layers import PINNED, RECALL, SEMANTIC, SESSION_SUMMARY, WORKING
from conversations.models import Receipt
from memoryhub.admin.base import ReadOnlyAdmin, UserFilter, as_uuid, excerpt, link_to, whose

# Where a receipt's sources can be read. Memories and summaries live above this app: their pages are known by name only.
SOURCE_PAGES = {
    PINNED: "admin:strength_memory_change",
    SEMANTIC: "admin:strength_memory_change",
    RECALL: "admin:conversations_message_change",
    WORKING: "admin:conversations_message_change",
    SESSION_SUMMARY: "admin:summaries_summary_change",
}


@admin.register(Receipt)
class ReceiptAdmin(ReadOnlyAdmin):
    """Why a context was what it was: every candidate, what became of it, and why."""

    list_display = (
        "created_at",
        "shown_query",
        "owner",
        "of_session",
        "candidates",
        "total_tokens",
        "token_limit",
    )
    list_filter = (
        ("actor__agent", RelatedDropdownFilter),
        UserFilter,
        ("created_at", RangeDateTimeFilter),
    )
    list_select_related = ("actor",)
    search_fields = ("query",)
    search_help_text = _(
        "Words of the user's message, or the id of a receipt, a session, a memory or a message."
    )
    id_fields = ("pk", "session_id")
    ordering = ("-id",)
    long_text = "query"
    fields = (("created_at", "owner", "session"), "whole_query", ("total_tokens", "token_limit", "id"))
    readonly_fields = ("owner", "whole_query")
    change_form_outer_after_template = "admin/conversations/receipt/items.html"

    def get_queryset(self, request: HttpRequest) -> Any:
        """Return the receipts; a list leaves out what only a receipt's own page shows."""
        rows = super().get_queryset(request)
        page = request.resolver_match.url_name if request.resolver_match else ""
        return rows.defer("items", "metadata") if page == "conversations_receipt_changelist" else rows

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> Any:
        """Find receipts in which a memory or message was a candidate as well."""
        found, duplicates = super().get_search_results(request, queryset, search_term)
        key = as_uuid(search_term)
        return (found if key is None else found | queryset.filter(source_ids__contains=[key])), duplicates

    @admin.display(description=_("user's message"))
    def shown_query(self, receipt: Any) -> str:
        """Return the message's beginning."""
        return excerpt(receipt.opening, 80)

    @admin.display(description=_("user's message"))
    def whole_query(self, receipt: Receipt) -> str:
        """Return the message that the context was assembled for."""
        return format_html('<div dir="auto" style="white-space: pre-wrap">{}</div>', receipt.query)

    @admin.display(description=_("whose"), ordering="actor")
    def owner(self, receipt: Receipt) -> str:
        """Return whose context it was."""
        return whose(receipt.actor)

    @admin.display(description=_("session"))
    def of_session(self, receipt: Any) -> str:
        """Return a link to the session, where there was one."""
        key = receipt.session_id
        return link_to("admin:conversations_session_change", key, str(key)[:13]) if key else "-"

    @admin.display(description=_("sources"))
    def candidates(self, receipt: Receipt) -> int:
        """Return how many memories and messages were candidates."""
        return len(receipt.source_ids)

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the items, each linked to what it came from, and the figures."""
        share = min(100, round(100 * row.total_tokens / row.token_limit)) if row.token_limit else 0
        return {
            "items": [_shown(item) for item in row.items],
            "included": sum(1 for item in row.items if item.get("included")),
            "figures": sorted(row.metadata.items()),
            "share": share,
        }


def _shown(item: Mapping[str, Any]) -> dict[str, Any]:
    page, key = SOURCE_PAGES.get(item["layer"]), item.get("source_id")
    opening = excerpt(item.get("excerpt"), 160)
    breakdown = item.get("score_breakdown") or {}
    numbers = {name: value for name, value in breakdown.items() if isinstance(value, int | float)}
    return {
        **item,
        "shown": link_to(page, key, opening) if page and key else opening,
        "parts": ", ".join(f"{name} {value:.2f}" for name, value in numbers.items()),
    }
