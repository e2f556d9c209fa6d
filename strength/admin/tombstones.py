"""Screen of tombstones: deleted, rejected or edited texts that programs may not write again."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import OwnedMixin, clock, principal, title_with_time
from memoryhub.admin.columns import UserFilter, choice_displays, column
from memoryhub.admin.labels import principal_label
from memoryhub.admin.object_actions import DecisionAdmin, Done, object_action
from strength.actions.tombstones import lift_tombstone
from strength.admin.kept_out import shown_texts
from strength.admin.labels import DECISION_COLOURS, DECISIONS
from strength.admin.memory_detail import memory_links
from strength.models import Tombstone


@admin.register(Tombstone)
class TombstoneAdmin(OwnedMixin, DecisionAdmin):
    """Tombstones; what a memory still holds of their texts is shown. Those who may change them may lift them."""

    list_display = (
        "created_at",
        "kept_out",
        "owner",
        "shown_decision",
        "who",
        "held_back",
        "last_held_back_at",
        "stands_in",
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
        texts = shown_texts(request, rows)
        links = memory_links(request, None, [row.memory_id for row in rows])
        for row in rows:
            row.text, row.instead = texts.get(row.pk), links.get(str(row.memory_id))

    shown_decision, decision_in_words = choice_displays(
        "decision", DECISIONS, DECISION_COLOURS, description=_("decision")
    )

    who = column(
        _("who"),
        lambda tombstone: principal_label(tombstone.who_name, tombstone.who_kind),
        ordering="who_name",
    )
    kept_out = column(
        _("kept out"), lambda tombstone: tombstone.text or gettext("(the text is stored nowhere)")
    )
    stands_in = column(_("replaced by"), lambda tombstone: tombstone.instead or "-")

    @object_action()
    def lift_view(self, request: HttpRequest, tombstone: Tombstone, reason: str) -> Done:
        lift_tombstone(tombstone=tombstone, by=principal(request), reason=reason, now=clock())
        text = gettext("The text may be written again.")
        return Done(text, reverse("admin:strength_tombstone_changelist"))

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {
            "may_lift": self.has_decide_permission(request),
            "kept_out": row.text,
            "stands_in": row.instead,
        }
