"""Read-only screens of sessions, messages, receipts and chat turns, and their dashboard tiles."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from conversations.actions.context import EMBEDDER, ROUTING
from conversations.actions.sessions import end_session
from conversations.admin.context_breakdown import LAYER_LABELS, candidate_groups, project_label, token_budget
from conversations.admin.forgetting import delete_chosen, delete_from_session, may_forget, may_read
from conversations.admin.timeline import summarise_url, timeline_context, tool_lines
from conversations.domain.messages import TurnState
from conversations.domain.routing import UNNAMED
from conversations.models import ChatTurn, Message, Receipt, Session
from memoryhub.admin.base import (
    EXCERPT_SOURCE_LENGTH,
    MAX_TITLE_LENGTH,
    OwnedMixin,
    ReadOnlyAdmin,
    as_uuid,
    clock,
    excerpt,
    format_count,
    link_to,
    principal,
    render_page,
    short_time,
    title_with_time,
    truncated,
)
from memoryhub.admin.columns import (
    UserFilter,
    choice_filter,
    column,
    full_time,
    id_chip,
    label_displays,
    since_query,
    whole_text,
)
from memoryhub.admin.dashboard import RECENT, Section, Tile
from memoryhub.admin.labels import TRUST_COLOURS, principal_label, row_labels
from memoryhub.admin.object_actions import NEXT, Change, DecisionAdmin, Done, change_url, object_action, row_page
from memoryhub.auth.models import AuditEntry
from memoryhub.auth.principals import PrincipalKind
from memoryhub.unfold import needs_of

SESSION_FILTER = "session__id__exact"


@admin.register(Session)
class SessionAdmin(OwnedMixin, DecisionAdmin):
    """Sessions. The page of one is its timeline, for people who may read messages; else the fields alone."""

    empty_hint = _("Programs open sessions by the API; “Imports” brings in conversations from elsewhere.")
    list_display = ("shown_title", "channel", "owner", "shown_count", "started_at", "last_message_at", "ended_at")
    list_filter = ("actor__agent", UserFilter, "channel", "started_at")
    list_select_related = ("actor",)
    search_fields = ("title", "channel", "actor__user_id")
    search_help_text = _("Words of a title, a channel, a user, or the id of a session.")
    fields = (
        ("title", "channel"),
        ("owner", "shown_count"),
        ("started_at", "last_message_at", "ended_at"),
        ("id", "metadata"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Session]:
        rows: QuerySet[Session] = super().get_queryset(request)
        if not may_read(request):
            return rows
        own = Message.objects.filter(actor_id=OuterRef("actor_id"), session_id=OuterRef("pk")).current()
        first = own.order_by("seq").values(start=Left("content", EXCERPT_SOURCE_LENGTH))[:1]
        return rows.annotate(opening=Subquery(first))

    shown_count = column(_("message count"), lambda session: format_count(session.stored), ordering="message_count")

    def prepare_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        stored = _stored_after_deletions(rows)
        for row in rows:
            row.stored = stored.get(row.pk, row.message_count)

    @admin.display(description=_("title"), ordering="title")
    def shown_title(self, session: Any) -> str:
        """Return the title; without one the first current message, for who may read it, else channel and time."""
        return excerpt(self.label_of(session), MAX_TITLE_LENGTH)

    def title_of(self, row: Any) -> str:
        if words := row.title or getattr(row, "opening", None):
            return truncated(words)
        return gettext("%(what)s, %(time)s") % {"what": row.channel, "time": short_time(row.started_at)}

    def label_of(self, row: Any) -> str:
        words = row.title or getattr(row, "opening", None)
        return truncated(words, EXCERPT_SOURCE_LENGTH) if words else self.title_of(row)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        if request.method == "GET" and may_read(request):
            return self.timeline_view(request, object_id)
        answer: HttpResponse = super().change_view(request, object_id, form_url, extra_context)
        return answer

    @row_page
    def timeline_view(self, request: HttpRequest, session: Any) -> HttpResponse:
        if not may_read(request):
            raise PermissionDenied
        return render_page(
            request,
            "admin/conversations/session/timeline.html",
            title=session.page_title,
            opts=self.opts,
            original=session,
            session=session,
            message_count=_stored_after_deletions([session]).get(session.pk, session.message_count),
            owner=self.owner(session),
            may_end=session.ended_at is None and self.has_decide_permission(request),
            ended_by=_ended_by(session),
            summarise=summarise_url(session),
            may_forget=may_forget(request),
            may_try=request.user.has_perms(needs_of("playground")),
            may_instruct=request.user.has_perms(needs_of("instructions")),
            all_messages=f"{reverse('admin:conversations_message_changelist')}?{SESSION_FILTER}={session.pk}",
            **timeline_context(request, session),
        )

    @row_page
    def forget_view(self, request: HttpRequest, session: Session) -> HttpResponse:
        return delete_from_session(self, request, session)

    @object_action()
    def end_view(self, request: HttpRequest, session: Session, change: Change) -> Done:
        """End the session, as its client would; a later message reopens it."""
        end_session(session=session, by=principal(request), now=clock())
        return Done(gettext("The session was ended; its follow-up jobs were queued."))


def _stored_after_deletions(sessions: Iterable[Session]) -> dict[UUID, int]:
    """Return how many messages are left in those sessions that lost some; the others have as many as were numbered."""
    thinned = [session for session in sessions if session.deletions]
    rows = Message.objects.of([session.actor_id for session in thinned]).filter(session_id__in=[s.pk for s in thinned])
    counted = dict(rows.values_list("session_id").annotate(Count("pk"))) if thinned else {}
    return {session.pk: counted.get(session.pk, 0) for session in thinned}


def _ended_by(session: Session) -> str:
    """Return who ended a session, or since when it was idle if a job ended it."""
    if session.ended_at is None:
        return ""
    ends = AuditEntry.objects.filter(object_kind="session", object_id=str(session.pk), verb="end")
    entry = ends.order_by("-at", "-id").first()
    if entry is not None and entry.who_kind != PrincipalKind.JOB:
        return format_html(gettext("by {who}"), who=principal_label(entry.who_name, entry.who_kind))
    since = full_time(session.last_message_at or session.started_at)
    return gettext("automatically, idle since %(time)s") % {"time": since}


class OfSessionMixin:
    """Column with the session that a row belongs to, by its name."""

    def prepare_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        labels = row_labels(request, ((Session, row.session_id) for row in rows))
        for row in rows:
            row.session_words = labels.get((Session, str(row.session_id)), str(row.session_id)[:13])

    @admin.display(description=_("session"))
    def of_session(self, row: Any) -> str:
        if row.session_id is None:
            return "-"
        return link_to(
            "admin:conversations_session_change", row.session_id, excerpt(row.session_words, MAX_NAME_LENGTH)
        )


@admin.register(Message)
class MessageAdmin(OfSessionMixin, OwnedMixin, ReadOnlyAdmin):
    list_display = ("shown_content", "role", "shown_author", "owner", "of_session", "seq", "shown_trust", "created_at")
    list_filter = ("role", "trust", "actor__agent", UserFilter, "created_at")
    list_select_related = ("actor",)
    search_fields = ("content",)
    search_help_text = _("Words of a message, or the id of a message or of a session.")
    id_fields = ("pk", "session_id")
    long_text = "content"
    actions = ("forget_chosen",)
    change_form_outer_after_template = "admin/conversations/message/delete.html"
    fields = (
        ("role", "author", "trust"),
        "whole_content",
        ("owner", "of_session", "seq"),
        ("created_at", "abandoned_at", "token_count"),
        ("client_message_id", "id"),
        "shown_blocks",
        "metadata",
    )

    shown_content = column(_("content"), lambda message: excerpt(message.opening))
    shown_author = column(
        _("author"), lambda message: id_chip(message.author) if message.author else "", ordering="author"
    )
    whole_content = column(_("content"), lambda message: whole_text(message.content))

    def has_forget_permission(self, request: HttpRequest) -> bool:
        return may_forget(request)

    @admin.action(description=_("Delete the chosen messages…"), permissions=["forget"])
    def forget_chosen(self, request: HttpRequest, queryset: QuerySet[Message]) -> HttpResponse | None:
        return delete_chosen(self, request, queryset)

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        if not (may_forget(request) and request.user.has_perm("conversations.view_session")):
            return {}
        address = reverse("admin:conversations_session_forget", args=[row.session_id])
        return {"delete_address": f"{address}?{urlencode({ACTION_CHECKBOX_NAME: row.pk, NEXT: change_url(row)})}"}

    @admin.display(description=_("blocks"))
    def shown_blocks(self, message: Message) -> str:
        """Show the blocks without the bytes of images."""
        blocks = [{**block, "data": "…"} if "data" in block else block for block in message.blocks or []]
        return whole_text(json.dumps(blocks, ensure_ascii=False, indent=2)) if blocks else "-"

    shown_trust = column(
        _("trust"),
        lambda message: (message.trust, message.get_trust_display()),
        ordering="trust",
        colours=TRUST_COLOURS,
    )

    def get_ordering(self, request: HttpRequest) -> Sequence[str]:
        # Message ids are ordered by time (UUIDv7).
        return ("session", "seq") if SESSION_FILTER in request.GET else ("-id",)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        allowed: bool = super().lookup_allowed(lookup, value, request)
        return lookup == SESSION_FILTER or allowed


def unanswered_turns(turns: QuerySet[ChatTurn], now: datetime) -> QuerySet[ChatTurn]:
    """Filter by turns that failed or were broken off."""
    return turns.filter(Q(state=TurnState.FAILED) | Q(state=TurnState.ANSWERING, until__lt=now))


def session_panel(now: datetime) -> list[Tile]:
    since = now - timedelta(hours=24)
    unanswered = unanswered_turns(ChatTurn.objects.filter(created_at__gte=since), now)
    sessions, said, contexts = Session.objects.all(), Message.objects.all(), Receipt.objects.all()
    return [
        Tile(
            _("Conversations"), sessions, _("sessions"), Session, recent=sessions.filter(started_at__gte=now - RECENT)
        ),
        Tile(_("Messages"), said, _("stored"), Message, recent=said.filter(created_at__gte=now - RECENT)),
        Tile(
            _("Unanswered"),
            unanswered,
            _("questions the model failed in 24 hours"),
            ChatTurn,
            f"?answer=missing&{since_query('created_at', since)}",
            section=Section.BACKGROUND,
        ),
        Tile(_("Receipts"), contexts, _("of contexts"), Receipt, recent=contexts.filter(created_at__gte=now - RECENT)),
    ]


COMPONENT_LABELS: Final = {**LAYER_LABELS, EMBEDDER: _("Embedder"), ROUTING: _("Routing")}


def _receipt_figures(metadata: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return labels and values of a receipt's metadata that the tables of its page do not show."""
    figures = []
    if (latency_ms := metadata.get("assembly_latency_ms")) is not None:
        figures.append((gettext("Assembled in"), f"{latency_ms:,.0f} ms"))
    if (exact := metadata.get("exact_tokens")) is not None:
        figures.append((gettext("Tokens as the provider counts them"), f"{exact:,}"))
    if "project" in metadata:
        figures.append((gettext("Project"), metadata["project"] or gettext("none")))
    if (is_shortened := metadata.get("compression_applied")) is not None:
        figures.append((gettext("Shortened to fit the limit"), gettext("yes") if is_shortened else gettext("no")))
    if (degraded := metadata.get("degraded")) is not None:
        missing = [str(COMPONENT_LABELS.get(name, name)) for name in degraded]
        figures.append((gettext("Unavailable"), ", ".join(missing) or gettext("none")))
    return figures


@admin.register(Receipt)
class ReceiptAdmin(OfSessionMixin, OwnedMixin, ReadOnlyAdmin):
    empty_hint = _("Each context that a program fetches leaves a receipt. The playground shows one without a program.")
    list_display = ("created_at", "shown_query", "owner", "of_session", "candidates", "total_tokens", "token_limit")
    list_filter = ("actor__agent", UserFilter, "created_at")
    list_select_related = ("actor",)
    search_fields = ("query",)
    search_help_text = _("Words of the user's message, or the id of a receipt, a session, a memory or a message.")
    id_fields = ("pk", "session_id")
    ordering = ("-id",)
    long_text = "query"
    fields = ("whole_query", ("created_at", "owner"), ("of_session", "id"))
    change_form_outer_after_template = "admin/conversations/receipt/items.html"

    def title_of(self, row: Any) -> str:
        return title_with_time(self.opts.verbose_name, row.created_at)

    def get_queryset(self, request: HttpRequest) -> Any:
        rows = super().get_queryset(request)
        page = request.resolver_match.url_name if request.resolver_match else ""
        return rows.defer("items", "metadata") if page == "conversations_receipt_changelist" else rows

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> Any:
        matches, duplicates = super().get_search_results(request, queryset, search_term)
        key = as_uuid(search_term)
        return (matches if key is None else matches | queryset.filter(source_ids__contains=[key])), duplicates

    shown_query = column(_("user's message"), lambda receipt: excerpt(receipt.opening, 80))
    whole_query = column(_("user's message"), lambda receipt: whole_text(receipt.query))
    candidates = column(_("sources"), lambda receipt: len(receipt.source_ids))

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        request_values = row.metadata.get("asked")
        return {
            "groups": candidate_groups(row.items),
            "budget": token_budget(row.items, total=row.total_tokens, limit=row.token_limit),
            "figures": _receipt_figures(row.metadata),
            # Older receipts do not store the request and so have no project.
            "project_asked": project_label(request_values.get("project", UNNAMED))
            if request_values is not None
            else None,
            "is_trial": bool(row.metadata.get("is_trial")),
            "may_try": request.user.has_perms(needs_of("playground")),
            "may_expect": request.user.has_perms(needs_of("keep_expectation")),
        }


INTERRUPTED = "broken_off"
STATE_COLOURS: Mapping[str, str] = {
    TurnState.ANSWERED: "success",
    TurnState.ANSWERING: "info",
    TurnState.FAILED: "danger",
    INTERRUPTED: "danger",
}
MAX_NAME_LENGTH = 40
"""Characters of a session's name in a row."""


def _state_of(turn: ChatTurn) -> tuple[str, Any]:
    if turn.state == TurnState.ANSWERING and turn.until < clock():  # its server was killed
        return INTERRUPTED, _("broken off")
    return turn.state, turn.get_state_display()


AnswerFilter = choice_filter(
    _("answer"),
    "answer",
    lambda: [("missing", _("Missing"))],
    lambda turns, choice: unanswered_turns(turns, clock()) if choice else turns,
)


@admin.register(ChatTurn)
class ChatTurnAdmin(OfSessionMixin, OwnedMixin, ReadOnlyAdmin):
    empty_hint = _("Questions that the server itself asks a language model, by chat, appear here.")
    list_display = ("created_at", "shown_question", "owner", "shown_state", "error", "model", "took", "of_receipt")
    list_filter = ("state", AnswerFilter, "actor__agent", UserFilter, "created_at")
    list_select_related = ("actor",)
    search_fields = ("error", "model")
    search_help_text = _("The code of an error, a model, or the id of a question, a session or a receipt.")
    id_fields = ("pk", "session_id", "receipt_id")
    ordering = ("-id",)
    fields = (
        ("created_at", "owner", "state_in_words"),
        ("error", "model", "took"),
        "whole_question",
        "whole_answer",
        ("of_session", "of_receipt"),
        ("usage", "attempt", "id"),
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        rows = super().get_queryset(request).defer("context_metadata")
        return rows.annotate(opening=Left("question__content", 200))

    shown_question = column(_("question"), lambda turn: excerpt(turn.opening, 80))
    whole_question = column(_("question"), lambda turn: whole_text(_message_text(turn.question)))
    whole_answer = column(_("answer"), lambda turn: whole_text(_message_text(turn.answer)) if turn.answer else "-")

    def title_of(self, row: Any) -> str:
        return title_with_time(_state_of(row)[1], row.created_at)

    shown_state, state_in_words = label_displays(_state_of, STATE_COLOURS, description=_("state"), ordering="state")
    took = column(
        _("took"),
        lambda turn: f"{(turn.finished_at - turn.created_at).total_seconds():.1f} s" if turn.finished_at else "-",
    )

    @admin.display(description=_("receipt"))
    def of_receipt(self, turn: ChatTurn) -> str:
        key = turn.receipt_id
        return link_to("admin:conversations_receipt_change", key, str(key)[:13]) if key else "-"


def _message_text(message: Message) -> str:
    return "\n".join(filter(None, [message.content, *tool_lines(message.blocks or [])]))
