"""Screens of sessions and messages, read only, and their dashboard tiles."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, reverse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import (
    ChoicesDropdownFilter,
    FieldTextFilter,
    RangeDateTimeFilter,
    RelatedDropdownFilter,
)

from conversations.actions.sessions import end_session
from conversations.admin.timeline import summarise_address, timeline_context
from conversations.domain.messages import TurnState
from conversations.models import ChatTurn, Message, Receipt, Session
from memoryhub.admin.base import (
    OwnedMixin,
    ReadOnlyAdmin,
    UserFilter,
    clock,
    coloured,
    excerpt,
    link_to,
    needs_of,
    principal,
    render_page,
    title_with_time,
    truncated,
)
from memoryhub.admin.dashboard import RECENT, Section, Tile
from memoryhub.admin.object_actions import Done, object_action_urls, run_object_action

SESSION_FILTER = "session__id__exact"
TRUST_COLOURS = {"trusted": "success", "untrusted": "warning"}


@admin.register(Session)
class SessionAdmin(OwnedMixin, ReadOnlyAdmin):
    """Sessions. The page of one is its timeline, for people who may read messages; else the fields alone."""

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

    @admin.display(description=_("title"), ordering="title")
    def shown_title(self, session: Session) -> Any:
        return excerpt(session.title, 80) if session.title else str(session.pk)

    def title_of(self, row: Any) -> str:
        return truncated(row.title) if row.title else title_with_time(row.channel, row.started_at)

    def get_urls(self) -> list[URLPattern]:
        return [
            *object_action_urls(self, {"timeline": self.timeline_view, "end": self.end_view}),
            *super().get_urls(),
        ]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        if request.method == "GET" and _may_read(request):
            return self.timeline_view(request, object_id)
        answer: HttpResponse = super().change_view(request, object_id, form_url, extra_context)
        return answer

    def timeline_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        session: Any = self.get_object(request, object_id)
        if not self.has_view_permission(request, session) or not _may_read(request):
            raise PermissionDenied
        if session is None:
            missing: HttpResponse = self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
            return missing
        return render_page(
            request,
            "admin/conversations/session/timeline.html",
            title=session.title or gettext("Session"),
            opts=self.opts,
            original=session,
            session=session,
            owner=self.owner(session),
            may_end=session.ended_at is None and self.has_end_permission(request),
            summarise=summarise_address(session),
            may_try=request.user.has_perms(needs_of("playground")),
            all_messages=f"{reverse('admin:conversations_message_changelist')}?{SESSION_FILTER}={session.pk}",
            **timeline_context(request, session),
        )

    def has_end_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("conversations.change_session"))

    def end_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """End the session, as its client would; a later message reopens it."""

        def act(session: Session, reason: str) -> Done:
            end_session(session=session, by=principal(request), now=clock())
            return Done(gettext("The session was ended; its follow-up jobs were queued."))

        return run_object_action(
            self, request, object_id, act, may=lambda _session: self.has_end_permission(request), logged="end"
        )


def _may_read(request: HttpRequest) -> bool:
    return bool(request.user.has_perm("conversations.view_message"))


@admin.register(Message)
class MessageAdmin(OwnedMixin, ReadOnlyAdmin):
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
        ("role", "author", "trust"), "whole_content", ("owner", "session", "seq"), ("created_at", "token_count"),
        ("client_message_id", "id"), "blocks", "metadata",
    )  # fmt: skip
    readonly_fields = ("owner", "trust", "whole_content")

    @admin.display(description=_("content"))
    def shown_content(self, message: Any) -> str:
        return excerpt(message.opening)

    @admin.display(description=_("content"))
    def whole_content(self, message: Message) -> str:
        return format_html('<div dir="auto" style="white-space: pre-wrap">{}</div>', message.content)

    @admin.display(description=_("session"))
    def in_session(self, message: Any) -> str:
        return link_to("admin:conversations_session_change", message.session_id, str(message.session_id)[:13])

    @coloured(TRUST_COLOURS)
    @admin.display(description=_("trust"), ordering="trust")
    def shown_trust(self, message: Message) -> tuple[str, str]:
        return message.trust, message.get_trust_display()

    def get_ordering(self, request: HttpRequest) -> Sequence[str]:
        # The ids of all messages follow time.
        return ("session", "seq") if SESSION_FILTER in request.GET else ("-id",)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        allowed: bool = super().lookup_allowed(lookup, value, request)
        return lookup == SESSION_FILTER or allowed


def tiles(now: datetime) -> list[Tile]:
    day = Receipt.objects.filter(created_at__gte=now - timedelta(hours=24))
    broken_off = Q(state=TurnState.ANSWERING, until__lt=now)
    unanswered = ChatTurn.objects.filter(
        Q(state=TurnState.FAILED) | broken_off, created_at__gte=now - timedelta(hours=24)
    )
    sessions, messages = Session.objects.all(), Message.objects.all()
    return [
        Tile(
            _("Sessions"), sessions, _("conversations"), Session,
            recent=sessions.filter(started_at__gte=now - RECENT),
        ),
        Tile(
            _("Messages"), messages, _("stored"), Message,
            recent=messages.filter(created_at__gte=now - RECENT),
        ),
        Tile(
            _("Unanswered"), unanswered, _("questions the model failed in 24 hours"), ChatTurn,
            section=Section.BACKGROUND,
        ),
        Tile(_("Contexts"), day, _("assembled in the last 24 hours"), Receipt),
    ]  # fmt: skip
