"""Screens of receipts and chat turns."""

from collections.abc import Mapping
from typing import Any, Final

from django.contrib import admin
from django.db.models.functions import Left
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import ChoicesDropdownFilter, RangeDateTimeFilter, RelatedDropdownFilter

from conversations.actions.context import UNNAMED
from conversations.admin.context_breakdown import candidate_groups, project_in_words, token_budget
from conversations.domain.messages import TurnState
from conversations.models import ChatTurn, Message, Receipt
from memoryhub.admin.base import (
    OwnedMixin,
    ReadOnlyAdmin,
    UserFilter,
    as_uuid,
    clock,
    coloured,
    excerpt,
    link_to,
    needs_of,
    title_with_time,
)

NO_FIGURES: Final = frozenset({"asked", "is_trial", "layer_budgets", "total_tokens", "token_limit"})
"""Metadata of a receipt that are no single figures, or are shown elsewhere on the page."""


@admin.register(Receipt)
class ReceiptAdmin(OwnedMixin, ReadOnlyAdmin):
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

    def title_of(self, row: Any) -> str:
        return title_with_time(self.opts.verbose_name, row.created_at)

    def get_queryset(self, request: HttpRequest) -> Any:
        rows = super().get_queryset(request)
        page = request.resolver_match.url_name if request.resolver_match else ""
        return rows.defer("items", "metadata") if page == "conversations_receipt_changelist" else rows

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> Any:
        found, duplicates = super().get_search_results(request, queryset, search_term)
        key = as_uuid(search_term)
        return (found if key is None else found | queryset.filter(source_ids__contains=[key])), duplicates

    @admin.display(description=_("user's message"))
    def shown_query(self, receipt: Any) -> str:
        return excerpt(receipt.opening, 80)

    @admin.display(description=_("user's message"))
    def whole_query(self, receipt: Receipt) -> str:
        return format_html('<div dir="auto" style="white-space: pre-wrap">{}</div>', receipt.query)

    @admin.display(description=_("session"))
    def of_session(self, receipt: Any) -> str:
        key = receipt.session_id
        return link_to("admin:conversations_session_change", key, str(key)[:13]) if key else "-"

    @admin.display(description=_("sources"))
    def candidates(self, receipt: Receipt) -> int:
        return len(receipt.source_ids)

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        asked = row.metadata.get("asked")
        return {
            "groups": candidate_groups(row.items),
            "budget": token_budget(row.items, total=row.total_tokens, limit=row.token_limit),
            "figures": [each for each in sorted(row.metadata.items()) if each[0] not in NO_FIGURES],
            # Receipts from before the request was stored name no project.
            "project_asked": project_in_words(asked.get("project", UNNAMED)) if asked is not None else None,
            "is_trial": bool(row.metadata.get("is_trial")),
            "may_try": request.user.has_perms(needs_of("playground")),
        }


BROKEN_OFF = "broken_off"
STATE_COLOURS: Mapping[str, str] = {
    TurnState.ANSWERED: "success",
    TurnState.ANSWERING: "info",
    TurnState.FAILED: "danger",
    BROKEN_OFF: "danger",
}
LONGEST_SHOWN = 20_000


@admin.register(ChatTurn)
class ChatTurnAdmin(OwnedMixin, ReadOnlyAdmin):
    list_display = (
        "created_at",
        "shown_question",
        "owner",
        "shown_state",
        "error",
        "model",
        "took",
        "of_receipt",
    )
    list_filter = (
        ("state", ChoicesDropdownFilter),
        ("actor__agent", RelatedDropdownFilter),
        UserFilter,
        ("created_at", RangeDateTimeFilter),
    )
    list_select_related = ("actor",)
    search_fields = ("error", "model")
    search_help_text = _("The code of an error, a model, or the id of a question, a session or a receipt.")
    id_fields = ("pk", "session_id", "receipt_id")
    ordering = ("-id",)
    fields = (
        ("created_at", "owner", "state_in_words"), ("error", "model", "took"), "whole_question", "whole_answer",
        ("of_session", "of_receipt"), ("usage", "attempt", "id"),
    )  # fmt: skip
    readonly_fields = (
        "owner",
        "state_in_words",
        "took",
        "whole_question",
        "whole_answer",
        "of_session",
        "of_receipt",
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        rows = super().get_queryset(request).defer("context_metadata")
        return rows.annotate(opening=Left("question__content", 200))

    @admin.display(description=_("question"))
    def shown_question(self, turn: Any) -> str:
        return excerpt(turn.opening, 80)

    @admin.display(description=_("question"))
    def whole_question(self, turn: ChatTurn) -> str:
        return _whole(turn.question)

    @admin.display(description=_("answer"))
    def whole_answer(self, turn: ChatTurn) -> str:
        return _whole(turn.answer) if turn.answer else "-"

    def title_of(self, row: Any) -> str:
        return title_with_time(self.shown_state(row)[1], row.created_at)

    @coloured(STATE_COLOURS)
    @admin.display(description=_("state"), ordering="state")
    def shown_state(self, turn: ChatTurn) -> tuple[str, Any]:
        if turn.state == TurnState.ANSWERING and turn.until < clock():  # its server was killed
            return BROKEN_OFF, _("broken off")
        return turn.state, turn.get_state_display()

    @admin.display(description=_("state"))
    def state_in_words(self, turn: ChatTurn) -> Any:
        return self.shown_state(turn)[1]

    @admin.display(description=_("took"))
    def took(self, turn: ChatTurn) -> str:
        return f"{(turn.finished_at - turn.created_at).total_seconds():.1f} s" if turn.finished_at else "-"

    @admin.display(description=_("session"))
    def of_session(self, turn: ChatTurn) -> str:
        return link_to("admin:conversations_session_change", turn.session_id, str(turn.session_id)[:13])

    @admin.display(description=_("receipt"))
    def of_receipt(self, turn: ChatTurn) -> str:
        key = turn.receipt_id
        return link_to("admin:conversations_receipt_change", key, str(key)[:13]) if key else "-"


def _whole(message: Message) -> str:
    return format_html(
        '<div dir="auto" style="white-space: pre-wrap">{}</div>', excerpt(message.content, LONGEST_SHOWN)
    )
