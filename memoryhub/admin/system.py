"""Read-only screens of what the server records: workers, schedules, embedding spaces, idempotency."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from memoryhub.admin.base import ReadOnlyAdmin, clock
from memoryhub.admin.columns import column
from memoryhub.admin.stored_words import job_label
from memoryhub.api.idempotency import IdempotencyRecord
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
    list_filter = ("state",)
    search_fields = ("provider", "model")
    ordering = ("id",)

    shown_state = column(
        _("state"),
        lambda space: (space.state, space.get_state_display()),
        ordering="state",
        colours={"active": "success", "filling": "info", "retired": ""},
    )


@admin.register(IdempotencyRecord)
class IdempotencyAdmin(ReadOnlyAdmin):
    """Responses kept for a day to answer retries; their bodies hold user texts and are not shown."""

    list_display = ("created_at", "route", "status", "api_key")
    list_filter = ("route", "created_at")
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

    shown_state = column(
        _("state"),
        lambda worker: (
            ("alive", _("alive")) if clock() - worker.seen_at < SEEN_WITHIN else ("lost", _("lost"))
        ),
        colours={"alive": "success", "lost": "danger"},
    )


@admin.register(ScheduleState)
class ScheduleAdmin(ReadOnlyAdmin):
    """Next run of each schedule."""

    list_display = ("shown_name", "next_at", "last_at")
    ordering = ("name",)
    fields = ("shown_name", "next_at", "last_at")
    search_fields = ("name",)

    def title_of(self, row: ScheduleState) -> Any:
        return self.shown_name(row)

    @admin.display(description=_("job"), ordering="name")
    def shown_name(self, row: ScheduleState) -> Any:
        kind, _recurrence = schedules().get(row.name, (row.name, None))
        return job_label(kind)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ScheduleState]:
        return super().get_queryset(request).filter(name__in=schedules())
