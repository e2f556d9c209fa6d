"""Screens of projects and project events: documents, activity by day, export, deletion."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce, Left
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import method_decorator
from django.utils.http import content_disposition_header
from django.utils.timezone import get_current_timezone, localdate
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_POST
from unfold.widgets import UnfoldAdminTextInputWidget

from memoryhub.admin.base import (
    EXCERPT_SOURCE_LENGTH,
    ActionForm,
    OwnedMixin,
    ReadOnlyAdmin,
    clock,
    excerpt,
    link_to,
    principal,
    title_with_time,
)
from memoryhub.admin.columns import UserFilter, choice_filter, column, text_cell
from memoryhub.admin.curated import EditorAdmin, OwnerForm, VersionedForm, address
from memoryhub.admin.dashboard import RECENT
from memoryhub.admin.object_actions import (
    Change,
    Done,
    object_action,
    row_page,
    submitted_change,
    submitted_number,
    submitted_text,
)
from memoryhub.admin.usage import token_count_label
from memoryhub.auth.access import UnknownRow, actor_for_writing, tenant_for_reading
from memoryhub.errors import DomainError
from memoryhub.llm.errors import ProviderError
from memoryhub.zones import day_end, day_start
from summaries.actions.compaction import compaction_states, refused_compactions
from summaries.actions.documents import add_document, undo_project_change
from summaries.actions.files import zip_project
from summaries.actions.projects import change_project, create_project, daily_totals, delete_project
from summaries.actions.summarizers import Digest, digest
from summaries.admin.base import (
    CONFIDENCES,
    EVENT_OUTCOMES,
    EVENTS,
    OUTCOMES,
    STATUS_COLOURS,
    STATUSES,
    file_name,
    person_may,
    shown_name,
)
from summaries.admin.documents import length_label, pending_entries_of
from summaries.admin.project_lifecycle import ProjectLife
from summaries.domain.documents import DOCUMENTS, MEMORY, document_order
from summaries.domain.projects import MAX_DESCRIPTION_LENGTH, MAX_NAME_LENGTH, DayTotals, ProjectStatus, describe_day
from summaries.domain.summaries import NoRoom
from summaries.models import Document, DocumentEntry, DocumentVersion, Project, ProjectEvent, RoutingDecision

DAYS_SHOWN = 7
MAX_EVENTS = 20
MAX_DAY_EVENTS = 200
MAX_DECISIONS = 10
MAX_DOCUMENTS = 200


class ProjectForm(VersionedForm):
    name = forms.CharField(label=_("Name"), max_length=MAX_NAME_LENGTH, widget=UnfoldAdminTextInputWidget())
    description = forms.CharField(
        label=_("Description"),
        required=False,
        max_length=MAX_DESCRIPTION_LENGTH,
        widget=UnfoldAdminTextInputWidget(),
        help_text=_("Shown in the catalog, and in MEMORY.md as its block quote."),
    )

    class Meta:
        model = Project
        fields = ("name", "description")


class NewProjectForm(OwnerForm, ActionForm):
    name = forms.CharField(
        label=_("Name"),
        max_length=MAX_NAME_LENGTH,
        widget=UnfoldAdminTextInputWidget(),
        help_text=_(
            "Small letters a to z and digits, words joined by hyphens; any other text is answered with a name."
        ),
    )
    description = forms.CharField(
        label=_("Description"), required=False, max_length=MAX_DESCRIPTION_LENGTH, widget=UnfoldAdminTextInputWidget()
    )

    class Meta:
        model = Project
        fields = ("name", "description")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["user_id"].help_text = _("Empty: a project of the agent itself.")


_STATUS_CONDITIONS = {
    ProjectStatus.ACTIVE: Q(deleted_at=None, archived_at=None),
    ProjectStatus.ARCHIVED: Q(deleted_at=None, archived_at__isnull=False),
    ProjectStatus.DELETED: Q(deleted_at__isnull=False),
}
StatusFilter = choice_filter(
    _("state"),
    "status",
    lambda: [(status.value, STATUSES[status]) for status in ProjectStatus],
    lambda rows, status: rows.filter(_STATUS_CONDITIONS.get(status, Q(deleted_at=None))),  # type: ignore[call-overload]
)


@admin.register(Project)
class ProjectAdmin(ProjectLife, EditorAdmin):
    empty_hint = _("Messages are routed to projects. The + button above creates one.")
    form = ProjectForm
    add_form = NewProjectForm
    allows = frozenset({"add", "change", "delete"})
    list_display = ("name", "shown_description", "shown_status", "owner", "updated_at")
    list_filter = (StatusFilter, "actor__agent", UserFilter, "updated_at")
    list_select_related = ("actor",)
    search_fields = ("name", "description")
    search_help_text = _("Words of a name or a description, or the id of a project.")
    ordering = ("name", "id")
    readonly_fields = ("id", "owner", "version", "created_at", "updated_at")
    fieldsets = (
        (None, {"fields": ("name", "description", "reason")}),
        (_("Owner and dates"), {"fields": (("owner", "version"), ("created_at", "updated_at"), "id")}),
    )
    add_fieldsets = ((None, {"fields": (("agent", "user_id"), "name", "description")}),)
    change_form_before_template = "admin/memoryhub/includes/version.html"
    change_form_outer_before_template = "admin/summaries/project/above.html"
    change_form_outer_after_template = "admin/summaries/project/below.html"

    shown_description = column(_("description"), lambda project: excerpt(project.description))
    shown_status = column(
        _("state"),
        lambda project: (str(project.status), STATUSES[project.status]),
        ordering=Coalesce("deleted_at", "archived_at"),  # the state is computed, not a column
        colours=STATUS_COLOURS,
    )

    def title_of(self, row: Any) -> str:
        return shown_name(row)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_open = obj is None or obj.status is ProjectStatus.ACTIVE
        return is_open and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        is_there = obj is None or obj.status is not ProjectStatus.DELETED
        return is_there and super().has_delete_permission(request, obj)

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Project:
        if not change:
            by, now = principal(request), clock()
            agent, user_id = form.cleaned_data["agent"], form.cleaned_data["user_id"]
            actor = actor_for_writing(by, agent.pk, user_id, now=now)
            name, description = form.cleaned_data["name"], form.cleaned_data["description"]
            return create_project(actor=actor, name=name, description=description, by=by, now=now)
        stored = Project.objects.get(pk=row.pk, actor_id=row.actor_id)
        memory = stored.current_documents.filter(name=MEMORY).only("version").first()
        changed = change_project(
            project=row,
            values=form.changed_values(frozenset({"name", "description"})),
            expected_version=form.cleaned_data["expected_version"],
            **submitted_change(request),
        )
        if changed.version != stored.version:
            values: dict[str, Any] = {"name": stored.name, "version": changed.version}
            if changed.description != stored.description:
                values["memory"] = memory.version if memory else 0
            words = gettext("%(name)s was changed.") % {"name": changed.name}
            self.offer_undo(request, words, address("undo_edit", changed, **values))
        return changed

    # Deletion

    def delete_model(self, request: HttpRequest, obj: Project) -> None:
        with suppress(UnknownRow):
            delete_project(project=obj, **submitted_change(request))

    def related_counts(self, rows: Sequence[Project]) -> Mapping[Any, int]:
        """Return the counts of what goes with projects; decisions and events stay."""
        of_actors: dict[str, list[UUID]] = {"actor_id__in": [row.actor_id for row in rows]}
        documents = Document.objects.filter(**of_actors, project__in=rows)
        keys = list(documents.values_list("pk", flat=True))
        corrections = RoutingDecision.objects.filter(**of_actors, corrected_project__in=rows)
        return {
            _("documents"): len(keys),
            _("versions of documents"): DocumentVersion.objects.filter(**of_actors, document_id__in=keys).count(),
            _("entries with their origin"): DocumentEntry.objects.filter(**of_actors, document_id__in=keys).count(),
            _("corrections that led messages here"): corrections.count(),
        }

    # Further pages and buttons

    @object_action()
    def undo_edit_view(self, request: HttpRequest, project: Project, change: Change) -> Done:
        undo_project_change(
            project=project,
            name=submitted_text(request, "name"),
            memory_version=submitted_number(request, "memory"),
            expected_version=submitted_number(request, "version"),
            **change,
        )
        return Done(gettext("The change was undone."), logged="undo")

    @object_action()
    def add_document_view(self, request: HttpRequest, project: Project, change: Change) -> Done:
        document = add_document(
            project=project,
            name=submitted_text(request, "name"),
            topic=submitted_text(request, "topic")[:MAX_DESCRIPTION_LENGTH],
            **change,
        )
        words = gettext("%(name)s was added; edit it here.") % {"name": document.name}
        return Done(words, to=address("change", document), undo=address("remove", document))

    @row_page
    @method_decorator(require_POST)
    def export_view(self, request: HttpRequest, project: Project) -> HttpResponse:
        """Return the project's files as an archive; audited, so a POST."""
        if not person_may(request, "view_document"):
            raise PermissionDenied
        archive = zip_project(project=project, by=principal(request), now=clock())
        answer = HttpResponse(archive, content_type="application/zip")
        name = file_name(f"{project.name}.zip", project.description)
        answer["Content-Disposition"] = str(content_disposition_header(True, name))
        return answer

    @row_page
    def day_view(self, request: HttpRequest, project: Project) -> HttpResponse:
        """Show a day's activity; a POST writes a digest of the day's sessions."""
        try:
            day = date.fromisoformat(submitted_text(request, "day"))
        except ValueError:
            day = localdate(clock())
        result = self._digest(request, project, day) if request.method == "POST" else None
        sees_events = person_may(request, "view_projectevent")
        events = _events(project, day, MAX_DAY_EVENTS + 1) if sees_events else []
        return self.subpage(
            request,
            project,
            "summaries/project/day",
            title=_("%(name)s on %(day)s") % {"name": project.name, "day": day.isoformat()},
            day=day,
            sums=_sums(project, day, day),
            events=events[:MAX_DAY_EVENTS],
            more=len(events) > MAX_DAY_EVENTS,
            may_digest=self._may_digest(request, project),
            session_filter=submitted_text(request, "of") or "project",
            digest=result,
        )

    def _may_digest(self, request: HttpRequest, project: Project) -> bool:
        return self.has_change_permission(request, project) and person_may(request, "view_summary")

    def _digest(self, request: HttpRequest, project: Project, day: date) -> Digest | None:
        if not self._may_digest(request, project):
            raise PermissionDenied
        tenant = tenant_for_reading(principal(request), project.actor.agent_id, project.actor.user_id or None)
        zone = get_current_timezone()
        name = project.name if submitted_text(request, "of") != "all" else None
        try:
            return digest(tenant=tenant, since=day_start(day, zone), until=day_end(day, zone), project=name)
        except DomainError as error:
            messages.warning(request, str(error))
        except (ProviderError, NoRoom):
            messages.error(request, gettext("The language model did not answer. Try again later."))
        return None

    # Context of the page

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        stored = Project.objects.select_related("actor__agent").get(pk=row.pk, actor_id=row.actor_id)
        today = localdate(clock())
        rows = stored.current_documents.defer("text").order_by("name")
        documents = sorted(rows[:MAX_DOCUMENTS], key=lambda document: document_order(document.name))
        states = compaction_states(project=stored, documents=documents)
        reads = person_may(request, "view_document")
        sees_events = person_may(request, "view_projectevent")
        return {
            **self.lifecycle_context(request, stored),
            "version": stored.version,
            "project_name": stored.name,
            "may_change": self.has_change_permission(request, row),
            "may_change_documents": stored.archived_at is None and person_may(request, "change_document"),
            "reads_documents": reads,
            "documents": [
                {
                    "document": document,
                    "state": states[document.pk],
                    "length": length_label(states[document.pk]),
                    "outcome": OUTCOMES.get(states[document.pk].outcome, states[document.pk].outcome),
                }
                for document in documents
            ],
            "missing": sorted(set(DOCUMENTS) - {document.name for document in documents}, key=document_order),
            "entries": pending_entries_of(documents) if reads else None,
            "today": today,
            "days": _sums(stored, today - timedelta(days=DAYS_SHOWN - 1), today),
            "events": _events(stored, today, MAX_EVENTS) if sees_events else None,
            "decisions": _decisions(stored) if person_may(request, "view_routingdecision") else None,
        }


def _sums(project: Project, first: date, last: date) -> list[dict[str, Any]]:
    days = daily_totals(
        actor_id=project.actor_id, first=first, last=last, project=project.name, zone=get_current_timezone()
    )
    if not days and first == last:
        days = [DayTotals(first)]
    return [{"day": day.day, "words": describe_day(day, outcome_labels=EVENT_OUTCOMES)} for day in days]


def _events(project: Project, day: date, limit: int) -> list[dict[str, Any]]:
    zone = get_current_timezone()
    rows = ProjectEvent.objects.filter(
        actor_id=project.actor_id,
        project_name=project.name,
        created_at__gte=day_start(day, zone),
        created_at__lt=day_end(day, zone),
    )
    return [
        {
            "event": event,
            "kind": EVENTS[event.kind],
            "outcome": EVENT_OUTCOMES.get(event.outcome, event.outcome),
            "tokens": token_count_label(event.tokens) if event.tokens else "",
        }
        for event in rows.order_by("-created_at", "-id")[:limit]
    ]


def _decisions(project: Project) -> list[dict[str, Any]]:
    either = Q(project=project) | Q(corrected_project=project)
    rows = RoutingDecision.objects.filter(either, actor_id=project.actor_id).order_by("-created_at", "-id")
    rows = rows.select_related("corrected_project").defer("message")
    latest = rows.annotate(opening=Left("message", EXCERPT_SOURCE_LENGTH))[:MAX_DECISIONS]
    return [
        {"decision": decision, "message": excerpt(decision.opening), "confidence": CONFIDENCES[decision.confidence]}
        for decision in latest
    ]


def _refused(events: QuerySet[ProjectEvent], choice: str) -> QuerySet[ProjectEvent]:
    if choice != "refused":
        return events
    return events.filter(pk__in=refused_compactions(since=clock() - RECENT).values("pk"))


RefusedFilter = choice_filter(_("outcome"), "outcome", lambda: [("refused", _("Refused compactions"))], _refused)


@admin.register(ProjectEvent)
class ProjectEventAdmin(OwnedMixin, ReadOnlyAdmin):
    list_display = ("created_at", "shown_kind", "of_project", "owner", "shown_outcome", "tokens")
    list_filter = (RefusedFilter, "kind", "actor__agent", UserFilter, "created_at")
    list_select_related = ("actor",)
    search_fields = ("project_name", "outcome")
    search_help_text = _("A project's name, an outcome, or the id of an event or a project.")
    id_fields = ("pk", "project_id")
    ordering = ("-id",)
    fields = (("created_at", "shown_kind", "of_project", "owner"), ("shown_outcome", "tokens", "details", "id"))

    def title_of(self, row: ProjectEvent) -> str:
        return title_with_time(f"{EVENTS[row.kind]} {row.project_name}".rstrip(), row.created_at)

    shown_kind = column(_("kind"), lambda event: EVENTS[event.kind], ordering="kind")
    shown_outcome = column(
        _("outcome"), lambda event: EVENT_OUTCOMES.get(event.outcome, event.outcome) or "–", ordering="outcome"
    )

    @admin.display(description=_("project"), ordering="project_name")
    def of_project(self, event: ProjectEvent) -> str:
        if event.project_id is None:
            return text_cell(event.project_name)
        return link_to("admin:summaries_project_change", event.project_id, text_cell(event.project_name))
