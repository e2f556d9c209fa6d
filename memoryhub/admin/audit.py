"""Screen of the audit trail: who did what to which row, when and why."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import ChoicesDropdownFilter, DropdownFilter, FieldTextFilter

from memoryhub.admin.base import ReadOnlyAdmin, excerpt, link_to, title_with_time
from memoryhub.admin.filters import PeriodFilter
from memoryhub.admin.labels import audit_title, model_of, principal_label
from memoryhub.auth.domain import PrincipalKind
from memoryhub.auth.models import AuditEntry

MOST_PEOPLE = 200


class PersonFilter(DropdownFilter):
    """Filter by the person who acted."""

    title = _("person")
    parameter_name = "person"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        people = User.objects.order_by("username").values_list("pk", "username")[:MOST_PEOPLE]
        return [(str(pk), name) for pk, name in people]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        person = self.value()
        return queryset.filter(who_kind=PrincipalKind.CURATOR, who_id=person) if person else queryset


@admin.register(AuditEntry)
class AuditAdmin(ReadOnlyAdmin):
    list_display = ("at", "who", "deed", "shown_object", "whose", "why")
    list_filter = (
        PersonFilter,
        ("at", PeriodFilter),
        ("who_kind", ChoicesDropdownFilter),
        ("verb", FieldTextFilter),
        ("object_kind", FieldTextFilter),
        ("agent_id", FieldTextFilter),
        ("user_id", FieldTextFilter),
    )
    search_fields = ("object_id", "who_name", "verb", "reason")
    search_help_text = _("A name, a verb, words of a reason, or the id of a row.")
    id_fields = ("pk", "object_id")
    fields = (
        ("at", "deed"),
        ("who", "who_kind", "who_id"),
        ("shown_object", "object_id"),
        ("agent_id", "user_id"),
        "reason",
        "details",
        ("stored_verb", "stored_kind"),
    )
    readonly_fields = ("deed", "who", "shown_object", "stored_verb", "stored_kind")

    def title_of(self, row: AuditEntry) -> str:
        return title_with_time(audit_title(row.verb, row.object_kind), row.at)

    @admin.display(description=_("who"), ordering="who_name")
    def who(self, entry: AuditEntry) -> str:
        if entry.who_kind == PrincipalKind.CURATOR:
            return excerpt(entry.who_name, 60)
        return principal_label(entry.who_name, entry.who_kind)

    @admin.display(description=_("what"), ordering="verb")
    def deed(self, entry: AuditEntry) -> str:
        return audit_title(entry.verb, entry.object_kind)

    @admin.display(description=_("verb"))
    def stored_verb(self, entry: AuditEntry) -> str:
        return format_html("<code>{}</code>", entry.verb)

    @admin.display(description=_("object kind"))
    def stored_kind(self, entry: AuditEntry) -> str:
        return format_html("<code>{}</code>", entry.object_kind)

    @admin.display(description=_("row"))
    def shown_object(self, entry: AuditEntry) -> Any:
        if not entry.object_id:
            return "-"
        model, text = model_of(entry.object_kind), excerpt(entry.object_id, 40)
        if model is None:
            return text
        return link_to(
            f"admin:{model._meta.app_label}_{model._meta.model_name}_change", entry.object_id, text
        )

    @admin.display(description=_("agent and user"))
    def whose(self, entry: AuditEntry) -> Any:
        if not entry.user_id:
            return excerpt(entry.agent_id, 60) if entry.agent_id else "-"
        return format_html("{} / {}", excerpt(entry.agent_id, 60), excerpt(entry.user_id, 60))

    @admin.display(description=_("reason"))
    def why(self, entry: AuditEntry) -> str:
        return excerpt(entry.reason) if entry.reason else "-"
