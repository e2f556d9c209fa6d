"""Screens of projects and of their documents: read, edited and restored through the actions alone."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import RangeDateTimeFilter, RelatedDropdownFilter
from unfold.widgets import UnfoldAdminTextInputWidget

from memoryhub.access.actions import VersionMismatch
from memoryhub.access.domain import Forbidden
from memoryhub.access.tenancy import UnknownRow
from memoryhub.admin.base import (
    ActingAdmin,
    ActingForm,
    UserFilter,
    about,
    clock,
    excerpt,
    link_to,
    outdated,
    principal,
    whose,
)
from memoryhub.admin.differences import compared
from memoryhub.admin.fields import ProseField, ReasonField
from memoryhub.admin.pressing import Done, posted, small_number
from memoryhub.tenants.domain import Trust
from summaries.actions.daily import daily_events
from summaries.actions.documents import DocumentTooLong, believe_entries, restore_version, write_document
from summaries.actions.projects import ProjectExists, change_project, delete_project, documents_of
from summaries.domain.documents import LONGEST_DOCUMENT
from summaries.domain.projects import LONGEST_DESCRIPTION, LONGEST_NAME, BadProjectName, DocumentKind
from summaries.models import Document, DocumentEntry, DocumentVersion, Project

LATEST_VERSIONS = 20
SHOWN_DAYS = 7
LATEST_ENTRIES = 50


class CuratedForm(ActingForm):
    """A form whose row has a version, and whose change has a reason."""

    expected_version = forms.IntegerField(required=False, widget=forms.HiddenInput())
    reason = ReasonField()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.initial["expected_version"] = self.instance.version


class ProjectForm(CuratedForm):
    """What a project is called and what it is about."""

    name = forms.CharField(max_length=LONGEST_NAME, widget=UnfoldAdminTextInputWidget())
    description = forms.CharField(
        required=False,
        max_length=LONGEST_DESCRIPTION,
        widget=UnfoldAdminTextInputWidget(),
        help_text=_("Stands in the catalog, and in MEMORY.md as its block quote."),
    )

    class Meta:
        model = Project
        fields = ("name", "description")

    # The actions decide about the values, and say what is wrong with them.
    not_checked_as_stored = frozenset(field.name for field in Project._meta.fields)


class DocumentForm(CuratedForm):
    """A document's text."""

    text = ProseField(rows=24, required=False, max_length=LONGEST_DOCUMENT, label=_("Text"))

    class Meta:
        model = Document
        fields = ("text",)

    not_checked_as_stored = frozenset(field.name for field in Document._meta.fields)


class CuratedAdmin(ActingAdmin):
    """What both screens share: nothing is added here, and who may only look is not asked for a reason."""

    refusals = {
        VersionMismatch: outdated,
        UnknownRow: about(None),
        Forbidden: about(None),
        BadProjectName: about("name"),
        ProjectExists: about("name"),
        DocumentTooLong: about("text"),
    }

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return no: projects and documents are made through the API, where it is known whose they are."""
        return False

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields; who may only look is not asked for a reason."""
        fieldsets = super().get_fieldsets(request, obj)
        if self.has_change_permission(request, obj):
            return fieldsets
        return [
            (title, {**rest, "fields": [name for name in rest["fields"] if name != "reason"]})
            for title, rest in fieldsets
        ]


@admin.register(Project)
class ProjectAdmin(CuratedAdmin):
    """Projects: renamed, described anew and deleted; with their documents and what was done lately."""

    form = ProjectForm
    list_display = ("name", "shown_description", "owner", "updated_at")
    list_filter = (
        ("actor__agent", RelatedDropdownFilter), UserFilter, ("updated_at", RangeDateTimeFilter)
    )  # fmt: skip
    list_select_related = ("actor",)
    search_fields = ("name", "description")
    search_help_text = _("Words of a name or a description, or the id of a project.")
    ordering = ("name", "id")
    readonly_fields = ("id", "owner", "version", "created_at", "updated_at")
    fieldsets = (
        (None, {"fields": ("name", "description", "reason")}),
        (_("Whose, and since when"), {"fields": (("owner", "version"), ("created_at", "updated_at"), "id")}),
    )
    change_form_before_template = "admin/memoryhub/includes/version.html"
    change_form_outer_after_template = "admin/summaries/project/documents.html"

    @admin.display(description=_("description"))
    def shown_description(self, project: Project) -> str:
        """Return what it is about."""
        return excerpt(project.description)

    @admin.display(description=_("whose"), ordering="actor")
    def owner(self, project: Project) -> str:
        """Return whose project it is."""
        return whose(project.actor)

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Project:
        """Change what a person changed."""
        return change_project(
            project=row,
            values=form.changed_values(frozenset({"name", "description"})),
            expected_version=form.cleaned_data["expected_version"],
            by=principal(request),
            reason=form.cleaned_data["reason"],
            now=clock(),
        )

    def delete_model(self, request: HttpRequest, obj: Project) -> None:
        """Delete a project with its documents. One that is gone already is deleted."""
        with suppress(UnknownRow):
            delete_project(project=obj, by=principal(request), now=clock())

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Project]) -> None:
        """Delete projects one by one, so that each leaves its audit entry."""
        for project in queryset.select_related("actor__agent"):
            self.delete_model(request, project)

    def get_deleted_objects(self, objs: Sequence[Project], request: HttpRequest) -> tuple[Any, Any, Any, Any]:
        """Return the projects themselves: their documents go along and are nothing apart from them."""
        rows = list(objs)
        needed = set() if self.has_delete_permission(request) else {self.opts.verbose_name}
        return [str(row) for row in rows], {self.opts.verbose_name_plural: len(rows)}, needed, []

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the documents, and what was done with the project lately, by day."""
        days = daily_events(actor_id=row.actor_id, days=SHOWN_DAYS, now=clock(), project=row.name)
        return {"version": row.version, "documents": documents_of(row), "days": days}


@admin.register(Document)
class DocumentAdmin(CuratedAdmin):
    """Documents: edited, restored and believed; each change keeps the text that it replaces."""

    form = DocumentForm
    list_display = ("name", "of_project", "owner", "token_count", "version", "updated_at")
    list_filter = (
        ("actor__agent", RelatedDropdownFilter), UserFilter, ("updated_at", RangeDateTimeFilter)
    )  # fmt: skip
    list_select_related = ("actor", "project")
    search_fields = ("name", "project__name")
    search_help_text = _("The name of a document or a project, or the id of either.")
    id_fields = ("pk", "project_id")
    ordering = ("-updated_at", "-id")
    readonly_fields = ("id", "of_project", "owner", "token_count", "version", "created_at", "updated_at")
    fieldsets = (
        (None, {"fields": ("text", "reason")}),
        (
            _("What it is of"),
            {
                "fields": (
                    ("of_project", "owner"),
                    ("token_count", "version"),
                    ("created_at", "updated_at"),
                    "id",
                )
            },
        ),
    )
    change_form_before_template = "admin/memoryhub/includes/version.html"
    change_form_outer_before_template = "admin/summaries/document/buttons.html"
    change_form_outer_after_template = "admin/summaries/document/versions.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Return the rows; a list reads no text."""
        rows = super().get_queryset(request)
        match = request.resolver_match
        return rows.defer("text") if match is not None and match.view_name.endswith("_changelist") else rows

    @admin.display(description=_("project"), ordering="project__name")
    def of_project(self, document: Document) -> str:
        """Return a link to the project."""
        return link_to("admin:summaries_project_change", document.project_id, document.project.name)

    @admin.display(description=_("whose"), ordering="actor")
    def owner(self, document: Document) -> str:
        """Return whose project it is."""
        return whose(document.actor)

    def act(self, request: HttpRequest, row: Any, form: Any, change: bool) -> Document:
        """Write the text, where a person changed it."""
        stored = Document.objects.get(pk=row.pk, actor_id=row.actor_id)
        text = form.changed_values(frozenset({"text"})).get("text", stored.text)
        return write_document(
            document=stored,
            text=text,
            kind=DocumentKind.EDIT,
            expected_version=form.cleaned_data["expected_version"],
            by=principal(request),
            reason=form.cleaned_data["reason"],
            now=clock(),
        )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return no: a document goes with its project; its text can be emptied."""
        return False

    def get_urls(self) -> list[URLPattern]:
        """Return the addresses, with those that the page's buttons post to."""
        view = self.admin_site.admin_view
        return [
            path("<path:object_id>/restore/", view(self.restore_view), name="summaries_document_restore"),
            path("<path:object_id>/believe/", view(self.believe_view), name="summaries_document_believe"),
            *super().get_urls(),
        ]

    def restore_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Bring back what the document said at a version."""

        def press(document: Document, reason: str) -> Done:
            number = small_number(request, "number")
            if number is None:
                raise UnknownRow(gettext("There is no such version."))
            restore_version(
                document=document, number=number, expected_version=small_number(request, "version"),
                by=principal(request), reason=reason, now=clock(),
            )  # fmt: skip
            return Done(gettext("Version %(number)d was restored.") % {"number": number})

        return posted(
            self,
            request,
            object_id,
            press,
            may=partial(self.has_change_permission, request),
            logged="restore",
        )

    def believe_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Believe the entries that came from where nobody vouches for them."""

        def press(document: Document, reason: str) -> Done:
            believed = believe_entries(document=document, by=principal(request), reason=reason, now=clock())
            return Done(gettext("%(number)d entries are believed from now on.") % {"number": believed})

        return posted(
            self,
            request,
            object_id,
            press,
            may=partial(self.has_change_permission, request),
            logged="believe",
        )

    def context_of(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return former texts, each with what replaced it, and the entries with time and origin."""
        mine = {"actor_id": row.actor_id, "document_id": row.pk}
        versions = list(DocumentVersion.objects.filter(**mine)[:LATEST_VERSIONS])
        later = [row.text, *(each.text for each in versions)]
        entries = DocumentEntry.objects.filter(**mine)
        return {
            "may_change": self.has_change_permission(request, row),
            "version": row.version,
            "versions": [_change(each, text) for each, text in zip(versions, later, strict=False)],
            "entries": list(entries[:LATEST_ENTRIES]),
            "doubted": entries.filter(trust=Trust.UNTRUSTED).count(),
        }


def _change(version: DocumentVersion, became: str) -> dict[str, Any]:
    """Return a former text with the words that went and those that came in their place."""
    sides = compared(version.text, became)
    was, now = sides if sides is not None else ([], [])
    return {"version": version, "was": was, "now": now, "is_long": sides is None}
