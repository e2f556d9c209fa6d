"""Screens of sessions and messages: read only, for what was said is not rewritten."""

from collections.abc import Sequence
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

from conversations.models import Message, Session
from memoryhub.admin.base import ReadOnlyAdmin, UserFilter, excerpt, labelled, link_to, whose

MOST_MESSAGES = 200
LONGEST_SHOWN = 2000
SESSION_FILTER = "session__id__exact"
TRUST_COLOURS = {"trusted": "success", "untrusted": "warning"}


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
