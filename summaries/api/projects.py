"""REST views of projects, their documents, the routing of messages to them, and their events."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse
from rest_framework import status
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from conversations.domain.routing import CHANNEL
from conversations.models import Session
from memoryhub.api.fields import NoBody, TenantQuery
from memoryhub.api.pagination import PageQuery, page_of
from memoryhub.api.renderers import PLAIN, PlainRenderer
from memoryhub.api.views import IF_MATCH, ApiView, etag, operation, wants_none
from memoryhub.auth.access import Tenant
from memoryhub.auth.principals import Scope
from memoryhub.llm.errors import ProviderUnavailable
from memoryhub.tenancy.policies import effective_policy, zone_of
from memoryhub.tenancy.policy import TrustPolicy
from summaries.actions.compaction import enqueue_compaction
from summaries.actions.corrections import correct_routing
from summaries.actions.documents import (
    append_entry,
    backups_of,
    delete_document,
    find_document,
    put_document,
    read_document,
    restore_document,
)
from summaries.actions.entries import is_pending, pending_digests
from summaries.actions.projects import (
    catalog_of,
    change_project,
    create_project,
    daily_events,
    delete_project,
    documents_of,
    project_named,
)
from summaries.actions.routing import route_message
from summaries.api.project_serializers import (
    ACTIVE,
    PENDING,
    AppendedOut,
    CorrectionIn,
    DailyQuery,
    DaysOut,
    DocumentIn,
    DocumentOut,
    DocumentQuery,
    DocumentRestoreIn,
    DocumentVersionOut,
    EntryIn,
    EntryOut,
    EventListQuery,
    EventOut,
    ProjectIn,
    ProjectListQuery,
    ProjectOut,
    ProjectPatch,
    ProjectWithDocumentsOut,
    RouteIn,
    RouteOut,
)
from summaries.api.summaries import IF_NONE_MATCH, JobIdOut, unavailable_problem
from summaries.domain.documents import line_digest, lines_by_digest, without_lines
from summaries.domain.projects import ProjectStatus
from summaries.models import Document, DocumentVersion, Project, ProjectEvent, RoutingDecision


class ProjectView(ApiView):
    """Base of the views of projects, whose owner is in the query."""

    def tenant(self) -> Tenant:
        return self.reading(self.query(TenantQuery))

    def project(self, name: str) -> Project:
        """Return the project of this name if the key may see it; 404 otherwise."""
        return project_named(actor_id=self.tenant().actor_id, name=name)

    def document(self, project_name: str, document_name: str) -> Document:
        return find_document(project=self.project(project_name), name=document_name)

    @property
    def shows_pending(self) -> bool:
        """Return whether the query asks for texts with the entries that wait for approval."""
        return bool(self.query(DocumentQuery)["pending"])

    def visible_text(self, text: str, pending: set[bytes]) -> str:
        return text if self.shows_pending else without_lines(text, pending)

    def document_answer(self, document: Document, status_code: int = 200, **more: Any) -> Response:
        """Return a document with its ETag, without the entries that wait for approval unless these are asked for."""
        pending = pending_digests(document)
        document.pending_entries = sum(  # type: ignore[attr-defined]
            line_digest(line) in pending for line in (document.text.splitlines() if pending else ())
        )
        document.text = self.visible_text(document.text, pending)
        return self.tagged({**DocumentOut(document).data, **more}, document.version, status_code)

    def visible_versions(self, document: Document, versions: Iterable[DocumentVersion]) -> list[Any]:
        """Return former texts, without what waits for approval unless it is asked for."""
        pending, versions = pending_digests(document), list(versions)
        for version in versions:
            version.text = self.visible_text(version.text, pending)
        return self.shown(DocumentVersionOut, versions)

    @staticmethod
    def tagged(body: Any, version: int, status_code: int = status.HTTP_200_OK) -> Response:
        return Response(body, status=status_code, headers={"ETag": etag(version)})


class Projects(ProjectView):
    @operation("projects_list", Scope.READ, parameters=[ProjectListQuery, PageQuery], responses=page_of(ProjectOut))
    def get(self, request: Request) -> Response:
        """List an actor's projects by name, the active ones if no status is given."""
        values = self.query(ProjectListQuery)
        rows = Project.objects.of(self.reading(values).actor_id).select_related("actor", "merged_into")
        filters = {
            ProjectStatus.ACTIVE: rows.active(),
            ProjectStatus.ARCHIVED: rows.not_deleted().exclude(archived_at=None),
            ProjectStatus.DELETED: rows.exclude(deleted_at=None),
        }
        return self.page(filters.get(values["status"], rows), ProjectOut, ordering=("name", "id"))

    @operation("projects_create", Scope.WRITE, request=ProjectIn, responses={201: ProjectOut})
    def post(self, request: Request) -> Response:
        """Create a project; for an invalid name, the error proposes a valid one."""
        values = self.validated(ProjectIn)
        project = create_project(
            actor=self.writing(values),
            name=values["name"],
            description=values["description"],
            by=self.principal,
            now=self.now,
        )
        return self.tagged(ProjectOut(project).data, project.version, status.HTTP_201_CREATED)


class OneProject(ProjectView):
    @operation("project_get", Scope.READ, parameters=[TenantQuery], responses=ProjectWithDocumentsOut)
    def get(self, request: Request, project_name: str) -> Response:
        """Return a project with the list of its documents."""
        return self._answer(self.project(project_name))

    @operation(
        "project_update",
        Scope.WRITE,
        request=ProjectPatch,
        parameters=[TenantQuery, IF_MATCH],
        responses=ProjectWithDocumentsOut,
    )
    def patch(self, request: Request, project_name: str) -> Response:
        """Change a project's name or description; MEMORY.md's block quote follows."""
        values = self.validated(ProjectPatch)
        reason = values.pop("reason")
        changed = change_project(project=self.project(project_name), values=values, reason=reason, **self.change)
        return self._answer(changed)

    @operation("project_delete", Scope.CURATE, parameters=[TenantQuery, IF_MATCH], responses={204: None})
    def delete(self, request: Request, project_name: str) -> Response:
        """Delete a project with its documents; for 30 days, undoing the event of it brings it back."""
        delete_project(project=self.project(project_name), **self.change)
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _answer(self, project: Project) -> Response:
        body = ProjectWithDocumentsOut(project, context={"documents": documents_of(project)})
        return self.tagged(body.data, project.version)


class Catalog(ProjectView):
    renderer_classes = [JSONRenderer, PlainRenderer]

    @operation(
        "projects_catalog",
        Scope.READ,
        parameters=[TenantQuery],
        responses={(200, PLAIN): OpenApiResponse(OpenApiTypes.STR, description="`1. **name** - description`")},
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Return the numbered list of projects that a router reads, about 30 tokens each."""
        text = catalog_of(actor_id=self.tenant().actor_id)
        return HttpResponse(text, content_type=f"{PLAIN}; charset=utf-8")


class OneDocument(ProjectView):
    @operation("document_get", Scope.READ, parameters=[DocumentQuery], responses=DocumentOut)
    def get(self, request: Request, project_name: str, document_name: str) -> Response:
        """Return a document, and record that it was read; with If-None-Match, only whether it exists (304).

        Its text leaves out the entries that wait for approval, unless `pending` asks for them.
        """
        if wants_none(request):
            document = self.document(project_name, document_name)
        else:
            document = read_document(project=self.project(project_name), name=document_name, now=self.now)
        return self.document_answer(document)

    @operation(
        "document_put",
        Scope.WRITE,
        request=DocumentIn,
        parameters=[DocumentQuery, IF_MATCH, IF_NONE_MATCH],
        responses=DocumentOut,
    )
    def put(self, request: Request, project_name: str, document_name: str) -> Response:
        """Replace a document's text; the former text is kept as a version.

        Entries that wait for approval stay at its end; with `pending`, the text replaces them too.
        """
        values = self.validated(DocumentIn)
        document = put_document(
            project=self.project(project_name),
            name=document_name,
            text=values["text"],
            reason=values["reason"],
            is_new=wants_none(request),
            keeps_pending=not self.shows_pending,
            **self.change,
        )
        return self.document_answer(document)

    @operation("document_delete", Scope.CURATE, parameters=[TenantQuery, IF_MATCH], responses={204: None})
    def delete(self, request: Request, project_name: str, document_name: str) -> Response:
        """Delete a document; for 30 days, undoing the event of it brings it back."""
        delete_document(document=self.document(project_name, document_name), **self.change)
        return Response(status=status.HTTP_204_NO_CONTENT)


class DocumentVersions(ProjectView):
    @operation(
        "document_versions_list",
        Scope.READ,
        parameters=[DocumentQuery, PageQuery],
        responses=page_of(DocumentVersionOut),
    )
    def get(self, request: Request, project_name: str, document_name: str) -> Response:
        """List a document's former texts, newest first."""
        document = self.document(project_name, document_name)
        return self.page(
            document.versions.all(),
            DocumentVersionOut,
            ordering=("-number",),
            shown=partial(self.visible_versions, document),
        )


class DocumentBackups(ProjectView):
    @operation("document_backups_list", Scope.READ, parameters=[DocumentQuery], responses=page_of(DocumentVersionOut))
    def get(self, request: Request, project_name: str, document_name: str) -> Response:
        """Return the last three texts that a compaction replaced, newest first."""
        document = self.document(project_name, document_name)
        results = self.visible_versions(document, backups_of(document))
        return Response({"next": None, "previous": None, "results": results})


class DocumentRestore(ProjectView):
    @operation(
        "document_restore",
        Scope.WRITE,
        request=DocumentRestoreIn,
        parameters=[TenantQuery, IF_MATCH],
        responses=DocumentOut,
    )
    def post(self, request: Request, project_name: str, document_name: str) -> Response:
        """Restore the text of a version; backups are versions."""
        values = self.validated(DocumentRestoreIn)
        document = self.document(project_name, document_name)
        document = restore_document(document=document, number=values["number"], reason=values["reason"], **self.change)
        return self.document_answer(document)


class DocumentEntries(ProjectView):
    @operation("document_entries_list", Scope.READ, parameters=[TenantQuery, PageQuery], responses=page_of(EntryOut))
    def get(self, request: Request, project_name: str, document_name: str) -> Response:
        """List a document's appended lines with their provenance, newest first."""
        document = self.document(project_name, document_name)
        shown = partial(EntryOut, many=True, context={"lines": lines_by_digest(document.text)})
        return self.page(
            document.entries.all(), EntryOut, ordering=("-created_at", "-id"), shown=lambda page: shown(page).data
        )

    @operation(
        "document_entries_create",
        Scope.WRITE,
        request=EntryIn,
        parameters=[TenantQuery, IF_MATCH],
        responses={201: AppendedOut},
    )
    def post(self, request: Request, project_name: str, document_name: str) -> Response:
        """Append one line to a document, which is created if necessary; return whether the line is pending."""
        values = self.validated(EntryIn)
        project = self.project(project_name)
        policy = effective_policy(TrustPolicy, project.actor.agent, project.actor)
        document = append_entry(
            project=project,
            document_name=document_name,
            text=values["text"],
            pinned=values["pinned"],
            sources={"message_ids": [], "channel": values["channel"]},
            trust=policy.trust(channel=values["channel"], source_is_trusted=self.principal.is_trusted),
            **self.change,
        )
        pending = is_pending(document=document, text=values["text"], pinned=values["pinned"], at=self.now)
        state = PENDING if pending else ACTIVE
        return self.document_answer(document, status.HTTP_201_CREATED, status=state)


class Route(ProjectView):
    idempotent_in_transaction = False

    @operation("projects_route", Scope.WRITE, request=RouteIn, responses=RouteOut)
    def post(self, request: Request) -> Response:
        """Return a message's project, the confidence and the action; the decision is stored."""
        values = self.validated(RouteIn)
        actor, session = self.writing(values), None
        if values["session_id"] is not None:
            session = self.owned(Session.objects.filter(actor_id=actor.pk), values["session_id"])
        decision = route_message(
            actor=actor,
            message=values["message"],
            session=session,
            by=self.principal,
            now=self.now,
            channel=values.get("channel") or (session.channel if session else CHANNEL),
        )
        return Response(RouteOut(decision).data)


class Routes(ProjectView):
    @operation("routes_list", Scope.READ, parameters=[TenantQuery, PageQuery], responses=page_of(RouteOut))
    def get(self, request: Request) -> Response:
        """List decisions, newest first."""
        rows = RoutingDecision.objects.filter(actor_id=self.tenant().actor_id)
        rows = rows.select_related("project", "corrected_project")
        return self.page(rows, RouteOut, ordering=("-created_at", "-id"))


class RouteCorrection(ProjectView):
    @operation("route_correct", Scope.WRITE, request=CorrectionIn, responses=RouteOut)
    def post(self, request: Request, route_id: Any) -> Response:
        """Correct a message's project; similar messages are routed there from now on."""
        values = self.validated(CorrectionIn)
        decision = correct_routing(
            decision=self.owned(RoutingDecision.objects.all(), route_id),
            project_name=values["project"],
            by=self.principal,
            reason=values["reason"],
            now=self.now,
        )
        return Response(RouteOut(decision).data)


class Events(ProjectView):
    @operation("project_events_list", Scope.READ, parameters=[EventListQuery, PageQuery], responses=page_of(EventOut))
    def get(self, request: Request) -> Response:
        """List events, newest first."""
        values = self.query(EventListQuery)
        rows = ProjectEvent.objects.filter(actor_id=self.reading(values).actor_id)
        if "project" in values:
            rows = rows.filter(project_name=values["project"])
        if "kind" in values:
            rows = rows.filter(kind=values["kind"])
        return self.page(rows, EventOut, ordering=("-created_at", "-id"))


class DailyEvents(ProjectView):
    @operation("project_events_daily", Scope.READ, parameters=[DailyQuery], responses=DaysOut)
    def get(self, request: Request) -> Response:
        """Return the number of events and tokens by day, project and kind."""
        values = self.query(DailyQuery)
        tenant = self.reading(values)
        rows = daily_events(
            actor_id=tenant.actor_id,
            days=values["days"],
            now=self.now,
            project=values.get("project"),
            zone=zone_of(tenant.agent, tenant.actor),
        )
        return Response(DaysOut({"results": rows}).data)


class DocumentCompaction(ProjectView):
    problems = {ProviderUnavailable: unavailable_problem}

    @operation("document_compact", Scope.WRITE, request=NoBody, parameters=[TenantQuery], responses={202: JobIdOut})
    def post(self, request: Request, project_name: str, document_name: str) -> Response:
        """Compact a document in the background, even below its limit; pinned.md never is."""
        document = self.document(project_name, document_name)
        job_id = enqueue_compaction(document=document, by=self.principal, now=self.now)
        return Response({"job_id": job_id}, status=status.HTTP_202_ACCEPTED)
