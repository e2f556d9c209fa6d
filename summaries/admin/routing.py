"""The screen of routing decisions: which project a message was taken to be about, put right with one click."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import (
    ChoicesDropdownFilter,
    RangeDateTimeFilter,
    RelatedDropdownFilter,
)

from memoryhub.admin.base import HubAdmin, UserFilter, clock, excerpt, labelled, link_to, principal, whose
from memoryhub.admin.pressing import Done, posted
from summaries.actions.routing import correct_routing
from summaries.domain.projects import LONGEST_NAME
from summaries.models import Project, RoutingDecision

CONFIDENCE_COLOURS: Mapping[str, str] = {"high": "success", "medium": "warning", "low": "danger"}
MOST_OFFERED = 200
LONGEST_SHOWN = 20_000


@admin.register(RoutingDecision)
class RoutingDecisionAdmin(HubAdmin):
    """Decisions, newest first; a person says with one click where a message belongs (SPEC P4, W6)."""

    list_display = (
        "created_at", "shown_message", "owner", "channel", "of_project", "shown_confidence", "action", "put_right"
    )  # fmt: skip
    list_filter = (
        ("confidence", ChoicesDropdownFilter),
        ("action", ChoicesDropdownFilter),
        ("actor__agent", RelatedDropdownFilter),
        UserFilter,
        ("created_at", RangeDateTimeFilter),
    )
    list_select_related = ("actor", "project", "corrected_project")
    search_fields = ("message", "project__name")
    search_help_text = _(
        "Words of a message, a project's name, or the id of a decision, a session or a project."
    )
    id_fields = ("pk", "session_id", "project_id")
    ordering = ("-id",)
    long_text = "message"
    fields = (
        "whole_message", ("owner", "channel", "created_at"), ("of_project", "shown_confidence", "action"),
        ("proposed_name", "reason"), ("put_right", "corrected_by", "corrected_at"), "id",
    )  # fmt: skip
    readonly_fields = (
        "whole_message", "owner", "channel", "created_at", "of_project", "shown_confidence", "action", "proposed_name",
        "reason", "put_right", "corrected_by", "corrected_at", "id",
    )  # fmt: skip
    change_form_outer_before_template = "admin/summaries/routingdecision/correct.html"

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return no: a router decides."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return no: every decision is kept."""
        return False

    @admin.display(description=_("message"))
    def shown_message(self, decision: Any) -> str:
        """Return the message's beginning."""
        return excerpt(decision.opening)

    @admin.display(description=_("message"))
    def whole_message(self, decision: RoutingDecision) -> str:
        """Return the message as it was."""
        return format_html(
            '<div dir="auto" style="white-space: pre-wrap">{}</div>', decision.message[:LONGEST_SHOWN]
        )

    @admin.display(description=_("whose"), ordering="actor")
    def owner(self, decision: RoutingDecision) -> str:
        """Return whose message it is."""
        return whose(decision.actor)

    @admin.display(description=_("project"), ordering="project__name")
    def of_project(self, decision: RoutingDecision) -> str:
        """Return a link to the project that was found."""
        return _linked(decision.project)

    @labelled(CONFIDENCE_COLOURS)
    @admin.display(description=_("confidence"), ordering="confidence")
    def shown_confidence(self, decision: RoutingDecision) -> str:
        """Return how sure the router was."""
        return decision.confidence

    @admin.display(description=_("put right"), ordering="corrected_at")
    def put_right(self, decision: RoutingDecision) -> str:
        """Return a link to the project that a person said it was."""
        return _linked(decision.corrected_project)

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses, with that which the page's buttons post to."""
        correct = self.admin_site.admin_view(self.correct_view)
        return [
            path("<path:object_id>/correct/", correct, name="summaries_routingdecision_correct"),
            *super().get_urls(),
        ]

    def correct_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Say which project the message belongs to."""

        def press(decision: RoutingDecision, reason: str) -> Done:
            name = request.POST.get("project", "").replace("\x00", "")[:LONGEST_NAME]
            correct_routing(
                decision=decision, project_name=name, by=principal(request), reason=reason, now=clock()
            )
            return Done(gettext("Messages like this one go to %(name)s from now on.") % {"name": name})

        return posted(
            self,
            request,
            object_id,
            press,
            may=partial(self.has_change_permission, request),
            logged="correct",
        )

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the projects that the message may belong to."""
        names = Project.objects.of(row.actor_id).order_by("name").values_list("name", flat=True)
        return {
            "may_change": self.has_change_permission(request, row),
            "project_names": list(names[:MOST_OFFERED]),
            "show_save": False,
            "show_save_and_continue": False,
        }


def _linked(project: Project | None) -> str:
    return link_to("admin:summaries_project_change", project.pk, project.name) if project else "-"
