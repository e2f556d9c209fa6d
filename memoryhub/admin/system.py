"""Read-only screens of what the server records: audit trail, workers, schedules, embedding spaces, idempotency."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import ChoicesDropdownFilter, DropdownFilter, FieldTextFilter

from memoryhub.admin.base import (
    PeriodFilter,
    ReadOnlyAdmin,
    clock,
    coloured,
    excerpt,
    link_to,
    title_with_time,
)
from memoryhub.admin.labels import audit_title, model_of, principal_label
from memoryhub.api.idempotency import IdempotencyRecord
from memoryhub.auth.domain import PrincipalKind
from memoryhub.auth.models import AuditEntry
from memoryhub.jobs.models import ScheduleState, Worker
from memoryhub.jobs.registry import schedules
from memoryhub.jobs.status import SEEN_WITHIN
from memoryhub.search.models import EmbeddingSpace


@admin.register(EmbeddingSpace)
class EmbeddingSpaceAdmin(ReadOnlyAdmin):
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

    @coloured({"active": "success", "filling": "info", "retired": ""})
    @admin.display(description=_("state"), ordering="state")
    def shown_state(self, space: EmbeddingSpace) -> tuple[str, str]:
        return space.state, space.get_state_display()


@admin.register(IdempotencyRecord)
class IdempotencyAdmin(ReadOnlyAdmin):
    """Responses kept for a day to answer retries; their bodies hold user texts and are not shown."""

    list_display = ("created_at", "route", "status", "api_key")
    list_filter = (("route", FieldTextFilter), ("created_at", PeriodFilter))
    list_select_related = ("api_key",)
    search_fields = ("route", "key")
    ordering = ("-created_at", "-id")
    fields = ("created_at", "route", "status", "api_key", "actor", "key", "body_digest")


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """Workers and when each was last seen."""

    list_display = ("__str__", "shown_state", "started_at", "seen_at")
    ordering = ("-seen_at",)
    search_fields = ("host",)

    @coloured({"alive": "success", "lost": "danger"})
    @admin.display(description=_("state"))
    def shown_state(self, worker: Worker) -> tuple[str, Any]:
        return ("alive", _("alive")) if clock() - worker.seen_at < SEEN_WITHIN else ("lost", _("lost"))


@admin.register(ScheduleState)
class ScheduleAdmin(ReadOnlyAdmin):
    """Next run of each schedule."""

    list_display = ("name", "next_at", "last_at")
    ordering = ("name",)
    search_fields = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ScheduleState]:
        return super().get_queryset(request).filter(name__in=schedules())


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
