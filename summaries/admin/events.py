"""The screen of what was done with projects."""

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import (
    ChoicesDropdownFilter,
    RangeDateTimeFilter,
    RelatedDropdownFilter,
)

from memoryhub.admin.base import ReadOnlyAdmin, UserFilter, link_to, whose
from memoryhub.admin.titles import dated
from summaries.admin.words import EVENT_OUTCOMES, EVENTS
from summaries.models import ProjectEvent


@admin.register(ProjectEvent)
class ProjectEventAdmin(ReadOnlyAdmin):
    """Reads, routes, updates and compactions of projects, newest first (SPEC P8)."""

    list_display = ("created_at", "shown_kind", "of_project", "owner", "shown_outcome", "tokens")
    list_filter = (
        ("kind", ChoicesDropdownFilter),
        ("actor__agent", RelatedDropdownFilter),
        UserFilter,
        ("created_at", RangeDateTimeFilter),
    )
    list_select_related = ("actor",)
    search_fields = ("project_name", "outcome")
    search_help_text = _("A project's name, an outcome, or the id of an event or a project.")
    id_fields = ("pk", "project_id")
    ordering = ("-id",)
    fields = (
        ("created_at", "shown_kind", "of_project", "owner"),
        ("shown_outcome", "tokens", "details", "id"),
    )
    readonly_fields = ("shown_kind", "of_project", "owner", "shown_outcome")

    def title_of(self, row: ProjectEvent) -> str:
        """Return what was done, with which project, and when."""
        return dated(f"{EVENTS[row.kind]} {row.project_name}".rstrip(), row.created_at)

    @admin.display(description=_("kind"), ordering="kind")
    def shown_kind(self, event: ProjectEvent) -> Any:
        """Return what was done, in words."""
        return EVENTS[event.kind]

    @admin.display(description=_("outcome"), ordering="outcome")
    def shown_outcome(self, event: ProjectEvent) -> Any:
        """Return what came of it, in words, where that is more than the kind says."""
        return EVENT_OUTCOMES.get(event.outcome, event.outcome) or "–"

    @admin.display(description=_("project"), ordering="project_name")
    def of_project(self, event: ProjectEvent) -> str:
        """Return the project, with a link while it is there."""
        if event.project_id is None:
            return event.project_name
        return link_to("admin:summaries_project_change", event.project_id, event.project_name)

    @admin.display(description=_("whose"), ordering="actor")
    def owner(self, event: ProjectEvent) -> str:
        """Return whose project it is."""
        return whose(event.actor)
