"""Screen of tombstones: deleted, rejected or edited texts that programs may not write again."""

from collections.abc import Sequence
from typing import Any, Final

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from conversations.models import Message
from memoryhub.admin.base import OwnedMixin, excerpt, link_to, title_with_time
from memoryhub.admin.columns import UserFilter, choice_displays, column
from memoryhub.admin.labels import principal_label
from memoryhub.admin.object_actions import Change, DecisionAdmin, Done, object_action
from strength.actions.tombstones import blocked_texts, lift_tombstone, messages_with_text
from strength.admin.labels import DECISION_COLOURS, DECISION_LABELS
from strength.admin.memory_detail import TIMELINE_PAGE, may_read_memories, memory_links
from strength.domain.duplicates import fingerprint
from strength.domain.memories import Status
from strength.models import Memory, Tombstone


@admin.register(Tombstone)
class TombstoneAdmin(OwnedMixin, DecisionAdmin):
    empty_hint = _("Texts that people reject, delete or correct appear here and are not written again.")
    list_display = (
        "created_at",
        "blocked_text",
        "owner",
        "shown_decision",
        "who",
        "held_back",
        "last_held_back_at",
        "replacement",
    )
    list_filter = ("decision", "actor__agent", UserFilter, "created_at", "last_held_back_at")
    list_select_related = ("actor",)
    search_fields = ("who_name",)
    search_help_text = _("Who decided, or the id of an entry or of the memory that replaced it.")
    id_fields = ("pk", "memory_id")
    ordering = ("-created_at", "-id")
    fields = (("owner", "decision_in_words"), ("who", "created_at"), ("held_back", "last_held_back_at"), "id")
    change_form_outer_before_template = "admin/strength/tombstone/lift.html"

    def title_of(self, row: Tombstone) -> str:
        return title_with_time(row.get_decision_display(), row.created_at)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Tombstone]:
        return super().get_queryset(request).defer("terms", "marks", "order")

    def prepare_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        texts = blocked_texts(rows) if may_read_memories(request) else {}
        links = memory_links(request, [row.memory_id for row in rows])
        for row in rows:
            blocked, row.instead = texts.get(row.pk), links.get(str(row.memory_id))
            row.text = blocked and link_to("admin:strength_memory_change", blocked.memory_id, excerpt(blocked.text))

    shown_decision, decision_in_words = choice_displays(
        "decision", DECISION_LABELS, DECISION_COLOURS, description=_("decision")
    )

    who = column(
        _("who"), lambda tombstone: principal_label(tombstone.who_name, tombstone.who_kind), ordering="who_name"
    )
    blocked_text = column(_("blocked"), lambda tombstone: tombstone.text or gettext("(the text is not stored)"))
    replacement = column(_("replaced by"), lambda tombstone: tombstone.instead or "-")

    @object_action()
    def lift_view(self, request: HttpRequest, tombstone: Tombstone, change: Change) -> Done:
        lift_tombstone(tombstone=tombstone, **change)
        text = gettext("The text may be written again.")
        return Done(text, reverse("admin:strength_tombstone_changelist"))

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {"may_lift": self.has_decide_permission(request), "text": row.text, "replacement": row.instead}


MAX_LINKED_MESSAGES: Final = 5
MAX_TOMBSTONES: Final = 3
TOMBSTONE_PAGE: Final = "admin:strength_tombstone_change"


def with_former_text(request: HttpRequest, message: Any, memory: Memory, former: Memory) -> Any:
    """Return a message about a change, with links to the former text's tombstone and to messages that hold it."""
    is_rejected = memory.status == Status.REJECTED != former.status
    if not is_rejected and memory.content == former.content:
        return message
    parts = [message]
    rows = Tombstone.objects.filter(actor_id=memory.actor_id)
    tombstone = rows.filter(digest=fingerprint(former.content).digest).first()
    if tombstone is not None:
        text = gettext("The old wording is blocked.") if not is_rejected else gettext("It is blocked.")
        parts.append(link_to(TOMBSTONE_PAGE, tombstone.pk, text) if _may_see_tombstones(request) else text)
    if request.user.has_perm("conversations.view_message"):
        replacement = "" if is_rejected else memory.content
        remaining = messages_with_text(actor_id=memory.actor_id, text=former.content, replacement=replacement)
        parts.extend([_remaining_messages(remaining)] if remaining else [])
    return format_html_join(" ", "{}", ((part,) for part in parts))


def _remaining_messages(remaining: Sequence[Message]) -> SafeString:
    text = ngettext(
        "It also occurs in %(count)d message, which contexts may quote:",
        "It also occurs in %(count)d messages, which contexts may quote:",
        len(remaining),
    ) % {"count": len(remaining)}
    links = format_html_join(
        " · ",
        '<a class="hub-link" href="{}?at={}#message-{}">{}</a>',
        (
            (reverse(TIMELINE_PAGE, args=[message.session_id]), message.pk, message.pk, excerpt(message.content, 60))
            for message in remaining[:MAX_LINKED_MESSAGES]
        ),
    )
    return format_html("{} {}", text, links)


def _may_see_tombstones(request: HttpRequest) -> bool:
    user: Any = request.user
    return bool(user.has_perm("strength.view_tombstone") or user.has_perm("strength.change_tombstone"))


def tombstones_of(request: HttpRequest, memory: Memory) -> list[Tombstone]:
    """Return the latest tombstones of a memory's texts; empty without permission."""
    if not _may_see_tombstones(request):
        return []
    conditions = Q(memory_id=memory.pk)
    if memory.status == Status.REJECTED:
        conditions |= Q(digest=fingerprint(memory.content).digest)
    return list(Tombstone.objects.filter(conditions, actor_id=memory.actor_id)[:MAX_TOMBSTONES])
