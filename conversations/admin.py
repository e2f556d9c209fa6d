"""Screens of sessions, messages and receipts: read only, for what was said is not rewritten."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import F
from django.db.models.functions import Left, Length
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import (
    ChoicesDropdownFilter,
    FieldTextFilter,
    RangeDateTimeFilter,
    RelatedDropdownFilter,
)

from conversations.domain.layers import PINNED, RECALL, SEMANTIC, WORKING
from conversations.models import Message, Receipt, Session
from memoryhub.admin.base import ReadOnlyAdmin, UserFilter, as_uuid, excerpt, labelled, link_to, whose
from memoryhub.admin.dashboard import Tile, count

MOST_MESSAGES = 200
LONGEST_SHOWN = 2000
SESSION_FILTER = "session__id__exact"
TRUST_COLOURS = {"trusted": "success", "untrusted": "warning"}
# Where a receipt's sources can be read. Memories live in an app above this one: their page is known by name only.
SOURCE_PAGES = {
    PINNED: "admin:strength_memory_change",
    SEMANTIC: "admin:strength_memory_change",
    RECALL: "admin:conversations_message_change",
    WORKING: "admin:conversations_message_change",
}


@admin.register(Session)
class SessionAdmin(ReadOnlyAdmin):
    """Conversations, each with its messages in order."""

    list_display = (
        "shown_title",
        "channel",
        "owner",
        "message_count",
        "started_at",
        "last_message_at",
        "ended_at",
    )
    list_filter = (
        ("actor__agent", RelatedDropdownFilter),
        UserFilter,
        ("channel", FieldTextFilter),
        ("started_at", RangeDateTimeFilter),
    )
    list_select_related = ("actor",)
    search_fields = ("title", "channel", "actor__user_id")
    fields = (
        ("title", "channel"),
        ("owner", "message_count"),
        ("started_at", "last_message_at", "ended_at"),
        ("id", "metadata"),
    )
    readonly_fields = ("owner",)
    change_form_outer_after_template = "admin/conversations/session/messages.html"

    @admin.display(description=_("title"), ordering="title")
    def shown_title(self, session: Session) -> Any:
        """Return the title; sessions without one are known by their id."""
        return excerpt(session.title, 80) if session.title else str(session.pk)

    @admin.display(description=_("whose"), ordering="actor")
    def owner(self, session: Session) -> str:
        """Return whose conversation it is."""
        return whose(session.actor)

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the first messages, and where the others are."""
        if not request.user.has_perm("conversations.view_message"):
            return {}
        shown = {"opening": Left(F("content"), LONGEST_SHOWN), "length": Length("content")}
        rows = Message.objects.of([row.actor_id]).filter(session_id=row.pk).order_by("seq")
        messages = rows.defer("content", "blocks", "metadata").annotate(**shown)[:MOST_MESSAGES]
        return {
            "conversation": messages,
            "longest_shown": LONGEST_SHOWN,
            "not_shown": max(0, row.message_count - MOST_MESSAGES),
            "all_messages": f"{reverse('admin:conversations_message_changelist')}?{SESSION_FILTER}={row.pk}",
        }


@admin.register(Message)
class MessageAdmin(ReadOnlyAdmin):
    """What was said, newest first; the messages of one session in their order."""

    list_display = (
        "shown_content",
        "role",
        "author",
        "owner",
        "in_session",
        "seq",
        "shown_trust",
        "created_at",
    )
    list_filter = (
        ("role", ChoicesDropdownFilter),
        ("trust", ChoicesDropdownFilter),
        ("actor__agent", RelatedDropdownFilter),
        UserFilter,
        ("created_at", RangeDateTimeFilter),
    )
    list_select_related = ("actor",)
    search_fields = ("content",)
    search_help_text = _("Words of a message, or the id of a message or of a session.")
    id_fields = ("pk", "session_id")
    long_text = "content"
    fields = (
        ("role", "author", "shown_trust"), "whole_content", ("owner", "session", "seq"), ("created_at", "token_count"),
        ("client_message_id", "id"), "blocks", "metadata",
    )  # fmt: skip
    readonly_fields = ("owner", "shown_trust", "whole_content")

    @admin.display(description=_("content"))
    def shown_content(self, message: Any) -> str:
        """Return the message's beginning."""
        return excerpt(message.opening)

    @admin.display(description=_("content"))
    def whole_content(self, message: Message) -> str:
        """Return the whole text as it was written."""
        return format_html('<div dir="auto" style="white-space: pre-wrap">{}</div>', message.content)

    @admin.display(description=_("whose"), ordering="actor")
    def owner(self, message: Message) -> str:
        """Return whose message it is."""
        return whose(message.actor)

    @admin.display(description=_("session"))
    def in_session(self, message: Any) -> str:
        """Return a link to the session."""
        return link_to("admin:conversations_session_change", message.session_id, str(message.session_id)[:13])

    @labelled(TRUST_COLOURS)
    @admin.display(description=_("trust"), ordering="trust")
    def shown_trust(self, message: Message) -> str:
        """Return whether contexts may use it."""
        return message.trust

    def get_ordering(self, request: HttpRequest) -> Sequence[str]:
        """Order one session's messages as they were said, all messages by their ids, which follow time."""
        return ("session", "seq") if SESSION_FILTER in request.GET else ("-id",)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Allow the list of one session's messages."""
        allowed: bool = super().lookup_allowed(lookup, value, request)
        return lookup == SESSION_FILTER or allowed


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


def tiles(now: datetime) -> list[Tile]:
    """Return the figures of the admin's first page."""
    day = Receipt.objects.filter(created_at__gte=now - timedelta(hours=24))
    return [
        Tile(_("Sessions"), count(Session.objects.all()), _("conversations"), Session),
        Tile(_("Messages"), count(Message.objects.all()), _("stored"), Message),
        Tile(_("Contexts"), count(day), _("assembled in the last 24 hours"), Receipt),
    ]
