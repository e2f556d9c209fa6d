"""Screen of tombstones: deleted, rejected or edited texts that programs may not write again."""

from collections.abc import Sequence
from typing import Any, Final

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from conversations.models import Message
from memoryhub.admin.base import OwnedMixin, as_uuid, excerpt, link_to, title_with_time
from memoryhub.admin.columns import UserFilter, choice_displays, column
from memoryhub.admin.labels import principal_label
from memoryhub.admin.object_actions import Change, DecisionAdmin, Done, object_action
from memoryhub.admin.stored_texts import translated
from memoryhub.auth.principals import PrincipalKind
from strength.actions.tombstones import block_again, blocked_texts, lift_tombstone, messages_with_text, with_words
from strength.admin.labels import DECISION_COLOURS, DECISION_LABELS
from strength.admin.memory_detail import TIMELINE_PAGE, may_read_memories, memory_links
from strength.domain.duplicates import fingerprint
from strength.domain.memories import Status, TombstoneReason
from strength.models import Memory, Tombstone


@admin.register(Tombstone)
class TombstoneAdmin(OwnedMixin, DecisionAdmin):
    empty_hint = _("Texts that people reject, delete or correct appear here: programs cannot store them again.")
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
    search_help_text = _("Words of the text, who decided, or the id of an entry or of the memory that replaced it.")
    id_fields = ("pk", "memory_id")
    ordering = ("-created_at", "-id")
    fields = (("owner", "decision_in_words"), ("who", "created_at"), ("held_back", "last_held_back_at"), "id")
    change_form_outer_before_template = "admin/strength/tombstone/lift.html"

    def title_of(self, row: Tombstone) -> str:
        return title_with_time(row.get_decision_display(), row.created_at)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Tombstone]:
        match = request.resolver_match
        if match is not None and match.url_name == "strength_tombstone_block_again":
            return Tombstone.with_lifted.select_related("actor__agent")
        return super().get_queryset(request).defer("terms", "marks", "order")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Search the hashed words too, for those who may read memories; the texts are not stored."""
        rows, may_repeat = super().get_search_results(request, queryset, search_term)
        if as_uuid(search_term) is None and search_term and may_read_memories(request):
            rows |= with_words(queryset, search_term)
        return rows, may_repeat

    def prepare_rows(self, request: HttpRequest, rows: Sequence[Any]) -> None:
        texts = blocked_texts(rows) if may_read_memories(request) else {}
        links = memory_links(request, [row.memory_id for row in rows])
        for row in rows:
            blocked, row.instead = texts.get(row.pk), links.get(str(row.memory_id))
            row.text = blocked and link_to(TOMBSTONE_PAGE, row.pk, excerpt(blocked.text))
            row.source = blocked and link_to("admin:strength_memory_change", blocked.memory_id, excerpt(blocked.text))
            row.why = translated(blocked.reason) if blocked else ""

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
        text = gettext("The block is lifted: programs may store the text again.")
        undo = reverse("admin:strength_tombstone_block_again", args=[tombstone.pk])
        return Done(text, reverse("admin:strength_tombstone_changelist"), undo=undo)

    @object_action()
    def block_again_view(self, request: HttpRequest, tombstone: Tombstone, change: Change) -> Done:
        block_again(tombstone=tombstone, **change)
        return Done(gettext("The text is blocked again."), logged="undo")

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {
            "may_lift": self.has_decide_permission(request),
            "text": row.source,
            "reason": row.why,
            "replacement": row.instead,
            "owner": " / ".join(filter(None, (row.actor.agent_id, row.actor.user_id))),
        }


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


DECIDED: Final = {
    TombstoneReason.DELETED: _("{who} deleted a memory with this content on {day}."),
    TombstoneReason.REJECTED: _("{who} rejected this on {day}."),
    TombstoneReason.EDITED: _("{who} corrected this on {day}."),
}
RESEMBLES: Final = {
    TombstoneReason.DELETED: _("It resembles a text that {who} deleted on {day}."),
    TombstoneReason.REJECTED: _("It resembles a text that {who} rejected on {day}."),
    TombstoneReason.EDITED: _("It resembles a text that {who} corrected on {day}."),
}
MAX_REPLACEMENT_LENGTH: Final = 200


def decision_sentence(request: HttpRequest, tombstone: Tombstone, *, resembles: bool = False) -> SafeString:
    """Return who decided against a text, and when, with the text that replaced it and a link to the decision."""
    words = (RESEMBLES if resembles else DECIDED)[TombstoneReason(tombstone.decision)]
    day = date_format(timezone.localdate(tombstone.created_at))
    name, kind = tombstone.who_name, tombstone.who_kind
    who = excerpt(name, 60) if kind == PrincipalKind.CURATOR else principal_label(name, kind)
    parts: list[Any] = [format_html(str(words), who=who, day=day)]
    replacements = Memory.objects.of([tombstone.actor_id]).filter(pk__in=[tombstone.memory_id])
    replacement = replacements.values_list("content", flat=True).first()
    if replacement is not None:
        text = excerpt(replacement, MAX_REPLACEMENT_LENGTH)
        link = link_to("admin:strength_memory_change", tombstone.memory_id, text)
        parts.append(format_html("{} {}", gettext("Now:"), link))
    if _may_see_tombstones(request):
        parts.append(link_to(TOMBSTONE_PAGE, tombstone.pk, gettext("To the decision")))
    return format_html_join(" ", "{}", ((part,) for part in parts))


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
