"""Screen of tombstones: deleted, rejected or edited texts that programs may not write again."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import ChoicesDropdownFilter, RangeDateTimeFilter, RelatedDropdownFilter

from memoryhub.admin.base import (
    OwnedMixin,
    UserFilter,
    choice_displays,
    clock,
    principal,
    title_with_time,
)
from memoryhub.admin.labels import principal_label
from memoryhub.admin.object_actions import DecisionAdmin, Done, object_action_urls
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
    list_filter = (
        ("decision", ChoicesDropdownFilter),
        ("actor__agent", RelatedDropdownFilter),
        UserFilter,
        ("created_at", RangeDateTimeFilter),
        ("last_held_back_at", RangeDateTimeFilter),
    )
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

    @admin.display(description=_("who"), ordering="who_name")
    def who(self, tombstone: Tombstone) -> str:
        return principal_label(tombstone.who_name, tombstone.who_kind)

    @admin.display(description=_("kept out"))
    def kept_out(self, tombstone: Any) -> Any:
        return tombstone.text or gettext("(the text is stored nowhere)")

    @admin.display(description=_("replaced by"))
    def stands_in(self, tombstone: Any) -> Any:
        return tombstone.instead or "-"

    def get_urls(self) -> list[URLPattern]:
        return [*object_action_urls(self, {"lift": self.lift_view}), *super().get_urls()]

    def lift_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def act(tombstone: Tombstone, reason: str) -> Done:
            lift_tombstone(tombstone=tombstone, by=principal(request), reason=reason, now=clock())
            text = gettext("The text may be written again.")
            return Done(text, reverse("admin:strength_tombstone_changelist"))

        return self.posted(request, object_id, act, logged="lift")

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {
            "may_lift": self.has_decide_permission(request),
            "kept_out": row.text,
            "stands_in": row.instead,
        }
