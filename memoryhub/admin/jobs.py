"""Screens of the background: jobs with what went wrong, and the crews that work on them. For administrators."""

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from django_q.models import Failure, OrmQ, Schedule, Success
from unfold.contrib.filters.admin import ChoicesDropdownFilter, FieldTextFilter, RangeDateTimeFilter

from memoryhub.access.retrying import retry_jobs
from memoryhub.admin.base import ReadOnlyAdmin, clock, excerpt, labelled, principal
from memoryhub.jobs.models import Crew, Job, ScheduleState
from memoryhub.jobs.watching import SEEN_WITHIN, background

# django-q2's own screens: a row of its schedules is code that runs, and all of its tables stay empty here.
for unused in (Success, Failure, Schedule, OrmQ):
    if admin.site.is_registered(unused):
        admin.site.unregister(unused)


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin):
    """Jobs: what waits, what runs, and what ended badly and can be sent back."""

    list_display = ("created_at", "kind", "shown_state", "attempts", "whose", "shown_error", "finished_at")
    list_filter = (
        ("state", ChoicesDropdownFilter),
        ("kind", FieldTextFilter),
        ("created_at", RangeDateTimeFilter),
    )
    list_select_related = ("actor",)
    search_fields = ("kind", "error")
    ordering = ("-created_at", "-id")
    actions = ("send_back",)
    fields = (
        ("kind", "state"),
        ("actor", "key"),
        "payload",
        ("attempts", "excused"),
        "error",
        ("progress_done", "progress_total"),
        ("created_at", "started_at", "finished_at"),
        ("due_at", "lease_until", "crew"),
    )
    list_before_template = "admin/memoryhub/job/background.html"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Add how the background is doing: an empty list means idle, or down."""
        return super().changelist_view(request, {**(extra_context or {}), "background": background(clock())})

    @labelled(
        {"queued": "info", "running": "warning", "done": "success", "failed": "danger", "dead": "danger"}
    )
    @admin.display(description=_("state"), ordering="state")
    def shown_state(self, job: Job) -> str:
        """Return where the job is on its way."""
        return job.state

    @admin.display(description=_("actor"))
    def whose(self, job: Job) -> str:
        """Return whose job it is."""
        return str(job.actor) if job.actor else "-"

    @admin.display(description=_("error"))
    def shown_error(self, job: Job) -> str:
        """Return what went wrong last."""
        return excerpt(job.error) if job.error else "-"

    @admin.action(description=_("Send back: try again, up to three times"), permissions=["retry"])
    def send_back(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        """Put the chosen jobs that ended badly back into the queue."""
        ids = list(queryset.values_list("pk", flat=True))
        count = retry_jobs(job_ids=ids, by=principal(request), now=clock())
        left = len(ids) - count
        text = ngettext("%(count)d job was sent back.", "%(count)d jobs were sent back.", count) % {
            "count": count
        }
        if left:
            text += " " + ngettext(
                "%(left)d had not ended badly and stays as it is.",
                "%(left)d had not ended badly and stay.",
                left,
            ) % {"left": left}
        self.message_user(request, text, messages.SUCCESS if count else messages.WARNING)

    def has_retry_permission(self, request: HttpRequest) -> bool:
        """Return whether this person may send jobs back: administrators."""
        return bool(getattr(request.user, "is_superuser", False))


@admin.register(Crew)
class CrewAdmin(ReadOnlyAdmin):
    """The crews that work on jobs, and when each was last seen."""

    list_display = ("__str__", "shown_state", "started_at", "seen_at")
    ordering = ("-seen_at",)
    search_fields = ("host",)

    @labelled({"alive": "success", "lost": "danger"})
    @admin.display(description=_("state"))
    def shown_state(self, crew: Crew) -> str:
        """Return whether the crew was seen just now."""
        return "alive" if clock() - crew.seen_at < SEEN_WITHIN else "lost"


@admin.register(ScheduleState)
class ScheduleAdmin(ReadOnlyAdmin):
    """When each schedule of the settings comes next."""

    list_display = ("name", "next_at", "last_at")
    ordering = ("name",)
    search_fields = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ScheduleState]:
        """Return the schedules that the settings name today."""
        return super().get_queryset(request).filter(name__in=settings.SCHEDULES)
