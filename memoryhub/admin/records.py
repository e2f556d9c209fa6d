"""Screens of what the hub writes down by itself: the audit trail, embedding spaces, repeated answers."""

from django.contrib import admin
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import (
    ChoicesDropdownFilter,
    FieldTextFilter,
    RangeDateTimeFilter,
)

from memoryhub.access.models import AuditEntry
from memoryhub.admin.base import ReadOnlyAdmin, excerpt, labelled
from memoryhub.api.models import IdempotencyRecord
from memoryhub.search.models import EmbeddingSpace


@admin.register(AuditEntry)
class AuditAdmin(ReadOnlyAdmin):
    """The trail: who did what to which row, when and why."""

    list_display = ("at", "who", "verb", "object_kind", "shown_object", "agent_id", "why")
    list_filter = (
        ("who_kind", ChoicesDropdownFilter),
        ("verb", FieldTextFilter),
        ("object_kind", FieldTextFilter),
        ("agent_id", FieldTextFilter),
        ("user_id", FieldTextFilter),
        ("at", RangeDateTimeFilter),
    )
    search_fields = ("object_id", "who_name", "verb", "reason")
    id_fields = ("pk", "object_id")
    fields = (
        ("at", "verb"),
        ("who_kind", "who_name", "who_id"),
        ("object_kind", "object_id"),
        ("agent_id", "user_id"),
        "reason",
        "details",
    )

    @admin.display(description=_("who"), ordering="who_name")
    def who(self, entry: AuditEntry) -> str:
        """Return who did it."""
        return excerpt(f"{entry.who_name} ({entry.who_kind})", 60)

    @admin.display(description=_("object"))
    def shown_object(self, entry: AuditEntry) -> str:
        """Return the row's id."""
        return excerpt(entry.object_id, 40) if entry.object_id else "-"

    @admin.display(description=_("reason"))
    def why(self, entry: AuditEntry) -> str:
        """Return the beginning of the reason."""
        return excerpt(entry.reason) if entry.reason else "-"


@admin.register(EmbeddingSpace)
class SpaceAdmin(ReadOnlyAdmin):
    """Embedding spaces: filled and switched by commands."""

    list_display = (
        "provider",
        "model",
        "dimension",
        "shown_state",
        "cosine_low",
        "cosine_high",
        "vector_weight",
    )
    list_filter = (("state", ChoicesDropdownFilter),)
    search_fields = ("provider", "model")
    ordering = ("id",)

    @labelled({"active": "success", "filling": "info", "retired": ""})
    @admin.display(description=_("state"), ordering="state")
    def shown_state(self, space: EmbeddingSpace) -> str:
        """Return where the space is on its way."""
        return space.state


@admin.register(IdempotencyRecord)
class IdempotencyAdmin(ReadOnlyAdmin):
    """Answers kept to be repeated for a day; their bodies hold people's texts and are not shown."""

    list_display = ("created_at", "route", "status", "api_key")
    list_filter = (("route", FieldTextFilter), ("created_at", RangeDateTimeFilter))
    list_select_related = ("api_key",)
    search_fields = ("route", "key")
    ordering = ("-created_at", "-id")
    fields = ("created_at", "route", "status", "api_key", "actor", "key", "body_digest")
